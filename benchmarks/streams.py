"""Batch statistics of rows on disk beside reading them and one QR of each chunk, and what a cluster would send.

python -m benchmarks.streams [--full] [--folder FOLDER]

A million rows of 100 columns by default, ten million (8 GB) with --full. Each of the two is a process of its own,
with one thread of BLAS, and begins with a file that is not in the cache of the system.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.linalg

import reshuffle as rs
from benchmarks.harness import arguments
from reshuffle._progress import track
from reshuffle.problem.sources import CHUNK, array_rows

COLUMNS, BATCHES, VISITS = 100, 8, 500
BILLION, WORKERS = 1_000_000_000, 64


def write(path: Path, rows: int) -> None:
    """Draw rows and write them, some at a time; the responses have a file of their own."""
    rng, height = np.random.default_rng(0), 100_000
    y = np.empty(rows)
    # Not through a map of the file: a process that is started begins with the peak of the one that starts it.
    with (path / "X.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (rows, COLUMNS)}
        )
        for start in track(range(0, rows, height), rows // height, "writing rows"):
            part = rng.standard_normal((min(height, rows - start), COLUMNS))
            part.tofile(file)
            y[start : start + len(part)] = part.sum(axis=1) + rng.standard_normal(len(part))
    np.save(path / "y.npy", y)


def forget(path: Path) -> None:
    """Have the system read the file from the disk the next time."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def ours(folder: Path, scheme: rs.Scheme) -> int:
    """The mean iterate, from the file; the number of passes over it."""
    problem = rs.LeastSquares(np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy"))
    rs.descend(problem, scheme, alpha=0.5).iterate([1, 10, 100])
    assert problem.stream is not None
    return int(problem.stream.passes)


def reference(folder: Path) -> None:
    """Read every chunk, and take its QR."""
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    start = 0
    for chunk in array_rows(X).chunks():
        table = np.column_stack([chunk, y[start : start + len(chunk)]])
        scipy.linalg.qr(table, mode="r", check_finite=False, overwrite_a=True)
        start += len(chunk)


def measured(which: str, folder: Path) -> list[float]:
    """Seconds and bytes of a process, its start left out, and before them what else it has to tell."""
    forget(folder / "X.npy")
    command = [sys.executable, "-m", "benchmarks.streams", "--measure", which, "--folder", str(folder)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    )
    return list(map(float, done.stdout.split()))


def on_paper(per_row: float) -> None:
    """What a billion rows would ask of each of many workers, from the shapes and the time per row."""
    factor = 8 * BATCHES * (COLUMNS + 1) * (COLUMNS + 1)
    chunk, merged = 8 * CHUNK, 8
    print(
        f"on paper, n = {BILLION:,} x {COLUMNS}, B = {BATCHES}, {WORKERS} workers: each sends its factors once, "
        f"{factor / 1e6:.2f} MB, where its rows are {8 * BILLION * COLUMNS / WORKERS / 1e9:.1f} GB; it holds a "
        f"chunk and its copy, {2 * chunk / 1e6:.0f} MB, and while merging {merged} others "
        f"{(merged + 1) * factor / 1e6:.1f} MB of factors; the client receives {factor / 1e6:.2f} MB; "
        f"{BILLION / WORKERS * per_row:.0f} s of work each"
    )


def main() -> None:
    """Print times, peaks and the ratio."""
    asked = arguments(
        __doc__,
        full=(False, "ten million rows, 8 GB, in place of a million"),
        folder=(tempfile.gettempdir(), "where the file is written, and removed afterwards"),
        measure=("", "reference, ours or samples: one of the processes"),
    )
    if asked.measure:
        begin, folder = time.perf_counter(), Path(asked.folder)
        if asked.measure == "reference":
            reference(folder)
        elif asked.measure == "ours":
            assert ours(folder, rs.RandomReshuffling(batches=BATCHES)) == 1
        else:
            print(ours(folder, rs.SampleReshuffling(batches=VISITS)))
        print(time.perf_counter() - begin, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return
    rows = 10_000_000 if asked.full else 1_000_000
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        folder = Path(name)
        write(folder, rows)
        (base, _), (took, peak) = measured("reference", folder), measured("ours", folder)
        passes, shuffled, held = measured("samples", folder)
    print(
        f"n = {rows:,} x {COLUMNS}, {8 * rows * COLUMNS / 1e9:.1f} GB, B = {BATCHES}: {took:.1f} s, "
        f"{took / base:.2f} times reading and one QR of each chunk ({base:.1f} s); peak memory {peak / 1e9:.2f} GB"
    )
    print(
        f"the same of shuffled samples in {VISITS} batches: {shuffled:.1f} s, {shuffled / base:.2f} times, in "
        f"{passes:.0f} passes over the rows; peak memory {held / 1e9:.2f} GB"
    )
    on_paper(took / rows)


if __name__ == "__main__":
    main()
