"""Estimators on rows that are read in chunks: the same coefficients as from memory."""

import pickle

import numpy as np
import pandas as pd
import pytest

import reshuffle as rs
from reshuffle.problem import sources
from reshuffle.sklearn import MiniBatchRegressor, MiniBatchRegressorCV
from tests.looped import for_all

N, P = 1000, 4
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")


@pytest.fixture
def streaming(monkeypatch):
    monkeypatch.setattr(sources, "IN_MEMORY", 0.0)
    monkeypatch.setattr("reshuffle.problem.sources.CHUNK", 300 * P)


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, P)) * [1, 2, 3, 1] + [5, 0, -2, 100]
    X[:, 1] = 7.0
    return X, X @ [1.0, 3.0, -1.0, 2.0] + rng.standard_normal(N)


@pytest.fixture
def folder(tmp_path, arrays):
    (tmp_path / "X").mkdir()
    for number, part in enumerate(np.array_split(arrays[0], 3)):
        np.save(tmp_path / "X" / f"{number}.npy", part)
    return tmp_path / "X"


def alike(model, X, arrays, y=None, rtol=1e-5, weights=None):
    """Fit to a source and to the arrays, and compare."""
    streamed = model.fit(X, arrays[1] if y is None else y, sample_weight=weights)
    found = streamed.coef_, streamed.intercept_, streamed.learning_rate_, streamed.predict(arrays[0])
    whole = model.fit(*arrays, sample_weight=weights)
    expected = whole.coef_, whole.intercept_, whole.learning_rate_, whole.predict(arrays[0])
    for here, there in zip(found, expected, strict=True):
        np.testing.assert_allclose(here, there, rtol=rtol, atol=1e-9)


def test_a_pickled_model_predicts_without_its_rows(streaming, folder, arrays):
    model = MiniBatchRegressor(batch_size=None, epochs=3).fit(folder, arrays[1])
    stored = pickle.dumps(model)
    assert len(stored) < arrays[0].nbytes / 3
    again = pickle.loads(stored)
    np.testing.assert_allclose(again.predict(arrays[0]), model.predict(arrays[0]))
    with pytest.raises(rs.UnsupportedError, match="fit it again"):
        again.path([1, 2])


BATCHES = {"batch_size": 250, "shuffle": False}


@for_all(
    "settings, weights",
    [
        ({"batch_size": 100}, None),
        ({"batch_size": None, "weight_decay": 0.1}, None),
        ({"batch_size": 300, "shuffle": "once", "momentum": 0.5}, None),
        ({**BATCHES, "standardize": True}, None),
        ({"batch_size": 100, "fit_intercept": False, "learning_rate": 1e-6}, None),
        ({"batch_size": 100, "standardize": True, "learning_rate": 0.01}, None),
        (BATCHES, np.random.default_rng(1).uniform(0.1, 2.0, N)),
    ],
)
def test_coefficients_are_those_from_memory(streaming, folder, arrays, settings, weights):
    alike(MiniBatchRegressor(**{"epochs": 7, **settings}), folder, arrays, weights=weights)


def test_tables_dask_and_predictions_chunk_by_chunk(streaming, folder, arrays, tmp_path):
    frame = pd.DataFrame(arrays[0], columns=["a", "b", "c", "d"]).assign(answer=arrays[1])
    path = tmp_path / "table.parquet"
    frame.to_parquet(path)
    model = MiniBatchRegressor(**BATCHES, epochs=3)
    alike(model, da.from_array(arrays[0], chunks=(150, P)), arrays)
    alike(model, dd.from_pandas(frame, npartitions=4), arrays, "answer")
    alike(model, path, arrays, "answer")
    model = MiniBatchRegressor(batch_size=250, shuffle="once", epochs=3)
    expected = model.fit(folder, arrays[1]).predict(arrays[0], return_std=True)
    np.testing.assert_allclose(model.predict(folder, return_std=True), expected)
    named = model.fit(path, "answer")
    for source in (path, dd.from_pandas(frame, npartitions=2)):
        np.testing.assert_allclose(named.predict(source), expected[0])


def test_what_does_not_fit_is_refused(streaming, folder, arrays, tmp_path):
    np.save(tmp_path / "wide.npy", np.ones((5, P + 1)))
    np.save(tmp_path / "one.npy", np.ones((1, P)))
    one = MiniBatchRegressor(batch_size=None)
    for ask, error, message in (
        (lambda: MiniBatchRegressorCV().fit(folder, arrays[1]), rs.UnsupportedError, "must be in memory"),
        (
            lambda: MiniBatchRegressor(single_run=True).fit(folder, arrays[1]),
            rs.UnsupportedError,
            "needs the rows one by one",
        ),
        (
            lambda: one.fit(folder, arrays[1]).predict(tmp_path / "wide.npy"),
            ValueError,
            "X must have 4 columns, as in fit, but it has 5",
        ),
        (lambda: one.fit(tmp_path / "one.npy", [1.0]), ValueError, "at least 2 rows with fit_intercept=True"),
        (lambda: one.fit(folder, arrays[1], np.zeros(N)), ValueError, "sample_weight must be positive"),
    ):
        with pytest.raises(error, match=message):
            ask()


def test_small_sources_are_read_into_memory(folder, arrays):
    model = MiniBatchRegressorCV(epochs=3, batch_sizes=[500])
    assert model.fit(folder, arrays[1]).coef_ == pytest.approx(model.fit(*arrays).coef_)
