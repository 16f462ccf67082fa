"""How the mean of an epoch that is not symmetric is taken: by a walk, the cavity equation, or from drawn orders."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from reshuffle.epoch.accuracy import A_SECOND, CALL, Accuracy, require_affordable
from reshuffle.epoch.cavity.visiting import are_alike
from reshuffle.epoch.choice.ways import NO_SOLUTION, WITHOUT_SOLUTION, Choice, Way, too_far, too_much
from reshuffle.epoch.walks import Walk, cuts_orders, fits_in_memory, require_few
from reshuffle.errors import UnsupportedError
from reshuffle.problem.batches import Blocks
from reshuffle.recipe import Recipe
from reshuffle.schemes.base import Scheme, Shuffle, Unit

_CALLS = 6
"""Calls with small matrices that a visit takes."""


def walk_flops(walk: Walk, blocks: Blocks, dimension: int, inputs: int | None = None) -> float:
    """Operations of one epoch's walk over all orders, calls included; infinite if its memory is out of reach.

    `dimension` is that of the state; `inputs` are those beside it, by default one per row of the blocks and one
    more.
    """
    rows, rank = blocks.rows.shape
    columns = dimension + (1 + rows if inputs is None else inputs)
    if climbs(walk.scheme) and not fits_in_memory(blocks.batches, 8.0 * dimension * columns):
        return float("inf")
    visited = rows / blocks.batches
    each = 4.0 * min(visited, rank) * rank * columns + 6.0 * dimension * columns + _CALLS * CALL
    return float(walk.visits * each)


def climbs(scheme: Scheme) -> bool:
    """Whether a walk goes up the lattice of subsets of the batches."""
    return (scheme.shuffle, scheme.unit) == (Shuffle.EVERY_EPOCH, Unit.BATCH)


def affine_choice(
    walk: Walk,
    recipe: Recipe,
    blocks: Blocks,
    dimension: int,
    accuracy: Accuracy,
    missed: Callable[[], float],
    grows: Callable[[], bool],
) -> Choice:
    """How the mean of an epoch that is not symmetric is taken.

    By the walk over all orders, the cavity equation or draws. `missed` solves that equation, and tells by how much
    it may miss the paces of the modes; nan if it has no solution. `grows` tells whether its map does, of which less
    is asked.
    """
    question, method = "the mean over orders", accuracy.method
    known = affine_methods(walk, recipe)
    price = walk_flops(walk, blocks, dimension) if walk.exists else np.nan
    if len(known) == 1:
        (name,) = known
        return Choice(question, (Way(name, price),))
    if method == "exact":
        require_few(walk.steps)
        require_affordable(
            price, accuracy.budget, f"the exact mean over the orders of {walk.steps} batches",
            'try fewer batches, a larger budget, or method="auto"',
        )  # fmt: skip
    # What takes a second or less is exact whatever the budget.
    of_exact = (
        too_much(price, max(accuracy.budget, A_SECOND)) if walk.exists else "no walk is known over its orders"
    )
    if method in ("cavity", "sampling"):
        of_exact = f"method is {method!r}"
    ways = [Way("exact", price, of_exact)]
    if "cavity" in known:
        ways.append(Way("cavity", np.nan, _of_affine_cavity(ways, accuracy, missed, grows)))
    unneeded = next((f"the {way.name} mean is affordable" for way in ways if not way.against), "")
    return Choice(question, (*ways, Way("sampling", np.nan, unneeded)))


def _of_affine_cavity(
    ways: list[Way], accuracy: Accuracy, missed: Callable[[], float], grows: Callable[[], bool]
) -> str:
    """What speaks against the cavity equation, beside other ways."""
    if accuracy.method == "sampling":
        return f"method is {accuracy.method!r}"
    if not ways[0].against:
        return "the exact mean is affordable"
    share = missed()
    if np.isnan(share) and accuracy.method == "cavity":
        raise UnsupportedError(NO_SOLUTION)
    if np.isnan(share):
        return WITHOUT_SOLUTION
    if accuracy.method == "cavity":
        return ""
    return too_far(share, (accuracy.of_what_grows if share > accuracy.rtol and grows() else accuracy).rtol)


def asked_of_draws(chosen: Choice, accuracy: Accuracy, grows: Callable[[], bool]) -> Accuracy:
    """What is asked of drawn orders: less if the cavity equation, where it was tried, says that they grow."""
    tried = accuracy.method == "auto" and any(way.name == "cavity" for way in chosen.ways)
    return accuracy.of_what_grows if tried and grows() else accuracy


def affine_methods(walk: Walk, recipe: Recipe) -> list[str]:
    """The methods there are where an epoch is not symmetric.

    There is a cavity equation of shuffled samples where all visits of an epoch but the last are alike, and what
    they do beside their samples keeps the modes apart.
    """
    scheme, n = walk.scheme, walk.n
    followed = scheme.shuffle is Shuffle.ONCE and not scheme.samples_courses(n)
    draws = scheme.shuffle is Shuffle.EVERY_EPOCH or scheme.samples_courses(n)
    shuffles = cuts_orders(scheme)
    cavity = shuffles and recipe.is_even and are_alike(scheme.sizes(n) / scheme.step_divisors(n))
    return ["exact"] * (walk.exists or followed) + ["cavity"] * cavity + ["sampling"] * draws


def require_stages(scheme: Scheme) -> None:
    """Refuse stages that have no mean map of an epoch.

    >>> import reshuffle as rs
    >>> require_stages(rs.Stages([(5, rs.ShuffleOnce(2)), (None, rs.FullBatch())]))
    Traceback (most recent call last):
    ...
    reshuffle.errors.UnsupportedError: descend has no answer for stages that draw one order and keep it, \
such as ShuffleOnce(batches=2); try RandomReshuffling or Cyclic in its place, or simulate(...).
    """
    for _, stage in scheme.stages:
        if stage is not scheme and stage.shuffle is Shuffle.ONCE:
            raise UnsupportedError(
                f"descend has no answer for stages that draw one order and keep it, such as {stage!r}; "
                "try RandomReshuffling or Cyclic in its place, or simulate(...)."
            )


def require_known(scheme: Scheme, recipe: Recipe, n: int, method: str) -> None:
    """Refuse a method that the scheme has not got where epochs are not symmetric.

    >>> import reshuffle as rs
    >>> require_known(rs.Cyclic(2), Recipe(0.1), 10, "series")
    Traceback (most recent call last):
    ...
    ValueError: method must be "auto" or "exact" for Cyclic(batches=2) with this recipe, but it is 'series'.
    """
    known = ["auto", *affine_methods(Walk(scheme.equivalent(n), n), recipe)]
    if method not in known:
        words = [f'"{word}"' for word in known]
        raise ValueError(
            f"method must be {', '.join(words[:-1])} or {words[-1]} for {scheme} with this recipe, "
            f"but it is {method!r}."
        )


def for_every_visit(accuracy: Accuracy) -> Accuracy:
    """What is asked of a symmetric run, where it is followed visit by visit: there is no series, and no waiting."""
    return accuracy if accuracy.method in ("cavity", "sampling") else replace(accuracy, method="auto")
