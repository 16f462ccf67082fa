"""Training loops of torch as a scheme and a recipe, read off its optimizer, loader, scheduler and loss."""

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle.errors import UnsupportedError
from reshuffle.problem import LeastSquares, checked_problem
from reshuffle.recipe import Recipe, StepLike, schedules
from reshuffle.recipe import recipe as recipes
from reshuffle.recipe.schedules import COUNTED, StepSchedule
from reshuffle.run import Run, descend
from reshuffle.schemes import (
    Cyclic,
    FullBatch,
    GroupReshuffling,
    PoissonSampling,
    SampleReshuffling,
    SampleWithReplacement,
    Scheme,
    WeightedSampling,
)
from reshuffle.schemes.base import rows_of
from reshuffle.torch.samples import kind, torch_itself
from reshuffle.torch.tangents import TangentProblem

_CONSTANT = ("momentum", "dampening", "weight_decay", "nesterov")
_READ = ("lr", *_CONSTANT, "maximize")
"""Settings that decide where SGD goes; the others of a group say how it is computed."""
_KNOWN: Mapping[str, tuple[Callable[..., StepSchedule], tuple[str, ...]]] = {
    "StepLR": (schedules.StepDecay, ("step_size", "gamma")),
    "ExponentialLR": (schedules.ExponentialDecay, ("gamma",)),
    "CosineAnnealingLR": (schedules.CosineAnnealing, ("T_max", "eta_min")),
    "LinearLR": (schedules.LinearWarmup, ("total_iters", "start_factor", "end_factor")),
    "ConstantLR": (schedules.ConstantWarmup, ("total_iters", "factor")),
}
"""Schedulers that have a schedule here, and its arguments there; all others are stepped and recorded."""


@dataclass(frozen=True)
class TrainingLoop:
    """The scheme by which a training loop visits its samples, and its recipe.

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
        The step of a learning rate of one.
    """

    scheme: Scheme
    recipe: Recipe
    samples: int
    outputs: int
    unit: float
    _sharing: "Callable[[], TrainingLoop] | None" = field(default=None, repr=False, compare=False)

    def sharing(self) -> "TrainingLoop":
        """The loop for outputs that share their parameters, so that a sample is a row per output."""
        return self if self._sharing is None else self._sharing()

    def descend(self, problem: LeastSquares, start: ArrayLike | None = None, **accuracy: Any) -> Run:
        """The run of this loop on a problem.

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
        problem, loop = checked_problem(problem), self
        if isinstance(problem, TangentProblem):
            per_sample = problem.outputs_per_sample
            loop = self.for_tangents(per_sample, problem.n // per_sample).sharing()
        loop._require("problem", problem.outputs or 1, problem.n)
        made = loop.recipe
        return descend(
            problem, loop.scheme, made.schedule, start=start, penalty=made.penalty, momentum=made.momentum,
            nesterov=made.nesterov, **accuracy,
        )  # fmt: skip

    def for_tangents(self, outputs: int, samples: int) -> "TrainingLoop":
        """Return the loop itself, if it is one for a linearized network of so many outputs and samples."""
        self._require("the network", outputs, samples, outputs)
        if self.recipe.penalty:
            raise UnsupportedError(
                "weight_decay must be 0 for a linearized network, but the optimizer has one: it draws the weights "
                "to zero, and not to where they began."
            )
        return self

    def _require(self, what: str, outputs: int, samples: int, rows: int = 1) -> None:
        """Refuse other numbers of outputs, or of samples of some rows each, than those of the loader."""
        if outputs != self.outputs:
            raise ValueError(
                f"{what} must have {self.outputs} outputs, as the targets of the loader do, but it has {outputs}."
            )
        if samples != self.samples:
            raise ValueError(
                f"problem must have the {self.samples * rows} rows of the loader, but it has {samples * rows}."
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
    """Read the scheme and the recipe of a training loop of squared loss off torch's own objects.

    nn.MSELoss averages over rows and the t outputs and does not halve: its gradient is 2/t times
    X_b'(X_b b - y_b) / m_b, so that the step is 2 lr / t, and the penalty t weight_decay / 2. Where it sums
    (reduction="sum"), the step is 2 lr m.

    Parameters
    ----------
    optimizer : torch.optim.SGD
        lr, momentum, nesterov and weight_decay, the same in all of its groups.
    loader : torch.utils.data.DataLoader
        A loader of pairs (features, target): its batch_size, drop_last and sampler. Orders other
        than torch's own are refused by name.
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
    settings, is_mean = _sgd_settings(optimizer), _averages(loss)
    order, count = _loader_order(loader), _outputs(loader, outputs)

    def loop(
        order: LoaderOrder, outputs: int, sharing: Callable[[], TrainingLoop] | None = None
    ) -> TrainingLoop:
        scheme, rows = order.made(is_mean), order.rows * order.samples
        unit = 2 * (1 / outputs if is_mean else order.rows_per_visit)
        step: StepLike = unit * settings["lr"]
        if scheduler is not None:
            step = _schedule(scheduler, optimizer, unit, per)
        penalty, momentum = settings["weight_decay"] / unit, settings["momentum"]
        nesterov = bool(settings["nesterov"])
        made = recipes.checked(step, None, penalty, momentum, scheme.steps(rows), nesterov)
        return TrainingLoop(scheme, made, rows, outputs, unit, sharing)

    if count == 1:
        return loop(order, 1)
    return loop(order, count, lambda: loop(replace(order, rows=count), 1))


