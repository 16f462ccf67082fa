"""One epoch where its mean is no symmetric map: what the error is multiplied by."""

from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ERROR_KINDS, ErrorKind
from reshuffle.epoch.course import Course


@dataclass(frozen=True, eq=False)
class AffineEpoch:
    """The mean of the first epoch of a run with a constant step and no momentum: what the error is multiplied by.

    Attributes
    ----------
    courses : list of Course
        Equally likely.
    fade : float
        What the error is multiplied by outside the row space: 1 without a penalty.
    method : str
        How the mean over orders is taken.
    """

    courses: list[Course]
    fade: float
    method: str

    def __repr__(self) -> str:
        course = self.courses[0]
        return f"AffineEpoch({course.scheme}, {course.recipe}, method={self.method!r})"

    @property
    def error_kind(self) -> ErrorKind:
        """In which sense errors are meant."""
        return ERROR_KINDS[self.method]

    @property
    def matrix(self) -> FloatArray:
        """A (p, p), which the mean error is multiplied by in the first epoch."""
        space = self.courses[0].space
        parts = [course.fed(0, np.zeros(1 + len(course.blocks.rows))).loss for course in self.courses]
        loss = sum(part.reshape(-1, *part.shape[-2:]).sum(axis=0) for part in parts)
        loss = loss / sum(course.count for course in self.courses)
        inside = (1 - self.fade) * np.eye(space.dimension) - loss
        return self.fade * np.eye(space.p) + space.lift(space.lift(inside).T).T

    @property
    def Z(self) -> FloatArray:
        """(I - A) / (B step) (p, p), not symmetric in general; with a penalty it is part of it."""
        course = self.courses[0]
        stride = course.walk.steps * course.recipe.at(0).step
        return (np.eye(course.space.p) - self.matrix) / stride
