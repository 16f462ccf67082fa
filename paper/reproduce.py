"""Compute the figures that a folder lacks, on all cores."""

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paper
from paper import report
from paper.figure import Claim, Record, read, write

_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def reproduce(
    names: Sequence[str], folder: Path, quick: bool, jobs: int
) -> Iterator[tuple[float, Record | None, bool]]:
    """Yield (share of the work that is done, record, whether it was there already) for each figure.

    While figures are computed, `jobs` of them at once, the record is None twice a second. Finished figures stay as
    they are; whatever interrupts this, the next call goes on with the missing ones. The report is written anew
    after each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = {name: read(folder, name, paper.FIGURES[name].inputs(quick)) for name in names}
    # The longest first, so that no core waits for another at the end.
    missing = sorted((name for name in names if found[name] is None), key=lambda name: -_seconds(name))
    done, total = 0.0, sum(map(_seconds, missing))
    for record in found.values():
        if record is not None:
            yield 0.0, record, True
    report.write(folder, finished(folder, quick), quick)
    for passed, record in _computed(missing, folder, quick, jobs):
        if record is not None:
            done += _seconds(record.name)
            report.write(folder, finished(folder, quick), quick)
        # Of what is under way it is only known how long it has taken.
        guess = min(passed * jobs, 0.95 * total) if jobs > 1 else 0.0
        yield max(done, guess) / total, record, False


def print_progress(names: Sequence[str], folder: Path, quick: bool, jobs: int, bars: Any = None) -> None:
    """Compute the figures, and print a line for each and one for their claims; `bars` are those of rich, if any."""
    claims: list[Claim] = []
    count, begin = 0, time.perf_counter()
    task = None if bars is None else bars.add_task("figures", total=1.0)
    for share, record, kept in reproduce(names, folder, quick, jobs):
        if bars is not None:
            bars.update(task, completed=share, description=f"{count} of {len(names)} figures")
        if record is None:
            continue
        count += 1
        claims += record.claims
        note = "kept" if kept else f"{record.seconds:.1f} s"
        line = f"{count:>2}/{len(names)}  {record.name:<16} {note:>8}  {_verdict(record.claims)}"
        print(line, flush=True) if bars is None else bars.console.print(line, highlight=False)
    agree, seconds = sum(claim.agrees for claim in claims), time.perf_counter() - begin
    print(
        f"{len(claims)} claims: {agree} agree, {len(claims) - agree} do not. {seconds:.0f} s. "
        f"Open {folder / report.FILE}"
    )


def _verdict(claims: Sequence[Claim]) -> str:
    agree = sum(claim.agrees for claim in claims)
    corrected = sum(not claim.agrees and bool(claim.correction) for claim in claims)
    counts = {"agree": agree, "corrected": corrected, "DISAGREE": len(claims) - agree - corrected}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def finished(folder: Path, quick: bool) -> list[Record]:
    """The complete figures in a folder, in the order of the report."""
    found = (read(folder, name, figure.inputs(quick)) for name, figure in paper.FIGURES.items())
    return [record for record in found if record is not None]


def _seconds(name: str) -> float:
    return paper.FIGURES[name].seconds


def _compute(name: str, folder: Path, quick: bool) -> Record:
    return write(folder, name, paper.FIGURES[name], paper.FIGURES[name].inputs(quick))


def _computed(
    names: Sequence[str], folder: Path, quick: bool, jobs: int
) -> Iterator[tuple[float, Record | None]]:
    begin = time.monotonic()
    if jobs == 1 or len(names) < 2:
        for name in names:
            yield time.monotonic() - begin, _compute(name, folder, quick)
        return
    with _processes(min(jobs, len(names))) as pool:
        waiting = {pool.submit(_compute, name, folder, quick) for name in names}
        while waiting:
            ready, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            yield time.monotonic() - begin, None
            for future in ready:
                yield time.monotonic() - begin, future.result()


@contextmanager
def _processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """Processes with BLAS at one thread each; whatever ends this early ends them."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    others = set(multiprocessing.active_children())
    # Spawned, since the number of threads is read when BLAS is loaded.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_be_silent)
    try:
        yield pool
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _be_silent() -> None:
    """Leave the terminal to the process that started this one: bars of two processes overwrite each other."""
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
