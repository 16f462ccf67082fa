"""An average of the iterates as one more part of the state: a -> kept a + taken u, after a visit or an epoch.

With u -> u - L K R z + L E y and g = R on the parameters, a is kept in the units 1/g of L and g of R:

    a -> a - (1/g) [ (1 - kept) g a - taken g u + taken g L (K R z - E y)_u ],

so that nothing in the kernel of the longer state depends on how the features are conditioned, either. Outside
the row space only a penalty acts, and one coordinate stands for all.
"""

from dataclasses import replace
from functools import reduce

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.epoch.affine.affine_map import AffineMap, Powers
from reshuffle.epoch.affine.outside import Outside
from reshuffle.epoch.affine.visits import Visits
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
        """K_b M (d, c) for M (d, c), in the visit after `slot` others of the epoch."""
        d = self.plain.dimension
        moved = self.plain.kernel(batch, columns[:d], slot)
        of_average = (1 - self.kept) * columns[d:] - self.taken * columns[: self.rank]
        return np.concatenate([moved, of_average + self._shares * moved[: self.rank]])

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


def averaged_map(once: AffineMap, rank: int, average: Average) -> AffineMap:
    """A map of the state, after which its first `rank` coordinates are taken on by an average."""
    d, shares = len(once.kernel), average.taken * once.grades[:rank]
    kernel = np.zeros((d + rank, d + rank))
    kernel[:d, :d] = once.kernel
    with np.errstate(over="ignore", invalid="ignore"):
        kernel[d:, :d] = shares[:, np.newaxis] * once.kernel[:rank]
        kernel[d:, :rank] -= average.taken * np.eye(rank)
        kernel[d:, d:] = (1 - average.kept) * np.eye(rank)
        entries = np.concatenate([once.entries, shares[:, np.newaxis] * once.entries[:rank]])
    left, right = _units(once.left, once.right, rank)
    weight = max(once.weight, average.taken + float(shares.max(initial=0.0)) * once.weight, 1 - average.kept)
    return replace(once, left=left, right=right, kernel=kernel, entries=entries, weight=weight)


def _units(left: FloatArray, right: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    """L and R of the longer state."""
    sizes = right[:rank]
    return np.concatenate([left, 1 / sizes]), np.concatenate([right, sizes])


class AveragedOutside:
    """What is left of the start, outside the row space, in an average of the iterates.

    Parameters
    ----------
    plain : Outside
    average : Average
    """

    def __init__(self, plain: Outside, average: Average):
        self.plain, self.average = plain, average

    @property
    def rate(self) -> float:
        """The spectral radius of an epoch."""
        return self.plain.rate

    @property
    def settles(self) -> bool:
        """Whether what is outside fades, or nothing acts on it."""
        return self.plain.settles

    def _epoch(self, epoch: int) -> AffineMap:
        """On a coordinate, its momentum buffer and its average, after `epoch` epochs."""
        visit, steps = self.plain.visit(epoch), self.plain.steps
        if self.plain.recipe.at(epoch).shares:
            visits = [self.plain.visit(epoch, slot) for slot in range(steps)]
            if self.average.is_per_visit:
                return reduce(AffineMap.then, [averaged_map(each, 1, self.average) for each in visits])
            return averaged_map(reduce(AffineMap.then, visits), 1, self.average)
        if self.average.is_per_visit:
            return Powers(averaged_map(visit, 1, self.average)).power(steps).map
        return averaged_map(Powers(visit).power(steps).map, 1, self.average)

    def fades(self, epochs: FloatArray) -> FloatArray:
        """What is left of the start after each of the ascending epochs."""
        recipe, start = self.plain.recipe, self.average.start
        if recipe.penalty == 0 or not len(epochs):
            return np.ones(len(epochs))
        before = self.plain.state(start)
        state = np.concatenate([before, before[:1] if self.average.begins_with_iterate else np.zeros((1, 1))])
        once, done, fades = Powers(self._epoch(start)), start, []
        for epoch in epochs:
            if np.isinf(epoch):
                fades.append(self.plain.end)
                continue
            if recipe.is_constant:
                state = once.after(int(epoch) - done, state)
            else:
                for passed in range(done, int(epoch)):
                    state = Powers(self._epoch(passed)).after(1, state)
            done = int(epoch)
            left = float(state[2, 0]) / self.average.divisor(epoch, self.plain.steps)
            fades.append(left if np.isfinite(state).all() else np.inf)
        return np.array(fades)
