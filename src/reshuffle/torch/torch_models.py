"""torch itself, when it is needed, and its models: where they compute, and whether they always answer alike."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

from reshuffle.errors import UnsupportedError


def torch_itself() -> Any:
    """The module torch.

    >>> torch_itself().__name__
    'torch'
    """
    try:
        return import_module("torch")
    except ImportError as error:
        raise ImportError("reshuffle.torch needs torch: pip install 'reshuffle[torch]'.") from error


def kind(value: Any) -> str:
    """How torch's users call what a value is an instance of.

    >>> kind(torch_itself().nn.MSELoss())
    'MSELoss'
    """
    return type(value).__name__


@cache
def forward_derivative() -> Any:
    """torch.func.jvp, once used: when it is first, torch compiles parts of itself, and warns of how it does."""
    torch = torch_itself()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.func.jvp(torch.sin, (torch.zeros(1),), (torch.zeros(1),))
    return torch.func.jvp


def device_of(model: Any, asked: Any = None) -> Any:
    """The device that was asked for, if this machine has it; by default where the parameters are.

    >>> torch = torch_itself()
    >>> device_of(torch.nn.Linear(1, 1))
    device(type='cpu')
    >>> device_of(torch.nn.Linear(1, 1), "abacus")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: device must be one that this machine has, but 'abacus' is not: ...
    """
    torch = torch_itself()
    if asked is None:
        return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    try:
        where = torch.device(asked)
        torch.empty(0, device=where)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device must be one that this machine has, but {asked!r} is not: {reason}"
        ) from None
    return where


@contextmanager
def placed(model: Any, where: Any) -> Iterator[None]:
    """The model on a device, and back where it was afterwards."""
    home = next((parameter.device for parameter in model.parameters()), where)
    model.to(where)
    try:
        yield
    finally:
        model.to(home)


def moved(inputs: Any, where: Any) -> Any:
    """Inputs on a device, if they are a tensor."""
    return inputs.to(where) if isinstance(inputs, torch_itself().Tensor) else inputs


def require_settled(module: Any) -> None:
    """Refuse what is no module, and layers that answer differently every time, or learn from being asked."""
    torch = torch_itself()
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"a torch.nn.Module must be given, but it is a {kind(module)}.")
    unsettled = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._BatchNorm)
    for name, layer in module.named_modules():
        if isinstance(layer, unsettled) and layer.training:
            raise UnsupportedError(
                f"the model must always give the same answer, but its layer {name or 'itself'!r}, {kind(layer)}, "
                "is in training mode; call .eval() on the model first."
            )
