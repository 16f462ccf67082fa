"""Limit of descent, its difference from the minimum-norm solution, and gradient flow, the limit of small steps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, columns
from reshuffle._display import Displayed
from reshuffle._linalg import norms
from reshuffle._uncertainty import ErrorKind, significant, with_error
from reshuffle.problem import checked_problem, checked_start
from reshuffle.problem.least_squares import LeastSquares, per_output
from reshuffle.run.modes import Epoch, ModesTrajectory
from reshuffle.run.stability import FrozenSubspace
from reshuffle.run.trajectory import Risk, Trajectory
from reshuffle.schemes import FullBatch, base


@dataclass(frozen=True, eq=False)
class Limit(Displayed):
    r"""The mean iterate after infinitely many epochs (Corollaries batch_limit_vector and batch_limit_risk).

    .. math:: \beta_\infty = P_{Z,0}\, \beta_0 + (\tilde X' X)^+ \tilde X' y

    Attributes
    ----------
    converges : bool
        True if there is a limit from every start. If not, what grows is inf.
    parameters : (p,) or (p, t)
        beta_inf. Of t outputs, the numbers below are arrays (t,).
    training_loss : float
    risk : Risk or None
        None when the problem does not know the truth. Its error is `risk.error`.
    error : float
        Error of the parameters, in Euclidean norm, where the mean over orders is not exact; training loss and risk
        have errors of their own.
    training_loss_error : float
        Error of the training loss.
    error_kind : str
        Kind of all these errors: "exact", "bound", "confidence 99%" or "estimate".
    """

    _shown = ("converges", "training_loss", "training_loss_error", "error", "error_kind")

    converges: bool
    parameters: FloatArray
    training_loss: float
    risk: Risk | None
    error: float = 0.0
    training_loss_error: float = 0.0
    error_kind: ErrorKind = "exact"

    def _columns(self) -> dict[str, Any]:
        known = {} if self.risk is None else {"risk": self.risk.total, "risk_error": self.risk.error}
        return {**super()._columns(), **known}

    def __repr__(self) -> str:
        kind = self.error_kind
        if self.parameters.ndim > 1:
            return f"Limit(converges={self.converges}, outputs={self.parameters.shape[1]})"
        risk = "unknown" if self.risk is None else with_error(self.risk.total, self.risk.error, kind)
        loss = with_error(self.training_loss, self.training_loss_error, kind)
        error = f", error={significant(self.error, 2)} ({kind})" if self.error else ""
        return f"Limit(converges={self.converges}, training_loss={loss}, risk={risk}{error})"


@dataclass(frozen=True, eq=False)
class LimitComparison(Displayed):
    """The limit of a run compared with the shifted minimum-norm solution, the limit of full-batch descent.

    Attributes
    ----------
    regime : str
        "overparameterized" when X has rank n, so that the data can be interpolated: then the limits agree
        whenever Xtilde has full rank too, whatever the noise. "underparameterized" otherwise: then they differ
        by (Xtilde'X)^+ Xtilde' xi, with xi the part of y that no parameters explain, and that depends on the step.
    minimum_norm : (p,)
        P_{X,0} beta_0 + (X'X)^+ X'y.
    difference : (p,)
        Limit minus minimum norm; inf where the run diverges.
    distance : float
        Its Euclidean norm.
    error : float
        Error of the difference, in Euclidean norm, where the mean over orders is not exact; that of the distance is
        no larger.
    error_kind : str
        Kind of the error: "exact", "bound", "confidence 99%" or "estimate".
    """

    _shown = ("regime", "distance", "error", "error_kind")

    regime: str
    minimum_norm: FloatArray
    difference: FloatArray
    distance: float
    error: float = 0.0
    error_kind: ErrorKind = "exact"

    def __repr__(self) -> str:
        if self.minimum_norm.ndim > 1:
            return f"LimitComparison({self.regime}, outputs={self.minimum_norm.shape[1]})"
        return f"LimitComparison({self.regime}, distance={with_error(self.distance, self.error, self.error_kind)})"


def limit(engine: Trajectory, risk: Callable[[FloatArray], Risk]) -> Limit:
    """The limit of a mean iterate, and its risk there if the truth is known."""
    problem, forever = engine.problem, np.asarray(np.inf)
    number: Any = float if problem.outputs is None else np.asarray
    knows_truth = problem.beta_star is not None and problem.noise is not None
    return Limit(
        converges=engine.converges,
        parameters=problem.squeezed(engine.iterate(forever)),
        training_loss=number(problem.squeezed(engine.training_loss(forever))),
        risk=risk(forever) if knows_truth else None,
        error=number(problem.squeezed(engine.iterate_error(forever))),
        training_loss_error=number(problem.squeezed(engine.training_loss_error(forever))),
        error_kind=engine.error_kind,
    )


def minimum_norm(problem: LeastSquares, start: FloatArray) -> FloatArray:
    """P_{X,0} beta_0 + (X'X)^+ X'y: of all least-squares solutions the nearest to the start.

    >>> minimum_norm(LeastSquares([[1.0, 1.0]], [2.0]), np.zeros(2))
    array([1., 1.])
    """
    reduction, space = problem.reduction, problem.row_space
    if space.dimension == 0:
        return start.copy()
    solution = scipy.linalg.lstsq(reduction.rows, reduction.response, cond=0.0, check_finite=False)[0]
    return space.outside(start) + problem.squeezed(space.lift(solution)) / space.scale


def compare(problem: LeastSquares, start: FloatArray, limit: Limit) -> LimitComparison:
    """Compare a limit with the minimum-norm solution from the same start."""
    reference = minimum_norm(problem, start)
    difference = limit.parameters - reference
    distances: Any = norms(columns(difference).T)
    return LimitComparison(
        regime="overparameterized" if problem.rank == problem.n else "underparameterized",
        minimum_norm=reference,
        difference=difference,
        distance=float(distances[0]) if problem.outputs is None else distances,
        error=limit.error,
        error_kind=limit.error_kind,
    )


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
        self._modes = FlowTrajectory(Epoch(fitted, scheme, 1 / scale / scale), columns(start))

    def __repr__(self) -> str:
        return f"GradientFlow({self.problem})"

    def output(self, number: int) -> "GradientFlow":
        """The flow of one output alone, that of this `number`, from 0."""
        return GradientFlow(self.problem.output(number), self.start[:, number])

    def iterate(self, times: ArrayLike) -> FloatArray:
        """The parameters at each of the given times, of shape times.shape + (p,) or (p, t)."""
        return self.problem.squeezed(self._modes.iterate(_arrays.times(times)))

    def training_loss(self, times: ArrayLike) -> FloatArray:
        """|y - X b|^2 / (2n), of the shape of `times`."""
        return self.problem.squeezed(self._modes.training_loss(_arrays.times(times)))

    @per_output
    def risk(self, times: ArrayLike) -> Risk:
        """E |b - beta_star|_Sigma^2 over the noise, and its parts."""
        return self._modes.risk(_arrays.times(times))

    def limit(self) -> Limit:
        """The limit of the flow, and its risk there if the truth is known."""
        return limit(self._modes, self.risk)

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
