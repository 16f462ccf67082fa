"""What comes in at the door: huge numbers, flags, tensors, schemes without brackets; errors with fields."""

import inspect
import pickle

import numpy as np
import pytest
import torch

import reshuffle as rs
from reshuffle import _arrays
from tests.looped import for_all
from tests.problems import close

X = np.arange(12.0).reshape(6, 2)
y = np.ones(6)
known = rs.LeastSquares(X, y, beta_star=[1, 1], noise=1.0)


def test_epoch_zero_stays_where_it_is_beside_a_huge_one():
    run = rs.descend(rs.gaussian(20, 5, seed=0), rs.RandomReshuffling(batches=2), step=0.1)
    huge = run.risk([0, 10**15]).total
    close(huge, [run.risk(0).total, run.risk(1e15).total])
    assert huge[0] != huge[1]


def test_whole_numbers_keep_their_last_digit():
    assert _arrays.whole_number("seed", 2**53 + 1, 0) == 2**53 + 1
    assert _arrays.whole_number("seed", np.array(7.0), 0) == 7
    one, other = (rs.gaussian(3, 2, seed=seed).y for seed in (2**53, 2**53 + 1))
    assert (one != other).all()


_ARGUMENTS = {
    "problem": known,
    "scheme": rs.RandomReshuffling(batches=2),
    "step": 0.1,
    "epochs": 2,
    "runs": 4,
    "batch_size": 2,
    "X_new": np.ones((1, known.p)),
    "X": known.X,
    "y": np.arange(known.n),
    "schemes": [rs.RandomReshuffling(batches=2)],
    "peak": 0.1,
    "total": 5,
    "over": {"momentum": [0.0]},
    "rows": 2,
    "weights": np.ones(known.n),
}
_RUNS = {"Run": rs.RandomReshuffling(batches=2)}


def _public_callables():
    """Every function, constructor and method of the package that a user calls, as (name, callable)."""
    for name in (each for each in rs.__all__ if each not in rs._PACKAGES):
        item = getattr(rs, name)
        if inspect.ismodule(item):
            yield from ((f"{name}.{inner}", getattr(item, inner)) for inner in item.__all__)
            continue
        is_scheme = inspect.isclass(item) and issubclass(item, rs.Scheme) and not inspect.isabstract(item)
        if is_scheme or not inspect.isclass(item):
            yield name, item
        elif name in _RUNS:
            run = rs.descend(known, _RUNS[name], step=0.1)
            assert type(run) is item
            for method, _ in inspect.getmembers(item, inspect.isfunction):
                if not method.startswith("_"):
                    yield f"{name}.{method}", getattr(run, method)


def _flags():
    for name, item in _public_callables():
        for parameter in inspect.signature(item).parameters.values():
            if isinstance(parameter.default, bool) or parameter.annotation in (bool, bool | None):
                yield pytest.param(item, parameter.name, id=f"{name}-{parameter.name}")


@for_all(
    "item, flag, value",
    [(*given.values, value) for given in _flags() for value in ("no", "", 0, 1, np.array(True), [True])],
)
def test_every_flag_is_true_or_false(item, flag, value):
    parameters = inspect.signature(item).parameters
    # Rows come with responses, though a problem may stand in the place of both.
    usual = {"batch_size", "step", *({"y"} if "X" in parameters else ())}
    wanted = {
        name: _ARGUMENTS[name]
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty or name in usual
    }
    with pytest.raises(ValueError, match=f"{flag} must be True or False, but it is"):
        item(**wanted, **{flag: value})


def test_a_schedule_that_requires_a_gradient_is_taken_without_it():
    steps = torch.tensor([0.001, 0.002], dtype=torch.float64, requires_grad=True)
    scheduled = rs.descend(known, rs.FullBatch(), step=steps).iterate(2)
    close(scheduled, rs.descend(known, rs.FullBatch(), step=[0.001, 0.002]).iterate(2))


def test_a_schedule_that_is_not_rectangular():
    with pytest.raises(ValueError, match="step must be a rectangular array of numbers"):
        rs.descend(known, rs.FullBatch(), step=[[0.1], [0.1, 0.2]])
    with pytest.raises(ValueError, match="order must be a rectangular array of numbers"):
        rs.Cyclic(batches=3, order=[[0], [1, 2]])


@for_all(
    "kind, made",
    [
        (rs.FullBatch, r"FullBatch\(\) in place of FullBatch"),
        (rs.RandomReshuffling, r"RandomReshuffling\(batches=4\) in place of RandomReshuffling"),
        (rs.SampleWithReplacement, r"SampleWithReplacement\(batch_size=32\) in place of"),
    ],
)
def test_a_scheme_without_brackets(kind, made):
    for ask in (
        lambda: rs.descend(known, kind, step=0.1),
        lambda: rs.critical_step(known, kind, mean_square=False),
        lambda: rs.simulate(known, kind, step=0.1, epochs=1, runs=4),
    ):
        with pytest.raises(TypeError, match=f"scheme must be made before it is used: {made}"):
            ask()


def test_an_argument_error_has_fields_and_survives_another_process():
    with pytest.raises(ValueError, match="batches must be a whole number between 1 and 3") as caught:
        rs.RandomReshuffling(batches=7).steps(3)
    error = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(error, rs.ArgumentError)
    assert (error.argument, error.given) == ("batches", "it is 7")
    assert error.worded({"batches": "--batches"}).startswith("--batches must be")
    assert str(error) == str(caught.value)


def test_alternatives_that_a_front_end_has_no_word_for_are_left_out():
    problem = rs.gaussian(30, 4, seed=0)
    with pytest.raises(rs.BudgetError) as caught:
        _ = rs.descend(problem, rs.RandomReshuffling(batches=30), alpha=0.1, method="exact").risk(1)
    assert str(caught.value).endswith('; try fewer batches or descend(..., method="auto").')
    assert caught.value.worded({}).endswith("; try fewer batches.")
    assert pickle.loads(pickle.dumps(caught.value)).hint == caught.value.hint
