"""Horner's rule against the plain sum over words."""

import itertools
import math

import numpy as np

from reshuffle import free
from reshuffle.free.expression import Horner


def plain(terms, matrices, rows):
    total = np.zeros((rows, rows), dtype=complex)
    for word, value in terms.items():
        image = np.eye(rows)
        for letter in word:
            image = image @ matrices[letter]
        total = total + (
            np.kron(value, np.eye(rows // len(value))) @ image if np.ndim(value) else value * image
        )
    return total


def test_random_words_with_numbers_and_matrices_as_coefficients():
    rng = np.random.default_rng(0)
    words = [tuple(rng.integers(3, size=n)) for n in rng.integers(0, 6, size=40)]
    matrices = {k: np.kron(np.eye(2), rng.standard_normal((3, 3))) for k in range(3)}
    numbers = {word: complex(*rng.standard_normal(2)) if k % 3 else 1.5 for k, word in enumerate(words)}
    np.testing.assert_allclose(
        Horner(numbers).at(matrices, 6), plain(numbers, matrices, 6), rtol=1e-13, atol=1e-12
    )
    blocks = {word: rng.standard_normal((2, 2)) for word in words}
    np.testing.assert_allclose(
        Horner(blocks).at(matrices, 6), plain(blocks, matrices, 6), rtol=1e-13, atol=1e-12
    )
    assert not Horner({}).at({}, 2).any()


def test_a_symmetrised_product_has_as_many_rests_as_subsets_though_its_coefficients_are_rounded():
    terms = {w: (1 + 2.0**-52 * (k % 2)) / 3 for k, w in enumerate(itertools.permutations(range(6)))}
    plan = Horner(terms)
    assert len(plan.rests) == 2**6
    ones = {k: np.full((1, 1), 2.0) for k in range(6)}
    assert abs(plan.at(ones, 1)[0, 0] - math.factorial(6) * 2**6 / 3) < 1e-9


def test_inverses_and_constants_keep_their_size():
    x, y = free.variables(free.Semicircle(), free.Semicircle())
    a, b = np.diag([0.1, 0.2]), np.array([[0.0, 0.3], [0.3, 0.0]])
    found = (1 / (2 + x * y) + 1j * y + 3).evaluate([a, b])
    np.testing.assert_allclose(
        found, np.linalg.inv(2 * np.eye(2) + a @ b) + 1j * b + 3 * np.eye(2), atol=1e-15
    )
    assert (x - x + 2).evaluate([a, b]).tolist() == [[2.0, 0.0], [0.0, 2.0]]
    block = np.diag([1.0, 2.0])
    np.testing.assert_allclose((block * x + 1).evaluate([a, b]), np.kron(block, a) + np.eye(4), atol=1e-15)
