"""All samples of a loader, once, in the order of its data: batch by batch, or collected."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import AnyArray, FloatArray
from reshuffle.errors import BudgetError, UnsupportedError
from reshuffle.torch.torch_models import kind, moved, torch_itself

_MOST = 10_000_000
"""Samples of a loader that does not tell its length."""


def pairs(loader: Any) -> Iterator[tuple[Any, AnyArray]]:
    """Batches of (inputs, targets) that hold every sample of a loader once, whatever its order and what it drops.

    Loaders that are empty, end early, go on for too long or do not end are refused.

    Parameters
    ----------
    loader : torch.utils.data.DataLoader, or any finite iterable of pairs

    >>> torch = torch_itself()
    >>> data = torch.utils.data.TensorDataset(torch.arange(5.0), torch.arange(5.0))
    >>> loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True, drop_last=True)
    >>> [targets.tolist() for inputs, targets in pairs(loader)]
    [[0.0, 1.0], [2.0, 3.0], [4.0]]
    """
    batches = _in_order(loader)
    expected, seen, is_empty = _length(batches), 0, True
    for batch in batches:
        if not (isinstance(batch, (list, tuple)) and len(batch) == 2):
            length = f" of {len(batch)}" if isinstance(batch, (list, tuple)) else ""
            raise UnsupportedError(
                f"loader must give pairs (inputs, targets), but a batch is a {kind(batch)}{length}."
            )
        targets = np.asarray(torch_itself().as_tensor(batch[1]).detach().cpu())
        yield batch[0], targets
        seen, is_empty = seen + len(targets), False
        _require_counted(seen, expected, is_end=False)
    _require_counted(seen, expected, is_end=True)
    if is_empty:
        raise ValueError("loader must give at least one batch, but it is empty.")


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


def _length(batches: Any) -> int | None:
    """How many samples there are, if that is told."""
    data = getattr(batches, "dataset", None)
    return len(data) if data is not None and hasattr(data, "__len__") else None


def _require_counted(seen: int, expected: int | None, *, is_end: bool) -> None:
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


def collected(loader: Any, where: Any) -> tuple[Any, AnyArray]:
    """The inputs (n, ...) of all samples on a device, and their targets, in the order of the data.

    >>> torch = torch_itself()
    >>> inputs, targets = collected([(torch.zeros(2, 3), torch.ones(2)), (torch.zeros(1, 3), torch.ones(1))], "cpu")
    >>> tuple(inputs.shape), targets.shape
    ((3, 3), (3,))
    """
    torch = torch_itself()
    inputs: list[Any] = []
    targets: list[AnyArray] = []
    for given, answers in pairs(loader):
        if not isinstance(given, torch.Tensor):
            raise UnsupportedError(f"inputs must be a tensor, but they are a {kind(given)}.")
        if len(given) != len(answers):
            raise ValueError(
                f"there must be a target for every input, but there are {len(given)} inputs and "
                f"{len(answers)} targets."
            )
        inputs.append(moved(given, where))
        targets.append(answers)
    return torch.cat(inputs), np.concatenate(targets)


def learned_numbers(targets: AnyArray, outputs: int) -> tuple[FloatArray, int | None]:
    """What t outputs are to learn (n, t): the targets themselves, or 1 for the sample's own class and 0 for others.

    Beside it, how many classes there are, None for targets that are numbers.

    >>> learned_numbers(np.array([1, 0]), 2)
    (array([[0., 1.],
           [1., 0.]]), 2)
    """
    if targets.dtype.kind not in "iu":
        numbers = _arrays.real_array("targets", targets).reshape(len(targets), -1)
        if numbers.shape[1] != outputs:
            raise ValueError(
                f"the model must have as many outputs as a target has numbers, {numbers.shape[1]}, but it has "
                f"{outputs}."
            )
        return numbers, None
    if targets.ndim != 1 or targets.min() < 0 or targets.max() >= outputs:
        wrong = f"their shape is {targets.shape}"
        if targets.ndim == 1:
            wrong = f"one is {targets.max() if targets.min() >= 0 else targets.min()}"
        raise ValueError(
            f"targets that are whole numbers must be classes from 0 to {outputs - 1}, one per sample, as the model "
            f"has {outputs} outputs, but {wrong}."
        )
    return np.eye(outputs)[targets], outputs
