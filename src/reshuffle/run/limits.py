"""The limit of descent, and its difference from the minimum-norm solution."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray
from reshuffle._linalg import norm
from reshuffle._uncertainty import ErrorKind, significant, with_error
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.outputs import beside, lengths
from reshuffle.run.covariance import OutputCovariances, ParameterCovariance
from reshuffle.run.risk import Risk
from reshuffle.run.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class Limit:
    """The mean iterate after infinitely many epochs (Corollaries batch_limit_vector and batch_limit_risk).

    Attributes
    ----------
    converges : bool
        Whether there is a limit from every start. If not, what grows is inf.
    parameters : (p,) or (p, t)
        P_{Z,0} beta_0 + (Xtilde'X)^+ Xtilde'y. Of t outputs, the numbers below are arrays (t,).
    training_loss : float
    risk : Risk or None
        None when the problem does not know the truth. Has an error of its own, `risk.error`.
    error : float
        How far the parameters may be off, in Euclidean norm, where the mean over orders is not exact; that of the
        training loss and of the risk are not this one.
    training_loss_error : float
        How far the training loss may be off.
    error_kind : str
        In which sense all of these are meant.
    """

    converges: bool
    parameters: FloatArray
    training_loss: float
    risk: Risk | None
    error: float = 0.0
    training_loss_error: float = 0.0
    error_kind: ErrorKind = "exact"

    def __repr__(self) -> str:
        kind = self.error_kind
        if self.parameters.ndim > 1:
            return f"Limit(converges={self.converges}, outputs={self.parameters.shape[1]})"
        risk = "unknown" if self.risk is None else with_error(self.risk.total, self.risk.error, kind)
        loss = with_error(self.training_loss, self.training_loss_error, kind)
        error = f", error={significant(self.error, 2)} ({kind})" if self.error else ""
        return f"Limit(converges={self.converges}, training_loss={loss}, risk={risk}{error})"


@dataclass(frozen=True, eq=False)
class LimitComparison:
    """The limit of a run beside the shifted minimum-norm solution, the limit of full-batch descent.

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
        How far the difference may be off, in Euclidean norm, where the mean over orders is not exact; the distance
        is off by no more.
    error_kind : str
        In which sense that is meant.
    """

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
    knows_truth = problem.beta_star is not None and problem.noise is not None
    number: Any = float if problem.outputs is None else np.asarray
    return Limit(
        converges=engine.converges,
        parameters=engine.iterate(forever),
        training_loss=number(engine.training_loss(forever)),
        risk=risk(forever) if knows_truth else None,
        error=number(engine.iterate_error(forever)),
        training_loss_error=number(engine.training_loss_error(forever)),
        error_kind=engine.error_kind,
    )


def minimum_norm(problem: LeastSquares, start: FloatArray) -> FloatArray:
    """P_{X,0} beta_0 + (X'X)^+ X'y: of all least-squares solutions the nearest to the start.

    >>> minimum_norm(LeastSquares([[1.0, 1.0]], [2.0]), np.zeros(2))
    array([1., 1.])
    """
    reduction, space = problem.reduction, problem.row_space
    if space.dimension == 0:
        return start.copy() if problem.outputs is None else np.repeat(beside(start), problem.outputs, axis=1)
    # The solver squares its residuals, which must be numbers.
    unit = float(np.abs(reduction.response).max()) or 1.0
    solution = scipy.linalg.lstsq(reduction.rows, reduction.response / unit, cond=0.0, check_finite=False)[0]
    with np.errstate(over="ignore"):
        inside = space.lift(solution) * unit / space.scale
        return (space.outside(start) if solution.ndim == 1 else beside(space.outside(start))) + inside


def compare(problem: LeastSquares, start: FloatArray, limit: Limit) -> LimitComparison:
    """Put a limit beside the minimum-norm solution from the same start."""
    reference = minimum_norm(problem, start)
    with np.errstate(invalid="ignore"):
        difference = limit.parameters - reference
    # Where both are beyond the range of numbers nothing is known of their difference.
    difference = np.where(np.isnan(difference), np.inf, difference)
    distance: Any = norm(difference) if problem.outputs is None else lengths(difference, problem.outputs)
    return LimitComparison(
        regime="overparameterized" if problem.rank == problem.n else "underparameterized",
        minimum_norm=reference,
        difference=difference,
        distance=distance,
        error=limit.error,
        error_kind=limit.error_kind,
    )


def excess_loss(problem: LeastSquares, start: FloatArray, parameters: FloatArray, axis: int) -> FloatArray:
    """|X (b - b_ols)|^2 / (2n) for each b along an axis: the training loss less its least value.

    Not taken as that difference, which loses all digits once the two agree to half of them.
    """
    reference = minimum_norm(problem, start)
    with np.errstate(invalid="ignore"):
        apart = parameters - reference
    squares = problem.reduction.squares(np.where(np.isnan(apart), np.inf, apart), axis)
    return np.asarray(squares / (2 * problem.n))


def spread_loss(problem: LeastSquares, covariance: ParameterCovariance | OutputCovariances) -> FloatArray:
    """Tr(X Cov X') / (2n), what the spread of single runs adds to their training loss on average."""
    # As many rows as parameters stand for all of X, since only the sum over rows is asked for.
    space = problem.row_space
    rows = space.scale * space.lift(problem.reduction.rows.T).T
    with np.errstate(over="ignore"):
        squares = np.square(covariance.deviation(rows)).sum(axis=covariance.epochs.ndim)
    return np.asarray(squares / (2 * problem.n))
