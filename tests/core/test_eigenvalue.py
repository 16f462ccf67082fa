"""One eigenvalue of a symmetric matrix, where nearly all of them coincide: against the closed form."""

import numpy as np
import pytest

from reshuffle._linalg import eigenvalue
from tests.looped import for_all


@for_all("p", range(3, 60))
def test_equicorrelated_features(p):
    """c I - 11'/p has the eigenvalue c, p - 1 times, and c - 1."""
    matrix = 3 * np.eye(p) - np.ones((p, p)) / p
    assert eigenvalue(matrix, -1) == pytest.approx(3.0, rel=1e-14)
    assert eigenvalue(matrix, 0) == pytest.approx(2.0, rel=1e-14)
