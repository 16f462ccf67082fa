"""Rows that are read in chunks from files: the answers are those of the array."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.dataset
import pytest

import reshuffle as rs
from reshuffle.problem.sources import IN_MEMORY
from tests.problem.sources.conftest import N, P, mapped, npy_folder, parquet_folder

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def sources(folder, arrays, frame):
    X, y = arrays
    rows, answers = npy_folder(folder / "rows", X, 5), npy_folder(folder / "answers", y, 3)
    table = parquet_folder(folder / "table", frame, 3)
    np.save(folder / "rows.npy", X)
    yield "memmap", mapped(folder / "X.bin", X), y
    yield "memmap of both", mapped(folder / "X.bin", X), mapped(folder / "y.bin", y)
    yield "folder of npy", rows, y.tolist()
    yield "two folders of npy", str(rows), answers
    yield "one npy file", folder / "rows.npy", answers
    yield "folder of parquet", table, "answer"
    yield "one parquet file", parquet_folder(folder / "single", frame, 1) / "00.parquet", "answer"
    yield "dataset", pyarrow.dataset.dataset(table), "answer"
    yield (
        "table and array",
        pyarrow.dataset.dataset(parquet_folder(folder / "X", frame.drop(columns="answer"), 2)),
        y,
    )
    yield "two folders of parquet", folder / "X", parquet_folder(folder / "y", frame[["answer"]], 2)


SCHEMES = [
    rs.RandomReshuffling(batches=4),
    rs.FullBatch(),
    rs.Cyclic(batch_size=400, drop_last=True),
    rs.RandomReshuffling([np.arange(0, N, 2), np.arange(1, N, 2)]),
    rs.WithReplacement(batches=3, normalize="equal"),
    rs.Stages([(2, rs.RandomReshuffling(batch_size=500)), (None, rs.Cyclic(batches=2))]),
    rs.SampleWithReplacement(batch_size=100),
    rs.SampleSubsets(batch_size=100),
]


def same_answers(streamed, in_memory, schemes=SCHEMES):
    for scheme in schemes:
        found, expected = rs.descend(streamed, scheme, step=0.02), rs.descend(in_memory, scheme, step=0.02)
        for ask in ("iterate", "training_loss", "degrees_of_freedom"):
            np.testing.assert_allclose(getattr(found, ask)([1, 9]), getattr(expected, ask)([1, 9]), **CLOSE)
        np.testing.assert_allclose(found.limit().parameters, expected.limit().parameters, **CLOSE)


def test_every_source_has_the_answers_of_the_array(tmp_path, streaming, arrays, frame, in_memory):
    for name, X, y in sources(tmp_path, arrays, frame):
        streamed = rs.LeastSquares(X, y)
        assert repr(streamed) == f"LeastSquares(n={N}, p={P}, truth unknown)", name
        assert streamed.stream is not None, name
        same_answers(streamed, in_memory, SCHEMES[:1] if name != "memmap" else SCHEMES)


def test_small_sources_are_read_into_memory_where_all_can_be_asked(tmp_path, arrays, frame):
    for name, X, y in sources(tmp_path, arrays, frame):
        problem = rs.LeastSquares(X, y)
        assert (arrays[0] == problem.X).all(), name
        assert (problem.y == arrays[1]).all(), name


def test_one_pass_serves_all_batches_and_what_was_read_is_not_read_again(
    tmp_path, streaming, arrays, in_memory
):
    problem = rs.LeastSquares(mapped(tmp_path / "X.bin", arrays[0]), arrays[1])
    assert problem.stream.passes == 0
    run = rs.descend(problem, rs.RandomReshuffling(batches=4), step=0.02)
    run.limit()
    run.stability()
    rs.critical_step(run.problem, run.scheme, mean_square=False)
    rs.critical_step(problem, rs.RandomReshuffling(batches=4), mean_square=False)
    rs.descend(problem, rs.Cyclic(batches=4), step=0.01, momentum=0.5).iterate(3)
    flow = rs.gradient_flow(problem).iterate(2.0)
    full = rs.descend(problem, rs.FullBatch(), step=0.02).iterate(7)
    assert problem.stream.passes == 1
    np.testing.assert_allclose(flow, rs.gradient_flow(in_memory).iterate(2.0), **CLOSE)
    np.testing.assert_allclose(full, rs.descend(in_memory, rs.FullBatch(), step=0.02).iterate(7), **CLOSE)
    rs.descend(run.problem, rs.RandomReshuffling(batches=5), step=0.02).iterate(3)
    assert problem.stream.passes == 2


def test_all_samples_in_one_batch_have_the_critical_step_of_the_full_batch(tmp_path, streaming, arrays):
    problem = rs.LeastSquares(mapped(tmp_path / "X.bin", arrays[0]), arrays[1])
    full = rs.critical_step(problem, rs.FullBatch())
    assert rs.critical_step(problem, rs.SampleReshuffling(batches=1)) == pytest.approx(full)


def test_weights_outputs_truth_and_float32(tmp_path, streaming, arrays):
    X, y = arrays[0].astype(np.float32), np.column_stack([arrays[1], arrays[0][:, 0]])
    rng = np.random.default_rng(1)
    truth = {
        "beta_star": rng.standard_normal((P, 2)),
        "noise": [0.5, 1.0],
        "covariance": [1.0, 2.0, 1.0, 3.0],
    }
    weights = rng.uniform(0.5, 2.0, N)
    streamed = rs.LeastSquares(mapped(tmp_path / "X.bin", X), y, sample_weight=weights, **truth)
    whole = rs.LeastSquares(X, y, sample_weight=weights, **truth)
    assert repr(streamed) == repr(whole)
    runs = [rs.descend(each, rs.RandomReshuffling(batches=3), 0.02) for each in (streamed, whole)]
    np.testing.assert_allclose(runs[0].risk([1, 9]).total, runs[1].risk([1, 9]).total, **CLOSE)
    np.testing.assert_allclose(runs[0].expected_risk([5]).total, runs[1].expected_risk([5]).total, **CLOSE)
    alone = rs.descend(streamed.output(1), rs.FullBatch(), 0.02).iterate(5)
    np.testing.assert_allclose(alone, rs.descend(whole.output(1), rs.FullBatch(), 0.02).iterate(5), **CLOSE)


def test_entries_that_are_no_numbers_are_named_by_their_row(tmp_path, streaming, arrays, frame):
    X, y = arrays[0].copy(), arrays[1].copy()
    X[1100, 2], y[900] = np.nan, np.inf
    problem = rs.LeastSquares(npy_folder(tmp_path / "X", X, 4), arrays[1])
    with pytest.raises(ValueError, match=r"X must be finite, but X\[1100, 2\] is nan"):
        rs.descend(problem, rs.FullBatch(), step=0.1)
    problem = rs.LeastSquares(mapped(tmp_path / "X.bin", arrays[0]), mapped(tmp_path / "y.bin", y))
    with pytest.raises(ValueError, match=r"y must be finite, but y\[900\] is inf"):
        rs.descend(problem, rs.FullBatch(), step=0.1)
    holes = frame.astype({"a": "Float64"})
    holes.loc[1000, "a"] = pd.NA
    with pytest.raises(ValueError, match=r"X\[1000, 0\] is nan"):
        rs.descend(
            rs.LeastSquares(parquet_folder(tmp_path / "t", holes, 2), "answer"), rs.FullBatch(), step=0.1
        )


def bad_sources(folder, arrays, frame):
    X, y = arrays
    wide = npy_folder(folder / "wide", X, 2)
    np.save(wide / "zz.npy", np.ones((3, P + 1)))
    broken = npy_folder(folder / "broken", X, 2)
    (broken / "01.npy").write_bytes((broken / "01.npy").read_bytes()[:200])
    mixed = npy_folder(folder / "mixed", X, 2)
    (mixed / "x.parquet").touch()
    (folder / "empty").mkdir()
    rows, table = npy_folder(folder / "rows", X, 2), parquet_folder(folder / "table", frame, 2)
    words = parquet_folder(folder / "words", frame.assign(colour="red"), 1)
    npy_folder(folder / "text", np.array(["red"] * 8), 1)
    yield wide, y, ValueError, "the same columns, but 00.npy has shape"
    yield broken, y, ValueError, "01.npy cannot be read"
    yield mixed, y, ValueError, "holds both"
    yield folder / "empty", y, ValueError, "holds none"
    yield folder / "nowhere", y, ValueError, "there is none at"
    yield rows, y[:-1], ValueError, f"y must have one row per row of X, {N}, but it has {N - 1}"
    yield rows, "answer", ValueError, "the columns of X have no names"
    yield rows, np.full(N, np.nan), ValueError, r"y\[0\] is nan"
    yield npy_folder(folder / "vector", y, 2), y, ValueError, "X must be two-dimensional"
    yield folder / "text", y[:8], ValueError, "X must be two-dimensional"
    yield table, "colour", ValueError, "'colour' is none of them: 'a', 'b', 'answer', 'c', 'd'"
    yield words, "answer", TypeError, "column 'colour' holds"
    yield mapped(folder / "X.bin", X), mapped(folder / "y.bin", y[:7]), ValueError, "one row per row of X"


def test_sources_that_do_not_fit_are_refused(tmp_path, streaming, arrays, frame):
    for X, y, error, message in bad_sources(tmp_path, arrays, frame):
        with pytest.raises(error, match=message):
            rs.LeastSquares(X, y)


def test_what_streams_cannot_answer_is_refused(tmp_path, streaming, arrays, monkeypatch):
    problem = rs.LeastSquares(mapped(tmp_path / "X.bin", arrays[0]), arrays[1])
    for ask in (
        lambda: problem.X,
        lambda: problem.y,
        lambda: rs.simulate(problem, rs.FullBatch(), 0.1, epochs=2, runs=2),
        lambda: problem.leverages,
    ):
        with pytest.raises(rs.UnsupportedError, match="needs the rows one by one"):
            ask()
    monkeypatch.setattr("reshuffle._arrays.memory", lambda: 2.0 * N * P * 8)
    with pytest.raises(rs.BudgetError, match="try fewer and larger batches"):
        rs.descend(problem, rs.RandomReshuffling(batch_size=2), 0.02)
    rs.descend(problem, rs.RandomReshuffling(batches=2), 0.02)


OUT_OF_CORE = """
import resource, sys
import numpy as np
import scipy.linalg
import reshuffle as rs
import reshuffle.run, reshuffle.problem.accumulator

