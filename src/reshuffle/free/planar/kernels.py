"""Atoms of Brown measures: eigenvalues that matrices in general position have many times."""

from collections.abc import Callable
from functools import partial

import numpy as np

from reshuffle.free.checks import Complex
from reshuffle.free.expression import Expression
from reshuffle.free.moments import is_polynomial
from reshuffle.free.solver.atoms import atoms as atoms_of
from reshuffle.free.solver.resolvent import Engine

SIZE = 60
DEEPEST = 3
"""The largest power of p - z whose kernel is looked at; its words grow with it."""
LONGEST = 12
"""Letters of the longest word that is still multiplied out."""

PlanarAtoms = tuple[tuple[complex, float], ...]


def planar_atoms(expression: Expression, matrix: Callable[[int], Complex]) -> PlanarAtoms:
    """Return pairs (location, mass) of the points where ``(p - z)^k`` has a kernel.

    Locations are repeated eigenvalues of one matrix in general position; masses are those of the atom at 0 of
    ``|(p - z)^k|^2``, which are exact. The power is raised until the mass stays.

    Parameters
    ----------
    expression : p; matrix : size -> p at random matrices.
    """
    laws = expression.family.laws if expression.family else ()
    if not any(law.atoms for law in laws) and not _constant(expression):
        # Without atoms of its variables no expression has one (Mai, Speicher and Weber, 2017), unless it
        # is a number.
        return ()
    found = []
    for place in _repeated(np.linalg.eigvals(matrix(SIZE)), expression):
        mass = _mass(expression - place)
        if mass > 0:
            found.append((place, mass))
    return tuple(found)


def _constant(expression: Expression) -> bool:
    return set(expression.terms) <= {()}


def _repeated(eigenvalues: Complex, expression: Expression) -> list[complex]:
    """Return the middles of groups of at least three eigenvalues; Jordan blocks scatter them."""
    scale = max(float(np.abs(eigenvalues).max()), 1e-300)
    near = partial(_close, scale=scale)
    constant = expression.constant
    candidates = [] if np.ndim(constant) else [complex(constant)]
    candidates += [complex(value) for value in eigenvalues]
    places: list[complex] = []
    for candidate in candidates:
        group = eigenvalues[near(eigenvalues, candidate)]
        if len(group) >= 3 and not any(abs(place - candidate) < 3e-3 * scale for place in places):
            given = abs(candidate - candidates[0]) < 3e-3 * scale and not np.ndim(constant)
            middle = candidates[0] if given else complex(np.mean(group))
            places.append(complex(0.0) if abs(middle) < 1e-9 * scale else middle)
    return places


def _close(values: Complex, place: complex, scale: float) -> Complex:
    return np.asarray(np.abs(values - place) < 1e-3 * scale)


def _mass(moved: Expression) -> float:
    """Return the mass of the kernel of the highest power that is looked at."""
    last, power = -1.0, Expression({(): 1}, moved.family)
    for _ in range(DEEPEST):
        power = power * moved
        longest = max((len(word) for word in power.terms), default=0)
        if is_polynomial(power) and longest > LONGEST:
            break
        square = power.adjoint() * power
        mass = sum(m for x, m in atoms_of(Engine(square), SIZE) if abs(x) < 1e-9)
        if mass == last:
            break
        last = mass
    return max(last, 0.0)
