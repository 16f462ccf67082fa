"""Arrays and dataframes of Dask, reduced by the processes of a real cluster."""

import pickle
import warnings

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.problem.batches import RowGroups
from tests.problem.sources.conftest import N, P
from tests.problem.sources.test_files import SCHEMES, same_answers

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


def sources(folder, arrays, frame):
    X, y = arrays
    dd.from_pandas(frame, npartitions=7).to_parquet(folder, write_index=False)
    yield "frame of parquet files", dd.read_parquet(folder), "answer"
    yield "arrays", da.from_array(X, chunks=(170, 3)), da.from_array(y, chunks=400)
    yield "array and numpy", da.from_array(X, chunks=(400, P)), y
    yield "frame", dd.from_pandas(frame, npartitions=6), "answer"
    yield (
        "frame without lengths",
        dd.from_pandas(frame, npartitions=6).drop(columns="answer").to_dask_array(),
        y,
    )
    yield (
        "two frames",
        dd.from_pandas(frame.drop(columns="answer"), npartitions=6),
        dd.from_pandas(frame["answer"], npartitions=6),
    )


@pytest.mark.slow
def test_every_collection_has_the_answers_of_the_array(client, tmp_path, arrays, frame, in_memory):
    for name, X, y in sources(tmp_path, arrays, frame):
        same_answers(rs.LeastSquares(X, y), in_memory, SCHEMES[2:4] if name == "arrays" else SCHEMES[:1])


def test_blocks_stay_where_they_are_and_factors_travel(client, arrays):
    X, y = arrays
    problem = rs.LeastSquares(da.from_array(X, chunks=(100, P)), y, sample_weight=np.linspace(1, 2, N))
    whole = rs.LeastSquares(X, y, sample_weight=np.linspace(1, 2, N))
    same_answers(problem, whole, SCHEMES[:2])
    assert problem.stream.passes == 1
    travels = pickle.dumps(problem.stream.factors(RowGroups.whole(N)))
    assert len(travels) < 8 * (P + 1) ** 2 + 2000 < X.nbytes / 10


@pytest.mark.slow
def test_shuffled_samples_stay_where_they_are_too(client, arrays, in_memory):
    X, y = arrays
    streamed = rs.LeastSquares(da.from_array(X, chunks=(400, P)), y)
    scheme = rs.SampleReshuffling(batch_size=100)
    found = rs.descend(streamed, scheme, step=0.02).iterate([1, 9])
    expected = rs.descend(in_memory, scheme, step=0.02, method="cavity").iterate([1, 9])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_several_outputs_by_name(client, frame):
    streamed = rs.LeastSquares(dd.from_pandas(frame, npartitions=3), ["answer", "b"])
    same_answers(streamed, rs.LeastSquares(frame[["a", "c", "d"]], frame[["answer", "b"]]), SCHEMES[:1])


@pytest.mark.slow
def test_what_does_not_fit_is_refused(client, arrays, frame):
    X, y = arrays
    blocks, table = da.from_array(X, chunks=400), dd.from_pandas(frame, npartitions=3)
    holes = X.copy()
    holes[1234, 1] = np.nan
    with pytest.raises(ValueError, match=r"X must be finite, but X\[1234, 1\] is nan"):
        rs.descend(rs.LeastSquares(da.from_array(holes, chunks=400), y), rs.FullBatch(), 0.1)
    for X_given, y_given, error, message in (
        (blocks, y[:-1], ValueError, "one row per row of X"),
        (blocks, da.from_array(y[:-1], chunks=400), ValueError, "one row per row of X"),
        (blocks, "answer", ValueError, "a Dask array has no names"),
        (table, "colour", ValueError, "'colour' is none of them"),
        (da.from_array(y, chunks=400), y, ValueError, "X must be two-dimensional"),
        (table, dd.from_pandas(frame["answer"], npartitions=5), ValueError, "cut into blocks as X is"),
        (X, da.from_array(y, chunks=400), None, ""),
    ):
        if error is None:
            assert rs.LeastSquares(X_given, y_given).n == N
            continue
        with pytest.raises(error, match=message):
            rs.LeastSquares(X_given, y_given)
