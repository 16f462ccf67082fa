"""The cavity equation for samples that are read in chunks: one pass over them per round, and two more.

In each chunk the self responses of its samples are computed and the Gram matrices that they weigh are added up;
nothing is stored per sample. The mean map is known from inner products between the features u_i, the entries E_i
and the responses y_i of all samples, and these a root of the Gram matrix of the table [u_i, E_i, off_i, y_i] has:
its few rows replace all samples.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol, TypeVar

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray
from reshuffle._budget import warn_out_of_reach
from reshuffle._linalg import few_threads, overflow_is_inf
from reshuffle.epoch.averaging import cavity_maps
from reshuffle.epoch.averaging.cavity import Cavity, Visiting
from reshuffle.epoch.averaging.samples import Whitened, kernel
from reshuffle.epoch.epoch_map import MeanMap
from reshuffle.epoch.select import NO_SOLUTION, Accuracy, are_alike, require_cavity
from reshuffle.errors import UnsupportedError
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.row_space import Blocks
from reshuffle.schemes.base import Scheme

Part = TypeVar("Part")

_AT_ONCE = 4096  # samples whose self responses are computed at a time


@dataclass(frozen=True, eq=False)
class StreamedVisiting(Visiting):
    """An epoch of `count` whitened samples that are not in memory, and the strength of the strongest."""

    count: int = 0
    strongest: float = 0.0

    @property
    def samples(self) -> int:
        """n."""
        return self.count

    @cached_property
    def squares(self) -> FloatArray:
        """The diagonal of U'U, which is one."""
        return np.ones(self.grades.shape[1])

    @cached_property
    def strengths(self) -> FloatArray:
        """The largest of the bounds on the self responses, (1,)."""
        return np.array([self.strongest])


class Gathered(Protocol):
    """A pass over all samples."""

    def __call__(
        self, work: Callable[[FloatArray, FloatArray], Part], merge: Callable[[Part, Part], Part]
    ) -> Part:
        """Apply `work` to every chunk of samples (m, k) and responses (m, t), and merge the results."""


@overflow_is_inf
def mean_of_samples(
    problem: LeastSquares, scheme: Scheme, scaled_step: float, accuracy: Accuracy
) -> tuple[MeanMap, Blocks]:
    """The cavity equation's map of shuffled samples, and rows that replace all of them.

    One pass over the rows per round of the equation, and two more: for the strongest sample, and for the rows.
    """
    require_cavity(accuracy)
    shares = scheme.sizes(problem.n) / scheme.step_divisors(problem.n)
    if not are_alike(shares):
        raise UnsupportedError(
            f"{scheme!r} has visits that weigh differently, of which the mean is not known for samples that are "
            'read in chunks; try normalize="own".'
        )
    n, steps, stream, space = problem.n, scheme.steps(problem.n), problem.stream, problem.row_space
    assert stream is not None
    _, singular, right = scipy.linalg.svd(
        problem.reduction.rows / math.sqrt(n), full_matrices=False, check_finite=False
    )
    decay_rates = steps * scaled_step * singular**2
    # To coordinates in which the rows are orthonormal, over all of them.
    whitening = right.T / (singular * math.sqrt(n)) / space.scale

    def gathered(work: Callable[[FloatArray, FloatArray], Part], merge: Callable[[Part, Part], Part]) -> Part:
        # The stream itself must not travel to those who work on parts of it.
        def of_rows(X: FloatArray, y: FloatArray) -> Part:
            with few_threads(space.p), np.errstate(over="ignore", invalid="ignore"):
                return work(space.coordinates(X.T).T @ whitening, y.reshape(len(X), -1))

        return stream.gathered(of_rows, merge)

    visiting = StreamedVisiting(
        rows=np.zeros((0, len(singular))), grades=decay_rates[np.newaxis], still=np.zeros((1, 1, len(singular))),
        entry=np.ones(1), weight=float(shares[0]) / steps, last=float(shares[-1] / shares[0]), steps=steps,
        count=n,
    )  # fmt: skip
    unknown = visiting

    def seen(rows: FloatArray, responses: FloatArray) -> tuple[float, FloatArray]:
        return float(unknown.strengths_of(rows).max()), rows.T @ responses

    strongest, fitted = gathered(seen, lambda one, other: (max(one[0], other[0]), one[1] + other[1]))
    visiting = replace(visiting, strongest=strongest)
    found = _solve(gathered, visiting, cavity_maps.cavity_tolerance(accuracy.rtol), fitted)
    if found is None:
        raise UnsupportedError(NO_SOLUTION.partition(", or")[0] + ".")
    (rows, entries, off), responses = found
    factor, offsets = singular[:, np.newaxis] * right, np.arange(len(rows) + 1)
    roots = np.full(len(rows), 1 / math.sqrt(n))
    whitened = Whitened(rows, factor, roots, decay_rates, steps * scaled_step, offsets)
    replicas = partial(cavity_maps.perturbed_together, off)
    inner = kernel(whitened, entries.T)
    mean = cavity_maps.cavity_map(whitened, inner, entries, off, replicas, _no_modifier)
    if mean.missed > accuracy.rtol:
        warn_out_of_reach(mean.missed, "cavity", accuracy.rtol, ("a smaller step", "a larger {rtol}"))
    return mean, Blocks(math.sqrt(n) * (rows @ factor), responses, offsets, np.ones(len(rows)))


