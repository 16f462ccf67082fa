"""The test error to expect of a plan, corrected for the choice among many recipes, with an interval.

The estimate of the recipe that is chosen is too small for two reasons. Columns are scaled by all rows, those left
out among them; and it is the smallest of many. So rows are left out of means and scales too, and the choice is
bootstrapped (Tsamardinos, Greasidou and Borboudakis, 2018): rows are drawn with replacement, a recipe is chosen by
their left-out squares, and judged by those of the rows that were not drawn. Their mean is taken times
exp(v / 2), with v its squared relative standard error: a mean of skewed squares is more often too small than too
large. The interval has as much on both sides, in the logarithm, as the farther of the 2.5% and 97.5% quantiles
of the bootstrapped means. `benchmarks/plan_coverage.py` measures bias and coverage.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.planning.loo_grid import GROUPS, LeftOutCurve, averaged

DRAWS = 500
"""Bootstrapped choices."""
_RECIPES = 400
"""Recipes to choose from, spread over the whole grid: the best few hundred are so alike that a choice among them is
hardly a choice (for 45 rows the test error is then 4% too small)."""
_NUMBERS = 4e9
"""Products that the left-out squares of all rows and recipes may take: where they take more, recipes are fewer."""
_REFITS = 1e9
"""Operations of fits without a row: where rows are too many some of them tell what scales change."""
_CONSTANT = 1e-10
"""Deviation of a standardized column that is constant without a row."""
_ZERO = 1e-15
"""Step times eigenvalue below which learning is proportional to the number of visits."""
_LOST = 1e-4
"""Variance of a standardized column that a row must leave, for what it adds to be subtracted to twelve digits."""
_STACKED = 1 << 17
"""Numbers of stacked fits without a row that are worked on at a time."""
QUANTILES = (0.025, 0.975)
NORMAL = 1.96
"""Ends of 95% intervals, and half of one in standard errors."""


@dataclass(frozen=True, eq=False)
class Recipes:
    """Recipes of mean steps: steps of a visit, numbers of visits, penalties and spreads, (k,) each."""

    steps: FloatArray
    visits: FloatArray
    penalties: FloatArray
    spreads: FloatArray

    def among(self, places: IntArray) -> "Recipes":
        """Some of the recipes."""
        return Recipes(self.steps[places], self.visits[places], self.penalties[places], self.spreads[places])

    @cached_property
    def _distinct(self) -> tuple[FloatArray, IntArray]:
        """Distinct pairs of step and penalty (2, d, 1), and which of them each recipe has (k,)."""
        pairs, which = np.unique([self.steps, self.penalties], axis=1, return_inverse=True)
        # numpy 2.0 gives them an axis more.
        return pairs[..., np.newaxis], which.ravel()

    def combinations(self, curve: LeftOutCurve) -> FloatArray:
        """Coefficients (k, 1 + 2N) of left-out residuals, as in `LeftOutCurve.combinations`."""
        return curve.combinations(self.steps, self.visits, self.penalties)

    def learned(self, values: FloatArray) -> FloatArray:
        """(1 - (1 - step m)^visits) / m for m = value + penalty, (..., k, r) for values (..., r)."""
        # Recipes that differ in their visits alone share what takes longest, the logarithms.
        (steps, penalties), which = self._distinct
        rates = np.maximum(values[..., np.newaxis, :] + penalties, _ZERO / steps)
        overshoots, visits = steps * rates > 1, self.visits[:, np.newaxis]
        with np.errstate(divide="ignore"):
            logarithms = np.log1p(np.where(overshoots, steps * rates - 2, -steps * rates))
        found = np.take(logarithms, which, axis=-2)
        found *= visits
        np.expm1(found, out=found)
        if overshoots.any():
            # There odd powers are below zero.
            odd = overshoots[..., which, :] & (visits % 2 == 1)
            found[odd] = -2 - found[odd]
        found /= np.take(-rates, which, axis=-2)
        return found


def left_out_squares(
    curve: LeftOutCurve, recipes: Recipes, rows: IntArray, groups: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sums of left-out squares over groups of some rows, (k, g), and of the weights of these, (g,).

    With them come the residuals (m, t) of the first recipe, times the roots of the weights. The i-th of the rows is
    in group i modulo g. Squares are means over outputs, times the weights of the rows.
    """
    combinations, begin = recipes.combinations(curve).T, 0
    found, members = np.zeros((groups, combinations.shape[1])), np.arange(len(rows)) % groups
    of_first = []
    for parts in curve.pieces(rows):
        residuals = parts @ combinations
        np.add.at(found, members[begin : begin + len(parts)], np.square(residuals).mean(axis=1))
        of_first.append(residuals[..., 0])
        begin += len(parts)
    weights = curve.spectrum.problem.row_weights[rows]
    weights = np.asarray(np.bincount(members, weights), dtype=np.float64)
    return found.T, weights, np.concatenate(of_first)


