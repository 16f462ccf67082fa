"""Compute the figures that a folder lacks, on all cores."""

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import paper
from paper import report
from paper.figure import Claim, Record, read, write

_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def print_progress(names: Sequence[str], folder: Path, quick: bool, jobs: int, bars: Any = None) -> None:
    """Compute the figures that are missing, `jobs` at once; print a line for each, and one for their claims.

    Finished figures stay as they are; whatever interrupts this, the next call goes on with the missing ones. The
    report is written anew after each. `bars` are those of rich, if any.
    """
    folder.mkdir(parents=True, exist_ok=True)
    begin, claims, count, done = time.perf_counter(), list[Claim](), 0, 0.0
    found = {name: read(folder, name, paper.FIGURES[name].inputs(quick)) for name in names}
    # The longest first, so that no core waits for another at the end.
    missing = sorted((name for name in names if found[name] is None), key=lambda name: -_seconds(name))
    kept, total = filter(None, found.values()), sum(map(_seconds, missing)) or 1.0
    task = None if bars is None else bars.add_task("figures", total=total)
    report.write(folder, finished(folder, quick), quick)
    for record in chain(kept, _computed(missing, folder, quick, jobs)):
        if record is not None:
            note, count, claims = "kept", count + 1, claims + record.claims
            if record.name in missing:
                note, done = f"{record.seconds:.1f} s", done + _seconds(record.name)
                report.write(folder, finished(folder, quick), quick)
            line = f"{count:>2}/{len(names)}  {record.name:<16} {note:>8}  {_verdict(record.claims)}"
            print(line, flush=True) if bars is None else bars.console.print(line, highlight=False)
        if bars is not None:
            # Of what is under way it is only known how long it has taken.
            guess = min((time.perf_counter() - begin) * jobs, 0.95 * total)
            bars.update(task, completed=max(done, guess), description=f"{count} of {len(names)} figures")
    seconds = time.perf_counter() - begin
    print(f"{len(claims)} claims: {_verdict(claims)}. {seconds:.0f} s. Open {folder / report.FILE}")


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


def _computed(names: Sequence[str], folder: Path, quick: bool, jobs: int) -> Iterator[Record | None]:
    """Yield the figures as they are finished, and None twice a second while several are computed at once."""
    if jobs == 1 or len(names) < 2:
        yield from (_compute(name, folder, quick) for name in names)
        return
    with _processes(min(jobs, len(names))) as pool:
        waiting = {pool.submit(_compute, name, folder, quick) for name in names}
        while waiting:
            ready, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            yield None
            yield from (future.result() for future in ready)


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
