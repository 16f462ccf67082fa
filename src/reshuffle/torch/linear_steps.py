"""Gradients of networks that are linear in the change of their weights, of several runs at once."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.torch.layer_signals import LayerSignals, layer_signals
from reshuffle.torch.tangents import Tangents
from reshuffle.torch.torch_models import torch_itself

_SAMPLES = 1 << 12
"""Samples times runs whose outputs are computed at a time."""

Change = dict[str, Any]
"""How the weights of several runs are changed, (runs, ...) by name."""


class LinearSteps(Protocol):
    """What steps of gradient descent need to know of a network."""

    side_by_side: bool
    """Whether several threads may ask."""

    def still(self, runs: int) -> Change:
        """No change, of several runs."""

    def gradients(self, change: Change, samples: IntArray, missing: FloatArray, divisor: float) -> Change:
        """J'(J d - r) / divisor of each run, for samples (runs, m) and r their rows of missing (n, t)."""

    def sight(self, inputs: Any) -> Any:
        """What is known of some inputs once and for all runs: asked for by one thread."""

    def said(self, change: Change, sight: Any) -> FloatArray:
        """J d at the inputs of a sight, (runs, m, t)."""


def linear_steps(tangents: Tangents, inputs: Any) -> LinearSteps:
    """Of linear layers by what goes through them, of other networks by derivatives."""
    signals = layer_signals(tangents, inputs)
    if signals is None:
        return DerivativeSteps(tangents, inputs)
    return LayerSteps(tangents, inputs, signals)


class LayerSteps:
    """Of networks whose weights are those of linear layers: what goes in and comes back is computed once.

    The change D (in, out) of the weights of a layer adds d_io'D'a_i to output o of sample i.
    """

    side_by_side = True

    def __init__(self, tangents: Tangents, inputs: Any, signals: list[LayerSignals]):
        self._tangents, self._inputs, self._signals = tangents, inputs, _by_sample(tangents, signals, inputs)

    def still(self, runs: int) -> Change:
        """As in `LinearSteps`."""
        return {
            str(place): np.zeros((runs, entered.shape[1], returned.shape[2]), dtype=entered.dtype)
            for place, (entered, returned) in enumerate(self._signals)
        }

    def gradients(self, change: Change, samples: IntArray, missing: FloatArray, divisor: float) -> Change:
        """As in `LinearSteps`."""
        signals = [(entered[samples], returned[samples]) for entered, returned in self._signals]
        missed = (_added(change, signals) - missing[samples]) / divisor
        missed = missed.astype(signals[0][0].dtype, copy=False)[..., np.newaxis, :]
        return {
            str(place): entered.swapaxes(-1, -2) @ (missed @ returned)[..., 0, :]
            for place, (entered, returned) in enumerate(signals)
        }

    def sight(self, inputs: Any) -> list[tuple[FloatArray, FloatArray]]:
        """As in `LinearSteps`: layers are listened to, which threads would do in each other's calls."""
        if inputs is self._inputs:
            return self._signals
        signals = layer_signals(self._tangents, inputs)
        assert signals is not None
        return _by_sample(self._tangents, signals, inputs)

    def said(self, change: Change, sight: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
        """As in `LinearSteps`."""
        parts = [
            _added(change, [(entered[part], returned[part]) for entered, returned in sight])
            for part in _parts(len(sight[0][0]), change)
        ]
        return np.concatenate(parts, axis=1).astype(np.float64)


def _by_sample(
    tangents: Tangents, signals: list[LayerSignals], inputs: Any
) -> list[tuple[FloatArray, FloatArray]]:
    """What entered (n, in) and returned (n, t, out) in every layer, as exact as the weights are."""
    kind = np.dtype(tangents.precision)
    return [
        (
            layer.entered.astype(kind),
            layer.returned.reshape(len(inputs), -1, layer.returned.shape[1]).astype(kind),
        )
        for layer in signals
    ]


def _added(change: Change, signals: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """J d (runs, m, t), for signals (..., m, in) and (..., m, t, out)."""
    with np.errstate(over="ignore", invalid="ignore"):
        made = (
            returned @ (entered @ change[str(place)])[..., np.newaxis]
            for place, (entered, returned) in enumerate(signals)
        )
        return np.asarray(sum(part[..., 0] for part in made))


class DerivativeSteps:
    """Of any network: a derivative forth and one back through it, of torch's."""

    # The level of a derivative forth is a variable that all threads share.
    side_by_side = False

    def __init__(self, tangents: Tangents, inputs: Any):
        torch = torch_itself()
        self._tangents, self._inputs = tangents, inputs
        self._gradients = torch.func.vmap(self._gradient)
        self._said = torch.func.vmap(tangents.forth, in_dims=(0, None))

    def still(self, runs: int) -> Change:
        """As in `LinearSteps`."""
        return self._tangents.still(runs)

    def gradients(self, change: Change, samples: IntArray, missing: FloatArray, divisor: float) -> Change:
        """As in `LinearSteps`."""
        kind = next(iter(change.values()))
        chosen = torch_itself().as_tensor(samples, device=kind.device)
        wanted = torch_itself().as_tensor(missing[samples], dtype=kind.dtype, device=kind.device)
        found = self._gradients(change, self._inputs[chosen], wanted)
        return {name: slope / divisor for name, slope in found.items()}

    def _gradient(self, change: Change, inputs: Any, missing: Any) -> Change:
        return self._tangents.back(self._tangents.forth(change, inputs) - missing, inputs)

    def sight(self, inputs: Any) -> Any:
        """As in `LinearSteps`: the inputs themselves."""
        return inputs

    def said(self, change: Change, sight: Any) -> FloatArray:
        """As in `LinearSteps`."""
        parts = [
            np.asarray(self._said(change, sight[part]).cpu(), dtype=np.float64)
            for part in _parts(len(sight), change)
        ]
        return np.concatenate(parts, axis=1)


def _parts(samples: int, change: Change) -> Iterator[slice]:
    """Of samples, some at a time."""
    runs = len(next(iter(change.values())))
    height = max(1, _SAMPLES // runs)
    return (slice(first, first + height) for first in range(0, samples, height))
