"""Sums of powers along a curve, against the sums themselves."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle._linalg import power_and_sum
from reshuffle.validation.contour import around
from tests.looped import for_all


@given(
    highest=st.floats(1e-3, 1.9999),
    share=st.floats(0.0, 1.0),
    last=st.integers(1, 10**6),
)
def test_paces_between_zero_and_two(highest, share, last):
    decay_rate, counts = share * highest, np.unique([1.0, math.ceil(math.sqrt(last)), last])
    curve = around(0.0, highest, float(last))
    found = 2 * (curve.powers(counts) / (decay_rate - curve.nodes)).sum(axis=1).real
    _, want = power_and_sum(np.array([decay_rate]), counts)
    np.testing.assert_allclose(found, want[:, 0], rtol=1e-9, atol=1e-12 * last)


@for_all("beside", [0.3 + 0.01j, 1.0 + 0.7j, 0.05 + 0.05j, 1.9 + 0.05j])
def test_complex_paces_beside_the_slit(beside):
    curve = around(0.0, 1.5, 500.0, np.array([beside, beside.conjugate()]))
    counts = np.array([1.0, 20.0, 500.0])
    for decay_rate in (0.0, 0.4, 1.5):
        _, want = power_and_sum(np.array([decay_rate]), counts)
        found = 2 * (curve.powers(counts) / (decay_rate - curve.nodes)).sum(axis=1).real
        np.testing.assert_allclose(found, want[:, 0], rtol=1e-10)
    pair = (curve.powers(counts) * (1 / (beside - curve.nodes) + 1 / (beside.conjugate() - curve.nodes))).sum(
        axis=1
    )
    np.testing.assert_allclose(2 * pair.real, 2 * ((1 - (1 - beside) ** counts) / beside).real, rtol=1e-9)


def test_paces_on_the_way_to_divergence_are_refused():
    with pytest.raises(ArithmeticError, match="diverge"):
        around(0.0, 1.5, 1000.0, np.array([1 + 0.9999j]))


@for_all("nesterov", [False, True])
@for_all("step", [3e-8, 1e-4])
def test_limits_with_momentum_are_as_exact_at_tiny_steps(step, nesterov):
    """Consistent rows end at the shortest solution, whatever the step."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((8, 12)), rng.standard_normal(8)
        scheme = rs.RandomReshuffling(batches=4)
        found = rs.descend(rs.LeastSquares(X, y), scheme, step, momentum=0.5, nesterov=nesterov)
        without = [np.linalg.pinv(np.delete(X, i, 0)) @ np.delete(y, i) for i in range(8)]
        want = np.square(y - np.einsum("ij,ij->i", X, without)).mean()
        assert float(found.leave_one_out(math.inf).mean_square) == pytest.approx(want, rel=1e-10)
