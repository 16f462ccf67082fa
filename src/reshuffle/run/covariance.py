"""The covariance of the parameters over the random orders, and the spread of predictions."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle._budget import require_memory, warn
from reshuffle._linalg import norms
from reshuffle._uncertainty import CONFIDENCE, ErrorKind, jackknife, quantile, significant
from reshuffle.epoch.moments import drawn
from reshuffle.epoch.moments.averages import AveragedMoments
from reshuffle.epoch.select import SPREADS
from reshuffle.epoch.visits import Inputs
from reshuffle.problem.least_squares import LeastSquares, checked_new_rows, per_output, stacked
from reshuffle.problem.row_space import RowSpace
from reshuffle.run import expected_risk
from reshuffle.run.modes import ModesTrajectory
from reshuffle.run.trajectory import AffineTrajectory
from reshuffle.schemes.base import Shuffle
from reshuffle.simulation import simulated_states

if TYPE_CHECKING:
    from reshuffle.run.run import Run


@dataclass(frozen=True, eq=False)
class ParameterCovariance:
    """E (beta_k - E beta_k)(beta_k - E beta_k)' over the random orders of a run, for the responses at hand.

    It is V Q C Q'V', with C (r, r) in the coordinates of the row space of X, outside of which no two runs differ:
    no matrix of size p x p is made unless `matrix` is used. What grows without bound is inf. Of t outputs all
    arrays have one more axis, the last.

    Attributes
    ----------
    epochs : array
        The requested epochs.
    error : array
        Error of the matrix in the Frobenius norm, of the shape of `epochs`.
    error_kind : str
        Kind of the error: "exact", "confidence 99%" where runs or orders were sampled, "estimate" for the
        remainder of a fixed-point iteration.
    problem : LeastSquares

    >>> import reshuffle as rs
    >>> problem = rs.LeastSquares([[1.0], [2.0]], [1.0, 0.0])
    >>> rs.descend(problem, rs.RandomReshuffling(batches=2), step=0.1).covariance([1, 2]).matrix.round(6).tolist()
    [[[0.0004]], [[0.000517]]]
    """

    epochs: FloatArray
    error: FloatArray
    error_kind: ErrorKind
    problem: LeastSquares = field(repr=False)
    _inside: FloatArray = field(repr=False)
    """C, epochs.shape + (r, r), or (r, r, t)."""
    _space: RowSpace = field(repr=False)
    _back: IntArray = field(repr=False)
    """The place of each epoch among the distinct ones."""
    _draws: tuple[FloatArray | None, ...] = field(repr=False)
    """Of each output: deviations from the mean (distinct epochs, draws, r) of sampled runs, in pairs, or C without
    each group of drawn epochs (distinct epochs, groups, r, r)."""

    def __repr__(self) -> str:
        shape = (*self.epochs.shape, self._space.p, self._space.p, *self.error.shape[self.epochs.ndim :])
        largest = float(self.error.max(initial=0.0))
        off = f", error at most {significant(largest, 2)} ({self.error_kind})" if largest else ""
        total = f", trace={float(self.trace):.6g}" if not self.error.ndim else ""
        return f"ParameterCovariance(shape={shape}{total}{off})"

    @property
    def outputs(self) -> "list[ParameterCovariance]":
        """The covariance of each output by itself."""
        if self.problem.outputs is None:
            return [self]
        parts = [(self.error[..., j], self._inside[..., j], (own,)) for j, own in enumerate(self._draws)]
        return [
            replace(self, problem=self.problem.output(number), error=error, _inside=inside, _draws=draws)
            for number, (error, inside, draws) in enumerate(parts)
        ]

    def output(self, number: int) -> "ParameterCovariance":
        """The covariance of output `number` by itself."""
        return self.outputs[number]

    @property
    def _grows(self) -> BoolArray:
        """True if anything grows without bound, of the shape of `epochs`."""
        return np.asarray(~np.isfinite(self._inside).all(axis=(-2, -1)))

    @cached_property
    def _finite(self) -> FloatArray:
        return np.where(self._grows[..., np.newaxis, np.newaxis], 0.0, self._inside)

    @property
    @per_output
    def factor(self) -> FloatArray:
        """F of shape epochs.shape + (p, r), with covariance = F F': all there is to know where p is large."""
        values, vectors = np.linalg.eigh(self._finite)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[..., np.newaxis, :]
        shape = (*self.epochs.shape, self._space.p, self._space.dimension)
        lifted = np.array([self._space.lift(root) for root in self._flat(roots)]).reshape(shape)
        return np.where(self._grows[..., np.newaxis, np.newaxis], np.inf, lifted)

    @property
    @per_output
    def matrix(self) -> FloatArray:
        """The covariance itself, epochs.shape + (p, p): meant for moderate p."""
        space, shape = self._space, (*self.epochs.shape, self._space.p, self._space.p)
        made = [space.lift(space.lift(one).T) for one in self._flat(self._finite)]
        return np.where(self._grows[..., np.newaxis, np.newaxis], np.inf, np.array(made).reshape(shape))

    @property
    @per_output
    def trace(self) -> FloatArray:
        """E |beta_k - E beta_k|^2, of the shape of `epochs`."""
        return np.where(self._grows, np.inf, np.trace(self._finite, axis1=-2, axis2=-1))

    @property
    @per_output
    def standard_deviations(self) -> FloatArray:
        """The standard deviation of each parameter, epochs.shape + (p,)."""
        return self.deviation(np.eye(self._space.p)) if self._space.p <= _MANY else norms(self.factor)

    @per_output
    def deviation(self, X_new: ArrayLike) -> FloatArray:
        """The standard deviations of what single runs say of new rows X_new (m, p), epochs.shape + (m,)."""
        seen = self._space.coordinates(checked_new_rows(X_new, self.problem).T)
        squares = np.einsum("...ij,im,jm->...m", self._finite, seen, seen, optimize=True)
        return np.where(self._grows[..., np.newaxis], np.inf, np.sqrt(np.maximum(squares, 0.0)))

    @per_output
    @np.errstate(divide="ignore", over="ignore", invalid="ignore")
    def deviation_error(self, X_new: ArrayLike) -> FloatArray:
        """The error of `deviation(X_new)`, epochs.shape + (m,), in the sense of `error_kind`."""
        rows = checked_new_rows(X_new, self.problem)
        found = self.deviation(X_new)
        (draws,) = self._draws
        if draws is None:
            # To first order, and never by more than the root of what the matrix is off by.
            off = self.error[..., np.newaxis] * np.square(norms(rows))
            return np.where(off == 0, 0.0, np.minimum(off / (2 * found), np.sqrt(off)))
        seen = self._space.coordinates(rows.T)
        if draws.ndim == 4:
            squares = np.einsum("kgij,im,jm->gkm", draws, seen, seen, optimize=True)[:, self._back]
            off = jackknife(np.square(found), squares.reshape(-1, *found.shape))
        else:
            along = np.square(draws @ seen)
            pairs = (along[:, 0::2] + along[:, 1::2]) / 2
            count = pairs.shape[1]
            squares = pairs.std(axis=1, ddof=1) / np.sqrt(count)
            off = quantile(count) * squares[self._back].reshape(found.shape)
        return np.where(np.isinf(found), np.inf, np.where(off == 0, 0.0, off / (2 * found)))

    def _flat(self, matrices: FloatArray) -> FloatArray:
        # No -1 in the shape: of features that are all zero there are no coordinates to divide by.
        return matrices.reshape(self.epochs.size, *matrices.shape[-2:])


