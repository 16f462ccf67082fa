"""Training loops of torch, read off its objects, against really running them."""

from itertools import product

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler as lr
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import reshuffle as rs
from reshuffle.torch import recipe
from tests.looped import for_all, pairwise

EPOCHS = 3


def posed(n=11, p=4, outputs=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    y = rng.standard_normal(n if outputs is None else (n, outputs))
    return rs.LeastSquares(X, y)


def data_of(problem):
    return TensorDataset(torch.tensor(problem.X), torch.tensor(problem.y))


def head_of(problem):
    """A linear model that begins at zero, with an axis of outputs only where the responses have one."""
    shape = (problem.p,) if problem.outputs is None else (problem.p, problem.outputs)
    return torch.zeros(shape, dtype=torch.float64, requires_grad=True)


def trained(
    weights, optimizer, loader, scheduler=None, loss=torch.nn.functional.mse_loss, per="epoch", epochs=EPOCHS
):
    for _ in range(epochs):
        for features, responses in loader:
            optimizer.zero_grad()
            loss(features @ weights, responses).backward()
            optimizer.step()
            if scheduler and per == "visit":
                scheduler.step()
        if scheduler and per == "epoch":
            scheduler.step()
    return weights.detach().numpy()


LOADERS = {
    "in order": lambda data: DataLoader(data, batch_size=4),
    "in order, last dropped": lambda data: DataLoader(data, batch_size=4, drop_last=True),
    "all at once": lambda data: DataLoader(data, batch_size=100),
    "one batch of some": lambda data: DataLoader(data, batch_size=7, drop_last=True),
    "a batch sampler of torch": lambda data: DataLoader(
        data, batch_sampler=BatchSampler(SequentialSampler(data), 3, drop_last=False)
    ),
    "a list of batches": lambda data: DataLoader(
        data, batch_sampler=[[3, 1, 0], [2, 4, 5, 6], [10, 9, 8, 7]]
    ),
}
SETTINGS = [
    {},
    {"weight_decay": 0.3},
    {"momentum": 0.7, "weight_decay": 0.1},
    {"momentum": 0.5, "nesterov": True},
    # Without momentum torch makes no use of it.
    {"dampening": 0.4},
]


@for_all("name, settings, outputs, reduction", pairwise([*LOADERS], SETTINGS, [None, 3], ["mean", "sum"]))
def test_loops_without_chance_are_followed_to_the_last_digit(name, settings, outputs, reduction):
    problem = posed(outputs=outputs)
    weights, loader = head_of(problem), LOADERS[name](data_of(problem))
    optimizer = torch.optim.SGD([weights], lr=0.03, **settings)
    loss = torch.nn.MSELoss(reduction=reduction)
    loop = recipe(optimizer, loader, loss=loss)
    found = loop.descend(problem).iterate(EPOCHS)
    np.testing.assert_allclose(trained(weights, optimizer, loader, loss=loss), found, rtol=0, atol=1e-11)


SCHEDULERS = {
    "StepLR": lambda o: lr.StepLR(o, 2, 0.4),
    "ExponentialLR": lambda o: lr.ExponentialLR(o, 0.8),
    "CosineAnnealingLR": lambda o: lr.CosineAnnealingLR(o, 5, 0.01),
    "LinearLR": lambda o: lr.LinearLR(o, 0.2, 0.9, 4),
    "ConstantLR": lambda o: lr.ConstantLR(o, 0.3, 2),
    "OneCycleLR": lambda o: lr.OneCycleLR(o, 0.05, total_steps=20, cycle_momentum=False),
    "CyclicLR": lambda o: lr.CyclicLR(o, 0.01, 0.05, 2, cycle_momentum=False),
    "MultiStepLR": lambda o: lr.MultiStepLR(o, [1, 4], 0.5),
    "PolynomialLR": lambda o: lr.PolynomialLR(o, 12, 2.0),
    "LambdaLR": lambda o: lr.LambdaLR(o, lambda count: 1 / (1 + count)),
    "MultiplicativeLR": lambda o: lr.MultiplicativeLR(o, lambda count: 0.9),
    "CosineAnnealingWarmRestarts": lambda o: lr.CosineAnnealingWarmRestarts(o, 2, 2),
    "SequentialLR": lambda o: lr.SequentialLR(o, [lr.LinearLR(o, 0.1, 1.0, 2), lr.StepLR(o, 2, 0.5)], [2]),
    "ChainedScheduler": lambda o: lr.ChainedScheduler([lr.ConstantLR(o, 0.5, 2), lr.ExponentialLR(o, 0.9)]),
}


@for_all("name, per", product(SCHEDULERS, ["epoch", "visit"]))
@pytest.mark.filterwarnings("ignore:The epoch parameter in `scheduler.step:UserWarning")
def test_schedulers_are_followed_to_the_last_digit(name, per):
    problem = posed(outputs=2)
    weights, loader = head_of(problem), LOADERS["in order"](data_of(problem))
    optimizer = torch.optim.SGD([weights], lr=0.04, weight_decay=0.1, momentum=0.3)
    scheduler = SCHEDULERS[name](optimizer)
    run = recipe(optimizer, loader, scheduler, per=per).descend(problem)
    found = run.iterate([1, EPOCHS])
    ends = [
        trained(weights, optimizer, loader, scheduler, per=per, epochs=more).copy()
        for more in (1, EPOCHS - 1)
    ]
    np.testing.assert_allclose(ends, found, rtol=0, atol=1e-11)


class PoissonBatches:
    """Opacus' UniformWithReplacementSampler: every sample in every step with probability sample_rate."""

    def __init__(self, num_samples, sample_rate, generator):
        self.num_samples, self.sample_rate, self.generator = num_samples, sample_rate, generator

    def __len__(self):
        return int(1 / self.sample_rate)

    def __iter__(self):
        for _ in range(len(self)):
            drawn = torch.rand(self.num_samples, generator=self.generator) < self.sample_rate
            yield drawn.nonzero().flatten().tolist()


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("kind", ["weighted", "Poisson"])
def test_drawn_loops_are_followed_in_mean_and_in_spread(kind, reduction):
    problem, seeds = posed(n=24, p=3), 400
    data, ends, loss = data_of(problem), [], torch.nn.MSELoss(reduction=reduction)
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(seed)
        if kind == "weighted":
            sampler = WeightedRandomSampler(torch.arange(1.0, 25.0), 24, generator=generator)
            loader = DataLoader(data, batch_size=8, sampler=sampler)
        else:
            loader = DataLoader(data, batch_sampler=PoissonBatches(24, 0.5, generator))
        weights = head_of(problem)
        optimizer = torch.optim.SGD([weights], lr=0.2 if reduction == "mean" else 0.01, momentum=0.3)
        ends.append(trained(weights, optimizer, loader, loss=loss).copy())
    loop = recipe(optimizer, loader, loss=loss)
    expected = {"weighted": rs.WeightedSampling(np.arange(1, 25), batch_size=8)}.get(
        kind, rs.PoissonSampling(0.5, normalize="own" if reduction == "mean" else "equal")
    )
    assert loop.scheme == expected
    run = loop.descend(problem)
    away, error = np.mean(ends, axis=0) - run.iterate(EPOCHS), np.std(ends, axis=0, ddof=1) / np.sqrt(seeds)
    assert (np.abs(away) <= 4 * error).all()
    assert error.min() > 1e-4
    squares = np.square(ends - run.iterate(EPOCHS))
    deviation = np.abs(squares.mean(axis=0) - np.diagonal(run.covariance(EPOCHS).matrix))
    assert (deviation <= 4 * squares.std(axis=0) / np.sqrt(seeds)).all()


def test_what_is_read_is_shown_and_left_as_it_was():
    problem = posed(n=40, outputs=4)
    optimizer = torch.optim.SGD([head_of(problem)], lr=0.1, momentum=0.9, weight_decay=0.01)
    data = data_of(problem)
    loop = recipe(optimizer, DataLoader(data, batch_size=8, shuffle=True))
    # tests/interop trains with torch in both of these ways.
    for replacement, scheme in ((False, rs.SampleReshuffling), (True, rs.SampleWithReplacement)):
        for cut in ({"batch_size": 8}, {"batch_size": 12, "drop_last": True}):
            loader = DataLoader(data, sampler=RandomSampler(data, replacement=replacement), **cut)
            assert recipe(optimizer, loader).scheme == scheme(**cut)
    assert loop.scheme == rs.SampleReshuffling(batch_size=8)
    found = loop.recipe.schedule, loop.recipe.penalty, loop.recipe.momentum
    assert found == pytest.approx((0.05, 0.02, 0.9))
    subset = DataLoader(data, batch_size=8, sampler=SubsetRandomSampler(range(16)))
    assert recipe(optimizer, subset).samples == 16
    shown = repr(recipe(optimizer, subset, SCHEDULERS["CyclicLR"](optimizer)).recipe)
    assert shown.startswith("step=the learning rates of CyclicLR per epoch")
    scheduler = SCHEDULERS["SequentialLR"](optimizer)
    before = scheduler.state_dict()["last_epoch"], optimizer.param_groups[0]["lr"]
    recipe(optimizer, LOADERS["in order"](data), scheduler).descend(problem).iterate(30)
    assert (scheduler.state_dict()["last_epoch"], optimizer.param_groups[0]["lr"]) == before


class Stream(IterableDataset):
    """Samples that nobody can count."""

    def __iter__(self):
        return iter([])


class Own(torch.optim.SGD):
    """It may do anything in its steps."""


class RotatingSampler(SequentialSampler):
    """It may draw in any order."""


def sgd(**settings):
    return {"optimizer": lambda weights: torch.optim.SGD(weights, lr=0.1, **settings)}


def loads(**arguments):
    """A loader of which some arguments are made from the data."""
    made = {
        name: value if callable(value) else lambda data, value=value: value
        for name, value in arguments.items()
    }
    return {"loader": lambda data: DataLoader(data, **{name: make(data) for name, make in made.items()})}


def two_rates(weights):
    return torch.optim.SGD([{"params": weights}, {"params": [torch.zeros(1)], "lr": 1.0}], lr=0.1)


def stepped(optimizer):
    scheduler = lr.StepLR(optimizer, 2)
    optimizer.step()
    scheduler.step()
    return scheduler


OTHER = torch.optim.SGD([torch.zeros(1)], lr=1.0)
CYCLE = {"scheduler": lambda o: lr.OneCycleLR(o, 0.05, total_steps=20)}
SUM = {"loss": torch.nn.MSELoss(reduction="sum")}


@for_all(
    "match, arguments",
    [
        ("Adam", {"optimizer": torch.optim.Adam}),
        ("Own", {"optimizer": lambda weights: Own(weights, lr=0.1)}),
        ("dampening", sgd(momentum=0.9, dampening=0.5)),
        ("maximize", sgd(maximize=True)),
        ("same lr", {"optimizer": two_rates}),
        ("IterableDataset", {"loader": lambda data: DataLoader(Stream(), batch_size=2)}),
        ("batch_size is None", loads(batch_size=None)),
        (
            "its replacement is False",
            loads(sampler=lambda data: WeightedRandomSampler([1.0] * 11, 11, False)),
        ),
        ("RotatingSampler", loads(sampler=RotatingSampler)),
        ("num_samples is 5", loads(sampler=lambda data: RandomSampler(data, num_samples=5))),
        ("names 3, of which 2", loads(batch_sampler=[[0, 1], [1]])),
        ("pairs", {"loader": lambda data: DataLoader(TensorDataset(data.tensors[0]), batch_size=2)}),
        ("ReduceLROnPlateau", {"scheduler": lr.ReduceLROnPlateau}),
        ("momentum", {**sgd(momentum=0.9), **CYCLE}),
        ("CrossEntropyLoss", {"loss": torch.nn.CrossEntropyLoss()}),
        ("huber_loss", {"loss": torch.nn.functional.huber_loss}),
        ("reduction", {"loss": torch.nn.MSELoss(reduction="none")}),
        (
            "one size",
            {**loads(batch_size=4, sampler=lambda data: RandomSampler(data, replacement=True)), **SUM},
        ),
        ("optimizer must be", {"optimizer": lambda weights: 3}),
        ("loader must be", {"loader": lambda data: [1, 2]}),
        ("scheduler must be", {"scheduler": lambda o: 3}),
        ("batch_size must be", loads(batch_size=12, drop_last=True)),
        ("made for another", {"scheduler": lambda o: lr.StepLR(OTHER, 2)}),
        ("per must be", {"scheduler": lambda o: lr.StepLR(o, 2), "per": "batch"}),
        ("stepped 1 times", {"scheduler": stepped}),
    ],
)
def test_what_cannot_be_described_exactly_is_refused_by_name(match, arguments):
    problem, asked = (
        posed(),
        {**sgd(), "loader": LOADERS["in order"], "scheduler": lambda o: None, **arguments},
    )
    optimizer = asked.pop("optimizer")([head_of(problem)])
    read, scheduler = asked.pop("loader")(data_of(problem)), asked.pop("scheduler")(optimizer)
    is_wrong = match.endswith("must be") or match in ("made for another", "stepped 1 times")
    with pytest.raises((TypeError, ValueError) if is_wrong else rs.UnsupportedError, match=match):
        recipe(optimizer, read, scheduler, **asked)


def test_problems_of_another_shape_are_refused():
    problem = posed()
    loop = recipe(torch.optim.SGD([head_of(problem)], lr=0.1), LOADERS["in order"](data_of(problem)))
    for other, words in (
        (posed(n=12), "11 rows of the loader, but it has 12"),
        (posed(outputs=2), "1 outputs"),
    ):
        with pytest.raises(ValueError, match=words):
            loop.descend(other)
