"""How second moments are followed: order by order, through the rows, by a walk, or from drawn orders."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from reshuffle import _uncertainty
from reshuffle._arrays import FloatArray
from reshuffle.epoch.accuracy import A_SECOND, CALL, METHODS, Accuracy, require_affordable
from reshuffle.epoch.averaging.lattice import Walk
from reshuffle.epoch.moments import drawn, two_shuffled_batches
from reshuffle.epoch.select import OUT_OF_REACH, Choice, Way, climbs, too_much, walk_flops
from reshuffle.problem.batches import Blocks
from reshuffle.schemes.base import Shuffle, Unit

_CALLS_OF_ROWS = 1.5
"""Calls with small matrices that a visit of the recursion through the rows takes."""
_REMEMBERED_BYTES = 4e9
_BESIDE_ROWS = ("walk", "two batches", "centred maps", "simulation")
_ROUNDS_OF_A_LIMIT = 100
"""Epochs of second moments that their limit costs."""


@dataclass(frozen=True, eq=False)
class SecondMomentTask:
    """Second moments to be followed through the epochs of a run.

    Attributes
    ----------
    walk : Walk
    blocks : Blocks
    dimension : int
        Of the state.
    epochs : (k,)
        Ascending.
    given_responses : bool
        Whether the responses are given, so that no noise is followed.
    mean_is_exact : bool
        Whether the mean is: second moments are followed only beside an exact one.
    rows_serve : bool
        Whether the quicker recursion through the rows of the batches is as accurate as the general one.
    leaps : bool
        Whether the state is so small that the map of an epoch is squared.
    settling : callable
        About how many epochs it takes until nothing changes any more, or all has overflowed.
    moves_alike : bool
        Whether all epochs have the same step, and it is not zero.
    is_plain : bool
        Whether there is nothing but a step, and the mean map is exact and symmetric.
    """

    walk: Walk
    blocks: Blocks
    dimension: int
    epochs: FloatArray
    given_responses: bool
    mean_is_exact: bool
    rows_serve: bool
    leaps: bool
    settling: Callable[[], float]
    moves_alike: bool = True
    is_plain: bool = False

    def rounds(self, each: float, budget: float) -> float:
        """How many epochs are followed, at this price each."""
        finite = self.epochs[np.isfinite(self.epochs)]
        rounds = float(finite.max(initial=0.0))
        if rounds * each > budget:
            rounds = min(rounds, self.settling())
        return rounds + _ROUNDS_OF_A_LIMIT * (len(finite) < len(self.epochs))


def second_moment_choice(task: SecondMomentTask, accuracy: Accuracy) -> Choice:
    """How second moments are followed: order by order, through the rows, by the general walk, or from draws.

    Where orders are too many for a recursion, centred maps of drawn orders serve all epochs, if these are alike.
    """
    question, walk = "the second moments", task.walk
    if walk.scheme.shuffle is Shuffle.ONCE:
        return Choice(question, (Way("each order by itself", np.nan),))
    if not walk.scheme.is_random:
        return Choice(question, (Way("no orders differ", 0.0),))
    unknown = "" if task.mean_is_exact else "the mean over orders is not exact"
    budget = max(accuracy.budget, A_SECOND)
    of_rows, by_rows = _of_rows(task, budget)
    if not (unknown or of_rows):
        others = (Way(name, np.nan, "the recursion through the rows is affordable") for name in _BESIDE_ROWS)
        return Choice(question, (Way("rows", by_rows), *others))
    walked = _walked(task, budget) if walk.exists else np.inf
    if accuracy.method == "exact" and not unknown:
        last = task.epochs[-1] if len(task.epochs) else 0.0
        require_affordable(
            min(by_rows, walked), accuracy.budget, f"the exact expected risk after {last:g} epochs",
            'try fewer epochs, fewer batches, a larger budget, or method="auto"',
        )  # fmt: skip
    of_walk = unknown or too_much(walked, budget)
    return Choice(
        question,
        (
            Way("rows", by_rows, unknown or of_rows),
            Way("walk", walked, of_walk),
            Way("two batches", *_of_two_batches(task, budget, bool(of_walk))),
            Way("centred maps", *_of_centred_maps(task, budget, bool(of_walk))),
            Way("simulation", np.nan, "" if of_walk else "the exact recursion is affordable"),
        ),
    )


def no_second_moments() -> Choice:
    """Of shuffled or drawn samples that are not at hand there are none."""
    return Choice(
        "the second moments", (Way("none", np.nan, "they need all samples at once, which are not at hand"),)
    )


def least_known(choices: list[Choice]) -> Choice:
    """Of the means of several stages, the one that is known worst."""
    return max(choices, key=lambda each: METHODS.index(each.taken))


_THROUGH_STAGES = ("walk", "no orders differ")
"""Ways that hand second moments on from one stage to the next."""


def through_stages(choices: list[Choice]) -> Choice:
    """How second moments are followed through stages: at the dearest's price, or simulated if not in all."""
    others = [each for each in choices if each.taken not in _THROUGH_STAGES]
    if not others:
        return max(choices, key=lambda each: each.way.operations)
    alone = "it is for runs whose epochs are all alike"
    ways = (
        way if way.against or way.name == "simulation" else replace(way, against=alone)
        for way in others[0].ways
    )
    return Choice(others[0].question, tuple(ways))


