"""Second moments over orders that are too many for a recursion: by the maps of drawn orders, less their mean.

An epoch sends the error e and the noise eta to A e + N eta + c, with A = Abar + D. Of the mean Abar more is known
than a few draws could tell, and E[D] = 0, so that

    V -> Abar V Abar' + E[D V D'] + E[x x'],      x = D m + (c - cbar) + (D S + N - Nbar) eta,

for the spread V = E (e - E e)(e - E e)', where m + S eta is the mean of e over the orders. Only what the orders
differ by is left to chance: a fixed set of drawn maps D_t stands for E, in every epoch, and makes a positive map.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.epoch.second_moment.remembered import Remembered


@dataclass(frozen=True, eq=False)
class CentredMaps:
    """Drawn maps of an epoch less their mean, in coordinates z of the state in which Abar is balanced.

    With S = G Nbar, where G is the sum of the powers of Abar, all noise enters through matrices of the size of the
    state: noise^2 (N_t - Nbar) Nbar' for each order, and the mean of noise^2 (N_t - Nbar)(N_t - Nbar)'.

    Attributes
    ----------
    mean : (d, d)
        Abar.
    maps : (groups, d, orders, d)
        D_t, of as many orders in each group: what stands side by side is one matrix (d, orders d) of a group.
    pushes : (groups, d, orders, d + 1)
        Beside each of them noise^2 (N_t - Nbar) Nbar' and c_t - cbar.
    own : (groups, d, d)
        The means of noise^2 (N_t - Nbar)(N_t - Nbar)' + (c_t - cbar)(c_t - cbar)'.
    inlet : (d, d)
        noise^2 Nbar Nbar'.
    drift : (d,)
        Cbar.
    """

    mean: FloatArray
    maps: FloatArray
    pushes: FloatArray
    own: FloatArray
    inlet: FloatArray
    drift: FloatArray

    @property
    def groups(self) -> int:
        """In how many groups orders were drawn."""
        return len(self.maps)

    @property
    def dimension(self) -> int:
        """The length of the state."""
        return len(self.mean)

    def some(self, groups: slice) -> "CentredMaps":
        """The same from some of the groups."""
        return replace(self, maps=self.maps[groups], pushes=self.pushes[groups], own=self.own[groups])

    @cached_property
    def spread(self) -> Remembered:
        """M (d, d) -> the mean of D_t M D_t' over each group."""
        return Remembered(self.of_groups, self._units)

    def of_groups(self, second: FloatArray) -> FloatArray:
        """The mean of D_t M D_t' over each group (groups, d, d)."""
        return self._times(self._after(second), self.maps)

    @cached_property
    def adjoint(self) -> Remembered:
        """M (d, d) -> the mean of D_t' M D_t, by which weights go back through an epoch, of all orders."""
        return Remembered(lambda weights: self.weighed(weights)[np.newaxis], self._units)

    @cached_property
    def crossed(self) -> Remembered:
        """(G, m) (d, d + 1) -> the mean of D_t (G X_t' + m (c_t - cbar)') and its transpose over each group."""
        roots = np.sqrt(np.diag(self._units))
        return Remembered(self._crossed, np.column_stack([self._units, roots]))

    @property
    def _units(self) -> FloatArray:
        """(d, d): D_t is as small in slow modes as the mean change is, to the root."""
        roots = np.sqrt(np.abs(1 - np.diag(self.mean)))
        return np.outer(roots, roots)

    def weighed(self, weights: FloatArray) -> FloatArray:
        """The mean of D_t' M D_t over all orders (d, d)."""
        d, flat = self.dimension, self.maps.reshape(-1, self.dimension)
        weighed = (weights @ self.maps.reshape(self.groups, d, -1)).reshape(-1, d)
        return np.asarray(_symmetric(flat.T @ weighed) / (self.groups * self.maps.shape[2]))

    def _crossed(self, path: FloatArray) -> FloatArray:
        one_sided = self._times(self._after(path), self.pushes)
        return one_sided + one_sided.swapaxes(1, 2)

    def _after(self, columns: FloatArray) -> FloatArray:
        """D_t M for all orders, for M (d, c)."""
        return np.asarray(self.maps.reshape(-1, self.dimension) @ columns)

    def _times(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """The sum over orders and over what stands side by side, over the orders of a group."""
        wide = (self.groups, self.dimension, -1)
        product = one.reshape(wide) @ other.reshape(wide).swapaxes(1, 2)
        return np.asarray(product / self.maps.shape[2])


@dataclass(frozen=True, eq=False)
class DrawnMaps:
    """D_t (k, d, d), what enters beside it (k, d, d + 1), and the sum of its own squares (d, d), of some orders."""

    maps: FloatArray
    pushes: FloatArray
    own: FloatArray

    @staticmethod
    def gathered(groups: Sequence[Sequence["DrawnMaps"]]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What groups of equally many orders have, as `CentredMaps` keeps it."""

        def side_by_side(parts: list[FloatArray]) -> FloatArray:
            return np.concatenate(parts).swapaxes(0, 1)

        maps = np.array([side_by_side([one.maps for one in group]) for group in groups])
        pushes = np.array([side_by_side([one.pushes for one in group]) for group in groups])
        own = np.array([np.sum([one.own for one in group], axis=0) for group in groups])
        return np.ascontiguousarray(maps), np.ascontiguousarray(pushes), own / maps.shape[2]


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2)
