"""Bad input: an error that names the argument, the allowed range and the value."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.sparse.linalg import aslinearoperator

import reshuffle as rs
from reshuffle.errors import UnsupportedError
from tests.looped import for_all

X = np.arange(12.0).reshape(6, 2)
y = np.ones(6)
problem = rs.LeastSquares(X, y)
known = rs.LeastSquares(X, y, beta_star=[1, 1], noise=1.0)


@for_all(
    "arguments, message",
    [
        ({"X": [[1.0, math.nan]], "y": [1.0]}, r"X must be finite, but X\[0, 1\] is nan"),
        ({"X": [[1.0, math.inf]], "y": [1.0]}, r"X must be finite, but X\[0, 1\] is inf"),
        ({"X": [1.0, 2.0], "y": [1.0, 2.0]}, r"X must be two-dimensional, .* shape is \(2,\)"),
        ({"X": X.reshape(2, 3, 2), "y": [1.0, 2.0]}, r"\(2, 3, 2\); try X.reshape\(len\(X\), -1\)"),
        ({"X": np.zeros((0, 3)), "y": []}, r"X must have at least one row and one column, .* \(0, 3\)"),
        ({"X": np.zeros((3, 0)), "y": [1, 2, 3]}, r"X must have at least one row and one column"),
        ({"X": X, "y": np.ones(5)}, r"y must have shape \(6,\), one entry per row of X, .* \(5,\)"),
        ({"X": X, "y": [1, 2, 3, 4, 5, math.nan]}, r"y must be finite, but y\[5\] is nan"),
        ({"X": X, "y": y, "beta_star": [1.0]}, r"beta_star must have shape \(2,\)"),
        ({"X": X, "y": y, "beta_star": [1.0, math.inf]}, r"beta_star must be finite"),
        ({"X": X, "y": y, "noise": -1.0}, r"noise must be a finite number >= 0, but it is -1.0"),
        ({"X": X, "y": y, "noise": math.nan}, r"noise must be a finite number >= 0, but it is nan"),
        ({"X": X, "y": y, "covariance": np.eye(3)}, r"covariance must be .* but its shape is \(3, 3\)"),
        ({"X": X, "y": y, "covariance": [1, 2, 3]}, r"covariance must be .* but its shape is \(3,\)"),
        ({"X": X, "y": y, "covariance": [[1, 2], [0, 1]]}, r"covariance must be symmetric, .* by up to 2"),
        ({"X": X, "y": y, "covariance": [[1, 2], [2, 1]]}, r"positive semidefinite, .* eigenvalue is -1"),
        ({"X": X, "y": y, "covariance": [1, -1]}, r"positive semidefinite, but its diagonal holds -1.0"),
        ({"X": X, "y": y, "covariance": -2.0}, r"covariance must be a finite number >= 0, but it is -2.0"),
        ({"X": X, "y": y, "covariance": aslinearoperator(np.eye(3))}, r"must map R\^2 to itself .* \(3, 3\)"),
        ({"X": X, "y": y, "covariance": aslinearoperator(np.array([[1.0, 9], [0, 1]]))}, "must be symmetric"),
        ({"X": X, "y": y, "covariance": aslinearoperator(-np.eye(2))}, r"must be positive semidefinite"),
        ({"X": [[1, 2], [3]], "y": [1, 2]}, r"X must be a rectangular array of numbers"),
        ({"X": np.ma.masked_equal(X, 3), "y": y}, r"X must have no masked entries"),
        ({"X": X.astype(complex)}, "X must hold real numbers, but its dtype is complex128"),
        *(({"X": value}, "X must hold real numbers") for value in ([["a", "b"]], [["1", "2"]], None)),
        ({"X": pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})}, "X must hold real numbers"),
        ({"X": np.diag([1.0, 1e-150])}, r"column 1 has entries of at most 1e-150"),
        (
            {"X": np.column_stack([np.arange(5.0), 1e-30 * np.arange(5.0) ** 2]), "y": np.ones(5)},
            r"column 1 has entries of at most 2e-29, which are lost next to those of 4",
        ),
        (
            {"X": np.vstack([np.eye(2, 3), [0, 0, 1e-40]]), "y": np.ones(3)},
            "column 2 has entries of at most 1e-40",
        ),
        *(
            ({"X": size * np.eye(2)}, "X must have its largest entry between 1e-152")
            for size in (1e-155, 1e300)
        ),
    ],
)
def test_a_problem_that_is_none(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        _ = rs.LeastSquares(**{"y": [1.0, 2.0], **arguments}).rank


@for_all(
    "batches, message",
    [
        (0, "batches must be a whole number of at least 1, but it is 0"),
        (-3, "batches must be a whole number of at least 1, but it is -3"),
        (2.5, r"batches must be a whole number of at least 1, but it is 2.5"),
        (math.nan, "batches must be a whole number of at least 1, but it is nan"),
        (True, "batches must be a whole number of at least 1, but it is True"),
        ("4", "batches must be a whole number of at least 1, but it is '4'"),
        (None, "batches must be a whole number of at least 1, but it is None"),
        (7, "batches must be a whole number between 1 and 6, the number of rows, but it is 7"),
        ([], "batches must hold at least one index array"),
        ([[0, 1, 2], []], r"batches\[1\] must be a one-dimensional, non-empty array of row indices"),
        ([[0, 1, 2], [3.0, 4, 5]], r"batches\[1\] must be .* dtype float64"),
        ([[0, 1, 2], [2, 3, 4, 5]], "exactly once, but row 2 is in 2 places"),
        ([[0, 1, 2], [3, 4]], "exactly once, but row 5 is in none of them"),
        ([[0, 1, 2], [3, 4, 6]], "row indices in 0..5, but one is 6"),
        ([[0, 1, 2], [3, 4, -1]], "row indices in 0..5, but one is -1"),
        (10**400, "batches must be a whole number of at least 1"),
        ([[0, [1]], [2]], "batches must be a whole number >= 1 or a list of index arrays"),
        ([np.array([0, 1]), np.array([2**63 + 1], dtype=np.uint64)], r"batches\[1\] must hold row indices"),
    ],
)
def test_batches_that_are_none(batches, message):
    for kind in (rs.RandomReshuffling, rs.WithReplacement):
        with pytest.raises((TypeError, ValueError), match=message):
            rs.descend(problem, kind(batches=batches), step=0.1)


@for_all(
    "truth, missing",
    [({}, "beta_star and noise"), ({"noise": 1.0}, "beta_star,"), ({"beta_star": [1, 1]}, "noise,")],
)
def test_asking_for_the_risk_without_the_truth(truth, missing):
    run = rs.descend(rs.LeastSquares(X, y, **truth), rs.FullBatch(), 0.01)
    with pytest.raises(rs.MissingTruthError, match=f"the risk needs {missing}"):
        run.risk(3)
    assert run.best_epoch().criterion == "leave-one-out"
    assert run.limit().risk is None
    assert np.isfinite(run.iterate(3)).all()


@for_all(
    "convert",
    [
        lambda a: a.astype(np.float32),
        lambda a: a.astype(np.int16),
        lambda a: a.tolist(),
        pd.DataFrame,
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: a.astype(object),
        lambda a: a.astype(np.longdouble),
    ],
)
def test_every_kind_of_table_is_accepted_and_left_alone(convert):
    table = convert(X)
    before = pd.DataFrame(table).copy()
    run = rs.descend(rs.LeastSquares(table, pd.Series(y)), rs.RandomReshuffling(batches=3), step=0.001)
    expected = rs.descend(problem, rs.RandomReshuffling(batches=3), step=0.001)
    np.testing.assert_allclose(run.iterate(20), expected.iterate(20), rtol=1e-12)
    assert pd.DataFrame(table).equals(before)


def test_a_column_of_responses_is_one_output():
    problem = rs.LeastSquares(X, y[:, np.newaxis], beta_star=[[1.0], [1.0]])
    assert (problem.y.shape, problem.outputs) == ((6, 1), 1)
    assert rs.descend(problem, rs.FullBatch(), step=0.001).iterate([1, 2]).shape == (2, 2, 1)
    assert rs.LeastSquares(X, y, beta_star=np.ones((2, 1))).beta_star.shape == (2,)


@for_all("size", [1e-12, 1.0, 1e100])
def test_dependent_rows_and_columns_of_any_size_are_accepted(size):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((9, 3))
    table = np.column_stack([table, 1e-12 * table[:, 0], table @ [1, 2, 3], np.zeros(9)])
    table = np.vstack([table, 1e-12 * table[0], table[1]]) * size
    for data in (table, table.T):
        assert rs.LeastSquares(data, np.ones(len(data))).rank == 3


BOTH = rs.RandomReshuffling(batches=2)
FULL = rs.FullBatch()


def falling(epoch):
    return 0.1 / (1 + epoch)


@for_all(
    "arguments, message",
    [
        *(
            ({name: value}, f"{name} must be a finite number >= 0, but it is")
            for name in ("step", "alpha")
            for value in (-0.1, math.nan, math.inf, "0.1", True, 1j, 10**400)
        ),
        ({}, "exactly one of step and alpha must be given"),
        ({"step": 0.1, "alpha": 0.1}, "exactly one of step and alpha must be given"),
        ({"step": [0.1, -0.2, 0.1]}, r"step must hold numbers >= 0, but step\[1\] is -0.2"),
        ({"step": []}, r"step must be a number, a list .* shape is \(0,\)"),
        ({"step": [[0.1]]}, r"step must be a number, a list .* shape is \(1, 1\)"),
        ({"step": [0.1, math.nan]}, r"step must be finite, but step\[1\] is nan"),
        ({"alpha": [0.1, -0.2]}, r"alpha must hold numbers >= 0, but alpha\[1\] is -0.2"),
        ({"step": 0.1, "penalty": -1.0}, "penalty must be a finite number >= 0, but it is -1.0"),
        ({"step": 0.1, "penalty": math.inf}, "penalty must be a finite number >= 0, but it is inf"),
        ({"step": 0.1, "momentum": 1.0}, "momentum must be at least 0 and below 1, but it is 1.0"),
        ({"step": 0.1, "momentum": -0.1}, "momentum must be a finite number >= 0, but it is -0.1"),
        ({"step": 0.1, "momentum": math.nan}, "momentum must be a finite number >= 0, but it is nan"),
        ({"step": 0.1, "start": [1.0]}, r"start must have shape \(2,\), one entry per parameter"),
        ({"lr": 0.1}, r"has no argument 'lr'; write step=lr with .* step=2\*lr with MSELoss\(\)"),
        ({"learning_rate": 0.1}, "write step=learning_rate with"),
        (
            {"step": 0.1, "weight_decay": 0.1},
            "write penalty=weight_decay with .* weight_decay/2 with MSELoss",
        ),
        ({"step": 0.1, "momentun": 0.9}, r"has no argument 'momentun'; did you mean momentum\?"),
    ],
)
def test_recipes_that_are_none(arguments, message):
    """To simulate takes what to compute takes."""
    for function, others in ((rs.descend, {}), (rs.simulate, {"epochs": 1, "runs": 4})):
        with pytest.raises((TypeError, ValueError), match=message):
            function(problem, BOTH, **arguments, **others)


@for_all("question", ["iterate", "risk", "training_loss"])
def test_epochs_that_are_none(question):
    ask = getattr(rs.descend(known, FULL, 0.01), question)
    # Huge whole numbers and fractions are kept as objects by numpy.
    objects = [0, -(10**400)], [-(2**70), 1], [2**70, 0.5], [Fraction(1, 2), 3]
    for value in (-1, 0.5, math.nan, [3, -2], -math.inf, *objects):
        with pytest.raises(ValueError, match=r"epochs must be whole numbers >= 0 or math.inf, but one is"):
            ask(value)
    for value in ("3", None, [True], 3j, [[1], [2, 3]], [True, 2**70], [None, 1], ["3", 2**70]):
        with pytest.raises((TypeError, ValueError), match="epochs must be"):
            ask(value)
    for value in (10**20, [0, 2**70], [2**70, 3, math.inf], [10**400, 0], 1.1e15, [0, 10**15 + 1]):
        with pytest.raises(
            ValueError, match=r"epochs must be at most 1e\+15, or math.inf, but one is .*; ask for"
        ):
            ask(value)
    short = getattr(rs.descend(known, BOTH, step=[0.1, 0.05]), question)
    with pytest.raises(ValueError, match="epochs must be at most 2, the length of the step schedule"):
        short([1, 3])


PLAIN = {"step": 0.1, "epochs": 3, "runs": 10}
ENDLESS = rs.descend(known, BOTH, step=falling)


@for_all(
    "ask, error, message",
    [
        *((ask, TypeError, "problem must be a LeastSquares, but it is a ndarray") for ask in (
            lambda: rs.descend(X, FULL, 0.1), lambda: rs.simulate(X, FULL, **PLAIN),
            lambda: rs.critical_step(X, FULL), lambda: rs.gradient_flow(X),
        )),
        *((ask, TypeError, r"scheme must be a scheme such as .* but it is 4") for ask in (
            lambda: rs.descend(problem, 4, 0.1), lambda: rs.simulate(problem, 4, **PLAIN),
            lambda: rs.critical_step(problem, 4, mean_square=False),
        )),
        *((lambda asked=asked: rs.simulate(known, FULL, **{**PLAIN, **asked}), ValueError, message)
          for asked, message in (
            ({"runs": 3}, "runs must be a whole number between 4 and 1000000000, but it is 3"),
            ({"runs": 5}, r"runs must be even, .* but it is 5"),
            ({"epochs": math.inf}, "epochs must be finite to be simulated"),
            ({"seed": 1.5}, "seed must be a whole number of at least 0, but it is 1.5"),
            ({"step": [0.1, 0.05]}, "epochs must be at most 2, the length of the step schedule"),
        )),
        (lambda: rs.gaussian(3, 2, seed=-1), ValueError, "seed must be a whole number of at least 0, but it is -1"),
        (lambda: rs.descend(problem, FULL, 0.1).epoch.modifier(1), ValueError, "batch must be a whole number"),
        (lambda: rs.gaussian(3, 2, covariance=aslinearoperator(np.eye(2))), TypeError, "covariance must be"),
        (lambda: ENDLESS.risk(math.inf), ValueError, "epochs must be finite under a step schedule.*inf"),
        *((lambda name=name: getattr(ENDLESS, name)(), UnsupportedError, f"^{name} has no answer .* constant step")
          for name in ("limit", "compare_limit", "stability", "mean_square_stability")),
        (lambda: ENDLESS.converges, UnsupportedError, "converges has no answer"),
        (lambda: rs.descend(known, BOTH, step=lambda epoch: -1.0).risk(1), ValueError, r"step\(0\) must be a"),
        *((lambda kind=kind, order=order: kind(batches=3, order=order), ValueError, message)
          for kind in (rs.Cyclic, rs.ShuffleOnce) for order, message in (
            ([0, 0, 1], r"order must hold each of the numbers 0..2 .* once, but it is \[0, 0, 1\]"),
            ([0, 1], r"order must hold each of the numbers 0..2 of the batches once, but it is \[0, 1\]"),
            ([0.5, 1, 2], "order must be a one-dimensional sequence of the numbers of the batches"),
            ("abc", "order must be a one-dimensional sequence of the numbers of the batches"),
        )),
        (lambda: rs.descend(problem, rs.Cyclic(batch_size=2, order=[1, 0]), 0.1), ValueError, "order must hold"),
        (lambda: rs.ShuffleOnce(batches=3, draws=5), ValueError, "draws must be even"),
        (lambda: rs.ShuffleOnce(batches=3, draws=2), ValueError,
         "draws must be a whole number between 4 and 1000000, but it is 2"),
        (lambda: rs.descend(problem, rs.SampleWithReplacement(batch_size=7, drop_last=True), 0.1), ValueError,
         "batch_size must be a whole number between 1 and 6"),
        *((lambda wrong=wrong: getattr(rs, wrong), AttributeError, f"'{wrong}'; did you mean '{right}'?")
          for wrong, right in (("plann", "plan"), ("RandomReshufling", "RandomReshuffling"))),
    ],
)  # fmt: skip
def test_everything_else_that_is_none(ask, error, message):
    with pytest.raises(error, match=message):
        ask()


def test_the_ends_of_what_is_allowed():
    run = rs.descend(known, FULL, 0.01)
    np.testing.assert_allclose(run.iterate(10**15), run.limit().parameters)
    assert rs.descend(problem, FULL, np.array(0.1)).epoch.step == 0.1
    interval = rs.descend(known, BOTH, 0.0).risk_interval([0, 5, math.inf])
    np.testing.assert_allclose(interval.upper, interval.lower)


@for_all(
    "call, argument",
    [
        (lambda: rs.plan(X, y), "y"),
        (lambda: rs.plan(X, X[:, 0], batch_sizes=[]), "batch_sizes"),
        (lambda: rs.compare_schemes(known, [rs.FullBatch()], step=0.1), "schemes"),
        (lambda: rs.sweep(known, over={"step": [0.1]}, batches=2, metrics=[]), "metrics"),
        (lambda: rs.descend(problem, rs.FullBatch(), step=0.001).leave_one_out(1, rows=[0, 0]), "rows"),
        (lambda: rs.descend(problem, rs.FullBatch(), step=[0.001]).iterate(2), "epochs"),
        (lambda: rs.descend(problem, rs.FullBatch(), step=0.001, unpenalized=[[0]]), "unpenalized"),
        (lambda: rs.Accumulator(batches=2).add(X, y, batch=np.full(6, 2)), "batch"),
        (lambda: rs.RandomReshuffling(batches=[[0], [0]]).partition(2), "batches"),
        (lambda: rs.schedules.OneCycle(0.1, total=5, warmup=0.8, three_phase=True), "warmup"),
    ],
)
def test_front_ends_word_refused_arguments_themselves(call, argument):
    with pytest.raises(rs.ArgumentError) as refused:
        call()
    assert refused.value.argument == argument
    assert refused.value.worded({argument: "--this"}).startswith(f"--this must {refused.value.allowed}, but ")


@for_all(
    "ask, message",
    [
        (lambda huge: rs.gaussian(huge, 2), "n must be a whole number between 1 and"),
        (lambda huge: rs.gaussian(2, huge), "p must be a whole number between 1 and"),
        (lambda huge: rs.random_features(X, huge), "width must be a whole number between 1 and"),
        (lambda huge: rs.ShuffleOnce(batches=3, draws=huge), "draws must be a whole number between 4 and"),
        (
            lambda huge: rs.simulate(problem, rs.FullBatch(), 0.01, epochs=1, runs=huge),
            "runs must be a whole number between 4 and",
        ),
        (lambda huge: rs.PoissonSampling(0.5, steps=huge), "steps must be a whole number between 1 and"),
        (lambda huge: rs.PoissonSampling(1 / huge), "steps must be a whole number between 1 and"),
        (lambda huge: rs.plan(X, X[:, 0], epochs=huge), "epochs must be a whole number between 1 and"),
        (lambda _: rs.descend(problem, rs.FullBatch(), 0.01).on(X), "problem must be a LeastSquares"),
    ],
)
def test_counts_beyond_all_memory(ask, message):
    for huge in (1e300, 2**63):
        with pytest.raises((TypeError, rs.ArgumentError), match=message):
            ask(huge)


def test_an_interval_of_hardly_any_coverage():
    interval = rs.descend(problem, rs.FullBatch(), 0.01).prediction_interval(X[:1], 3, coverage=1e-300)
    assert np.isfinite([interval.lower, interval.upper]).all()
