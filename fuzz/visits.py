"""Every equally likely sequence of visits in an epoch, from the definitions of the schemes alone.

A run chooses one of several *timelines* at its start; an epoch of it is a list of independent *stages*; a stage
is a list of equally likely *alternatives*; an alternative is a list of visits (rows, divisor).
"""

from itertools import combinations, permutations, product
from typing import Any, TypeAlias

from fuzz.case import Scheme

Visit: TypeAlias = tuple[tuple[int, ...], tuple[int, int]]
"""Rows, and what the sum of their gradients is divided by, as a ratio of whole numbers."""
Stage: TypeAlias = list[list[Visit]]
Timeline: TypeAlias = list[Stage]


def timelines(scheme: Scheme, n: int) -> list[Timeline]:
    """All timelines of a scheme on n rows."""
    arguments = scheme.arguments
    if scheme.name == "FullBatch":
        return [[[[(tuple(range(n)), (n, 1))]]]]
    if scheme.name == "SampleReshuffling":
        return [[_shuffled_samples(n, arguments)]]
    if scheme.name == "SampleWithReplacement":
        return [[_drawn_rows(n, size) for size in sizes(n, arguments)]]
    if scheme.name == "SampleSubsets":
        return [[_drawn_subsets(n, size) for size in sizes(n, arguments)]]
    batches = partition(n, arguments)
    if scheme.name == "RandomReshuffling":
        return [[[list(order) for order in permutations(batches)]]]
    if scheme.name == "WithReplacement":
        return [[[[batch] for batch in batches] for _ in batches]]
    if arguments.get("order") is not None:
        return [[[[batches[number] for number in arguments["order"]]]]]
    if scheme.name == "Cyclic":
        return [[[batches]]]
    return [[[list(order)]] for order in permutations(batches)]


def count(scheme: Scheme, n: int) -> int:
    """How many visits an epoch has."""
    timeline = timelines(scheme, n)[0]
    return sum(len(stage[0]) for stage in timeline)


def sizes(n: int, arguments: dict[str, Any]) -> list[int]:
    """How many rows each batch has."""
    batches, size = arguments.get("batches"), arguments.get("batch_size")
    if isinstance(batches, list):
        return [len(batch) for batch in batches]
    if size is None:
        assert isinstance(batches, int)
        return [n // batches + (number < n % batches) for number in range(batches)]
    whole, rest = divmod(n, size)
    return [size] * whole + ([rest] if rest and not arguments.get("drop_last") else [])


def _divisors(n: int, arguments: dict[str, Any]) -> list[tuple[int, int]]:
    each = sizes(n, arguments)
    if arguments.get("normalize") == "equal":
        return [(sum(each), len(each))] * len(each)
    return [(size, 1) for size in each]


def partition(n: int, arguments: dict[str, Any]) -> list[Visit]:
    """The fixed batches."""
    batches, divisors = arguments.get("batches"), _divisors(n, arguments)
    if isinstance(batches, list):
        return [(tuple(rows), divisor) for rows, divisor in zip(batches, divisors, strict=True)]
    made, first = [], 0
    for size, divisor in zip(sizes(n, arguments), divisors, strict=True):
        made.append((tuple(range(first, first + size)), divisor))
        first += size
    return made


def _shuffled_samples(n: int, arguments: dict[str, Any]) -> Stage:
    """Every way of cutting a permutation of the samples into batches."""
    each, divisors = sizes(n, arguments), _divisors(n, arguments)

    def cuts(left: tuple[int, ...], number: int) -> list[list[Visit]]:
        if number == len(each):
            return [[]]
        return [
            [(rows, divisors[number]), *rest]
            for rows in combinations(left, each[number])
            for rest in cuts(tuple(row for row in left if row not in rows), number + 1)
        ]

    return cuts(tuple(range(n)), 0)


def _drawn_rows(n: int, size: int) -> Stage:
    return [[(rows, (size, 1))] for rows in product(range(n), repeat=size)]


def _drawn_subsets(n: int, size: int) -> Stage:
    return [[(rows, (size, 1))] for rows in combinations(range(n), size)]
