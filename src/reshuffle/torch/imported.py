"""torch itself, when it is needed, and what to do if it is not there."""

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
