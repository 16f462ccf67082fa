"""A network and its tangent, both really trained along the same orders: how far apart they are."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle._progress import track
from reshuffle.run import Run
from reshuffle.torch.drawn_runs import DrawnRuns
from reshuffle.torch.every_sample import collected
from reshuffle.torch.lazy_network import LazyNetwork, linearize
from reshuffle.torch.torch_models import device_of, torch_itself
from reshuffle.torch.training_loop import TrainingLoop, recipe


@dataclass(frozen=True, eq=False, repr=False)
class LazyComparison:
    """Runs of a network and of its tangent, and the mean over all orders that is computed without either.

    Attributes
    ----------
    epochs : (E,)
    network : (runs, E, n, t)
        What the trained network says of the samples.
    linear : (runs, E, n, t)
        What its tangent says that is trained along the same orders.
    mean : (E, n, t)
        The mean of the latter over all orders, as it is computed.
    mean_error : (E,)
        How far that may be off, in Euclidean norm over samples and outputs; 0 where it is exact.
    before : (n, t)
        What both say before training.
    targets : (n, t)
    weights_moved : (runs, E)
        |w - w_0| / |w_0| of the network.
    """

    epochs: IntArray
    network: FloatArray
    linear: FloatArray
    mean: FloatArray
    mean_error: FloatArray
    before: FloatArray
    targets: FloatArray
    weights_moved: FloatArray

    @property
    def network_loss(self) -> FloatArray:
        """nn.MSELoss of each run of the network, (runs, E)."""
        return np.asarray(np.square(self.network - self.targets).mean(axis=(2, 3)))

    @property
    def linear_loss(self) -> FloatArray:
        """The same of its tangent, (runs, E)."""
        return np.asarray(np.square(self.linear - self.targets).mean(axis=(2, 3)))

    @property
    def mean_loss(self) -> FloatArray:
        """The same of the computed mean, (E,)."""
        return np.asarray(np.square(self.mean - self.targets).mean(axis=(1, 2)))

    @cached_property
    def moved(self) -> FloatArray:
        """How far the network has moved from what it said before, in root mean square over runs, (E,)."""
        return _size(self.network - self.before)

    @property
    def distance(self) -> FloatArray:
        """How far runs of the network and of its tangent are apart, relative to how far the network moved, (E,)."""
        return self._relative(_size(self.network - self.linear))

    @property
    def mean_distance(self) -> FloatArray:
        """How far the mean run of the network is from the computed mean, relative to how far it moved, (E,)."""
        return self._relative(np.linalg.norm(self.network.mean(axis=0) - self.mean, axis=(1, 2)))

    @property
    def chance(self) -> FloatArray:
        """How much of `mean_distance` is due to few runs, by their standard error, (E,); nan of a single run."""
        runs = len(self.network)
        if runs == 1:
            return np.full(len(self.epochs), np.nan)
        spread = _size(self.network - self.network.mean(axis=0)) * np.sqrt(runs / (runs - 1))
        return self._relative(spread / np.sqrt(runs))

    def _relative(self, distance: FloatArray) -> FloatArray:
        """Nothing, where nothing has moved."""
        return np.asarray(distance / np.where(self.moved > 0, self.moved, 1.0))

    def holds(self, within: float = 0.1) -> FloatArray:
        """At which of the epochs the tangent stays within a share of how far the network moved, (E,)."""
        return np.asarray(self.distance <= _arrays.positive("within", within))

    def __repr__(self) -> str:
        lines = ["  epoch   loss of the network   of its tangent   computed   apart   weights moved"]
        columns = (
            self.epochs,
            self.network_loss.mean(axis=0),
            self.linear_loss.mean(axis=0),
            self.mean_loss,
            self.distance,
            self.weights_moved.mean(axis=0),
        )
        for epoch, network, linear, mean, apart, weights in zip(*columns, strict=True):
            lines.append(f"{epoch:7d}{network:22.4g}{linear:17.4g}{mean:11.4g}{apart:8.1%}{weights:16.1%}")
        share = self.distance[-1]
        runs = "1 run" if len(self.network) == 1 else f"{len(self.network)} runs"
        lines.append(
            f"in {runs}, the network and its tangent are apart by {share:.1%} of how far the network moved in "
            f"{self.epochs[-1]} epochs"
        )
        return "\n".join(lines)


def compare(
    model: Any,
    loader: Any,
    optimizer: Any,
    epochs: ArrayLike = (1, 3, 10),
    *,
    scheduler: Any = None,
    loss: Any = None,
    per: str = "epoch",
    runs: int = 3,
    seed: int = 0,
    by: str = "auto",
    device: Any = None,
    **accuracy: Any,
) -> LazyComparison:
    """Train a network and its tangent along the same orders, and tell how far apart they are.

    A prediction for the tangent is one for the network as long as they stay close. Copies are trained: the model,
    the optimizer and the scheduler are left as they are.

    Parameters
    ----------
    model, loader, by, device
        As in `linearize`.
    optimizer, scheduler, loss, per
        As in `recipe`.
    epochs : whole number or list of them
        After which both are looked at.
    runs : int
        How many seeds both are trained with.
    seed : int
    **accuracy
        Of the computed mean, as in `reshuffle.descend`.

    Returns
    -------
    LazyComparison

    >>> import torch
    >>> import reshuffle as rs
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> generator = torch.manual_seed(0)
    >>> x = torch.linspace(-2, 2, 20)[:, None]
    >>> loader = DataLoader(TensorDataset(x, x.sin()), batch_size=5, shuffle=True)
    >>> def apart(width):
    ...     model = torch.nn.Sequential(torch.nn.Linear(1, width), torch.nn.Tanh(), torch.nn.Linear(width, 1))
    ...     sgd = torch.optim.SGD(model.parameters(), lr=2 / width)
    ...     return rs.torch.compare(model, loader, sgd, epochs=[20]).distance[0]
    >>> bool(apart(2000) < apart(20) / 2)
    True
    """
    when, runs = _whole_epochs(epochs), _arrays.whole_number("runs", runs, 1)
    lazy = linearize(model, loader, by=by, device=device)
    loop = recipe(optimizer, loader, scheduler, loss, per=per, outputs=lazy.outputs)
    computed = lazy.descend(loop, **accuracy)
    inputs, _ = collected(loader, device_of(model, device))
    sharing, network, linear, weights = loop.sharing(), [], [], []
    for number in track(range(runs), runs, "training"):
        twins = _Twins(model, lazy, inputs, sharing)
        seen = list(twins.looked_at(_orders(loop, np.random.default_rng([seed, number])), when))
        network.append([said for said, _, _ in seen])
        linear.append([said for _, said, _ in seen])
        weights.append([share for _, _, share in seen])
    mean, error = np.asarray(lazy.predict(computed, None, when)), _error_of_mean(lazy, computed, when)
    return LazyComparison(
        when, np.array(network), np.array(linear), mean, error, lazy.before, lazy.targets, np.array(weights)
    )


def _error_of_mean(lazy: LazyNetwork, computed: Run | DrawnRuns, when: IntArray) -> FloatArray:
    """How far the computed mean may be off, in Euclidean norm over samples and outputs, (E,)."""
    if isinstance(computed, DrawnRuns):
        return np.asarray(np.linalg.norm(computed.predict(None, when)[1], axis=(1, 2)))
    if computed.error_kind == "exact":
        return np.zeros(len(when))
    return float(np.linalg.norm(lazy.problem.X, 2)) * np.asarray(computed.iterate_error(when))


def _whole_epochs(value: ArrayLike) -> IntArray:
    given = np.atleast_1d(_arrays.epochs(value))
    if given.ndim != 1 or not given.size or not np.isfinite(given).all() or (given != given.round()).any():
        raise ValueError(f"epochs must be whole numbers, at least one of them, but it is {value!r}.")
    return np.unique(given).astype(np.int64)


Batch = tuple[IntArray, float]
"""The samples of a visit, and what the sum of their gradients is divided by."""


def _orders(loop: TrainingLoop, rng: np.random.Generator) -> Iterator[list[Batch]]:
    """The visits of an epoch, epoch after epoch."""
    for epoch in loop.scheme.visits(loop.samples, rng, 1):
        yield [(visit.rows.ravel(), visit.divisor) for visit in epoch]


class _Twins:
    """A copy of the network and its tangent, which make the same steps."""

    def __init__(self, model: Any, lazy: LazyNetwork, inputs: Any, loop: TrainingLoop):
        torch = torch_itself()
        self._lazy, self._inputs, self._loop = lazy, inputs, loop
        self._model = copy.deepcopy(model).to(inputs.device)
        self._trained = [one for one in self._model.parameters() if one.requires_grad]
        self._first = [one.detach().clone() for one in self._trained]
        said = (lazy.targets, lazy.before)
        self._targets, self._first_said = (
            torch.as_tensor(each, dtype=self._trained[0].dtype, device=inputs.device) for each in said
        )
        recipe = loop.recipe
        self._sgd = torch.optim.SGD(self._trained, lr=0.0, momentum=recipe.momentum, nesterov=recipe.nesterov)
        self._change, self._buffer = ({k: v[0] for k, v in lazy.tangents.still(1).items()} for _ in range(2))

    def looked_at(
        self, orders: Iterator[list[Batch]], when: IntArray
    ) -> Iterator[tuple[FloatArray, FloatArray, float]]:
        """What the network and its tangent say after so many epochs, and how far the weights moved."""
        done = 0
        for epoch in when.tolist():
            for _ in range(epoch - done):
                used = self._loop.recipe.at(done)
                for slot, (samples, divisor) in enumerate(next(orders)):
                    self._network_step(samples, divisor, used.step_of(slot))
                    self._linear_step(samples, divisor, used.step_of(slot))
                done += 1
            yield self._said(), self._linear_said(), self._moved()

    def _network_step(self, samples: IntArray, divisor: float, step: float) -> None:
        torch = torch_itself()
        chosen = torch.as_tensor(samples, device=self._inputs.device)
        for group in self._sgd.param_groups:
            group["lr"] = step
        self._sgd.zero_grad()
        made = self._model(self._inputs[chosen]).reshape(len(samples), -1)
        # Half the mean over rows and outputs: that of which a step takes the gradient.
        missed = (made - self._targets[chosen]).square().sum() / (2 * divisor * self._lazy.outputs)
        missed.backward()
        self._sgd.step()

    def _linear_step(self, samples: IntArray, divisor: float, step: float) -> None:
        recipe, tangents = self._loop.recipe, self._lazy.tangents
        chosen = torch_itself().as_tensor(samples, device=self._inputs.device)
        missed = self._first_said[chosen] + tangents.forth(self._change, self._inputs[chosen])
        signals = (missed - self._targets[chosen]) / (divisor * self._lazy.outputs)
        for name, slope in tangents.back(signals, self._inputs[chosen]).items():
            self._buffer[name] = recipe.momentum * self._buffer[name] + slope
            ahead = slope + recipe.momentum * self._buffer[name] if recipe.nesterov else self._buffer[name]
            self._change[name] = self._change[name] - step * ahead

    def _said(self) -> FloatArray:
        with torch_itself().no_grad():
            made = self._model(self._inputs).reshape(self._lazy.before.shape)
        return np.asarray(made.cpu(), dtype=np.float64)

    def _linear_said(self) -> FloatArray:
        made = self._lazy.tangents.forth(self._change, self._inputs)
        return np.asarray(self._lazy.before + np.asarray(made.cpu(), dtype=np.float64))

    def _moved(self) -> float:
        pairs = list(zip(self._trained, self._first, strict=True))
        change = sum(float((now.detach() - first).double().square().sum()) for now, first in pairs)
        size = sum(float(first.double().square().sum()) for _, first in pairs)
        return float(np.sqrt(change / size)) if size else float("inf") if change else 0.0


def _size(difference: FloatArray) -> FloatArray:
    """Of what is said (runs, E, n, t), the Euclidean norm in root mean square over runs (E,)."""
    return np.asarray(np.sqrt(np.square(difference).sum(axis=(2, 3)).mean(axis=0)))
