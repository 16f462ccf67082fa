"""Models and loaders of torch: devices, models that always give the same outputs, and all samples of a loader."""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import AnyArray, FloatArray
from reshuffle._progress import track
from reshuffle.errors import BudgetError, UnsupportedError

_MOST = 10_000_000
"""Samples of a loader without a length, at most."""


def torch_itself() -> Any:
    """The module torch."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise ImportError("reshuffle.torch needs torch: pip install 'reshuffle[torch]'.") from error


def kind(value: Any) -> str:
    """The name of the class of a value."""
    return type(value).__name__


def device_of(model: Any, device: Any = None) -> Any:
    """The device, if this machine has it; by default that of the parameters."""
    torch = torch_itself()
    if device is None:
        return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    try:
        where = torch.device(device)
        torch.empty(0, device=where)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device must be one that this machine has, but {device!r} is not: {reason}"
        ) from None
    return where


def moved(inputs: Any, where: Any) -> Any:
    """Inputs on a device, if they are a tensor."""
    return inputs.to(where) if isinstance(inputs, torch_itself().Tensor) else inputs


def require_deterministic(module: Any) -> None:
    """Refuse what is no module, and layers whose outputs are random or change from call to call."""
    torch = torch_itself()
    if not isinstance(module, torch.nn.Module):
        raise TypeError(
            f"the network must be a torch.nn.Module, but it is a {kind(module)}; torch.nn.Identity() is the "
            "backbone of features that are computed already."
        )
    changing = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._BatchNorm)
    for name, layer in module.named_modules():
        if isinstance(layer, changing) and layer.training:
            raise UnsupportedError(
                f"the model must always give the same answer, but its layer {name or 'itself'!r}, {kind(layer)}, "
                "is in training mode; call .eval() on the model first."
            )


def checked_outputs(made: Any, model: str) -> Any:
    """Return the output of a model if it is a tensor of float32 or float64."""
    torch = torch_itself()
    if not isinstance(made, torch.Tensor):
        raise UnsupportedError(
            f"the {model} must return a tensor, but it returns a {kind(made)}; "
            "wrap it in a module that takes the one needed."
        )
    require_precision(f"what the {model} returns", made, model)
    return made


def share_of_hits(outputs: Callable[[float], FloatArray], labels: AnyArray, epochs: FloatArray) -> FloatArray:
    """Shares of rows whose largest output is that of their label, one epoch at a time: all outputs are many."""
    shares = [(outputs(epoch).argmax(axis=1) == labels).mean() for epoch in epochs.ravel().tolist()]
    return np.reshape(shares, epochs.shape)


def require_precision(what: str, value: Any, model: str) -> None:
    """Refuse tensors of other kinds than float32 and float64."""
    if value.dtype not in (torch_itself().float32, torch_itself().float64):
        raise UnsupportedError(
            f"{what} must be float32 or float64, but it is {value.dtype}, which is too coarse to answer from; "
            f"call .float() on the {model}."
        )


def collected(loader: Any, rows_of: Callable[[Any], Any]) -> tuple[list[Any], AnyArray]:
    """Values of a function on each batch of inputs, and the targets of all samples, in the order of the data.

    Every sample is taken once, whatever the order of the loader and what it drops. It may be any finite iterable of
    pairs (inputs, targets); those that are empty, end early or do not end are refused.

    >>> torch = torch_itself()
    >>> data = torch.utils.data.TensorDataset(torch.arange(5.0), torch.arange(5.0))
    >>> loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True, drop_last=True)
    >>> collected(loader, list)[1].tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    batches = _in_order(loader)
    data = getattr(batches, "dataset", None)
    expected = len(data) if data is not None and hasattr(data, "__len__") else None
    found: list[Any] = []
    targets: list[AnyArray] = []
    seen = 0
    for batch in track(batches, None, "reading samples"):
        if not (isinstance(batch, (list, tuple)) and len(batch) == 2):
            length = f" of {len(batch)}" if isinstance(batch, (list, tuple)) else ""
            raise UnsupportedError(
                f"loader must give pairs (inputs, targets), but a batch is a {kind(batch)}{length}."
            )
        targets.append(np.asarray(torch_itself().as_tensor(batch[1]).detach().cpu()))
        found.append(rows_of(batch[0]))
        rows, count = len(found[-1]), len(targets[-1])
        if rows != count:
            raise ValueError(
                f"there must be one row per sample, but a batch has {rows} rows and {count} targets."
            )
        seen += count
        if expected is None and seen > _MOST:
            raise BudgetError(
                f"loader must end, but it gave more than {_MOST} samples and does not tell its length; give a "
                "list of its batches, or a dataset of known length."
            )
        if expected is not None and seen > expected:
            break
    if expected is not None and seen != expected:
        raise ValueError(
            f"loader must give as many samples as it says, {expected}, but it gave "
            f"{'more' if seen > expected else seen}; its length must not change."
        )
    if not found:
        raise ValueError("loader must give at least one batch, but it is empty.")
    return found, np.concatenate(targets)


def _in_order(loader: Any) -> Any:
    """Batches in the order of the data."""
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


def all_inputs(loader: Any, where: Any) -> tuple[Any, AnyArray]:
    """The inputs (n, ...) of all samples on a device, and their targets, in the order of the data."""
    torch = torch_itself()

    def on_device(inputs: Any) -> Any:
        if not isinstance(inputs, torch.Tensor):
            raise UnsupportedError(f"inputs must be a tensor, but they are a {kind(inputs)}.")
        return inputs.to(where)

    found, targets = collected(loader, on_device)
    return torch.cat(found), targets


def responses(targets: AnyArray, outputs: int) -> tuple[FloatArray, int | None]:
    """Responses (n, t) of t outputs, and the number of classes, None for targets that are numbers.

    >>> responses(np.array([1, 0]), 2)
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
    return one_hot(targets, outputs), outputs


def one_hot(labels: AnyArray, classes: int | None) -> FloatArray:
    """Responses (n, classes) of whole numbers (n,): 1 for the sample's own class and 0 for the others."""
    if labels.ndim != 1:
        raise ValueError(
            "targets must be one class per sample, or real numbers, but they are whole numbers of shape "
            f"{labels.shape}."
        )
    smallest, largest = int(labels.min()), max(int(labels.max()), 0)
    count = largest + 1 if classes is None else classes
    if smallest < 0 or largest >= count:
        wrong = smallest if smallest < 0 else largest
        raise ValueError(
            f"targets must be classes from 0 to {count - 1}, but one is {wrong}; every class has its own output."
        )
    return np.eye(count)[labels]
