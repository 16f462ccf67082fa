"""The same numbers from processes of joblib and from workers of a Dask cluster, also where these are killed."""

import logging
import os
import signal
from contextlib import contextmanager

import distributed
import numpy as np
import pytest
import threadpoolctl

import reshuffle as rs
from reshuffle.grid import cache
from reshuffle.grid.workers import DaskWorkers, Processes, split

PROBLEM = rs.gaussian(40, 20, noise=0.5, seed=1)
OVER = {"batches": [2, 4], "momentum": [0.0, 0.5], "alpha": np.linspace(0.1, 0.5, 12).tolist()}
ASKED = {"metrics": ["risk", "stability"], "epochs": [1, 10, 100]}


@pytest.fixture(scope="module")
def expected():
    return rs.sweep(PROBLEM, over=OVER, **ASKED)


@contextmanager
def two_workers():
    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    )
    # Not the default one: whatever is asked must be asked of it by name.
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def client():
    with two_workers() as client:
        yield client


def powers(exponent, numbers):
    return [(number, number**exponent) for number in numbers]


def same(found, expected):
    for name in ("risk", "risk_bias", "rate", "converges"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)
    assert (found["reason"] == "").all()


@pytest.mark.slow
def test_workers_give_the_same_numbers(client, expected):
    same(rs.sweep(PROBLEM, over=OVER, client=client, **ASKED), expected)


def test_many_small_tasks_travel_together_and_keep_their_numbers(client):
    parts = split([(0, [number]) for number in range(200)], 2)
    assert len(parts) == 29
    found = list(DaskWorkers(client).compute(powers, [2], parts))
    assert sorted(found) == [(number, number**2) for number in range(200)]


@pytest.mark.slow
@pytest.mark.parametrize("victims", [1, 2])
def test_workers_that_are_killed_are_replaced(expected, victims, tmp_path, monkeypatch):
    original = cache.Cache.put
    kept = []

    def put(self, key, *answers):
        original(self, key, *answers)
        kept.append(key)
        if len(kept) == 5:
            for pid in doomed.values():
                os.kill(pid, signal.SIGKILL)

    monkeypatch.setattr(cache.Cache, "put", put)
    # A separate cluster: on a busy machine Dask may give up a worker, for which the next test would wait.
    with two_workers() as client:
        doomed = dict(sorted(client.run(os.getpid).items())[:victims])
        found = rs.sweep(PROBLEM, over=OVER, client=client, cache=tmp_path, **ASKED)
    same(found, expected)
    # Nothing that had come back was asked for again.
    assert len(kept) == len(set(kept)) == 2 * 48


def test_work_that_nobody_waits_for_is_given_up(client, tmp_path, monkeypatch):
    def put(self, key, *answers):
        raise OSError("no space left")

    monkeypatch.setattr(cache.Cache, "put", put)
    with pytest.raises(OSError, match="no space left"):
        rs.sweep(PROBLEM, over=OVER, client=client, cache=tmp_path, **ASKED)
    assert all(state.status != "pending" for state in client.futures.values())


def test_clients_without_a_scheduler_and_jobs_beside_them(client):
    with pytest.raises(TypeError, match="n_jobs must be left out with client"):
        rs.sweep(PROBLEM, over=OVER, client=client, n_jobs=2)
    gone = distributed.Client(client.cluster, set_as_default=False)
    gone.close()
    with pytest.raises(ConnectionError, match="client must be connected to a scheduler, but it is closed"):
        rs.sweep(PROBLEM, over=OVER, client=gone)


def blas_threads(_, numbers):
    threads = [library["num_threads"] for library in threadpoolctl.threadpool_info()]
    return [(number, (os.getpid(), threads)) for number in numbers]


@pytest.mark.slow
def test_processes_give_the_same_numbers():
    problem = rs.gaussian(20, 6, noise=0.5, seed=1)
    over = {"batches": [1, 2], "momentum": [0.0, 0.5], "alpha": np.linspace(0.1, 0.5, 6)}
    asked = {"metrics": ["risk", "stability"], "epochs": [1, 10]}
    found, expected = rs.sweep(problem, over=over, n_jobs=2, **asked), rs.sweep(problem, over=over, **asked)
    for name in ("risk", "rate", "converges"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)


def test_processes_share_the_cores():
    jobs = 2
    pairs = list(Processes(jobs).compute(blas_threads, [None], [(0, [number]) for number in range(4)]))
    assert sorted(number for number, _ in pairs) == [0, 1, 2, 3]
    allowed = max(1, (os.cpu_count() or 1) // jobs)
    for _, (pid, threads) in pairs:
        assert pid != os.getpid()
        assert all(count <= allowed for count in threads)
