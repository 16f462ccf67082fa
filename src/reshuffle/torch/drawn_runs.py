"""Single runs of a network that is linear in its weights, followed in its weights: what is too large to decompose.

A network of t outputs and n samples has a tangent kernel of n t rows, whose eigenvectors take (n t)^3 operations. A
visit needs no kernel: J d and J'r of a batch are a derivative forth and one back through the network. So runs along
drawn orders are followed, several beside each other, at about the price of training as many networks. Their mean is
known up to its standard error, and how they differ is what seeds do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
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
from reshuffle.torch.linear_steps import LinearSteps
from reshuffle.torch.training_loop import TrainingLoop

_TOGETHER = 4
"""Runs that make their steps together, whatever the number of threads: they draw from a generator of their own."""
_WORK = 1000.0
"""The side of a square matrix of as much work as some epochs of these, about."""


@dataclass(frozen=True, eq=False, repr=False)
class DrawnRuns:
    """Runs of a lazy network along drawn orders, of which the mean is answered, with its error.

    Of the questions that a `Run` answers it has those of finitely many epochs: the training loss of the mean,
    predictions and their spread over seeds.

    Attributes
    ----------
    loop : TrainingLoop
    runs : int
    seed : int
    choice : Choice
        Why orders are drawn.
    missing : (n, t)
        What the targets are beyond what the network says before training.
    """

    loop: TrainingLoop
    runs: int
    seed: int
    choice: Choice
    missing: FloatArray
    _steps: LinearSteps
    _inputs: Any

    method = "sampling"

    def __repr__(self) -> str:
        return f"DrawnRuns({self.scheme}, {self.recipe}, runs={self.runs})"

    @property
    def scheme(self) -> Scheme:
        """How rows are visited, those of a sample together."""
        return self.loop.sharing().scheme

    @property
    def recipe(self) -> Recipe:
        """With which steps."""
        return self.loop.sharing().recipe

    @property
    def error_kind(self) -> ErrorKind:
        """In which sense errors are meant."""
        return _uncertainty.ERROR_KINDS[self.method]

    def moved(self, inputs: Any, epochs: ArrayLike) -> FloatArray:
        """What each run adds to what the network says, (runs, epochs, m, t), of its samples or of other inputs.

        Parameters
        ----------
        inputs : tensor (m, ...) or None
            None for the samples that it is trained with.
        epochs : whole number or array of them, of any shape
            Of shape (E,) in what is returned.
        """
        when = _whole(epochs)
        if inputs is not None:
            return self._followed(np.unique(when), inputs)[:, np.searchsorted(np.unique(when), when)]
        unknown = np.setdiff1d(when, list(self._known))
        if unknown.size:
            # From the start: what was followed before is followed again, along the same orders.
            asked = np.union1d(unknown, list(self._known)).astype(np.int64)
            followed = self._followed(asked, self._inputs)
            self._known.update(zip(asked.tolist(), followed.swapaxes(0, 1), strict=True))
        return np.stack([self._known[epoch] for epoch in when.tolist()], axis=1)

    def predict(self, inputs: Any, epochs: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The mean of what runs add, how far it may be off, and the standard deviation over seeds.

        All of shape epochs.shape + (m, t).

        Parameters
        ----------
        inputs, epochs
            As in `moved`.
        """
        shape, said = _arrays.epochs(epochs).shape, self.moved(inputs, epochs)
        with np.errstate(over="ignore", invalid="ignore"):
            answers = said.mean(axis=0), _uncertainty.error_of_mean(said), said.std(axis=0, ddof=1)
        mean, error, std = (
            np.where(np.isnan(each), np.inf, each).reshape(*shape, *said.shape[2:]) for each in answers
        )
        return mean, error, std

    def training_loss(self, epochs: ArrayLike) -> FloatArray:
        """|y - f|^2 / (2 n t) at the mean f of the runs, of the shape of epochs."""
        return self._loss_and_error(epochs)[0]

    def training_loss_error(self, epochs: ArrayLike) -> FloatArray:
        """How far that may be off, of the shape of epochs."""
        return self._loss_and_error(epochs)[1]

    def _loss_and_error(self, epochs: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """By the jackknife: the mean of few runs has part of their spread, which makes its loss too large."""
        said = self.moved(None, epochs)
        with np.errstate(over="ignore", invalid="ignore"):
            total = said.sum(axis=0)
            plain = self._loss(total / self.runs)
            without = np.array([self._loss((total - one) / (self.runs - 1)) for one in said])
            loss = self.runs * plain - (self.runs - 1) * without.mean(axis=0)
        shape = _arrays.epochs(epochs).shape
        error = _uncertainty.jackknife(plain, without)
        return np.where(np.isfinite(loss), loss, np.inf).reshape(shape), error.reshape(shape)

    def _loss(self, moved: FloatArray) -> FloatArray:
        return np.asarray(np.square(moved - self.missing).mean(axis=(1, 2)) / 2)

    @cached_property
    def _known(self) -> dict[int, FloatArray]:
        """What runs add for the samples (runs, n, t), by epoch."""
        return {}

    def _followed(self, when: IntArray, inputs: Any) -> FloatArray:
        """The runs after each of some epochs, ascending, seen at some inputs: (runs, E, m, t)."""
        counts = [min(_TOGETHER, self.runs - first) for first in range(0, self.runs, _TOGETHER)]
        items = [(np.random.default_rng([self.seed, number]), count) for number, count in enumerate(counts)]

        sight = self._steps.sight(inputs)

        def follow(item: tuple[np.random.Generator, int]) -> FloatArray:
            return self._some_followed(*item, when, sight)

        if self._steps.side_by_side:
            return np.concatenate(each(follow, items, _WORK))
        return np.concatenate([follow(item) for item in items])

    def _some_followed(self, rng: np.random.Generator, runs: int, when: IntArray, sight: Any) -> FloatArray:
        """Some of the runs."""
        weights, last = _LinearRuns(self, runs), int(when.max(initial=0))
        visits = self.loop.scheme.visits(self.loop.samples, rng, runs)
        seen, wanted = [], set(when.tolist())
        for epoch in track(range(last + 1), last + 1, "following drawn orders"):
            if epoch in wanted:
                seen.append(weights.said(sight))
            if epoch < last:
                weights.visit(epoch, next(visits))
        return np.stack(seen, axis=1)


class _LinearRuns:
    """The weights of several runs, as they are changed."""

    def __init__(self, drawn: DrawnRuns, runs: int):
        self._steps, self._runs = drawn._steps, runs
        self._recipe, self._missing = drawn.recipe, drawn.missing
        self._changes, self._buffers = self._steps.still(runs), self._steps.still(runs)

    def visit(self, epoch: int, visits: Iterator[Visit]) -> None:
        """Make the steps of an epoch."""
        used, outputs = self._recipe.at(epoch), self._missing.shape[1]
        done = np.zeros(self._runs, dtype=np.int64)
        for visit in visits:
            step = used.step_of(int(done[visit.runs[0]]))
            done[visit.runs] += 1
            samples = np.broadcast_to(visit.rows, (len(visit.runs), np.shape(visit.rows)[-1]))
            with np.errstate(over="ignore", invalid="ignore"):
                self._step(visit.runs, np.array(samples), step, visit.divisor * outputs)

    def _step(self, runs: IntArray, samples: IntArray, step: float, divisor: float) -> None:
        momentum, nesterov = self._recipe.momentum, self._recipe.nesterov
        chosen = slice(None) if len(runs) == self._runs else runs
        change = {name: value[chosen] for name, value in self._changes.items()}
        for name, slope in self._steps.gradients(change, samples, self._missing, divisor).items():
            taken = slope
            if momentum:
                buffer = momentum * self._buffers[name][chosen] + slope
                self._buffers[name][chosen] = buffer
                taken = slope + momentum * buffer if nesterov else buffer
            taken *= step
            self._changes[name][chosen] -= taken

    def said(self, sight: Any) -> FloatArray:
        """What the runs add at the inputs of a sight, (runs, m, t)."""
        return self._steps.said(self._changes, sight)


def _whole(value: ArrayLike) -> IntArray:
    given = _arrays.epochs(value).ravel()
    if not np.isfinite(given).all() or (given != given.round()).any():
        raise ValueError(
            f"epochs must be whole numbers where orders are drawn, but it is {value!r}; "
            'descend(loop, method="cavity") decomposes the network, which takes longer and answers for any.'
        )
    return given.astype(np.int64)
