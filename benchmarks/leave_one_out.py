"""Leave-one-out along the whole path beside the singular value decomposition, and beside refits.

python -m benchmarks.leave_one_out
"""

import time
from collections.abc import Callable

import numpy as np
import scipy.linalg

import reshuffle as rs
from reshuffle._progress import track


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """The shortest of a few."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def main() -> None:
    """Print one line per scheme."""
    drawn = rs.gaussian(2000, 1000, noise=1.0, seed=0)
    X, y = drawn.X, drawn.y
    epochs = np.unique(np.geomspace(1, 10_000, 200).round())
    decomposition = seconds(lambda: scipy.linalg.svd(X, full_matrices=False))
    print(f"n = 2000, p = 1000, {len(epochs)} epochs up to 10,000; one SVD of X: {decomposition:.2f} s")
    schemes = [
        rs.FullBatch(),
        rs.RandomReshuffling(batches=2),
        rs.RandomReshuffling(batches=4),
        rs.SampleReshuffling(batch_size=128),
    ]
    for scheme in track(schemes, len(schemes), "leaving out rows"):

        def whole(scheme: rs.Scheme = scheme) -> object:
            problem = rs.LeastSquares(X, y)
            return rs.descend(problem, scheme, alpha=0.2).leave_one_out(epochs).mean_square

        took = seconds(whole, 2)

        def one(scheme: rs.Scheme = scheme) -> object:
            problem = rs.LeastSquares(X, y).without(np.array([0]))
            return rs.descend(problem, scheme, alpha=0.2).iterate(epochs)

        refit = seconds(one, 1)
        print(
            f"{scheme!r}: {took:.2f} s, {took / decomposition:.2f} decompositions; "
            f"2000 refits would take {2000 * refit / took:,.0f} times as long"
        )


if __name__ == "__main__":
    main()
