"""scikit-learn's own checks of an estimator, none of them excused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn
from sklearn.utils.estimator_checks import check_estimator

from reshuffle.sklearn import (
    MiniBatchClassifier,
    MiniBatchClassifierCV,
    MiniBatchKernelRegressor,
    MiniBatchRegressor,
    MiniBatchRegressorCV,
)

ROOT = Path(__file__).parent.parent.parent
MODELS = [
    MiniBatchRegressor(),
    MiniBatchRegressor(single_run=True, momentum=0.5, standardize=True),
    MiniBatchRegressorCV(),
    MiniBatchKernelRegressor(),
    MiniBatchClassifier(),
    MiniBatchClassifierCV(),
]
ARRAY_API = """
from sklearn.utils.estimator_checks import check_array_api_input
from tests.sklearn.test_estimator_checks import MODELS

for model in MODELS:
    check_array_api_input(
        type(model).__name__, model, array_namespace="numpy", expect_only_array_outputs=False
    )
"""


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_estimator_checks(model):
    checks = check_estimator(model, on_fail=None, on_skip=None)
    assert [check for check in checks if check["status"] not in ("passed", "skipped")] == []
    skipped = [check["check_name"] for check in checks if check["status"] == "skipped"]
    # scikit-learn 1.6 does not ask for this one.
    assert skipped == ([] if sklearn.__version__.startswith("1.6.") else ["check_array_api_input"])


@pytest.mark.slow
def test_the_check_that_must_be_asked_for_before_scipy_is_imported():
    """It is skipped above, where scipy was imported without."""
    settings = {**os.environ, "SCIPY_ARRAY_API": "1"}
    subprocess.run([sys.executable, "-c", ARRAY_API], env=settings, cwd=ROOT, check=True)
