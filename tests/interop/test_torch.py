"""torch.optim.SGD, DataLoader, AveragedModel, MLPRegressor and SGDRegressor against the exact answers."""

import numpy as np
import pytest
from sklearn.linear_model import SGDRegressor
from torch.optim import lr_scheduler as lr

import reshuffle as rs
from tests.interop.training import agree, both, mlp_runs, problem, spread_agrees
from tests.looped import for_all, pairwise

BOTH = {"momentum": 0.6, "weight_decay": 0.1}
NESTEROV = {"momentum": 0.6, "nesterov": True}
IN_ORDER = [
    *(
        (problem(n, 6), size, {"cut": {"drop_last": drop}, **recipe})
        for (n, size), drop, recipe in pairwise(
            [(12, 4), (14, 4), (5, 5)], [False, True], [{}, {"momentum": 0.7}, {"weight_decay": 0.2}, BOTH]
        )
    ),
    *((problem(n, p), 4, {**NESTEROV, **more}) for n, p in [(14, 6), (5, 9)] for more in ({}, BOTH)),
    *(
        (problem(n, p, intercept=True), 4, {"weight_decay": 0.8, "unpenalized": [-1], **momentum})
        for (n, p), momentum in pairwise([(14, 5), (6, 9)], [{}, {"momentum": 0.6}, NESTEROV])
    ),
    # The buffer of momentum is handed on from stage to stage, and so is the count of a schedule.
    (problem(14, 6), [(3, 2), (2, 5)], {**BOTH, "epochs": 5}),
    (problem(5, 9), [(3, 2), (2, 5)], {**BOTH, "epochs": 5}),
    (
        problem(14, 6),
        [(2, 4), (2, 7)],
        {
            "momentum": 0.5,
            "epochs": 4,
            "scheduler": lambda optimizer: lr.ExponentialLR(optimizer, 0.9),
            "per": "visit",
            "step": rs.schedules.ExponentialDecay(0.06, 0.9, per="visit"),
        },
    ),
]


@for_all("least_squares, size, recipe", IN_ORDER)
def test_without_shuffling_it_is_cyclic_to_the_last_digit(least_squares, size, recipe):
    recipe = {"epochs": 3, "lr": 0.03, **recipe}
    ends, run = both(least_squares, "order", size, **recipe)
    np.testing.assert_allclose(ends[0], run.iterate(recipe["epochs"]), rtol=0, atol=1e-13)


MORE = {"momentum": 0.6, "weight_decay": 0.2, "lr": 0.1}
CYCLE = {
    "scheduler": lambda optimizer: lr.OneCycleLR(optimizer, 0.2, total_steps=9, cycle_momentum=False),
    "per": "visit",
    "step": rs.schedules.OneCycle(0.4, total=9, per="visit"),
    "momentum": 0.3,
    "lr": 0.2,
    "runs": 200,
}
SHUFFLED = {
    "short last batch": ((11, 4), "batches", 3, {"lr": 0.1, "momentum": 0.7}),
    "batches, Nesterov": ((12, 4), "batches", 3, {**MORE, "nesterov": True}),
    "batches, a group without decay": (
        (12, 3),
        "batches",
        3,
        {**MORE, "weight_decay": 0.6, "unpenalized": [-1]},
    ),
    "batches, a schedule": (
        (12, 4),
        "batches",
        4,
        {
            "lr": 0.15,
            "scheduler": lambda optimizer: lr.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch)),
            "step": lambda epoch: 0.3 / (1 + epoch),
        },
    ),
    "batches, one cycle": ((10, 3), "batches", 4, CYCLE),
    "stages of batches": ((12, 4), "batches", [(2, 3), (2, 6)], {**MORE, "epochs": 4, "runs": 200}),
    "samples, the last dropped": (
        (10, 3),
        "samples",
        4,
        {"lr": 0.15, "runs": 400, "cut": {"drop_last": True}},
    ),
    "samples, Nesterov": ((10, 3), "samples", 4, {"lr": 0.1, "momentum": 0.5, "nesterov": True, "runs": 200}),
    "samples, one cycle": ((10, 3), "samples", 4, CYCLE),
    "stages of samples": ((20, 3), "samples", [(2, 4), (1, 10)], {"lr": 0.1, "runs": 200, "rtol": 0.05}),
}


@pytest.mark.parametrize("name", SHUFFLED)
def test_shuffling(name):
    shape, kind, size, recipe = SHUFFLED[name]
    least_squares = problem(*shape, intercept="unpenalized" in recipe)
    recipe = {"epochs": 3, "runs": 300, **recipe}
    ends, run = both(least_squares, kind, size, **recipe)
    risks, expected = agree(least_squares, ends, run, recipe["epochs"])
    # The agreement would mean little if runs did not differ.
    assert float(expected.spread) > 1e-3
    assert risks.std() > 1e-3