_MANY = 1000
"""Parameters up to which an identity matrix of them is no burden."""


_REMEMBERED_BYTES = 2e8
"""Memory that the states of simulated runs may take."""
_FEWEST, _MARGIN = 8, 1.2
"""Simulated runs at least; more of them than the accuracy that is asked takes, since their error has an error."""


class _Covariances(NamedTuple):
    """Covariances (k, r, r) of scale V'beta, errors (k,) and kind, and deviations (k, draws, r) if sampled."""

    covariances: FloatArray
    errors: FloatArray
    kind: ErrorKind = "exact"
    draws: FloatArray | None = None


def covariance(run: "Run", clock: FloatArray) -> ParameterCovariance:
    """Cov beta_k over the orders of a run, at epochs of any shape; of several outputs, that of each."""
    if run.problem.outputs is None:
        return _of_output(run._affine, run._modes, clock)
    when, each = np.unique(clock), [run.output(number) for number in range(run.problem.outputs)]

    @cache
    def together(runs: int) -> FloatArray:
        """The parameters (k, runs, t, p) of simulated runs: their orders are those of every output by itself."""
        scheme, recipe, seed = each[0]._affine.scheme, each[0]._affine.recipe, run.accuracy.seed
        return simulated_states(run.problem, scheme, recipe, run.start, when, runs, seed, np.copy)

    found, size = [], 8 * len(when) * run.problem.p * len(each)
    for number, one in enumerate(each):

        def trained(runs: int, number: int = number) -> FloatArray | None:
            return None if runs * size > _REMEMBERED_BYTES else together(runs)[:, :, number]

        found.append(_of_output(one._affine, one._modes, clock, trained))
    return _beside(found, run.problem)


