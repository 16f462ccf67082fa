"""A training loop of torch as a scheme and a recipe."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import ArrayLike

from reshuffle.errors import UnsupportedError
from reshuffle.problem import LeastSquares, checked_problem
from reshuffle.recipe import Recipe, StepLike
from reshuffle.recipe import recipe as recipes
from reshuffle.run import Run, descend
from reshuffle.schemes import Scheme
from reshuffle.torch import learning_rates, loaders, plain_sgd
from reshuffle.torch.tangent_problem import TangentProblem


@dataclass(frozen=True)
class TrainingLoop:
    """How a training loop visits its samples, and with which steps.

    Attributes
    ----------
    scheme : Scheme
    recipe : Recipe
        In the units of reshuffle, whose loss is |y - X b|^2 / (2n) and whose penalty belongs to that.
    samples : int
        n, which a problem must have.
    outputs : int
        Numbers per target, likewise.
    unit : float
        What a learning rate of one is as a step.
    """

    scheme: Scheme
    recipe: Recipe
    samples: int
    outputs: int
    unit: float
    _sharing: "Callable[[], TrainingLoop] | None" = field(default=None, repr=False, compare=False)

    def sharing(self) -> "TrainingLoop":
        """The same loop for outputs that share their parameters, so that a sample is a row per output."""
        return self if self._sharing is None else self._sharing()

    def descend(self, problem: LeastSquares, start: ArrayLike | None = None, **accuracy: Any) -> Run:
        """What this loop does to a problem.

        Parameters
        ----------
        problem : LeastSquares
            The samples of the loader, in its order. That of `linearize` has a row per sample and output, which are
            visited together.
        start : (p,) or (p, t), optional
            The weights before training, zero by default.
        **accuracy
            method, rtol, budget and seed, as in `reshuffle.descend`.
        """
        problem = checked_problem(problem)
        if isinstance(problem, TangentProblem):
            return self._lazily(problem, start, accuracy)
        return self._followed(problem, start, accuracy)

    def _lazily(self, problem: TangentProblem, start: ArrayLike | None, accuracy: dict[str, Any]) -> Run:
        lazily = self.for_tangents(problem.outputs_per_sample, problem.n // problem.outputs_per_sample)
        return lazily.sharing()._followed(problem, start, accuracy)

    def for_tangents(self, outputs: int, samples: int) -> "TrainingLoop":
        """Return the loop itself, if it is one for a linearized network of so many outputs and samples."""
        if self.outputs != outputs:
            raise ValueError(
                f"the network must have {self.outputs} outputs, as the targets of the loader do, but it has "
                f"{outputs}."
            )
        if self.samples != samples:
            raise ValueError(
                f"problem must have the {self.samples * outputs} rows of the loader, but it has "
                f"{samples * outputs}."
            )
        if self.recipe.penalty:
            raise UnsupportedError(
                "weight_decay must be 0 for a linearized network, but the optimizer has one: it pulls the weights "
                "to zero, and not to where they began."
            )
        return self

    def _followed(self, problem: LeastSquares, start: ArrayLike | None, accuracy: dict[str, Any]) -> Run:
        if problem.n != self.samples:
            raise ValueError(
                f"problem must have the {self.samples} rows of the loader, but it has {problem.n}."
            )
        if (problem.outputs or 1) != self.outputs:
            raise ValueError(
                f"problem must have {self.outputs} outputs, as the targets of the loader do, but it has "
                f"{problem.outputs or 1}."
            )
        schedule = self.recipe.schedule
        return descend(
            problem,
            self.scheme,
            schedule,
            start=start,
            penalty=self.recipe.penalty,
            momentum=self.recipe.momentum,
            nesterov=self.recipe.nesterov,
            **accuracy,
        )


def recipe(
    optimizer: Any,
    loader: Any,
    scheduler: Any = None,
    loss: Any = None,
    *,
    per: str = "epoch",
    outputs: int | None = None,
) -> TrainingLoop:
    """Read off torch's own objects what a training loop of squared loss does.

    nn.MSELoss averages over rows and the t outputs and does not halve: its gradient is 2/t times
    X_b'(X_b b - y_b) / m_b, so that the step is 2 lr / t, and the penalty t weight_decay / 2. Where it sums
    (reduction="sum"), the step is 2 lr m.

    Parameters
    ----------
    optimizer : torch.optim.SGD
        lr, momentum, nesterov and weight_decay, the same in all of its groups.
    loader : torch.utils.data.DataLoader
        Of pairs (features, target): batch_size, drop_last and sampler. What is not one of torch's own orders is
        refused by name.
    scheduler : torch.optim.lr_scheduler.LRScheduler, optional
        As it was made; of any class but ReduceLROnPlateau.
    loss : torch.nn.MSELoss, optional
        Or torch.nn.functional.mse_loss, which is the default.
    per : "epoch" or "visit"
        After what scheduler.step() is called.
    outputs : int, optional
        Numbers per target, by default those of the loader's. Where targets are classes, which the loop turns into
        one output each, it is their number.

    Returns
    -------
    TrainingLoop
        With `scheme`, `recipe` and `descend(problem, start=None)`.

    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> import reshuffle as rs
    >>> problem = rs.gaussian(40, 3, seed=0)
    >>> data = TensorDataset(torch.tensor(problem.X), torch.tensor(problem.y))
    >>> model = torch.nn.Linear(3, 1, bias=False)
    >>> loop = recipe(torch.optim.SGD(model.parameters(), lr=0.05), DataLoader(data, 8, shuffle=True))
    >>> loop.scheme, loop.recipe
    (SampleReshuffling(batch_size=8), step=0.1)
    >>> loop.descend(problem).training_loss([0, 5]).round(4)
    array([1.1678, 0.4405])
    """
    settings, is_mean = plain_sgd.descent(optimizer), plain_sgd.averages(loss)
    visited, count = loaders.visits(loader), loaders.outputs(loader, outputs)

    def loop(
        visits: loaders.Visits, outputs: int, sharing: Callable[[], TrainingLoop] | None
    ) -> TrainingLoop:
        scheme = visits.averaged() if is_mean else visits.summed()
        unit = 2 * (1 / outputs if is_mean else visits.rows_per_visit)
        step: StepLike = unit * settings.learning_rate
        if scheduler is not None:
            step = learning_rates.schedule(scheduler, optimizer, unit, per)
        steps = scheme.steps(visits.rows * visits.samples)
        made = recipes.checked(
            step, None, settings.weight_decay / unit, settings.momentum, steps, settings.nesterov
        )
        return TrainingLoop(scheme, made, visits.rows * visits.samples, outputs, unit, sharing)

    if count == 1:
        return loop(visited, 1, None)
    return loop(visited, count, lambda: loop(replace(visited, rows=count), 1, None))
