"""Which runs can leave out rows by a formula, and by which."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ErrorKind
from reshuffle.epoch.accuracy import A_SECOND, Accuracy
from reshuffle.epoch.averaging.lattice import fits_in_memory
from reshuffle.schemes.base import Shuffle, Unit
from reshuffle.validation import (
    cavity_looks,
    drawn_orders,
    fixed_order,
    mean_steps,
    single_rows,
    subset_looks,
)
from reshuffle.validation.descent import Descent
from reshuffle.validation.looks import ErrorOfMeanSquare, LeavesOut

_PATIENCE = 10
"""Seconds or so."""


@dataclass(frozen=True, eq=False)
class Formula:
    """A way to leave out rows.

    Attributes
    ----------
    rows : LeavesOut
    name : str
        "exact", "subset sizes", "cavity" or "drawn orders".
    error : callable, optional
        How far a mean square may be off, where the formula is not exact: see `ErrorOfMeanSquare`.
    error_kind : ErrorKind
        In which sense.
    sizes : (n,), optional
        How far each row may be off beside the others.
    """

    rows: LeavesOut
    name: str
    error: ErrorOfMeanSquare | None = None
    error_kind: ErrorKind = "exact"
    sizes: FloatArray | None = None


def formulas(descent: Descent, accuracy: Accuracy) -> list[Formula]:
    """The formulas for a descent whose epochs are alike, the best first; none if none is within the budget."""
    scheme, n = descent.scheme, descent.problem.n
    # Of features that are all zero nothing is learned, and there are no modes to leave anything out of.
    if descent.step == 0 or descent.problem.rank == 0:
        return []
    if scheme.shuffle is Shuffle.ONCE and not scheme.samples_courses(n):
        return _order_kept(descent, accuracy)
    if scheme.shuffle is Shuffle.NEVER and (scheme.steps(n) > 1 or descent.parts > 1):
        return _order_kept(descent, accuracy)
    if descent.parts > 1:
        return []
    found = _FORMULAS.get((scheme.shuffle, scheme.unit))
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return [] if found is None else found(descent, accuracy)
    except (ArithmeticError, np.linalg.LinAlgError):
        # Steps so large that products leave the range of numbers have no modes.
        return []


def _order_kept(descent: Descent, accuracy: Accuracy) -> list[Formula]:
    side, n = descent.parts * descent.problem.rank, descent.problem.n
    schemes = descent.scheme.courses(n)
    if len(schemes) * (30.0 * side**3 + 10.0 * n * side**2) > accuracy.budget:
        return []
    orders = [fixed_order.fixed_order(replace(descent, scheme=each)) for each in schemes]
    known = [order for order in orders if order is not None]
    return [Formula(fixed_order.MeanOverOrders(known), "exact")] if len(known) == len(orders) else []


def _mean_steps(descent: Descent, accuracy: Accuracy) -> list[Formula]:
    return [Formula(mean_steps.mean_steps(descent), "exact")]


def _shuffled_batches(descent: Descent, accuracy: Accuracy) -> list[Formula]:
    blocks, rank = descent.blocks, descent.problem.rank
    is_exact = subset_looks.are_few(descent)
    if blocks.batches == descent.problem.n:
        if single_rows.are_few(descent):
            return [Formula(single_rows.single_rows(descent), "exact")]
        if not is_exact and bool((blocks.divisors == blocks.divisors[0]).all()):
            return _shuffled_samples(descent, accuracy)
    matrices = 8.0 * rank**2 * (1 + blocks.batches)
    price = subset_looks.operations(descent)
    # Ten folds are quick where batches are many: nobody waits a minute for more.
    if not fits_in_memory(blocks.batches, matrices) or price > min(accuracy.budget, _PATIENCE * A_SECOND):
        return []
    found = subset_looks.few_batches(descent)
    if is_exact:
        return [Formula(found.rows, "exact")]
    return [Formula(found.rows, "subset sizes", found.error, "estimate")]


def _shuffled_samples(descent: Descent, accuracy: Accuracy) -> list[Formula]:
    """The cavity equation; drawn orders before it where what it neglects is not small, if they are affordable."""
    if not cavity_looks.exists(descent):
        return []
    cavity, ways = cavity_looks.shuffled_samples(descent), []
    if cavity is not None:
        ways.append(Formula(cavity.rows, "cavity", cavity.error, "estimate", cavity.shares))
    # The cavity's error is wide where something is neglected that is not small, but unknown where rows overshoot.
    knows = cavity is not None and not cavity.overshoots
    orders = drawn_orders.number(descent, A_SECOND if knows else min(accuracy.budget, _PATIENCE * A_SECOND))
    if orders:
        drawn = drawn_orders.DrawnOrders(descent, orders, accuracy.seed)
        sizes = np.square(descent.rows(np.arange(descent.problem.n))).sum(axis=1)
        ways.append(Formula(drawn, "drawn orders", drawn.error, "three standard errors", sizes))
    return ways if cavity is None or cavity.is_small else ways[::-1]


_FORMULAS: dict[tuple[Shuffle, Unit], Callable[[Descent, Accuracy], list[Formula]]] = {
    (Shuffle.NEVER, Unit.BATCH): _mean_steps,
    (Shuffle.EVERY_STEP, Unit.BATCH): _mean_steps,
    (Shuffle.EVERY_STEP, Unit.SAMPLE): _mean_steps,
    (Shuffle.EVERY_EPOCH, Unit.BATCH): _shuffled_batches,
    (Shuffle.EVERY_EPOCH, Unit.SAMPLE): _shuffled_samples,
}
