"""Answers where there are no threads, no processes and no BLAS that can be asked for its threads, as in Pyodide."""

import json
import subprocess
import sys

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import asymptotics, free

QUESTIONS = """
def answers():
    problem = rs.gaussian(n=60, p=6, noise=0.5, seed=0)
    plan = rs.plan(problem.X, problem.y)
    run = rs.descend(problem, rs.SampleReshuffling(batch_size=16), step=0.01)
    wide = rs.gaussian(n=120, p=90, noise=0.5, seed=0)
    six = rs.descend(wide, rs.RandomReshuffling(batches=6), step=0.05)
    x, y = free.variables(free.Semicircle(), free.MarchenkoPastur(0.5))
    return [
        plan.test_error, *run.leave_one_out([1, 10]).mean_square, *six.risk([1, 10]).total,
        *rs.simulate(wide, rs.RandomReshuffling(batches=6), 0.05, epochs=[1, 10], runs=400).risk.mean,
        *free.spectrum(x * y + y * x).density([0.3, 1.0]),
        *asymptotics.learning_curve(0.5, 0.1, 2).risk([1, 10]).total,
    ]
"""
# What Pyodide lacks or refuses.
BARE = (
    """
import sys, threading, types
sys.modules.update(dict.fromkeys(("_multiprocessing", "_posixshmem", "resource", "fcntl")))
import json, os, subprocess
os.cpu_count = lambda: 1
def refuse(*anything, **more):
    raise RuntimeError("can't start")
threading.Thread.start = subprocess.Popen.__init__ = refuse
import threadpoolctl
threadpoolctl.ThreadpoolController.select = lambda self, **chosen: types.SimpleNamespace(lib_controllers=[])
import reshuffle as rs
from reshuffle import asymptotics, free
"""
    + QUESTIONS
)


@pytest.mark.slow
def test_answers_need_neither_threads_nor_processes():
    code = BARE + "print(json.dumps([float(value) for value in answers()]))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    here = {"rs": rs, "free": free, "asymptotics": asymptotics}
    exec(QUESTIONS, here)
    np.testing.assert_allclose(json.loads(found.stdout), here["answers"](), rtol=1e-6)
