"""How far the cavity equation may be off: what it neglects, estimated.

What is neglected are samples that meet crosswise, i, j, i, j. To leading order they change the entry of sample i by
sum_j g_ij^3 E_j, where E_j is the entry of sample j and g_ij what both do to each other in the course of an epoch;
a sample that has a direction to itself is put off by about g_ii^2 / n. Signs and factors of order one are unknown.
So answers are asked of several maps that are put off by that much: in all modes alike, in every mode by chance, in
every sample by chance. The factor is calibrated on problems whose means are known exactly
(benchmarks/cavity_coverage.py).
"""

import math
from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._linalg import root_mean_square
from reshuffle.epoch.averaging import cavity
from reshuffle.epoch.averaging.cavity import Visiting
from reshuffle.epoch.course import Course
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.visits import Visits
from reshuffle.recipe import Hyperparameters

_FACTOR = 3.0
"""Calibrated: answers are within the error in more than 99 of 100 cases."""
_MOST_OPERATIONS = 2e10
_CHUNK = 1 << 22
"""Entries of the Gram matrix of the samples that are held at a time."""
_BY_CHANCE = 2
_MOST_ENTRIES = 1e7
"""Entries of a pull up to which several replicas of it are kept."""


def neglected(visiting: Visiting, entries: FloatArray, tolerance: float) -> FloatArray:
    """What the entries (n, d) of the samples may have missed, (n, d); `tolerance` is that of the iteration."""
    rows, strength, own = visiting.rows, visiting.strength, visiting.strengths
    n, k = rows.shape
    if visiting.steps <= 2 or 4.0 * n * n * (k + visiting.size) > _MOST_OPERATIONS:
        return by_own_meetings(visiting, rows, entries, tolerance)
    if visiting.size > 1:
        return np.asarray(_FACTOR * _crosswise_groups(visiting, entries, tolerance))
    crosswise = (own**2 / n + tolerance)[:, np.newaxis] * entries
    height = max(1, _CHUNK // n)
    for start in range(0, n, height):
        part = slice(start, start + height)
        met = (rows[part] * strength) @ rows.T
        met[np.arange(len(met)), np.arange(start, start + len(met))] = 0.0
        # A power of three is taken by pow, which is fifty times as slow as two products.
        crosswise[part] += met * met * met @ entries
    return np.asarray(_FACTOR * crosswise)


def _crosswise_groups(visiting: Visiting, entries: FloatArray, tolerance: float) -> FloatArray:
    """The same for samples of several rows: sum_j g_ij g_ij'g_ij E_j, and g_ii^2 / n of its own, of matrices g."""
    rows, size, n = visiting.rows, visiting.size, visiting.samples
    own = visiting.own_strengths(rows)
    crosswise = tolerance * entries + _among_own(own @ own / n, entries)
    height = max(1, _CHUNK // (n * size * size))
    for start in range(0, n, height):
        part = slice(size * start, size * (start + height))
        met = (rows[part] * visiting.strength) @ rows.T
        blocks = met.reshape(-1, size, n, size).swapaxes(1, 2)
        blocks[np.arange(len(blocks)), np.arange(start, start + len(blocks))] = 0.0
        thrice = blocks @ blocks.swapaxes(2, 3) @ blocks
        crosswise[part] += thrice.swapaxes(1, 2).reshape(met.shape) @ entries
    return crosswise


def _among_own(weights: FloatArray, entries: FloatArray) -> FloatArray:
    """The entries (n m, d), those of each sample weighed by a matrix (n, m, m)."""
    samples, size, _ = weights.shape
    return np.asarray((weights @ entries.reshape(samples, size, -1)).reshape(entries.shape))


def by_own_meetings(
    visiting: Visiting, rows: FloatArray, entries: FloatArray, tolerance: float
) -> FloatArray:
    """The same for some samples (m, k) where pairs are too many to be looked at.

    The squares of the samples' own meetings are more than those of pairs; of two visits nothing is neglected.
    """
    if visiting.size > 1 and visiting.steps > 2:
        between = visiting.own_strengths(rows)
        return tolerance * entries + _among_own(between @ between, entries)
    own = visiting.strengths_of(rows) if visiting.steps > 2 else np.zeros(len(rows))
    return np.asarray((np.square(own) + tolerance)[:, np.newaxis] * entries)


def put_off(off: FloatArray) -> list[FloatArray]:
    """What may have been missed (n, d), with different signs."""
    n, d = off.shape
    if n * d > _MOST_ENTRIES:
        return put_off_together(off)
    rng = np.random.default_rng(0)
    by_mode = rng.choice([-1.0, 1.0], size=(_BY_CHANCE, 1, d))
    by_sample = rng.choice([-1.0, 1.0], size=(_BY_CHANCE, n, 1))
    return [off, *(off * signs for signs in [*by_mode, *by_sample])]


def put_off_together(off: FloatArray) -> list[FloatArray]:
    """The same of large problems, which are put off by little: one direction, with room for the others."""
    return [_BY_CHANCE * off]


def shares(rows: FloatArray, entries: FloatArray, off: FloatArray) -> FloatArray:
    """How far the pace of each mode may be off, relative to that pace (k,), for samples `rows` (n, k)."""
    k = rows.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.einsum("ik,ik->k", off[:, :k], rows) / np.einsum("ik,ik->k", entries[:, :k], rows)
    return np.where(np.isnan(share), 0.0, np.abs(share))


# The mean over orders of shuffled samples with momentum, a penalty or a schedule: by the cavity equation.

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
        return root_mean_square(shares(visiting.rows, entries, neglected(visiting, entries, _TOLERANCE)))

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
    found = cavity.solve(visiting, _TOLERANCE)
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
        *map(made, put_off(neglected(visiting, found.entries, _TOLERANCE))),
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
