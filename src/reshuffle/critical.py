"""Up to which step a run converges: its mean, or its mean square."""

from collections.abc import Callable
from typing import Any

import numpy as np

from reshuffle import door, recipe, stability
from reshuffle.affine_mean import AffineMean
from reshuffle.mean_square import settles
from reshuffle.problem import LeastSquares
from reshuffle.recipe import Recipe
from reshuffle.schemes import SampleWithReplacement, Scheme

_GROWTH = 1.02
"""Steps are first tried on a grid this fine."""
_PRECISION = 1e-9
_MEAN_SQUARE_PRECISION = 1e-6


def critical_step(
    problem: LeastSquares,
    scheme: Scheme,
    *,
    mean_square: bool = False,
    penalty: float = 0.0,
    momentum: float = 0.0,
) -> float:
    """The step up to which a run converges from every start.

    For the mean iterate of schemes whose epochs are symmetric, without penalty or momentum, it is followed
    rigorously to a relative precision of 1e-9 (see `reshuffle.stability`). Otherwise steps are tried on a grid 2%
    apart, upwards from where every visit is a contraction, and the first step that fails is refined by bisection; a
    gap of instability narrower than that would be missed.

    Parameters
    ----------
    problem, scheme
    mean_square : bool
        Ask for the convergence of E |beta_k - limit|^2, on which the expected risk of a run depends, in place of
        that of the mean iterate: it ends at a smaller step or at the same. To a relative precision of 1e-6.
    penalty, momentum : float
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
    problem = door.problem(problem)
    scheme = door.scheme(scheme, problem)
    made = recipe.recipe(1.0, None, penalty, momentum, 1)
    if made.is_plain and scheme.is_symmetric and not mean_square:
        return stability.critical_step(problem, scheme)

    def run(step: float) -> AffineMean:
        return AffineMean(problem, scheme, Recipe(step, penalty, momentum), np.zeros(problem.p))

    if run(0.0).space.dimension == 0 and not (penalty and problem.p):
        return np.inf
    is_stable = _converges_in_mean_square if mean_square else _converges
    precision = _MEAN_SQUARE_PRECISION if mean_square else _PRECISION
    return _first_failure(lambda step: is_stable(run(step)), _safe_step(run(0.0)), precision)


def _converges(run: AffineMean) -> bool:
    return run.stability().converges


def _converges_in_mean_square(run: AffineMean) -> bool:
    if not run.stability().converges:
        return False
    (course, *others) = run.courses()
    # On a fixed course nothing is spread.
    return bool(others) or not course.scheme.is_random or settles(course)


def _safe_step(run: AffineMean) -> float:
    """A step at which every visit shrinks what it sees; a hundredth of it where momentum makes that no proof."""
    rows, space = run.blocks.rows, run.space
    if isinstance(run.scheme, SampleWithReplacement):
        inverse = float(np.square(rows).sum(axis=1).max(initial=0.0)) / 2
    else:
        inverse = 1 / run.scheme.contracting_step(run.blocks) if space.dimension else 0.0
    inverse = inverse * space.scale * space.scale + run.recipe.penalty / 2
    return (1.0 if run.recipe.momentum == 0 else 0.01) / inverse * (1 - 1e-9)


def _first_failure(is_stable: Callable[[float], bool], low: float, precision: float) -> float:
    high: Any = low
    while is_stable(high):
        low, high = high, high * _GROWTH
    while high - low > precision * high:
        middle = (low + high) / 2
        low, high = (middle, high) if is_stable(middle) else (low, middle)
    return float((low + high) / 2)
