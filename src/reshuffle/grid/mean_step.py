"""Leave-one-out of the mean step in place of a shuffled run's, with the effect of the order of visits as its error.

With W_b the Gram matrix of a visit, W and M the means of W_b and W_b^2 over visits, the mean of an epoch of B
shuffled visits is (I - step W)^B - (step^2 B / 2) (M - W^2) up to higher orders: that of the mean step with
W + (step / 2) (M - W^2) in the place of W. The first-order effect of this on the predictions is the error.
"""

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.epoch.select import LEFT_OUT, MEANS
from reshuffle.run import Run, descend
from reshuffle.schemes import FullBatch, WithReplacement
from reshuffle.schemes.base import Shuffle, Unit
from reshuffle.validation.leave_one_out import LeaveOneOut

_MARGIN, _FLOOR = 3.0, 0.01
"""The error: so many first-order effects, which may vanish by chance, and this share of the standard error.
Set on 815 answers of tall random problems, heavy tails among them (1 outside); 1,300 others were within it."""
_QUICK, _SLOW = 1e6, 3e7
"""Rows times the square of the rank, up to which the formula of shuffled samples takes 0.1 s, or beyond it 2 s."""
_MANY = 16
"""Fixed batches up to which there may be an exact answer."""
_TALL = 2
"""Rows per direction, at least: where they are fewer, training rows do not show the effect on rows left out."""
_CLOSE = 1e-6


def left_out(run: Run, epochs: FloatArray) -> tuple[LeaveOneOut, FloatArray] | None:
    """Leave-one-out by the mean step and its error, of the same shape; None where a formula is quick or better.

    The formula of the run knows more where this error is above a tenth of the standard error (all of it where the
    formula takes seconds), and where a smaller `rtol` than the default asks for it. That of many fixed batches
    knows little more at any step, and where it fails folds are refitted, which know less.
    """
    problem, scheme, recipe, n = run.problem, run.scheme, run.recipe, run.problem.n
    is_plain = recipe.is_constant and not (recipe.momentum or recipe.average or recipe.unpenalized)
    is_coarse = not run.accuracy.must_be_exact and run.accuracy.rtol >= MEANS
    if (
        not (is_plain and is_coarse)
        or scheme.shuffle is not Shuffle.EVERY_EPOCH
        or problem.stream is not None
    ):
        return None
    rank, visits, step = problem.rank, scheme.steps(n), recipe.at(0).step
    is_fixed = scheme.unit is Unit.BATCH and visits < n
    has_to_wait = visits > _MANY if is_fixed else scheme.unit is not Unit.GROUP and n * rank**2 > _QUICK
    if not has_to_wait or n < _TALL * rank or not step or problem.sample_weight is not None:
        return None
    # The mean of a visit is that of a batch that is drawn anew, and for samples that of all rows.
    partition = scheme.partition(n) if is_fixed else None
    drawn, times = (FullBatch(), visits) if partition is None else (WithReplacement(batches=partition), 1)
    mean = descend(problem, drawn, step, penalty=recipe.penalty, start=run.start)
    found = mean.leave_one_out(times * epochs)
    error = _MARGIN * _order_effect(run, partition, epochs, found.mean_square) + _FLOOR * found.standard_error
    allowed = found.standard_error * (1.0 if n * rank**2 > _SLOW else LEFT_OUT)
    off = (error - allowed).reshape(np.size(epochs), -1).mean(axis=1)
    return (found, error) if (is_fixed and np.isfinite(off).all()) or (off <= 0).all() else None


def _order_effect(
    run: Run, fixed: list[IntArray] | None, epochs: FloatArray, mean_squares: FloatArray
) -> FloatArray:
    """First-order effect of the order of visits on left-out mean squares, of their shape."""
    problem, n, visits = run.problem, run.problem.n, run.scheme.steps(run.problem.n)
    step, penalty = run.recipe.at(0).step, run.recipe.penalty
    rows = problem.rows_inside(np.arange(n)) * problem.row_space.scale
    begin = problem.row_space.coordinates(run.start.reshape(problem.p, -1))
    missing = problem.compressed.y - rows @ begin
    if fixed is None:
        sizes = run.scheme.sizes(n)
        share = float(((n - sizes) / (sizes * max(n - 1, 1))).mean())
        W, force = rows.T @ rows / n, rows.T @ missing / n
        scaled = rows * np.square(rows).sum(axis=1)[:, None]
        noise, push = share * (scaled.T @ rows / n - W @ W), share * (scaled.T @ missing / n - W @ force)
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
    for taken in np.ravel(epochs) * visits:
        with np.errstate(all="ignore"):
            # q = (1 - (1 - step rate)^visits) / rate, its derivative, and its divided differences.
            left = np.power(1 - step * rates, taken)
            q = np.where(rates > 0, (1 - left) / rates, step * taken)
            slope = np.where(rates > 0, (step * taken * left / (1 - step * rates) - q) / rates, 0.0)
            divided = np.where(is_close, (slope[:, None] + slope) / 2, np.subtract.outer(q, q) / apart)
            moved = seen @ ((divided * noise) @ force + q[:, None] * push)
            residual = missing - seen @ (q[:, None] * force)
            size, fitted = (np.square(part).mean(axis=0) for part in (moved, residual))
            common = 2 * np.abs((moved * residual).mean(axis=0)) + size
            effects.append((common, 2 * np.sqrt(size), np.sqrt(fitted)))
    common, twice, fitted = (
        np.array(part).reshape(mean_squares.shape) for part in zip(*effects, strict=True)
    )
    # Rows that are left out are predicted less well, and feel as much more of it.
    return np.asarray(common + twice * np.maximum(np.sqrt(mean_squares) - fitted, 0.0))
