"""Certificates hold the truth: closed forms in many digits, and other ways to the same number."""

import builtins
from fractions import Fraction

import flint
import numpy as np
import pytest

from reshuffle import free
from tests.free.oracles import TwoBatchCurve
from tests.looped import for_all


def semicircle_in_balls(z, variance, mean):
    """Return G in 200 bits: the root of ``v G^2 - (z - m) G + 1`` in the lower half-plane."""
    with flint.ctx.workprec(200):
        w = flint.acb(z.real, z.imag) - mean
        root = (w * w - 4 * flint.acb(variance)).sqrt()
        options = [(w - root) / (2 * flint.acb(variance)), (w + root) / (2 * flint.acb(variance))]
        return next(g for g in options if g.imag < 0)


def poisson_in_balls(z, rate, jump):
    """Return G in 200 bits: ``z = 1/G + l a/(1 - a G)``, a quadratic equation."""
    with flint.ctx.workprec(200):
        z, rate, a = flint.acb(z.real, z.imag), flint.acb(rate), flint.acb(jump)
        b = z + a - rate * a
        root = (b * b - 4 * a * z).sqrt()
        options = [(b - root) / (2 * a * z), (b + root) / (2 * a * z)]
        return next(g for g in options if g.imag < 0)


def distance(certificate, truth):
    with flint.ctx.workprec(200):
        return float(abs(truth - flint.acb(certificate.value.real, certificate.value.imag)).upper())


@for_all("z", [1j, 0.3 + 0.01j, -1.9 + 1e-6j, 40 + 3j])
def test_the_truth_is_inside_for_single_laws(z):
    (x,) = free.variables(free.Semicircle(1.3, 0.2))
    found = free.spectrum(x).certify(z)
    assert distance(found, semicircle_in_balls(z, 1.3, flint.arb(0.2))) <= found.radius < 1e-15
    (x,) = free.variables(free.FreePoisson(0.7, -1.3))
    found = free.spectrum(x).certify(z)
    assert distance(found, poisson_in_balls(z, 0.7, -1.3)) <= found.radius < 1e-14


def test_the_truth_is_inside_for_an_anticommutator():
    """``z G^3 + G^2 - z G + 1 = 0`` for free unit semicirculars."""
    x, y = free.variables(free.Semicircle(), free.Semicircle())
    s = free.spectrum(x * y + y * x)
    for z in (0.4 + 0.05j, -2 + 0.5j, 0.01 + 1e-4j):
        found = s.certify(z)
        g = found.value
        slope = abs(3 * z * g**2 + 2 * g - z)
        assert abs(z * g**3 + g**2 - z * g + 1) <= slope * found.radius * 1.01 + 1e-14 * (1 + abs(z * g**3))
        assert found.radius < 1e-14


@pytest.mark.slow
def test_the_truth_is_inside_for_the_two_batch_law_and_below_the_axis():
    law = free.MarchenkoPastur(ratio=0.5, variance=0.2)
    x, y = free.variables(law, law)
    s = free.spectrum(x + y - (x * y + y * x) / 2)
    z = np.array([0.3 + 0.05j, 0.6 + 0.3j])
    for point, truth in zip(z, TwoBatchCurve(0.5, 0.2).cauchy(z), strict=True):
        found = s.certify(point)
        assert abs(found.value - truth) <= found.radius + 1e-12
        below = s.certify(point.conjugate())
        assert (below.value, below.radius) == (found.value.conjugate(), found.radius)
        assert "proven" in repr(found)


def test_a_wrong_solution_is_not_proven():
    from reshuffle.free.certificates import Prover

    (x,) = free.variables(free.Semicircle())
    prover = Prover(x * x - x)
    start = prover._start(0.5 + 0.2j)
    # The same equation has solutions in the upper half-plane too: the mirror image of that at another point.
    prover._start = lambda z: start.conj()
    with pytest.raises(free.ConvergenceError, match="no certificate"):
        prover.certify(0.5 + 0.2j)


