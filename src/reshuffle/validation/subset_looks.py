"""Leaving out rows of fixed batches in random order, by what comes before and after the row's own batch.

With the other batches cut into those before, S, and those after, S^c, each set in random order,

    A_i = A + (step / m_b) sum_S p_S u_{S^c} u_S',   u_S = F(S) x_i,   p_S = 1 / (B binom(B-1, |S|)).

There are 2^(B-1) such looks. Where these are too many, F(S) is averaged over all S of the same size: B looks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._blas import each
from reshuffle._progress import track
from reshuffle.epoch.accuracy import A_SECOND, CALL
from reshuffle.epoch.averaging.lattice import MOST_BATCHES, layer, prefix_weights
from reshuffle.validation.descent import Descent
from reshuffle.validation.leave_one_out_formula import LeftOutRows, standing_still
from reshuffle.validation.looks import Looks, Residuals, chunked, no_one, weighted

_FEW_SUBSETS = 8
"""Up to this many subsets of the other batches, each is a look of its own, and leaving out is exact."""
_CALLS = 3
"""Calls with small matrices that a visit takes."""
_STACKED = 1 << 18
"""Numbers in the visits to one batch that are multiplied at a time: 14 batches in 10 modes take a twentieth of the
time that they take one subset after the other."""
_NODES = 150.0
"""Of a contour, about, real and imaginary parts."""


@dataclass(frozen=True, eq=False)
class Visited:
    """What some visits do on average: c -> c - lost c + gained."""

    lost: FloatArray
    gained: FloatArray


@dataclass(frozen=True, eq=False)
class View:
    """How the rows of one batch look at the parameters.

    Attributes
    ----------
    before : list of Visited
        What comes before each look; nothing, before the first.
    coupling : (q, q)
    """

    before: list[Visited]
    coupling: FloatArray

    def look(self, descent: Descent, modes: "_Modes", members: IntArray) -> Looks:
        """The looks of some rows, in the modes."""
        rows = descent.rows(members)
        responses = descent.responses(members, rows)
        inside = rows @ modes.vectors
        right = np.stack([inside - rows @ modes.turned(part.lost) for part in self.before], axis=1)
        alpha = np.stack([responses - rows @ part.gained for part in self.before], axis=1)
        picks = np.zeros(len(self.before))
        picks[0] = 1.0
        coupling = descent.factors[members, np.newaxis, np.newaxis] * self.coupling
        return Looks(members, right, alpha, coupling, picks)


class _Modes:
    """The modes of the mean map, and matrices turned into them, each once: batches share what comes before them."""

    def __init__(self, vectors: FloatArray):
        self.vectors = vectors
        self._turned: dict[int, tuple[FloatArray, FloatArray]] = {}

    def turned(self, matrix: FloatArray) -> FloatArray:
        """M Q (r, r)."""
        if id(matrix) not in self._turned:
            # The matrix is kept beside it, so that no other gets its address.
            self._turned[id(matrix)] = matrix, matrix @ self.vectors
        return self._turned[id(matrix)][1]


@dataclass(frozen=True, eq=False)
class FewBatches:
    """The rows of a descent whose batches are few.

    Attributes
    ----------
    rows : LeftOutRows
    share : float
        How far what a row does may be off, relative to it.
    """

    rows: LeftOutRows
    share: float

    def error(self, residuals: Residuals, weights: FloatArray) -> FloatArray:
        """How far a mean square may be off: the sum over the rows, of which none makes up for another."""
        here = residuals(self.rows)
        both = (residuals(self.rows.put_off(share)) for share in (self.share, -self.share))
        apart = [weighted(np.abs(np.square(one) - np.square(here)), weights) for one in both]
        return np.asarray(np.max(apart, axis=0))


def are_few(descent: Descent) -> bool:
    """Whether each subset has a look of its own, and leaving out is exact."""
    return descent.blocks.batches <= MOST_BATCHES and _price_of_subsets(descent) <= A_SECOND


def few_batches(descent: Descent) -> FewBatches:
    """The rows of a descent whose batches are few: by subsets if that takes a second or less, else by size."""
    n = descent.problem.n
    is_exact = are_few(descent)
    whole, views = _by_subset(descent) if is_exact else _by_size(descent)
    values, vectors = scipy.linalg.eigh((whole.lost + whole.lost.T) / 2, driver="evd", check_finite=False)
    modes = _Modes(vectors)
    partition, rank = descent.scheme.partition(n), len(views[0].before)
    unvisited = View(views[0].before, np.zeros((rank, rank)))
    groups = [*zip(partition, views, strict=True)]
    groups.append((np.setdiff1d(np.arange(n), np.concatenate(partition)), unvisited))

    def looks(rows: IntArray, height: int) -> Iterator[Looks]:
        for group, view in groups:
            mine = rows[np.isin(rows, group)]
            yield from chunked(mine, height, partial(look, view))

    pull = vectors.T @ whole.gained
    is_given = is_exact and not descent.leaves_means
    alone = None if is_given or descent.shrinkage else descent.alone

    def look(view: View, members: IntArray) -> Looks:
        seen = view.look(descent, modes, members)
        return seen if alone is None else standing_still(seen, alone[members], values, pull)

    rows = LeftOutRows(
        values, pull, looks, rank, applications=1, is_monotone=False,
        alone=lambda: no_one(n) if descent.shrinkage else descent.alone,
    )  # fmt: skip
    return FewBatches(rows, 0.0 if is_exact else _neglected(descent))


def _price_of_subsets(descent: Descent) -> float:
    """Operations of the looks of all rows through all subsets; never too many, if those are few."""
    rank, subsets = descent.problem.rank, 2.0 ** (descent.blocks.batches - 1)
    if subsets <= _FEW_SUBSETS:
        return 0.0
    return float(descent.problem.n * _NODES * subsets**2 * (2.0 * rank + 8.0 * subsets))


def _neglected(descent: Descent) -> float:
    """What the covariance of before and after among subsets of one size is, relative to what a row does.

    To second order in the step it is step^2 Var_S sum_{b in S} W_b x_i, on average over sizes and rows.
    """
    blocks, step, batches = descent.blocks, descent.step, descent.blocks.batches
    grams = [
        blocks.rows[blocks.of(b)].T @ blocks.rows[blocks.of(b)] / blocks.divisors[b] for b in range(batches)
    ]
    total, mean = sum(grams), sum(grams) / batches
    spread = sum(np.sum(total * ((gram - mean) @ (gram - mean))) for gram in grams) / batches
    sizes = sum(size * (batches - 1 - size) / max(batches - 2, 1) for size in range(batches)) / batches
    return float(min(step * step * sizes * spread / max(float(np.trace(total)), 1e-300), 1.0))


def operations(descent: Descent) -> float:
    """About what the subsets cost."""
    rows, rank = descent.blocks.rows.shape
    batches = descent.blocks.batches
    each = 4.0 * rows / batches * rank**2 + 6.0 * rank**2 + _CALLS * CALL
    return float(batches * 2.0 ** (batches - 1) * each)


def _layers(descent: Descent) -> Iterator[tuple[IntArray, Visited]]:
    """Subsets of the batches (c,), ascending, one size after the other, and what visits to each do on average.

    `lost` is (c, r, r) and `gained` (c, r, t), averaged over the orders of each subset.
    """
    batches, rank = list(range(descent.blocks.batches)), len(descent.origin)
    subsets = np.zeros(1, dtype=np.int64)
    visited = Visited(np.zeros((1, rank, rank)), np.zeros((1, *descent.origin.shape)))
    yield subsets, visited
    gains = [descent.gain(batch) for batch in batches]
    height = max(1, int(_STACKED / (rank * (rank + descent.blocks.sizes.max()))))
    for size in track(batches, len(batches), "averaging orders"):
        following = np.sort(np.fromiter(layer(batches, size + 1), dtype=np.int64))
        parts = [following[start : start + height] for start in range(0, len(following), height)]
        made = each(partial(_means, descent, gains, subsets, visited), parts, float(rank))
        subsets = following
        visited = Visited(*(np.concatenate(arrays) for arrays in zip(*made, strict=True)))
        yield subsets, visited


def _means(
    descent: Descent, gains: list[FloatArray], known: IntArray, before: Visited, subsets: IntArray
) -> tuple[FloatArray, FloatArray]:
    """What visits to some subsets (m,) do on average, from what is known of those that have one batch less."""
    rank, count = len(descent.origin), int(subsets[0]).bit_count()
    lost, gained = np.zeros((len(subsets), rank, rank)), np.zeros((len(subsets), *descent.origin.shape))
    for batch, gain in enumerate(gains):
        here = np.flatnonzero(subsets >> batch & 1)
        if len(here):
            at = np.searchsorted(known, subsets[here] ^ (1 << batch))
            lost_before, gained_before = before.lost[at], before.gained[at]
            # 1 - (1 - d)(1 - D) = D + d (1 - D), with d what a visit takes.
            left = -lost_before
            np.einsum("cii->ci", left)[:] += 1
            lost[here] += lost_before + descent.visit(batch, left)
            gained[here] += gained_before + gain - descent.visit(batch, gained_before)
    return lost / count, gained / count


def _by_subset(descent: Descent) -> tuple[Visited, list[View]]:
    batches = descent.blocks.batches
    found = {
        subset: Visited(*parts)
        for subsets, made in _layers(descent)
        for subset, *parts in zip(subsets.tolist(), made.lost, made.gained, strict=True)
    }
    everything, chances = (1 << batches) - 1, prefix_weights(batches)
    views = []
    for batch in range(batches):
        others = everything ^ (1 << batch)
        subsets = [subset for subset in range(1 << batches) if subset & others == subset]
        coupling = np.zeros((len(subsets),) * 2)
        for number, subset in enumerate(subsets):
            coupling[subsets.index(others ^ subset), number] = chances[subset.bit_count()]
        coupling *= descent.step / descent.blocks.divisors[batch]
        views.append(View([found[subset] for subset in subsets], coupling))
    return found[everything], views


def _by_size(descent: Descent) -> tuple[Visited, list[View]]:
    batches, rank = descent.blocks.batches, len(descent.origin)
    lost = np.zeros((batches, batches, rank, rank))
    gained = np.zeros((batches, batches, *descent.origin.shape))
    for size, (subsets, made) in enumerate(_layers(descent)):
        for batch in range(batches) if size < batches else ():
            without = (subsets >> batch & 1) == 0
            lost[batch, size] = made.lost[without].mean(axis=0)
            gained[batch, size] = made.gained[without].mean(axis=0)
    backwards = np.eye(batches)[::-1] * descent.step / batches
    views = [
        View([*map(Visited, lost[batch], gained[batch])], backwards / descent.blocks.divisors[batch])
        for batch in range(batches)
    ]
    return Visited(made.lost[0], made.gained[0]), views
