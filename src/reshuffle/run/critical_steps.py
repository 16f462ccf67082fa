"""Up to which step a run converges: its mean, or its mean square."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from reshuffle._core import checks
from reshuffle.epoch import choice
from reshuffle.epoch.accuracy import Accuracy, require_affordable
from reshuffle.epoch.lattice.subsets import require_few
from reshuffle.problem import checked_problem
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.recipe import recipe
from reshuffle.run import step_search
from reshuffle.run.affine_engine import AffineEngine
from reshuffle.run.mean_square import epoch_flops, require_fixed_batches, settles
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
) -> float:
    """The step up to which a run converges from every start.

    For the mean iterate of schemes whose epochs are symmetric, without penalty or momentum, it is followed
    rigorously to a relative precision of 1e-9 (see `certified_step`). Otherwise steps are tried on a grid 2%
    apart, upwards from where every visit is a contraction (far below that with momentum), and the first step that
    fails is refined by bisection: what is returned was found stable; a gap of instability narrower than 2% would be
    missed.

    Parameters
    ----------
    problem, scheme
    mean_square : bool
        Ask for the convergence of E |beta_k - limit|^2, on which the expected risk of a run depends, in place of
        that of the mean iterate: it ends at a smaller step or at the same. To a relative precision of 1e-6.
    penalty, momentum, nesterov, unpenalized
        As in `descend`.

    >>> import math
    >>> import reshuffle as rs
    >>> angle = math.radians(50)
    >>> problem = rs.LeastSquares([[1.0, 0.0], [math.cos(angle), math.sin(angle)]], [0.0, 0.0])
    >>> round(rs.critical_step(problem, rs.RandomReshuffling(2)), 4)
    2.8986
    >>> round(rs.critical_step(problem, rs.RandomReshuffling(2), mean_square=True), 4)
    2.0
    """
    problem = checked_problem(problem)
    scheme = base.without_stages(base.checked(scheme, problem.n), "the critical step")
    made = recipe.checked(1.0, None, penalty, momentum, 1, nesterov, unpenalized, problem.p)
    checks.flag("mean_square", mean_square)
    if mean_square:
        require_fixed_batches(scheme, problem.n)
    if made.is_plain and scheme.is_symmetric and not mean_square:
        return step_search.certified_step(problem, scheme)
    # Drawn orders would make the end of stability a matter of chance.
    require_fixed_batches(scheme, problem.n, "the critical step with momentum or a penalty")
    if choice.climbs(scheme.equivalent(problem.n)):
        require_few(scheme.steps(problem.n))

    at_rest = AffineEngine(problem, scheme, replace(made, schedule=0.0), np.zeros(problem.p), _ALL_ORDERS)

    def run(step: float) -> AffineEngine:
        return at_rest.with_recipe(replace(made, schedule=step))

    _require_affordable(at_rest, mean_square)
    if at_rest.space.dimension == 0 and not (made.penalty and problem.p):
        return np.inf
    safe = _safe_step(at_rest)
    if not (mean_square and _spreads(at_rest)):
        return step_search.first_failure(lambda step: run(step).converges, safe, _PRECISION)
    found = step_search.first_failure(
        lambda step: _converges_in_mean_square(run(step)), safe, _MEAN_SQUARE_PRECISION
    )
    # The mean, whose critical step is known to more digits, never fails before its square.
    of_mean = critical_step(
        problem,
        scheme,
        penalty=made.penalty,
        momentum=made.momentum,
        nesterov=made.nesterov,
        unpenalized=made.unpenalized,
    )
    return min(found, of_mean)


def _require_affordable(run: AffineEngine, mean_square: bool) -> None:
    """Refuse a search that takes longer than `step_search.BUDGET`, told from the price of trying one step."""
    steps, courses = run.walk.steps, run.courses
    eigenvalues = _EIGENVALUES * float(run.dimension) ** 3
    walk = choice.walk_flops(courses[0].walk, run.blocks, run.dimension)
    tried = len(courses) * (walk + eigenvalues)
    if mean_square and _spreads(run):
        tried += _ROUNDS_OF_A_TRY * (epoch_flops(courses[0]) + eigenvalues)
    tries = _TRIES + (math.log(100 * steps**2) / math.log(step_search.GROWTH) if run.recipe.momentum else 0)
    require_affordable(
        tries * tried, step_search.BUDGET, f"the critical step of {steps} batches",
        "try fewer batches, or stability() of descend(...) at the steps of interest",
    )  # fmt: skip


def _spreads(run: AffineEngine) -> bool:
    """Whether orders differ along a course; if not, the mean square along it is the square of the mean."""
    (course, *others) = run.courses
    return not others and course.scheme.is_random


def _converges_in_mean_square(run: AffineEngine) -> bool:
    return run.converges and settles(run.courses[0])


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
