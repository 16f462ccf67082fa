"""Runs that are really trained, side by side: what they share, and blocks of them."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import cast

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._blas import each
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.recipe import Average
from reshuffle.recipe.recipe import Recipe
from reshuffle.schemes.base import Scheme, Unit, Visit

BLOCK_ENTRIES = 1 << 18
"""Parameters of the runs that are trained together: few enough to stay near a core. As all that follows, fixed, so
that results do not depend on the machine."""
MOST_ENTRIES = 1 << 24
"""Parameters of the runs that are trained together, at most."""
_SLICE = 256
"""Runs whose products one thread does."""


def copied_generator(rng: np.random.Generator) -> np.random.Generator:
    """A generator in the same state, which spawns the same generators.

    numpy 1.26 and 2.0 forget in copies what is spawned from: copies would spawn by chance.

    >>> given = np.random.default_rng(1)
    >>> int(copied_generator(given).spawn(1)[0].integers(1000)), int(given.spawn(1)[0].integers(1000))
    (15, 15)
    """
    stream = rng.bit_generator
    made = type(stream)(cast("np.random.SeedSequence", deepcopy(stream.seed_seq)))
    made.state = stream.state
    return np.random.Generator(made)


class Trial:
    """What all runs share, whichever block they are in."""

    def __init__(
        self,
        problem: LeastSquares,
        scheme: Scheme,
        made: Recipe,
        start: FloatArray,
        epochs: int,
        fresh_noise: bool,
        output: int = 0,
        alone: bool = True,
    ):
        self.problem, self.scheme, self.recipe, self.start = problem, scheme, made, start
        self.fresh_noise, self.output, self.alone = fresh_noise, output, alone
        self.unit, self.batches = 1.0, dict[bytes, FloatArray]()
        if epochs > 4 * problem.p:
            size = max(float(problem.X.max(initial=0.0)), -float(problem.X.min(initial=0.0)))
            # Exact to divide by, and products of what is left are within the range of numbers.
            self.unit = float(np.ldexp(1.0, int(np.frexp(size)[1]) - 1)) if size else 1.0
            self.batches = dict(self._summed_batches())

    def _summed_batches(self) -> "Iterator[tuple[bytes, FloatArray]]":
        """X_b'X_b / unit^2 of batches with many rows, by their rows.

        A visit by these sums takes 2 p^2 operations, by the rows themselves 4 m p.
        """
        n, p = self.problem.X.shape
        for _, stage in self.scheme.stages:
            if stage.unit is Unit.BATCH:
                for rows in stage.partition(n):
                    if 2 * p <= 3 * len(rows):
                        features = self.problem.X[rows] / self.unit
                        yield rows.tobytes(), features.T @ features


class Block:
    """Runs that are trained together, as matrix products over those at the same batch.

    With `copied`, runs that cannot differ are trained once: all of a fixed order that share their responses.
    """

    def __init__(self, trial: Trial, runs: int, rng: np.random.Generator, copied: bool = False):
        problem, made, self.trial, self.rng = trial.problem, trial.recipe, trial, rng
        self.problem, self.scheme, self.recipe = problem, trial.scheme, made
        self.responses = problem.y[np.newaxis]
        self.sharing = 2
        if trial.fresh_noise:
            beta_star, _, noise = problem.truth("fresh_noise")
            draws = rng.standard_normal((runs // 2, problem.n))
            if trial.output:
                draws = copied_generator(rng).spawn(trial.output)[-1].standard_normal(draws.shape)
            self.responses = problem.X @ beta_star + noise * draws
        if copied and not trial.scheme.is_random:
            runs, self.sharing = len(self.responses), 1
        self.state = np.tile(trial.start, (runs, 1))
        self.buffer = np.zeros_like(self.state) if made.momentum else self.state
        self.taken_on: Average | None = None
        starts = made.average is not None and made.average.begins_with_iterate
        self.sums = self.state.copy() if starts else np.zeros_like(self.state)
        self.penalties = np.full(problem.p, made.penalty)
        self.penalties[list(made.unpenalized)] = 0.0
        self.pulls: dict[bytes, FloatArray] = {}

    def epochs(self, last: int) -> Iterator[tuple[int, FloatArray]]:
        """Yield the parameters (runs, p) after 0, 1, ..., last epochs, or their average where it has begun."""
        average = self.recipe.average
        yield 0, self.state
        training = self.scheme.visits(self.problem.n, self.rng, len(self.state))
        for epoch in range(1, last + 1):
            self.now = self.recipe.at(epoch - 1)
            self.taken_on = average if average is not None and epoch > average.start else None
            made = np.zeros(len(self.state), dtype=np.int64)
            for visit in next(training):
                self._slot = int(made[visit.runs[0]])
                self._visit(visit)
                made[visit.runs] += 1
            yield epoch, self.state if self.taken_on is None else self._averaged(self.taken_on, epoch)

    def _averaged(self, average: Average, epoch: int) -> FloatArray:
        if not average.is_per_visit:
            self._take_on(average, np.arange(len(self.state)))
        return self.sums / average.divisor(epoch, self.scheme.steps(self.problem.n))

    def _take_on(self, average: Average, runs: IntArray) -> None:
        """One update of the averages of some of the runs."""
        with np.errstate(over="ignore", invalid="ignore"):
            self.sums[runs] = average.kept * self.sums[runs] + average.taken * self.state[runs]

    def _visit(self, visit: Visit) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            if visit.rows.ndim == 1:
                name = visit.rows.tobytes()
                if name in self.trial.batches:
                    self._step_by_sums(visit, name)
                else:
                    self._step_together(visit)
            else:
                self._step_apart(visit)

    def _step_by_sums(self, visit: Visit, name: bytes) -> None:
        """Several runs at the same rows, X_b'(X_b b - y_b) as (X_b'X_b) b - X_b'y_b."""
        runs, unit, moments = visit.runs, self.trial.unit, self.trial.batches[name]
        if name not in self.pulls:
            self.pulls[name] = self.responses[:, visit.rows] @ (self.problem.X[visit.rows] / unit)
        current, pulls = self._current(runs), self.pulls[name]
        scaled = unit * current
        summed = self._in_slices(lambda part: scaled[part] @ moments, len(runs), moments.size)
        summed -= pulls if len(pulls) == 1 else pulls[runs // self.sharing]
        summed *= unit / visit.divisor
        self._descend(runs, current, summed)

    def _step_together(self, visit: Visit) -> None:
        """Several runs at the same rows, in two matrix products."""
        runs, members = visit.runs, visit.rows
        is_contiguous = members[-1] - members[0] + 1 == len(members) and (np.diff(members) == 1).all()
        rows = slice(members[0], members[-1] + 1) if is_contiguous else members
        features, current = self.problem.X[rows], self._current(runs)
        shared = len(self.responses) == 1
        responses = self.responses[:, rows] if shared else self._of_runs(runs, rows)

        def gradients(part: slice) -> FloatArray:
            residuals = current[part] @ features.T
            residuals -= responses if shared else responses[part]
            return np.asarray(residuals @ features)

        summed = self._in_slices(gradients, len(runs), features.size)
        summed /= visit.divisor
        self._descend(runs, current, summed)

    def _of_runs(self, runs: IntArray, rows: slice | IntArray) -> FloatArray:
        """The responses of some rows that some of the runs see, of which each pair has its own."""
        return np.asarray(self.responses[:, rows][runs // self.sharing])

    def _current(self, runs: IntArray) -> FloatArray:
        """The parameters of some of the runs, without a copy where that is all of them."""
        return self.state if len(runs) == len(self.state) else self.state[runs]

    def _in_slices(self, product: Callable[[slice], FloatArray], runs: int, work: int) -> FloatArray:
        """A product over runs, as many at a time as one thread does."""
        slices = [slice(start, start + _SLICE) for start in range(0, runs, _SLICE)]
        if len(slices) == 1:
            return product(slices[0])
        if not self.trial.alone:
            # The threads are busy with other blocks.
            return np.concatenate([product(part) for part in slices])
        return np.concatenate(each(product, slices, np.cbrt(float(_SLICE) * work)))

    def _step_apart(self, visit: Visit) -> None:
        """Several runs at rows of their own, as many at a time as the copies of those rows allow."""
        height = max(1, BLOCK_ENTRIES // (visit.rows.shape[1] * self.problem.p))
        for first in range(0, len(visit.runs), height):
            runs, rows = visit.runs[first : first + height], visit.rows[first : first + height]
            features = self.problem.X[rows]
            noise = np.zeros_like(runs) if len(self.responses) == 1 else runs // self.sharing
            residuals = (features @ self.state[runs, :, np.newaxis])[..., 0]
            residuals -= self.responses[noise[:, np.newaxis], rows]
            gradients = (residuals[:, np.newaxis, :] @ features)[:, 0, :]
            self._descend(runs, self.state[runs], gradients / visit.divisor)

    def _descend(self, runs: IntArray, current: FloatArray, gradients: FloatArray) -> None:
        """One step of torch's SGD with weight decay and momentum."""
        if self.now.penalty:
            gradients += self.penalties * current
        moved = gradients
        if self.now.momentum:
            moved = gradients + self.now.momentum * self.buffer[runs]
            self.buffer[runs] = moved
        if self.now.nesterov:
            moved = gradients + self.now.momentum * moved
        self.state[runs] = current - self.now.step_of(self._slot) * moved
        if self.taken_on is not None and self.taken_on.is_per_visit:
            self._take_on(self.taken_on, runs)
