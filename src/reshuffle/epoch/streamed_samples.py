"""The mean epoch of shuffled samples that are read in chunks."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray
from reshuffle._blas import few_threads
from reshuffle.epoch import whitened_maps
from reshuffle.epoch.cavity import neglected, streamed_path
from reshuffle.epoch.cavity.streamed_path import StreamedVisiting
from reshuffle.epoch.low_degrees import Whitened
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.errors import UnsupportedError
from reshuffle.problem.batches import Blocks
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.row_space import RowSpace
from reshuffle.problem.sources.rows import Stream
from reshuffle.schemes.base import Scheme

Part = TypeVar("Part")


@dataclass(frozen=True, eq=False)
class WhitenedStream:
    """The rows of a stream in coordinates in which they are orthonormal, over all of them: u_i = turn' x_i.

    Attributes
    ----------
    stream : Stream
    space : RowSpace
    turn : (r, k)
        From coordinates of the row space, over its scale.
    """

    stream: Stream
    space: RowSpace
    turn: FloatArray

    def gathered(
        self, work: Callable[[FloatArray, FloatArray], Part], merge: Callable[[Part, Part], Part]
    ) -> Part:
        """What `work` makes of every chunk of samples (m, k) and responses (m, t), merged."""
        # The stream itself must not travel to those who work on parts of it.
        space, turn = self.space, self.turn

        def of_rows(X: FloatArray, y: FloatArray) -> Part:
            with few_threads(space.p), np.errstate(over="ignore", invalid="ignore"):
                inside = space.coordinates(X.T).T / space.scale
                return work(inside @ turn, y.reshape(len(X), -1))

        return self.stream.gathered(of_rows, merge)


def samples_of(
    problem: LeastSquares, scheme: Scheme, scaled_step: float, rtol: float
) -> tuple[MeanMap, Blocks] | None:
    """The cavity equation's map of shuffled samples, and rows that stand for all; None without a solution.

    One pass over the rows per round of the equation, and two more: for the strongest samples, and for what stands
    for all.
    """
    n, steps, stream = problem.n, scheme.steps(problem.n), problem.stream
    assert stream is not None
    _, singular, right = scipy.linalg.svd(
        problem.reduction.rows / math.sqrt(n), full_matrices=False, check_finite=False
    )
    shares, paces = scheme.sizes(n) / scheme.step_divisors(n), steps * scaled_step * singular**2
    k = len(singular)
    source = WhitenedStream(stream, problem.row_space, right.T / (singular * math.sqrt(n)))
    unseen = StreamedVisiting(
        rows=np.zeros((0, k)), grades=paces[np.newaxis], still=np.zeros((1, 1, k)), entry=np.ones(1),
        weight=float(shares[0]) / steps, last=float(shares[-1] / shares[0]), steps=steps, count=n,
    )  # fmt: skip
    visiting = replace(unseen, rows=streamed_path.shown(source, unseen))
    found = streamed_path.solve(source, visiting, whitened_maps.cavity_tolerance(rtol))
    if found is None:
        return None
    factor, places = singular[:, np.newaxis] * right, np.arange(len(found.rows) + 1)
    roots = np.full(len(found.rows), 1 / math.sqrt(n))
    whitened = Whitened(found.rows, factor, roots, paces, steps * scaled_step, places)
    known = whitened_maps.kernel(whitened, found.entries.T), found.entries
    mean = whitened_maps.cavity_map(
        whitened, known, found.off, lambda: neglected.put_off_together(found.off), _no_modifier
    )
    responses = found.responses[:, 0] if problem.outputs is None else found.responses
    rows = math.sqrt(n) * (found.rows @ factor)
    return mean, Blocks(rows, np.ascontiguousarray(responses), places, np.ones(len(rows)))


def _no_modifier(sample: int) -> FloatArray:
    raise UnsupportedError(
        "the modifier of a sample needs the rows one by one, but they are read in chunks; give a sample of the "
        "rows that fits into memory to LeastSquares(X, y)."
    )
