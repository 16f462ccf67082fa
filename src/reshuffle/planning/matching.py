"""The step at another batch size whose mean iterate stays nearest to that of a run, and two rules of thumb."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._budget import A_SECOND
from reshuffle._display import Displayed, Table, plain
from reshuffle._uncertainty import factor, significant
from reshuffle.errors import ArgumentError, UnsupportedError
from reshuffle.grid.metrics import REFUSALS
from reshuffle.run import Run, critical_step
from reshuffle.run.critical_steps import CriticalStep
from reshuffle.schemes import base
from reshuffle.schemes.base import Scheme
from reshuffle.validation import single_runs

_EPOCHS = 24
"""Epochs at which trajectories are compared where only the last one is given."""
_BELOW = 1 - 1e-6
"""Largest step that is tried, relative to the critical one."""
_FACTOR = 2.0
"""Ratio of the steps among which the best one is bracketed."""
_TRIED = 40
_PRECISION = 1e-5
"""Of the logarithm of the best step: next to a minimum the distance does not feel it."""


@dataclass(frozen=True, eq=False)
class ScalingRule(Displayed):
    """The step that a rule of thumb gives at another batch size."""

    _shown = ("step", "distance", "converges")

    step: float
    distance: (
        float  # of its trajectory from the one to be matched, as in `Match`; inf where it leaves all bounds
    )
    converges: bool  # in the mean
    distances: FloatArray  # (k,): at each of the epochs of the match
    learning_rate = property(attrgetter("step"), doc="The step, in torch's word.")

    def __repr__(self) -> str:
        step, distance = significant(self.step, 4), significant(self.distance, 3)
        return f"ScalingRule(step={step}, distance={distance}{'' if self.converges else ', diverges'})"


@dataclass(frozen=True, eq=False)
class Match(Displayed):
    """The step at another batch size whose mean iterate stays nearest to that of a run.

    Attributes
    ----------
    step : float
        The best of all steps below `critical_step`.
    batch_size : int
        Rows per visit, of the largest batch.
    distance : float
        The root mean square over `epochs` of |X (b_k - b'_k)| / |X (b_k - b_0)|: how far the predictions for the
        training rows are apart, relative to how far the run has moved them. 0.01 is one per cent.
    linear : ScalingRule
        Step in proportion to the batch size.
    square_root : ScalingRule
        Step in proportion to its square root.
    run : Run
        The matched run: the same recipe at the new batch size with the best step.
    original : Run
        The run that was to be matched.
    critical_step : CriticalStep
        Steps below it converge at the new batch size, in the mean.
    epochs : (k,)
        Those at which trajectories are compared.
    distances : (k,)
        The distance at each of them.
    """

    step: float
    batch_size: int
    distance: float
    linear: ScalingRule
    square_root: ScalingRule
    run: Run
    original: Run
    critical_step: CriticalStep
    epochs: FloatArray
    distances: FloatArray
    learning_rate = property(attrgetter("step"), doc="The step, in torch's word.")

    @cached_property
    def spreads(self) -> tuple[float, float]:
        """E |X (b - E b)|^2 / n of single runs at the last epoch, of the original run and of the matched one.

        Simulated where their covariance takes longer; nan where both take more than a second.
        """
        return _spread(self.original, self.epochs), _spread(self.run, self.epochs)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Remarks: a short last batch, and the spread of single runs."""
        n, found = self.run.problem.n, []
        for run, name in ((self.original, "run that is matched"), (self.run, "matched run")):
            sizes = run.scheme.sizes(n)
            if sizes.min() < sizes.max():
                weight = significant(sizes.max() / sizes.min(), 2)
                found.append(
                    f"the last of {len(sizes)} batches of the {name} has {sizes.min()} rows, not {sizes.max()}: "
                    f"each counts {weight} times as much"
                )
        if found and (nearer := self._with_equal_batches()):
            size, distance = nearer
            found.append(
                f"that is why no step comes nearer: batches of {size}, which divide {n} rows, come within "
                f"{_percent(distance)}"
            )
        before, after = self.spreads
        if before > 0 or after > 0:
            spread = f"spread of single runs after {self.epochs[-1]:g} epochs: about"
            change = f" ({factor(after / before)})" if before else ""
            found.append(f"{spread} {significant(before, 2)} before, {significant(after, 2)} now{change}")
        return tuple(found)

    def _with_equal_batches(self) -> tuple[int, float] | None:
        """A batch size next to this one that divides the rows, if its distance is less than half as large."""
        n, wanted, run = self.run.problem.n, self.batch_size, self.run
        taken = int(self.original.scheme.sizes(n).max())
        sizes = [size for size in range(max(1, wanted // 2), min(2 * wanted, n) + 1) if n % size == 0]
        near = sorted((abs(math.log(size / wanted)), size) for size in sizes if size != taken)
        for _, size in near[:1]:
            with suppress(UnsupportedError):
                other = _with_scheme(run, run.scheme.with_batch_size(size))
                trajectory = _Trajectory.of(self.original, self.epochs)
                distance = trajectory.distance(other.with_step(self.step * size / wanted))
                return (size, distance) if distance < self.distance / 2 else None
        return None

    def table(self) -> Table:
        """The match and the two rules, a row each, with remarks below."""
        columns, original = self._columns(), self.original
        cells = [
            [name, significant(step, 4), _percent(distance), "" if converges else "diverges"]
            for name, step, distance, converges in zip(*columns.values(), strict=True)
        ]
        rows, step = original.scheme.sizes(original.problem.n).max(), original.recipe.at(0).step
        title = (
            f"from batches of {rows} to {self.batch_size}, step {significant(step, 4)}, "
            f"compared at epochs {self.epochs[0]:g} to {self.epochs[-1]:g}"
        )
        below = "\n".join([f"converges below {significant(float(self.critical_step), 4)}", *self.notes])
        return Table(columns, ["rule", "step", "distance", ""], cells, title, below)

    def _columns(self) -> dict[str, Any]:
        rules = (
            ("nearest", self.step, self.distance, True),
            *(
                (name, rule.step, rule.distance, rule.converges)
                for name, rule in (("linear", self.linear), ("square root", self.square_root))
            ),
        )
        names = ("rule", "learning_rate", "distance", "converges")
        return {name: list(column) for name, *column in zip(names, *rules, strict=True)}

    def to_dict(self) -> dict[str, Any]:
        """The match, with `linear` and `square_root`, in numbers, words and lists."""
        names = "batch_size learning_rate distance linear square_root critical_step epochs distances notes"
        return {name: plain(getattr(self, name)) for name in names.split()}

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def __repr__(self) -> str:
        return repr(self.table())


def match(
    run: Run, batch_size: int | None = None, *, scheme: Scheme | None = None, epochs: ArrayLike = 100
) -> Match:
    """The step at another batch size that gives the nearest trajectory, and how wrong the rules of thumb are.

    Among all steps below the critical one, it is the step whose mean iterate b' is nearest to the mean iterate b of
    the run, by the root mean square over epochs k of |X (b_k - b'_k)| / |X (b_k - b_0)|. The same distance is
    computed for the linear rule (step in proportion to the batch size) and the square-root rule. The rest of the
    recipe does not change.

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
    rule           step  distance
    nearest      0.3279     1.97%
    linear          0.4     3.50%
    square root     0.2     8.41%
    converges below 1.357
    spread of single runs after 100 epochs: about 0.0056 before, 0.0033 now (x0.6)
    """
    if not isinstance(run, Run):
        raise TypeError(f"run must be a Run, made by rs.descend, but it is a {type(run).__name__}.")
    if not run.recipe.is_constant:
        raise UnsupportedError(
            f"match has no answer for {run!r}, which changes with the epoch; it needs a constant step."
        )
    if not run.converges:
        raise ArgumentError("run", "converge to be matched", f"{run!r} diverges", "try a smaller step")
    changed = _changed(run, batch_size, scheme)
    trajectory = _Trajectory.of(run, _ascending(epochs))
    other, recipe = _with_scheme(run, changed), run.recipe
    rows, others = (int(each.sizes(run.problem.n).max()) for each in (run.scheme, changed))

    def rule(power: float) -> ScalingRule:
        scaled = other.with_step(recipe.at(0).step * (others / rows) ** power)
        distances = trajectory.distances(scaled)
        return ScalingRule(
            scaled.recipe.at(0).step, _root_mean_square(distances), scaled.converges, distances
        )

    rules = [rule(1.0), rule(0.5)]
    critical = critical_step(
        run.problem, changed, penalty=recipe.penalty, momentum=recipe.momentum, nesterov=recipe.nesterov,
        unpenalized=recipe.unpenalized, mean_square=False,
    )  # fmt: skip
    best = other.with_step(_nearest(lambda step: trajectory.distance(other.with_step(step)), critical, rules))
    distances = trajectory.distances(best)
    step, distance = best.recipe.at(0).step, _root_mean_square(distances)
    linear, square_root = rules
    return Match(
        step, others, distance, linear, square_root, best, run, critical, trajectory.epochs, distances
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


def _with_scheme(run: Run, scheme: Scheme) -> Run:
    recipe = replace(run.recipe, visits=scheme.steps(run.problem.n))
    return Run(run.problem, scheme, recipe, run.start, run.accuracy)


def _nearest(distance: Callable[[float], float], critical: float, rules: list[ScalingRule]) -> float:
    """The best step below the critical one: bracketed from the rules on, then by Brent's method."""
    ceiling = critical * _BELOW
    known = {rule.step: rule.distance for rule in rules if rule.step < ceiling}
    begin = min(known, key=lambda step: known[step]) if known else ceiling

    def far(step: float) -> float:
        if step not in known:
            known[step] = distance(step)
        return known[step]

    for ratio in (_FACTOR, 1 / _FACTOR):
        here = begin
        for _ in range(_TRIED):
            there = min(here * ratio, ceiling)
            if there == here or far(there) > far(here):
                break
            here = there
    best = min(known, key=lambda step: known[step])
    low, high = best / _FACTOR, min(best * _FACTOR, ceiling)
    from scipy.optimize import minimize_scalar

    minimize_scalar(
        lambda log: far(math.exp(log)), bounds=(math.log(low), math.log(high)), method="bounded",
        options={"xatol": _PRECISION},
    )  # fmt: skip
    return min(known, key=lambda step: known[step])


def _changed(run: Run, batch_size: int | None, scheme: Scheme | None) -> Scheme:
    """The scheme whose step is wanted."""
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


def _ascending(epochs: ArrayLike) -> FloatArray:
    """The epochs at which trajectories are compared, ascending."""
    when = _arrays.epochs(epochs)
    if when.ndim == 0:
        last = _arrays.whole_number("epochs", when, 1)
        when = np.geomspace(1.0, float(last), min(last, _EPOCHS)).round()
    when = np.unique(when)
    if not when.size or when[0] == 0:
        allowed = "hold at least one epoch, and none before the first step"
        raise ArgumentError("epochs", allowed, "there is 0 or none")
    return when


def _spread(run: Run, epochs: FloatArray) -> float:
    try:
        found, _, _ = single_runs.spread(run, epochs[-1:], A_SECOND)
    except REFUSALS:
        return math.nan
    return float(found.mean() * run.problem.row_weights.sum() / run.problem.n)


def _percent(distance: float) -> str:
    return f"{distance:.2%}" if distance < 100 else factor(distance)
