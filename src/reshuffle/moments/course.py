"""The mean state along one course of a run, for any epochs."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from reshuffle.arrays import FloatArray
from reshuffle.moments.affine_map import AffineMap, Powers, mean_map
from reshuffle.moments.escape import Escape
from reshuffle.moments.graded import GradedBlocks
from reshuffle.moments.visits import DrawnVisits, MeanVisits, SubsetVisits, Visits
from reshuffle.recipe import Recipe
from reshuffle.row_space import RowSpace
from reshuffle.schemes import Cyclic, SampleReshuffling, SampleWithReplacement, Scheme, WithReplacement


class Course:
    """The mean over the orders of one scheme, as states (d, 1 + rows) that inputs (1, y) are multiplied with.

    Parameters
    ----------
    scheme : Scheme
    n : int
        Rows.
    blocks : GradedBlocks
    space : RowSpace
    recipe : Recipe
    truth : (r,), optional
        u_star: then the states are those of the error, and the penalty pulls it towards -u_star.
    """

    def __init__(
        self,
        scheme: Scheme,
        n: int,
        blocks: GradedBlocks,
        space: RowSpace,
        recipe: Recipe,
        truth: FloatArray | None = None,
    ):
        self.scheme, self.n, self.blocks, self.space, self.recipe = scheme, n, blocks, space, recipe
        self.truth = truth
        self._maps: dict[float, AffineMap] = {}

    def visits(self, epoch: int) -> Visits:
        """The visits of the epoch after `epoch` others."""
        scaled = self.recipe.at(epoch).scaled(self.space)
        if isinstance(self.scheme, SampleReshuffling) and self.scheme.is_enumerable(self.n):
            return SubsetVisits(self.blocks, scaled, self.scheme.draws(self.n))
        kind = DrawnVisits if isinstance(self.scheme, SampleWithReplacement) else Visits
        return kind(self.blocks, scaled)

    def map(self, epoch: int) -> AffineMap:
        """The mean map of the epoch after `epoch` others."""
        visits = self.visits(epoch)
        if visits.step not in self._maps:
            truth = np.zeros(visits.rank) if self.truth is None else self.truth
            scheme, force = self.scheme, visits.unit_force(truth)
            if isinstance(scheme, WithReplacement):
                # Independent visits: the mean of their product is that of B mean visits.
                visits = MeanVisits(self.blocks, self.recipe.at(epoch).scaled(self.space))
                scheme = Cyclic(self.blocks.batches)
            self._maps[visits.step] = mean_map(scheme, self.n, visits, force)
        return self._maps[visits.step]

    @cached_property
    def settles(self) -> bool:
        """Whether the mean converges from every start."""
        return self.recipe.at(0).step == 0 or (self.map(0).is_finite and self.map(0).settles)

    @property
    def rate(self) -> float:
        """The spectral radius of the epoch."""
        return self.map(0).radius if self.map(0).is_finite else np.inf

    def states(
        self, start: FloatArray, epochs: FloatArray, inputs: FloatArray | None = None
    ) -> Iterator[FloatArray]:
        """The states after each of the epochs, which are ascending, from u_0 or e_0 (r,).

        They are (d, 1 + rows), to be multiplied with the inputs, or (d, 1) if those (1 + rows,) are given.
        """
        begin = self.begin(start, inputs)
        current, done = begin, 0.0
        once = self.repeated(inputs)
        for epoch in epochs:
            if np.isinf(epoch):
                current = once.end(begin)
            elif self.recipe.is_constant:
                current = once.powers.after(epoch - done, current)
                if not np.isfinite(current).all():
                    current = once.overflown(epoch, begin)
            else:
                for passed in range(int(done), int(epoch)):
                    current = _once_more(self._fed(passed, inputs), current)
            done = epoch
            yield current

    def begin(self, start: FloatArray, inputs: FloatArray | None) -> FloatArray:
        """The states before the first epoch."""
        begin = np.zeros((self.visits(0).dimension, 1 + len(self.blocks.rows) if inputs is None else 1))
        begin[: len(start), 0] = start
        return begin

    def repeated(self, inputs: FloatArray | None) -> "Repeated":
        """The map of the first epoch over and over."""
        return Repeated(self._fed(0, inputs), self)

    def _fed(self, epoch: int, inputs: FloatArray | None) -> AffineMap:
        return self.map(epoch) if inputs is None else self.map(epoch).fed(inputs)


class Repeated:
    """One map over and over, and what grows in it."""

    def __init__(self, once: AffineMap, course: Course):
        self.map, self.powers, self._course = once, Powers(once), course

    @cached_property
    def _escape(self) -> Escape:
        return Escape(self.map)

    def overflown(self, epoch: float, begin: FloatArray) -> FloatArray:
        """The states after so many epochs, where some have left the range of numbers: they are inf."""
        if not self.map.is_finite:
            return _answer(np.full_like(begin, np.inf), self.map, begin)
        # What has left took with it the coordinates that it does not even reach: the map without it leaves them.
        return _answer(self._escape.after(epoch, begin), self.map, begin)

    def end(self, begin: FloatArray) -> FloatArray:
        """The states after infinitely many epochs."""
        if self._course.recipe.at(0).step == 0:
            return begin
        return self.map.fixed_point() if self._course.settles else self.overflown(np.inf, begin)


def _once_more(once: AffineMap, states: FloatArray) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        return _answer(once(states), once, states)


def _answer(following: FloatArray, once: AffineMap, before: FloatArray) -> FloatArray:
    """The states after a map: what is no number has grown, but what was nothing, with no input, stays nothing."""
    still = ~(before.any(axis=0) | once.entries.any(axis=0))
    return np.where(still, 0.0, np.where(np.isfinite(following), following, np.inf))
