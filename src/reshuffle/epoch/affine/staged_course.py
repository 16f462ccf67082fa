"""The mean state of a run whose scheme changes with the epoch: one course after the other."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import ClassVar

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.epoch.affine.affine_map import AffineMap
from reshuffle.epoch.affine.course import Course, Part
from reshuffle.epoch.affine.outside import Outside
from reshuffle.epoch.affine.visits import GradedBlocks, Visits


@dataclass(frozen=True, eq=False)
class ChosenBlocks(GradedBlocks):
    """Batches that are any of the rows: every stage has its own, of rows that all stages share.

    Rows are not compressed, since what is entered with them must mean the same in every stage.

    Attributes
    ----------
    members : tuple of (m_b,)
        The rows of each batch.
    """

    members: tuple[IntArray, ...] = ()

    def of(self, batch: int) -> IntArray:
        """Where one batch's rows are."""
        return self.members[batch]

    def columns(self, batch: int) -> IntArray:
        """Where the rows of a batch are."""
        return self.members[batch]


def chosen(blocks: GradedBlocks, members: Sequence[IntArray], divisors: FloatArray) -> ChosenBlocks:
    """Other batches of the same rows."""
    offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in members])]).astype(np.int64)
    return ChosenBlocks(
        blocks.rows, blocks.response, offsets, divisors, blocks.unit, blocks.singular, blocks.held, tuple(members)
    )  # fmt: skip


def through_stages(lengths: Sequence[float], epochs: FloatArray) -> Iterator[tuple[int, FloatArray, int]]:
    """Which epochs of each stage are needed for the ascending ones, and how many of these are asked for.

    >>> for stage, local, asked in through_stages([2, 3, math.inf], np.array([1.0, 5.0, 9.0])):
    ...     print(stage, local, asked)
    0 [1. 2.] 1
    1 [3.] 1
    2 [4.] 1
    """
    done = 0
    for stage, end in enumerate(accumulate(lengths)):
        stop = int(np.searchsorted(epochs, end, side="right"))
        local = epochs[done:stop] - (end - lengths[stage] if math.isfinite(end) else sum(lengths[:stage]))
        asked, is_last = len(local), stop == len(epochs)
        if not is_last and not (asked and local[-1] == lengths[stage]):
            local = np.append(local, lengths[stage])
        yield stage, local, asked
        done = stop
        if is_last:
            return
    raise ValueError(
        f"epochs must be at most {sum(lengths):g}, where the last stage ends, but one is {epochs[-1]:g}."
    )


@dataclass(eq=False, kw_only=True)
class StagedCourse(Course):
    """A `Course` that is another one in every stage.

    Parameters
    ----------
    scheme, n, blocks, space, recipe, truth
        As in `Course`, of the whole run; the blocks are single rows.
    courses : list of Course
        That of each stage, as if the run began with it.
    lengths : list of float
        The epochs of each stage.
    """

    can_be_stacked: ClassVar[bool] = False

    courses: list[Course]
    lengths: list[float] = field(default_factory=list)

    def within(self, epoch: int) -> tuple[Course, int]:
        """The course of the stage that an epoch belongs to, and how many epochs of the stage were before."""
        begin = 0
        for course, length in zip(self.courses, self.lengths, strict=True):
            if epoch < begin + length:
                return course, epoch - begin
            begin += int(length)
        raise IndexError(epoch)

    def parts(self, epochs: FloatArray) -> Iterator[Part]:
        """The epochs of each stage."""
        for stage, local, asked in through_stages(self.lengths, epochs):
            yield Part(self.courses[stage], local, asked)

    def visits(self, epoch: int) -> Visits:
        """The visits of the epoch after `epoch` others."""
        course, local = self.within(epoch)
        return course.visits(local)

    def map(self, epoch: int) -> AffineMap:
        """The mean map of the epoch after `epoch` others."""
        course, local = self.within(epoch)
        return course.map(local)

    def onward(
        self, begin: FloatArray, epochs: FloatArray, inputs: FloatArray | None = None
    ) -> Iterator[FloatArray]:
        """The states after each of the ascending epochs, stage by stage."""
        current = begin
        for part in self.parts(epochs):
            grown = ~np.isfinite(current).all(axis=0)
            states = part.course.onward(np.where(grown, 0.0, current), part.epochs, inputs)
            for number, (epoch, state) in enumerate(zip(part.epochs, states, strict=True)):
                # What has left the range of numbers does not come back to it, but in the end.
                returns = np.isinf(epoch) and part.course.settles
                current = state if returns else np.where(grown, np.inf, state)
                if number < part.asked:
                    yield current


class StagedOutside:
    """What is outside the row space, stage by stage.

    Parameters
    ----------
    outsides : list of Outside
        That of each stage.
    lengths : list of float
    """

    def __init__(self, outsides: Sequence[Outside], lengths: Sequence[float]):
        self._outsides, self._lengths = outsides, lengths

    def fades(self, epochs: FloatArray) -> FloatArray:
        """What is left of the start after each of the ascending epochs."""
        state, fades = np.array([[1.0], [0.0]]), []
        for stage, local, asked in through_stages(self._lengths, epochs):
            outside, done = self._outsides[stage], 0
            for epoch in local:
                if np.isinf(epoch):
                    state = outside.last(state)
                elif np.isfinite(state).all():
                    state, done = outside.onward(state, done, int(epoch)), int(epoch)
                fades.append(float(state[0, 0]) if np.isfinite(state).all() else math.inf)
            del fades[len(fades) - (len(local) - asked) :]
        return np.array(fades)
