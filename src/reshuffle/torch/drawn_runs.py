"""Single runs of a network that is linear in its weights, where it is too large to be decomposed.

A network of t outputs and n samples has a tangent kernel of n t rows, whose eigenvectors take (n t)^3 operations. A
visit needs no kernel: J d and J'r of a batch are a derivative forward and one backward through the network. So runs
along drawn orders are followed, several side by side, at about the price of training as many networks. Their mean
is known up to its standard error, and their spread is that over seeds.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays, _uncertainty
from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import each
from reshuffle._progress import track
from reshuffle._uncertainty import ErrorKind
from reshuffle.epoch.select import Choice
from reshuffle.recipe import Recipe
from reshuffle.schemes import Scheme
from reshuffle.schemes.base import Visit
from reshuffle.torch.samples import torch_itself
from reshuffle.torch.tangents import LayerSignals, Tangents, layer_signals
from reshuffle.torch.training_loop import TrainingLoop

_TOGETHER = 4
"""Runs that make their steps together, whatever the number of threads: they draw from a generator of their own."""
_WORK = 1000.0
"""The side of a square matrix of as much work as some epochs of these, about."""
_SAMPLES = 1 << 12
"""Samples times runs whose outputs are computed at a time."""

Change = dict[str, Any]
"""Changes of the weights of several runs, (runs, ...) by name."""


class LinearSteps:
    """Gradients of several runs of a network that is linear in its weights, by derivatives of torch."""

    # The level of a forward derivative is a variable that all threads share.
    allows_threads = False

    def __init__(self, tangents: Tangents, inputs: Any):
        self._tangents, self._inputs = tangents, inputs

    def zeros(self, runs: int) -> Change:
        """A change of zero, of several runs."""
        return self._tangents.zeros(runs)

    def gradients(self, change: Change, samples: IntArray, missing: FloatArray, divisor: float) -> Change:
        """J'(J d - r) / divisor of each run, for samples (runs, m) and r their rows of missing (n, t)."""
        torch, like = torch_itself(), next(iter(change.values()))
        chosen = torch.as_tensor(samples, device=like.device)
        wanted = torch.as_tensor(missing[samples], dtype=like.dtype, device=like.device)

        def gradient(change: Change, inputs: Any, wanted: Any) -> Change:
            return self._tangents.vjp(self._tangents.jvp(change, inputs) - wanted, inputs)

        found = torch.func.vmap(gradient)(change, self._inputs[chosen], wanted)
        return {name: value / divisor for name, value in found.items()}

    def prepared(self, inputs: Any) -> Any:
        """The argument of `outputs` for some inputs: computed once for all runs, by one thread."""
        return inputs

    def outputs(self, change: Change, prepared: Any) -> FloatArray:
        """J d at prepared inputs, (runs, m, t)."""
        height = max(1, _SAMPLES // len(next(iter(change.values()))))
        parts = (slice(first, first + height) for first in range(0, self._count(prepared), height))
        return np.concatenate([self._added(change, prepared, part) for part in parts], axis=1)

    def _count(self, prepared: Any) -> int:
        return len(prepared)

    def _added(self, change: Change, prepared: Any, part: slice) -> FloatArray:
        jvp = torch_itself().func.vmap(self._tangents.jvp, in_dims=(0, None))
        return np.asarray(jvp(change, prepared[part]).cpu(), dtype=np.float64)


class LayerSteps(LinearSteps):
    """Gradients of networks of linear layers, whose signals are computed once: three times quicker.

    The change D (in, out) of the weights of a layer adds d_io'D'a_i to output o of sample i.
    """

    allows_threads = True

    def __init__(self, tangents: Tangents, inputs: Any, signals: list[LayerSignals]):
        super().__init__(tangents, inputs)
        self._signals = [layer.astype(tangents.precision) for layer in signals]

    def zeros(self, runs: int) -> Change:
        """A change of zero, (runs, in, out) by the number of the layer."""
        return {
            str(place): np.zeros((runs, entered.shape[1], returned.shape[2]), dtype=entered.dtype)
            for place, (entered, returned) in enumerate(self._signals)
        }

    def gradients(self, change: Change, samples: IntArray, missing: FloatArray, divisor: float) -> Change:
        """J'(J d - r) / divisor of each run, an outer product per sample and layer."""
        missed = (self._added(change, self._signals, samples) - missing[samples]) / divisor
        missed = missed.astype(self._tangents.precision)[..., np.newaxis, :]
        return {
            str(place): entered[samples].swapaxes(-1, -2) @ (missed @ returned[samples])[..., 0, :]
            for place, (entered, returned) in enumerate(self._signals)
        }

    def prepared(self, inputs: Any) -> list[LayerSignals]:
        """The signals of all layers, which are recorded by hooks that threads would share."""
        if inputs is self._inputs:
            return self._signals
        signals = layer_signals(self._tangents, inputs)
        assert signals is not None
        return [layer.astype(self._tangents.precision) for layer in signals]

    def _count(self, prepared: Any) -> int:
        return len(prepared[0].entered)

    def _added(self, change: Change, prepared: Any, part: slice | IntArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            made = (
                returned[part] @ (entered[part] @ change[str(place)])[..., np.newaxis]
                for place, (entered, returned) in enumerate(prepared)
            )
            return np.asarray(sum(one[..., 0] for one in made), dtype=np.float64)


def linear_steps(tangents: Tangents, inputs: Any) -> LinearSteps:
    """Steps by the signals of layers, if the network is made of linear layers; by derivatives otherwise."""
    signals = layer_signals(tangents, inputs)
    return LinearSteps(tangents, inputs) if signals is None else LayerSteps(tangents, inputs, signals)


class LinearRuns:
    """The weights of several runs of a network that is linear in them, as torch's SGD trains them.

    The recipe is that of outputs that share their parameters; `missing` (n, t) are targets less the outputs of the
    network before training.
    """

    def __init__(self, steps: LinearSteps, recipe: Recipe, missing: FloatArray, runs: int):
        self._steps, self._recipe, self._missing, self._runs = steps, recipe, missing, runs
        self._changes, self._buffers = steps.zeros(runs), steps.zeros(runs)

    def train(self, epoch: int, visits: Iterable[Visit]) -> None:
        """Make the steps of an epoch."""
        used, done = self._recipe.at(epoch), np.zeros(self._runs, dtype=np.int64)
        momentum, nesterov = used.momentum, used.nesterov
        for visit in visits:
            step = used.step_of(int(done[visit.runs[0]]))
            done[visit.runs] += 1
            samples = np.array(np.broadcast_to(visit.rows, (len(visit.runs), np.shape(visit.rows)[-1])))
            chosen = slice(None) if len(visit.runs) == self._runs else visit.runs
            change = {name: value[chosen] for name, value in self._changes.items()}
            divisor = visit.divisor * self._missing.shape[1]
            with np.errstate(over="ignore", invalid="ignore"):
                gradients = self._steps.gradients(change, samples, self._missing, divisor)
                for name, taken in gradients.items():
                    if momentum:
                        buffer = momentum * self._buffers[name][chosen] + taken
                        self._buffers[name][chosen] = buffer
                        taken = taken + momentum * buffer if nesterov else buffer
                    self._changes[name][chosen] -= step * taken

    def outputs(self, prepared: Any) -> FloatArray:
        """Changes of the outputs at prepared inputs since the start, (runs, m, t)."""
        return self._steps.outputs(self._changes, prepared)


@dataclass(frozen=True, eq=False, repr=False)
class DrawnRuns:
    """Runs of a lazy network along drawn orders, of which the mean is answered, with its error.

    It has the methods of a `Run` that concern finitely many epochs: the training loss of the mean,
    predictions and their spread over seeds.

    Attributes
    ----------
    loop : TrainingLoop
    runs : int
    seed : int
    choice : Choice
        Why orders are drawn.
    missing : (n, t)
        Targets less the outputs of the network before training.
    """

    loop: TrainingLoop
    runs: int
    seed: int
    choice: Choice
    missing: FloatArray
    _steps: LinearSteps
    _inputs: Any
    _known: dict[int, FloatArray] = field(default_factory=dict, init=False)
    # Changes of the outputs at the samples (runs, n, t), by epoch.

    method = "sampling"

    def __repr__(self) -> str:
        return f"DrawnRuns({self.scheme}, {self.recipe}, runs={self.runs})"

    @property
    def scheme(self) -> Scheme:
        """The scheme of the rows, those of a sample together."""
        return self.loop.sharing().scheme

    @property
    def recipe(self) -> Recipe:
        """The recipe of the rows."""
        return self.loop.sharing().recipe

    @property
    def error_kind(self) -> ErrorKind:
        """The meaning of errors."""
        return _uncertainty.ERROR_KINDS[self.method]

    def moved(self, inputs: Any, epochs: ArrayLike) -> FloatArray:
        """Changes of the outputs of each run since the start, (runs, epochs, m, t), at samples or other inputs.

        Parameters
        ----------
        inputs : tensor (m, ...) or None
            None for the samples that it is trained with.
        epochs : whole number or array of them, of any shape
            In the result they have the shape (E,).
        """
        requested = _arrays.epochs(epochs).ravel()
        if not np.isfinite(requested).all():
            raise ValueError(
                f"epochs must be whole numbers where orders are drawn, but it is {epochs!r}; "
                'descend(loop, method="cavity") decomposes the network, which takes longer and answers for any.'
            )
        when: list[int] = requested.astype(np.int64).tolist()
        known = self._known if inputs is None else {}
        if unknown := sorted({*when} - known.keys()):
            # From the start, along the same orders as before.
            known |= self._followed(unknown, self._inputs if inputs is None else inputs)
        return np.stack([known[epoch] for epoch in when], axis=1)

    def predict(self, inputs: Any, epochs: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The mean change of the outputs, its error, and the standard deviation over seeds.

        All of shape epochs.shape + (m, t).

        Parameters
        ----------
        inputs, epochs
            As in `moved`.
        """
        shape, found = _arrays.epochs(epochs).shape, self.moved(inputs, epochs)
        with np.errstate(over="ignore", invalid="ignore"):
            answers = found.mean(axis=0), _uncertainty.error_of_mean(found), found.std(axis=0, ddof=1)
        mean, error, std = (
            np.where(np.isnan(answer), np.inf, answer).reshape(*shape, *found.shape[2:]) for answer in answers
        )
        return mean, error, std

    def training_loss(self, epochs: ArrayLike) -> FloatArray:
        """|y - f|^2 / (2 n t) at the mean f of the runs, of the shape of epochs."""
        return self._loss_and_error(epochs)[0]

    def training_loss_error(self, epochs: ArrayLike) -> FloatArray:
        """The error of the training loss, of the shape of epochs."""
        return self._loss_and_error(epochs)[1]

    def _loss_and_error(self, epochs: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Loss by the jackknife: the mean of few runs has part of their spread, which makes its loss too large."""
        found, shape = self.moved(None, epochs), _arrays.epochs(epochs).shape

        def loss_of(moved: FloatArray) -> FloatArray:
            return np.asarray(np.square(moved - self.missing).mean(axis=(1, 2)) / 2)

        with np.errstate(over="ignore", invalid="ignore"):
            total = found.sum(axis=0)
            plain = loss_of(total / self.runs)
            without = np.array([loss_of((total - one) / (self.runs - 1)) for one in found])
            loss = self.runs * plain - (self.runs - 1) * without.mean(axis=0)
        error = _uncertainty.jackknife(plain, without)
        return np.where(np.isfinite(loss), loss, np.inf).reshape(shape), error.reshape(shape)

    def _followed(self, when: list[int], inputs: Any) -> dict[int, FloatArray]:
        """Changes of the outputs at some inputs, (runs, m, t), by epoch, for ascending epochs."""
        counts = [min(_TOGETHER, self.runs - first) for first in range(0, self.runs, _TOGETHER)]
        items = [(np.random.default_rng([self.seed, number]), count) for number, count in enumerate(counts)]
        prepared, last = self._steps.prepared(inputs), when[-1]

        def follow(item: tuple[np.random.Generator, int]) -> list[FloatArray]:
            rng, count = item
            made, found = LinearRuns(self._steps, self.recipe, self.missing, count), []
            visits = self.loop.scheme.visits(self.loop.samples, rng, count)
            for epoch in track(range(last + 1), last + 1, "following drawn orders"):
                if epoch in when:
                    found.append(made.outputs(prepared))
                if epoch < last:
                    made.train(epoch, next(visits))
            return found

        followed: Iterable[list[FloatArray]] = (
            each(follow, items, _WORK) if self._steps.allows_threads else map(follow, items)
        )
        return {epoch: np.concatenate(parts) for epoch, *parts in zip(when, *followed, strict=True)}
