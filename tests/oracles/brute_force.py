"""Mini-batch descent by enumeration: plain p x p matrices, every order of the batches, straight from Section 2."""

from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import permutations, product

import numpy as np


@dataclass(frozen=True)
class Setting:
    """A tiny problem cut into batches."""

    X: np.ndarray
    y: np.ndarray
    partition: list
    step: float
    divisors: list | None = None

    @property
    def lengths(self):
        """What the sum of each batch's gradients is divided by: its number of rows, unless given."""
        return [len(rows) for rows in self.partition] if self.divisors is None else self.divisors

    @cached_property
    def W(self):
        """The batch covariances X_b'X_b / m_b."""
        return [
            self.X[rows].T @ self.X[rows] / length
            for rows, length in zip(self.partition, self.lengths, strict=True)
        ]

    @property
    def identity(self):
        return np.eye(self.X.shape[1])

    @cached_property
    def visits(self):
        """What a visit to each batch multiplies the error by, (B, p, p)."""
        return np.array([self.identity - self.step * W for W in self.W])

    @cached_property
    def pulls(self):
        """What a visit to each batch adds to the error per unit of each row's noise, (B, p, n)."""
        pulls = np.zeros((len(self.partition), *self.X.T.shape))
        for input_map, rows, length in zip(pulls, self.partition, self.lengths, strict=True):
            input_map[:, rows] = self.step / length * self.X[rows].T
        return pulls

    def orders(self):
        return list(permutations(range(len(self.partition))))


def chain(matrices, identity):
    """The product of the matrices, the first applied first, hence rightmost."""
    return reduce(lambda done, following: following @ done, matrices, identity)


def affine_maps(setting, sequences):
    """For each sequence of visits the pair (A, N): e -> A e + N eta."""
    A = np.tile(setting.identity, (len(sequences), 1, 1))
    N = np.zeros((len(sequences), *setting.X.T.shape))
    # All sequences make their first visit, then their second, ...
    for batches in np.array(sequences).T:
        visits = setting.visits[batches]
        A, N = visits @ A, visits @ N + setting.pulls[batches]
    return list(zip(A, N, strict=True))


def sequences(setting, scheme):
    """All equally likely sequences of visits in an epoch."""
    batches = range(len(setting.partition))
    if scheme == "full":
        return [(0,)]
    if scheme == "reshuffling":
        return setting.orders()
    return list(product(batches, repeat=len(setting.partition)))


def mean_map(setting, scheme):
    """E A and E N of an epoch."""
    maps = affine_maps(setting, sequences(setting, scheme))
    return sum(A for A, _ in maps) / len(maps), sum(N for _, N in maps) / len(maps)


def modifier_before(setting, batch):
    """Pi_b by its definition: the mean product over the batches visited before b."""
    orders = setting.orders()
    return sum(
        chain([setting.visits[j] for j in order[: order.index(batch)]], setting.identity) for order in orders
    ) / len(orders)


def modifier_after(setting, batch):
    """Pi_b by its second form: the mean product over the batches visited after b."""
    orders = setting.orders()
    return sum(
        chain([setting.visits[j] for j in order[order.index(batch) + 1 :]], setting.identity)
        for order in orders
    ) / len(orders)


def modifier_expanded(setting, batch):
    """Pi_b by its third form: signed sums over ordered distinct batches, with coefficients 1 / (i + 1)!."""
    others = [j for j in range(len(setting.partition)) if j != batch]
    total, factorial = setting.identity, 1
    for length in range(1, len(others) + 1):
        factorial *= length + 1
        words = sum(
            chain([setting.W[j] for j in word], setting.identity) for word in permutations(others, length)
        )
        total = total + (-setting.step) ** length / factorial * words
    return total


def iterate(setting, scheme, start, epochs):
    """The mean iterate, epoch by epoch."""
    A, N = mean_map(setting, scheme)
    beta = start
    for _ in range(epochs):
        beta = A @ beta + N @ setting.y
    return beta


def risk(setting, scheme, start, beta_star, covariance, noise, epochs):
    """E over the noise of |mean iterate - beta_star|_Sigma^2, by carrying the linear map of the noise along."""
    A, N = mean_map(setting, scheme)
    error, noise_map = start - beta_star, np.zeros_like(N)
    for _ in range(epochs):
        error, noise_map = A @ error, A @ noise_map + N
    bias = error @ covariance @ error
    return bias + noise**2 * np.trace(noise_map.T @ covariance @ noise_map)
