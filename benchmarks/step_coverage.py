"""How often the stated error of a critical step covers the truth: `python -m benchmarks.step_coverage [problems]`.

Rows are Gaussian, heavy-tailed, or small beside one or two that dominate; samples are shuffled and cut into batches
of any size, ragged ones included. The truth is a polynomial of the step whose coefficients are sums over words of
distinct samples: in one column elementary symmetric functions, with as many digits as it takes, else sums over
subsets. Where the library knows a step exactly, too, it is asked twice: as it is, and as if rows were too many.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations

import mpmath
import numpy as np

import reshuffle as rs
from benchmarks.harness import arguments, markdown, row
from reshuffle._arrays import FloatArray
from reshuffle._progress import track
from reshuffle.run import critical_polynomials

GRID = 1.0005
"""Steps at which a polynomial of matrices is looked at are this far apart."""


@dataclass(frozen=True)
class Setting:
    """A kind of problem: its rows (n, p) and batch size from a generator, and the truth."""

    name: str
    draw: Callable[[np.random.Generator], tuple[FloatArray, int]]
    truth: Callable[[FloatArray, int], float]
    searched: bool


def heavy(rng: np.random.Generator, n: int, p: int) -> FloatArray:
    """Rows of which a few may dominate."""
    kind = int(rng.integers(4))
    X = rng.standard_normal((n, p))
    if kind == 1:
        X *= rng.standard_t(2, (n, 1))
    if kind == 2:
        X *= 0.15
        X[:2] *= rng.uniform(5, 20, (2, 1))
    if kind == 3:
        X *= 0.2 * rng.exponential(1, (n, 1))
        X[0] = rng.standard_normal(p) * rng.uniform(1, 3)
    return X


def one_column(rng: np.random.Generator) -> tuple[FloatArray, int]:
    """A single column of 5 to 40 rows."""
    n = int(rng.integers(5, 41))
    return heavy(rng, n, 1), int(rng.integers(1, max(2, n // 4)))


def few_rows(rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Two or three columns of 9 or 10 rows, in batches of one or two."""
    n, p = int(rng.integers(9, 11)), int(rng.integers(2, 4))
    return heavy(rng, n, p), int(rng.integers(1, 3))


