"""Leave-one-out of the mean step in place of a shuffled run's, with the effect of the order of visits as its error.

With W_b the Gram matrix of a visit, W and M the means of W_b and W_b^2 over visits, the mean of an epoch of B
shuffled visits is (I - step W)^B - (step^2 B / 2) (M - W^2) up to higher orders: that of the mean step with
W + (step / 2) (M - W^2) in the place of W. The first-order effect of this on the predictions is the error.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.epoch.select import LEFT_OUT, MEANS
from reshuffle.recipe.recipe import Hyperparameters
from reshuffle.schemes import FullBatch, WithReplacement
from reshuffle.schemes.base import Shuffle, Unit
from reshuffle.validation.cross_validation import LeftOutResult

if TYPE_CHECKING:
    from reshuffle.run.run import Run

_MARGIN, _FLOOR = 3.0, 0.01
"""The error: so many first-order effects, which may vanish by chance, and this share of the standard error.
Set on 815 answers of tall random problems, heavy tails among them (1 outside); 1,300 others were within it, and all
of 3,171 with and without momentum."""
_QUICK, _SLOW = 1e6, 3e7
"""Rows times the square of the rank, up to which the formula of shuffled samples takes 0.1 s, or beyond it 2 s."""
_MANY = 16
"""Fixed batches up to which there may be an exact answer."""
_TALL = 2
"""Rows per direction, at least: where they are fewer, training rows do not show the effect on rows left out."""
_STEEPER = 3.0
"""What the cavity equation neglects of squares, over that share of the difference between left-out and fitted ones:
1.5 to 3.4 for batches of 16 to 64 of 300 features, since squares grow the faster the more of a row is left out."""
_CLOSE = 1e-6
"""Difference of two curvatures, relative to the largest, below which a divided difference is a derivative."""
_DERIVATIVE = 1e-30
"""Imaginary part of a curvature, relative to the largest, of which only the first order is seen."""


class MeanStep:
    """The mean step of a run, whose leave-one-out is quick, and its error as that of the run."""

    def __init__(self, run: "Run"):
        self._of, n = run, run.problem.n
        visits = run.scheme.steps(n)
        is_fixed = run.scheme.unit is Unit.BATCH and visits < n
        # The mean of a visit is that of a batch that is drawn anew, and for samples that of all rows.
        self._partition = run.scheme.partition(n) if is_fixed else None
        scheme = FullBatch() if self._partition is None else WithReplacement(batches=self._partition)
        recipe = replace(run.recipe, schedule=run.recipe.at(0).step, divisor=1).fitted(scheme, n)
        self.times = 1 if is_fixed else visits
        self.run = type(run)(run.problem, scheme, recipe, run.start, run.accuracy)

    @classmethod
    def of(cls, run: "Run") -> "MeanStep | None":
        """The mean step of a run whose formula takes long, or knows little; None of all others."""
        problem, scheme, recipe, n = run.problem, run.scheme, run.recipe, run.problem.n
        is_plain = recipe.is_constant and not (recipe.average or recipe.unpenalized)
        is_coarse = not run.accuracy.must_be_exact and run.accuracy.rtol >= MEANS
        is_drawn = scheme.shuffle is Shuffle.EVERY_EPOCH and problem.stream is None
        if not (is_plain and is_coarse and is_drawn and problem.sample_weight is None):
            return None
        is_fixed = scheme.unit is Unit.BATCH and scheme.steps(n) < n
        is_quick = scheme.steps(n) <= _MANY if is_fixed else n * problem.rank**2 <= _QUICK
        if is_quick or scheme.unit is Unit.GROUP or n < _TALL * problem.rank or not recipe.at(0).step:
            return None
        return cls(run)

    def error(self, epochs: FloatArray, found: LeftOutResult, hurried: bool) -> FloatArray | None:
        """The error of left-out mean squares, of their shape; None where a formula of the run knows more.

        It may be a tenth of the standard error; more where the formula takes seconds, as long as that neglects more
        itself, and up to all of it where the question is `hurried`, as in a sweep. That of many fixed batches knows
        little more at any step, and where it fails folds are refitted, which know less.
        """
        effect, neglected = _order_effect(self._of, self._partition, epochs, found)
        error = _MARGIN * effect + _FLOOR * found.standard_error
        allowed = found.standard_error * LEFT_OUT
        if self._of.problem.n * self._of.problem.rank**2 > _SLOW:
            allowed = found.standard_error if hurried else np.maximum(allowed, neglected)
        off = (error - allowed).reshape(np.size(epochs), -1).mean(axis=1)
        is_known = np.isfinite(off).all() if self._partition is not None else (off <= 0).all()
        return error if is_known else None


def _order_effect(
    run: "Run", fixed: list[IntArray] | None, epochs: FloatArray, found: LeftOutResult
) -> tuple[FloatArray, FloatArray]:
    """First-order effect of the order of visits on left-out mean squares, of their shape.

    And about what the cavity equation of shuffled samples neglects of them: in each row's own update the share that
    `shuffled_samples.CavityUpdates` says.
    """
    problem, n, visits = run.problem, run.problem.n, run.scheme.steps(run.problem.n)
    by = run.recipe.at(0)
    # That of a gradient in the long run: momentum repeats it.
    step, penalty = by.step / (1 - by.momentum), by.penalty
    mean_squares, shares, kept = found.mean_square, np.zeros(n), found._kept
    rows = problem.rows_inside(np.arange(n)) * problem.row_space.scale
    begin = problem.row_space.coordinates(run.start.reshape(problem.p, -1))
    missing = problem.compressed.y - rows @ begin
    if fixed is None:
        sizes = run.scheme.sizes(n)
        share = float(((n - sizes) / (sizes * max(n - 1, 1))).mean())
        W, force = rows.T @ rows / n, rows.T @ missing / n
        squares = np.einsum("ir,ir->i", rows, rows)
        lengths = np.sqrt(squares)[:, None]
        # The product of a matrix with itself takes half the time of others.
        scaled = rows * lengths
        fourth, pushed = scaled.T @ scaled / n, scaled.T @ (missing * lengths) / n
        noise, push = fourth - W @ W, share * (pushed - W @ force)
        if kept is not None:
            both = n * np.einsum("ir,ir->i", rows @ noise, rows) / np.where(squares > 0, squares, 1.0)
            of_visits = (visits - 1) * (visits - 2) / (6.0 * visits**2)
            shares = np.minimum(of_visits * (step / float(sizes.max())) ** 2 * np.maximum(both, 0.0), 1.0)
        noise *= share
    else:
        parts = [(rows[some], missing[some], len(some)) for some in fixed]
        grams = [(x.T @ x / size, x.T @ y / size) for x, y, size in parts]
        W, force = (np.asarray(sum(both) / visits) for both in zip(*grams, strict=True))
        noise = sum(gram @ gram for gram, _ in grams) / visits - W @ W
        push = sum(gram @ forced for gram, forced in grams) / visits - W @ force
    values, vectors = scipy.linalg.eigh(W, check_finite=False)
    rates = values.clip(min=0.0) + penalty
    noise, push = step / 2 * vectors.T @ noise @ vectors, step / 2 * vectors.T @ push
    force = vectors.T @ force
    seen, effects = rows @ vectors, []
    apart = np.subtract.outer(rates, rates)
    is_close = np.abs(apart) <= _CLOSE * rates.max()
    for place, taken in enumerate(np.ravel(epochs) * visits):
        with np.errstate(all="ignore"):
            # How far a unit force moves the modes, its derivative, and its divided differences.
            q, slope = _response(by, rates, taken)
            divided = np.where(is_close, (slope[:, None] + slope) / 2, np.subtract.outer(q, q) / apart)
            moved = seen @ ((divided * noise) @ force + q[:, None] * push)
            residual = missing - seen @ (q[:, None] * force)
            size, fitted = (np.square(part).mean(axis=0) for part in (moved, residual))
            common = 2 * np.abs((moved * residual).mean(axis=0)) + size
            own = residual if kept is None else kept.reshape(-1, *residual.shape)[place]
            between = np.abs(np.square(own) - np.square(residual))
            neglected = _STEEPER * (shares[:, None] * between).mean(axis=0)
            effects.append((common, 2 * np.sqrt(size), np.sqrt(fitted), neglected))
    common, twice, fitted, neglected = (
        np.array(part).reshape(mean_squares.shape) for part in zip(*effects, strict=True)
    )
    # Rows that are left out are predicted less well, and feel as much more of it.
    return common + twice * np.maximum(np.sqrt(mean_squares) - fitted, 0.0), neglected


def _response(by: Hyperparameters, rates: FloatArray, visits: float) -> tuple[FloatArray, FloatArray]:
    """Parameters (r,) after so many visits of unit force and curvatures `rates`, and their derivatives by these.

    Derivatives are imaginary parts: the visit, on (parameter, buffer, 1), is a matrix of numbers rate + i h. In the
    limit nothing is known.
    """
    if not np.isfinite(visits):
        nothing = np.full(len(rates), np.nan)
        return nothing, nothing
    tiny = _DERIVATIVE * rates.max(initial=1e-300)
    gradient = np.zeros((len(rates), 3), dtype=complex)
    gradient[:, 0], gradient[:, 2] = rates + 1j * tiny, -1.0
    visit = np.tile(np.eye(3, dtype=complex), (len(rates), 1, 1))
    visit[:, 0] -= by.step * by.of_gradient(0) * gradient
    visit[:, 0, 1] -= by.step * by.of_buffer(0)
    visit[:, 1] = gradient
    visit[:, 1, 1] = by.momentum
    parameter = np.linalg.matrix_power(visit, int(visits))[:, 0, 2]
    return parameter.real, parameter.imag / tiny
