"""Affine maps of the same step beside each other: what `AffineMap` is for one, for many orders at once."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle._blas import few_threads
from reshuffle.epoch.affine.affine_map import AffineMap, fades, repeated
from reshuffle.epoch.affine.visits import Visits
from reshuffle.problem.outputs import beside

_MOST_STEPS = 128
"""Applications that are made one after the other, at most: each of them rounds."""


@dataclass(frozen=True, eq=False)
class StackedMaps:
    """z -> z - L K R z + L E zeta for each of c maps with the same L and R.

    Attributes
    ----------
    left, right : (d,)
    kernels : (c, d, d)
    entries : (c, d, z)
    weight, entry_sizes
        As in `AffineMap`, the same for all.
    """

    left: FloatArray
    right: FloatArray
    kernels: FloatArray
    entries: FloatArray
    weight: float
    entry_sizes: FloatArray

    def one(self, number: int) -> AffineMap:
        """One of the maps by itself."""
        kernel, entries = self.kernels[number], self.entries[number]
        return AffineMap(self.left, self.right, kernel, entries, self.weight, self.entry_sizes)

    def __call__(self, states: FloatArray) -> FloatArray:
        """Send the states (c, d, z) through the maps."""
        moved = self.kernels @ (self.right[:, np.newaxis] * states) - self.entries
        return np.asarray(states - self.left[:, np.newaxis] * moved)

    def then(self, later: "StackedMaps") -> "StackedMaps":
        """Each map followed by another of the same step: I - A_2 A_1 = D_1 + D_2 - D_2 D_1."""
        after = later.kernels * (self.left * self.right)
        return replace(
            self,
            kernels=self.kernels + later.kernels - after @ self.kernels,
            entries=self.entries + later.entries - after @ self.entries,
        )

    @cached_property
    def left_over(self) -> FloatArray:
        """A (c, d, d), in the coordinates of the graded D."""
        roots = np.sqrt(self.left) * np.sqrt(self.right)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.eye(len(roots)) - roots[:, np.newaxis] * self.kernels * roots)

    @property
    def finite(self) -> BoolArray:
        """Which of the maps (c,) are within the range of numbers."""
        return np.asarray(np.isfinite(self.left_over).all(axis=(1, 2)) & np.isfinite(self.left).all())

    @cached_property
    def settled(self) -> BoolArray:
        """Which of the maps (c,) settle: those that fade as they are doubled."""
        settled = self.finite.copy()
        where = np.flatnonzero(settled)
        with few_threads(len(self.left)):
            settled[where] = fades(self.left, self.right, self.kernels[where], self.weight)
        return settled

    @property
    def radii(self) -> FloatArray:
        """The spectral radii (c,) of the A; inf where a map has left the range of numbers."""
        where = np.flatnonzero(self.finite)
        radii = np.full(len(self.kernels), np.inf)
        if not self.kernels.shape[1]:
            return np.zeros_like(radii)
        # As of a single map: large grades first, and in units of the largest entry.
        order = np.argsort(-(self.left * self.right), kind="stable")
        graded = (np.eye(len(order)) - self.left_over[where])[:, order][:, :, order]
        exponents = np.frexp(np.abs(graded).max(axis=(1, 2), initial=0.0))[1][:, np.newaxis]
        with few_threads(len(order)):
            scaled = np.linalg.eigvals(np.ldexp(graded, -exponents[:, :, np.newaxis]))
        radii[where] = np.abs(1 - scaled * 2.0**exponents).max(axis=1, initial=0.0)
        return radii

    def fixed_points(self, which: IntArray) -> FloatArray:
        """R^-1 K^-1 E (k, d, z) of some of the maps, which settle."""
        return np.asarray(
            np.linalg.solve(self.kernels[which], self.entries[which]) / self.right[:, np.newaxis]
        )


def stacked_maps(
    visits: Visits, force: FloatArray, orders: IntArray, inputs: FloatArray | None = None
) -> StackedMaps:
    """The maps of many orders (c, steps) of visits; orders that begin alike share their first visits.

    Parameters
    ----------
    visits : Visits
    force : (r,)
        Minus the gradient of the penalty, which enters at every visit with the constant input 1.
    orders : (c, steps)
    inputs : (1 + rows,) or (1 + rows, t), optional
        What the inputs are, if they are known: then a column enters for each output.
    """
    d, rows = visits.dimension, len(visits.blocks.rows)
    grades = (visits.left * visits.right)[:, np.newaxis]
    given = None if inputs is None else beside(inputs)
    begin = np.eye(d, d + (1 + rows if given is None else given.shape[1]))
    states, places = np.zeros((1, *begin.shape)), np.zeros(len(orders), dtype=np.int64)

    def visit(batch: int, before: FloatArray, slot: int) -> FloatArray:
        # [K, E] -> [K + K_b (I - R L K), E - K_b R L E + E_b].
        following = before + visits.kernel(batch, begin - grades * before, slot) if d else before.copy()
        entry, columns = visits.unit_entry(batch, slot), visits.columns(batch)
        constant = visits.pushed(force, slot)
        if given is None:
            following[..., d] += constant
            following[..., d + 1 + columns] += entry
        else:
            following[..., d:] += constant[:, np.newaxis] * given[0] + entry @ given[1 + columns]
        return np.asarray(following)

    with few_threads(d), np.errstate(over="ignore", invalid="ignore"):
        for slot, visited in enumerate(orders.T):
            prefixes, places = np.unique(np.stack([places, visited], axis=1), axis=0, return_inverse=True)
            following = np.empty((len(prefixes), *begin.shape))
            for batch in np.unique(visited):
                here = prefixes[:, 1] == batch
                following[here] = visit(int(batch), states[prefixes[here, 0]], slot)
            states = following
        states = states[places]
    weight, sizes = visits.sizes_of(orders.shape[1], force)
    if given is not None:
        sizes = np.max(np.abs(given) * sizes[:, np.newaxis], axis=0)
    kernels, entries = (np.ascontiguousarray(part) for part in (states[..., :d], states[..., d:]))
    return StackedMaps(visits.left, visits.right, kernels, entries, weight, sizes)


class StackedPowers:
    """Maps that are repeated the same number of times: `Powers` of each, the last power remembered."""

    def __init__(self, once: StackedMaps):
        self.map = once
        self._units = (np.sqrt(once.right) / np.sqrt(once.left))[:, np.newaxis] if once.left.all() else None
        self._last, self._power = 1, _StackedPower(once, once.left_over)

    def after(self, count: int, states: FloatArray) -> FloatArray:
        """The states (c, d, z) after `count` more applications; nan where they leave the range of numbers."""
        with few_threads(states.shape[1]), np.errstate(over="ignore", invalid="ignore"):
            if count <= _MOST_STEPS and count * states.shape[2] <= count.bit_length() * sum(states.shape[1:]):
                # A few columns are sent through the maps sooner than the maps through each other.
                for _ in range(count):
                    states = self.map(states)
                return states
            if count != self._last:
                once = _StackedPower(self.map, self.map.left_over)
                self._last, self._power = count, repeated(once, count)
            power = self._power
            if self._units is None or not power.faded.any():
                return power.map(states)
            after = power.map(states)
            faded = power.left_over[power.faded] @ (self._units * states[power.faded]) / self._units
            after[power.faded] = faded + power.map.left[:, np.newaxis] * power.map.entries[power.faded]
            return after


@dataclass(frozen=True, eq=False)
class _StackedPower:
    """Powers of maps, and A^k (c, d, d) in the coordinates of the graded D."""

    map: StackedMaps
    left_over: FloatArray

    @cached_property
    def faded(self) -> BoolArray:
        """Which of them leave less than half of anything."""
        return _faded(self.left_over)

    def then(self, later: "_StackedPower") -> "_StackedPower":
        """The powers followed by others."""
        both = self.map.then(later.map)
        left_over = both.left_over
        faded = _faded(left_over)
        # Slow modes are known by what they have lost, faded ones by what is left of them.
        if faded.any():
            left_over = left_over.copy()
            left_over[faded] = later.left_over[faded] @ self.left_over[faded]
        return _StackedPower(both, left_over)


def _faded(left_over: FloatArray) -> BoolArray:
    return np.asarray(np.abs(left_over).sum(axis=2).max(axis=1, initial=0.0) < 0.5)