def _sgd_settings(optimizer: Any) -> dict[str, float]:
    """The settings of torch.optim.SGD, which must be the same for all of its parameters."""
    torch = torch_itself()
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer must be a torch.optim.Optimizer, but it is a {kind(optimizer)}.")
    # A class that inherits from SGD may do anything else in its steps.
    if type(optimizer) is not torch.optim.SGD:
        raise UnsupportedError(
            "the optimizer must be torch.optim.SGD, whose steps are linear in the gradient, but it is "
            f"{kind(optimizer)}, whose steps are not; train it, or ask about SGD."
        )
    found = {}
    for name in _READ:
        # A learning rate may be a tensor of one entry.
        values = dict.fromkeys(float(group[name]) for group in optimizer.param_groups)
        if len(values) > 1:
            raise UnsupportedError(
                f"all parameter groups of the optimizer must have the same {name}, but they have "
                f"{', '.join(map(str, values))}; one recipe describes parameters that are treated alike."
            )
        (found[name],) = values
    if found["maximize"]:
        raise UnsupportedError("the optimizer must minimise, but it was made with maximize=True.")
    if found["momentum"] and found["dampening"]:
        # torch damps every gradient but the first one, which no constant recipe does.
        raise UnsupportedError(
            f"dampening must be 0 with momentum, but it is {found['dampening']:g}; nearly the same is dampening=0 "
            f"with a learning rate of {found['lr'] * (1 - found['dampening']):g}."
        )
    return found


def _averages(loss: Any) -> bool:
    """True if a squared loss is a mean over rows and outputs, False if it is a sum; None is nn.MSELoss()."""
    torch = torch_itself()
    if loss is None or loss is torch.nn.functional.mse_loss:
        return True
    if type(loss) is not torch.nn.MSELoss:
        name = loss if isinstance(loss, str) else getattr(loss, "__name__", kind(loss))
        raise UnsupportedError(
            f"loss must be squared, torch.nn.MSELoss or torch.nn.functional.mse_loss, but it is {name}; "
            "rs.plan(X, labels).to_torch(loss='cross_entropy') writes a program for classes."
        )
    if loss.reduction not in ("mean", "sum"):
        raise UnsupportedError(
            f'the loss must have the reduction "mean" or "sum", but it has {loss.reduction!r}.'
        )
    return bool(loss.reduction == "mean")


