"""The spread of a run and its stability by centred maps, where orders are too many for a recursion over all."""

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._budget import A_SECOND, AT_ONCE, require_affordable
from reshuffle._linalg import few_threads
from reshuffle._uncertainty import further_rounds
from reshuffle.epoch.epoch import Epoch
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.moments import drawn as drawn_orders
from reshuffle.epoch.moments.drawn import FEWEST_PAIRS, CentredDraws, Radius, Spread
from reshuffle.epoch.visits import Inputs, Visits
from reshuffle.run.affine_trajectory import AffineTrajectory
from reshuffle.run.trajectory import ModesTrajectory

SHARE = 0.02
"""The error of the spread relative to itself that is asked for."""
SHARE_OF_BUDGET = 0.1
MOST_ORDERS = 16_000
_KNOWN = 0.02
"""How far the gain may be off: it counts beside one."""
_FIRST_PAIRS = 4
_APPLIED = 200
"""Applications of all maps that two radii take, with those of halves, about."""


def spread(
    run: AffineTrajectory, modes: ModesTrajectory | None, inputs: Inputs, when: FloatArray, start: FloatArray
) -> Spread:
    """The risk that shuffling adds after each of the ascending epochs, and how far it may be off.

    Orders are drawn until that is `SHARE` of the spread at every epoch, or a tenth of the budget is spent.

    Parameters
    ----------
    run : AffineTrajectory
    modes : ModesTrajectory or None
        The same run in the modes of its mean map, if that is symmetric.
    inputs : Inputs
    when : (k,)
    start : (r,)
        The error at the start, in the coordinates of the run.
    """
    drawn = draws(run, modes, inputs)
    left = max(SHARE_OF_BUDGET * run.accuracy.budget, A_SECOND)
    pairs = _first_pairs(drawn)
    with few_threads(run.dimension):
        while True:
            drawn.more(pairs)
            found = _seen(run, drawn, when, start)
            left -= drawn.flops(pairs) + drawn_orders.follow_flops(drawn.orders, run.dimension, when)
            excess = _excess(found)
            if excess <= 1 or not np.isfinite(excess):
                return found
            total = drawn.orders // (2 * drawn.groups)
            each = (
                drawn.flops(total) / total
                + drawn_orders.follow_flops(drawn.orders, run.dimension, when) / total
            )
            pairs = min(further_rounds(total, excess, left / each), MOST_ORDERS // (2 * drawn.groups) - total)
            if pairs < 1:
                return found


def draws(run: AffineTrajectory, modes: ModesTrajectory | None, inputs: Inputs) -> CentredDraws:
    """No orders yet, beside the mean over all of them as well as it is known."""
    timeline = run.timeline
    if modes is None or run.visited is not run.problem:
        symmetric = run.scheme.is_symmetric and run.recipe.momentum == 0
        return CentredDraws(timeline, timeline.map(0), inputs, symmetric, run.accuracy.seed)
    return CentredDraws(
        timeline, mean_of(modes.epoch, run, timeline.visits(0)), inputs, True, run.accuracy.seed
    )


def mean_of(epoch: Epoch, run: AffineTrajectory, visits: Visits) -> EpochMap:
    """The mean map of a symmetric epoch in the graded coordinates of a run over the same rows and its visits."""
    mean, turn = epoch.mean, run.space.rotation
    assert turn is not None
    known = epoch.problem.row_space.rotation
    factor = mean.factor @ (turn if known is None else known.T @ turn) / visits.sizes
    steps = run.walk.steps
    kernel, input_map = steps * (factor.T @ mean.weigh(factor)), steps * mean.mapped_inputs(factor)
    force = np.zeros(run.dimension)
    entries = np.column_stack([force, input_map])
    return EpochMap(
        visits.left, visits.right, (kernel + kernel.T) / 2, entries, *visits.sizes_of(steps, force)
    )


def _first_pairs(drawn: CentredDraws) -> int:
    return int(np.clip(AT_ONCE / drawn.flops(1), FEWEST_PAIRS, 16))


def _seen(run: AffineTrajectory, drawn: CentredDraws, when: FloatArray, start: FloatArray) -> Spread:
    rank, basis, scale = run.space.dimension, drawn.basis, run.space.scale
    weights = basis[:rank].T @ (run.readout.gram / scale / scale) @ basis[:rank]
    # Weights of 1e-170 have no squares: they are followed in units of their own.
    exponent = int(np.frexp(np.abs(weights).max(initial=0.0))[1])
    state = np.concatenate([start, np.zeros(run.dimension - rank)])
    found = drawn_orders.spread(drawn.maps, np.ldexp(weights, -exponent), np.linalg.solve(basis, state), when)
    with np.errstate(over="ignore"):
        return Spread(np.ldexp(found.values, exponent), np.ldexp(found.errors, exponent))


def _excess(found: Spread) -> float:
    """By how much the error is larger than it should be, at the worst of the epochs."""
    known = np.isfinite(found.values) & (found.values > 0)
    if not known.any():
        return 0.0
    return float((found.errors[known] / found.values[known]).max()) / SHARE


def radii(run: AffineTrajectory, modes: ModesTrajectory | None) -> tuple[Radius, Radius]:
    """The rate and the gain, from as many draws as it takes to know the gain, or a tenth of the budget."""
    drawn = undriven(run, modes)
    budget = max(SHARE_OF_BUDGET * run.accuracy.budget, A_SECOND)
    require_affordable(
        _price(drawn, _FIRST_PAIRS), max(budget, run.accuracy.budget), "the mean square from a few drawn orders",
        "try fewer rows or features, a larger budget, or expected_risk at the epochs of interest",
    )  # fmt: skip
    pairs = _FIRST_PAIRS
    with few_threads(run.dimension):
        while True:
            drawn.more(pairs)
            budget -= _price(drawn, pairs)
            gain = drawn_orders.gain(drawn.maps)
            excess = gain.error / (_KNOWN * max(1.0, gain.value))
            total = drawn.orders // (2 * drawn.groups)
            most = min(
                budget / (_price(drawn, total) / total),
                MOST_ORDERS // (2 * drawn.groups) - total,
            )
            more = further_rounds(total, excess, most) if 1 < excess < np.inf else 0
            if more < 1:
                return drawn_orders.rate(drawn.maps), gain
            pairs = more


def undriven(run: AffineTrajectory, modes: ModesTrajectory | None) -> CentredDraws:
    """Orders of a run into which nothing enters: only what it does to errors is asked."""
    nothing = Inputs(np.zeros(run.space.dimension), given=np.zeros(len(run.blocks.rows)))
    return draws(run, modes, nothing)


def _price(drawn: CentredDraws, pairs: int) -> float:
    maps = 2.0 * drawn.groups * pairs
    return drawn.flops(pairs) + _APPLIED * 4.0 * maps * float(len(drawn.basis)) ** 3
