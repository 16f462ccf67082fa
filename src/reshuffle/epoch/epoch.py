"""One epoch as the user sees it: Z, Xtilde, Pi_b and the mean map, in the coordinates of the problem."""

import math
import warnings
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._linalg import few_threads
from reshuffle._uncertainty import ERROR_KINDS, ErrorKind
from reshuffle.epoch import epoch_map, select
from reshuffle.epoch.epoch_map import MeanMap, Modes
from reshuffle.epoch.select import Accuracy, Choice, Task, task
from reshuffle.epoch.timeline import Timeline
from reshuffle.errors import RangeError
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.row_space import Blocks
from reshuffle.schemes.base import Scheme, Shuffle


@dataclass(frozen=True, eq=False)
class Epoch:
    """The mean of an epoch: beta -> beta - B step (Z beta - Xtilde' y / n) (Theorem batch_dynamics).

    Matrices are computed when they are first used; those of size p x p are meant for moderate p.

    Attributes
    ----------
    problem : LeastSquares
    scheme : Scheme
    step : float
        Of one visit.
    accuracy : Accuracy
        How the mean over orders is to be taken.
    """

    problem: LeastSquares
    scheme: Scheme
    step: float
    accuracy: Accuracy = field(default_factory=Accuracy)

    def __repr__(self) -> str:
        return f"Epoch({self.scheme}, step={self.step:g}, method={self.accuracy.method!r})"

    def __getstate__(self) -> dict[str, Any]:
        """The attributes, for pickles and copies: maps and modes follow from them, and keep functions."""
        return {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}

    def adopt(self, blocks: Blocks, mean: MeanMap | None) -> None:
        """Take over the statistics of the batches (blocks), and their mean map if it is known to those who call."""
        self.__dict__["blocks"] = blocks
        if mean is not None:
            self.__dict__["_averaged"] = mean, select.mean_choice(self._task, self.accuracy)

    @property
    def method(self) -> str:
        """The way in which the mean over orders was taken: "exact", "cavity" or "sampling"."""
        return self.mean.method

    @property
    def error_kind(self) -> ErrorKind:
        """The meaning of `error`."""
        return ERROR_KINDS[self.method]

    @property
    def choice(self) -> Choice:
        """The reasons for the method: costs beforehand, or as it turned out, once the mean is known."""
        if self.reads_samples:
            return select.choice_of_samples(self.problem)
        known = self.__dict__.get("_averaged")
        return known[1] if known else select.mean_choice(self._task, self.accuracy)

    @property
    def error(self) -> float:
        """The error of the decay rate B step z of each mode beyond rounding, relative to that rate.

        0 for the exact mean; for the cavity equation an estimate, and for sampling the error of the worst mode,
        within which are at least 99 of 100 seeds.
        """
        return self.mean.error

    @cached_property
    def blocks(self) -> Blocks:
        """The per-batch statistics."""
        if self.reads_samples:
            return self._read[1]
        return self.problem.blocks(
            self.scheme.partition(self.problem.n), self.scheme.divisors(self.problem.n)
        )

    @property
    def reads_samples(self) -> bool:
        """True if single samples are shuffled that are read in chunks: then they are, for every step anew."""
        shuffles = self.scheme.unit.is_cut and self.scheme.shuffle is Shuffle.EVERY_EPOCH
        return shuffles and self.problem.stream is not None

    @cached_property
    def _read(self) -> tuple[MeanMap, Blocks]:
        """The mean map, and the compressed rows of all samples."""
        return select.mean_of_samples(self.problem, self.scheme, self._scaled_step, self.accuracy)

    @cached_property
    def mean(self) -> MeanMap:
        """The map in row-space coordinates, for features divided by their scale."""
        return (self._read if self.reads_samples else self._averaged)[0]

    @cached_property
    def _averaged(self) -> tuple[MeanMap, Choice]:
        with few_threads(self._side):
            return select.mean_map(self._task, self.accuracy)

    @property
    def _scaled_step(self) -> float:
        """The step, for features divided by their scale."""
        return self.step * self.problem.row_space.scale**2

    @property
    def _task(self) -> Task:
        """The epoch to be averaged, for features divided by their scale."""
        return task(self.scheme, self.problem.n, self.blocks, self._scaled_step)

    @cached_property
    def replicas(self) -> "list[Epoch]":
        """Copies of the epoch with each of the maps that carry its error; none if it is exact."""
        copies = [replace(self) for _ in self.mean.replicas]
        for copy, mean in zip(copies, self.mean.replicas, strict=True):
            copy.__dict__.update(mean=mean, blocks=self.blocks)
        return copies

    @cached_property
    def modes(self) -> Modes:
        """The modes of one application of the mean map."""
        with few_threads(self._side):
            return epoch_map.modes(self.mean)

    @property
    def _side(self) -> float:
        """The side of a square matrix that costs about as much as the blocks do."""
        return math.sqrt(self.blocks.rows.size)

    @property
    def rates(self) -> FloatArray:
        """The factor (r,) of each mode per epoch: (1 - x)^repeats for a decay rate x."""
        with np.errstate(over="ignore"):
            return (1 - self.decay_rates) ** self.mean.repeats

    @cached_property
    def decay_rates(self) -> FloatArray:
        """The share x (r,) of each mode that one application takes away; an epoch is `mean.repeats` of them."""
        with np.errstate(over="ignore"):
            return self.mean.stride * self.modes.values

    @cached_property
    def input_map(self) -> FloatArray:
        """(r, rows): how the responses of the rows of the blocks enter each mode in one application."""
        with np.errstate(over="ignore", invalid="ignore"):
            input_map = self._natural_stride * self.modes.input_map
        if not np.isfinite(input_map).all():
            raise RangeError(
                f"step is {self.step:g}, so large that a single epoch leaves the range of floating-point numbers; "
                "the iterates diverge.",
                hint="Try a step near {critical_step}",
            )
        return input_map

    def entering(self, responses: FloatArray) -> FloatArray:
        """The responses (rows, t) as they enter each mode in one application, (r, t)."""
        with np.errstate(over="ignore", invalid="ignore"):
            entered = self._natural_stride * self.modes.entering(responses)
            # What leaves the range of numbers does so in the input map itself, which is refused, or is infinite.
            return entered if np.isfinite(entered).all() else np.asarray(self.input_map @ responses)

    @property
    def _natural_stride(self) -> float:
        return self.mean.stride / self.problem.row_space.scale

    @property
    def input_size(self) -> float:
        """The norm that the input map has before anything cancels in it."""
        return self._natural_stride * self.mean.weight * float(np.linalg.norm(self.mean.factor))

    @property
    def paces(self) -> FloatArray:
        """The old name of `decay_rates`."""
        warnings.warn("Epoch.paces is now Epoch.decay_rates.", DeprecationWarning, stacklevel=2)
        return self.decay_rates

    @property
    def Z(self) -> FloatArray:
        """The sample cross-covariance Z = Xtilde'X / n (p, p), symmetric (Lemma batch_Z_symmetric)."""
        return self._lift_matrix(self._inner_Z) * self.problem.row_space.scale**2

    @property
    def matrix(self) -> FloatArray:
        """I - B step Z (p, p), which the mean error is multiplied by in an epoch."""
        inside = (self.mean.stride * self.mean.repeats) * self._inner_Z
        return np.eye(self.problem.p) - self._lift_matrix(inside)

    @property
    def modified_features(self) -> FloatArray:
        """Xtilde (n, p): row i of batch b is Pi_b x_i, times n / (B m_b) if the batches are not equal.

        Rows that are never visited are zero.
        """
        problem, space = self.problem, self.problem.row_space
        problem.require_rows("modified_features")
        modified = np.zeros((problem.n, problem.p))
        partition = self.scheme.partition(problem.n)
        # Blocks as long as their batches hold the rows themselves; a single one may be a triangular factor.
        is_plain = len(partition) > 1 and all(self.blocks.sizes == [len(members) for members in partition])
        if self.mean.repeats == 1 and is_plain:
            inside = problem.n * space.scale * self.mean.mapped_inputs(self.mean.factor)
            modified[np.concatenate(partition)] = space.lift(inside).T
            return modified
        for batch, members in enumerate(partition):
            weight = problem.n / (self.blocks.batches * self.blocks.divisors[batch])
            inside = space.coordinates(problem.X[members].T)
            modified[members] = weight * space.lift(self.mean.modifier(batch) @ inside).T
        return modified

    def modifier(self, batch: int) -> FloatArray:
        """Pi_b (p, p), the mean of the product of I - step W_j over the batches j visited before `batch` b."""
        batch = _arrays.whole_number("batch", batch, 0, self.blocks.batches - 1)
        inside = self.mean.modifier(batch) - np.eye(self.problem.rank)
        return np.eye(self.problem.p) + self._lift_matrix(inside)

    @property
    def _inner_Z(self) -> FloatArray:
        mean = self.mean
        Z = mean.factor.T @ mean.weigh(mean.factor)
        if mean.repeats > 1:
            Z = Z @ mean.modifier(0)
        return (Z + Z.T) / 2

    def _lift_matrix(self, inside: FloatArray) -> FloatArray:
        space = self.problem.row_space
        return space.lift(space.lift(inside).T)


