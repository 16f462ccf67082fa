"""Subsets of the batches, as bit masks, layer by layer, and how many of them there is room for."""

import math
import os
from collections.abc import Iterator
from itertools import combinations
from math import comb

from reshuffle.errors import BudgetError

MOST_BATCHES = 20
"""Beyond, 2^B averages take longer than anyone waits."""


def layer(members: list[int], size: int) -> Iterator[int]:
    """All subsets with `size` of the members.

    >>> [bin(subset) for subset in layer([0, 1, 2], 2)]
    ['0b11', '0b101', '0b110']
    """
    for chosen in combinations(members, size):
        yield sum(1 << batch for batch in chosen)


def elements(subset: int) -> list[int]:
    """The batches of a subset, in increasing order.

    >>> elements(0b101)
    [0, 2]
    """
    return [batch for batch in range(subset.bit_length()) if subset >> batch & 1]


def prefix_weights(batches: int) -> list[float]:
    """The chance that a given set of j other batches is what comes before batch b, for j = 0 .. B-1.

    All positions of b are equally likely, and so are all sets of that many others: 1 / (B binom(B-1, j)).

    >>> prefix_weights(3)
    [0.3333333333333333, 0.16666666666666666, 0.3333333333333333]
    """
    return [1 / (batches * comb(batches - 1, size)) for size in range(batches)]


def fits_in_memory(batches: int, state_bytes: float) -> bool:
    """Whether a walk up the lattice of so many batches, with states of this size, can be done at all."""
    if batches > MOST_BATCHES:
        return False
    # Two neighbouring layers at a time, none of them larger than the middle one.
    return 2 * math.comb(batches, batches // 2) * state_bytes <= available_bytes()


def require_few(batches: int) -> None:
    """Refuse a lattice that has no end."""
    if batches > MOST_BATCHES:
        raise BudgetError(
            f"batches is {batches}, but the exact mean over their orders takes 2^batches averages and is computed "
            f'for at most {MOST_BATCHES}; try fewer batches, or descend(..., method="auto").'
        )


def available_bytes() -> float:
    """Memory that may be used."""
    if not hasattr(os, "sysconf"):
        return math.inf
    return 0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
