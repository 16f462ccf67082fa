"""Find the atoms of an expression's law, with masses that are exact in those of the variables."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.free import progress
from reshuffle.free.checks import Complex, Real
from reshuffle.free.expression import Expression
from reshuffle.free.laws import Law
from reshuffle.free.laws.law import haar
from reshuffle.free.solver.continuation import limit

if TYPE_CHECKING:
    from reshuffle.free.spectrum import Engine

SMALLEST = 1e-9
FEW = 12
HEIGHTS = 10.0 ** -np.linspace(1, 4, 9)
STRIDE = 3
"""By which multiplicities are moved: a mass that sets in nearby is then two eigenvalues or more."""
TWICE = 2
"""Times that every atom of a variable occurs in a trial, however light it is; `STRIDE` more before it is moved."""
PAIRS = 4
"""Largest number of pairs of opposite offsets that are tried where a mass sets in."""
NEARBY = 25
"""Sizes to choose from: one at which all masses are whole numbers of rows, if there is one."""
LARGEST = 1000
"""Rows that a trial may have for the sake of many atoms; beyond, only the heaviest of them occur."""

Pairs = tuple[tuple[float, float], ...]


class _Trial(NamedTuple):
    """One generic matrix of the expression: the multiplicities of its variables' atoms, and its eigenvalues."""

    counts: list[int]
    eigenvalues: Real


def atoms(engine: "Engine", size: int) -> Pairs:
    """Return pairs (location, mass), from left to right.

    Kernels of expressions in free variables intersect only for reasons of dimension (Arizmendi, Cebron,
    Speicher and Yin, 2024), and so do those of matrices in general position: the multiplicity of an
    eigenvalue is an integer combination of the size and of the variables' own multiplicities. A few matrices
    of ``size``, or more where the variables have many atoms, with different multiplicities determine the
    integers, hence the mass with no rounding at all.

    The integers change where a mass sets in, as that of two projections does whose ranks add up to one. No other
    variables with the same atoms have less mass there than free ones, direct sums of free ones included: the mass
    is a convex function of those of the variables, and the largest of its linear pieces. So matrices on both
    sides are tried there, and none of their pieces can be too large. Where no piece is found (a law of many
    points) the mass is the limit of ``i e G(x + i e)``.
    """
    laws = engine.expression.family.laws if engine.expression.family else ()
    masses = [mass for law in laws for _, mass in law.atoms[: _free_counts(law)]]
    size = _rows(laws, size)
    found: dict[float, float | None] = {}
    for offset, stride in _offsets(len(masses), size):
        trials = _trials(engine.expression, laws, size, offset, stride)
        scale = _scale(trials)
        for place in _common(trials):
            exact = None
            if len(masses) <= FEW:
                table = np.array([[size, *trial.counts] for trial in trials], dtype=float)
                multiplicity = np.array([_multiplicity(trial, place, scale) for trial in trials], dtype=float)
                weights = np.round(np.linalg.lstsq(table, multiplicity, rcond=None)[0])
                if np.all(table @ weights == multiplicity):
                    exact = float(weights @ np.array([1.0, *masses])) / engine.pencil.corner
            known = next((other for other in found if abs(other - place) < 1e-9 * scale), place)
            pieces = [mass for mass in (exact, found.get(known)) if mass is not None]
            found[known] = max(pieces, default=None)
        # Exactly where a mass sets in all pieces agree.
        away = stride == STRIDE and not _sets_in(trials)
        if None not in found.values() and (away or (stride < STRIDE and _exact_rows(masses, size))):
            break
    places = np.array(sorted(found))
    gaps = np.diff(np.concatenate([[-np.inf], places, [np.inf]]))
    near = np.minimum(np.minimum(gaps[:-1], gaps[1:]), scale)
    pairs = []
    for place, distance in zip(places.tolist(), near.tolist(), strict=True):
        mass = found[place]
        if mass is None:
            # From points above the place that are closer than the next atom.
            limits = residues(lambda z: engine.trace(z, strict=False).value, np.array([place]), distance)
            mass = float(limits[0].real)
        pairs.append((place, mass))
    return tuple((place, mass) for place, mass in pairs if mass > SMALLEST)


def light_eigenvalues(engine: "Engine", size: int) -> Real:
    """Return sorted eigenvalues of a matrix in which every atom of the variables occurs, however light it is."""
    laws = engine.expression.family.laws if engine.expression.family else ()
    nothing = np.zeros(sum(_free_counts(law) for law in laws), dtype=int)
    return _trials(engine.expression, laws, _rows(laws, size), nothing, 0)[0].eigenvalues


def _rows(laws: Sequence[Law], size: int) -> int:
    """Return a number of rows near to ``size``, or more where that is needed for all atoms of a variable."""
    most = max((len(law.atoms) + 1 for law in laws), default=0)
    least = max(size, min(2 * (TWICE + STRIDE) * most, LARGEST))
    masses = [mass for law in laws for _, mass in law.atoms]
    return next((rows for rows in range(least, least + NEARBY) if _exact_rows(masses, rows)), least)


