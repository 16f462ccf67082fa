"""The same numbers from processes of joblib, each with its share of the cores."""

import os

import numpy as np
import pytest
import threadpoolctl

import reshuffle as rs
from reshuffle.grid.workers import Processes


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
