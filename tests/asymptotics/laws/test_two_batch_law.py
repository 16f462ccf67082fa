"""The closed form of two batches, against the engine, high precision and freeness."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reshuffle import free
from reshuffle.asymptotics import TwoBatchLaw, critical_alpha
from tests.asymptotics.oracles import expression
from tests.looped import for_all

CASES = [(0.25, 0.4), (1.5, 0.2), (1.5, 0.5), (1.0, 0.3), (0.8, 1.5), (0.02, 3.0), (8.0, 0.1), (0.999, 0.25)]
aspects = st.floats(-1.5, 1.5).map(lambda x: 10**x)
convergent = st.floats(0.01, 1.0)


@for_all("aspect, alpha", CASES)
def test_it_agrees_with_the_engine_and_with_freeness(aspect, alpha):
    law, (p, m, _) = TwoBatchLaw(aspect, alpha), expression(aspect, alpha, 2)
    engine = free.spectrum(p)
    low, high = law.support[0][0], law.support[-1][1]
    x = low + (high - low) * np.linspace(0.003, 0.997, 60)
    z = np.concatenate([x + 0.03j, x - 0.2j, [low - 1.0, high + 0.1, high + 5.0]])
    scale = law.density(x).max()
    assert np.abs(law.density(x) - engine.density(x)).max() < 1e-9 * scale
    assert np.abs(law.cauchy(z) - engine.cauchy(z)).max() < 1e-9 * scale
    z = np.array([0.1 + 0.1j, 0.5 + 0.02j, 1.0 + 1j, -2.0 + 0.5j])
    noise = engine.weighted(m).cauchy(z) / alpha
    assert np.abs(law.transforms(z)[2] / noise - 1).max() < 1e-9
    assert law.measure.mass == pytest.approx(1, abs=1e-12)
    assert law.moments(6) == pytest.approx(engine.moments(6), rel=1e-9)


@pytest.mark.parametrize(("aspect", "alpha"), [(1.5, 3.0), (4.0, 1.5)])
def test_far_beyond_convergence_the_atom_lies_inside_the_support(aspect, alpha):
    law = TwoBatchLaw(aspect, alpha)
    assert law.support[0][0] < 0 < law.support[-1][1]
    # The transform is dominated by the atom here, and the density is what is left.
    close = np.array([-1e-8, -1e-6, 1e-7, 1e-9])
    assert law.density(close) == pytest.approx(np.full(4, float(law.density(1e-5))), rel=1e-3)
    exact = free.spectrum(expression(aspect, alpha, 2)[0]).moments(4)
    assert law.moments(4) == pytest.approx(exact, rel=1e-9)
    assert law.measure.mass == pytest.approx(1, abs=1e-10)


@for_all("aspect, alpha", [(0.25, 0.4), (1.5, 0.2), (0.25, 1e-6), (1000.0, 1e-4), (1e-3, 1e-3)])
def test_it_keeps_its_digits_at_every_scale(aspect, alpha):
    law = TwoBatchLaw(aspect, alpha)
    low, high = law.support[0]
    x = low + (high - low) * np.linspace(0.01, 0.99, 9)
    for place, density in zip(x, law.density(x), strict=True):
        with mpmath.workdps(40):
            exact = _precise_density(aspect, alpha, place, complex(law.parameter(np.array([place + 0j]))[0]))
        assert density == pytest.approx(exact, rel=1e-11)


def _precise_density(aspect, alpha, place, start):
    """The density from the curve in its other form, with s = -q/c, solved in 40 digits near a given q."""
    c, v = mpmath.mpf(alpha) * mpmath.mpf(aspect), mpmath.mpf(alpha) / 2

    def cubic(s):
        return c**3 * s**3 + c**2 * (c - v) * s**2 - 4 * c * s + 4 * v

    def z(s):
        other = c**2 * s**3 + c * v * s**2 - (c - 2 * v + 4) * s + 2
        return cubic(s) * other / (s * (c * s - 2) * (c * s - 1) ** 2 * (c * s + 2) ** 2)

    s = mpmath.findroot(lambda t: z(t) - mpmath.mpf(place), mpmath.mpc(-start) / c)
    return float(abs(mpmath.im(s * (c * s - 2) * (c * s - 1) * (c * s + 2) / cubic(s))) / mpmath.pi)


@pytest.mark.slow
@settings(max_examples=30)
@given(aspects, convergent)
def test_it_is_a_probability_law_wherever_descent_converges(aspect, share):
    alpha = share * critical_alpha(aspect, 2)
    law = TwoBatchLaw(aspect, alpha)
    scale = law.support[-1][1] - law.support[0][0]
    assert law.measure.mass == pytest.approx(1, abs=1e-9)
    assert law.moments(1)[0] == pytest.approx(alpha - alpha**2 / 4, rel=1e-9, abs=1e-9 * scale)


@for_all("distance", [1e-6, 1e-8, -1e-8, 1e-9, -1e-10])
def test_all_mass_is_found_where_a_soft_edge_nearly_touches_zero(distance):
    law = TwoBatchLaw(1 + distance, 0.2)
    assert law.measure.mass == pytest.approx(1, abs=1e-12)
