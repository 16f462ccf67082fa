"""Gradient flow, the limit of every scheme as its step goes to zero."""

from typing import Any

import numpy as np

from reshuffle import validate
from reshuffle.arrays import BoolArray, FloatArray
from reshuffle.epoch.epoch import Epoch
from reshuffle.problem import LeastSquares
from reshuffle.schemes import FullBatch
from reshuffle.trajectory import Trajectory


class GradientFlow(Trajectory):
    """db/dt = X'(y - X b) / n: the error is exp(-t W) times the initial one, plus noise (Remark gradient_flow).

    Made by `gradient_flow`. An epoch at step alpha / B follows the flow for a time alpha, up to O(alpha).
    """

    def __init__(self, problem: LeastSquares, start: FloatArray):
        self.problem = problem
        self.start = start
        # At a full-batch step of one the mean map holds W itself.
        self._epoch = Epoch(problem, FullBatch(), 1.0)

    def __repr__(self) -> str:
        return f"GradientFlow({self.problem})"

    @property
    def directions(self) -> FloatArray:
        """Q (r, r), the modes of W in row-space coordinates."""
        return self._epoch.modes.vectors

    @property
    def frozen_modes(self) -> BoolArray:
        """None: W has no null space within the row space."""
        return self._epoch.modes.frozen

    @property
    def _raw_pull(self) -> FloatArray:
        return self._epoch.pull

    @property
    def _pull_size(self) -> float:
        return self._epoch.pull_size

    @property
    def _responses(self) -> FloatArray:
        return self._epoch.blocks.response

    def _clock(self, time: Any) -> FloatArray:
        return validate.times(time)

    @property
    def converges(self) -> bool:
        """Always."""
        return True

    def motion(self, time: FloatArray) -> tuple[FloatArray, FloatArray]:
        """exp(-t w) and (1 - exp(-t w)) / w, for the eigenvalues w of W."""
        values = self._epoch.rates
        # A time of 1e300 stands for infinity: it settles every mode without an undefined 0 * inf.
        exponent = np.minimum(time, 1e300)[..., np.newaxis] * values
        still = values == 0
        drift = -np.expm1(-exponent) / np.where(still, 1.0, values)
        drift[..., still] = time[..., np.newaxis]
        with np.errstate(under="ignore"):
            return np.exp(-exponent), drift


def gradient_flow(problem: LeastSquares, *, start: Any = None) -> GradientFlow:
    """Follow gradient flow on a problem; `iterate`, `risk` and `training_loss` take times instead of epochs.

    >>> import reshuffle as rs
    >>> flow = rs.gradient_flow(rs.LeastSquares([[2.0]], [6.0]))
    >>> flow.iterate([0.0, 0.25, float("inf")]).ravel().round(4)
    array([0.    , 1.8964, 3.    ])
    """
    if start is None:
        start = np.zeros(problem.p)
    return GradientFlow(problem, validate.vector("start", start, problem.p, "one entry a parameter"))
