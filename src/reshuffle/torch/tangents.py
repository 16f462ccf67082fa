"""Gradients of a network in its weights as they are: tangent features, tangent kernels and their problem.

The gradient of an output o at sample i in the weights of a linear layer is an outer product d_io a_i' of what comes
back to the layer and what went into it. So the kernel of networks of linear layers is a sum over layers of
(a_i'a_j + 1) (d_io'd_jo'), where the one is the bias: products as long as a layer is wide, not as it has weights.
"""

import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._progress import track
from reshuffle.errors import UnsupportedError
from reshuffle.problem import LeastSquares
from reshuffle.problem.kernel import KernelFeatures
from reshuffle.torch.samples import checked_outputs, require_precision, torch_itself

_BYTES = 1 << 28
"""Bytes of gradients in memory at a time."""
_COMPARED = 2
"""Samples whose gradients are compared with the signals of layers."""


class Tangents:
    """Derivatives J of a network in its weights, the parameters that require gradients, as they are.

    >>> torch = torch_itself()
    >>> model = torch.nn.Linear(2, 1).double()
    >>> Tangents(model).rows(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    array([[3., 4., 1.]])
    """

    def __init__(self, model: Any):
        self.model = model
        named = dict(model.named_parameters())
        self._weights = {name: value.detach() for name, value in named.items() if value.requires_grad}
        self._fixed = {name: value.detach() for name, value in named.items() if not value.requires_grad}
        self._fixed |= dict(model.named_buffers())
        if not self._weights:
            raise UnsupportedError(
                "the model must have parameters that require gradients, which are what training changes, but it "
                "has none; call .requires_grad_() on those that are trained."
            )
        for name, value in self._weights.items():
            require_precision(f"the model's parameter {name!r}", value, "model")

    @property
    def count(self) -> int:
        """The number of weights."""
        return sum(value.numel() for value in self._weights.values())

    @property
    def precision(self) -> str:
        """The precision of the weights, "float32" or "float64"."""
        return str(next(iter(self._weights.values())).dtype).removeprefix("torch.")

    def outputs(self, inputs: Any) -> FloatArray:
        """f(x; w) of a batch, (m, t)."""
        with torch_itself().no_grad():
            made = self.model(inputs)
        return np.asarray(_rows_of_outputs(made, len(inputs)).cpu(), dtype=np.float64)

    def rows(self, inputs: Any) -> FloatArray:
        """J of a batch (m t, weights), in float64: the outputs of a sample are neighbours."""
        torch = torch_itself()

        def outputs(weights: Any, sample: Any) -> Any:
            return self._of_weights(sample.unsqueeze(0))(weights).reshape(-1)

        every = torch.func.vmap(torch.func.jacrev(outputs), in_dims=(None, 0))(self._weights, inputs)
        flat = [part.reshape(*part.shape[:2], -1) for part in every.values()]
        return np.asarray(torch.cat(flat, dim=2).flatten(0, 1).cpu(), dtype=np.float64)

    def all_rows(self, inputs: Any, outputs: int) -> FloatArray:
        """J of all inputs (m t, weights), some samples at a time."""
        return np.concatenate([self.rows(inputs[part]) for part in self.blocks(len(inputs), outputs)])

    def zeros(self, runs: int) -> dict[str, Any]:
        """A change of zero of the weights of several runs, (runs, ...) by name."""
        torch = torch_itself()
        return {
            name: torch.zeros((runs, *value.shape), dtype=value.dtype, device=value.device)
            for name, value in self._weights.items()
        }

    def jvp(self, change: dict[str, Any], inputs: Any) -> Any:
        """J d of a batch (m, t), for a change of the weights by name."""
        return _forward_derivative()(self._of_weights(inputs), (self._weights,), (change,))[1]

    def vjp(self, signals: Any, inputs: Any) -> dict[str, Any]:
        """J'r of a batch by name, for signals r (m, t)."""
        _, transposed = torch_itself().func.vjp(self._of_weights(inputs), self._weights)
        (found,) = transposed(signals)
        return dict(found)

    def _of_weights(self, inputs: Any) -> Any:
        def outputs(weights: Any) -> Any:
            made = torch_itself().func.functional_call(self.model, {**self._fixed, **weights}, (inputs,))
            return _rows_of_outputs(made, len(inputs))

        return outputs

    def blocks(self, samples: int, outputs: int) -> list[slice]:
        """Slices of the samples whose gradients are computed at a time."""
        height = max(1, _BYTES // (8 * self.count * outputs))
        return [slice(start, min(start + height, samples)) for start in range(0, samples, height)]


@cache
def _forward_derivative() -> Any:
    """torch.func.jvp, once used: when it is first, torch compiles parts of itself, and warns of how it does."""
    torch = torch_itself()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.func.jvp(torch.sin, (torch.zeros(1),), (torch.zeros(1),))
    return torch.func.jvp


def _rows_of_outputs(made: Any, samples: int) -> Any:
    """The outputs of a batch as (m, t)."""
    made = checked_outputs(made, "model")
    if made.ndim not in (1, 2) or len(made) != samples:
        raise ValueError(
            f"the model must return outputs of shape ({samples}, t), a row per sample, but their shape is "
            f"{tuple(made.shape)}; add torch.nn.Flatten() or a pooling."
        )
    return made.reshape(samples, -1)


class LayerSignals(NamedTuple):
    """Inputs `entered` (n, in) of a linear layer, one last for a bias, and gradients `returned` (n, t, out).

    The gradients are those of all outputs of the network in what the layer makes.
    """

    entered: FloatArray
    returned: FloatArray

    def astype(self, precision: str) -> "LayerSignals":
        """A copy in another precision."""
        return LayerSignals(self.entered.astype(precision), self.returned.astype(precision))

    def between(self, other: "LayerSignals") -> FloatArray:
        """The part of this layer in the kernel between two sets of samples, (n t, m t)."""
        mine, theirs = (one.returned.reshape(-1, one.returned.shape[2]) for one in (self, other))
        met = mine @ theirs.T
        blocks = met.reshape(*self.returned.shape[:2], *other.returned.shape[:2])
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
    torch, model = torch_itself(), tangents.model
    layers = [layer for layer in model.modules() if type(layer) is torch.nn.Linear]
    layers = [layer for layer in layers if any(own.requires_grad for own in layer.parameters())]
    owned = [id(own) for layer in layers for own in layer.parameters() if own.requires_grad]
    trained = {id(value) for value in model.parameters() if value.requires_grad}
    if len(owned) != len(set(owned)) or set(owned) != trained:
        return None
    found = _signals(model, layers, inputs)
    if found is None:
        return None
    # A layer's weights may also be used otherwise than by calling it.
    few, some = tangents.rows(inputs[:_COMPARED]), _signals(model, layers, inputs[:_COMPARED]) or []
    by_layers = sum(layer.between(layer) for layer in some)
    slack = 1e-4 if layers[0].weight.dtype == torch.float32 else 1e-9
    agree = np.allclose(by_layers, few @ few.T, rtol=slack, atol=slack * np.square(few).sum())
    return found if agree else None


def _signals(model: Any, layers: list[Any], inputs: Any) -> list[LayerSignals] | None:
    """The signals of linear layers that are each called once; None if one is called otherwise."""
    torch = torch_itself()
    calls: list[list[tuple[Any, Any]]] = [[] for _ in layers]

    def record(calls: list[tuple[Any, Any]]) -> Any:
        return lambda layer, inputs, made: calls.append((inputs[0], made))

    hooks = [layer.register_forward_hook(record(own)) for layer, own in zip(layers, calls, strict=True)]
    with torch.enable_grad():
        try:
            made = _rows_of_outputs(model(inputs), len(inputs))
        finally:
            for hook in hooks:
                hook.remove()
        if any(len(recorded) != 1 or recorded[0][0].ndim != 2 for recorded in calls):
            return None
        made_of = [recorded[0][1] for recorded in calls]
        returned = [
            torch.autograd.grad(made[:, output].sum(), made_of, retain_graph=True)
            for output in range(made.shape[1])
        ]
    found = []
    for layer, recorded, *gradients in zip(layers, calls, *returned, strict=True):
        entered = np.asarray(recorded[0][0].detach().cpu(), dtype=np.float64)
        if not layer.weight.requires_grad:
            entered = entered[:, :0]
        if layer.bias is not None and layer.bias.requires_grad:
            entered = np.column_stack([entered, np.ones(len(entered))])
        each = [np.asarray(gradient.cpu(), dtype=np.float64) for gradient in gradients]
        found.append(LayerSignals(entered, np.stack(each, axis=1)))
    return found


class TangentProblem(LeastSquares):
    """Learn y - f(x) by a change of the weights: a row per sample and output, those of a sample together.

    The outputs of a network share its parameters, so that X is (n t, p) for y (n, t): row t i + o is the gradient
    of output o at sample i.

    >>> import numpy as np
    >>> TangentProblem(np.ones((4, 3)), np.zeros((2, 2)))
    LeastSquares(n=4, p=3, truth unknown)
    """

    outputs_per_sample: int

    def __init__(self, X: FloatArray | KernelFeatures, y: FloatArray):
        super().__init__(X.rows if isinstance(X, KernelFeatures) else X, y.ravel())
        self.outputs_per_sample = y.shape[1]
        if isinstance(X, KernelFeatures):
            self.reduction = X.reduction(self.compressed.y)


def tangent_kernel(tangents: Tangents, inputs: Any, outputs: int, others: Any = None) -> FloatArray:
    """K = J(x) J(x')', (n t, m t), between inputs and others, or among themselves.

    >>> import torch
    >>> model = torch.nn.Linear(1, 1, dtype=torch.float64)
    >>> tangent_kernel(Tangents(model), torch.tensor([[0.0], [2.0]], dtype=torch.float64), 1).tolist()
    [[1.0, 1.0], [1.0, 5.0]]
    """
    signals = layer_signals(tangents, inputs)
    seen = signals if others is None or signals is None else layer_signals(tangents, others)
    if signals is not None and seen is not None:
        kernel = signals[0].between(seen[0])
        for layer, other in zip(signals[1:], seen[1:], strict=True):
            kernel += layer.between(other)
        return kernel
    # From gradients, of two blocks of samples at a time.
    against, is_own = (inputs, True) if others is None else (others, False)
    kernel = np.empty((outputs * len(inputs), outputs * len(against)))
    for down in track(tangents.blocks(len(inputs), 2 * outputs), None, "computing the tangent kernel"):
        rows = tangents.rows(inputs[down])
        place = slice(outputs * down.start, outputs * down.stop)
        for across in tangents.blocks(len(against), 2 * outputs):
            if is_own and across.start < down.start:
                continue
            there = slice(outputs * across.start, outputs * across.stop)
            columns = rows if is_own and across == down else tangents.rows(against[across])
            kernel[place, there] = rows @ columns.T
            if is_own:
                kernel[there, place] = kernel[place, there].T
    return kernel
