"""Find the atoms of an expression's law, with masses that are exact in those of the variables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.free.algebra.expression import Expression
from reshuffle.free.checks import Complex, Real
from reshuffle.free.laws import Law
from reshuffle.free.laws.law import haar
from reshuffle.free.solver.extrapolation import limit
from reshuffle.free.solver.resolvent import Engine

SMALLEST = 1e-9
FEW = 12
ATTEMPTS = 4
HEIGHTS = 10.0 ** -np.linspace(1, 4, 9)

Pairs = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class _Trial:
    """One generic matrix of the expression: the multiplicities of its variables' atoms, and its eigenvalues."""

    counts: list[int]
    eigenvalues: Real


def atoms(engine: Engine, size: int) -> Pairs:
    """Return pairs (location, mass), from left to right.

    Kernels of expressions in free variables intersect only for reasons of dimension (Arizmendi, Cebron,
    Speicher and Yin, 2024), and so do those of matrices in general position: the multiplicity of an
    eigenvalue is an integer combination of the size and of the variables' own multiplicities. A few matrices
    of ``size`` with different multiplicities determine the integers, hence the mass with no rounding at all.
    Where they do not agree (a law of many points, or a mass at the brink of vanishing) the mass is the limit
    of ``i e G(x + i e)``.
    """
    laws = engine.expression.family.laws if engine.expression.family else ()
    masses = [mass for law in laws for _, mass in law.atoms[: _free_counts(law)]]
    found: dict[float, float | None] = {}
    for attempt in range(ATTEMPTS if len(masses) <= FEW else 1):
        trials = _trials(engine.expression, laws, size, len(masses), attempt)
        for place in _common(trials):
            exact = (
                _integer_mass(trials, place, masses, size, engine.pencil.corner)
                if len(masses) <= FEW
                else None
            )
            known = next((other for other in found if abs(other - place) < 1e-9 * _scale(trials)), place)
            found[known] = exact if found.get(known) is None else found[known]
        if all(mass is not None for mass in found.values()):
            break
    scale = _scale(trials)
    masses_found = {
        place: _limit_mass(engine, place, scale) if mass is None else mass
        for place, mass in sorted(found.items())
    }
    return tuple((place, mass) for place, mass in masses_found.items() if mass > SMALLEST)


def _limit_mass(engine: Engine, place: float, scale: float) -> float:
    return float(residues(lambda z: engine.trace(z, strict=False).value, np.array([place]), scale)[0].real)


def _trials(
    expression: Expression, laws: Sequence[Law], size: int, unknowns: int, attempt: int
) -> list[_Trial]:
    """Return enough matrices to determine the integers, all on one side of every place where they change.

    Masses are piecewise linear in the variables' masses, and these may sit exactly on a crease, as two
    projections of equal rank do. A common large offset puts all trials into one piece; the piece's own
    formula holds up to its edge.
    """
    generator = np.random.default_rng([attempt, size])
    offset = generator.integers(-4, 5, size=max(unknowns, 1)) * 3
    number_of_trials = unknowns + 4 if unknowns <= FEW else 2
    moves = offset + generator.integers(-1, 2, size=(number_of_trials, max(unknowns, 1)))
    return [_trial(expression, laws, size, move, generator) for move in moves]


def residues(function: Callable[[Complex], Complex], places: Real, scale: float) -> Complex:
    """Return ``lim i e f(x + i e)`` at each place, the mass of f's measure there, from nine heights."""
    heights = scale * HEIGHTS
    return limit(1j * heights * function(places[:, None] + 1j * heights))


def repeated(eigenvalues: Real) -> Real:
    """Return the values that occur more than once, up to rounding.

    >>> repeated(np.array([0.0, 1.0, 1.0, 2.0])).tolist()
    [1.0]
    """
    scale = max(float(np.abs(eigenvalues).max()), 1e-300)
    cuts = np.flatnonzero(np.diff(eigenvalues) > 1e-10 * scale) + 1
    groups = np.split(eigenvalues, cuts)
    return np.array([float(np.median(group)) for group in groups if len(group) > 1])


def _free_counts(law: Law) -> int:
    """Return how many of the law's atoms have multiplicities at will: all, but the last of a discrete law."""
    return len(law.atoms) if law.support else len(law.atoms) - 1


def _trial(
    expression: Expression, laws: Sequence[Law], size: int, move: NDArray[Any], generator: np.random.Generator
) -> _Trial:
    counts: list[int] = []
    matrices = []
    for law in laws:
        values, chosen = _eigenvalues(law, size, move[len(counts) :], generator)
        basis = haar(size, generator)
        matrices.append((basis * values) @ basis.T)
        counts += chosen
    value = expression.evaluate(matrices or [np.zeros((size, size))])
    return _Trial(counts, np.linalg.eigvalsh((value + value.conj().T) / 2))


def _eigenvalues(
    law: Law, size: int, move: NDArray[Any], generator: np.random.Generator
) -> tuple[Real, list[int]]:
    """Return ``size`` eigenvalues with atoms at multiplicities near their masses, and those chosen at will."""
    chosen: list[int] = []
    for (_, mass), shift in zip(law.atoms[: _free_counts(law)], move, strict=False):
        chosen.append(max(1, min(round(mass * size) + int(shift), size - 1 - sum(chosen))))
    rest = size - sum(chosen)
    values = [np.full(n, place) for (place, _), n in zip(law.atoms, chosen, strict=False)]
    if law.support:
        widths = np.array([high - low for low, high in law.support])
        picks = generator.choice(len(widths), size=rest, p=widths / widths.sum())
        ends = np.array(law.support)[picks]
        values.append(generator.uniform(ends[:, 0], ends[:, 1]))
    else:
        values.append(np.full(rest, law.atoms[-1][0]))
    return np.concatenate(values), chosen


def _scale(trials: Sequence[_Trial]) -> float:
    return max(max(float(np.abs(trial.eigenvalues).max()) for trial in trials), 1e-300)


def _common(trials: Sequence[_Trial]) -> list[float]:
    """Return the eigenvalues that repeat in every trial."""
    scale = _scale(trials)
    places = [
        place
        for place in repeated(trials[0].eigenvalues)
        if all(np.sum(np.abs(trial.eigenvalues - place) < 1e-9 * scale) > 1 for trial in trials[1:])
    ]
    return [0.0 if abs(place) < 1e-12 * scale else float(place) for place in places]


def _integer_mass(
    trials: Sequence[_Trial], place: float, masses: Sequence[float], size: int, corner: int
) -> float | None:
    scale = _scale(trials)
    table = np.array([[size, *trial.counts] for trial in trials], dtype=float)
    multiplicity = np.array(
        [np.sum(np.abs(trial.eigenvalues - place) < 1e-9 * scale) for trial in trials], dtype=float
    )
    weights = np.round(np.linalg.lstsq(table, multiplicity, rcond=None)[0])
    if np.any(table @ weights != multiplicity):
        return None
    return float(weights @ np.array([1.0, *masses])) / corner
