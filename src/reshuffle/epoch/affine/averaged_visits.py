"""An average of the iterates as one more part of the state: a -> kept a + taken u, after a visit or an epoch.

With u -> u - L K R z + L E y and g = R on the parameters, a is kept in the units 1/g of L and g of R:

    a -> a - (1/g) [ (1 - kept) g a - taken g u + taken g L (K R z - E y)_u ],

so that nothing in the kernel of the longer state depends on how the features are conditioned, either.
"""

from dataclasses import replace

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.epoch.affine.visits import Visits
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.recipe import Average


class AveragedVisits(Visits):
    """Visits after each of which the iterate is taken on: the state is that of `plain`, and the average (r,).

    Parameters
    ----------
    plain : Visits
    average : Average
    """

    def __init__(self, plain: Visits, average: Average):
        self._plain, self.kept, self.taken = plain, average.kept, average.taken
        super().__init__(plain.blocks, plain.hyperparameters)
        self.left, self.right = _units(plain.left, plain.right, plain.rank)
        self._shares = (average.taken * (plain.left * plain.right)[: plain.rank])[:, np.newaxis]

    @property
    def plain(self) -> Visits:
        """The visits without the average."""
        return self._plain

    @property
    def dimension(self) -> int:
        """The length of the state, with the average."""
        return self.plain.dimension + self.plain.rank

    @property
    def count(self) -> int:
        """How many batches there are to visit."""
        return self.plain.count

    @property
    def weight(self) -> float:
        """A bound on the entries of K_b."""
        of_average = self.taken + float(self._shares.max(initial=0.0)) * self.plain.weight
        return max(self.plain.weight, of_average, 1 - self.kept)

    def kernel(self, batch: int, columns: FloatArray, slot: int) -> FloatArray:
        """K_b M (..., d, c) for M (..., d, c), in the visit after `slot` others of the epoch."""
        d, rank = self.plain.dimension, self.rank
        moved = self.plain.kernel(batch, columns[..., :d, :], slot)
        of_average = (1 - self.kept) * columns[..., d:, :] - self.taken * columns[..., :rank, :]
        return np.concatenate([moved, of_average + self._shares * moved[..., :rank, :]], axis=-2)

    def gradient(self, batch: int, position: FloatArray) -> FloatArray:
        """U_b'U_b M / m_b for M (r, c)."""
        return self.plain.gradient(batch, position)

    def unit_entry(self, batch: int, slot: int) -> FloatArray:
        """E_b (d, m_b)."""
        return self._with_average(self.plain.unit_entry(batch, slot))

    def pushed(self, minus_gradient: FloatArray, slot: int) -> FloatArray:
        """What a force on the parameters (r, ...) does to the state (d, ...)."""
        return self._with_average(self.plain.pushed(minus_gradient, slot))

    def _with_average(self, push: FloatArray) -> FloatArray:
        shares = self._shares if push.ndim > 1 else self._shares[:, 0]
        return np.concatenate([push, shares * push[: self.rank]])

    def columns(self, batch: int) -> IntArray:
        """Where the responses of the batch are among those of the blocks."""
        return self.plain.columns(batch)

    def folded(self, product: FloatArray) -> FloatArray:
        """P (..., d) as it acts on what visits do to the plain state, which the average takes on at once."""
        d, rank = self.plain.dimension, self.rank
        folded = product[..., :d].copy()
        folded[..., :rank] += self._shares[:, 0] * product[..., d:]
        return folded

    def add_of_average(self, product: FloatArray, kernel: FloatArray) -> None:
        """Add to a kernel (..., d) what P (..., d) makes of the average's own part of a visit."""
        d, rank = self.plain.dimension, self.rank
        kernel[..., :rank] -= self.taken * product[..., d:]
        kernel[..., d:] += (1 - self.kept) * product[..., d:]


def averaged_map(once: EpochMap, rank: int, average: Average) -> EpochMap:
    """A map of the state, after which its first `rank` coordinates are taken on by an average."""
    d, shares = len(once.left), average.taken * once.grades[:rank]
    kernel = np.zeros((*once.kernel.shape[:-2], d + rank, d + rank))
    kernel[..., :d, :d] = once.kernel
    with np.errstate(over="ignore", invalid="ignore"):
        kernel[..., d:, :d] = shares[:, np.newaxis] * once.kernel[..., :rank, :]
        kernel[..., d:, :rank] -= average.taken * np.eye(rank)
        kernel[..., d:, d:] = (1 - average.kept) * np.eye(rank)
        taken = shares[:, np.newaxis] * once.entries[..., :rank, :]
        entries = np.concatenate([once.entries, taken], axis=-2)
    left, right = _units(once.left, once.right, rank)
    weight = max(once.weight, average.taken + float(shares.max(initial=0.0)) * once.weight, 1 - average.kept)
    return replace(once, left=left, right=right, kernel=kernel, entries=entries, weight=weight)


def _units(left: FloatArray, right: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    """L and R of the longer state."""
    sizes = right[:rank]
    return np.concatenate([left, 1 / sizes]), np.concatenate([right, sizes])
