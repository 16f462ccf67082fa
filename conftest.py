"""Settings of every test: the same examples on every machine, no deadline and no threads on a shared one."""

import gc
import math
import os
from collections.abc import Generator

import pytest
import threadpoolctl
from hypothesis import HealthCheck, settings

from reshuffle import _progress
from reshuffle.free import progress

# The gallery has a test of its own, tests/docs/test_examples.py; to look for doctests would run it once more.
# The settings of the site are read by Sphinx, which need not be there.
collect_ignore_glob = ["docs/examples/*.py", "docs/conf.py"]

settings.register_profile("reshuffle", deadline=None, derandomize=True, max_examples=60)
settings.register_profile(
    "fuzz",  # of `make fuzz`: other examples in every run, as many as are asked for
    deadline=None,
    max_examples=int(os.environ.get("EXAMPLES", "1000")),
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("reshuffle")

# The matrices of the tests are small: threads would only wait for each other, for minutes on a busy machine. As
# many as are asked for are given, though: `make test-processors` runs with two as well.
# The environment is that of the processes that tests start.
threadpoolctl.threadpool_limits(int(os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")))


# What is printed must not depend on how busy the machine is: lines that tell of progress have tests of their own.
_progress.PATIENCE = _progress.PATIENCE_OUTSIDE = progress.PATIENCE = math.inf


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Half a million objects of libraries and tests are made here and stay: none of them is ever garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
