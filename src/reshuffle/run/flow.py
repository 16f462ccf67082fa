"""Gradient flow, the limit of every scheme as its step goes to zero."""

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.epoch.epoch import Epoch
from reshuffle.problem import checked_problem, checked_start
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.outputs import of_output, per_output
from reshuffle.run import limits
from reshuffle.run.limits import Limit
from reshuffle.run.risk import Risk
from reshuffle.run.stability import FrozenSubspace
from reshuffle.run.trajectory import ModesTrajectory
from reshuffle.schemes import FullBatch, base


class GradientFlow:
    """db/dt = X'(y - X b) / n: the error is exp(-t W) times the initial one, plus noise (Remark gradient_flow).

    Made by `gradient_flow`. An epoch at step alpha / B follows the flow for a time alpha, up to O(alpha).
    `times` is a number or an array of any shape, math.inf included; answers carry its shape. It starts at `start`,
    on `problem`.
    """

    def __init__(self, problem: LeastSquares, start: FloatArray):
        self.problem, self.start = problem, start
        fitted, scheme = base.fitted(problem, FullBatch())
        # The modes of W come from an epoch of full batch, at the step that is one in the units of the features.
        scale = fitted.row_space.scale
        self._modes = FlowTrajectory(Epoch(fitted, scheme, 1 / scale / scale), start)

    def __repr__(self) -> str:
        return f"GradientFlow({self.problem})"

    def output(self, number: int) -> "GradientFlow":
        """The flow of one output alone, that of this `number`, from 0."""
        return GradientFlow(self.problem.output(number), of_output(self.start, number))

    def iterate(self, times: ArrayLike) -> FloatArray:
        """The parameters at each of the given times, of shape times.shape + (p,) or (p, t)."""
        return self._modes.iterate(_arrays.times(times))

    def training_loss(self, times: ArrayLike) -> FloatArray:
        """|y - X b|^2 / (2n), of the shape of `times`."""
        return self._modes.training_loss(_arrays.times(times))

    @per_output
    def risk(self, times: ArrayLike) -> Risk:
        """E |b - beta_star|_Sigma^2 over the noise, and its parts."""
        return self._modes.risk(_arrays.times(times))

    def limit(self) -> Limit:
        """The limit of the flow, and its risk there if the truth is known."""
        return limits.limit(self._modes, self.risk)

    @property
    def frozen(self) -> FrozenSubspace:
        """The subspace of parameters in which nothing is learned."""
        return self._modes.frozen


class FlowTrajectory(ModesTrajectory):
    """Gradient flow in the modes of W, at times that are checked before they come here."""

    @property
    def converges(self) -> bool:
        """True, always."""
        return True

    def motion(self, epochs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """exp(-t w) and (1 - exp(-t w)) / w, for the eigenvalues w of W."""
        values, scale = self.epoch.decay_rates, self.space.scale
        forever = np.isinf(epochs)
        with np.errstate(over="ignore", under="ignore"):
            exponent = np.where(forever, 0.0, epochs * scale * scale)[..., np.newaxis] * values
            decay, drift = np.exp(-exponent), -np.expm1(-exponent) / values
        decay[forever], drift[forever] = 0.0, 1 / values
        return decay, drift


def gradient_flow(problem: LeastSquares, *, start: ArrayLike | None = None) -> GradientFlow:
    """Follow gradient flow on a problem; `iterate`, `risk` and `training_loss` take times instead of epochs.

    Parameters
    ----------
    problem : LeastSquares
    start : (p,) or (p, t), optional
        Where it starts, for all outputs or for each; zero by default.

    Returns
    -------
    GradientFlow

    >>> import reshuffle as rs
    >>> flow = rs.gradient_flow(rs.LeastSquares([[2.0]], [6.0]))
    >>> flow.iterate([0.0, 0.25, float("inf")]).ravel().round(4)
    array([0.    , 1.8964, 3.    ])
    """
    problem = checked_problem(problem)
    return GradientFlow(problem, checked_start(start, problem))
