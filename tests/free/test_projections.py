"""Two free projections, whose laws are known in closed form: supports, atoms, and what they cost.

The law of p q p is Voiculescu's; in general position two projections are 2 x 2 blocks of an angle whose squared
cosine t follows its continuous part (Halmos), so that i (p q - q p) has the eigenvalues +-(t (1 - t))^(1/2) there
and p q + q p the eigenvalues t +- t^(1/2).
"""

import numpy as np
import pytest

from reshuffle import free
from tests.looped import for_all


def product(a, b):
    """Return support and atoms of p q p for ranks a and b."""
    middle, reach = a + b - 2 * a * b, 2 * np.sqrt(a * b * (1 - a) * (1 - b))
    return [(middle - reach, middle + reach)], {0.0: 1 - min(a, b), 1.0: max(a + b - 1, 0.0)}


def commutator(a, b):
    """Return support and atoms of i (p q - q p)."""
    ((low, high),), _ = product(a, b)
    roots = [np.sqrt(max(t * (1 - t), 0.0)) for t in (low, high)]
    top = 0.5 if low <= 0.5 <= high else max(roots)
    return [(-top, -min(roots)), (min(roots), top)], {0.0: abs(1 - a - b) + abs(a - b)}


def anticommutator(a, b):
    """Return support and atoms of p q + q p, where its parts do not meet."""
    ((low, high),), atoms = product(a, b)
    roots = np.sqrt([low, high])
    below = [t - np.sqrt(t) for t in (low, high)] + ([-0.25] if low <= 0.25 <= high else [])
    at_zero = abs(1 - a - b) + abs(a - b) - atoms[1.0]
    return [(min(below), max(below)), (low + roots[0], high + roots[1])], {0.0: at_zero, 2.0: atoms[1.0]}


def compared(expression, support, atoms, budget=60.0):
    s = free.spectrum(expression, budget)
    assert len(s.support) == len(support)
    np.testing.assert_allclose(s.support, support, rtol=0, atol=1e-8)
    expected = [(place, mass) for place, mass in sorted(atoms.items()) if mass > 1e-9]
    assert len(s.atoms) == len(expected)
    np.testing.assert_allclose(s.atoms, expected, rtol=0, atol=1e-12)


@for_all(
    "ranks", [(0.3, 0.4), (0.7, 0.4), (0.9, 0.3), (0.999, 0.3), (1e-4, 0.5), (0.02, 0.5), (0.548, 0.046)]
)
def test_products_of_any_ranks(ranks):
    p, q = free.variables(*map(free.Projection, ranks))
    compared(p * q * p, *product(*ranks))
    ((low, high),), _ = product(*ranks)
    t = np.linspace(low, high, 22)[1:-1]
    exact = np.sqrt((t - low) * (high - t)) / (2 * np.pi * t * (1 - t))
    np.testing.assert_allclose(free.spectrum(p * q * p).density(t), exact, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [(0.5, 0.5000001), (1 / 3, 0.6666668)])
def test_an_atom_that_sets_in_is_listed(ranks):
    p, q = free.variables(*map(free.Projection, ranks))
    compared(p * q * p, *product(*ranks))


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [(0.7, 0.4), (0.9, 0.3)])
def test_commutators_have_no_part_beside_their_kernel(ranks):
    p, q = free.variables(*map(free.Projection, ranks))
    # They took forty times as much, or were refused.
    compared(1j * (p * q - q * p), *commutator(*ranks), budget=3.0)


@pytest.mark.parametrize("ranks", [(0.999, 0.3), (0.158, 0.931)])
def test_anticommutators(ranks):
    p, q = free.variables(*map(free.Projection, ranks))
    compared(p * q + q * p, *anticommutator(*ranks))
