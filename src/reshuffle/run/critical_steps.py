"""Critical step: the first step at which a run stops converging, of its mean or of its mean square.

The rate, the spectral radius of the mean epoch map or of M -> E[A M A'], is evaluated at growing steps until it
reaches one, and the last interval is narrowed by secants (`first_crossing`). Where the mean map is known as a
polynomial of the step the first crossing is found with proof instead (`critical_polynomials`), and where the mean
of a visit is I - step W it is 2 / |W|.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._budget import AT_ONCE, require_affordable
from reshuffle._display import Displayed
from reshuffle._linalg import eigenvalue, few_threads, overflow_is_inf
from reshuffle._progress import track
from reshuffle._uncertainty import (
    CONFIDENCE,
    MOST_GROUPS,
    ErrorKind,
    error_of_mean,
    jackknife,
    weakest,
    with_error,
)
from reshuffle.epoch.averaging.lattice import MOST_BATCHES, climbs
from reshuffle.epoch.averaging.sampling import DrawnBlocks, scaled_losses
from reshuffle.epoch.moments.drawn import CentredMaps, gain, gain_bound
from reshuffle.epoch.moments.matrix import epoch_flops
from reshuffle.epoch.select import THRESHOLDS, Accuracy, walk_flops
from reshuffle.epoch.visits import Visits
from reshuffle.problem import checked_problem
from reshuffle.problem.batches import RowGroups
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.recipe import Recipe, recipe
from reshuffle.run import critical_polynomials
from reshuffle.run.critical_polynomials import BUDGET
from reshuffle.run.mean_square import gain_beside_one
from reshuffle.run.trajectory import AffineTrajectory
from reshuffle.schemes import FullBatch, RandomReshuffling, base
from reshuffle.schemes.base import Scheme, Shuffle

GROWTH, COARSE_GROWTH = 1.02, 1.1
"""Steps are tried this far apart; where rates are drawn and fall, or are small, that far."""
_NEAR = 0.6
"""A drawn rate from which on steps are fine: windows between coarse steps whose rates are both below it were not
met (benchmarks/step_coverage.py)."""
_FINE = 5
"""Fine steps in a coarse one, at most."""
_PRECISION, _MEAN_SQUARE_PRECISION, _DRAWN_PRECISION = 1e-9, 1e-6, 1e-3
"""Relative width to which a crossing is enclosed: of an exact rate, in mean square, of a drawn rate."""
_SLACK = 32.0
"""Widths of an interval within which secants are free at first, twice two to the evaluations beyond bisection."""
_CLOSE = 0.03
"""Distance of a gain from one at the last step, up to which the next one is sought to all digits at once."""
_HALVINGS = 40
"""Halvings of a start that is not stable, at most."""
_MOST_BEYOND = 7
"""Steps that are tried beyond the end until one fails for certain, each further away: up to 3.6 times as large."""
_FARTHEST = 2.0
"""Multiple of a step up to which its error reaches where none fails for certain: exact steps were at most 1.6 times
what was found, of 40 such problems of 9 to 59 rows (benchmarks/step_coverage.py)."""
_SKEWED, _SEEN = 1.5, 3.0
"""Factor that widens errors of drawn rates, since near the end few of all orders weigh most; and the relative error
from which on such a rate is nothing but noise: it is two standard errors then."""
_OF_BLOCKS, _OF_A_TRIAL = 3e7, 1.2e8
"""Operations of a draw for each group, and of all draws at a step near the end."""
_FEWEST_ROUNDS, _MOST_ROUNDS = 4, 64
"""Draws for each group, at a step far from the end, and near it, as far as operations allow."""
_PAIRS = 4
"""Pairs of orders in each group whose maps tell the gain in mean square."""
_TINY, _FAR_BELOW = 0.02, 0.4
"""A bound on the gain of one pair of orders in each group, and its value with its error, up to which no more orders
are drawn: where few orders weigh most the error is as large as the gain."""
_DEALT, _ROWS_PER_FEATURE = 256, 4
"""Batches that are dealt of rows that are read in chunks, or as many as have so many rows for each feature."""
_ALL_ORDERS = Accuracy(method="exact", rtol=math.inf, budget=math.inf)
_TRIES, _ROUNDS_OF_A_TRY = 100, 10
"""Steps that are tried, about, and rounds of second moments at each."""
_EIGENVALUES = 25
"""Operations of all eigenvalues of a matrix, over the cube of its size; of a Lyapunov equation, too."""
_SMALL, _KRYLOV = 400, 40
"""Rows or columns up to which a Gram matrix costs no more than a few iterations; vectors of an iteration (more than
is usual, since singular values lie close together at the top)."""


class CriticalStep(Displayed, float):
    """A critical step: a float with an error.

    Attributes
    ----------
    error : float
        Error of the step.
    error_kind : str
        Kind of the error: "exact", "bound", "confidence 99%" or "estimate".
    advice : str
        Advice where the step is that of a mean over drawn orders, and single runs diverge before it; else empty.

    >>> step = CriticalStep(0.5, 0.01, "estimate")
    >>> step, 2 * step, step.error
    (0.5 +- 0.01 (estimate), 1.0, 0.01)
    """

    error: float
    error_kind: ErrorKind
    advice: str

    def __new__(
        cls, value: float, error: float = 0.0, error_kind: ErrorKind = "exact", advice: str = ""
    ) -> "CriticalStep":
        """Exact unless an error is given."""
        made = super().__new__(cls, value)
        made.error, made.error_kind, made.advice = error, error_kind, advice
        return made

    def __reduce__(self) -> tuple[type, tuple[float, float, ErrorKind, str]]:
        return CriticalStep, (float(self), self.error, self.error_kind, self.advice)

    def _columns(self) -> dict[str, Any]:
        return {"learning_rate": float(self), "error": self.error, "error_kind": self.error_kind}

    def __repr__(self) -> str:
        value = with_error(float(self), self.error, self.error_kind) if self.error else float.__repr__(self)
        return f"{value}; {self.advice}" if self.advice else value

    __str__ = __repr__


@_arrays.with_known_keywords
@overflow_is_inf
def critical_step(
    problem: LeastSquares,
    scheme: Scheme,
    *,
    mean_square: bool = True,
    penalty: float = 0.0,
    momentum: float = 0.0,
    nesterov: bool = False,
    unpenalized: ArrayLike = (),
) -> CriticalStep:
    """The largest step at which single runs converge in mean square over their orders, from every start.

    With `mean_square=False`: the largest step at which their mean converges, which is at least as large. Without
    penalty and momentum, and if epochs are symmetric, that step is proven (see `critical_polynomials`) for fixed
    batches, for up to 14 shuffled samples, and for features of rank one. Otherwise the search tries steps 2% apart,
    upwards from one at which every visit is a contraction (far below it with momentum), and refines the first that
    fails by secants. The step that it returns is stable; it could miss an interval of instability narrower than 2%.

    If there are too many orders, as with more shuffled samples, rates are those of drawn orders, and steps are 10%
    apart, or 2% where the rate is above 0.6 and rises, or has just risen. The search finds every interval of
    instability wider than 10% of its step. The result is a float with the attributes `error` and `error_kind`: the
    error reaches from where the rate may be one to where it surely is, and is an estimate if the draws cannot show
    whether any step nearby is unstable.

    Parameters
    ----------
    problem, scheme
    mean_square : bool
        Ask for the convergence of E |beta_k - limit|^2, on which the expected risk of a run depends, to a relative
        precision of 1e-6; if False, for that of the mean iterate, the mean over all runs. The mean square takes
        longer: 2 to 4 s where 200 features are in a few batches, and the mean 0.1 s.
    penalty, momentum, nesterov, unpenalized
        As in `descend`.

    Returns
    -------
    float
        The step of one visit, with its `error` and its `error_kind`; inf where every step converges.

    >>> import math
    >>> import reshuffle as rs
    >>> angle = math.radians(50)
    >>> problem = rs.LeastSquares([[1.0, 0.0], [math.cos(angle), math.sin(angle)]], [0.0, 0.0])
    >>> round(rs.critical_step(problem, rs.RandomReshuffling(batches=2)), 4)
    2.0
    >>> round(rs.critical_step(problem, rs.RandomReshuffling(batches=2), mean_square=False), 4)
    2.8986
    """
    given, whole = checked_problem(problem), base.scheme_of(scheme)
    draws_rows = given.stream is not None and whole.with_independent_steps is not whole
    if draws_rows and (not mean_square or whole.equivalent(given.n).is_random):
        recipe_given = {"penalty": penalty, "momentum": momentum, "nesterov": nesterov}
        return _of_dealt_samples(given, whole, mean_square, unpenalized=unpenalized, **recipe_given)
    problem, scheme = base.fitted(given, whole)
    scheme = base.without_stages(scheme, "the critical step")
    made = recipe.checked(1.0, None, penalty, momentum, 1, nesterov, unpenalized, problem.p)
    _arrays.flag("mean_square", mean_square)
    is_symmetric = made.is_plain and scheme.is_symmetric
    is_linear = is_symmetric and (scheme.steps(problem.n) == 1 or scheme.shuffle is Shuffle.EVERY_STEP)
    of_mean = CriticalStep(_linear_critical_step(problem, scheme)) if is_linear else None
    if of_mean is not None and not (mean_square and scheme.equivalent(problem.n).is_random):
        return of_mean
    at_rest = AffineTrajectory(
        problem, scheme, replace(made, schedule=0.0), np.zeros((problem.p, 1)), _ALL_ORDERS
    )
    if at_rest.space.dimension == 0 and not (made.penalty and problem.p):
        return CriticalStep(np.inf)
    if is_symmetric and not is_linear:
        seen = at_rest.visited
        blocks, scale = seen.blocks(scheme.partition(seen.n), scheme.divisors(seen.n)), seen.row_space.scale
        contracting = base.contracting_step(scheme, seen.n, blocks)
        if (step := critical_polynomials.exact_step(scheme, seen.n, blocks, contracting)) is not None:
            of_mean = CriticalStep(step / scale / scale)
    drawn_start = _contracting_start(at_rest)
    # Orders that are the same in every epoch may drive what oscillates by half a turn per epoch or more, at
    # sqrt(step w) >= pi / B; drawn ones differ from epoch to epoch.
    exact_start = drawn_start / scheme.steps(problem.n) ** 2 if made.momentum else drawn_start
    drawn = {"growth": COARSE_GROWTH, "precision": _DRAWN_PRECISION}
    mean_is_drawn = of_mean is None and (is_symmetric or _is_drawn(at_rest, of_square=False))
    orders_differ = _orders_differ(at_rest, is_symmetric)
    wants_square = mean_square and orders_differ
    square, found = cache(_drawn_square(at_rest)), None
    if wants_square and mean_is_drawn and _is_drawn(at_rest, of_square=True):
        # The gain is infinite where the mean of the same orders diverges: before that the mean need not be known.
        found = first_crossing(square, drawn_start, **drawn)
        if math.isfinite(square(found + min(found.error, found)).value):
            return found
    if mean_is_drawn:
        of_mean = first_crossing(_drawn_rate(at_rest, is_symmetric), drawn_start, **drawn)
    if of_mean is None:

        def of_all_orders(step: float) -> Rate:
            return STABLE if _with_step(at_rest, step).converges else UNSTABLE

        of_mean = first_crossing(of_all_orders, exact_start, precision=_PRECISION)
    mean = float(of_mean)
    if not wants_square:
        if mean_is_drawn and orders_differ and square(mean).least >= 1:
            of_mean.advice = "single runs diverge at a smaller step: ask for mean_square=True"
        return of_mean
    if not _is_drawn(at_rest, of_square=True):
        return first_crossing(_exact_square(at_rest), exact_start, mean, precision=_MEAN_SQUARE_PRECISION)
    if found is None:
        found = first_crossing(square, drawn_start, mean + min(of_mean.error, mean / 2), **drawn)
    if found < mean:
        return found
    # Single runs never converge where their mean does not.
    return CriticalStep(mean, *max((one.error, one.error_kind) for one in (found, of_mean)))


def _is_drawn(run: AffineTrajectory, of_square: bool) -> bool:
    """True if the rate is that of drawn orders, since all of them cost too much; refused where none are drawn."""
    steps, is_shuffled = run.walk.steps, run.scheme.shuffle is Shuffle.EVERY_EPOCH
    if is_shuffled and (not run.walk.exists or (climbs(run.scheme) and steps > MOST_BATCHES)):
        return True
    timeline, eigenvalues = run.timeline, _EIGENVALUES * float(run.dimension) ** 3
    tried = timeline.count * (walk_flops(timeline.walk, run.blocks, run.dimension) + eigenvalues)
    if of_square:
        tried += _ROUNDS_OF_A_TRY * (epoch_flops(timeline) + eigenvalues)
    tries = _TRIES + (math.log(100 * steps**2) / math.log(GROWTH) if run.recipe.momentum else 0)
    if is_shuffled:
        return bool(tries * tried > BUDGET)
    require_affordable(
        tries * tried, BUDGET, f"the critical step of {steps} batches",
        ("fewer batches", "{stability}() of descend(...) at the steps of interest"),
    )  # fmt: skip
    return False


def _orders_differ(run: AffineTrajectory, is_symmetric: bool) -> bool:
    """True if epochs differ in what they do to the state; if not, the mean square is the square of the mean."""
    if is_symmetric and run.space.dimension == 1 and run.scheme.shuffle is Shuffle.EVERY_EPOCH:
        return run.scheme.unit.is_cut
    return run.space.dimension > 0 and run.timeline.count == 1 and run.timeline.scheme.is_random


# --------------------------------------------------------------------------------------------- rates of a step


@dataclass(frozen=True)
class Rate:
    """A number that is one at the end of stability, at some step: its value, and between which it surely is."""

    value: float
    least: float
    most: float
    error_kind: ErrorKind = "exact"

    @property
    def is_open(self) -> bool:
        """True if it may be on either side of one."""
        return self.least < 1 <= self.most


STABLE, UNSTABLE = (Rate(value, value, value) for value in (0.0, math.inf))
"""Exact rates of which only the side of one is known; the second may be beyond the range of numbers, too."""
RateAt = Callable[[float], Rate]


def _with_step(at_rest: AffineTrajectory, step: float) -> AffineTrajectory:
    return at_rest.with_recipe(replace(at_rest.recipe, schedule=step))


def _exact_square(at_rest: AffineTrajectory) -> RateAt:
    """Gain of the spread over all orders; each step begins with the eigenmatrix of the last one."""
    value, matrix = 0.0, None

    def rate(step: float) -> Rate:
        nonlocal value, matrix
        run = _with_step(at_rest, step)
        if not run.converges:
            return UNSTABLE
        value, matrix = gain_beside_one(run.timeline, matrix, is_near=abs(value - 1) < _CLOSE)
        return Rate(value, value, value)

    return rate


def _drawn_rate(at_rest: AffineTrajectory, is_symmetric: bool) -> RateAt:
    """Spectral radius of the mean over drawn orders."""
    require_affordable(
        _TRIES * DrawnBlocks(_with_step(at_rest, 1.0).timeline, _OF_BLOCKS).flops, BUDGET,
        f"the critical step of {at_rest.walk.steps} batches",
        ("fewer rows or features", "{stability}() of descend(...) at the steps of interest"),
    )  # fmt: skip

    def rate(step: float) -> Rate:
        run = _with_step(at_rest, step)
        if not run.converges_outside:
            return UNSTABLE
        orders = DrawnBlocks(run.timeline, _OF_BLOCKS)
        for expense, most in ((_OF_BLOCKS, _FEWEST_ROUNDS), (_OF_A_TRIAL, _MOST_ROUNDS)):
            rounds = int(np.clip(expense / orders.flops, 1, most))
            found = _rate_of(orders.visits, orders.kernels(rounds), is_symmetric)
            if found.most < _NEAR:
                break
        return found

    return rate


def _rate_of(visits: Visits, kernels: FloatArray, is_symmetric: bool) -> Rate:
    """Spectral radius of the mean of maps I - L K R, from the kernels K (groups, d, d) of groups of draws.

    A slow mode that is known well hides a fast one that is not, and may be beyond one: where modes are real the
    error of each counts.
    """
    losses = scaled_losses(visits.left, visits.right, kernels)
    mean = losses.mean(axis=0)
    if not np.isfinite(mean).all():
        return UNSTABLE
    if is_symmetric:
        values, modes = scipy.linalg.eigh(mean, check_finite=False)
        sizes = np.abs(1 - values)
        errors = _SKEWED * error_of_mean(np.einsum("ij,gij->gj", modes, losses @ modes))
    else:
        replicas = mean + (mean - losses) / (len(losses) - 1)
        sizes, *without = (
            np.abs(1 - scipy.linalg.eigvals(each, check_finite=False)).max(keepdims=True)
            for each in (mean, *replicas)
        )
        errors = _SKEWED * jackknife(sizes, np.array(without))
    # Rates grow by powers of the step, and their errors with them: one that is seen at all is off by a factor.
    is_seen = sizes > errors / _SEEN
    least = np.divide(np.square(sizes), sizes + errors, out=np.zeros_like(sizes), where=is_seen)
    return Rate(float(sizes.max()), float(least.max()), float((sizes + errors).max()), CONFIDENCE)


def _drawn_square(at_rest: AffineTrajectory) -> RateAt:
    """Gain of the spread by drawn orders less their mean: at the end of stability it is one, too.

    A mean of positive numbers, most of which are far below it: where its error is as large as itself it is off by a
    factor. Far below one few orders suffice.
    """
    matrix: FloatArray | None = None
    reached = math.inf

    def rate(step: float) -> Rate:
        nonlocal matrix, reached
        run = _with_step(at_rest, step)
        orders = DrawnBlocks(run.timeline, _OF_BLOCKS)
        roots = np.sqrt(orders.visits.left) * np.sqrt(orders.visits.right)
        scales, nothing = np.outer(roots, roots), np.zeros((MOST_GROUPS, 0))

        def centred(rounds: int, pairs: int) -> CentredMaps | None:
            mean = orders.kernels(rounds).mean(axis=0)
            maps = scales * (mean - orders.single(pairs))
            if not (run.converges_outside and np.isfinite(maps).all()):
                return None
            loss, side_by_side = scales * mean, np.ascontiguousarray(maps.swapaxes(1, 2))
            return CentredMaps(np.eye(len(loss)) - loss, side_by_side, nothing, nothing, nothing, nothing)

        all_rounds = int(np.clip(_OF_BLOCKS / orders.flops, 1, _FEWEST_ROUNDS))
        for rounds, pairs in ((1, 1), (all_rounds, _PAIRS)) if step < reached else ((all_rounds, _PAIRS),):
            maps = centred(rounds, pairs)
            if maps is None:
                return UNSTABLE
            with few_threads(len(maps.mean)):
                if pairs < _PAIRS:
                    bound = gain_bound(maps, _TINY, 2, matrix)
                    if bound.upper < _TINY:
                        matrix = bound.matrix
                        return Rate(bound.upper, 0.0, _NEAR, CONFIDENCE)
                known = gain(maps)
            if known.error < known.value and known.value + known.error < _FAR_BELOW:
                break
            reached = min(reached, step)
        most = known.value + known.error
        least = known.value * known.value / most if 0 < known.value < math.inf else known.value
        return Rate(known.value, least, most, CONFIDENCE)

    return rate


@overflow_is_inf
def screened_rate(
    problem: LeastSquares, scheme: Scheme, made: Recipe, operations: float = AT_ONCE
) -> Rate | None:
    """Rate of the mean iterate at a constant step from a few drawn orders, in a fraction of a second.

    None where the mean is taken over all orders, or where already a few of them take more operations.
    """
    draws = scheme.shuffle is Shuffle.EVERY_EPOCH and not scheme.has_stages and made.is_constant
    # Rows that are read in chunks are not there to be drawn.
    if not draws or not problem.compressed.are_all:
        return None
    plain, step = replace(made, schedule=0.0, divisor=1, average=None), made.at(0).step
    at_rest = AffineTrajectory(problem, scheme, plain, np.zeros((problem.p, 1)), _ALL_ORDERS)
    if at_rest.space.dimension == 0 or step == 0 or not _is_drawn(at_rest, of_square=False):
        return None
    if DrawnBlocks(_with_step(at_rest, step).timeline, _OF_BLOCKS).flops > operations:
        return None
    return _drawn_rate(at_rest, made.is_plain and scheme.is_symmetric)(step)


# ------------------------------------------------------------------------------------------ bracket and narrow


def first_crossing(
    rate: RateAt, start: float, last: float = math.inf, *, growth: float = GROWTH, precision: float
) -> CriticalStep:
    """First step from `start` on at which a rate reaches one: the last step below, and its error.

    Steps are a factor `growth` apart where the rate falls or is small; the crossing is enclosed to a relative width
    `precision`. The answer is `last` where the rate is below one at all steps before.

    The error reaches from where the rate may be one already to where it surely is. Where it is at no step nearby it
    reaches to twice the step while the rate rises, an estimate; else everything is open, and the error is infinite.
    """
    rate = cache(rate)
    halved = (math.ldexp(start, -halvings) for halvings in range(_HALVINGS))
    low = next((step for step in halved if rate(step).value < 1), 0.0)
    if not low:
        raise ArithmeticError(
            f"no step between {math.ldexp(start, 1 - _HALVINGS):.3g} and {start:.3g} is stable up to rounding; try "
            "a smaller momentum or penalty."
        )
    sure, first_open, end = low, math.inf, low
    for step in track(_ascending(rate, low, last, growth), None, "trying steps"):
        here, end = rate(step), step
        first_open = min(first_open, step) if here.most >= 1 else first_open
        sure = step if math.isinf(first_open) else sure
        if here.value >= 1:
            break
        low = step
    kind, upper = weakest(rate(low).error_kind, rate(end).error_kind), last
    if rate(end).value < 1:
        low = last
    else:
        wide = THRESHOLDS if rate(low).is_open and rate(end).is_open else precision
        low, high = _narrowed(lambda step: rate(step).value, low, end, wide)
        upper = low if kind == "exact" else _surely_unstable(rate, high, last)
        if math.isinf(upper):
            rises = rate(_FARTHEST * high).value > rate(high).most
            upper, kind = _FARTHEST * high if rises else math.inf, "estimate"
    lower = low
    if math.isfinite(first_open) and rate(low).most >= 1:
        lower, _ = _narrowed(lambda step: rate(step).most, sure, min(first_open, low), THRESHOLDS)
    return CriticalStep(low, max(low - lower, upper - low), kind)


def _ascending(rate: RateAt, low: float, last: float, growth: float) -> Iterator[float]:
    """Steps from a stable one to the last, with fine ones between coarse ones where a window may be narrow."""
    rose = True
    while low < last:
        high = min(low * growth, last)
        before, after = rate(low), rate(high)
        rises = after.value >= before.value
        # Where the error leaves everything open, finer steps say no more.
        if max(before.most, after.most) > _NEAR and (rose or rises) and before.most < 1:
            fine = (low * GROWTH**number for number in range(1, _FINE))
            yield from (step for step in fine if step < high)
        yield high
        low, rose = high, rises


def _surely_unstable(rate: RateAt, step: float, last: float) -> float:
    """A step from an unstable one on that is unstable whatever the error, near the first; inf if none is found."""
    low, growth = step, GROWTH
    for _ in range(_MOST_BEYOND):
        if rate(step).least >= 1:
            return _narrowed(lambda step: rate(step).least, low, step, THRESHOLDS)[1]
        if step >= last:
            return last
        low, step, growth = step, min(step * growth, last), growth * growth
    return math.inf


def _narrowed(
    number: Callable[[float], float], low: float, high: float, precision: float
) -> tuple[float, float]:
    """Two steps between which a number reaches one, closer together than the precision.

    By secants of its reciprocal, since a gain has a pole not far beyond, each moved towards the middle by less than
    the precision so that both ends close in, and by bisection where the number is zero or infinite (ITP, Oliveira
    and Takahashi, 2020: at most four evaluations beyond bisection).
    """

    def height(step: float) -> float:
        return 1 - 1 / max(number(step), 0.5)

    points, wide = [(low, height(low)), (high, height(high))], _SLACK * (high - low)
    while high - low > precision * high:
        middle, wide = (low + high) / 2, wide / 2
        (first, one), (second, other) = sorted(points, key=lambda point: abs(point[1]))[:2]
        secant = first - one * (second - first) / (other - one) if other != one else middle
        secant = min(max(secant, low), high)
        nudge = math.copysign(min(precision * high / 3, abs(middle - secant)), middle - secant)
        reach = max(wide - (high - low) / 2, 0.0)
        step = min(max(secant + nudge, middle - reach), middle + reach)
        points.append((step, height(step)))
        low, high = (low, step) if number(step) >= 1 else (step, high)
    return low, high


# --------------------------------------------------------------------------------------- steps that norms give


def _contracting_start(run: AffineTrajectory) -> float:
    """A step at which every visit is a contraction; with momentum, of which that is no proof, a hundredth of it."""
    space = run.space
    inverse = 1 / base.contracting_step(run.scheme, run.problem.n, run.blocks) if space.dimension else 0.0
    inverse = inverse * space.scale * space.scale + run.recipe.penalty / 2
    return (0.01 if run.recipe.momentum else 1.0) / inverse * (1 - 1e-9)


def _of_dealt_samples(
    problem: LeastSquares, scheme: Scheme, mean_square: bool, **options: Any
) -> CriticalStep:
    """Critical step of shuffled samples that are read in chunks: one pass deals some batches of them at random.

    Orders of these batches are drawn. Their Gram matrix is made that of all rows: with the rows in coordinates in
    which that is the identity, their singular values are set to one. Another deal changes what batching does to the
    step by a share of about sqrt(2 / B), three times which is added to the error.
    """
    n, sizes = problem.n, scheme.sizes(problem.n)
    count = min(len(sizes), max(_DEALT, math.ceil(_ROWS_PER_FEATURE * problem.p / sizes[0])))
    places = np.random.default_rng(0).permutation(n)
    # What is in none of these batches is one more group.
    whole = problem.of_groups(
        RowGroups.labelled(np.searchsorted(np.cumsum(sizes[:count]), places, side="right"))
    )
    assert whole.compressed.offsets is not None
    dealt, space = whole.compressed.first(int(whole.compressed.offsets[count])), whole.row_space
    _, singular, right = scipy.linalg.svd(whole.reduction.rows, full_matrices=False, check_finite=False)
    inside = space.coordinates(dealt.X.T).T @ (right.T / singular)
    left, _, turned = scipy.linalg.svd(inside, full_matrices=False, check_finite=False)
    rows = math.sqrt(dealt.n / n) * (left @ turned) @ (singular[:, np.newaxis] * right)
    alike = LeastSquares.of_compressed(
        replace(dealt, X=space.scale * space.lift(rows.T).T), problem.outputs, problem.is_weighted
    )
    found = critical_step(alike, RandomReshuffling(batches=count), mean_square=mean_square, **options)
    by_batching = abs(found - critical_step(alike, FullBatch(), mean_square=False, **options))
    error = found.error + 3 * math.sqrt(2 / count) * by_batching
    return CriticalStep(found, error, weakest(found.error_kind, "estimate"), found.advice)


def _linear_critical_step(problem: LeastSquares, scheme: Scheme) -> float:
    """2 / |W| where the mean of a visit is I - step W: of all of X only the largest singular value is needed."""
    X, scale = problem.compressed.X, problem.compressed.scale
    parts, divisors = scheme.partition(problem.n), scheme.divisors(problem.n)
    weights = np.zeros(len(X))
    for part, divisor in zip(parts, divisors, strict=True):
        # Of samples that are cut into batches anew the divisor is one, however many rows each has.
        weights[part] = 1 / (len(parts) * divisor * scheme.rows_per_unit)
    top = largest_eigenvalue(X, weights, scale)
    return 2 / top / scale / scale if top else math.inf


def largest_eigenvalue(X: FloatArray, weights: FloatArray, scale: float) -> float:
    """The largest eigenvalue of X'diag(weights) X / scale^2, to about twelve digits, for X (n, p).

    By Lanczos' iteration from a start that is always the same, or from the Gram matrix of whichever is fewer, rows
    or columns. Both find the largest singular value of X as well as any decomposition would, however badly X is
    conditioned: what is lost in a Gram matrix are the small ones.

    >>> largest_eigenvalue(np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 1.0]]), np.full(3, 0.5), 2.0)
    0.625
    """
    factor = np.sqrt(weights)[:, np.newaxis] * X
    factor /= scale
    if len(factor) < factor.shape[1]:
        factor = factor.T
    size = min(X.shape)
    if size > _SMALL:
        start = np.random.default_rng(0).standard_normal(size)
        if not (factor @ start).any():
            return 0.0
        operator = LinearOperator((size, size), lambda vector: factor.T @ (factor @ vector), dtype=np.float64)
        try:
            return float(eigsh(operator, 1, which="LA", v0=start, ncv=_KRYLOV, return_eigenvectors=False)[0])
        except ArpackNoConvergence:
            pass
    return max(eigenvalue(factor.T @ factor, -1), 0.0)
