"""Which runs can leave out rows by a formula, and by which."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from reshuffle.epoch.accuracy import A_SECOND
from reshuffle.epoch.walks import fits_in_memory
from reshuffle.schemes.base import Shuffle, Unit
from reshuffle.validation import cavity_looks, fixed_order, mean_steps, subset_looks
from reshuffle.validation.descent import Descent
from reshuffle.validation.looks import LeavesOut

_PATIENCE = 10
"""Seconds or so."""


@dataclass(frozen=True, eq=False)
class Formula:
    """A way to leave out rows.

    Attributes
    ----------
    rows : LeavesOut
    name : str
        "exact", "subset sizes" or "cavity".
    share : float
        How far what a row does may be off, relative to it; 0 where the formula is exact.
    put_off : callable, optional
        A share -> the same, where what each row does is off by it.
    """

    rows: LeavesOut
    name: str
    share: float = 0.0
    put_off: Callable[[float], LeavesOut] | None = None


def formula(descent: Descent, budget: float) -> Formula | None:
    """The formula for a descent whose epochs are alike; None if there is none within the budget."""
    scheme, n = descent.scheme, descent.problem.n
    # Of features that are all zero nothing is learned, and there are no modes to leave anything out of.
    if descent.step == 0 or descent.problem.rank == 0:
        return None
    if scheme.shuffle is Shuffle.ONCE and not scheme.samples_courses(n):
        return _order_kept(descent, budget)
    if scheme.shuffle is Shuffle.NEVER and (scheme.steps(n) > 1 or descent.parts > 1):
        return _order_kept(descent, budget)
    if descent.parts > 1:
        return None
    found = _FORMULAS.get((scheme.shuffle, scheme.unit))
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return None if found is None else found(descent, budget)
    except (ArithmeticError, np.linalg.LinAlgError):
        # Steps so large that products leave the range of numbers have no modes.
        return None


def _order_kept(descent: Descent, budget: float) -> Formula | None:
    side, n = descent.parts * descent.problem.rank, descent.problem.n
    schemes = descent.scheme.courses(n)
    if len(schemes) * (30.0 * side**3 + 10.0 * n * side**2) > budget:
        return None
    orders = [fixed_order.fixed_order(replace(descent, scheme=each)) for each in schemes]
    known = [order for order in orders if order is not None]
    return Formula(fixed_order.MeanOverOrders(known), "exact") if len(known) == len(orders) else None


def _mean_steps(descent: Descent, budget: float) -> Formula | None:
    return Formula(mean_steps.mean_steps(descent), "exact")


def _shuffled_batches(descent: Descent, budget: float) -> Formula | None:
    blocks, rank = descent.blocks, descent.problem.rank
    if blocks.batches == descent.problem.n and bool((blocks.divisors == blocks.divisors[0]).all()):
        return _shuffled_samples(descent, budget)
    matrices = 8.0 * rank**2 * (1 + blocks.batches)
    price = subset_looks.operations(descent)
    # Ten folds are quick where batches are many: nobody waits a minute for more.
    if not fits_in_memory(blocks.batches, matrices) or price > min(budget, _PATIENCE * A_SECOND):
        return None
    found = subset_looks.few_batches(descent)
    if found.is_exact:
        return Formula(found.rows, "exact")
    return Formula(found.rows, "subset sizes", found.share, found.rows.put_off)


def _shuffled_samples(descent: Descent, budget: float) -> Formula | None:
    if not cavity_looks.exists(descent):
        return None
    found = cavity_looks.shuffled_samples(descent)
    return None if found is None else Formula(found[0], "cavity", found[1], found[0].put_off)


_FORMULAS: dict[tuple[Shuffle, Unit], Callable[[Descent, float], Formula | None]] = {
    (Shuffle.NEVER, Unit.BATCH): _mean_steps,
    (Shuffle.EVERY_STEP, Unit.BATCH): _mean_steps,
    (Shuffle.EVERY_STEP, Unit.SAMPLE): _mean_steps,
    (Shuffle.EVERY_EPOCH, Unit.BATCH): _shuffled_batches,
    (Shuffle.EVERY_EPOCH, Unit.SAMPLE): _shuffled_samples,
}
