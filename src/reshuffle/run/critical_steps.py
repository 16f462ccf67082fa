"""Up to which step a run converges: its mean, or its mean square."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.epoch import select
from reshuffle.epoch.accuracy import Accuracy, require_affordable
from reshuffle.epoch.averaging.lattice import MOST_BATCHES, require_few
from reshuffle.epoch.moments.matrix import epoch_flops
from reshuffle.epoch.moments.select import draws_thresholds
from reshuffle.problem import checked_problem
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.recipe import recipe
from reshuffle.run import estimated_steps, step_search
from reshuffle.run.engines.affine_engine import AffineEngine
from reshuffle.run.estimated_steps import CriticalStep
from reshuffle.run.mean_square import settles
from reshuffle.schemes import base
from reshuffle.schemes.base import Scheme

_PRECISION = 1e-9
_MEAN_SQUARE_PRECISION = 1e-6
_TRIES = 100
"""About how many steps are tried, from one at which every visit shrinks what it sees."""
_ROUNDS_OF_A_TRY = 10
_EIGENVALUES = 25
"""Operations of all eigenvalues of a matrix, over the cube of its size; of a Lyapunov equation, too."""
_ALL_ORDERS = Accuracy(method="exact", rtol=math.inf, budget=math.inf)


def critical_step(
    problem: LeastSquares,
    scheme: Scheme,
    *,
    mean_square: bool = False,
    penalty: float = 0.0,
    momentum: float = 0.0,
    nesterov: bool = False,
    unpenalized: ArrayLike = (),
) -> CriticalStep:
    """The step up to which a run converges from every start.

    For the mean iterate of schemes whose epochs are symmetric, without penalty or momentum, it is followed
    rigorously to a relative precision of 1e-9 (see `certified_step`). Otherwise steps are tried on a grid 2%
    apart, upwards from where every visit is a contraction (far below that with momentum), and the first step that
    fails is refined by bisection: what is returned was found stable; a gap of instability narrower than 2% would be
    missed.

    Features of rank one, and up to 14 shuffled samples, are followed as rigorously. Where orders are too many for
    that, as of more shuffled samples, steps are tried 10% apart, with the mean as it is known there, and 2% apart
    where the rate is above 0.6 and rises, or has just risen; that of the mean square is found by centred maps of
    drawn orders. A window of instability wider than 10% of its step is sure to be found. The answer is a number
    like any other, with its `error` and its `error_kind` beside it: the error reaches from where the rate may be
    one to where it surely is, and is an estimate where draws leave open whether any step nearby is unstable.

    Parameters
    ----------
    problem, scheme
    mean_square : bool
        Ask for the convergence of E |beta_k - limit|^2, on which the expected risk of a run depends, in place of
        that of the mean iterate: it ends at a smaller step or at the same. To a relative precision of 1e-6.
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
    >>> round(rs.critical_step(problem, rs.RandomReshuffling(2)), 4)
    2.8986
    >>> round(rs.critical_step(problem, rs.RandomReshuffling(2), mean_square=True), 4)
    2.0
    >>> step = rs.critical_step(rs.gaussian(60, 3, seed=0), rs.SampleReshuffling(4), mean_square=True)
    >>> bool(0 < step.error < 0.1 * step), step.error_kind
    (True, 'three standard errors')
    """
    problem, scheme = base.fitted(checked_problem(problem), scheme)
    scheme = base.without_stages(scheme, "the critical step")
    made = recipe.checked(1.0, None, penalty, momentum, 1, nesterov, unpenalized, problem.p)
    _arrays.flag("mean_square", mean_square)
    at_rest = AffineEngine(problem, scheme, replace(made, schedule=0.0), np.zeros(problem.p), _ALL_ORDERS)
    symmetric = made.is_plain and scheme.is_symmetric
    certified = symmetric and step_search.is_certified(problem, scheme)
    if certified and not mean_square:
        return CriticalStep(step_search.certified_step(problem, scheme))
    price = np.inf if symmetric and not certified else _price(at_rest, mean_square)
    if draws_thresholds(at_rest.walk, price, step_search.BUDGET):
        if at_rest.space.dimension == 0 and not (made.penalty and problem.p):
            return CriticalStep(np.inf)
        safe = _safe_step(at_rest)
        of_mean = (
            CriticalStep(step_search.certified_step(problem, scheme))
            if certified
            else estimated_steps.mean_step(at_rest, symmetric, safe)
        )
        if not mean_square or _agree(at_rest, symmetric):
            return of_mean
        return estimated_steps.mean_square_step(at_rest, symmetric, safe, of_mean)
    if select.climbs(scheme.equivalent(problem.n)):
        require_few(scheme.steps(problem.n))

    def run(step: float) -> AffineEngine:
        return at_rest.with_recipe(replace(made, schedule=step))

    _require_affordable(at_rest, mean_square)
    if at_rest.space.dimension == 0 and not (made.penalty and problem.p):
        return CriticalStep(np.inf)
    safe = _safe_step(at_rest)
    if not (mean_square and _spreads(at_rest)):
        return CriticalStep(step_search.first_failure(lambda step: run(step).converges, safe, _PRECISION))
    is_stable = _MeanSquare()
    found = step_search.first_failure(lambda step: is_stable(run(step)), safe, _MEAN_SQUARE_PRECISION)
    # The mean, whose critical step is known to more digits, never fails before its square.
    of_mean = critical_step(
        problem,
        scheme,
        penalty=made.penalty,
        momentum=made.momentum,
        nesterov=made.nesterov,
        unpenalized=made.unpenalized,
    )
    return CriticalStep(min(found, of_mean))


def _require_affordable(run: AffineEngine, mean_square: bool) -> None:
    """Refuse a search that takes longer than `step_search.BUDGET`."""
    require_affordable(
        _price(run, mean_square), step_search.BUDGET, f"the critical step of {run.walk.steps} batches",
        "try fewer batches, or stability() of descend(...) at the steps of interest",
    )  # fmt: skip


def _price(run: AffineEngine, mean_square: bool) -> float:
    """Operations of a search over all orders, told from the price of trying one step."""
    shuffled = draws_thresholds(run.walk, np.inf, 0.0)
    if shuffled and (not run.walk.exists or (select.climbs(run.scheme) and run.walk.steps > MOST_BATCHES)):
        return np.inf
    steps, courses = run.walk.steps, run.courses
    eigenvalues = _EIGENVALUES * float(run.dimension) ** 3
    walk = select.walk_flops(courses[0].walk, run.blocks, run.dimension)
    tried = len(courses) * (walk + eigenvalues)
    if mean_square and _spreads(run):
        tried += _ROUNDS_OF_A_TRY * (epoch_flops(courses[0]) + eigenvalues)
    tries = _TRIES + (math.log(100 * steps**2) / math.log(step_search.GROWTH) if run.recipe.momentum else 0)
    return float(tries * tried)


def _spreads(run: AffineEngine) -> bool:
    """Whether orders differ along a course; if not, the mean square along it is the square of the mean."""
    (course, *others) = run.courses
    return not others and course.scheme.is_random


def _agree(run: AffineEngine, symmetric: bool) -> bool:
    """Whether all orders do the same: those of fixed batches whose features have rank one."""
    return symmetric and run.space.dimension == 1 and not run.scheme.unit.is_cut


class _MeanSquare:
    """Whether mean squares converge, asked of one step after another: each begins where the last one ended."""

    def __init__(self) -> None:
        self._matrix: FloatArray | None = None

    def __call__(self, run: AffineEngine) -> bool:
        if not run.converges:
            return False
        converges, self._matrix = settles(run.courses[0], self._matrix)
        return converges


def _safe_step(run: AffineEngine) -> float:
    """A step at which every visit shrinks what it sees.

    Momentum makes that no proof, since B visits that differ drive what oscillates by half a turn per epoch or more:
    sqrt(step w) >= pi / B. So the start is a hundredth of it, over B^2.
    """
    space, n = run.space, run.problem.n
    inverse = 1 / step_search.contracting_step(run.scheme, n, run.blocks) if space.dimension else 0.0
    inverse = inverse * space.scale * space.scale + run.recipe.penalty / 2
    caution = 1.0 if run.recipe.momentum == 0 else 0.01 / run.scheme.steps(run.problem.n) ** 2
    return caution / inverse * (1 - 1e-9)