def _of_output(
    run: AffineTrajectory,
    modes: ModesTrajectory | None,
    clock: FloatArray,
    trained: Callable[[int], FloatArray | None] = lambda runs: None,
) -> ParameterCovariance:
    """The covariance of one output, of which so many runs may be `trained` already: parameters (k, runs, p).

    `modes` is the same run in the modes of its mean map, if that is symmetric.
    """
    when, back = np.unique(clock.ravel(), return_inverse=True)
    count, rank, scale = len(when), run.space.dimension, run.space.scale
    # The covariances, their factors or finite parts, and those on the way.
    hint = "fewer epochs at a time", "fewer features", "{expected_risk}, which needs no matrix at every epoch"
    require_memory(32.0 * count * rank**2, f"the covariance of {rank} coordinates at {count} epochs", hint)
    moves = run.start.any() or run.blocks.response.any()
    found = _Covariances(np.zeros((count, rank, rank)), np.zeros(count))
    if count and rank and moves and run.scheme.is_random:
        # Simulated runs do without the mean over orders, which the timelines take.
        is_simulated = expected_risk.choice(run, modes, when, True, squares=False).taken in _SIMULATED
        by = _of_orders if run.timeline.count > 1 and not is_simulated else _followed
        found = _simulated(run, when, trained) if is_simulated else by(run, when)
    matrices, errors, kind, draws = found
    traces = np.trace(matrices, axis1=1, axis2=2)
    unknown = when[np.isfinite(traces) & (errors > traces)]
    if kind == CONFIDENCE and len(unknown):
        warn(
            f"a few of the single runs are so far from the others after {unknown[0]:g} epochs that their spread is "
            "not known: at this step single runs may diverge although their mean does not.",
            ("a smaller step", "{critical_step}(..., mean_square=True)", "{mean_square_stability}()"),
        )
    matrices = np.where(np.isfinite(matrices).all(axis=(1, 2), keepdims=True), matrices, np.inf)
    inside = (matrices / scale / scale)[back].reshape(*clock.shape, rank, rank)
    error = (np.where(np.isfinite(errors), errors, np.inf) / scale / scale)[back].reshape(clock.shape)
    draws = None if draws is None else draws / (scale if draws.ndim == 3 else scale * scale)
    return ParameterCovariance(clock, error, kind, run.problem, inside, run.space, back, (draws,))


def _beside(each: list[ParameterCovariance], problem: LeastSquares) -> ParameterCovariance:
    """The covariances of all outputs of a problem, from that of each."""
    error, inside = stacked([one.error for one in each]), stacked([one._inside for one in each])
    kind = next((one.error_kind for one in each if one.error.any()), each[0].error_kind)
    draws = tuple(one._draws[0] for one in each)
    return replace(each[0], error=error, error_kind=kind, problem=problem, _inside=inside, _draws=draws)


_SIMULATED = ("centred maps", "simulation")
"""Methods of the expected risk in whose place runs are simulated: centred maps give the trace alone."""


def _followed(run: AffineTrajectory, when: FloatArray) -> _Covariances:
    """Epoch after epoch, by the recursion over all orders."""
    start = run.inside(run.start[:, 0])
    inputs = Inputs(np.zeros(run.space.dimension), given=run.blocks.response[:, 0])
    if run.recipe.average is not None:
        followed = list(AveragedMoments(run.timeline, inputs, start).covariances(when))
    else:
        snapshots = expected_risk.moments_along(run.stages, inputs, start, when, centred=True)
        followed = [(snapshot.matrix, snapshot.error) for snapshot in snapshots]
    found, shares = np.array([one for one, _ in followed]), np.array([share for _, share in followed])
    # That something grows without bound is known for sure.
    errors = np.where(shares == 0, 0.0, shares * norms(found.reshape(len(found), -1)))
    return _Covariances(found, errors, "estimate" if errors.any() else "exact")


