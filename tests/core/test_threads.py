"""Threads of BLAS and progress bars."""

import itertools
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import threadpoolctl

from reshuffle import _linalg, _progress
from tests.looped import for_all


def counts():
    return [library.get_num_threads() for library in _linalg.libraries()]


@pytest.fixture
def two():
    """Both libraries with two threads, whatever the other tests are held to."""
    with threadpoolctl.threadpool_limits(2):
        if max(counts(), default=1) < 2:
            pytest.skip("this BLAS has one thread only")
        yield


@pytest.mark.usefixtures("two")
def test_threads_are_given_back():
    before = counts()
    with _linalg.few_threads(100):
        assert set(counts()) == {1}
        with _linalg.few_threads(10_000):
            assert set(counts()) == {1}
        with _linalg.one_thread():
            assert set(counts()) == {1}
        assert set(counts()) == {1}
        assert _linalg.workers() == max(before)
    assert counts() == before
    with _linalg.few_threads(10_000):
        assert counts() == before


@pytest.mark.usefixtures("two")
def test_the_last_of_several_threads_to_leave_gives_them_back():
    before, inside = counts(), Barrier(4)

    def work(_):
        with _linalg.one_thread():
            inside.wait()
            return counts()

    with ThreadPoolExecutor(4) as pool:
        assert all(set(seen) == {1} for seen in pool.map(work, range(4)))
    assert counts() == before


@pytest.mark.usefixtures("two")
@for_all("size", [1, 100, 1000])
def test_each_keeps_the_order_and_the_handling_of_overflow(size):
    large = np.array(1e300)
    with np.errstate(over="ignore"):
        assert _linalg.each(lambda number: float(large * number), [1.0, 2.0, 1e10], size) == [
            1e300,
            2e300,
            np.inf,
        ]
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        _linalg.each(lambda number: large * number, [1e10, 1e10, 1e10], size)
    assert _linalg.each(str, [], size) == []


SIMULATION = """
import json, sys
import numpy as np, reshuffle as rs
problem = rs.LeastSquares(*np.load(sys.argv[1]).values(), noise=0.5)
settings = {"step": 0.003, "epochs": [1, 4], "runs": 600, "seed": 7, "fresh_noise": True, "test_samples": 40}
found = {}
for scheme in (rs.RandomReshuffling(batches=2), rs.FullBatch(), rs.SampleReshuffling(batch_size=150)):
    result = rs.simulate(problem, scheme, **settings)
    estimates = (result.iterate, result.expected_risk, result.risk, result.spread, result.test_error)
    found[repr(scheme)] = [[part.mean.tolist(), part.standard_error.tolist()] for part in estimates]
print(json.dumps(found))
"""


@pytest.mark.slow
def test_the_same_seed_gives_the_same_runs_to_the_last_bit(tmp_path):
    """For all schemes in one process: to start one takes longer than to simulate."""
    # Large enough for BLAS to use its threads if it may: products of 600 runs, 150 rows and 200 columns.
    rng = np.random.default_rng(0)
    X, beta_star, root = (
        rng.standard_normal((300, 200)),
        rng.standard_normal(200),
        rng.standard_normal((200, 200)),
    )
    np.savez(tmp_path / "data.npz", X, X @ beta_star, beta_star, root @ root.T / 200)

    def run(count):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(count), "OMP_NUM_THREADS": str(count)}
        command = [sys.executable, "-c", SIMULATION, str(tmp_path / "data.npz")]
        found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        return json.loads(found.stdout)

    alone, together = run(1), run(2)
    assert len(alone) == 3
    for scheme, found in alone.items():
        assert together[scheme] == found


def test_a_bar_is_drawn_on_standard_error_once_it_takes_long(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    patience(monkeypatch)
    clock = itertools.count(0, 3)
    monkeypatch.setattr(_progress.time, "monotonic", lambda: float(next(clock)))
    list(_progress.track(range(3), 3, "counting", True))
    printed = capsys.readouterr()
    assert "counting" in printed.err
    assert printed.out == ""


def test_bars_inside_a_display_join_it_and_leave_when_they_are_done(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with _progress.display() as outer:
        outer.add_task("figures", total=2)
        for _ in _progress.track(range(3), 3, "simulating", True):
            assert [task.description for task in outer.tasks] == ["figures", "simulating"]
        assert [task.description for task in outer.tasks] == ["figures"]
        with _progress.display() as inner:
            assert inner is outer
    with _progress.display() as another:
        assert another is not outer


def clock(monkeypatch, *times):
    """Let the clock of the module show these seconds, the last from then on."""
    passing = itertools.chain(times, itertools.repeat(times[-1]))
    monkeypatch.setattr(_progress.time, "monotonic", lambda: float(next(passing)))


def patience(monkeypatch):
    monkeypatch.setattr(_progress, "PATIENCE", 2.0)
    monkeypatch.setattr(_progress, "lines", _progress.Lines())


def test_the_library_prints_a_plain_line_where_there_is_no_terminal_and_it_takes_long(monkeypatch, capsys):
    patience(monkeypatch)
    # It begins at 0 s, and the parts end at these seconds.
    clock(monkeypatch, 0, 1, 2, 3, 8, 12, 14)
    list(_progress.track(range(6), 6, "counting"))
    assert capsys.readouterr() == ("", "reshuffle: 3 s, counting 3 of 6\nreshuffle: 14 s, counting 6 of 6\n")


def test_loops_inside_each_other_share_a_line(monkeypatch, capsys):
    patience(monkeypatch)
    clock(monkeypatch, 0, 1, 12)
    for _ in _progress.track(range(1), 1, "points"):
        list(_progress.track(iter("ab"), None, "rows"))
    assert capsys.readouterr().err == "reshuffle: 12 s, points 0 of 1; rows 1\n"
    assert _progress.lines.open == []


def test_a_command_has_a_line_after_two_seconds_before_the_first_part_of_a_loop_is_done(monkeypatch, capsys):
    patience(monkeypatch)
    _progress.lines.command = 0.0
    for _ in _progress.track(range(1), 1, "points"):
        begin = _progress.lines.open[0].begin
        _progress.lines.command = begin - 1.0
        for later in (0.5, 3.0, 4.0, 13.5):
            monkeypatch.setattr(_progress.time, "monotonic", lambda at=begin + later: at)
            _progress.lines.of_command()
    assert capsys.readouterr().err == "reshuffle: 4 s, points 0 of 1\nreshuffle: 14 s, points 0 of 1\n"
