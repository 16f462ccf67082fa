"""What a loss of torch makes of the gradient of a batch: a factor."""

from typing import Any

from reshuffle.errors import UnsupportedError
from reshuffle.torch.imported import kind, torch_itself


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