@for_all(
    "expression, words",
    [
        (lambda x, p: x + p, "Projection"),
        (lambda x, p: 1 / (3 + x), "rational"),
        (lambda x, p: np.eye(2) * x, "matrices"),
        (lambda x, p: (x + 1) ** 20, "at most"),
    ],
)
def test_what_has_no_proof_is_refused(expression, words):
    x, p = free.variables(free.Semicircle(), free.Projection(0.5))
    with pytest.raises(ValueError, match=words):
        free.spectrum(expression(x, p)).certify(1j)


def test_the_axis_is_refused_and_so_is_a_missing_library(monkeypatch):
    (x,) = free.variables(free.Semicircle())
    s = free.spectrum(x)
    with pytest.raises(ValueError, match="real axis"):
        s.certify(1.0)
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "flint":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match="python-flint"):
        free.spectrum(x + x).certify(1j)


@for_all("kind", [np.float16, np.float32, np.float64, np.longdouble, Fraction, int])
def test_coefficients_of_every_type_are_kept_exactly(kind):
    """A half of the smallest numbers of a narrow type is none of its numbers."""
    (x,) = free.variables(free.Semicircle())
    small = {Fraction: Fraction(503, 2**24), int: 3}.get(kind) or kind(503 * 2.0**-24)
    p = x + small * x * x
    if kind is np.longdouble:
        with pytest.raises(
            ValueError, match=r"coefficients that are fractions, floats or complex .* longdouble"
        ):
            free.spectrum(p).certify(0.3 + 0.1j)
        return
    found = free.spectrum(p).certify(0.3 + 0.1j)
    same = free.spectrum(x + Fraction(small if kind in (int, Fraction) else float(small)) * x * x)
    other = same.certify(0.3 + 0.1j)
    assert abs(found.value - other.value) <= found.radius + other.radius


@pytest.mark.parametrize("away", [lambda x: (1 + 1e-13j) * x, lambda x: x + np.complex64(1e-13j)])
def test_what_is_not_self_adjoint_is_not_certified(away):
    (x,) = free.variables(free.Semicircle())
    with pytest.raises(ValueError, match=r"self-adjoint up to rounding.*differ by 2e-13"):
        free.spectrum(away(x)).certify(0.3 + 0.1j)


def test_words_of_different_sizes_are_certified_and_extremes_refused_with_advice():
    x, y = free.variables(free.Semicircle(), free.MarchenkoPastur(0.5))
    law = free.spectrum(1e3 * (x * y * x) + 1e-3 * y)
    found = law.certify(0.3j)
    assert found.radius < 1e-15
    assert abs(found.value - law.cauchy(0.3j)) < 1e-12 * abs(found.value)
    scaled = free.spectrum(1e-5 * (x * y * x) + 1e5 * y).certify(1e5 * (0.5 + 0.1j))
    # The first word is a perturbation of relative size 1e-10: the law of y alone is as close as that.
    (w,) = free.variables(free.MarchenkoPastur(0.5))
    alone = free.spectrum(w).certify(0.5 + 0.1j)
    assert abs(1e5 * scaled.value - alone.value) < 1e-8
    with pytest.raises(free.ConvergenceError, match="further from the axis"):
        free.spectrum(1e5 * (x * x * x) + 1e-5 * x).certify(0.3j)
    with pytest.raises(ValueError, match=r"z must have a size of at most 1e\+60"):
        law.certify(1e200 + 1e200j)
    with pytest.raises(free.ConvergenceError, match=r"at \(1\+1e-200j\).*further from the axis"):
        free.spectrum(x * y + y * x).certify(1 + 1e-200j)


def test_rounding_between_words_and_their_reverses_is_allowed():
    x, y = free.variables(free.Semicircle(), free.Semicircle())
    assert free.spectrum((0.1 * x + 0.3 * y) ** 3).certify(0.3 + 0.1j).radius < 1e-14
