"""Which step at another batch size gives the nearest trajectory of the mean iterate."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.errors import UnsupportedError
from reshuffle.planning.matched_step import Match, ScalingRule
from reshuffle.recipe import Recipe
from reshuffle.run import Run, critical_step
from reshuffle.schemes import base
from reshuffle.schemes.base import Scheme

_EPOCHS = 24
"""Epochs at which trajectories are compared where only the last one is given."""
_BELOW = 1 - 1e-6
"""Of the critical step, up to which steps are looked at."""
_FACTOR = 2.0
"""Between the steps among which the best one is bracketed."""
_TRIED = 40
_PRECISION = 1e-5
"""Of the logarithm of the best step: next to a minimum the distance does not feel it."""


def match(
    run: Run, batch_size: int | None = None, *, scheme: Scheme | None = None, epochs: ArrayLike = 100
) -> Match:
    """The step at another batch size that gives the nearest trajectory, and how wrong the rules of thumb are.

    Of all steps below the critical one, that whose mean iterate b' stays nearest to the mean iterate b of the run:
    it has the smallest root mean square over epochs k of |X (b_k - b'_k)| / |X (b_k - b_0)|. Beside it the linear
    rule (step in proportion to the batch size) and the square-root rule. Everything else of the recipe is kept.

    Parameters
    ----------
    run : Run
        With a constant step, and convergent.
    batch_size : int
        Rows per visit, of the same way of visiting; or
    scheme : Scheme
        any other one.
    epochs : int or array
        The last epoch at which trajectories are compared, at 24 epochs from the first on that are spaced
        logarithmically; or all of these epochs.

    Returns
    -------
    Match
        The nearest step, its distance, and those of the two rules; it prints as a table.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(240, 20, noise=1.0, seed=0)
    >>> run = rs.descend(problem, rs.RandomReshuffling(batch_size=20), step=0.1)
    >>> rs.match(run, batch_size=80)
    from batches of 20 to 80, step 0.1, compared at epochs 1 to 100
    rule               step   distance
    nearest          0.3279      1.97%
    linear              0.4      3.50%
    square root         0.2      8.41%
    converges below 1.357
    """
    run, changed = _checked_run(run), _changed(run, batch_size, scheme)
    trajectory = _Trajectory.of(run, _clock(epochs))
    first = Run(run.problem, changed, _recipe_for(run, changed), run.start, run.accuracy)
    rows, others = (int(each.sizes(run.problem.n).max()) for each in (run.scheme, changed))
    step = run.recipe.at(0).step
    rules = [_rule(first, step * (others / rows) ** power, trajectory) for power in (1.0, 0.5)]
    recipe = run.recipe
    critical = critical_step(
        run.problem, changed, penalty=recipe.penalty, momentum=recipe.momentum, nesterov=recipe.nesterov,
        unpenalized=recipe.unpenalized,
    )  # fmt: skip
    best = _nearest(lambda tried: trajectory.distance(first.with_step(tried)), critical, rules)
    found = first.with_step(best)
    distances = trajectory.distances(found)
    return Match(
        step=best,
        batch_size=others,
        distance=_root_mean_square(distances),
        linear=rules[0],
        square_root=rules[1],
        run=found,
        original=run,
        critical_step=critical,
        epochs=trajectory.epochs,
        distances=distances,
    )


@dataclass(frozen=True, eq=False)
class _Trajectory:
    """The mean iterate of the run that is to be matched, and how far it has moved."""

    epochs: FloatArray
    iterates: FloatArray
    moved: FloatArray

    @classmethod
    def of(cls, run: Run, epochs: FloatArray) -> "_Trajectory":
        run.recipe.epochs(epochs)
        iterates = run.iterate(epochs)
        moved = np.sqrt(_squares(run, iterates - run.start))
        if not (np.isfinite(moved).all() and moved.all()):
            raise ValueError(
                f"run must move at all epochs that are compared, but {run!r} does not: "
                "give it a step above 0, or responses that the features say something about."
            )
        return cls(epochs, iterates, moved)

    def distances(self, other: Run) -> FloatArray:
        with np.errstate(invalid="ignore"):
            apart = other.iterate(self.epochs) - self.iterates
        return np.asarray(np.sqrt(_squares(other, apart)) / self.moved)

    def distance(self, other: Run) -> float:
        return _root_mean_square(self.distances(other))


def _squares(run: Run, parameters: FloatArray) -> FloatArray:
    """|X b|^2 of parameters (k, p), or (k, p, t) with all outputs together."""
    squares = run.problem.reduction.squares(parameters, 1)
    return squares if squares.ndim == 1 else np.asarray(squares.sum(axis=-1))


def _root_mean_square(distances: FloatArray) -> float:
    with np.errstate(over="ignore"):
        return float(np.sqrt(np.square(distances).mean()))


def _rule(first: Run, step: float, trajectory: _Trajectory) -> ScalingRule:
    run = first.with_step(step)
    distances = trajectory.distances(run)
    return ScalingRule(step, _root_mean_square(distances), run.converges, distances)


def _nearest(distance: Callable[[float], float], critical: float, rules: list[ScalingRule]) -> float:
    """The best step below the critical one: bracketed from the rules on, then by Brent's method."""
    known = {rule.step: rule.distance for rule in rules if rule.step < critical * _BELOW}
    ceiling = critical * _BELOW
    begin = min(known, key=lambda step: known[step]) if known else ceiling

    def far(step: float) -> float:
        if step not in known:
            known[step] = distance(step)
        return known[step]

    for factor in (_FACTOR, 1 / _FACTOR):
        here = begin
        for _ in range(_TRIED):
            there = min(here * factor, ceiling)
            if there == here or far(there) > far(here):
                break
            here = there
    best = min(known, key=lambda step: known[step])
    low, high = best / _FACTOR, min(best * _FACTOR, ceiling)
    minimize_scalar(
        lambda log: far(math.exp(log)), bounds=(math.log(low), math.log(high)), method="bounded",
        options={"xatol": _PRECISION},
    )  # fmt: skip
    return min(known, key=lambda step: known[step])


def _checked_run(run: Any) -> Run:
    """Return a run that can be matched."""
    if not isinstance(run, Run):
        raise TypeError(f"run must be a Run, made by rs.descend, but it is a {type(run).__name__}.")
    if not run.recipe.is_constant:
        raise UnsupportedError(
            f"match has no answer for {run!r}, which changes with the epoch; it needs a constant step."
        )
    if not run.converges:
        raise ValueError(f"run must converge to be matched, but {run!r} diverges; try a smaller step.")
    return run


def _changed(run: Run, batch_size: int | None, scheme: Scheme | None) -> Scheme:
    """The scheme whose step is asked for."""
    if (batch_size is None) == (scheme is None):
        raise TypeError(
            f"exactly one of batch_size and scheme must be given, but batch_size is {batch_size!r} and scheme "
            f"is {scheme!r}."
        )
    n = run.problem.n
    if batch_size is None:
        return base.without_stages(base.fitted(run.problem, scheme)[1], "match")
    # As in torch's DataLoader, a batch larger than the data holds all of them.
    size = min(_arrays.whole_number("batch_size", batch_size, 1), n)
    try:
        return base.checked(run.scheme.with_batch_size(size), n)
    except UnsupportedError as refusal:
        raise UnsupportedError(f"{refusal} Then pass it as scheme=... in place of batch_size.") from None


def _recipe_for(run: Run, scheme: Scheme) -> Recipe:
    return replace(run.recipe, visits=scheme.steps(run.problem.n))


def _clock(epochs: ArrayLike) -> FloatArray:
    """The epochs at which trajectories are compared, ascending."""
    when = _arrays.epochs(epochs)
    if when.ndim == 0:
        last = _arrays.whole_number("epochs", when, 1)
        when = np.geomspace(1.0, float(last), min(last, _EPOCHS)).round()
    when = np.unique(when)
    if not when.size or when[0] == 0:
        raise ValueError(
            "epochs must hold at least one epoch, and none before the first step, but there is 0 or none."
        )
    return when
