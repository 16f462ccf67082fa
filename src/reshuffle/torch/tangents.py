"""The gradients of a network's outputs in its weights, as they are now."""

from typing import Any

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.errors import UnsupportedError
from reshuffle.torch.torch_models import forward_derivative, kind, require_settled, torch_itself

_BYTES = 1 << 28
"""Of gradients that are held at a time."""


class Tangents:
    """The tangent features of a network at its present weights: f(x; w + d) = f(x; w) + J(x) d + ...

    Parameters
    ----------
    model : torch.nn.Module
        Makes (m, t), or (m,) for a single output, of a batch. Its weights are the parameters that
        require gradients.

    >>> torch = torch_itself()
    >>> model = torch.nn.Linear(2, 1).double()
    >>> Tangents(model).rows(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    array([[3., 4., 1.]])
    """

    def __init__(self, model: Any):
        require_settled(model)
        self.model = model
        named = dict(model.named_parameters())
        self._weights = {name: value.detach() for name, value in named.items() if value.requires_grad}
        fixed = {name: value.detach() for name, value in named.items() if not value.requires_grad}
        self._fixed = {**fixed, **dict(model.named_buffers())}
        if not self._weights:
            raise UnsupportedError(
                "the model must have parameters that require gradients, which are what training changes, but it "
                "has none; call .requires_grad_() on those that are trained."
            )
        for name, value in self._weights.items():
            _require_precision(f"the model's parameter {name!r}", value)

    @property
    def count(self) -> int:
        """How many weights there are."""
        return sum(value.numel() for value in self._weights.values())

    @property
    def precision(self) -> str:
        """That of the weights: "float32" or "float64"."""
        return str(next(iter(self._weights.values())).dtype).removeprefix("torch.")

    def outputs(self, inputs: Any) -> FloatArray:
        """f(x; w) of a batch, (m, t)."""
        with torch_itself().no_grad():
            made = self.model(inputs)
        return np.asarray(checked_outputs(made, len(inputs)).cpu(), dtype=np.float64)

    def rows(self, inputs: Any) -> FloatArray:
        """J of a batch (m t, weights), in float64: the outputs of a sample are neighbours."""
        return np.asarray(self.gradients(inputs).cpu(), dtype=np.float64)

    def gradients(self, inputs: Any) -> Any:
        """The same as a tensor, in the precision and on the device of the weights."""
        torch = torch_itself()

        def outputs(weights: Any, sample: Any) -> Any:
            made = torch.func.functional_call(self.model, {**self._fixed, **weights}, (sample.unsqueeze(0),))
            return checked_outputs(made, 1).reshape(-1)

        every = torch.func.vmap(torch.func.jacrev(outputs), in_dims=(None, 0))(self._weights, inputs)
        flat = [part.reshape(*part.shape[:2], -1) for part in every.values()]
        return torch.cat(flat, dim=2).flatten(0, 1)

    def still(self, runs: int) -> dict[str, Any]:
        """No change of the weights, for each of several runs: (runs, ...) by name."""
        torch = torch_itself()
        return {
            name: torch.zeros((runs, *value.shape), dtype=value.dtype, device=value.device)
            for name, value in self._weights.items()
        }

    def forth(self, change: dict[str, Any], inputs: Any) -> Any:
        """J d of a batch (m, t), for a change of the weights by name."""
        return forward_derivative()(self._of_weights(inputs), (self._weights,), (change,))[1]

    def back(self, signals: Any, inputs: Any) -> dict[str, Any]:
        """J'r of a batch by name, for signals r (m, t)."""
        _, pull = torch_itself().func.vjp(self._of_weights(inputs), self._weights)
        (found,) = pull(signals)
        return dict(found)

    def _of_weights(self, inputs: Any) -> Any:
        def outputs(weights: Any) -> Any:
            made = torch_itself().func.functional_call(self.model, {**self._fixed, **weights}, (inputs,))
            return checked_outputs(made, len(inputs))

        return outputs

    def height(self, outputs: int) -> int:
        """How many samples' gradients are computed at a time."""
        return max(1, _BYTES // (8 * self.count * outputs))


def checked_outputs(made: Any, samples: int) -> Any:
    """Return what a model made of a batch as (m, t), if it is that."""
    torch = torch_itself()
    if not isinstance(made, torch.Tensor):
        raise UnsupportedError(
            f"the model must return a tensor, but it returns a {kind(made)}; "
            "wrap it in a module that takes the one needed."
        )
    _require_precision("what the model returns", made)
    if made.ndim not in (1, 2) or len(made) != samples:
        raise ValueError(
            f"the model must return outputs of shape ({samples}, t), a row per sample, but their shape is "
            f"{tuple(made.shape)}; add torch.nn.Flatten() or a pooling."
        )
    return made.reshape(samples, -1)


def _require_precision(what: str, value: Any) -> None:
    torch = torch_itself()
    if value.dtype not in (torch.float32, torch.float64):
        raise UnsupportedError(
            f"{what} must be float32 or float64, but it is {value.dtype}, which is too coarse to answer from; "
            "call .float() on the model."
        )
