"""Recipes of a grid ranked by leave-one-out: all are screened by the mean step, the best refined by their runs."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle._arrays import FloatArray
from reshuffle._display import Displayed
from reshuffle._linalg import norms
from reshuffle._progress import track
from reshuffle._uncertainty import significant
from reshuffle.errors import AccuracyWarning
from reshuffle.grid.metrics import REFUSALS
from reshuffle.planning.correction import Correction, Recipes
from reshuffle.planning.loo_grid import LeftOutCurve, RowSpectrum, averaged
from reshuffle.run import descend
from reshuffle.schemes import FullBatch
from reshuffle.schemes.base import Scheme, Shuffle, Unit
from reshuffle.validation import single_runs
from reshuffle.validation.leave_one_out import LeaveOneOut

EQUAL = 1e-3
"""Shares by which test errors may differ and count as equal: then the shorter training wins."""
_REFINED = 5
"""Recipes that are refined at most, for each momentum."""
_AFFORDABLE = 1e8
"""Rows times the square of the rank up to which they are: ten seconds each at worst."""
_ROWS, _ROWS_WITH_MOMENTUM = 128, 1000
"""Rows that tell by how much a run differs from the mean step."""
_ROUNDING, _DIGITS = 1e-8, 9
"""Share of the variance of y below which test errors are rounding (the cavity equation leaves up to 4e-9 of it),
and the digits by which they are ranked, so that machines whose last bits differ choose alike."""
_VISIBLE = 2e-3
"""Share of the test error above which the spread of a refined recipe is not left to the estimate."""
_COMPARED = 5
"""Numbers of visits among which the mean step changes by its error."""
_SCREENED = "mean step"


@dataclass(frozen=True, eq=False)
class PlannedRecipe(Displayed):
    """A way to train, and its test error by leave-one-out.

    `mean_square` is the mean over rows and outputs of (y_i - x_i'b)^2 without row i, for the mean iterate. `method`
    is "mean step", as if every batch were drawn afresh from all rows, "exact" where that is so, or the method of
    `run.leave_one_out`. The error of the mean step is what it changes by if runs are faster or slower than it.
    """

    _shown = (
        "batch_size", "step", "epochs", "momentum", "penalty", "test_error", "standard_error",
        "mean_square", "spread", "error", "share", "method", "is_verified",
    )  # fmt: skip

    batch_size: int
    step: float  # of one visit
    share: float  # step over the safe step of this batch size (with momentum, that of step / (1 - momentum))
    momentum: float
    penalty: float
    epochs: int  # when to stop
    scheme: Scheme
    mean_square: float
    spread: float  # about what random orders of a single run add; 0 if the plan is for the mean iterate
    standard_error: float  # of the mean square as an estimate of the test error
    error: float  # of mean square and spread, as numbers that were computed
    method: str
    is_verified: bool  # True if the mean square is that of the run itself
    place: tuple[
        int, int, int, int
    ]  # of penalty, batch size, share and (next) epoch in the arrays of the plan
    learning_rate = property(attrgetter("step"), doc="The step of one visit, in torch's word.")
    weight_decay = property(attrgetter("penalty"), doc="The penalty, in torch's word.")

    @property
    def test_error(self) -> float:
        """The error expected on new rows, mean_square + spread: the plan has the smallest, up to a thousandth."""
        return self.mean_square + self.spread

    @property
    def known_up_to(self) -> float:
        """The test error, or its error where that is larger: recipes are ranked by it."""
        return max(self.test_error, self.error)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of `descend`, and of `explain`."""
        given = {"scheme": self.scheme, "step": self.step, "momentum": self.momentum, "penalty": self.penalty}
        return {name: value for name, value in given.items() if value != 0.0}

    def words(self) -> str:
        """Batch size, step, momentum, weight decay and epochs as text."""
        extras = [f"momentum {self.momentum:g}"] if self.momentum else []
        extras += [f"weight decay {significant(self.penalty, 3)}"] if self.penalty else []
        numbers = [f"batches of {self.batch_size}", f"step {significant(self.step, 3)}", *extras]
        return ", ".join([*numbers, f"{self.epochs} epoch{'s' if self.epochs != 1 else ''}"])

    def __repr__(self) -> str:
        return f"PlannedRecipe({self.words()}: test_error={self.test_error:.6g}, {self.method})"


class Search:
    """All recipes of a grid on one problem, of single runs or of their mean.

    The grid has batch sizes (B,), shares (S,) of the safe step, penalties (P,), momenta (M,) and epochs (E,);
    `scheme` may have batches of any size. `mean_squares` and `spreads` are (P, B, S, E), `safe_steps` (P, B).
    """

    def __init__(
        self,
        spectrum: RowSpectrum,
        scheme: Scheme,
        *,
        batch_sizes: FloatArray,
        shares: FloatArray,
        penalties: FloatArray,
        momenta: FloatArray,
        epochs: FloatArray,
        of_run: bool,
    ):
        self.spectrum, self.batch_sizes, self.shares = spectrum, batch_sizes, shares
        self.penalties, self.momenta, self.epochs, self.of_run = penalties, momenta, epochs, of_run
        self.n = n = spectrum.problem.n
        self.schemes = [
            FullBatch() if size == n else scheme.with_batch_size(int(size)) for size in batch_sizes
        ]
        self.visits = np.array([each.steps(n) for each in self.schemes], dtype=np.float64)
        self.safe_steps = np.array(
            [[spectrum.safe_step(each, float(penalty)) for each in self.schemes] for penalty in penalties]
        )
        self.steps = self.safe_steps[..., np.newaxis] * shares
        responses = spectrum.problem.compressed.y
        if spectrum.problem.compressed.are_all:
            # Without a mean, which may be far larger than what is to be learned.
            responses = responses - responses.mean(axis=0)
        squares = np.square(responses).sum() / spectrum.problem.row_weights.sum()
        self.rounding = _ROUNDING * float(squares / (spectrum.problem.outputs or 1))
        longest = float((self.steps * self.visits[:, np.newaxis]).max()) * float(epochs[-1])
        self.curve = LeftOutCurve.around(spectrum, float(self.steps.max()), longest, float(penalties.max()))
        self.mean_squares, self.spreads = np.zeros((2, *self.steps.shape, len(epochs)))
        # Screening: each batch as if it were drawn from all rows.
        for place in np.ndindex(self.steps.shape[:2]):
            visits, steps, penalty = (
                self.visits[place[1]] * epochs,
                self.steps[place],
                float(penalties[place[0]]),
            )
            squares = [self.curve.mean_squares(float(step), visits, penalty) for step in steps]
            self.mean_squares[place] = squares
            if of_run:
                self.spreads[place] = spectrum.spreads(self.schemes[place[1]], steps, epochs, penalty)

    def screened(self, place: tuple[int, ...], momentum: float) -> PlannedRecipe:
        """The recipe at a place (penalty, batch size, share, epoch) of the grid, by the mean step."""
        penalty, size, share, when = place
        scheme = self.schemes[size]
        # A visit is the mean step if samples are drawn for each, or all rows are visited.
        draws = scheme.shuffle is Shuffle.EVERY_STEP and scheme.unit is Unit.SAMPLE
        is_exact = not momentum and (self.visits[size] == 1 or draws)
        recipe = PlannedRecipe(
            batch_size=int(self.batch_sizes[size]),
            # Momentum multiplies what a step does in the long run by 1 / (1 - momentum).
            step=float(self.steps[place[:3]]) * (1 - momentum),
            share=float(self.shares[share]),
            momentum=momentum,
            penalty=float(self.penalties[penalty]),
            epochs=int(self.epochs[when]),
            scheme=scheme,
            mean_square=float(self.mean_squares[place]),
            spread=float(self.spreads[place]),
            standard_error=float("nan"),
            error=max(self.rounding, float(self.spreads[place])),
            method="exact" if is_exact else _SCREENED,
            is_verified=is_exact,
            place=(penalty, size, share, when),
        )
        if is_exact:
            return recipe
        off = float(self._changes(recipe, np.array([float(recipe.epochs)]))[0])
        return replace(recipe, error=max(self.rounding, recipe.spread + off))

    def _changes(self, recipe: PlannedRecipe, epochs: FloatArray) -> FloatArray:
        """Changes of mean squares of the mean step (k,) if a run is faster or slower than it.

        By a share that is its step in safe steps: to first order in the step, decay rates of shuffled visits differ
        from its by no more. With momentum m the first visits do less, as if 1 / (1 - m) of them were missing, and
        nothing is learned faster than where both roots are m^(1/2): after k visits about k (1 - m) m^(k/2) is left.
        """
        (step, each), momentum = self._steps_of(recipe), recipe.momentum
        visits = each * epochs
        slow = np.maximum((1 - recipe.share) * (visits - momentum / (1 - momentum)), 0.0)
        near = np.linspace(slow, (1 + recipe.share) * visits, _COMPARED)
        here = self.curve.mean_squares(step, visits, recipe.penalty)
        found = self.curve.mean_squares(step, near.ravel(), recipe.penalty).reshape(near.shape)
        left = np.square(1 + (1 - momentum) * visits) * momentum**visits * self.rounding / _ROUNDING
        return np.asarray(np.abs(found - here).max(axis=0) + left)

    def refined(self, recipe: PlannedRecipe, epochs: ArrayLike | None = None) -> PlannedRecipe:
        """A recipe with the leave-one-out of the run itself, at the best of some epochs; those next to its own.

        Some rows tell by how much it differs from that of the mean step; all of them, if they are few.
        """
        if epochs is None:
            low, high = max(1, recipe.epochs / 2), min(2 * recipe.epochs, self.epochs[-1])
            epochs = np.geomspace(low, high, 9).round()
        near = np.unique(np.asarray(epochs, dtype=np.float64))
        run = descend(self.spectrum.problem, **recipe.arguments)
        if not recipe.momentum:
            # Below the safe step: nobody needs to draw orders to find out.
            run.divergence = None
        (step, visits), penalty = self._steps_of(recipe), recipe.penalty
        # With momentum a run is less alike to the mean step: more rows tell the quotient.
        count = min(self.n, _ROWS_WITH_MOMENTUM if recipe.momentum else _ROWS)
        rows = np.unique(np.linspace(0, self.n - 1, count).round().astype(np.intp))
        try:
            with warnings.catch_warnings():
                # Recipes are compared up to a thousandth, and the answer keeps its method.
                warnings.simplefilter("ignore", AccuracyWarning)
                answer = run.leave_one_out(near, rows=rows, centred=self.spectrum.centred)
                ratios, off = self._quotients(answer, step, visits * near, penalty)
                # What is off by more than itself tells nothing: with momentum, of the mean step neither.
                is_known = (off < 1) | (recipe.momentum > 0)
                squares = np.where(is_known, ratios, 1.0) * self.curve.mean_squares(
                    step, visits * near, penalty
                )
                errors = np.where(is_known, squares * off, self._changes(recipe, near))
                # What random orders add.
                spreads = of_spreads = np.zeros(len(near))
                if self.of_run:
                    # It follows the residuals along the grid: in one leap from the start they look too large.
                    path = np.union1d(self.epochs[self.epochs < near[-1]], near)
                    along = self.spectrum.spreads(recipe.scheme, np.array([step]), path, penalty)[0]
                    spreads = of_spreads = along[np.searchsorted(path, near)]
                    if not ((spreads <= _VISIBLE * squares) | ~is_known).all():
                        parts = single_runs.spread(run, near)[:2]
                        spreads, of_spreads = (part.reshape(len(near), -1).mean(axis=1) for part in parts)
        except REFUSALS as refusal:
            # Of momentum the mean step is but a guess.
            error = np.inf if recipe.momentum else recipe.error
            method = f"{_SCREENED}; {refusal}"
            return replace(self.with_error(recipe), error=error, method=method, is_verified=True)
        errors = np.maximum(errors + of_spreads, self.rounding)
        best = self._first(np.maximum(squares + spreads, errors))
        method = answer.method if is_known[best] else f"{_SCREENED}, where the {answer.method} knows less"
        found = replace(
            recipe, epochs=int(near[best]), mean_square=float(squares[best]), spread=float(spreads[best]),
            error=float(errors[best]), method=method, is_verified=True,
            place=(*recipe.place[:3], int(np.argmin(np.abs(self.epochs - near[best])))),
        )  # fmt: skip
        return self.with_error(found)

    def with_error(self, recipe: PlannedRecipe) -> PlannedRecipe:
        """A recipe with the standard error of its mean square, as the mean step has it."""
        squares = np.square(self.residuals(recipe)).mean(axis=1)
        return replace(recipe, standard_error=float(averaged(squares, self.spectrum.problem.row_weights)[1]))

    def residuals(self, recipe: PlannedRecipe) -> FloatArray:
        """Left-out residuals (n, t) of a recipe as the mean step has them, times the roots of weights."""
        step, visits = self._steps_of(recipe)
        return np.asarray(self.curve.residuals(step, np.array([visits * recipe.epochs]), recipe.penalty)[0])

    def _steps_of(self, recipe: PlannedRecipe) -> tuple[float, float]:
        """The step that a recipe has in the long run, and its visits per epoch."""
        return recipe.step / (1 - recipe.momentum), float(self.visits[recipe.place[1]])

    def _quotients(
        self, answer: LeaveOneOut, step: float, visits: FloatArray, penalty: float
    ) -> tuple[FloatArray, FloatArray]:
        """Mean squares of a run over those of the mean step, for some rows, and their relative errors: (k,) each.

        With a_i and g_i the squares of the two, r = sum a_i / sum g_i is off as sum (a_i - r g_i) / sum g_i is.
        """
        ours = np.square(self.curve.residuals(step, visits, penalty, answer.rows)).mean(axis=2)
        total = self.spectrum.problem.row_weights[answer.rows].sum()
        means, errors = (
            part.reshape(len(visits), -1).mean(axis=1) for part in (answer.mean_square, answer.error)
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = means * total / ours.sum(axis=1)
            theirs = np.square(answer.residuals).reshape(len(visits), len(answer.rows), -1).mean(axis=2)
            theirs *= (means * total / theirs.sum(axis=1))[:, np.newaxis]
            apart = norms(theirs - ratios[:, np.newaxis] * ours) / (means * total)
            off = errors / means + 2 * apart * np.sqrt(1 - len(answer.rows) / self.n)
        return ratios, np.where(np.isnan(off), np.inf, off)

    @property
    def is_affordable(self) -> bool:
        """True if recipes are refined in seconds; never of rows that are read in chunks, which take passes."""
        is_small = self.n * float(len(self.spectrum.values)) ** 2 <= _AFFORDABLE
        return is_small and self.spectrum.problem.stream is None

    def correction(self, best: PlannedRecipe, scaled: bool) -> Correction:
        """The test error to expect of the best recipe, which was chosen among all others."""
        shape = self.mean_squares.shape
        first = int(np.ravel_multi_index(best.place, shape))
        penalty, size, share, when = np.unravel_index(
            np.append(first, np.delete(np.arange(self.mean_squares.size), first)), shape
        )
        steps, visits = self.steps[penalty, size, share], self.visits[size] * self.epochs[when]
        # What has less here than the best recipe has turned out not to be better: else it would be the best.
        spreads = self.spreads[penalty, size, share, when]
        totals = self.mean_squares[penalty, size, share, when] + spreads
        spreads = spreads + np.maximum(totals[0] / (1 + EQUAL) - totals, 0.0)
        recipes = Recipes(steps, visits, self.penalties[penalty], spreads)
        return Correction.of(self.curve, recipes, scaled, self.rounding)

    def ranked(self, verify: bool) -> list[PlannedRecipe]:
        """All recipes, the best first, refined until the first one is.

        What is equal up to a thousandth is ranked by its length, then by the size of its batches.
        """
        totals, ranked = self.mean_squares + self.spreads, []
        for momentum in self.momenta:
            stops = [(*place, self._first(totals[place])) for place in np.ndindex(self.steps.shape)]
            recipes = self._sorted([self.screened(place, float(momentum)) for place in stops])
            count = _REFINED if verify and self.is_affordable else 0
            for _ in track(range(count), count, "refining recipes"):
                if recipes[0].is_verified:
                    break
                recipes = self._sorted([self.refined(recipes[0]), *recipes[1:]])
            known = [recipe for recipe in recipes if recipe.is_verified]
            # Screening momentum is but a guess.
            ranked += known if momentum and known else recipes
        return self._sorted(ranked)

    def _sorted(self, recipes: Sequence[PlannedRecipe]) -> list[PlannedRecipe]:
        """The best first: of those that count as equal to the least, the one that is done first."""
        limit = self._limit(min(recipe.known_up_to for recipe in recipes))

        def key(recipe: PlannedRecipe) -> tuple[float, ...]:
            error = float(f"{recipe.known_up_to:.{_DIGITS}g}")
            rank = 0.0 if recipe.known_up_to <= limit else error
            return rank, recipe.epochs, recipe.momentum, -recipe.batch_size, error

        return sorted(recipes, key=key)

    def _first(self, errors: FloatArray) -> int:
        """The first of those that count as equal to the least."""
        return int(np.argmax(errors <= self._limit(float(errors.min()))))

    def _limit(self, least: float) -> float:
        """The test error up to which recipes count as equal to the least: a thousandth more, or rounding."""
        return (1 + EQUAL) * max(least, self.rounding)
