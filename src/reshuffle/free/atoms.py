"""Find the atoms of an expression's law and their masses."""

from collections.abc import Callable

import numpy as np

from reshuffle.free.checks import Complex, Real
from reshuffle.free.engine import Engine
from reshuffle.free.extrapolation import limit

SMALLEST = 1e-7
HEIGHTS = 10.0 ** -np.linspace(2, 6, 9)


def atoms(engine: Engine, eigenvalues: Real) -> tuple[tuple[float, float], ...]:
    """Return pairs (location, mass), from left to right.

    Atoms come from kernels that intersect for reasons of dimension, so that already a sampled matrix has them as
    repeated eigenvalues (Arizmendi, Cebron, Speicher and Yin, 2024). Each candidate's mass is then the limit of
    ``i e G(x + i e)``, extrapolated from nine heights.

    Parameters
    ----------
    eigenvalues : of a sample of the expression, sorted, shape (n,).
    """
    candidates = repeated(eigenvalues)
    if not len(candidates):
        return ()
    scale = max(float(np.abs(eigenvalues).max()), engine.pencil.factor * 1e-3)
    places = np.where(np.abs(candidates) < 1e-12 * scale, 0.0, candidates)
    masses = residues(lambda z: engine.trace(z).value, places, scale).real
    return tuple((float(x), float(m)) for x, m in zip(places, masses, strict=True) if m > SMALLEST)


def repeated(eigenvalues: Real) -> Real:
    """Return the values that occur more than once, up to rounding.

    >>> repeated(np.array([0.0, 1.0, 1.0 + 1e-14, 2.0])).tolist()
    [1.0]
    """
    scale = max(float(np.abs(eigenvalues).max()), 1e-300)
    cuts = np.flatnonzero(np.diff(eigenvalues) > 1e-10 * scale) + 1
    groups = np.split(eigenvalues, cuts)
    return np.array([float(np.median(group)) for group in groups if len(group) > 1])


def residues(function: Callable[[Complex], Complex], places: Real, scale: float) -> Complex:
    """Return ``lim i e f(x + i e)`` at each place, the mass of f's measure there."""
    heights = scale * HEIGHTS
    return limit(1j * heights * function(places[:, None] + 1j * heights))
