"""The inputs and targets of a loader, all of them."""

from typing import Any

import numpy as np

from reshuffle._core import AnyArray, FloatArray, checks
from reshuffle.errors import UnsupportedError
from reshuffle.torch.devices import moved
from reshuffle.torch.every_sample import pairs, require_counted, samples
from reshuffle.torch.imported import kind, torch_itself


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
    expected, seen = samples(loader), 0
    for given, answers in pairs(loader):
        if not isinstance(given, torch.Tensor):
            raise UnsupportedError(f"inputs must be a tensor, but they are a {kind(given)}.")
        inputs.append(moved(given, where))
        targets.append(np.asarray(torch.as_tensor(answers).detach().cpu()))
        if len(given) != len(targets[-1]):
            raise ValueError(
                f"there must be a target for every input, but there are {len(given)} inputs and "
                f"{len(targets[-1])} targets."
            )
        seen += len(given)
        require_counted(seen, expected, is_end=False)
    require_counted(seen, expected, is_end=True)
    if not inputs:
        raise ValueError("loader must give at least one batch, but it is empty.")
    return torch.cat(inputs), np.concatenate(targets)


def learned_numbers(targets: AnyArray, outputs: int) -> tuple[FloatArray, int | None]:
    """What t outputs are to learn (n, t): the targets themselves, or 1 for the sample's own class and 0 for others.

    Beside it, how many classes there are, None for targets that are numbers.

    >>> learned_numbers(np.array([1, 0]), 2)
    (array([[0., 1.],
           [1., 0.]]), 2)
    """
    if targets.dtype.kind not in "iu":
        numbers = checks.real_array("targets", targets).reshape(len(targets), -1)
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
