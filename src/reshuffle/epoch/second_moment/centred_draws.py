"""Drawing orders whose maps, less their mean, stand for all of them in second moments."""

from functools import cached_property

import numpy as np

from reshuffle._core import FloatArray, confidence
from reshuffle._core.numerics import graded_svd
from reshuffle._core.progress import track
from reshuffle.epoch.accuracy import CALL
from reshuffle.epoch.affine.outside import Inputs
from reshuffle.epoch.affine.sampled_course import SampledCourse, follow_each
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.second_moment.centred_maps import CentredMaps, DrawnMaps

_STACKED_BYTES = 2e7
_MOST_STACKED = 256
FEWEST_PAIRS = 2
"""In each group, before anything is told."""


def flops(pairs: float, dimension: int, rows: int, steps: int) -> float:
    """Operations of drawing so many pairs of orders, calls included."""
    d = float(dimension)
    each = 8.0 * rows * d * d + 10.0 * steps * d * d + 12.0 * d**3
    stacks = np.ceil(pairs / stacked_pairs(dimension, rows))
    return float(2 * pairs * each + 10 * CALL * steps * stacks)


def stacked_pairs(dimension: int, rows: int) -> int:
    """How many pairs are followed at once."""
    each = max(8.0 * dimension * (4 * dimension + 2 * rows), 1.0)
    return max(1, int(min(_STACKED_BYTES / each, _MOST_STACKED) / 2))


class CentredDraws:
    """Orders of an epoch, drawn in pairs with their reverses and spread over groups.

    In the coordinates (R / L)^1/2 z of `EpochMap` the mean has the graded loss; if that is symmetric they are
    turned to its modes.

    Parameters
    ----------
    course : SampledCourse
        Which orders there are, and what their visits do; its own mean is not asked for.
    mean : EpochMap
        The mean map of an epoch as well as it is known.
    inputs : Inputs
    is_symmetric : bool
        Whether the mean map is known to be.
    seed : int
    groups : int
    """

    def __init__(
        self,
        course: SampledCourse,
        mean: EpochMap,
        inputs: Inputs,
        is_symmetric: bool,
        seed: int,
        groups: int = confidence.MOST_GROUPS,
    ):
        self._course, self._mean, self._inputs = course, mean, inputs
        self._visits, self.is_symmetric = course.visits(0), is_symmetric
        self._rngs = [np.random.default_rng([seed, group]) for group in range(groups)]
        self._drawn: list[list[DrawnMaps]] = [[] for _ in range(groups)]

    @cached_property
    def _turn(self) -> FloatArray:
        return _modes(self._mean) if self.is_symmetric else np.eye(len(self._mean.kernel))

    @cached_property
    def basis(self) -> FloatArray:
        """(d, d): the state that coordinates stand for, as its columns."""
        units = np.sqrt(self._mean.left) / np.sqrt(self._mean.right)
        return np.asarray(units[:, np.newaxis] * self._turn)

    @cached_property
    def _roots(self) -> FloatArray:
        """(d, d): from a kernel or an entry between L and R to these coordinates."""
        return np.asarray(self._turn.T * (np.sqrt(self._mean.left) * np.sqrt(self._mean.right)))

    @cached_property
    def _entries(self) -> FloatArray:
        """(rows, d): noise times Nbar, as the kernels are, without the factors of the coordinates."""
        return np.ascontiguousarray(self._inputs.noise * self._mean.entries[:, 1:].T)

    @cached_property
    def _drift(self) -> FloatArray:
        return np.asarray(self._roots @ self._constant(self._mean.entries[:, 0], self._mean.entries[:, 1:].T))

    def _constant(self, constant: FloatArray, entries: FloatArray) -> FloatArray:
        """What enters that is the same in every run: the force of a penalty, and responses that are given."""
        given = self._inputs.given
        return constant if given is None else constant + given @ entries

    @property
    def orders(self) -> int:
        """How many were drawn."""
        return sum(len(one.maps) for group in self._drawn for one in group)

    @property
    def groups(self) -> int:
        """In how many groups."""
        return len(self._drawn)

    def flops(self, pairs: int) -> float:
        """Operations of so many more pairs in each group, calls included."""
        rows = len(self._visits.blocks.rows)
        return self.groups * flops(pairs, self._visits.dimension, rows, self._course.walk.steps)

    @property
    def _stacked_pairs(self) -> int:
        return stacked_pairs(self._visits.dimension, len(self._visits.blocks.rows))

    def more(self, pairs: int) -> None:
        """Draw so many more pairs for each group."""
        groups = range(len(self._drawn))
        for group in track(groups, len(groups), "drawing orders"):
            left = pairs
            while left:
                some = min(left, self._stacked_pairs)
                self._drawn[group].append(self._draw(self._rngs[group], some))
                left -= some

    def _draw(self, rng: np.random.Generator, pairs: int) -> DrawnMaps:
        visits, mean, roots = self._visits, self._mean, self._roots
        force = visits.unit_force(self._inputs.truth)
        with np.errstate(over="ignore", invalid="ignore"):
            kernel, constant, entries = follow_each(visits, force, self._course.draw_pairs(rng, pairs))
            maps = roots @ (mean.kernel - kernel) @ roots.T
            pushed = (self._constant(constant, entries) @ roots.T - self._drift)[:, :, np.newaxis]
            beside, own = np.zeros_like(maps), _squares(pushed)
            if self._inputs.given is None and self._inputs.noise:
                noise = self._inputs.noise * entries - self._entries
                beside = roots @ (noise.swapaxes(1, 2) @ self._entries) @ roots.T
                flat = noise.reshape(-1, len(roots))
                own += roots @ (flat.T @ flat) @ roots.T
            return DrawnMaps(maps, np.concatenate([beside, pushed], axis=2), own)

    @property
    def maps(self) -> CentredMaps:
        """All that were drawn."""
        maps, pushes, own = DrawnMaps.gathered(self._drawn)
        loss = self._roots @ self._mean.kernel @ self._roots.T
        if self.is_symmetric:
            loss = np.diag(np.diag(loss))
        entries = self._entries @ self._roots.T
        given = self._inputs.given is not None
        inlet = np.zeros_like(loss) if given else entries.T @ entries
        return CentredMaps(np.eye(len(loss)) - loss, maps, pushes, own, inlet, self._drift)


def _squares(stack: FloatArray) -> FloatArray:
    """The sum of M M' over a stack (k, d, c)."""
    wide = stack.swapaxes(0, 1).reshape(stack.shape[1], -1)
    return np.asarray(wide @ wide.T)


def _modes(mean: EpochMap) -> FloatArray:
    """The modes (d, d) of the graded loss of a symmetric map, those of small paces too where it is definite."""
    symmetric = (mean.kernel + mean.kernel.T) / 2
    roots = np.sqrt(mean.left) * np.sqrt(mean.right)
    try:
        lower = np.linalg.cholesky(symmetric)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.eigh(roots[:, np.newaxis] * symmetric * roots)[1])
    return np.asarray(graded_svd(lower.T * roots)[2])
