"""Sums of powers along a curve, against the sums themselves."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reshuffle.validation.contour import around


@given(
    highest=st.floats(1e-3, 1.9999),
    share=st.floats(0.0, 1.0),
    last=st.integers(1, 10**6),
)
def test_paces_between_zero_and_two(highest, share, last):
    pace, counts = share * highest, np.unique([1.0, math.ceil(math.sqrt(last)), last])
    curve = around(0.0, highest, float(last))
    found = 2 * (curve.powers(counts) / (pace - curve.nodes)).sum(axis=1).real
    log = math.log1p(-pace) if pace < 1 else 0.0
    want = [
        k if pace == 0 else -math.expm1(k * log) / pace if pace < 1 else (1 - (1 - pace) ** k) / pace
        for k in counts
    ]
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12 * last)


def test_the_curve_is_closed_around_nothing_else():
    curve = around(0.0, 1.0, 100.0)
    for outside in (-0.2, 2.5, 0.5 + 1.2j):
        found = (curve.powers(np.array([5.0])) / (outside - curve.nodes)).sum()
        mirrored = (curve.powers(np.array([5.0])).conj() / (outside - curve.nodes.conj())).sum()
        assert abs(found + mirrored) < 1e-11


@pytest.mark.parametrize("last", [10.0, 60.0])
def test_paces_of_runs_that_diverge(last):
    curve = around(0.0, 3.0, last)
    found = 2 * (curve.powers(np.array([last])) / (3.0 - curve.nodes)).sum().real
    assert math.isclose(found, (1 - (-2.0) ** last) / 3, rel_tol=1e-10)


def test_nodes_grow_with_the_logarithm_of_the_epochs():
    counts = [len(around(0.0, 1.5, 10.0**power).nodes) for power in range(1, 9)]
    assert np.ptp(np.diff(counts)) <= 6
    assert counts[-1] < 160
