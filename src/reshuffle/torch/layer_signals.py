"""The tangent kernel of networks whose weights are those of linear layers, without their gradients.

The gradient of an output o at sample i in the weights of a linear layer is an outer product d_io a_i' of what comes
back to the layer and what went into it. So the kernel is a sum over layers of (a_i'a_j + 1) (d_io'd_jo'), where the
one is the bias: products of the width of a layer, not of its number of weights.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.torch.tangents import Tangents, checked_outputs
from reshuffle.torch.torch_models import torch_itself

_LOOKED_AT = 2
"""Samples whose gradients are compared with what layers tell."""


@dataclass(frozen=True, eq=False)
class LayerSignals:
    """What goes through one linear layer.

    Attributes
    ----------
    entered : (n, in + 1)
        a, with a last column of one if the layer has a bias that is trained.
    returned : (n t, out)
        d, the gradients of all outputs in what the layer makes.
    """

    entered: FloatArray
    returned: FloatArray

    def between(self, other: "LayerSignals") -> FloatArray:
        """The part of this layer in the kernel between two sets of samples, (n t, m t)."""
        met = self.returned @ other.returned.T
        samples, others = len(self.entered), len(other.entered)
        blocks = met.reshape(samples, len(met) // samples, others, -1)
        blocks *= (self.entered @ other.entered.T)[:, np.newaxis, :, np.newaxis]
        return met


def layer_signals(tangents: Tangents, inputs: Any) -> list[LayerSignals] | None:
    """The signals of all layers, for inputs of any number; None if the network is not made of linear layers alone.

    >>> torch = torch_itself()
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)).double()
    >>> inputs, tangents = torch.tensor([[0.5, 1.0], [2.0, -1.0]], dtype=torch.float64), Tangents(model)
    >>> kernel = sum(layer.between(layer) for layer in layer_signals(tangents, inputs))
    >>> bool(np.allclose(kernel, tangents.rows(inputs) @ tangents.rows(inputs).T))
    True
    """
    layers = _linear_layers(tangents.model)
    if layers is None:
        return None
    found = _signals(tangents.model, layers, inputs)
    if found is None:
        return None
    # A layer's weights may also be used in ways that its own calls do not tell of.
    few = tangents.rows(inputs[:_LOOKED_AT])
    told = sum(layer.between(layer) for layer in _signals(tangents.model, layers, inputs[:_LOOKED_AT]) or [])
    slack = 1e-4 if next(iter(layers)).weight.dtype == torch_itself().float32 else 1e-9
    return found if np.allclose(told, few @ few.T, rtol=slack, atol=slack * np.square(few).sum()) else None


def _linear_layers(model: Any) -> list[Any] | None:
    """The linear layers, if all trained parameters are theirs, and each belongs to one."""
    torch = torch_itself()
    layers = [layer for layer in model.modules() if type(layer) is torch.nn.Linear]
    layers = [layer for layer in layers if any(own.requires_grad for own in layer.parameters())]
    owned = [id(own) for layer in layers for own in layer.parameters() if own.requires_grad]
    trained = {id(value) for value in model.parameters() if value.requires_grad}
    return layers if len(owned) == len(set(owned)) and set(owned) == trained else None


def _signals(model: Any, layers: list[Any], inputs: Any) -> list[LayerSignals] | None:
    torch = torch_itself()
    with torch.enable_grad(), _heard(layers) as calls:
        made = checked_outputs(model(inputs), len(inputs))
        if any(len(heard) != 1 or heard[0][0].ndim != 2 for heard in calls):
            return None
        made_of = [heard[0][1] for heard in calls]
        returned = [
            torch.autograd.grad(made[:, output].sum(), made_of, retain_graph=True)
            for output in range(made.shape[1])
        ]
    return [
        LayerSignals(_entered(layer, heard[0][0]), _stacked([of_output[place] for of_output in returned]))
        for place, (layer, heard) in enumerate(zip(layers, calls, strict=True))
    ]


def _entered(layer: Any, inputs: Any) -> FloatArray:
    features = np.asarray(inputs.detach().cpu(), dtype=np.float64)
    if not layer.weight.requires_grad:
        features = features[:, :0]
    if layer.bias is not None and layer.bias.requires_grad:
        features = np.column_stack([features, np.ones(len(features))])
    return features


def _stacked(of_outputs: list[Any]) -> FloatArray:
    """(t) gradients (n, out) as rows (n t, out)."""
    signals = np.stack([np.asarray(each.cpu(), dtype=np.float64) for each in of_outputs], axis=1)
    return np.ascontiguousarray(signals.reshape(-1, signals.shape[2]))


@contextmanager
def _heard(layers: list[Any]) -> Iterator[list[list[tuple[Any, Any]]]]:
    """What each layer is called with, and what it makes of that, while this lasts."""
    calls: list[list[tuple[Any, Any]]] = [[] for _ in layers]

    def hear(place: int) -> Any:
        return layers[place].register_forward_hook(
            lambda layer, inputs, made: calls[place].append((inputs[0], made))
        )

    hooks = [hear(place) for place in range(len(layers))]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()
