"""The method of second moments: order by order, by the exact recursion, from drawn orders, or by simulation."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from reshuffle import _uncertainty
from reshuffle._arrays import FloatArray
from reshuffle._budget import A_SECOND, require_affordable
from reshuffle.epoch.averaging.lattice import Walk, climbs
from reshuffle.epoch.moments import drawn, matrix
from reshuffle.epoch.select import METHODS, Accuracy, Choice, Method, too_much
from reshuffle.schemes.base import Shuffle

_REMEMBERED_BYTES = 4e9
"""Memory of the mean maps of all subsets of the batches."""
_ROUNDS_OF_A_LIMIT = 100
"""Epochs of second moments that their limit costs."""
_ALL_ANEW = 3.0
"""The price of an epoch with a step of its own, over that of one that is like the others."""


@dataclass(frozen=True, eq=False)
class SecondMomentTask:
    """Second moments to be followed through the epochs of a run.

    Attributes
    ----------
    walk : Walk
    rows, rank, batches : int
        Of the features, compressed batch by batch.
    dimension : int
        Of the state.
    epochs : (k,)
        Ascending.
    given_responses : bool
        True if the responses are given, so that no noise is followed.
    mean_is_exact : bool
        Second moments are followed only beside an exact mean.
    is_constant : bool
        All epochs are alike.
    moves : bool
        All epochs have the same step, and it is not zero.
    leap : float
        The number of moments whose map is squared, where they are few and the epochs far; 0 elsewhere.
    settling : callable
        About how many epochs it takes until nothing changes any more, or all has overflowed.
    """

    walk: Walk
    rows: int
    rank: int
    batches: int
    dimension: int
    epochs: FloatArray
    given_responses: bool
    mean_is_exact: bool
    is_constant: bool
    moves: bool
    leap: float
    settling: Callable[[], float]

    def recursion_flops(self, budget: float) -> float:
        """Operations of the exact recursion; infinite if memory is out of reach."""
        walk, d, rows = self.walk, float(self.dimension), self.rows / self.batches
        each = matrix.flops(walk, self.dimension, self.rank, rows)
        if not self.given_responses:
            each += 2.0 * walk.visits * min(rows, self.rank) * d * d
            if climbs(walk.scheme) and 2.0**walk.steps * 8 * d * d > _REMEMBERED_BYTES:
                return np.inf
        if self.leap:
            return (self.leap + _ROUNDS_OF_A_LIMIT) * each
        finite = self.epochs[np.isfinite(self.epochs)]
        rounds, each = float(finite.max(initial=0.0)), each if self.is_constant else _ALL_ANEW * each
        if rounds * each > budget:
            rounds = min(rounds, self.settling())
        return (rounds + _ROUNDS_OF_A_LIMIT * (len(finite) < len(self.epochs))) * each


def second_moment_choice(task: SecondMomentTask, accuracy: Accuracy) -> Choice:
    """The method of second moments.

    Where orders are too many for a recursion, centred maps of drawn orders serve all epochs, if these are alike.
    """
    question, walk = "the second moments", task.walk
    if walk.scheme.shuffle is Shuffle.ONCE:
        return Choice(question, (Method("each order by itself", np.nan),))
    if not walk.scheme.is_random:
        return Choice(question, (Method("no orders differ", 0.0),))
    against = "" if task.mean_is_exact else "the mean over orders is not exact"
    budget = max(accuracy.budget, A_SECOND)
    price = task.recursion_flops(budget) if walk.exists else np.inf
    if accuracy.method == "exact" and not against:
        last = task.epochs[-1] if len(task.epochs) else 0.0
        require_affordable(
            price, accuracy.budget, f"the exact expected risk after {last:g} epochs",
            'try fewer epochs, fewer batches, a larger budget, or method="auto"',
        )  # fmt: skip
    against = against or too_much(price, budget)
    return Choice(
        question,
        (
            Method("recursion", price, against),
            Method("centred maps", *_of_centred_maps(task, budget, bool(against))),
            Method("simulation", np.nan, "" if against else "the exact recursion is affordable"),
        ),
    )


def no_second_moments() -> Choice:
    """Of shuffled or drawn samples that are not at hand there are none."""
    return Choice(
        "the second moments",
        (Method("none", np.nan, "they need all samples at once, which are not at hand"),),
    )


def least_known(choices: list[Choice]) -> Choice:
    """Of the means of several stages, the one that is known worst."""
    return max(choices, key=lambda each: METHODS.index(each.taken))


_THROUGH_STAGES = ("recursion", "no orders differ")
"""Ways that hand second moments on from one stage to the next."""


def through_stages(choices: list[Choice]) -> Choice:
    """The method of second moments through stages: at the dearest's price, or simulated if not in all."""
    others = [each for each in choices if each.taken not in _THROUGH_STAGES]
    if not others:
        return max(choices, key=lambda each: each.method.operations)
    alone = "it is for runs whose epochs are all alike"
    ways = (
        way if way.rejected_because or way.name == "simulation" else replace(way, rejected_because=alone)
        for way in others[0].methods
    )
    return Choice(others[0].question, tuple(ways))


def _of_centred_maps(task: SecondMomentTask, budget: float, is_needed: bool) -> tuple[float, str]:
    """Operations of second moments by centred maps, for the fewest draws, and what speaks against them."""
    walk, rows = task.walk, task.rows
    if walk.scheme.shuffle is not Shuffle.EVERY_EPOCH or not task.moves:
        return np.nan, "they are for a fresh order in every epoch, at a step that stays"
    pairs = drawn.FEWEST_PAIRS * _uncertainty.MOST_GROUPS
    price = drawn.draw_flops(pairs, task.dimension, rows, walk.steps)
    price += drawn.follow_flops(2 * pairs, task.dimension, task.epochs)
    return price, too_much(price, budget) if is_needed else "the exact recursion is affordable"


def draws_squares(walk: Walk, price: float, accuracy: Accuracy) -> bool:
    """True if the mean square is told from drawn orders: where all of them, at this price, are not affordable."""
    return (
        walk.scheme.shuffle is Shuffle.EVERY_EPOCH
        and accuracy.method != "exact"
        and bool(too_much(price, max(accuracy.budget, A_SECOND)))
    )
