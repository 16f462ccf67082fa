"""What plain SGD on a squared loss is made with, read off the optimizer and the loss."""

from dataclasses import dataclass
from typing import Any

from reshuffle.errors import UnsupportedError
from reshuffle.torch.torch_models import kind, torch_itself

_READ = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize")
"""What decides where SGD goes; the rest of a group's settings say how it is computed."""


@dataclass(frozen=True)
class Descent:
    """What torch.optim.SGD was made with.

    Attributes
    ----------
    learning_rate : float
        As it is now; a scheduler may have changed it from the one it began with.
    """

    learning_rate: float
    momentum: float
    nesterov: bool
    weight_decay: float


def descent(optimizer: Any) -> Descent:
    """Read the settings of torch.optim.SGD, the same for all of its parameters.

    >>> torch = torch_itself()
    >>> descent(torch.optim.SGD([torch.zeros(3)], lr=0.1, momentum=0.9))
    Descent(learning_rate=0.1, momentum=0.9, nesterov=False, weight_decay=0.0)
    >>> descent(torch.optim.Adam([torch.zeros(3)]))
    Traceback (most recent call last):
    ...
    reshuffle.errors.UnsupportedError: the optimizer must be torch.optim.SGD, whose steps are linear in the
    gradient, but it is Adam, whose steps are not; train it, or ask about SGD.
    """
    torch = torch_itself()
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer must be a torch.optim.Optimizer, but it is a {kind(optimizer)}.")
    # A class that inherits from SGD may do anything else in its steps.
    if type(optimizer) is not torch.optim.SGD:
        raise UnsupportedError(
            "the optimizer must be torch.optim.SGD, whose steps are linear in the gradient, but it is "
            f"{kind(optimizer)}, whose steps are not; train it, or ask about SGD."
        )
    found = {name: _common(optimizer.param_groups, name) for name in _READ}
    if found["maximize"]:
        raise UnsupportedError("the optimizer must minimise, but it was made with maximize=True.")
    if found["momentum"] and found["dampening"]:
        # torch damps every gradient but the first one, which no constant recipe does.
        raise UnsupportedError(
            f"dampening must be 0 with momentum, but it is {found['dampening']:g}: torch does not damp the first "
            "gradient, and no constant recipe equals that; nearly the same is dampening=0 with a learning rate of "
            f"{found['lr'] * (1 - found['dampening']):g}."
        )
    return Descent(
        float(found["lr"]), float(found["momentum"]), bool(found["nesterov"]), float(found["weight_decay"])
    )


def _common(groups: list[dict[str, Any]], name: str) -> Any:
    values = [_number(group[name]) for group in groups]
    if len(set(values)) > 1:
        raise UnsupportedError(
            f"all parameter groups of the optimizer must have the same {name}, but they have "
            f"{', '.join(map(str, values))}; one recipe describes parameters that are treated alike."
        )
    return values[0]


def _number(value: Any) -> Any:
    """A learning rate may be a tensor of one entry."""
    return value.item() if callable(getattr(value, "item", None)) else value


def averages(loss: Any) -> bool:
    """Whether a squared loss is a mean over rows and outputs (True) or a sum (False); None is nn.MSELoss().

    >>> averages(torch_itself().nn.MSELoss(reduction="sum"))
    False
    >>> averages(torch_itself().nn.CrossEntropyLoss())
    Traceback (most recent call last):
    ...
    reshuffle.errors.UnsupportedError: loss must be squared, torch.nn.MSELoss or torch.nn.functional.mse_loss, but
    it is CrossEntropyLoss: what is answered here is exact for squared loss alone.
    """
    torch = torch_itself()
    if loss is None or loss is torch.nn.functional.mse_loss:
        return True
    if type(loss) is not torch.nn.MSELoss:
        name = loss if isinstance(loss, str) else getattr(loss, "__name__", kind(loss))
        raise UnsupportedError(
            "loss must be squared, torch.nn.MSELoss or torch.nn.functional.mse_loss, but it is "
            f"{name}: what is answered here is exact for squared loss alone."
        )
    if loss.reduction not in ("mean", "sum"):
        raise UnsupportedError(
            f'the reduction of the loss must be "mean" or "sum", one number, but it is {loss.reduction!r}.'
        )
    return bool(loss.reduction == "mean")