def along_axes(rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Rows along one of two or three orthogonal directions each, which learn nothing of each other."""
    n, p = int(rng.integers(20, 60)), int(rng.integers(2, 4))
    X = np.zeros((n, p))
    X[np.arange(n), rng.integers(0, p, n)] = heavy(rng, n, 1)[:, 0]
    turned, _ = np.linalg.qr(rng.standard_normal((p, p)))
    return X @ turned, int(rng.integers(1, n // 6))


def rate_in_one_column(squares: FloatArray, batches: int) -> Callable[[float], float]:
    """|sum_i (-step)^i binom(B, i) e_i(a) / binom(n, i)|, in as many digits as the sum loses."""
    n = len(squares)
    with mpmath.workdps(60 + n):
        sums = [mpmath.mpf(1)] + [mpmath.mpf(0)] * batches
        for square in squares:
            for i in range(batches, 0, -1):
                sums[i] += mpmath.mpf(float(square)) * sums[i - 1]
        coefficients = [
            (-1) ** i * sums[i] * math.comb(batches, i) / math.comb(n, i) for i in range(batches, -1, -1)
        ]

    def rate(step: float) -> float:
        with mpmath.workdps(60 + n):
            return float(abs(mpmath.polyval(coefficients, mpmath.mpf(step))))

    return rate


def rate_of_few(X: FloatArray, batches: int) -> Callable[[float], float]:
    """The spectral radius of sum_i (-step)^i binom(B, i) T_i, T_i the mean over words of i distinct samples."""
    n, p = X.shape
    squares = [np.outer(row, row) for row in X]
    words = {(): np.eye(p)}
    terms = [np.eye(p)]
    for size in range(1, batches + 1):
        words = {
            chosen: sum(squares[i] @ words[tuple(j for j in chosen if j != i)] for i in chosen)
            for chosen in combinations(range(n), size)
        }
        terms.append(sum(words.values()) / math.perm(n, size))

    def rate(step: float) -> float:
        mean = sum((-step) ** i * math.comb(batches, i) * term for i, term in enumerate(terms))
        return float(np.abs(np.linalg.eigvalsh(mean)).max())

    return rate


def first_end(rate: Callable[[float], float], low: float) -> float:
    """The first step at which a rate is one: on a fine grid, then by bisection."""
    while rate(low * GRID) < 1:
        low *= GRID
    high = low * GRID
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if rate(middle) >= 1 else (middle, high)
    return high


def end_in_one_column(X: FloatArray, batch_size: int) -> float:
    """The critical step of a single column."""
    squares, batches = np.square(X[:, 0]), -(-len(X) // batch_size)
    return first_end(rate_in_one_column(squares, batches), 1.99 / float(squares.max()))


def end_of_few(X: FloatArray, batch_size: int) -> float:
    """The critical step of few rows."""
    start = 1.99 / float(np.square(X).sum(axis=1).max())
    return first_end(rate_of_few(X, -(-len(X) // batch_size)), start)


def end_along_axes(X: FloatArray, batch_size: int) -> float:
    """The smallest of the critical steps of orthogonal directions, each a column with many zeros."""
    left = X
    ends = []
    while len(left):
        along = left[0] / np.linalg.norm(left[0])
        parallel = X @ along
        ends.append(
            end_in_one_column(np.where(np.abs(parallel) < 1e-9, 0.0, parallel)[:, np.newaxis], batch_size)
        )
        left = left[np.abs(left @ along) < 1e-9]
    return min(ends)


SETTINGS = (
    Setting("one column", one_column, end_in_one_column, searched=False),
    Setting("9 or 10 rows in 2 or 3 columns", few_rows, end_of_few, searched=False),
    Setting("the same, searched", few_rows, end_of_few, searched=True),
    Setting("20 to 59 rows along 2 or 3 axes, searched", along_axes, end_along_axes, searched=True),
)


@contextmanager
def as_if_many(searched: bool) -> Iterator[None]:
    """Nothing is known exactly, if searched."""
    known = critical_polynomials.exact_step
    if searched:
        critical_polynomials.exact_step = lambda *_: None
    try:
        yield
    finally:
        critical_polynomials.exact_step = known


def measured(setting: Setting, problems: int) -> tuple[FloatArray, FloatArray]:
    """(answer - truth) / error, and error / answer, one entry per problem."""
    off, width = np.empty(problems), np.empty(problems)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rs.errors.AccuracyWarning)
        for seed in track(range(problems), problems, setting.name):
            X, batch_size = setting.draw(np.random.default_rng(seed))
            true = setting.truth(X, batch_size)
            with as_if_many(setting.searched):
                found = rs.critical_step(
                    rs.LeastSquares(X, np.zeros(len(X))),
                    rs.SampleReshuffling(batch_size=batch_size),
                    mean_square=False,
                )
            off[seed] = (found - true) / (found.error + 1e-8 * true)
            width[seed] = found.error / found
    return off, width


def main(problems: int = 200) -> None:
    """Print one row per setting, as a table of Markdown."""
    shares = "covered, %", "unsafe, %", "exact, %", "error infinite, %"
    markdown("setting", *shares, "median relative error")
    for setting in SETTINGS:
        off, width = measured(setting, problems)
        cells = [
            100 * np.mean(np.abs(off) <= 1), 100 * np.mean(off > 1), 100 * np.mean(width == 0),
            100 * np.mean(np.isinf(width)), np.median(width),
        ]  # fmt: skip
        row(setting.name, *(f"{cell:.3g}" for cell in cells))


if __name__ == "__main__":
    main(arguments(__doc__, _problems=200).problems)
