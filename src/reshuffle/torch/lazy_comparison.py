"""Distance between a network and its tangent, both trained along the same orders: `compare`."""

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import spectral_norm
from reshuffle._progress import track
from reshuffle.recipe import Recipe
from reshuffle.schemes.base import Visit
from reshuffle.torch.drawn_runs import DrawnRuns, LinearRuns, linear_steps
from reshuffle.torch.lazy_network import linearize
from reshuffle.torch.samples import torch_itself
from reshuffle.torch.training_loop import recipe


@dataclass(frozen=True, eq=False, repr=False)
class LazyComparison:
    """Runs of a network and of its tangent, and the mean over all orders that is computed without either.

    Attributes
    ----------
    epochs : (E,)
    network : (runs, E, n, t)
        Outputs of the trained network at the samples.
    linear : (runs, E, n, t)
        Outputs of its tangent, trained along the same orders.
    mean : (E, n, t)
        The computed mean of `linear` over all orders.
    mean_error : (E,)
        Its error, in Euclidean norm over samples and outputs; 0 where it is exact.
    before : (n, t)
        Outputs of both before training.
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
        """nn.MSELoss of each run of its tangent, (runs, E)."""
        return np.asarray(np.square(self.linear - self.targets).mean(axis=(2, 3)))

    @property
    def mean_loss(self) -> FloatArray:
        """nn.MSELoss of the computed mean, (E,)."""
        return np.asarray(np.square(self.mean - self.targets).mean(axis=(1, 2)))

    @cached_property
    def moved(self) -> FloatArray:
        """Distance of the outputs from those before training, in root mean square over runs, (E,)."""
        return _size(self.network - self.before)

    @property
    def distance(self) -> FloatArray:
        """Distance between runs of the network and of its tangent, relative to `moved`, (E,)."""
        return self._relative(_size(self.network - self.linear))

    @property
    def mean_distance(self) -> FloatArray:
        """Distance of the mean run of the network from the computed mean, relative to `moved`, (E,)."""
        return self._relative(np.linalg.norm(self.network.mean(axis=0) - self.mean, axis=(1, 2)))

    @property
    def chance(self) -> FloatArray:
        """The part of `mean_distance` due to few runs, their standard error, (E,); nan of a single run."""
        runs = len(self.network)
        if runs == 1:
            return np.full(len(self.epochs), np.nan)
        spread = _size(self.network - self.network.mean(axis=0)) * np.sqrt(runs / (runs - 1))
        return self._relative(spread / np.sqrt(runs))

    def _relative(self, distance: FloatArray) -> FloatArray:
        """Distance over `moved`; zero where nothing has moved."""
        return np.asarray(distance / np.where(self.moved > 0, self.moved, 1.0))

    def holds(self, within: float = 0.1) -> FloatArray:
        """True at epochs where `distance` is at most `within`, (E,)."""
        return np.asarray(self.distance <= _arrays.positive("within", within))

    def __repr__(self) -> str:
        lines = ["  epoch   loss of the network   of its tangent   computed   apart   weights moved"]
        network_loss, linear_loss = self.network_loss.mean(axis=0), self.linear_loss.mean(axis=0)
        weights_moved = self.weights_moved.mean(axis=0)
        columns = (self.epochs, network_loss, linear_loss, self.mean_loss, self.distance, weights_moved)
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
    """Train a network and its tangent along the same orders, and measure the distance between them.

    A prediction for the tangent is one for the network as long as they stay close. Copies are trained: the model,
    the optimizer and the scheduler are left as they are.

    Parameters
    ----------
    model, loader, by, device
        As in `linearize`.
    optimizer, scheduler, loss, per
        As in `recipe`.
    epochs : whole number or list of them
        After which outputs are compared.
    runs : int
        Seeds that both are trained with.
    seed : int
    **accuracy
        Accuracy of the computed mean, as in `reshuffle.descend`.

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
    requested = np.unique(_arrays.epochs(epochs))
    if np.ndim(epochs) > 1 or not requested.size or not np.isfinite(requested).all():
        raise ValueError(f"epochs must be whole numbers, at least one of them, but it is {epochs!r}.")
    when, runs = requested.astype(np.int64), _arrays.whole_number("runs", runs, 1)
    lazy = linearize(model, loader, by=by, device=device)
    loop = recipe(optimizer, loader, scheduler, loss, per=per, outputs=lazy.outputs)
    computed = lazy.descend(loop, **accuracy)
    steps, shared = linear_steps(lazy.tangents, lazy.inputs), loop.sharing().recipe
    prepared, wanted, last = steps.prepared(lazy.inputs), set(when.tolist()), int(when[-1])
    network, linear, weights = [], [], []
    for number in track(range(runs), runs, "training"):
        visits = loop.scheme.visits(loop.samples, np.random.default_rng([seed, number]), 1)
        trained = _NetworkRun(model, lazy.inputs, lazy.targets, shared)
        tangent = LinearRuns(steps, shared, lazy.targets - lazy.before, 1)
        for epoch in range(last + 1):
            if epoch in wanted:
                network.append(trained.outputs())
                linear.append(lazy.before + tangent.outputs(prepared)[0])
                weights.append(trained.weights_moved())
            if epoch < last:
                orders = list(next(visits))
                trained.train(epoch, orders)
                tangent.train(epoch, orders)
    if isinstance(computed, DrawnRuns):
        error = np.asarray(np.linalg.norm(computed.predict(None, when)[1], axis=(1, 2)))
    elif computed.error_kind == "exact":
        error = np.zeros(len(when))
    else:
        error = spectral_norm(lazy.problem.X) * np.asarray(computed.iterate_error(when))
    shape, mean = (runs, len(when)), np.asarray(lazy.predict(computed, None, when))
    trained_outputs, outputs = (np.reshape(part, (*shape, *lazy.before.shape)) for part in (network, linear))
    moved = np.reshape(weights, shape)
    return LazyComparison(when, trained_outputs, outputs, mean, error, lazy.before, lazy.targets, moved)