def _of_orders(run: AffineTrajectory, when: FloatArray) -> _Covariances:
    """Over the orders that may have been drawn at the start."""
    rank = run.space.dimension
    states = np.zeros((len(when), run.timeline.count, rank))

    def watch(place: slice, number: int, seen: FloatArray) -> None:
        states[number, place] = seen[:, :rank, 0]

    inputs = np.vstack([[0.0], run.blocks.response])
    for _ in run.means(run.inside(run.start), when, inputs, watch=watch):
        pass
    return _of_draws(states, run.timeline.samples_orders)


def _simulated(
    run: AffineTrajectory, when: FloatArray, trained: Callable[[int], FloatArray | None]
) -> _Covariances:
    """The covariance of simulated runs, or of runs whose epochs are drawn from a few, whichever costs less."""
    most = 2 * max(_FEWEST, int(_REMEMBERED_BYTES / 16 / max(1, run.space.dimension * len(when))))
    # Standard deviations are known to 1 / sqrt(2 runs).
    wanted = 2 * math.ceil(min(_MARGIN / (2 * run.accuracy.of(SPREADS)) ** 2, expected_risk.MOST_RUNS / 2))
    last, is_constant = float(when[-1]), run.recipe.is_constant and run.recipe.average is None
    if is_constant and run.scheme.shuffle is Shuffle.EVERY_EPOCH and np.isfinite(last):
        price = drawn.map_flops(wanted, run.dimension, len(run.blocks.rows), run.walk.steps, last)
        if price < expected_risk.simulation_flops(run, wanted, last):
            return _of_maps(run, when, wanted)
    runs = min(expected_risk.affordable(run, when), most, wanted)

    def coordinates(parameters: FloatArray) -> FloatArray:
        return run.space.coordinates(parameters.T).T

    if (known := trained(runs)) is not None:
        states = np.array([coordinates(one) for one in known])
    else:
        start, seed = run.start[:, 0], run.accuracy.seed
        states = simulated_states(run.problem, run.scheme, run.recipe, start, when, runs, seed, coordinates)
    return _of_draws(run.space.scale * states, sampled=True)


def _of_maps(run: AffineTrajectory, when: FloatArray, orders: int) -> _Covariances:
    """The covariance of runs whose every epoch has one of so many drawn orders."""
    given, start = run.blocks.response[:, 0], run.inside(run.start[:, 0])
    found, *others = drawn.drawn_covariances(run.timeline, given, start, when, orders, run.accuracy.seed)
    without = np.array(others)
    apart = norms(jackknife(found, without).reshape(len(when), -1))
    return _Covariances(found, apart, CONFIDENCE, without.swapaxes(0, 1))


def _of_draws(states: FloatArray, sampled: bool) -> _Covariances:
    """The covariance of equally likely states (times, draws, r): all there are, or a sample in pairs."""
    apart = states - states.mean(axis=1, keepdims=True)
    count = states.shape[1]
    found = apart.swapaxes(1, 2) @ apart / count
    if not sampled:
        return _Covariances(found, np.zeros(len(states)))
    pairs, others = (apart[:, 0::2] + apart[:, 1::2]) / 2, count / 2 - 1
    # What the mean of the draws is off by is missing in their squares.
    found += pairs.swapaxes(1, 2) @ pairs / (count / 2 * others)
    # Fourth powers leave the range of numbers where squares do not.
    largest = np.abs(apart).max(axis=(1, 2), initial=0.0)
    largest = np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
    unit = apart / largest[:, np.newaxis, np.newaxis]
    squares = np.square(unit).sum(axis=2)
    products = np.square((unit[:, 0::2] * unit[:, 1::2]).sum(axis=2))
    sizes = (np.square(squares[:, 0::2]) + np.square(squares[:, 1::2]) + 2 * products) / 4
    variance = sizes.mean(axis=1) - np.square(norms(found.reshape(len(found), -1)) / largest / largest)
    errors = quantile(count // 2) * np.sqrt(np.maximum(variance, 0.0) / others) * largest * largest
    # That correction is as uncertain as it is large: of two equally likely states nothing else is.
    errors += quantile(count // 2) * np.trace(found, axis1=1, axis2=2) / count
    return _Covariances(found, errors, CONFIDENCE, apart)
