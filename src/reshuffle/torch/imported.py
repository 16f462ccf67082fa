"""torch itself, when it is needed, and what to do if it is not there."""

import warnings
from functools import cache
from importlib import import_module
from typing import Any


def torch_itself() -> Any:
    """The module torch.

    >>> torch_itself().__name__
    'torch'
    """
    try:
        return import_module("torch")
    except ImportError as error:
        raise ImportError("reshuffle.torch needs torch: pip install torch.") from error


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
