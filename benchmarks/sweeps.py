"""A grid of recipes beside separate calls, and two workers beside one process.

python -m benchmarks.sweeps
"""

import logging
import os

import numpy as np

import reshuffle as rs
from benchmarks.harness import timed
from reshuffle._linalg import one_thread

_EVERY = 10
"""One separate call in ten is timed; the others take as long, since prices do not depend on the step."""
_BATCHES = [2, 4, 8]
_EPOCHS = np.arange(1, 301)


def main() -> None:
    """Print ratios within this run."""
    problem = rs.gaussian(1000, 500, noise=0.5, seed=0)
    alphas = np.geomspace(0.01, 1.2, 100)
    over = {"batches": _BATCHES, "alpha": alphas.tolist()}
    shared_steps(problem, over)
    many_workers(problem, over)
    tiny_grids()


def shared_steps(problem: rs.LeastSquares, over: dict[str, list[float]]) -> None:
    """All steps at once, beside one by one."""
    assert problem.reduction is not None

    def one(scheme, alpha):
        return timed(lambda: rs.descend(problem, scheme, alpha=alpha).risk(_EPOCHS).total)

    # In turn, so that what else the machine does meets both alike.
    with one_thread():
        apart = 0.0
        for batches in over["batches"]:
            scheme = rs.RandomReshuffling(batches=int(batches))
            for alpha in over["alpha"][:: 2 * _EVERY]:
                apart += one(scheme, alpha)[0]
        together, found = timed(lambda: rs.sweep(problem, over=over, epochs=_EPOCHS))
        off = 0.0
        for batches in over["batches"]:
            scheme = rs.RandomReshuffling(batches=int(batches))
            for alpha in over["alpha"][_EVERY :: 2 * _EVERY]:
                taken, direct = one(scheme, alpha)
                apart += taken
                here = found["risk"].sel(batches=batches, alpha=alpha).values
                off = max(off, float(np.abs(here / direct - 1).max()))
    print(
        f"n = 1000, p = 500, {len(over['alpha'])} steps x {over['batches']} batches x {len(_EPOCHS)} epochs, one "
        f"thread: {together:.1f} s together; {_EVERY * apart:.1f} s one by one (every tenth was timed): "
        f"{_EVERY * apart / together:.1f} times as long; they differ by {off:.1e} at most"
    )


def many_workers(problem: rs.LeastSquares, over: dict[str, list[float]]) -> None:
    """The same grid in one process with one thread, in two processes of joblib, and on two workers of Dask."""
    with one_thread():
        alone, expected = timed(lambda: rs.sweep(problem, over=over, epochs=_EPOCHS))
    rs.sweep(rs.gaussian(8, 4), over={"alpha": [0.1, 0.2]}, batches=2, n_jobs=2)
    by_joblib, _ = timed(lambda: rs.sweep(problem, over=over, epochs=_EPOCHS, n_jobs=2))
    with _cluster() as cluster, cluster.get_client() as client:
        rs.sweep(rs.gaussian(8, 4), over={"alpha": [0.1, 0.2]}, batches=2, client=client)
        by_dask, found = timed(lambda: rs.sweep(problem, over=over, epochs=_EPOCHS, client=client))
    off = float(np.abs(found["risk"] / expected["risk"] - 1).max())
    print(
        f"the same grid: one process {alone:.1f} s, two of joblib {by_joblib:.1f} s ({alone / by_joblib:.2f} times "
        f"faster), two Dask workers {by_dask:.1f} s ({alone / by_dask:.2f} times faster, the same to {off:.0e})"
    )


def tiny_grids() -> None:
    """What processes and workers cost where there is hardly anything to do."""
    problem = rs.gaussian(50, 10, noise=0.5, seed=0)
    over = {"batches": [2, 4], "alpha": np.geomspace(0.01, 1.0, 50).tolist()}
    cells = 100
    alone, _ = timed(lambda: rs.sweep(problem, over=over), 3)
    by_joblib, _ = timed(lambda: rs.sweep(problem, over=over, n_jobs=2), 3)
    with _cluster() as cluster, cluster.get_client() as client:
        by_dask, _ = timed(lambda: rs.sweep(problem, over=over, client=client), 3)
    print(
        f"a tiny grid of {cells} points, n = 50, p = 10: {1e3 * alone / cells:.1f} ms per point in one process, "
        f"{1e3 * by_joblib / cells:.1f} ms with two of joblib, {1e3 * by_dask / cells:.1f} ms with two Dask workers"
    )


def _cluster():
    """Two workers that keep their memory, as docs/scale.md advises."""
    import distributed

    os.environ |= {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "33554432"}
    return distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
    )


if __name__ == "__main__":
    main()
