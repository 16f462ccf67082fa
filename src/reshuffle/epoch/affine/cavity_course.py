"""The mean over orders of shuffled samples with momentum, a penalty or a schedule: by the cavity equation."""

import math
from dataclasses import dataclass

import numpy as np

from reshuffle._core import FloatArray
from reshuffle._core.numerics import root_mean_square
from reshuffle.epoch.affine.visits import Visits
from reshuffle.epoch.cavity import equation, neglected
from reshuffle.epoch.cavity.visiting import Visiting
from reshuffle.epoch.course import Course
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.recipe import Hyperparameters

_TOLERANCE = 1e-7
"""To which the equation is solved, relative to the mean map: far below what it neglects."""


@dataclass(eq=False, kw_only=True)
class CavityCourse(Course):
    """A `Course` whose mean is that of the cavity equation, or one of its replicas.

    Parameters
    ----------
    scheme : Scheme
        That shuffles samples in every epoch, in visits that weigh the same but for the last.
    n, blocks, space, recipe, truth
        As in `Course`; the blocks are single rows.
    kept : dict
        Where the map and its replicas are kept, by the hyperparameters of the epoch.
    replica : int, optional
        Which of the maps that are put off by what the equation neglects this one is; by default none of them.
    """

    kept: dict[Hyperparameters, list[EpochMap]]
    replica: int | None = None

    @property
    def replicas(self) -> int:
        """How many replicas there are, in every epoch."""
        return len(self._with_replicas(0)) - 1

    @property
    def missed(self) -> float:
        """How far the paces may be off, relative to these, in root mean square; nan without a solution."""
        if not self._with_replicas(0):
            return math.nan
        visits = self.visits(0)
        visiting = _visiting(visits, self.scheme.sizes(self.n) / self.scheme.step_divisors(self.n))
        entries = self._with_replicas(0)[0].entries[:, 1:].T
        shares = neglected.shares(visiting.rows, entries, neglected.neglected(visiting, entries, _TOLERANCE))
        return root_mean_square(shares)

    def map(self, epoch: int) -> EpochMap:
        """The mean map of the epoch after `epoch` others."""
        made = self._with_replicas(epoch)
        if not made:
            return _beyond_numbers(self.visits(epoch), self.walk.steps)
        return made[0 if self.replica is None else 1 + self.replica]

    def _with_replicas(self, epoch: int) -> list[EpochMap]:
        visits = self.visits(epoch)
        if visits.hyperparameters not in self.kept:
            shares = self.scheme.sizes(self.n) / self.scheme.step_divisors(self.n)
            truth = np.zeros(visits.rank) if self.truth is None else self.truth
            self.kept[visits.hyperparameters] = cavity_maps(visits, visits.unit_force(truth), shares)
        return self.kept[visits.hyperparameters]


def cavity_maps(visits: Visits, force: FloatArray, shares: FloatArray) -> list[EpochMap]:
    """The mean map of an epoch, and those that are put off by what is neglected; none if there is no solution.

    Parameters
    ----------
    visits : Visits
    force : (r,)
        Minus the gradient of the penalty, which enters at every visit with the constant input 1.
    shares : (B,)
        What each visit weighs.
    """
    visiting = _visiting(visits, shares)
    found = equation.solve(visiting, _TOLERANCE)
    if found is None:
        return []
    weight, sizes = visits.sizes_of(visiting.steps, force)

    def made(off: FloatArray | float) -> EpochMap:
        kernel = found.kernel.copy()
        if isinstance(off, np.ndarray):
            kernel[:, : visits.rank] += off.T @ visiting.rows
        entries = np.hstack([found.pushed(visits.pushed(force, 0))[:, np.newaxis], (found.entries + off).T])
        return EpochMap(visits.left, visits.right, kernel, entries, weight, sizes)

    return [
        made(0.0),
        *map(made, neglected.put_off(neglected.neglected(visiting, found.entries, _TOLERANCE))),
    ]


def _visiting(visits: Visits, shares: FloatArray) -> Visiting:
    """An epoch of visits in the terms of the cavity equation: K_b = K_0 + P U_b'U_b Q / m_b."""
    rows, k = visits.unit.shape
    parts = visits.dimension // k if k else 1
    entry, still = visits.rank_one_parts()
    return Visiting(
        rows=visits.unit,
        grades=(visits.left * visits.right).reshape(parts, k),
        still=still,
        entry=entry,
        weight=float(shares[0]) / rows,
        last=float(shares[-1] / shares[0]),
        steps=len(shares),
        size=rows // visits.blocks.batches,
    )


def _beyond_numbers(visits: Visits, steps: int) -> EpochMap:
    """The map where not even the equation has a solution: it grows without bound."""
    d, rows = visits.dimension, len(visits.blocks.rows)
    weight, sizes = visits.sizes_of(steps, np.zeros(visits.rank))
    return EpochMap(
        visits.left, visits.right, np.full((d, d), np.inf), np.full((d, 1 + rows), np.inf), weight, sizes
    )
