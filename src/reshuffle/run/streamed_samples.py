"""Shuffled samples that are read in chunks, with momentum or a penalty: the mean from two passes."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._budget import warn_out_of_reach
from reshuffle._uncertainty import ErrorKind
from reshuffle.epoch.select import Accuracy, Choice, choice_of_samples, require_cavity
from reshuffle.epoch.visits import ScaledBlocks
from reshuffle.errors import UnsupportedError
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.row_space import BatchFactor, Blocks, Reduction
from reshuffle.recipe import Recipe
from reshuffle.run.trajectory import AffineTrajectory
from reshuffle.schemes.base import Scheme

_MOST_NEGLECTED = 0.5
"""Share of the decay rates that may be neglected: beyond, terms of higher order are as large."""


class StreamedSamples(AffineTrajectory):
    """Mean of steps whose samples are drawn independently, with what that neglects of shuffling as its error.

    A sample is met once per epoch, and the others are met without it. To first order in the step this multiplies
    the gradient of row i by I + c (|x_i|^2 - W) / 2, with c = step / (1 - momentum) / m for batches of m rows and W
    the mean of x_i x_i'. The error is what answers change by with rows weighted by 1 + c |x_i|^2, in all modes and
    in every other one, since it is less where an epoch moves modes far, and with modes weighted by 1 + c W: half of
    the difference of first and last is the first order, whatever is asked at which epoch. Rows are read once, and
    once more for the weights.
    """

    entering: Callable[[FloatArray], FloatArray] | None = None
    """The gradients of rows (m, r) as they enter, in coordinates of singular vectors and units of step^-1/2."""

    def __init__(
        self, problem: LeastSquares, scheme: Scheme, recipe: Recipe, start: FloatArray, accuracy: Accuracy
    ):
        independent = scheme.origin.with_independent_steps if scheme.origin else scheme
        self.is_shuffled = independent.shuffle is not scheme.shuffle
        if self.is_shuffled:
            require_cavity(accuracy)
            if not recipe.is_constant:
                problem.require_rows(f"{scheme!r} with a schedule of steps")
            scheme = independent.on_compressed(problem.compressed)
        super().__init__(problem, scheme, recipe, start, accuracy)
        if self.neglected_share > _MOST_NEGLECTED:
            raise UnsupportedError(
                "the mean over shuffles of rows that are read in chunks is known up to a share of "
                f"{self.neglected_share:.2g} of its decay rates at step {recipe.at(0).step:.3g}, but at most "
                f"{_MOST_NEGLECTED} is answered; try a smaller step, or RandomReshuffling, whose batches are "
                "read in one pass."
            )

    def warned(self) -> "StreamedSamples":
        """The trajectory itself, with a warning if it is known less well than was asked for."""
        if self.neglected_share > self.accuracy.rtol:
            hint = ("a smaller step", "a larger {rtol}", "RandomReshuffling")
            warn_out_of_reach(self.neglected_share, "cavity", self.accuracy.rtol, hint)
        return self

    @cached_property
    def neglected_share(self) -> float:
        """Relative change of the decay rates by the weights of the rows."""
        return max((copies[0].neglected(self.blocks) for _, copies in self.replicas), default=0.0)

    @property
    def choice(self) -> Choice:
        """The cavity equation to lowest order; exact where steps are independent."""
        return choice_of_samples(self.problem) if self.is_shuffled else super().choice

    def _blocks(self, X: FloatArray, reduction: Reduction) -> Blocks:
        """All rows, compressed, as one block."""
        rows = np.ascontiguousarray(reduction.space.coordinates(X.T).T / reduction.space.scale)
        return Blocks(
            rows, self.problem.compressed.y, np.array([0, len(rows)]), np.array([float(self.problem.n)])
        )

    def output(self, number: int) -> "StreamedSamples":
        """The run of one output alone."""
        made = super().output(number)
        made.replicas = [(kind, [each.output(number) for each in copies]) for kind, copies in self.replicas]
        return made

    @cached_property
    def replicas(self) -> "list[tuple[ErrorKind, list[StreamedSamples]]]":
        """The runs with rows weighted by 1 + c |x_i|^2, in all or every other mode, and modes by 1 + c W."""
        if self._is_replica or not self.is_shuffled or not self.recipe.at(0).step:
            return []
        space, blocks, stream = self.space, self.blocks, self.problem.stream
        assert stream is not None
        c = self.recipe.at(0).step / (1 - self.recipe.momentum) * self.walk.steps / self.problem.n

        def weighted(X: FloatArray, y: FloatArray) -> BatchFactor:
            made = BatchFactor(space.dimension, y.shape[1])
            roots = np.sqrt(c * np.square(X).sum(axis=1))[:, np.newaxis]
            made.add(roots * space.coordinates(X.T).T / space.scale, roots * y)
            return made

        def merged(first: BatchFactor, second: BatchFactor) -> BatchFactor:
            first.add(*second.rows())
            return first

        more, responses = stream.gathered(weighted, merged).rows()
        singular, weights = blocks.singular, c * space.scale**2 / self.problem.n * np.square(blocks.singular)
        # Rows of which each sees one mode, and responses that push it as all rows do.
        alone = np.diag(singular * np.sqrt(weights))
        pushing = np.sqrt(weights)[:, np.newaxis] * (blocks.unit.T @ blocks.response)
        every_other = np.arange(space.dimension, dtype=np.float64) % 2
        of_square = c / self.recipe.at(0).step

        def by_size(rows: FloatArray, modes: FloatArray | float = 1.0) -> FloatArray:
            return np.asarray(rows * (1 + of_square * modes * np.square(rows).sum(axis=1, keepdims=True)))

        made = []
        for added, response, entering in (
            (more, responses, by_size),
            (more * every_other, responses, partial(by_size, modes=every_other)),
            (alone, pushing, lambda rows: rows * (1 + weights)),
        ):
            rows = np.concatenate([blocks.rows, added])
            other = replace(
                blocks,
                rows=rows,
                response=np.concatenate([blocks.response, response]),
                offsets=np.array([0, len(rows)]),
                unit=np.concatenate([blocks.unit, added / singular]),
            )
            changes = {"_is_replica": True, "_scaled_data": (space, other), "entering": entering}
            made.append(self._copy("stages", "last_stage", **changes))
        if self.recipe.momentum:
            # What comes back later than a gradient acts like other momentum where modes oscillate.
            share = min(made[0].neglected(blocks), _MOST_NEGLECTED)
            changed = replace(self.recipe, momentum=self.recipe.momentum + (1 - self.recipe.momentum) * share)
            made.append(self._copy("stages", "_outside", "last_stage", recipe=changed, _is_replica=True))
        return [("estimate", made)]

    def neglected(self, blocks: ScaledBlocks) -> float:
        """Relative change of the decay rates by the weights of this run, whose unweighted blocks are given."""
        return float(np.linalg.norm(self.blocks.unit.T @ self.blocks.unit - blocks.unit.T @ blocks.unit, 2))