@dataclass(frozen=True, eq=False)
class AffineEpoch:
    """The mean of the first epoch of a run with a constant step and no momentum: what the error is multiplied by.

    Attributes
    ----------
    timeline : Timeline
    outside_decay : float
        The factor of the error outside the row space: 1 without a penalty.
    """

    timeline: Timeline
    outside_decay: float

    def __repr__(self) -> str:
        timeline = self.timeline
        return f"AffineEpoch({timeline.scheme}, {timeline.recipe}, method={self.method!r})"

    @property
    def method(self) -> str:
        """The way in which the mean over orders was taken: "exact", "cavity" or "sampling"."""
        return self.timeline.choice.taken

    @property
    def error_kind(self) -> ErrorKind:
        """The meaning of errors."""
        return self.timeline.error_kind

    @property
    def matrix(self) -> FloatArray:
        """A (p, p), which the mean error is multiplied by in the first epoch."""
        space, parts = self.timeline.space, [once.loss for once in self.timeline.responses]
        loss = sum(part.reshape(-1, *part.shape[-2:]).sum(axis=0) for part in parts) / self.timeline.count
        inside = (1 - self.outside_decay) * np.eye(space.dimension) - loss
        return self.outside_decay * np.eye(space.p) + space.lift(space.lift(inside).T).T

    @property
    def Z(self) -> FloatArray:
        """(I - A) / (B step) (p, p), not symmetric in general; with a penalty it is part of it."""
        timeline = self.timeline
        stride = timeline.walk.steps * timeline.recipe.at(0).step
        return (np.eye(timeline.space.p) - self.matrix) / stride
