"""Where a model computes, and how it gets there and back."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reshuffle.torch.imported import torch_itself


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
