"""About how much the random orders add to the test error of a single run, for any step and batch size at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.planning.mean_steps_left_out import Spectrum
from reshuffle.schemes.base import Scheme, Shuffle

_POINTS = 5
"""Looks at the residuals between two epochs."""
_SMALL = 1e-3
_NEAREST = 0.99
"""Of the safe step, beyond which the estimate does not grow: it would be without bound."""


@dataclass(frozen=True, eq=False)
class SpreadEstimate:
    """An estimate of tr(W Cov b) over outputs on average, mode by mode.

    In visit t, of m_t rows, the gradient is off by xi_t. Samples that are shuffled have Cov(xi_t, xi_u) =
    (n / m_t [t = u] - 1) N / (n - 1), those drawn independently n / m_t [t = u] N / (n - 1) or so, with N the
    covariance of the gradient of one row. It is taken to be diagonal in the modes of W, N = r^2 l, where r^2 is the
    mean square of the residuals along the mean iterate. With p = 1 - step (l + penalty) and a_t = p^(B - 1 - t), an
    epoch then adds step^2 r^2 l / (n - 1) (sum a_t^2 n / m_t - (sum a_t)^2) to the variance of a mode, and p^2B of
    it is left after another. That runs have residuals of their own multiplies it by 1 / (1 - step / safe step).

    `run.covariance` knows it without these assumptions, at a price. Orders that are drawn once, at the start,
    spread more than this: what they do in one epoch they do in all.
    """

    spectrum: Spectrum

    def along(
        self, scheme: Scheme, steps: FloatArray, epochs: FloatArray, penalty: float = 0.0
    ) -> FloatArray:
        """For each of the steps (s,) after each of the epochs (k,), ascending: (s, k)."""
        n, values = self.spectrum.problem.n, self.spectrum.values
        visits, found = scheme.steps(n), np.zeros((len(steps), len(epochs)))
        if not scheme.is_random or visits == 1:
            return found
        decay_rate = np.multiply.outer(steps, values + penalty)
        noise = _epoch_noise(decay_rate, n / scheme.sizes(n), scheme.shuffle is Shuffle.EVERY_STEP)
        grown = 1 - np.minimum(steps / self.spectrum.safe_step(scheme, penalty), _NEAREST)
        added = (np.square(steps) / grown)[:, np.newaxis] * values * noise / (n - 1)
        begin, variance, log_rate = 0.0, np.zeros(decay_rate.shape), _log_size(1 - decay_rate)
        left = -np.expm1(2 * visits * log_rate)
        for number, end in enumerate(epochs):
            lost = -np.expm1(2 * visits * (end - begin) * log_rate)
            sums = np.divide(lost, left, out=np.full(decay_rate.shape, end - begin), where=left > 0)
            residual = self._mean_square(decay_rate, np.linspace(begin, end, _POINTS) * visits, penalty).mean(
                axis=0
            )
            variance = (1 - lost) * variance + added * residual[:, np.newaxis] * sums
            found[:, number], begin = variance @ values, end
        return np.asarray(found * (n / self.spectrum.weights.sum()))

    def _mean_square(self, decay_rate: FloatArray, visits: FloatArray, penalty: float) -> FloatArray:
        """Of the residuals of the mean iterate on the training rows, over outputs on average, (k, s)."""
        problem, values = self.spectrum.problem, self.spectrum.values
        learned = (1 - (1 - decay_rate) ** visits[:, np.newaxis, np.newaxis]) * (values / (values + penalty))
        left = np.square(1 - learned) @ self._explained
        return np.asarray((self._whole - self._explained.sum() + left) / (problem.outputs or 1))

    @cached_property
    def _explained(self) -> FloatArray:
        """What each mode can explain of the mean square of the responses, (r,)."""
        return np.asarray(np.square(self.spectrum.input_map).sum(axis=1) / self.spectrum.values)

    @cached_property
    def _whole(self) -> float:
        problem = self.spectrum.problem
        return float(np.square(problem.compressed.y).sum() / problem.n)


def _log_size(rate: FloatArray) -> FloatArray:
    """log |rate|, very small where the rate is zero."""
    return np.log(np.maximum(np.abs(rate), 1e-300))


def _epoch_noise(decay_rate: FloatArray, shares: FloatArray, independent: bool) -> FloatArray:
    """Sum_t a_t^2 n / m_t - (sum_t a_t)^2 for a_t = p^(B - 1 - t), p = 1 - decay rate.

    The first sum alone where draws are independent. `shares` are the n / m_t (B,): all the same, but for a last
    batch that may be shorter.
    """
    rate, visits = 1 - decay_rate, len(shares)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        squares = np.where(
            decay_rate == 0, visits, (1 - rate ** (2 * visits)) / (decay_rate * (2 - decay_rate))
        )
        sums = np.where(decay_rate == 0, visits, (1 - rate**visits) / decay_rate)
    if independent:
        return np.asarray(shares[0] * squares + shares[-1] - shares[0])
    # The two cancel where little happens in an epoch.
    small = np.square(decay_rate * visits) * (visits**2 - 1) / 12
    alike = np.where(decay_rate * visits < _SMALL, small, np.maximum(visits * squares - sums**2, 0.0))
    return np.asarray(alike + (shares[0] - visits) * squares + shares[-1] - shares[0])