def refitted_squares(curve: LeftOutCurve, recipes: Recipes, rows: IntArray) -> FloatArray:
    """Left-out squares (k, m) of some rows, each left out of the means and the scales of the others too.

    The problem of the curve has columns of mean zero and variance one, or zero. One eigendecomposition per row, of
    X'X without it: that of all rows, less what the row adds. Without a row that has nearly all of the variance of a
    column such a difference has no digits; there, and for wide X, of the smaller of X'X and XX' of the other rows.
    """
    problem, is_centred = curve.spectrum.problem, float(curve.spectrum.centred)
    n, p, weights, k = problem.n, problem.p, problem.row_weights, len(recipes.steps)
    roots = np.sqrt(weights)[:, np.newaxis]
    features, responses = problem.X / roots, problem.y.reshape(n, -1) / roots
    gram, mapped = problem.X.T @ problem.X, features.T @ (weights[:, np.newaxis] * responses)
    # Without each of the rows.
    own, rest = weights[rows, np.newaxis], weights.sum() - weights[rows, np.newaxis]
    means = (weights @ features - own * features[rows]) / rest
    response_means = (weights @ responses - own * responses[rows]) / rest
    variances = (np.diag(gram) - own * np.square(features[rows])) / rest - np.square(means)
    variances[:, np.diag(gram) / weights.sum() - np.square(weights @ features / weights.sum()) < 0.5] = 1.0
    has_digits = (variances > _LOST).all(axis=1) if p < n else np.zeros(len(rows), dtype=bool)
    found = np.zeros((k, len(rows)))

    def judge(places: Any, matrix: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Store the squares that left (m, r) f(matrix (m, r, r) / n) right (m, r, t) / n leaves of some rows."""
        values, vectors = np.linalg.eigh(matrix / n)
        inputs = (left[:, np.newaxis] @ vectors).mT * (vectors.mT @ right) / n
        missed = np.sqrt(own[places]) * (responses[rows[places]] - is_centred * response_means[places])
        missed = missed[:, np.newaxis] - recipes.learned(values.clip(min=0.0)) @ inputs
        found[:, places] = np.square(missed).mean(axis=-1).T

    for places in np.array_split(np.flatnonzero(has_digits), 1 + len(rows) * (k + p) * p // _STACKED):
        one, response, mean = features[rows[places]], responses[rows[places]], means[places]
        weight, others = own[places, np.newaxis], is_centred * rest[places, np.newaxis]
        scales = np.sqrt(variances[places])[:, :, np.newaxis]
        matrix = gram - weight * one[..., np.newaxis] * one[:, np.newaxis]
        matrix -= others * mean[..., np.newaxis] * mean[:, np.newaxis]
        right = mapped - weight * one[..., np.newaxis] * response[:, np.newaxis]
        right -= others * mean[..., np.newaxis] * response_means[places, np.newaxis]
        new = own[places] ** 0.5 * (one - is_centred * mean) / scales[..., 0]
        judge(places, matrix / scales / scales.mT, new, right / scales)
    for place in np.flatnonzero(~has_digits):
        row = rows[place]
        shares = np.where(np.arange(n) == row, 0.0, weights / rest[place])
        deviations = np.sqrt(shares @ np.square(features - means[place]))
        scales = np.where(deviations > _CONSTANT, deviations, 1.0)
        seen = roots * (features - is_centred * means[place]) / scales
        missing = roots * (responses - is_centred * response_means[place])
        new = seen[row].copy()
        seen[row], missing[row] = 0.0, 0.0
        parts = (seen.T @ seen, new, seen.T @ missing) if p < n else (seen @ seen.T, seen @ new, missing)
        judge([place], *(part[np.newaxis] for part in parts))
    return found


def bootstrapped(
    squares: FloatArray,
    weights: FloatArray,
    spreads: FloatArray,
    draws: int,
    rounding: float = 0.0,
    seed: int = 0,
) -> FloatArray:
    """Mean squares (draws,) of rows that were not drawn, for the recipes that are best on those that were.

    Squares (k, g) of recipes and rows, times the weights (g,) of these; spreads (k,) are added to their means.
    Means below `rounding` count as that: of these the first is chosen. Draws in which all rows are drawn have no
    answer and are left out.
    """
    count = len(weights)
    drawn = (
        np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=draws).astype(float)
    )
    drawn = drawn[(drawn == 0).any(axis=1)]
    means = drawn @ squares.T / (drawn @ weights)[:, np.newaxis] + spreads
    chosen = np.maximum(means, rounding).argmin(axis=1)
    out = drawn == 0
    found = (out * squares[chosen]).sum(axis=1) / (out @ weights) + spreads[chosen]
    return np.asarray(np.maximum(found, rounding))


def corrected(
    squares: FloatArray, weights: FloatArray, spreads: FloatArray, count: int, rounding: float = 0.0
) -> tuple[float, float]:
    """The test error to expect of the first recipe, and half of its 95% interval in the logarithm.

    It was chosen among all of them by `count` residuals; the other arguments are those of `bootstrapped`.
    """
    means, first = bootstrapped(squares, weights, spreads, DRAWS, rounding), squares[0]
    off = first - first.sum() / weights.sum() * weights
    # Squares of normal residuals have twice their squared mean as variance: few rows may not show it.
    noise = max(float(np.square(off / first.sum()).sum()), 2 / count)
    expected = float(means.mean())
    low, high = np.log(np.quantile(means, QUANTILES) / expected)
    return expected * math.exp(noise / 2), float(max(high, -low))


@dataclass(frozen=True, eq=False)
class Correction:
    """Correction of the leave-one-out estimate of a recipe that was chosen among many."""

    factor: float  # the test error to expect over the estimate of the recipe that was chosen
    half_width: float  # of the 95% interval, in the logarithm of the test error
    kurtosis: float  # of the left-out residuals: 3 if they are normal
    median_absolute_error: float  # the median of |y_i - x_i'b|, rows and outputs together
    standard_error: float  # of that estimate, as the mean step has it

    @classmethod
    def of(cls, curve: LeftOutCurve, recipes: Recipes, scaled: bool, rounding: float) -> "Correction":
        """The correction for the first of some recipes, which was chosen among all of them.

        Test errors below `rounding` are equal.
        """
        problem, weights = curve.spectrum.problem, curve.spectrum.problem.row_weights
        n, outputs, everything = problem.n, problem.outputs or 1, np.arange(problem.n)
        most = int(_NUMBERS / (n * outputs * (1 + 2 * len(curve.nodes))))
        count = max(1, min(len(recipes.steps), _RECIPES, most))
        some = np.linspace(0, len(recipes.steps) - 1, count).round().astype(int)
        recipes = recipes.among(some)
        squares, totals, residuals = left_out_squares(curve, recipes, everything, min(n, GROUPS))
        naive = float(squares[0].sum() / totals.sum() + recipes.spreads[0])
        standard_error = float(averaged(np.square(residuals).mean(axis=1), weights)[1])
        residuals = residuals / np.sqrt(weights)[:, np.newaxis]
        sizes, median = np.square(residuals).mean(axis=0), float(np.median(np.abs(residuals)))
        if not (0 < naive < np.inf and sizes.all()):
            return cls(1.0, 0.0, 3.0, median, standard_error)
        smaller = min(n, problem.p)
        price = n * problem.p * smaller + 10.0 * smaller**3 + 50.0 * count * smaller
        # Of so many rows that they are read in chunks one more changes the scales by nothing.
        refits_some = scaled and problem.stream is None
        rows = everything[:: max(1, math.ceil(n * price / _REFITS))] if refits_some else everything[:0]
        if len(rows):
            refits = refitted_squares(curve, recipes, rows)
            if len(rows) < squares.shape[1]:
                is_by_row = squares.shape[1] == n
                before = (
                    squares[:, rows] if is_by_row else left_out_squares(curve, recipes, rows, len(rows))[0]
                )
                refits = squares * (refits.sum(axis=1) / before.sum(axis=1))[:, np.newaxis]
            squares = refits
        expected, half_width = corrected(squares, totals, recipes.spreads, n * outputs, rounding)
        kurtosis = float(np.square(np.square(residuals) / sizes).mean())
        return cls(expected / naive, half_width, kurtosis, median, standard_error)
