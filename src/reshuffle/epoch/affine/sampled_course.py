"""The mean over orders that are too many for a lattice, with momentum, a penalty or a schedule: from drawn orders.

Orders are drawn once, in pairs with their reverses, and an epoch's map is the mean of theirs; they are spread over
a few groups, and the answers without each group in turn tell the error of whatever is asked.
"""

import numpy as np

from reshuffle._core.arrays import FloatArray, IntArray
from reshuffle.epoch.accuracy import Accuracy
from reshuffle.epoch.affine.affine_map import AffineMap, mean_of
from reshuffle.epoch.affine.course import Course
from reshuffle.epoch.affine.drawn_orders import Orders, group_maps
from reshuffle.epoch.affine.graded import GradedBlocks
from reshuffle.problem.row_space import RowSpace
from reshuffle.recipe.recipe import Recipe
from reshuffle.schemes.base import Scheme, Unit, permutations


class SampledCourse(Course):
    """A `Course` whose mean is that of drawn orders, in groups.

    Parameters
    ----------
    scheme : Scheme
        That draws a fresh order in every epoch.
    n, blocks, space, recipe, truth
        As in `Course`; the blocks are the batches, or single rows if samples are shuffled.
    accuracy : Accuracy
    groups : dict
        Where the maps of the groups are kept, by step, for all courses that share them.
    left_out : int, optional
        The group that is not counted.
    """

    def __init__(
        self,
        scheme: Scheme,
        n: int,
        blocks: GradedBlocks,
        space: RowSpace,
        recipe: Recipe,
        truth: FloatArray | None,
        accuracy: Accuracy,
        groups: dict[float, list[AffineMap]],
        left_out: int | None,
    ):
        super().__init__(scheme, n, blocks, space, recipe, truth)
        self.accuracy, self.left_out, self._groups = accuracy, left_out, groups

    def map(self, epoch: int) -> AffineMap:
        """The mean over the orders of the groups that count."""
        visits = self.visits(epoch)
        groups = self._of_groups(epoch)
        if visits.step not in self._maps:
            counted = [m for g, m in enumerate(groups) if g != self.left_out]
            with np.errstate(over="ignore", invalid="ignore"):
                self._maps[visits.step] = mean_of(counted)
        return self._maps[visits.step]

    @property
    def groups(self) -> int:
        """How many groups there are, in every epoch."""
        return len(self._of_groups(0))

    def _of_groups(self, epoch: int) -> list[AffineMap]:
        visits = self.visits(epoch)
        if visits.step not in self._groups:
            truth = np.zeros(visits.rank) if self.truth is None else self.truth
            force = visits.unit_force(truth)
            self._groups[visits.step] = group_maps(visits, force, self._draw, self.accuracy)
        return self._groups[visits.step]

    def _draw(self, rng: np.random.Generator, pairs: int) -> Orders:
        if self.scheme.unit is Unit.SAMPLE:
            samples = permutations(rng, pairs, self.n)
            divisors = np.tile(self.scheme.step_divisors(self.n), (2 * pairs, 1))
            both = np.concatenate([samples, samples[:, ::-1]])
            return Orders(_cut(both, self.scheme.sizes(self.n), self.n), divisors)
        blocks = self.blocks
        batches = permutations(rng, pairs, blocks.batches)
        batches = np.concatenate([batches, batches[:, ::-1]])
        rows = len(blocks.rows)
        members = _cut(np.arange(rows)[np.newaxis], np.asarray(blocks.sizes), rows)[0]
        return Orders(members[batches], np.asarray(blocks.divisors)[batches])


def _cut(samples: IntArray, sizes: IntArray, padding: int) -> IntArray:
    """Cut each of the orders (k, n) into pieces of the given sizes, (k, steps, m), padded to the longest."""
    places = np.full((len(sizes), int(sizes.max())), samples.shape[1])
    inside = np.arange(places.shape[1]) < sizes[:, np.newaxis]
    places[inside] = np.arange(sizes.sum())
    padded = np.hstack([samples, np.full((len(samples), 1), padding)])
    return np.asarray(padded[:, places])
