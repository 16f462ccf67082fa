"""Subsets of the batches, as bit masks, layer by layer."""

from collections.abc import Iterator
from itertools import combinations
from math import comb


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
