"""Products symmetrised over several variables, against the law of exchangeable batches."""

from functools import lru_cache

import numpy as np
import pytest

from reshuffle import asymptotics, free


def symmetrised(laws):
    """Return 1 minus the average over all orders of the product of (1 - w_b)."""
    w = free.variables(*laws)

    @lru_cache(None)
    def over(subset):
        return sum((1 - w[b]) * over(subset - {b}) for b in subset) / len(subset) if subset else 1.0

    return free.spectrum(1 - over(frozenset(range(len(laws)))))


@pytest.mark.parametrize("batches", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_symmetrised_products_have_the_law_of_exchangeable_batches(batches):
    law = asymptotics.batch_spectrum(0.125, 0.4, batches)
    s = symmetrised([free.MarchenkoPastur(0.125 * batches, 0.4 / batches)] * batches)
    low, high = law.support[0]
    t = np.linspace(low, high, 30)[1:-1]
    np.testing.assert_allclose(s.density(t), law.density(t), atol=1e-9)


@pytest.mark.slow
def test_a_matrix_of_expressions_in_exchangeable_variables():
    x, y, z = free.variables(*[free.Semicircle(0.5)] * 3)
    products = x * y + y * x + y * z + z * y + x * z + z * x
    s = free.spectrum(free.block([[x + y + z, products], [products, -1]]))
    assert s.compare(300, seed=2).distance < 0.02
    # The trace of the square, from the diagonal and the corners: E (x + y + z)^2 + 2 E products^2 + 1, over two.
    assert s.moments(2)[1] == pytest.approx((1.5 + 2 * 6 * 0.5**2 + 1) / 2, rel=1e-9)