def _exact_rows(masses: Sequence[float], size: int) -> bool:
    """Return whether all masses are whole numbers of rows, enough of them to be moved."""
    wanted = np.array(masses) * size
    exact = np.abs(wanted - np.round(wanted)) < SMALLEST
    return bool((exact & (wanted > TWICE + STRIDE - 0.5)).all())


def _offsets(unknowns: int, size: int) -> list[tuple[NDArray[np.int_], int]]:
    """Return by what all multiplicities are offset, and by what each of them is then moved; none beyond a few."""
    nothing = np.zeros(unknowns, dtype=int)
    if unknowns > FEW:
        return [(nothing, 0)]
    generator = np.random.default_rng(size)
    # Of different sizes, so that neither sums nor differences of two of them vanish.
    sizes = 4 + 2 * (np.arange(unknowns) % 5)
    pairs = []
    for turn in range(min(unknowns, PAIRS)):
        offset = np.roll(sizes, turn) * generator.choice([-1, 1], size=unknowns)
        pairs += [(offset, 1), (-offset, 1)]
    return [(nothing, STRIDE), *pairs]


def _trials(
    expression: Expression, laws: Sequence[Law], size: int, offset: NDArray[np.int_], stride: int
) -> list[_Trial]:
    """Return matrices with each multiplicity moved up and down by ``stride``, or two that are not moved.

    An offset puts all trials on one side of the place where a mass sets in, which may be exactly that of the
    variables' own masses, as for two projections of equal rank.
    """
    generator = np.random.default_rng([size, *np.abs(offset), int((offset < 0).any())])
    steps = stride * np.eye(len(offset), dtype=int)
    none = np.zeros((1 if len(steps) else 2, len(offset)), dtype=int)
    moves = np.concatenate([none, steps, -steps]) if stride else np.concatenate([none, none])
    trials = []
    for move in moves:
        counts: list[int] = []
        matrices = []
        for law in laws:
            own = slice(len(counts), len(counts) + _free_counts(law))
            chosen = _multiplicities(law, size, offset[own]) + move[own]
            progress.step()
            basis = haar(size, generator)
            matrices.append((basis * _eigenvalues(law, size, chosen, generator)) @ basis.T)
            counts += chosen.tolist()
        value = expression.evaluate(matrices or [np.zeros((size, size))])
        trials.append(_Trial(counts, np.linalg.eigvalsh((value + value.conj().T) / 2)))
    return trials


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


def _multiplicities(law: Law, size: int, offset: NDArray[np.int_]) -> NDArray[np.int_]:
    """Return those of the law's atoms that can be chosen: near to their masses, but none too small to be moved.

    >>> from reshuffle.free import Projection
    >>> [_multiplicities(Projection(rank), 100, np.zeros(1, dtype=int)).tolist() for rank in (0.334, 0.9999)]
    [[67], [5]]
    """
    wanted = np.array([mass for _, mass in law.atoms[: len(offset)]]) * size + offset
    wanted = np.append(wanted, size - wanted.sum())
    least = np.full(len(wanted), TWICE + STRIDE)
    least[np.argsort(-wanted, kind="stable")[size // (TWICE + STRIDE) :]] = 0
    counts = np.where(least > 0, np.maximum(wanted, least), 0.0)
    # What the light ones take beyond their share the others give, as they can spare it.
    spare = counts - least
    counts -= spare * (counts.sum() - size) / max(spare.sum(), 1.0)
    whole = np.floor(counts + 1e-9).astype(int)
    whole[np.argsort(whole - counts, kind="stable")[: size - whole.sum()]] += 1
    return whole[:-1]


def _eigenvalues(law: Law, size: int, chosen: NDArray[np.int_], generator: np.random.Generator) -> Real:
    """Return ``size`` eigenvalues, with atoms at the multiplicities that were chosen."""
    rest = size - int(chosen.sum())
    values = [np.full(n, place) for (place, _), n in zip(law.atoms, chosen, strict=False)]
    if law.support:
        widths = np.array([high - low for low, high in law.support])
        picks = generator.choice(len(widths), size=rest, p=widths / widths.sum())
        ends = np.array(law.support)[picks]
        values.append(generator.uniform(ends[:, 0], ends[:, 1]))
    else:
        values.append(np.full(rest, law.atoms[-1][0]))
    return np.concatenate(values)


def _scale(trials: Sequence[_Trial]) -> float:
    return max(max(float(np.abs(trial.eigenvalues).max()) for trial in trials), 1e-300)


def _common(trials: Sequence[_Trial]) -> list[float]:
    """Return the eigenvalues that repeat in every trial."""
    scale = _scale(trials)
    places = [
        place
        for place in repeated(trials[0].eigenvalues)
        if all(_multiplicity(trial, place, scale) > 1 for trial in trials[1:])
    ]
    return [0.0 if abs(place) < 1e-12 * scale else float(place) for place in places]


def _sets_in(trials: Sequence[_Trial]) -> bool:
    """Return whether some trials have a repeated eigenvalue that others do not have."""
    scale = _scale(trials)
    places = np.concatenate([repeated(trial.eigenvalues) for trial in trials])
    return any(_multiplicity(trial, place, scale) < 2 for place in places for trial in trials)


def _multiplicity(trial: _Trial, place: float, scale: float) -> int:
    return int(np.sum(np.abs(trial.eigenvalues - place) < 1e-9 * scale))