X, y, limit = np.load(sys.argv[1], mmap_mode="r"), np.load(sys.argv[2]), float(sys.argv[3])
small = np.ones((300, 50))
# The libraries take memory of their own when they are first called.
rs.descend(rs.Accumulator().add(small, small[:, 0]).problem(), rs.FullBatch(), step=0.1).iterate(3)
rs.descend(rs.LeastSquares(small, small[:, 0]), rs.RandomReshuffling(batches=4), step=0.1).iterate(3)
def now(what):
    with open("/proc/self/status") as file:
        return [int(line.split()[1]) * 1024 for line in file if line.startswith(what)][0]
held, peak = now("VmData"), now("VmHWM")
resource.setrlimit(resource.RLIMIT_DATA, (int(held + limit),) * 2)
try:
    np.array(X)
except MemoryError:
    print("does not fit")
run = rs.descend(rs.LeastSquares(X, y), rs.RandomReshuffling(batches=4), step=0.1)
np.save(sys.argv[4], run.iterate([1, 20]))
# Pages of the file that were read are no data, but they are given back too.
assert now("VmHWM") < peak + limit
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit on data is Linux's")
def test_out_of_core_under_a_memory_limit(tmp_path):
    assert hasattr(resource, "RLIMIT_DATA")
    n, p = 170_000, 50
    assert 8 * n * p > IN_MEMORY
    rng = np.random.default_rng(3)
    X = rng.random((n, p))
    y = X @ rng.standard_normal(p)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    limit = 0.75 * X.nbytes
    given = (tmp_path / "X.npy", tmp_path / "y.npy", limit, tmp_path / "b.npy")
    done = subprocess.run(
        [sys.executable, "-c", OUT_OF_CORE, *map(str, given)],
        capture_output=True, text=True, check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "does not fit\n"), done.stderr
    expected = rs.descend(rs.LeastSquares(X, y), rs.RandomReshuffling(batches=4), step=0.1).iterate([1, 20])
    np.testing.assert_allclose(np.load(tmp_path / "b.npy"), expected, **CLOSE)


def test_several_columns_of_a_table_are_several_outputs(tmp_path, streaming, frame):
    folder = parquet_folder(tmp_path / "table", frame, 2)
    streamed = rs.LeastSquares(folder, ["answer", "b"])
    whole = rs.LeastSquares(frame[["a", "c", "d"]], frame[["answer", "b"]])
    assert repr(streamed) == repr(whole)
    same_answers(streamed, whole, SCHEMES[:1])


def test_a_private_copy_of_a_mapped_file_keeps_what_was_written_to_it(tmp_path, streaming, arrays, in_memory):
    mapped(tmp_path / "X.bin", np.zeros((N, P)))
    private = np.memmap(tmp_path / "X.bin", dtype=np.float64, mode="c", shape=(N, P))
    private[:] = arrays[0]
    streamed = rs.LeastSquares(private, arrays[1])
    for scheme in (SCHEMES[0], rs.RandomReshuffling(batches=3)):
        same_answers(streamed, in_memory, [scheme])
