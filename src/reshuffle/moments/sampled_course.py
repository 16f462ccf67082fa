"""The mean over shuffled samples with momentum, a penalty or a schedule: from sampled orders, with their error.

Batches of shuffled samples have no members of their own, so there is no lattice to climb. Orders are drawn once, in
pairs with their reverses, and an epoch's map is the mean of theirs; they are spread over a few groups, and the
answers without each group in turn tell the standard error of whatever is asked.
"""

from functools import cached_property

import numpy as np

from reshuffle.arrays import FloatArray, IntArray
from reshuffle.blocks import Blocks
from reshuffle.moments.affine_map import AffineMap, average, mean_map
from reshuffle.moments.course import Course
from reshuffle.moments.visits import Hyperparameters, Visits
from reshuffle.recipe import Recipe
from reshuffle.row_space import RowSpace
from reshuffle.schemes import Cyclic, SampleReshuffling

GROUPS = 8
_MOST_PAIRS, _FEWEST_PAIRS = 32, 2
_FLOPS = 2e11
"""Operations that may be spent on the orders of an epoch."""


class ListedVisits(Visits):
    """Visits to batches that are lists of rows, one order after the other."""

    def __init__(self, blocks: Blocks, scaled: Hyperparameters, order: list[IntArray], divisors: FloatArray):
        super().__init__(blocks, scaled)
        self.order, self.divisors = order, divisors

    @cached_property
    def _batches(self) -> list[tuple[FloatArray, float]]:
        return [
            (self.blocks.rows[rows], float(divisor))
            for rows, divisor in zip(self.order, self.divisors, strict=True)
        ]

    def columns(self, batch: int) -> IntArray:
        """The rows of the batch."""
        return self.order[batch]


class SampledCourse(Course):
    """A `Course` whose mean is that of drawn orders, in groups.

    Parameters
    ----------
    scheme, n, blocks, space, recipe, truth
        As in `Course`; the blocks are single rows.
    groups : dict
        Where the maps of the groups are kept, by step, for all courses that share them.
    left_out : int, optional
        The group that is not counted.
    """

    def __init__(
        self,
        scheme: SampleReshuffling,
        n: int,
        blocks: Blocks,
        space: RowSpace,
        recipe: Recipe,
        truth: FloatArray | None,
        groups: dict[float, list[AffineMap]],
        left_out: int | None,
    ):
        super().__init__(scheme, n, blocks, space, recipe, truth)
        self.shuffling, self.left_out, self._groups = scheme, left_out, groups

    def map(self, epoch: int) -> AffineMap:
        """The mean over the orders of the groups that count."""
        visits = self.visits(epoch)
        if visits.step not in self._groups:
            rng = np.random.default_rng(0)
            self._groups[visits.step] = [self._group_map(epoch, rng) for _ in range(GROUPS)]
        if visits.step not in self._maps:
            counted = [m for g, m in enumerate(self._groups[visits.step]) if g != self.left_out]
            self._maps[visits.step] = AffineMap(
                average([m.loss for m in counted]), average([m.entries for m in counted])
            )
        return self._maps[visits.step]

    def _group_map(self, epoch: int, rng: np.random.Generator) -> AffineMap:
        scaled = self.recipe.at(epoch).scaled(self.space)
        sizes, divisors = self.shuffling.sizes(self.n), self.shuffling.batch_divisors(self.n)
        truth = np.zeros(self.blocks.rows.shape[1]) if self.truth is None else self.truth
        maps = []
        for _ in range(self._pairs):
            samples = rng.permutation(self.n)
            for order in (samples, samples[::-1]):
                drawn = np.split(order[: sizes.sum()], np.cumsum(sizes)[:-1])
                visits = ListedVisits(self.blocks, scaled, drawn, divisors)
                maps.append(mean_map(Cyclic(len(drawn)), self.n, visits, visits.force(truth)))
        return AffineMap(average([m.loss for m in maps]), average([m.entries for m in maps]))

    @property
    def _pairs(self) -> int:
        """Pairs of orders in a group."""
        d = self.visits(0).dimension
        one = 4.0 * self.n * self.blocks.rows.shape[1] * (d + 1 + self.n)
        return int(np.clip(_FLOPS / (2 * GROUPS * one), _FEWEST_PAIRS, _MOST_PAIRS))
