"""The mean state along one course of a run, for any epochs."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from reshuffle.arrays import FloatArray
from reshuffle.blocks import Blocks
from reshuffle.moments.affine_map import AffineMap, Powers, mean_map
from reshuffle.moments.visits import DrawnVisits, MeanVisits, Visits
from reshuffle.recipe import Recipe
from reshuffle.row_space import RowSpace
from reshuffle.schemes import Cyclic, SampleWithReplacement, Scheme, WithReplacement


class Course:
    """The mean over the orders of one scheme, as states (d, 1 + rows) that inputs (1, y) are multiplied with.

    Parameters
    ----------
    scheme : Scheme
    n : int
        Rows.
    blocks : Blocks
    space : RowSpace
    recipe : Recipe
    truth : (r,), optional
        u_star: then the states are those of the error, and the penalty pulls it towards -u_star.
    """

    def __init__(
        self,
        scheme: Scheme,
        n: int,
        blocks: Blocks,
        space: RowSpace,
        recipe: Recipe,
        truth: FloatArray | None = None,
    ):
        self.scheme, self.n, self.blocks, self.space, self.recipe = scheme, n, blocks, space, recipe
        self.truth = truth
        self._maps: dict[float, AffineMap] = {}

    def visits(self, epoch: int) -> Visits:
        """The visits of the epoch after `epoch` others."""
        kind = DrawnVisits if isinstance(self.scheme, SampleWithReplacement) else Visits
        return kind(self.blocks, self.recipe.at(epoch).scaled(self.space))

    def map(self, epoch: int) -> AffineMap:
        """The mean map of the epoch after `epoch` others."""
        visits = self.visits(epoch)
        if visits.step not in self._maps:
            truth = np.zeros(visits.rank) if self.truth is None else self.truth
            scheme, force = self.scheme, visits.force(truth)
            if isinstance(scheme, WithReplacement):
                # Independent visits: the mean of their product is that of B mean visits.
                visits = MeanVisits(self.blocks, self.recipe.at(epoch).scaled(self.space))
                scheme = Cyclic(self.blocks.batches)
            self._maps[visits.step] = mean_map(scheme, self.n, visits, force)
        return self._maps[visits.step]

    @cached_property
    def _powers(self) -> Powers:
        return Powers(self.map(0))

    @cached_property
    def settles(self) -> bool:
        """Whether the mean converges from every start."""
        return self.recipe.at(0).step == 0 or (self._is_finite and self.map(0).settles)

    @property
    def _is_finite(self) -> bool:
        return bool(np.isfinite(self.map(0).loss).all())

    @property
    def rate(self) -> float:
        """The spectral radius of the epoch."""
        return self.map(0).radius if self._is_finite else np.inf

    def states(self, start: FloatArray, epochs: FloatArray) -> Iterator[FloatArray]:
        """The states after each of the epochs, which are ascending, from u_0 or e_0 (r,)."""
        current = np.zeros((self.visits(0).dimension, 1 + len(self.blocks.rows)))
        current[: len(start), 0] = start
        done = 0.0
        for epoch in epochs:
            if np.isinf(epoch):
                current = self._end(current)
            elif self.recipe.is_constant:
                current = self._powers.after(epoch - done, current)
            else:
                for passed in range(int(done), int(epoch)):
                    current = Powers(self.map(passed)).after(1, current)
            done = epoch
            yield current

    def _end(self, current: FloatArray) -> FloatArray:
        if self.recipe.at(0).step == 0:
            return current
        return self.map(0).fixed_point() if self.settles else np.full_like(current, np.inf)