@for_all(
    "kind, recipe",
    [
        *((kind, recipe) for kind in ("batches", "samples", "replacement") for recipe in ({}, MORE)),
        ("subsets", {}),
    ],
)
def test_runs_and_their_predictions_spread_as_in_torch(kind, recipe):
    least_squares = problem(12 if kind == "subsets" else 11, 3)
    ends, run = both(least_squares, kind, 4, epochs=3, runs=200, **{**recipe, "lr": 0.08})
    agree(least_squares, ends, run, 3)
    spread_agrees(least_squares, ends, run, 3, np.random.default_rng(1).standard_normal((5, 3)))


AVERAGES = [
    rs.EMA(0.7),
    rs.EMA(0.9, per="visit"),
    rs.TailAverage(start=1),
    rs.TailAverage(start=2, per="visit"),
]


@for_all("average, recipe", [(average, recipe) for average in AVERAGES for recipe in ({}, BOTH)])
def test_averages_without_shuffling(average, recipe):
    ends, run = both(problem(14, 6), "order", 4, epochs=4, lr=0.03, average=average, **recipe)
    np.testing.assert_allclose(ends[0], run.iterate(4), rtol=0, atol=1e-12)


@for_all("average", AVERAGES[:2])
def test_an_average_that_copies_its_first_iterate_differs_by_what_is_left_of_the_first_step(average):
    least_squares = problem(14, 6)
    (end,), run = both(least_squares, "order", 4, epochs=4, lr=0.03, average=average, copies_start=False)
    first, updates = rs.descend(least_squares, rs.Cyclic(batch_size=4), step=0.06).iterate(1), 4
    if average.per == "visit":
        first, updates = 0.06 * least_squares.X[:4].T @ least_squares.y[:4] / 4, 16
    np.testing.assert_allclose(end - run.iterate(4), average.decay**updates * first, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("average", AVERAGES, ids=repr)
@pytest.mark.parametrize(
    ("shape", "kind", "size", "recipe"),
    [
        ((12, 4), "batches", 3, {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.2}),
        ((10, 3), "samples", 4, {"lr": 0.15, "rtol": 1e-3}),
    ],
    ids=["batches", "samples"],
)
def test_averages_of_shuffled_runs(average, shape, kind, size, recipe):
    least_squares = problem(*shape)
    ends, run = both(least_squares, kind, size, epochs=4, runs=200, average=average, **recipe)
    _, expected = agree(least_squares, ends, run, 4)
    assert float(expected.spread) > 1e-4


EPOCHS = 3


@for_all(
    "n, recipe", [(12, {}), (14, {}), (14, {"momentum": 0.7}), (14, {"momentum": 0.7, "nesterov": True})]
)
def test_mlp_without_shuffling_is_cyclic_to_the_last_digit(n, recipe):
    least_squares = problem(n, 4, intercept=True)
    ends = mlp_runs(least_squares, epochs=EPOCHS, runs=1, lr=0.05, batch_size=4, shuffle=False, **recipe)
    run = rs.descend(least_squares, rs.Cyclic(batch_size=4), step=0.05, **recipe)
    np.testing.assert_allclose(ends[0], run.iterate(EPOCHS), rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "batch_size"), [(9, 3), (10, 4)])
def test_mlp_shuffles_samples(n, batch_size):
    least_squares = problem(n, 2, intercept=True)
    ends = mlp_runs(least_squares, epochs=EPOCHS, runs=400, lr=0.2, batch_size=batch_size, shuffle=True)
    run = rs.descend(least_squares, rs.SampleReshuffling(batch_size=batch_size), step=0.2)
    agree(least_squares, ends, run, EPOCHS)


def sgd_regressor(least_squares, *, alpha, intercept=False, epochs=EPOCHS, **shuffle):
    settings = {"learning_rate": "constant", "eta0": 0.05, "max_iter": epochs, "tol": None, **shuffle}
    model = SGDRegressor(alpha=alpha, fit_intercept=intercept, **settings)
    model.fit(least_squares.X[:, :-1] if intercept else least_squares.X, least_squares.y)
    return np.concatenate([model.coef_, model.intercept_ if intercept else []])


@for_all("alpha, intercept", [(0.0, False), (0.3, False), (0.3, True)])
def test_sgd_regressor_is_cyclic_over_single_samples_and_does_not_penalize_its_intercept(alpha, intercept):
    least_squares = problem(15, 4, intercept=intercept)
    end = sgd_regressor(least_squares, alpha=alpha, intercept=intercept, shuffle=False)
    free = {"unpenalized": [-1]} if intercept else {}
    run = rs.descend(least_squares, rs.Cyclic(batch_size=1), step=0.05, penalty=alpha, **free)
    np.testing.assert_allclose(end, run.iterate(EPOCHS), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_sgd_regressor_reshuffles_single_samples_in_its_first_epoch(alpha):
    """Later epochs apply the same permutation again, to the order of the epoch before: no scheme of ours."""
    least_squares = problem(7, 3)
    ends = np.array(
        [sgd_regressor(least_squares, alpha=alpha, epochs=1, random_state=seed) for seed in range(2000)]
    )
    run = rs.descend(least_squares, rs.RandomReshuffling(batch_size=1), step=0.05, penalty=alpha)
    agree(least_squares, ends, run, 1)
