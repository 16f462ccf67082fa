"""How the mean of an epoch that is not symmetric is taken: by the walk over all orders, or from drawn orders."""

from reshuffle.epoch.accuracy import A_SECOND, CALL, Accuracy, require_affordable
from reshuffle.epoch.lattice.exact import fits_in_memory, require_few
from reshuffle.problem.blocks import Blocks
from reshuffle.schemes import RandomReshuffling, SampleReshuffling, Scheme, ShuffleOnce

_CALLS = 6
"""Calls with small matrices that a visit takes."""


def require_known(scheme: Scheme, n: int, method: str) -> None:
    """Refuse a method that the scheme has not got where epochs are not symmetric.

    >>> import reshuffle as rs
    >>> require_known(rs.Cyclic(2), 10, "series")
    Traceback (most recent call last):
    ...
    ValueError: method must be "auto" or "exact" for Cyclic(batches=2) with this recipe, but it is 'series'.
    """
    known = ["auto", *_methods(scheme.equivalent(n), n)]
    if method not in known:
        words = [f'"{word}"' for word in known]
        raise ValueError(
            f"method must be {', '.join(words[:-1])} or {words[-1]} for {scheme} with this recipe, "
            f"but it is {method!r}."
        )


def _methods(scheme: Scheme, n: int) -> list[str]:
    if isinstance(scheme, RandomReshuffling):
        return ["exact", "sampling"]
    if isinstance(scheme, SampleReshuffling) and scheme.is_enumerable(n):
        return ["exact", "sampling"]
    if isinstance(scheme, SampleReshuffling) or (isinstance(scheme, ShuffleOnce) and scheme.is_sampled(n)):
        return ["sampling"]
    return ["exact"]


def chosen(scheme: Scheme, n: int, blocks: Blocks, dimension: int, wanted: Accuracy) -> str:
    """Return "exact" or "sampling"."""
    known = _methods(scheme, n)
    if len(known) > 1 and wanted.method == "exact":
        require_few(scheme.steps(n))
        require_affordable(
            walk_flops(scheme, n, blocks, dimension), wanted.budget,
            f"the exact mean over the orders of {scheme.steps(n)} batches",
            'try fewer batches, a larger budget, or method="auto"',
        )  # fmt: skip
    if wanted.method in known:
        return wanted.method
    if len(known) == 1:
        return known[0]
    price = walk_flops(scheme, n, blocks, dimension)
    return "exact" if price <= max(wanted.budget, A_SECOND) else "sampling"


def walk_flops(scheme: Scheme, n: int, blocks: Blocks, dimension: int, inputs: int | None = None) -> float:
    """Operations of one epoch's walk over all orders, calls included; infinite if its memory is out of reach.

    `dimension` is that of the state; `inputs` are those beside it, by default one a row of the blocks and one more.
    """
    rows, rank = blocks.rows.shape
    columns = dimension + (1 + rows if inputs is None else inputs)
    if isinstance(scheme, RandomReshuffling) and not fits_in_memory(
        blocks.batches, 8.0 * dimension * columns
    ):
        return float("inf")
    visited = rows / blocks.batches
    each = 4.0 * min(visited, rank) * rank * columns + 6.0 * dimension * columns + _CALLS * CALL
    return float(scheme.walked(n) * each)