@dataclass(frozen=True)
class LoaderOrder:
    """The scheme of the samples of a loader, the partition of the ordered samples into batches, and their numbers.

    A sample is several rows where its outputs share their parameters. Draws with replacement may have `weights`;
    of Poisson batches, every sample is in each of the `steps` with probability `rate`.
    """

    scheme: type[Scheme]
    partition: Cyclic
    samples: int
    rows: int = 1
    weights: tuple[float, ...] | None = None
    rate: float = 0.0
    steps: int = 0

    @property
    def rows_per_visit(self) -> float:
        """The mean number of rows of a batch."""
        return float(self.rows * (self.rate * self.samples or self.partition.sizes(self.samples).mean()))

    def made(self, is_mean: bool) -> Scheme:
        """The scheme where the loss of a batch is a mean over its rows, or a sum, where all rows weigh alike."""
        cut, rows, sizes = self.partition, self.rows, self.partition.sizes(self.samples)
        replaces = self.scheme in (SampleWithReplacement, PoissonSampling)
        if sizes[0] == self.samples and not replaces:
            return FullBatch()
        normalize = "own" if is_mean or sizes.min() == sizes.max() else "equal"
        if cut.is_explicit:
            return Cyclic([rows_of(part, rows) for part in cut.partition(self.samples)], normalize=normalize)
        assert cut.batch_size is not None
        if replaces and rows > 1:
            raise UnsupportedError(
                "samples whose outputs share their parameters must be visited without replacement, but the "
                "loader's sampler draws with it; use shuffle=True, or shuffle=False."
            )
        if self.rate:
            return PoissonSampling(self.rate, steps=self.steps, normalize="own" if is_mean else "equal")
        if replaces and normalize == "equal":
            raise UnsupportedError(
                "a loss that is summed over draws with replacement must have batches of one size, but the last has "
                f'{sizes[-1]} rows and the others {sizes[0]}; use drop_last=True, or reduction="mean".'
            )
        if self.weights:
            return WeightedSampling(self.weights, batch_size=cut.batch_size, drop_last=cut.drop_last)
        if replaces:
            return SampleWithReplacement(batch_size=cut.batch_size, drop_last=cut.drop_last)
        options: dict[str, Any] = {"drop_last": cut.drop_last, "normalize": normalize}
        if self.scheme is SampleReshuffling and rows > 1:
            return GroupReshuffling(rows, batch_size=cut.batch_size, **options)
        return self.scheme(batch_size=rows * cut.batch_size, **options)


def _loader_order(loader: Any) -> LoaderOrder:
    """The order of a torch.utils.data.DataLoader."""
    utils = torch_itself().utils.data
    if not isinstance(loader, utils.DataLoader):
        raise TypeError(f"loader must be a torch.utils.data.DataLoader, but it is a {kind(loader)}.")
    if isinstance(loader.dataset, utils.IterableDataset):
        raise UnsupportedError(
            "the loader's dataset must have a length and be indexed, but it is an IterableDataset; collect its "
            "samples in a TensorDataset."
        )
    cutter, samples = loader.batch_sampler, len(loader.dataset)
    if cutter is None:
        raise UnsupportedError(
            "the loader must make batches, but its batch_size is None; give a batch_size, or batch_size=1."
        )
    if isinstance(cutter, (list, tuple)):
        batches = [[int(row) for row in batch] for batch in cutter]
        count, named = sum(map(len, batches)), len({row for batch in batches for row in batch})
        if named != samples or count != samples:
            raise UnsupportedError(
                f"a list of batches must name each of the {samples} samples once, but it names {count}, "
                f"of which {named} are different."
            )
        return LoaderOrder(Cyclic, Cyclic(batches), samples)
    if getattr(cutter, "num_samples", None) == samples and hasattr(cutter, "sample_rate"):
        # Opacus' Poisson batches, by the attributes of their sampler; a step of theirs may take any rows.
        rate = float(cutter.sample_rate)
        return LoaderOrder(PoissonSampling, Cyclic(batch_size=1), samples, rate=rate, steps=len(cutter))
    if type(cutter) is not utils.BatchSampler:
        raise UnsupportedError(
            f"the loader's batch_sampler must be torch's own, or a list of lists of rows, but it is a "
            f"{kind(cutter)}, whose order cannot be read off; describe it by a scheme of reshuffle."
        )
    scheme: type[Scheme] = SampleReshuffling
    sampler, weights = cutter.sampler, None
    if type(sampler) is utils.SequentialSampler:
        scheme = Cyclic
    elif type(sampler) is utils.SubsetRandomSampler:
        samples = len(sampler)
    elif type(sampler) not in (utils.RandomSampler, utils.WeightedRandomSampler):
        raise UnsupportedError(
            "the loader's sampler must be a SequentialSampler, RandomSampler, SubsetRandomSampler or "
            f"WeightedRandomSampler, but it is a {kind(sampler)}; describe it by a scheme of reshuffle."
        )
    elif sampler.num_samples != samples:
        raise UnsupportedError(
            f"the loader's sampler must draw as many samples as there are, {samples}, but its num_samples is "
            f"{sampler.num_samples}."
        )
    elif sampler.replacement:
        scheme, weights = SampleWithReplacement, getattr(sampler, "weights", None)
    elif type(sampler) is utils.WeightedRandomSampler:
        raise UnsupportedError(
            "a WeightedRandomSampler must draw with replacement, but its replacement is False: large weights "
            "then come first, not more often; use replacement=True."
        )
    cut = Cyclic(batch_size=cutter.batch_size, drop_last=bool(cutter.drop_last))
    # Refused here if there are fewer rows than a batch takes, and these are dropped.
    cut.sizes(samples)
    return LoaderOrder(scheme, cut, samples, weights=None if weights is None else tuple(weights.tolist()))