class _NetworkRun:
    """A copy of a network that is trained by torch; the recipe is that of outputs that share their parameters."""

    def __init__(self, model: Any, inputs: Any, targets: FloatArray, recipe: Recipe):
        torch = torch_itself()
        self._inputs, self._recipe, self._model = inputs, recipe, copy.deepcopy(model).to(inputs.device)
        self._trained = [one for one in self._model.parameters() if one.requires_grad]
        self._first = [one.detach().clone() for one in self._trained]
        self._targets = torch.as_tensor(targets, dtype=self._trained[0].dtype, device=inputs.device)
        self._sgd = torch.optim.SGD(self._trained, lr=0.0, momentum=recipe.momentum, nesterov=recipe.nesterov)

    def train(self, epoch: int, visits: list[Visit]) -> None:
        """Make the steps of an epoch."""
        used = self._recipe.at(epoch)
        for slot, visit in enumerate(visits):
            chosen = torch_itself().as_tensor(visit.rows.ravel(), device=self._inputs.device)
            for group in self._sgd.param_groups:
                group["lr"] = used.step_of(slot)
            self._sgd.zero_grad()
            made = self._model(self._inputs[chosen]).reshape(len(chosen), -1)
            # Half the mean over rows and outputs: that of which a step takes the gradient.
            missed = (made - self._targets[chosen]).square().sum() / (2 * visit.divisor * made.shape[1])
            missed.backward()
            self._sgd.step()

    def outputs(self) -> FloatArray:
        """Outputs at the samples, (n, t)."""
        with torch_itself().no_grad():
            made = self._model(self._inputs).reshape(len(self._inputs), -1)
        return np.asarray(made.cpu(), dtype=np.float64)

    def weights_moved(self) -> float:
        """|w - w_0| / |w_0|."""
        pairs = list(zip(self._trained, self._first, strict=True))
        change = sum(float((now.detach() - first).double().square().sum()) for now, first in pairs)
        size = sum(float(first.double().square().sum()) for _, first in pairs)
        return float(np.sqrt(change / size)) if size else float("inf") if change else 0.0


def _size(difference: FloatArray) -> FloatArray:
    """Euclidean norm of outputs (runs, E, n, t), in root mean square over runs, (E,)."""
    return np.asarray(np.sqrt(np.square(difference).sum(axis=(2, 3)).mean(axis=0)))
