"""The cavity equation for samples that are read in chunks: one pass over them per round, and two beside.

In each chunk the self responses of its samples are computed and the Gram matrices that they weigh are added up;
nothing is kept per sample. The mean map is known from inner products between the features u_i, the entries E_i and
the responses y_i of all samples, and these a triangular factor of the table [u_i, E_i, off_i, y_i] has: its few
rows stand for all samples.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray
from reshuffle._linalg import few_threads
from reshuffle.epoch.averaging import cavity_maps
from reshuffle.epoch.averaging.cavity import CavityPath, Visiting, span_tolerance
from reshuffle.epoch.averaging.exact_samples import Whitened, kernel
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.errors import UnsupportedError
from reshuffle.problem.batches import Blocks
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.row_space import BatchFactor, RowSpace
from reshuffle.problem.sources import Stream
from reshuffle.schemes.base import Scheme

Part = TypeVar("Part")

_SHOWN = 400
"""Samples, the strongest and any, from which the functions of the visits are taken."""
_AT_ONCE = 4096
"""Samples whose self responses are followed at a time."""


class Samples(Protocol):
    """All samples, with their responses, which are read anew whenever they are asked for."""

    def gathered(
        self, work: Callable[[FloatArray, FloatArray], Part], merge: Callable[[Part, Part], Part]
    ) -> Part:
        """Apply `work` to every chunk of samples (m, k) and responses (m, t), and merge the results."""


@dataclass(frozen=True, eq=False)
class StreamedVisiting(Visiting):
    """An epoch of samples that are not at hand; `rows` are some of them, the strongest among these.

    Attributes
    ----------
    count : int
        n.
    """

    count: int = 0

    @property
    def samples(self) -> int:
        """n."""
        return self.count

    @cached_property
    def squares(self) -> FloatArray:
        """The diagonal of U'U, which is one: the samples are whitened."""
        return np.ones(self.grades.shape[1])


def shown(samples: Samples, visiting: Visiting) -> FloatArray:
    """The strongest samples, and as many others, (s, k)."""

    def some(rows: FloatArray, responses: FloatArray) -> tuple[FloatArray, FloatArray]:
        return _strongest(visiting, rows), rows[:: max(1, len(rows) // _SHOWN)][:_SHOWN]

    def merged(
        first: tuple[FloatArray, FloatArray], second: tuple[FloatArray, FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        others = np.concatenate([first[1], second[1]])
        thinned = others[:: max(1, -(-len(others) // _SHOWN))]
        return _strongest(visiting, np.concatenate([first[0], second[0]])), thinned

    return np.unique(np.concatenate(samples.gathered(some, merged)), axis=0)


def _strongest(visiting: Visiting, rows: FloatArray) -> FloatArray:
    return rows[np.argsort(visiting.strengths_of(rows))[::-1][:_SHOWN]]


@dataclass(frozen=True, eq=False)
class StreamedSolution:
    """Rows that stand for all samples, q of them: with any two of these columns they have the same products.

    Attributes
    ----------
    rows, entries, off : (q, k)
        u_i, E_i, and how far E_i may be off.
    responses : (q, t)
    """

    rows: FloatArray
    entries: FloatArray
    off: FloatArray
    responses: FloatArray


def solve(samples: Samples, visiting: StreamedVisiting, tolerance: float) -> StreamedSolution | None:
    """Solve the cavity equation as `equation.solve` does; None if it has no solution."""
    with np.errstate(over="ignore", invalid="ignore"):
        enough, span = span_tolerance(visiting, tolerance)
        nodes = visiting.nodes(span)
        if nodes is None:
            return None
        path = _StreamedPath(visiting, tolerance, enough, nodes)
        path.source = samples
        found = path.settled()
        if found is None:
            return None
        _, _, inner, influence = found
        return path.standing_for_all(inner, influence)


class _StreamedPath(CavityPath):
    """The path that all samples make, none of which is kept."""

    source: Samples

    def _without_source(self) -> CavityPath:
        """The path without its source, for those who work on some of the samples."""
        return CavityPath(self.visiting, self.tolerance, self.enough, self.nodes)

    def grams(self, influence: FloatArray) -> FloatArray | None:
        """One pass: sum_i r_i u_i u_i' (q, k, k), chunk by chunk."""
        path = self._without_source()

        def weighed(rows: FloatArray, responses: FloatArray) -> FloatArray:
            total = np.zeros_like(influence)
            for part in _parts(rows):
                solver = path.solver_for(part)
                rho = solver.follow(influence)
                if not np.isfinite(rho).all():
                    return np.full_like(influence, np.nan)
                total += solver.weighted_grams(rho)
            return total

        found = self.source.gathered(weighed, np.add)
        return found if np.isfinite(found).all() else None

    def standing_for_all(self, inner: FloatArray, influence: FloatArray) -> StreamedSolution:
        """The last pass: the entries of the samples, and what stands for them."""
        path = self._without_source()

        def factor(rows: FloatArray, responses: FloatArray) -> BatchFactor:
            made = BatchFactor(3 * path.k, responses.shape[1])
            for start, part in zip(range(0, len(rows), _AT_ONCE), _parts(rows), strict=True):
                solver = path.solver_for(part)
                entries = path.entries(inner, solver, solver.follow(influence))
                off = cavity_maps.by_own_meetings(path.visiting, part, entries, path.tolerance)
                made.add(np.hstack([part, entries, off]), responses[start : start + _AT_ONCE])
            return made

        def merged(first: BatchFactor, second: BatchFactor) -> BatchFactor:
            first.add(*second.rows())
            return first

        table, responses = self.source.gathered(factor, merged).rows()
        rows, entries, off = np.split(table, 3, axis=1)
        return StreamedSolution(rows, entries, off, responses)


def _parts(rows: FloatArray) -> Iterator[FloatArray]:
    return (rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE))


# The mean epoch of shuffled samples that are read in chunks.


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
        """Apply `work` to every chunk of samples (m, k) and responses (m, t), and merge the results."""
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
    shares, decay_rates = scheme.sizes(n) / scheme.step_divisors(n), steps * scaled_step * singular**2
    k = len(singular)
    source = WhitenedStream(stream, problem.row_space, right.T / (singular * math.sqrt(n)))
    unseen = StreamedVisiting(
        rows=np.zeros((0, k)), grades=decay_rates[np.newaxis], still=np.zeros((1, 1, k)), entry=np.ones(1),
        weight=float(shares[0]) / steps, last=float(shares[-1] / shares[0]), steps=steps, count=n,
    )  # fmt: skip
    visiting = replace(unseen, rows=shown(source, unseen))
    found = solve(source, visiting, cavity_maps.cavity_tolerance(rtol))
    if found is None:
        return None
    factor, places = singular[:, np.newaxis] * right, np.arange(len(found.rows) + 1)
    roots = np.full(len(found.rows), 1 / math.sqrt(n))
    whitened = Whitened(found.rows, factor, roots, decay_rates, steps * scaled_step, places)
    known = kernel(whitened, found.entries.T), found.entries
    mean = cavity_maps.cavity_map(
        whitened, known, found.off, lambda: cavity_maps.put_off_together(found.off), _no_modifier
    )
    responses = found.responses[:, 0] if problem.outputs is None else found.responses
    rows = math.sqrt(n) * (found.rows @ factor)
    return mean, Blocks(rows, np.ascontiguousarray(responses), places, np.ones(len(rows)))


def _no_modifier(sample: int) -> FloatArray:
    raise UnsupportedError(
        "the modifier of a sample needs the rows one by one, but they are read in chunks; give a sample of the "
        "rows that fits into memory to LeastSquares(X, y)."
    )
