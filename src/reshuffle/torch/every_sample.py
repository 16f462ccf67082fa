"""All samples of a loader, once, in the order of its data."""

from collections.abc import Iterable, Iterator
from typing import Any

from reshuffle.errors import BudgetError, UnsupportedError
from reshuffle.torch.imported import kind, torch_itself

_MOST = 10_000_000
"""Samples of a loader that does not tell its length."""


def pairs(loader: Any) -> Iterator[tuple[Any, Any]]:
    """Batches of (inputs, targets) that hold every sample of a loader once, whatever its order and what it drops.

    Parameters
    ----------
    loader : torch.utils.data.DataLoader, or any finite iterable of pairs

    >>> torch = torch_itself()
    >>> data = torch.utils.data.TensorDataset(torch.arange(5.0), torch.arange(5.0))
    >>> loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True, drop_last=True)
    >>> [targets.tolist() for inputs, targets in pairs(loader)]
    [[0.0, 1.0], [2.0, 3.0], [4.0]]
    """
    for batch in _in_order(loader):
        if not (isinstance(batch, (list, tuple)) and len(batch) == 2):
            length = f" of {len(batch)}" if isinstance(batch, (list, tuple)) else ""
            raise UnsupportedError(
                f"loader must give pairs (inputs, targets), but a batch is a {kind(batch)}{length}."
            )
        yield batch[0], batch[1]


def samples(loader: Any) -> int | None:
    """How many samples there are, if the loader can tell.

    >>> samples([1, 2, 3]) is None
    True
    """
    data = getattr(_in_order(loader), "dataset", None)
    return len(data) if data is not None and hasattr(data, "__len__") else None


def require_counted(seen: int, expected: int | None, *, is_end: bool) -> None:
    """Refuse loaders that end early, go on for too long, or do not end."""
    if expected is None:
        if seen > _MOST:
            raise BudgetError(
                f"loader must end, but it gave more than {_MOST} samples and does not tell its length; give a "
                "list of its batches, or a dataset of known length."
            )
    elif seen > expected or (is_end and seen < expected):
        raise ValueError(
            f"loader must give as many samples as it says, {expected}, but it gave {seen if is_end else 'more'}; "
            "its length must not change."
        )


def _in_order(loader: Any) -> Any:
    utils = torch_itself().utils.data
    if not isinstance(loader, utils.DataLoader):
        if not isinstance(loader, Iterable):
            raise TypeError(f"loader must be a torch.utils.data.DataLoader, but it is a {kind(loader)}.")
        return loader
    if isinstance(loader.dataset, utils.IterableDataset) or loader.batch_sampler is None:
        return loader
    cutter, data = loader.batch_sampler, loader.dataset
    if type(getattr(cutter, "sampler", None)) is utils.SubsetRandomSampler:
        data = utils.Subset(data, sorted(cutter.sampler.indices))
    # A list of batches has no batch_size; any will do, since nothing is trained here.
    size = getattr(cutter, "batch_size", 64)
    return utils.DataLoader(data, batch_size=size, collate_fn=loader.collate_fn)
