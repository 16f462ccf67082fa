"""Networks linearized at their present weights, which makes training them a least-squares problem: `linearize`."""

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.epoch.select import Accuracy, decomposition_choice
from reshuffle.problem.kernel import KernelFeatures
from reshuffle.run import Run, critical_step
from reshuffle.torch import samples
from reshuffle.torch.drawn_runs import DrawnRuns, linear_steps
from reshuffle.torch.tangents import TangentProblem, Tangents, tangent_kernel
from reshuffle.torch.training_loop import TrainingLoop


@dataclass(frozen=True, eq=False)
class LazyNetwork:
    """A network that is linear in its weights: f(x; w + d) = f(x; w) + J(x) d.

    Wide networks stay close to theirs while they are trained (Jacot, Gabriel and Hongler 2018; Chizat, Oyallon and
    Bach 2019 call this lazy); `compare` measures how close a given one stays.

    Attributes
    ----------
    outputs : int
        t.
    weights : int
        The number of trained weights.
    classes : int or None
        The number of classes, None for targets that are numbers.
    before : (n, t)
        Outputs of the network at the samples before training.
    targets : (n, t)
        Responses: the targets, or 1 for the sample's own class and 0 for the others.
    tangents : Tangents
        The derivatives of the network in its weights.
    inputs : tensor (n, ...)
        The samples.
    """

    outputs: int
    weights: int
    classes: int | None
    before: FloatArray
    targets: FloatArray
    tangents: Tangents
    inputs: Any
    _by_kernel: bool

    def __repr__(self) -> str:
        form = "kernel" if self._by_kernel else "features"
        size = f"rank {self.problem.p}" if "_posed" in vars(self) else f"{self.before.size} rows"
        return (
            f"LazyNetwork(samples={len(self.before)}, outputs={self.outputs}, weights={self.weights}, by its "
            f"tangent {form} of {size})"
        )

    @property
    def problem(self) -> TangentProblem:
        """The problem that training solves: a row per sample and output, from zero."""
        return self._posed[0]

    @cached_property
    def _posed(self) -> tuple[TangentProblem, KernelFeatures | None]:
        missing = self.targets - self.before
        if not self._by_kernel:
            return TangentProblem(self.tangents.all_rows(self.inputs, self.outputs), missing), None
        kernel = KernelFeatures(tangent_kernel(self.tangents, self.inputs, self.outputs))
        return TangentProblem(kernel, missing), kernel

    def descend(self, loop: TrainingLoop, *, runs: int = 16, **accuracy: Any) -> Run | DrawnRuns:
        """The run of a training loop on this network.

        Parameters
        ----------
        loop : TrainingLoop
            Made by `reshuffle.torch.recipe`.
        runs : int
            Drawn orders, if the network is too large to be decomposed within the budget.
        **accuracy
            method, rtol, budget and seed, as in `reshuffle.descend`.

        Returns
        -------
        Run or DrawnRuns
            `DrawnRuns` of networks that are too large: there the decomposition alone would take more operations
            than budget, unless method="cavity" or "exact" requests it.
        """
        runs, wanted = _arrays.whole_number("runs", runs, 2), Accuracy(**accuracy)
        choice = decomposition_choice(self.before.size, wanted)
        if choice.taken == "decomposed":
            return loop.descend(self.problem, **accuracy)
        lazily = loop.for_tangents(self.outputs, len(self.before))
        lazily.sharing()
        steps = linear_steps(self.tangents, self.inputs)
        return DrawnRuns(lazily, runs, wanted.seed, choice, self.targets - self.before, steps, self.inputs)

    def predict(
        self, run: Run | DrawnRuns, inputs: Any, epochs: ArrayLike, *, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """The mean outputs over all random orders at some inputs.

        Parameters
        ----------
        run : Run
            A run made by `descend`.
        inputs : tensor (m, ...) or None
            None for the samples that it is trained with.
        epochs : number or array of any shape
        return_std : bool
            If True, return the standard deviation over seeds as well.

        Returns
        -------
        mean : epochs.shape + (m, t)
        std : epochs.shape + (m, t)
            Only with return_std.
        """
        if isinstance(run, DrawnRuns):
            given, before = self._given(inputs)
            moved, _, deviation = run.predict(given, epochs)
            return (before + moved, deviation) if return_std else before + moved
        rows, before = self._rows(inputs)
        shape = (*_arrays.epochs(epochs).shape, *before.shape)
        if not return_std:
            return np.asarray(before + run.predict(rows, epochs).reshape(shape))
        mean, std = run.predict(rows, epochs, return_std=True)
        return np.asarray(before + mean.reshape(shape)), np.asarray(std.reshape(shape))

    def loss(self, run: Run | DrawnRuns, epochs: ArrayLike) -> FloatArray:
        """nn.MSELoss, on the samples, of the mean of a run over all orders, of the shape of epochs."""
        return np.asarray(2 * run.training_loss(epochs))

    def accuracy(self, run: Run | DrawnRuns, epochs: ArrayLike, loader: Any = None) -> FloatArray:
        """The share of samples whose largest output is that of their class, of the mean over all orders.

        Parameters
        ----------
        run : Run
        epochs : number or array of any shape
        loader : optional
            Other samples; by default those that it is trained with.
        """
        if self.classes is None:
            raise ValueError("accuracy needs classes, but the targets of this network are numbers.")
        inputs, labels = None, self.targets.argmax(axis=1)
        if loader is not None:
            inputs, labels = samples.all_inputs(loader, self.inputs.device)
        when = _arrays.epochs(epochs)
        if isinstance(run, DrawnRuns):
            outputs = np.asarray(self.predict(run, inputs, when))
            return np.asarray((outputs.argmax(axis=-1) == labels).mean(axis=-1))
        rows, before = self._rows(inputs)
        return samples.share_of_hits(
            lambda epoch: before + run.predict(rows, epoch).reshape(before.shape), labels, when
        )

    def critical_learning_rate(self, loop: TrainingLoop, *, mean_square: bool = True) -> float:
        """The largest learning rate at which single runs of the linear network converge, all else as in the loop.

        Parameters
        ----------
        loop : TrainingLoop
            Its learning rate does not matter.
        mean_square : bool
            True for single runs, which converge in mean square; False for their mean over the orders.
        """
        sharing, used = loop.sharing(), loop.recipe
        found = critical_step(
            self.problem,
            sharing.scheme,
            mean_square=mean_square,
            momentum=used.momentum,
            nesterov=used.nesterov,
        )
        return float(found / sharing.unit)

    def _rows(self, inputs: Any) -> tuple[FloatArray, FloatArray]:
        """The rows (m t, p) of inputs in the coordinates of the problem, and the outputs before training."""
        given, before = self._given(inputs)
        if given is None:
            return self.problem.X, before
        features = self._posed[1]
        if features is None:
            return self.tangents.all_rows(given, self.outputs), before
        kernel = tangent_kernel(self.tangents, given, self.outputs, self.inputs)
        return features.of(kernel), before

    def _given(self, inputs: Any) -> tuple[Any, FloatArray]:
        """Inputs on the device of the network, and its outputs before training."""
        if inputs is None:
            return None, self.before
        given = samples.moved(inputs, self.inputs.device)
        return given, self.tangents.outputs(given)


def linearize(model: Any, loader: Any, *, by: str = "auto", device: Any = None) -> LazyNetwork:
    """Replace a network by its tangent at its present weights, and pose the problem that training it solves.

    The outputs of a network share its weights, so a sample of t outputs is t rows, which are visited together.
    Where there are more weights than rows, the tangent kernel takes the place of the gradients, which are computed
    for few samples at a time and not stored; for linear layers it follows from their inputs and the gradients in
    their outputs.

    Parameters
    ----------
    model : torch.nn.Module
        Makes (m, t), or (m,), of a batch; in evaluation mode where that matters. Parameters that do not require
        gradients stay as they are.
    loader : torch.utils.data.DataLoader
        Pairs (inputs, targets), as in `probe`. Whole numbers as targets are classes, learned as one output each.
    by : "auto", "features" or "kernel"
        The form of the problem.
    device : optional
        Where gradients are computed; by default where the model is.

    Returns
    -------
    LazyNetwork

    >>> import torch
    >>> import reshuffle as rs
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> generator = torch.manual_seed(0)
    >>> x = torch.linspace(-2, 2, 30, dtype=torch.float64)[:, None]
    >>> loader = DataLoader(TensorDataset(x, torch.cat([x.sin(), x.cos()], dim=1)), batch_size=5, shuffle=True)
    >>> model = torch.nn.Sequential(torch.nn.Linear(1, 200), torch.nn.Tanh(), torch.nn.Linear(200, 2)).double()
    >>> lazy = rs.torch.linearize(model, loader)
    >>> lazy  # doctest: +ELLIPSIS
    LazyNetwork(samples=30, outputs=2, weights=802, by its tangent kernel of rank ...)
    >>> loop = rs.torch.recipe(torch.optim.SGD(model.parameters(), lr=0.003), loader)
    >>> run = lazy.descend(loop)
    >>> run.scheme
    GroupReshuffling(2, batch_size=5)
    >>> bool((np.diff(lazy.loss(run, [0, 1, 10, 100])) < 0).all())
    True
    >>> lazy.predict(run, x[:3], 10).shape
    (3, 2)
    """
    by = _arrays.choice("by", by, ("auto", "features", "kernel"))
    samples.require_deterministic(model)
    # A copy: training the model afterwards must not change its tangents.
    where = samples.device_of(model, device)
    tangents = Tangents(copy.deepcopy(model).to(where))
    inputs, targets = samples.all_inputs(loader, where)
    before = tangents.outputs(inputs)
    outputs = before.shape[1]
    wanted, classes = samples.responses(targets, outputs)
    by_kernel = by == "kernel" or (by == "auto" and tangents.count > before.size)
    network = LazyNetwork(outputs, tangents.count, classes, before, wanted, tangents, inputs, by_kernel)
    if decomposition_choice(before.size, Accuracy()).taken == "decomposed":
        # Checked at once where that is cheap, and not with the first question.
        _ = network.problem
    return network
