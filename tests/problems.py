"""Small random problems, for tests that compare with enumeration."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import reshuffle as rs
from tests.oracles import brute_force


@dataclass(frozen=True)
class Case:
    """A problem with its truth, a partition, a step and a start; and the same for the oracle."""

    problem: rs.LeastSquares
    partition: list
    step: float
    start: np.ndarray
    covariance: np.ndarray

    def setting(self, scheme):
        whole = [list(range(self.problem.n))]
        partition = whole if scheme == "full" else self.partition
        return brute_force.Setting(self.problem.X, self.problem.y, partition, self.step)

    def true_risk(self, scheme, epochs):
        """The risk of the mean iterate, by brute force."""
        truth = self.problem.beta_star, self.covariance, self.problem.noise
        return brute_force.risk(self.setting(scheme), scheme, self.start, *truth, epochs)

    def run(self, scheme):
        return rs.descend(self.problem, self.scheme(scheme), self.step, start=self.start)

    def scheme(self, name):
        if name == "full":
            return rs.FullBatch()
        return {"reshuffling": rs.RandomReshuffling, "replacement": rs.WithReplacement}[name](self.partition)


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
    return case(
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


def close(computed, expected, tolerance=1e-12):
    """Agreement relative to the larger of 1 and the largest entry."""
    computed, expected = np.asarray(computed), np.asarray(expected)
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    worst = float(np.abs(computed - expected).max(initial=0.0)) / scale
    assert worst <= tolerance, f"differs by {worst:.3g} relative to {scale:.3g}"
