"""Small random problems, for tests that compare with enumeration."""

from dataclasses import dataclass
from functools import reduce
from itertools import permutations, product
from math import factorial

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import reshuffle as rs


@dataclass(frozen=True)
class Case:
    """A problem with its truth, a partition, a step and a start; and what Section 2 defines of them."""

    problem: rs.LeastSquares
    partition: list
    step: float
    start: np.ndarray
    covariance: np.ndarray

    def scheme(self, name):
        if name == "full":
            return rs.FullBatch()
        return {"reshuffling": rs.RandomReshuffling, "replacement": rs.WithReplacement}[name](self.partition)

    def run(self, scheme):
        return rs.descend(self.problem, self.scheme(scheme), self.step, start=self.start)

    @property
    def W(self):
        """The batch covariances X_b'X_b / m_b."""
        return [self.problem.X[rows].T @ self.problem.X[rows] / len(rows) for rows in self.partition]

    def affine_maps(self, scheme):
        """A (p, p) and N (p, n) of every equally likely epoch, e -> A e + N eta, visit by visit."""
        X, count = self.problem.X, len(self.partition)
        parts = [range(len(X))] if scheme == "full" else self.partition
        orders = {
            "full": [(0,)],
            "reshuffling": list(permutations(range(count))),
            "replacement": list(product(range(count), repeat=count)),
        }[scheme]
        A, N = np.tile(np.eye(X.shape[1]), (len(orders), 1, 1)), np.zeros((len(orders), *X.T.shape))
        visits, inputs = np.tile(np.eye(X.shape[1]), (len(parts), 1, 1)), np.zeros((len(parts), *X.T.shape))
        for rows, visit, entering in zip(parts, visits, inputs, strict=True):
            visit -= self.step / len(rows) * X[rows].T @ X[rows]
            entering[:, rows] = self.step / len(rows) * X[rows].T
        for batches in np.transpose(orders):
            A, N = visits[batches] @ A, visits[batches] @ N + inputs[batches]
        return A, N

    def mean_map(self, scheme):
        """E A and E N of an epoch."""
        return tuple(part.mean(axis=0) for part in self.affine_maps(scheme))

    def iterate(self, scheme, epochs):
        """The mean iterate, epoch by epoch."""
        A, N = self.mean_map(scheme)
        return reduce(lambda beta, _: A @ beta + N @ self.problem.y, range(epochs), self.start)

    def true_risk(self, scheme, epochs):
        """E over the noise of |mean iterate - beta_star|_Sigma^2, by carrying the linear map of the noise along."""
        A, N = self.mean_map(scheme)
        error, noise = self.start - self.problem.beta_star, np.zeros_like(N)
        for _ in range(epochs):
            error, noise = A @ error, A @ noise + N
        return error @ self.covariance @ error + self.problem.noise**2 * np.trace(
            noise.T @ self.covariance @ noise
        )

    def modifiers(self, batch):
        """Pi_b: mean products over batches visited before b; over those after b; and signed sums over words."""
        W, eye = self.W, np.eye(self.problem.p)
        orders = list(permutations(range(len(W))))

        def means(chosen):
            words = [chosen(order, order.index(batch)) for order in orders]
            visits = [[eye - self.step * W[j] for j in word] for word in words]
            return np.mean([reduce(lambda done, each: each @ done, word, eye) for word in visits], axis=0)

        total, others = eye, [W[j] for j in range(len(W)) if j != batch]
        for length in range(1, len(others) + 1):
            words = sum(reduce(np.matmul, word) for word in permutations(others, length))
            total = total + (-self.step) ** length / factorial(length + 1) * words
        return means(lambda order, at: order[:at]), means(lambda order, at: order[at + 1 :]), total


SCHEMES = ["full", "reshuffling", "replacement"]


def case(n, p, batches, *, seed=0, step=0.05, equal=True, covariance="dense", noise=0.5, rank=None):
    """Draw a case; `rank` makes X rank-deficient, `equal=False` makes ragged batches of shuffled rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    if rank is not None:
        X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    root = rng.standard_normal((p, p)) / np.sqrt(p)
    sigma = {"identity": np.eye(p), "diagonal": np.diag(rng.random(p) + 0.1), "dense": root @ root.T}[
        covariance
    ]
    given = {"identity": None, "diagonal": np.diag(sigma), "dense": sigma}[covariance]
    beta_star = rng.standard_normal(p)
    y = X @ beta_star + noise * rng.standard_normal(n)
    if equal:
        partition = [part.tolist() for part in np.array_split(np.arange(n), batches)]
    else:
        cuts = np.sort(rng.choice(np.arange(1, n), batches - 1, replace=False))
        partition = [part.tolist() for part in np.split(rng.permutation(n), cuts)]
    problem = rs.LeastSquares(X, y, beta_star=beta_star, covariance=given, noise=noise)
    return Case(problem, partition, step, rng.standard_normal(p), sigma)


@st.composite
def cases(draw, max_batches=4, steps=(0.0, 1e-9, 0.01, 0.1, 0.3)):
    """Any shape: wide, tall, rank-deficient, ragged, with every kind of covariance."""
    n = draw(st.integers(1, 9))
    p = draw(st.integers(1, 9))
    tiny = case(
        n,
        p,
        draw(st.integers(1, min(n, max_batches))),
        seed=draw(st.integers(0, 2**32 - 1)),
        step=draw(st.sampled_from(steps)),
        equal=draw(st.booleans()),
        covariance=draw(st.sampled_from(["identity", "diagonal", "dense"])),
        noise=draw(st.sampled_from([0.0, 0.5])),
        rank=draw(st.sampled_from([None, None, min(n, p) - 1 or None])),
    )
    # Steps that are no steps beside the features are refused.
    assume(tiny.step == 0 or tiny.step * np.abs(tiny.problem.X).max() ** 2 > 1e-11)
    return tiny


def close(computed, expected, tolerance=1e-12):
    """Agreement relative to the larger of 1 and the largest entry."""
    computed, expected = np.asarray(computed), np.asarray(expected)
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    worst = float(np.abs(computed - expected).max(initial=0.0)) / scale
    assert worst <= tolerance, f"differs by {worst:.3g} relative to {scale:.3g}"
