"""Recipes that compete for the best leave-one-out: all of them at a glance, the best ones closely."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._progress import track
from reshuffle.errors import AccuracyWarning
from reshuffle.grid.metrics import REFUSALS
from reshuffle.planning.mean_steps_left_out import LeftOutCurve, Spectrum, averaged
from reshuffle.planning.spread_estimate import SpreadEstimate
from reshuffle.planning.training_plan import EQUAL, PlannedRecipe
from reshuffle.run import Run, descend
from reshuffle.schemes import FullBatch
from reshuffle.schemes.base import Scheme, Shuffle, Unit

_LOOKS = 5
"""Recipes that are looked at closely at most, for each momentum."""
_AFFORDABLE = 1e8
"""Rows times the square of the rank up to which they are: ten seconds each at worst."""
_ROWS = 128
"""Rows that tell by how much a run differs from the mean step."""
GLANCE = "mean step"


@dataclass(frozen=True, eq=False)
class Grid:
    """What is to be compared.

    Attributes
    ----------
    batch_sizes : (B,)
    shares : (S,)
        Steps over the safe step.
    penalties : (P,)
    momenta : (M,)
    epochs : (E,)
    scheme : Scheme
        How rows are visited, with batches of any size.
    of_run : bool
        Whether single runs are compared, in place of their mean.
    """

    batch_sizes: FloatArray
    shares: FloatArray
    penalties: FloatArray
    momenta: FloatArray
    epochs: FloatArray
    scheme: Scheme
    of_run: bool = True

    def scheme_of(self, batch_size: int, n: int) -> Scheme:
        """With batches of this size."""
        return FullBatch() if batch_size == n else self.scheme.with_batch_size(batch_size)


class Contest:
    """All recipes of a grid on one problem."""

    def __init__(self, spectrum: Spectrum, grid: Grid):
        self.spectrum, self.grid = spectrum, grid
        self.n = spectrum.problem.n
        self.schemes = [grid.scheme_of(int(size), self.n) for size in grid.batch_sizes]
        self.visits = np.array([scheme.steps(self.n) for scheme in self.schemes], dtype=np.float64)
        self.safe_steps = np.array(
            [
                [spectrum.safe_step(scheme, float(penalty)) for scheme in self.schemes]
                for penalty in grid.penalties
            ]
        )
        self.steps = self.safe_steps[..., np.newaxis] * grid.shares
        longest = float((self.steps * self.visits[:, np.newaxis]).max()) * float(grid.epochs[-1])
        self.curve = LeftOutCurve.around(
            spectrum, float(self.steps.max()), longest, float(grid.penalties.max())
        )
        self.estimate = SpreadEstimate(spectrum)
        shape = (*self.steps.shape, len(grid.epochs))
        self.mean_squares, self.spreads = np.zeros(shape), np.zeros(shape)
        self._glance()

    def _glance(self) -> None:
        """Leave-one-out and spread of all recipes, each batch as if it were drawn from all rows."""
        grid = self.grid
        for place in np.ndindex(self.steps.shape[:2]):
            visits, steps = self.visits[place[1]] * grid.epochs, self.steps[place]
            penalty = float(grid.penalties[place[0]])
            self.mean_squares[place] = [
                self.curve.mean_squares(float(step), visits, penalty) for step in steps
            ]
            self.spreads[place] = self._spread(self.schemes[place[1]], steps, grid.epochs, penalty)

    def _spread(self, scheme: Scheme, steps: FloatArray, epochs: FloatArray, penalty: float) -> FloatArray:
        if not self.grid.of_run:
            return np.zeros((len(steps), len(epochs)))
        return self.estimate.along(scheme, steps, epochs, penalty)

    def contenders(self, momentum: float) -> list[PlannedRecipe]:
        """Each penalty, batch size and step at its best epoch."""
        grid, found = self.grid, []
        is_open = [bool(momentum) or self._is_open(scheme) for scheme in self.schemes]
        for place in np.ndindex(self.steps.shape):
            when = _first(self.mean_squares[place] + self.spreads[place])
            found.append(
                PlannedRecipe(
                    batch_size=int(grid.batch_sizes[place[1]]),
                    # Momentum multiplies what a step does in the long run by 1 / (1 - momentum).
                    step=float(self.steps[place]) * (1 - momentum),
                    share=float(grid.shares[place[2]]),
                    momentum=momentum,
                    penalty=float(grid.penalties[place[0]]),
                    epochs=int(grid.epochs[when]),
                    scheme=self.schemes[place[1]],
                    mean_square=float(self.mean_squares[place][when]),
                    spread=float(self.spreads[place][when]),
                    standard_error=float("nan"),
                    method=GLANCE if is_open[place[1]] else "exact",
                    is_verified=not is_open[place[1]],
                )
            )
        return found

    def _is_open(self, scheme: Scheme) -> bool:
        """Whether the mean step says less than all about a scheme."""
        draws = scheme.shuffle is Shuffle.EVERY_STEP and scheme.unit is Unit.SAMPLE
        return scheme.steps(self.n) > 1 and not draws

    def run(self, recipe: PlannedRecipe) -> Run:
        """The recipe as a run."""
        return descend(self.spectrum.problem, **recipe.arguments)

    def closely(self, recipe: PlannedRecipe) -> PlannedRecipe:
        """The same with the leave-one-out of the run itself, at the best epoch next to the one of the glance.

        Some rows tell by how much it differs from that of the mean step; all of them, if they are few. Both take
        the means of centred rows for given, which their quotient does not feel.
        """
        near = np.unique(np.geomspace(max(1, recipe.epochs / 2), 2 * recipe.epochs, 9).round())
        near = near[near <= self.grid.epochs[-1]]
        with warnings.catch_warnings():
            # Recipes are compared up to a thousandth, and the answer keeps its method.
            warnings.simplefilter("ignore", AccuracyWarning)
            answer = self.run(recipe).leave_one_out(near, rows=self._some_rows)
        (step, visits), penalty = self._steps_of(recipe), recipe.penalty
        glances = self.curve.mean_squares(step, visits * near, penalty)
        means = glances * (
            _over_outputs(answer.mean_square) / self._given_means(step, visits * near, penalty)
        )
        spreads = self._spread(recipe.scheme, np.array([step]), near, penalty)[0]
        best = _first(means + spreads)
        return replace(
            recipe,
            epochs=int(near[best]),
            mean_square=float(means[best]),
            spread=float(spreads[best]),
            standard_error=self._error(replace(recipe, epochs=int(near[best]))),
            method=answer.method,
            is_verified=True,
        )

    def glanced(self, recipe: PlannedRecipe) -> PlannedRecipe:
        """The same with the standard error of the glance."""
        return replace(recipe, standard_error=self._error(recipe))

    def _error(self, recipe: PlannedRecipe) -> float:
        step, visits = self._steps_of(recipe)
        residuals = self.curve.residuals(step, np.array([visits * recipe.epochs]), recipe.penalty)[0]
        return standard_error(residuals, self.spectrum.weights)

    def _steps_of(self, recipe: PlannedRecipe) -> tuple[float, float]:
        """The step that a recipe has in the long run, and its visits per epoch."""
        place = list(self.grid.batch_sizes).index(recipe.batch_size)
        return recipe.step / (1 - recipe.momentum), float(self.visits[place])

    @cached_property
    def _some_rows(self) -> IntArray:
        return np.unique(np.linspace(0, self.n - 1, min(self.n, _ROWS)).round().astype(np.int64))

    def _given_means(self, step: float, visits: FloatArray, penalty: float) -> FloatArray:
        """The glance for some rows, where the means of centred rows stay as they are: (k,)."""
        rows = self._some_rows
        given = replace(self.curve, spectrum=replace(self.spectrum, centred=False))
        residuals = given.residuals(step, visits, penalty, rows)
        return np.asarray(np.square(residuals).mean(axis=2).sum(axis=1) / self.spectrum.weights[rows].sum())

    def ranked(self, verify: bool) -> list[PlannedRecipe]:
        """All recipes, the best first, looked at closely until one of those stands first.

        What is equal up to a thousandth is ranked by its length, then by the size of its batches.
        """
        affordable = verify and self.n * float(len(self.spectrum.values)) ** 2 <= _AFFORDABLE
        ranked: list[PlannedRecipe] = []
        for momentum in self.grid.momenta:
            contenders = _sorted(self.contenders(float(momentum)))
            looks = _LOOKS if affordable else 0
            for _ in track(range(looks), looks, "looking closely"):
                if contenders[0].is_verified:
                    break
                contenders = _sorted([self._looked_at(contenders[0]), *contenders[1:]])
            known = [contender for contender in contenders if contender.is_verified]
            # A glance at momentum is but a guess.
            ranked += known if momentum and known else contenders
        ranked = _sorted(ranked)
        best = ranked[0]
        return [self.glanced(best) if np.isnan(best.standard_error) else best, *ranked[1:]]

    def _looked_at(self, recipe: PlannedRecipe) -> PlannedRecipe:
        try:
            return self.closely(recipe)
        except REFUSALS as refusal:
            return replace(self.glanced(recipe), method=f"{GLANCE}; {refusal}", is_verified=True)


def _sorted(recipes: Sequence[PlannedRecipe]) -> list[PlannedRecipe]:
    """The best first: of those that count as equal to the least, the one that is done first."""
    limit = (1 + EQUAL) * min(recipe.test_error for recipe in recipes)

    def key(recipe: PlannedRecipe) -> tuple[float, ...]:
        error = recipe.test_error
        return (0.0 if error <= limit else error, recipe.epochs, recipe.momentum, -recipe.batch_size, error)

    return sorted(recipes, key=key)


def _first(errors: FloatArray) -> int:
    """The first of those that count as equal to the least."""
    return int(np.argmax(errors <= (1 + EQUAL) * errors.min()))


def _over_outputs(mean_squares: FloatArray) -> FloatArray:
    return mean_squares if mean_squares.ndim == 1 else np.asarray(mean_squares.mean(axis=-1))


def standard_error(residuals: FloatArray, weights: FloatArray) -> float:
    """Of the mean of squared residuals (n,) or (n, t), weighted already, over outputs and rows."""
    squares = np.square(residuals)
    return float(averaged(squares if squares.ndim == 1 else squares.mean(axis=1), weights)[1])
