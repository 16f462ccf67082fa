"""Brown measures, against the circular, elliptic and single-ring laws, and against eigenvalues of matrices."""

import numpy as np
import pytest

from reshuffle import free
from tests.looped import for_all


def test_the_circular_law_is_flat():
    (c,) = free.variables(free.Circular(2.0))
    b = free.brown(c)
    z = np.array([[0.0, 0.7j], [1.0 - 0.9j, 1.3]])
    np.testing.assert_allclose(b.density(z), 1 / (2 * np.pi), rtol=1e-11)
    np.testing.assert_allclose(b.density([1.5, -2j]), 0.0, atol=1e-12)
    np.testing.assert_allclose(b.potential_derivative([0.5j, 3.0]), [-0.25j, 1 / 3], atol=1e-12)
    assert b.is_radial
    np.testing.assert_allclose(b.radii, (0.0, 2**0.5), atol=1e-7)
    np.testing.assert_allclose(b.radial_cdf([0.5, 1.0, 2.0]), [0.125, 0.5, 1.0], atol=1e-11)
    assert b.atoms == ()


@for_all("first, second", [(1.0, 0.25), (0.5, 0.5), (0.3, 0.7)])
def test_semicirculars_of_two_variances_make_the_elliptic_law(first, second):
    """``x + i y`` is uniform on an ellipse: Girko's elliptic law, rescaled."""
    x, y = free.variables(free.Semicircle(first), free.Semicircle(second))
    b = free.brown(x + 1j * y)
    total, tilt = first + second, (first - second) / (first + second)
    height = 1 / (np.pi * total * (1 - tilt**2))
    axes = np.sqrt(total) * (1 + tilt), np.sqrt(total) * (1 - tilt)
    angles = np.array([0.2, 1.9, 4.0])
    rim = axes[0] * np.cos(angles) + 1j * axes[1] * np.sin(angles)
    np.testing.assert_allclose(b.density(0.95 * rim), height, rtol=1e-9)
    np.testing.assert_allclose(b.density(1.05 * rim), 0.0, atol=1e-9)
    assert b.contains(0.99 * rim).all()
    assert not b.contains(1.01 * rim).any()
    assert b.is_radial == (first == second)


def test_a_product_of_two_circulars_has_density_one_over_the_radius():
    c, d = free.variables(free.Circular(), free.Circular())
    b = free.brown(c * d)
    z = np.array([0.05, 0.3j, -0.6 + 0.5j, 0.97])
    np.testing.assert_allclose(b.density(z), 1 / (2 * np.pi * np.abs(z)), rtol=1e-9)
    np.testing.assert_allclose(b.radial_cdf([0.25, 0.5, 1.5]), [0.25, 0.5, 1.0], atol=1e-10)


def ring(law, shares):
    """Return the radii at which Haagerup and Larsen's formula puts these shares of the mass: S(t - 1)^(-1/2).

    ``S`` is that of the squares of a law of points, from its Cauchy transform by root finding.
    """
    from scipy.optimize import brentq

    x, w = np.array(law.atoms).T
    squares = x**2

    def psi(u):
        return float((w * u * squares / (1 - u * squares)).sum())

    result = []
    for t in shares:
        u = brentq(lambda v, t=t: psi(-np.exp(v)) - (t - 1), -30, 30, xtol=1e-14)
        chi = -np.exp(u)
        result.append((t / (t - 1) * chi) ** -0.5)
    return np.array(result)


@pytest.mark.slow
def test_the_single_ring_theorem():
    law = free.Discrete([1.0, 2.0, 3.0], [0.5, 0.3, 0.2])
    (a,) = free.variables(free.RDiagonal(law))
    b = free.brown(a)
    shares = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(b.radial_cdf(ring(law, shares)), shares, atol=1e-9)
    x, w = np.array(law.atoms).T
    inner, outer = (w / x**2).sum() ** -0.5, (w * x**2).sum() ** 0.5
    np.testing.assert_allclose(b.radii, (inner, outer), atol=1e-11)
    np.testing.assert_allclose(b.density([0.9 * inner, 1.05 * outer]), 0.0, atol=1e-9)


def test_systems_of_many_unknowns_are_solved_on_the_plane_too():
    """``c d + d c`` has 64 unknowns; it does not change under rotations, so that outside its support g = 1/z."""
    c, d = free.variables(free.Circular(), free.Circular())
    b = free.brown(c * d + d * c)
    np.testing.assert_allclose(b.potential_derivative([4.0, 3j]), [1 / 4, 1 / 3j], atol=1e-12)
    z = 0.8 * np.exp([0.3j, 2j])
    np.testing.assert_allclose(*b.density(z), rtol=1e-9)
    assert b.contains(z).all()


def test_a_haar_unitary_lives_on_the_circle():
    (u,) = free.variables(free.HaarUnitary())
    np.testing.assert_allclose(free.brown(u).potential_derivative([0.5j, 2.0]), [0.0, 0.5], atol=1e-10)


@pytest.mark.slow
def test_a_polynomial_agrees_with_the_eigenvalues_of_a_matrix():
    """``c^2 + x`` has no symmetry: shares of the eigenvalues in discs are integrals of the density."""
    c, x = free.variables(free.Circular(), free.Semicircle(0.5))
    b = free.brown(c * c + x)
    found = b.grid(30)
    assert found.converged.mean() > 0.97
    assert found.mass == pytest.approx(1.0, abs=0.05)
    eigenvalues = b.eigenvalues(400, seed=5)
    cell = (found.x[1] - found.x[0]) * (found.y[1] - found.y[0])
    inside = np.abs(found.x + 1j * found.y[:, None] - 0.3) < 0.7
    expected = np.nansum(found.density[inside]) * cell
    assert np.mean(np.abs(eigenvalues - 0.3) < 0.7) == pytest.approx(expected, abs=0.05)
    assert not b.is_radial
    with pytest.raises(ValueError, match="rotations"):
        b.radial_cdf(1.0)


def test_a_triangular_matrix_of_circulars_has_the_eigenvalues_of_its_diagonal():
    c, d, e = free.variables(free.Circular(), free.Circular(0.25), free.Circular())
    b = free.brown(free.block([[c, e], [0, d + 2]]))
    np.testing.assert_allclose(b.density([0.5j, 2.1, 1.2, 3.0]), [0.5 / np.pi, 2 / np.pi, 0, 0], atol=1e-9)


def test_kernels_are_atoms():
    p, c = free.variables(free.Projection(0.75), free.Circular())
    b = free.brown(p * c)
    np.testing.assert_allclose(b.atoms, [(0.0, 0.25)], atol=1e-12)
    # p c has the eigenvalues of the corner p c p, circular of variance 3/4 there.
    np.testing.assert_allclose(b.density([0.3, 0.8j]), 1 / np.pi, rtol=1e-9)
    np.testing.assert_allclose(b.density(0.9), 0.0, atol=1e-9)


@pytest.mark.slow
def test_rational_expressions_and_what_is_not_bounded():
    c, x = free.variables(free.Circular(), free.Semicircle())
    b = free.brown(c / (3 + x))
    resolvent = np.linalg.inv(2.0 * np.eye(600) - b.matrix(600, seed=1))
    assert complex(b.potential_derivative(2.0)) == pytest.approx(complex(np.trace(resolvent)) / 600, abs=5e-3)
    assert "Brown measure of" in repr(b)
    with pytest.raises(ZeroDivisionError, match="invertible"):
        free.brown(c / x)
    with pytest.raises(TypeError, match="variables"):
        free.brown(np.eye(2))
