"""Fixed points off the real axis, where the map itself contracts and no derivative is needed."""

from collections.abc import Callable

import numpy as np

from reshuffle._arrays import BoolArray
from reshuffle.asymptotics.laws.batch_system import BatchSystem
from reshuffle.free import progress
from reshuffle.free.checks import Complex

_ITERATIONS = 120
_SETTLED = 1e-14
"""Relative change of the unknowns below which they have settled."""
_CHUNK = 1_000_000
"""Numbers that the resolvents of the points worked on together may hold."""
_REMEMBERED = 3
"""Earlier images that the next guess is made of: more of them are told apart by rounding alone."""
_CLOSE = (1.0, 0.1, 0.01, 0.0)
"""How little images move, relative to their size, before they are mixed: at once, or later if that went wrong."""
_ROUNDING = 1e-6
"""Relative to its size, what rounding may do to the sign of an imaginary part."""


def contracted(
    system: BatchSystem, z: Complex, counted: Callable[[int], None] = lambda visits: None
) -> tuple[Complex, BoolArray]:
    """The unknowns at points z (n,) with Im z > 0, in units of the system, and whether they have settled.

    The map takes the half-plane to itself, and its only fixed point there attracts everything (Helton, Rashidi
    Far and Speicher, 2007): slowly close to the spectrum, and like a geometric series away from it. Anderson's
    mixing of the last images is several times faster and knows nothing of half-planes, so that a point whose
    resolvent has a wrong sign is iterated again, and mixed later or not at all. `counted` is told how many points
    were visited, and may end it.
    """
    unknowns, settled = system.start(len(z)), np.zeros(len(z), dtype=bool)
    height = max(4, _CHUNK // system.block_entries)
    for start in range(0, len(z), height):
        part = slice(start, start + height)
        unknowns[part], settled[part] = _solved(system, z[part], counted)
    return unknowns, settled


def _solved(system: BatchSystem, z: Complex, counted: Callable[[int], None]) -> tuple[Complex, BoolArray]:
    base = system.base(z, np.zeros(len(z)))
    with np.errstate(all="ignore"):
        unknowns, settled = system.start(len(z)), np.zeros(len(z), dtype=bool)
        for close in _CLOSE:
            left = np.flatnonzero(~settled)
            if not len(left):
                break
            found, done = _iterated(system, base[left], close, counted)
            unknowns[left], settled[left] = found, done & _above(system, base[left], found)
    return unknowns, settled


def _above(system: BatchSystem, base: Complex, unknowns: Complex) -> BoolArray:
    """Whether the resolvents have negative imaginary parts: there is only one solution that has."""
    imaginary = system.evaluate(base, unknowns).resolvent.imag
    finite = np.isfinite(imaginary).all(axis=(1, 2))
    values = np.linalg.eigvalsh(np.where(finite[:, np.newaxis, np.newaxis], imaginary, 0.0))
    return np.asarray(finite & (values[:, -1] <= -_ROUNDING * values[:, 0]))


def _iterated(
    system: BatchSystem, base: Complex, close: float, counted: Callable[[int], None]
) -> tuple[Complex, BoolArray]:
    """Iterate from far away, and mix images as soon as they move by less than `close`, relative to their size."""
    unknowns = system.start(len(base))
    active, change = np.arange(len(base)), np.full(len(base), np.inf)
    known: list[tuple[Complex, Complex]] = []
    for _ in range(_ITERATIONS):
        counted(len(active))
        progress.step()
        image = system.evaluate(base[active], unknowns[active]).image
        moves = image - unknowns[active]
        moved = np.linalg.norm(moves, axis=1) / np.linalg.norm(image, axis=1)
        unknowns[active] = image
        # Rounding may keep the last digits moving.
        done = (moved < _SETTLED) | ((moved < 100 * _SETTLED) & (moved >= 0.9 * change[active]))
        change[active] = moved
        active = active[~done]
        if not len(active):
            break
        known = [(a[~done], b[~done]) for a, b in [*known, (image, moves)]][-1 - _REMEMBERED :]
        near = (moved < close)[~done]
        if near.any():
            unknowns[active[near]] = _mixed([(a[near], b[near]) for a, b in known])
    settled = np.ones(len(base), dtype=bool)
    settled[active] = False
    return unknowns, settled


def _mixed(known: list[tuple[Complex, Complex]]) -> Complex:
    """The affine combination of images (points, unknowns) whose moves are smallest together (Anderson, 1965)."""
    image, move = known[-1]
    if len(known) == 1:
        return image
    images = np.stack([image - other for other, _ in known[:-1]], axis=-1)
    moves = np.stack([move - other for _, other in known[:-1]], axis=-1)
    # A point that left the numbers is found out later.
    finite = np.isfinite(moves).all(axis=(1, 2))[:, np.newaxis, np.newaxis]
    shares = np.linalg.pinv(np.where(finite, moves, 0.0), rcond=1e-12) @ move[..., np.newaxis]
    return np.asarray(image - (images @ shares)[..., 0])
