"""About how much the random orders add to the test error of a single run, for any step and batch size at once."""

from dataclasses import dataclass

import numpy as np

from reshuffle._core import FloatArray
from reshuffle.planning.mean_steps_left_out import Spectrum
from reshuffle.problem.outputs import beside
from reshuffle.schemes.base import Scheme, Shuffle

_POINTS = 5
"""Looks at the residuals between two epochs."""
_SMALL = 1e-3


@dataclass(frozen=True, eq=False)
class SpreadEstimate:
    """An estimate of tr(W Cov b) over outputs on average, mode by mode.

    In a visit of batch t the gradient is off by xi_t. Samples that are shuffled have Cov(xi_t, xi_u) =
    (B [t = u] - 1) N / (n - 1), those drawn independently B [t = u] N / n, with N the covariance of the gradient of
    one row. It is taken to be diagonal in the modes of W, N = r^2 l, where r^2 is the mean square of the residuals
    along the mean iterate. An epoch then adds step^2 r^2 l / (n - 1) (B sum p^2t - (sum p^t)^2) to the variance of
    a mode, p = 1 - step (l + penalty), and p^2B of it is left after another.

    `run.covariance` knows it without these assumptions, at a price.
    """

    spectrum: Spectrum

    def along(self, scheme: Scheme, step: float, epochs: FloatArray, penalty: float = 0.0) -> FloatArray:
        """After each of the epochs (k,), ascending."""
        n, values = self.spectrum.problem.n, self.spectrum.values
        visits = scheme.steps(n)
        if not scheme.is_random or visits == 1:
            return np.zeros(len(epochs))
        pace = step * (values + penalty)
        added = step**2 * values * _epoch_noise(pace, visits, scheme.shuffle is Shuffle.EVERY_STEP) / (n - 1)
        begin, variance, found = 0.0, np.zeros(len(values)), np.zeros(len(epochs))
        for number, end in enumerate(epochs):
            residual = self._mean_square(step, np.linspace(begin, end, _POINTS) * visits, penalty).mean()
            with np.errstate(over="ignore", invalid="ignore"):
                left = (1 - pace) ** (2 * visits)
                whole = (1 - pace) ** (2 * visits * (end - begin))
                sums = np.where(left == 1, end - begin, (1 - whole) / np.where(left == 1, 1.0, 1 - left))
            variance = whole * variance + added * residual * sums
            found[number], begin = values @ variance, end
        return np.asarray(found * (n / self.spectrum.weights.sum()))

    def _mean_square(self, step: float, visits: FloatArray, penalty: float) -> FloatArray:
        """Of the residuals of the mean iterate on the training rows, over outputs on average, (k,)."""
        problem, values = self.spectrum.problem, self.spectrum.values
        pull = np.square(self.spectrum.pull).sum(axis=1)
        whole = np.square(beside(problem.y)).sum() / problem.n
        rate = 1 - step * (values + penalty)
        with np.errstate(over="ignore"):
            learned = (1 - rate ** visits[:, np.newaxis]) * (values / (values + penalty))
        left = np.square(1 - learned) @ (pull / values)
        return np.asarray((whole - (pull / values).sum() + left) / (problem.outputs or 1))


def _epoch_noise(pace: FloatArray, visits: int, independent: bool) -> FloatArray:
    """B sum_t p^2t - (sum_t p^t)^2 for p = 1 - pace, t < B; the first term alone where draws are independent."""
    rate = 1 - pace
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        squares = np.where(pace == 0, visits, (1 - rate ** (2 * visits)) / (pace * (2 - pace)))
        sums = np.where(pace == 0, visits, (1 - rate**visits) / pace)
    if independent:
        return np.asarray(visits * squares)
    # The two cancel where little happens in an epoch.
    small = np.square(pace * visits) * (visits**2 - 1) / 12
    return np.where(pace * visits < _SMALL, small, np.maximum(visits * squares - sums**2, 0.0))
