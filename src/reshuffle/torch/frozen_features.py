"""What a frozen backbone makes of the samples of a loader: features, a row per sample."""

from typing import Any

import numpy as np

from reshuffle._core import AnyArray, FloatArray
from reshuffle._core.progress import track
from reshuffle.errors import UnsupportedError
from reshuffle.torch.devices import device_of, moved, placed
from reshuffle.torch.every_sample import pairs, require_counted, samples
from reshuffle.torch.imported import kind, torch_itself


def features(backbone: Any, loader: Any, device: Any = None) -> tuple[FloatArray, AnyArray]:
    """The features (n, d), in float64, and the targets of all samples, one batch in memory at a time.

    Parameters
    ----------
    backbone : torch.nn.Module
        Makes (m, d) of a batch; in evaluation mode wherever that matters.
    loader : torch.utils.data.DataLoader
    device : optional
        Where it computes; by default where the parameters of the backbone are.

    >>> torch = torch_itself()
    >>> loader = [(torch.eye(2), torch.tensor([0, 1]))]
    >>> features(torch.nn.Identity(), loader)[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    torch = torch_itself()
    require_settled(backbone)
    where = device_of(backbone, device)
    found: list[FloatArray] = []
    targets: list[AnyArray] = []
    expected, seen = samples(loader), 0
    with torch.inference_mode(), placed(backbone, where):
        for inputs, answers in track(pairs(loader), None, "computing features"):
            found.append(_rows(backbone(moved(inputs, where))))
            targets.append(np.asarray(torch.as_tensor(answers).cpu()))
            if len(found[-1]) != len(targets[-1]):
                raise ValueError(
                    f"backbone must make one row per sample, but it made {len(found[-1])} of {len(targets[-1])}."
                )
            seen += len(found[-1])
            require_counted(seen, expected, is_end=False)
    require_counted(seen, expected, is_end=True)
    if not found:
        raise ValueError("loader must give at least one batch, but it is empty.")
    return np.concatenate(found), np.concatenate(targets)


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


def _rows(made: Any) -> FloatArray:
    torch = torch_itself()
    if not isinstance(made, torch.Tensor):
        raise UnsupportedError(
            f"backbone must return a tensor, but it returns a {kind(made)}; "
            "wrap it in a module that takes the one needed."
        )
    if made.ndim != 2:
        raise ValueError(
            f"backbone must return features of shape (samples, d), but their shape is {tuple(made.shape)}; add "
            "torch.nn.Flatten() or a pooling."
        )
    if made.dtype not in (torch.float32, torch.float64):
        raise UnsupportedError(
            f"features must be float32 or float64, but they are {made.dtype}, which is too coarse to answer from; "
            "call .float() on the backbone."
        )
    return np.asarray(made.cpu(), dtype=np.float64)