def _solve(
    gathered: Gathered, visiting: Visiting, tolerance: float, fitted: FloatArray
) -> tuple[list[FloatArray], FloatArray] | None:
    """Rows u, E, off (each (q, k)) and responses (q, t) with the same products as those of all samples.

    `fitted` (k, t) is U'y. What it leaves of y enters the products in the place of y, so that a small rest keeps
    its digits.
    """
    equation = Cavity.of(visiting, tolerance)
    if equation is None:
        return None

    def grams(influence: FloatArray) -> FloatArray | None:
        """One pass: sum_i r_i u_i u_i' (q, k, k), chunk by chunk."""

        def weighted(rows: FloatArray, responses: FloatArray) -> FloatArray:
            total = np.zeros_like(influence)
            for part in _parts(rows):
                solver = equation.responses_of(part)
                rho = solver.of_influence(influence)
                if not np.isfinite(rho).all():
                    return np.full_like(influence, np.nan)
                total += solver.weighted_grams(rho)
            return total

        found = gathered(weighted, np.add)
        return found if np.isfinite(found).all() else None

    if not equation.iterate(grams):
        return None

    def products(rows: FloatArray, responses: FloatArray) -> FloatArray:
        width = 3 * equation.k + responses.shape[1]
        total = np.zeros((width, width))
        for start, part in zip(range(0, len(rows), _AT_ONCE), _parts(rows), strict=True):
            solver = equation.responses_of(part)
            entries = equation.entries_of(solver, solver.of_influence(equation.influence))
            off = cavity_maps.by_own_meetings(equation.visiting, part, entries, equation.tolerance)
            rest = responses[start : start + _AT_ONCE] - part @ fitted
            columns = np.hstack([part, entries, off, rest])
            total += columns.T @ columns
        return total

    gram, k = gathered(products, np.add), equation.k
    sizes = np.sqrt(np.diag(gram))
    sizes[sizes == 0] = 1.0
    values, vectors = scipy.linalg.eigh(gram / sizes / sizes[:, np.newaxis], check_finite=False)
    table, rest = np.split(np.sqrt(values.clip(min=0.0))[:, np.newaxis] * vectors.T * sizes, [3 * k], axis=1)
    responses = rest + table[:, :k] @ fitted
    return np.split(table, 3, axis=1), responses


def _parts(rows: FloatArray) -> Iterator[FloatArray]:
    return (rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE))


def _no_modifier(sample: int) -> FloatArray:
    raise UnsupportedError(
        "the modifier of a sample needs the rows one by one, but they are read in chunks; give a sample of the "
        "rows that fits into memory to LeastSquares(X, y)."
    )
