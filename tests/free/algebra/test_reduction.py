"""Powers of few-valued variables, and the cost of a law."""

import numpy as np
import pytest

from reshuffle import free
from reshuffle.free.linearization import reduced
from reshuffle.free.spectrum import Engine
from tests.looped import for_all


def family():
    laws = (
        free.Projection(0.5),
        free.Bernoulli(),
        free.Discrete([-3.0, 0.0, 3.0]),
        free.Discrete([2.0]),
        free.Semicircle(),
    )
    return free.variables(*laws), [law.matrix(40, seed) for seed, law in enumerate(laws)]


def test_a_reduced_expression_is_the_same_operator():
    (p, s, d, c, x), matrices = family()
    expressions = [
        p * p * x * p + s * s * x,
        d**4 * x * d**3 + x,
        c * x * c * c,
        1 / (3 + p * p + x) * s**3,
        p**4 * s * s * p,
        1j * (p * x * x * s**2 - s**2 * x * x * p),
        np.array([[0.0, 1.0], [2.0, 3.0]]) * p**3 * x,
    ]
    for expression in expressions:
        short = reduced(expression)
        assert max(len(word) for word in short.terms) < max(
            len(word) for word in expression.terms
        ) or "^-1" in repr(short)
        np.testing.assert_allclose(short.evaluate(matrices), expression.evaluate(matrices), atol=1e-10)


def test_a_projection_is_its_own_square_for_the_spectrum_too():
    p, q = free.variables(free.Projection(0.5), free.Projection(0.5))
    assert Engine(p * q * q + q * q * p).pencil.size == Engine(p * q + q * p).pencil.size
    law = free.spectrum(p * q * q + q * q * p)
    np.testing.assert_allclose(law.support, [(-0.25, 2.0)], atol=1e-10)
    np.testing.assert_allclose(
        [law.expectation(lambda t, k=k: t**k) for k in (1, 2, 3)], [0.5, 0.875, 1.4375], atol=1e-8
    )


def test_a_law_that_costs_too_much_says_how_to_go_on():
    p, q = free.variables(free.Projection(0.5), free.Projection(0.5))
    law = free.spectrum(p * q * p * q + q * p * q * p, budget=0.5)
    with pytest.raises(
        free.ConvergenceError, match=r"not found within 0.5 s of one core.*budget=5\), or use density"
    ):
        law.support  # noqa: B018
    assert law.density(1.0) > 0


@for_all(
    "laws, build",
    [
        ((free.Projection(0.4), free.Projection(0.3)), lambda x, y: x * y + y * x),
        ((free.Discrete([0.0, 1.0, 3.0]), free.Uniform()), lambda x, y: x * x * y + y * x * x),
        ((free.Uniform(), free.Projection(0.3)), lambda x, y: 1j * (x * x * y - y * x * x)),
        ((free.MarchenkoPastur(0.5), free.Semicircle()), lambda x, y: 1 / (3 + x + y * x * y)),
    ],
)
def test_the_jacobian_is_the_tangent_along_every_unknown(laws, build):
    system = Engine(build(*free.variables(*laws))).system
    rng = np.random.default_rng(0)
    unknowns = 0.1 * rng.standard_normal((3, system.unknowns)) - 0.1j
    z, height = np.array([0.3 + 0.1j, 0.5 + 0.2j, 1.0 + 0.1j]), np.full(3, 0.3)
    state = system.evaluate(system.base(z, height), unknowns)
    along = system.tangent(state, np.eye(system.unknowns, dtype=complex)[np.newaxis]).transpose(0, 2, 1)
    np.testing.assert_allclose(system.jacobian(state), along, atol=1e-12 * np.abs(along).max())