def _outputs(loader: Any, given: int | None) -> int:
    """Numbers per target, over which nn.MSELoss averages as over the rows."""
    if given is not None:
        return _arrays.whole_number("outputs", given, 1)
    sample = loader.dataset[0]
    if not (isinstance(sample, (list, tuple)) and len(sample) == 2):
        length = f" of {len(sample)}" if isinstance(sample, (list, tuple)) else ""
        raise UnsupportedError(
            "the loader's dataset must hold pairs (features, target), but its first entry is "
            f"a {kind(sample)}{length}."
        )
    target = np.asarray(sample[1])
    if target.dtype.kind in "iub":
        raise ValueError(
            "outputs must be given where targets are whole numbers, as classes are: for ten classes, outputs=10."
        )
    return int(target.size)


def _schedule(scheduler: Any, optimizer: Any, unit: float, per: str) -> StepSchedule:
    """The steps of a scheduler, which is stepped per epoch or per visit, in units of the step of lr=1."""
    torch = torch_itself()
    per = _arrays.choice("per", per, COUNTED)
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise UnsupportedError(
            "the scheduler must set learning rates that are known beforehand, but ReduceLROnPlateau waits for what "
            "training measures; give the steps as a schedule of reshuffle.schedules."
        )
    if not isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler):
        raise TypeError(f"scheduler must be one of torch.optim.lr_scheduler, but it is a {kind(scheduler)}.")
    if scheduler.optimizer is not optimizer:
        raise ValueError(
            "scheduler must set the learning rate of this optimizer, but it was made for another one."
        )
    if done := _steps_done(scheduler):
        raise ValueError(f"scheduler must be as it was made, but it was stepped {done} times; make it anew.")
    if not (type(scheduler).__module__.startswith("torch.") and kind(scheduler) in _KNOWN):
        return RecordedRates(scheduler, unit, per)
    made, names = _KNOWN[kind(scheduler)]
    given = [getattr(scheduler, name) * (unit if name == "eta_min" else 1) for name in names]
    return made(unit * float(scheduler.base_lrs[0]), *given, per=per)


def _steps_done(scheduler: Any) -> int:
    """The number of steps of a scheduler; a ChainedScheduler leaves the counting to its parts."""
    if hasattr(scheduler, "last_epoch"):
        return int(scheduler.last_epoch)
    return max(map(_steps_done, scheduler._schedulers))


class RecordedRates(StepSchedule):
    """The learning rates of any scheduler, found by stepping a copy of it with an optimizer that does nothing."""

    def __init__(self, scheduler: Any, unit: float, per: str):
        torch = torch_itself()
        self._unit, self._per, self._name = unit, per, kind(scheduler)
        group = scheduler.optimizer.param_groups[0]
        idle = torch.optim.SGD([{**group, "params": [torch.zeros(1)]}])
        # Copies of the scheduler's parts, and of the schedulers that it consists of, share the idle optimizer.
        self._copy = copy.deepcopy(scheduler, {id(scheduler.optimizer): idle})
        self._group, self._constant = idle.param_groups[0], {name: group[name] for name in _CONSTANT}
        self._rates = [float(self._group["lr"])]
        self._last: float = float(getattr(scheduler, "total_steps", None) or "inf")
        self._record(1)

    def __repr__(self) -> str:
        return f"the learning rates of {self._name} per {self._per}"

    @property
    def per(self) -> str:
        """The unit of counting: "epoch" or "visit"."""
        return self._per

    @property
    def length(self) -> float:
        """The number of steps: OneCycleLR ends."""
        return self._last

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        self._record(count)
        return self._unit * self._rates[count]

    def _record(self, count: int) -> None:
        while len(self._rates) <= count < self._last:
            # torch warns of schedulers that are stepped where nothing is trained, which is what is done here.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                self._copy.step()
            if any(self._group[name] != value for name, value in self._constant.items()):
                raise UnsupportedError(
                    f"the scheduler must change the learning rate alone, but {self._name} changes the momentum "
                    "too; make it with cycle_momentum=False."
                )
            self._rates.append(float(self._group["lr"]))
