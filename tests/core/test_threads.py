"""Threads of BLAS: held to one around small work, given back afterwards, and nothing that depends on them."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import threadpoolctl

from reshuffle import _linalg
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
