"""Coverage of the errors of critical steps of shuffled samples: `python -m benchmarks.step_coverage [COUNT]`.

The truth is known in one column, where the mean is a polynomial in exact arithmetic, and for rows along two axes,
where every coordinate is a problem of one column. Rows have heavy tails, or one or two of them dominate. Steps of
the first kind are followed exactly, those of the second are searched.
"""

import sys
import time

import numpy as np
from rich.console import Console
from rich.progress import track
from tests.oracles.rank_one import first_crossing

import reshuffle as rs
from benchmarks.core import table

_COUNT = 100


def squares(rng: np.random.Generator, n: int) -> np.ndarray:
    """Squared lengths of n rows, of one of four kinds."""
    kind = int(rng.integers(4))
    if kind == 0:
        return rng.standard_t(2, n) ** 2 + 1e-3
    if kind == 1:
        return rng.exponential(1.0, n) + 1e-3
    few = np.full(n, rng.uniform(0.01, 0.2))
    few[: kind - 1] = rng.uniform(0.5, 8.0, kind - 1)
    return few


def one_column(rng: np.random.Generator) -> tuple[rs.LeastSquares, rs.SampleReshuffling, float]:
    """A problem in one column, a scheme for it, and its critical step."""
    n = int(rng.integers(8, 61))
    size = int(rng.choice([1, 2, 3, 5]))
    a = squares(rng, n)
    X = np.sqrt(a)[:, np.newaxis]
    scheme = rs.SampleReshuffling(batch_size=size)
    return rs.LeastSquares(X, np.zeros(n)), scheme, first_crossing(np.square(X[:, 0]), -(-n // size))


def along_axes(rng: np.random.Generator) -> tuple[rs.LeastSquares, rs.SampleReshuffling, float]:
    """Rows along two axes, a scheme for them, and the critical step: the smaller of both coordinates."""
    n = int(rng.integers(16, 41))
    size = int(rng.choice([1, 2, 4]))
    X = np.zeros((n, 2))
    axes = rng.integers(2, size=n)
    axes[:2] = 0, 1
    X[np.arange(n), axes] = np.sqrt(squares(rng, n))
    each = [first_crossing(np.square(X[:, axis]), -(-n // size)) for axis in range(2)]
    return rs.LeastSquares(X, np.zeros(n)), rs.SampleReshuffling(batch_size=size), min(each)


def main(count: int) -> None:
    """Print how many of each kind are covered, how many are further above the truth than said, and the time."""
    made = table(
        "Critical steps of shuffled samples", "problems", "covered", "too large", "median error", "seconds"
    )
    for name, draw in (("one column", one_column), ("along two axes", along_axes)):
        rng = np.random.default_rng(1)
        covered = unsafe = 0
        errors = []
        begin = time.process_time()
        for _ in track(range(count), name):
            problem, scheme, truth = draw(rng)
            step = rs.critical_step(problem, scheme)
            allowed = step.error + 1e-8 * truth
            covered += abs(step - truth) <= allowed
            unsafe += step - truth > allowed
            errors.append(step.error / truth)
        taken = (time.process_time() - begin) / count
        made.add_row(
            name, f"{covered} of {count}", f"{unsafe}", f"{np.median(errors):.2g}", f"{taken:.2f} each"
        )
    Console(width=110).print(made)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else _COUNT)