def _of_two_batches(task: SecondMomentTask, budget: float, is_needed: bool) -> tuple[float, str]:
    """What the sums over the ways to cut samples in two cost, and what speaks against them."""
    if not (halves_samples(task.walk) and task.is_plain and task.moves_alike) or task.given_responses:
        return (
            np.nan,
            "it is for shuffled samples in two batches, with nothing but a step, over orders and noise",
        )
    each = two_shuffled_batches.flops(*task.blocks.rows.shape)
    price = task.rounds(each, budget) * each
    return price, too_much(price, budget) if is_needed else "the exact recursion is affordable"


def halves_samples(walk: Walk) -> bool:
    """Whether samples are shuffled and cut into two batches."""
    kind = walk.scheme.shuffle, walk.scheme.unit
    return kind == (Shuffle.EVERY_EPOCH, Unit.SAMPLE) and walk.steps == 2


def _of_centred_maps(task: SecondMomentTask, budget: float, is_needed: bool) -> tuple[float, str]:
    """What second moments by centred maps cost, for the fewest draws, and what speaks against them."""
    walk, rows = task.walk, len(task.blocks.rows)
    if walk.scheme.shuffle is not Shuffle.EVERY_EPOCH or not task.moves_alike:
        return np.nan, "they are for a fresh order in every epoch, at a step that stays"
    pairs = drawn.FEWEST_PAIRS * _uncertainty.MOST_GROUPS
    price = drawn.draw_flops(pairs, task.dimension, rows, walk.steps)
    price += drawn.follow_flops(2 * pairs, task.dimension, task.epochs)
    return price, too_much(price, budget) if is_needed else "the exact recursion is affordable"


def draws_squares(walk: Walk, price: float, accuracy: Accuracy) -> bool:
    """Whether the mean square is told from drawn orders: where all of them, at this price, are not affordable."""
    return (
        walk.scheme.shuffle is Shuffle.EVERY_EPOCH
        and accuracy.method != "exact"
        and bool(too_much(price, max(accuracy.budget, A_SECOND)))
    )


def draws_thresholds(walk: Walk, price: float, budget: float) -> bool:
    """Whether critical steps are searched with a mean that is not exact, since all orders cost too much."""
    return walk.scheme.shuffle is Shuffle.EVERY_EPOCH and bool(too_much(price, budget))


def _of_rows(task: SecondMomentTask, budget: float) -> tuple[str, float]:
    """What speaks against the recursion through the rows, and what it costs."""
    if not (task.rows_serve and climbs(task.walk.scheme)):
        return "it is for plain random reshuffling of all rows, well conditioned", np.inf
    if task.leaps:
        return "the state is small enough to square the map of an epoch", np.inf
    steps, (rows, rank) = task.walk.steps, task.blocks.rows.shape
    if 2.0**steps * 8 * rank**2 > _REMEMBERED_BYTES:
        return OUT_OF_REACH, np.inf
    each = 2.0 ** (steps - 1) * (8.0 * rows * rank**2 + _CALLS_OF_ROWS * CALL * steps)
    price = task.rounds(each, budget) * each
    return too_much(price, budget), price


def _walked(task: SecondMomentTask, budget: float) -> float:
    """What the general recursion costs."""
    inputs = 1 if task.given_responses else 1 + len(task.blocks.rows)
    each = walk_flops(task.walk, task.blocks, task.dimension, inputs)
    if task.leaps:
        return (task.dimension * (task.dimension + inputs) + _ROUNDS_OF_A_LIMIT) * each
    return task.rounds(each, budget) * each
