"""Fixed points off the real axis, where the map itself contracts and no derivative is needed."""

import numpy as np

from reshuffle._core import BoolArray
from reshuffle.asymptotics.laws.batch_system import BatchSystem
from reshuffle.free.checks import Complex

_ITERATIONS = 120
_SETTLED = 1e-14
"""Relative change of the unknowns below which they have settled."""
_CHUNK = 1_000_000
"""Numbers that the resolvents of the points worked on together may hold."""


def contracted(system: BatchSystem, z: Complex) -> tuple[Complex, BoolArray]:
    """The unknowns at points z (n,) with Im z > 0, in units of the system, and whether they have settled.

    The map takes the half-plane to itself, and its only fixed point there attracts everything (Helton, Rashidi
    Far and Speicher, 2007): slowly close to the spectrum, and like a geometric series away from it.
    """
    unknowns, settled = system.start(len(z)), np.zeros(len(z), dtype=bool)
    height = max(4, _CHUNK // system.block_entries)
    for start in range(0, len(z), height):
        part = slice(start, start + height)
        unknowns[part], settled[part] = _iterated(system, z[part])
    return unknowns, settled


def _iterated(system: BatchSystem, z: Complex) -> tuple[Complex, BoolArray]:
    base, unknowns = system.base(z, np.zeros(len(z))), system.start(len(z))
    active, change = np.arange(len(z)), np.full(len(z), np.inf)
    for _ in range(_ITERATIONS):
        image = system.evaluate(base[active], unknowns[active]).image
        moved = np.linalg.norm(image - unknowns[active], axis=1) / np.linalg.norm(image, axis=1)
        unknowns[active] = image
        # Rounding may keep the last digits moving.
        done = (moved < _SETTLED) | ((moved < 100 * _SETTLED) & (moved >= 0.9 * change[active]))
        change[active] = moved
        active = active[~done]
        if not len(active):
            break
    settled = np.ones(len(z), dtype=bool)
    settled[active] = False
    return unknowns, settled
