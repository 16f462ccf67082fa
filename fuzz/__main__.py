"""`python -m fuzz --minutes 5`: ask until the time is over, count, and print what reproduces every failure."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice

# Small matrices: threads would only wait for each other. Before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from fuzz.ask import ask
from fuzz.inputs import case
from fuzz.judge import Verdict

KINDS = (
    "right", "right by movement", "clear error", "wrong", "nan", "warning", "crash", "hang", "undecided",
)  # fmt: skip
FAILURES = ("wrong", "nan", "warning", "crash", "hang", "undecided")
_AT_A_TIME = 20


def one(seed: int) -> tuple[int, Verdict]:
    """Draw the input of a seed and ask."""
    return seed, ask(case(seed))


def some(seeds: list[int]) -> list[tuple[int, Verdict]]:
    """Several inputs, for a worker."""
    return [one(seed) for seed in seeds]


def verdicts(first: int, inputs: int | None, until: float, jobs: int) -> Iterator[tuple[int, Verdict]]:
    """Verdicts on the inputs of consecutive seeds, until there are enough or the time is over."""
    seeds = count(first) if inputs is None else iter(range(first, first + inputs))
    chunks = iter(lambda: list(islice(seeds, _AT_A_TIME * jobs)), [])
    if jobs == 1:
        for chunk in chunks:
            for seed in chunk:
                yield one(seed)
            if time.monotonic() > until:
                return
        return
    with ProcessPoolExecutor(jobs) as pool:
        for chunk in chunks:
            for found in pool.map(some, [chunk[start::jobs] for start in range(jobs)]):
                yield from found
            if time.monotonic() > until:
                return


def report(seed: int, verdict: Verdict) -> str:
    """What went wrong, and the three lines that show it."""
    drawn = case(seed)
    return "\n".join([f"\n# {verdict.kind}, seed {seed}: {verdict.detail}", *drawn.lines()])


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=5.0, help="how long to go on, unless --inputs is given"
    )
    parser.add_argument("--inputs", type=int, help="how many inputs to try, however long that takes")
    parser.add_argument("--seed", type=int, default=0, help="of the first input")
    parser.add_argument("--again", type=int, help="judge the one input of a seed that was printed once more")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args(arguments)
    until = float("inf") if given.inputs is not None else time.monotonic() + 60 * given.minutes
    counts: Counter[str] = Counter()
    questions: Counter[tuple[str, str]] = Counter()
    first, inputs = given.seed * 10**9, given.inputs
    if given.again is not None:
        first, inputs = given.again, 1
    for seed, verdict in verdicts(first, inputs, until, given.jobs):
        counts[verdict.kind] += 1
        questions[case(seed).question, verdict.kind] += 1
        if verdict.kind in FAILURES:
            print(report(seed, verdict), flush=True)
    print(_table(counts, questions))
    return int(any(counts[kind] for kind in FAILURES))


def _table(counts: Counter[str], questions: Counter[tuple[str, str]]) -> str:
    names = sorted({name for name, _ in questions})
    head = f"{'question':24}" + "".join(f"{kind.replace('right by ', ''):>13}" for kind in KINDS)
    rows = [f"{name:24}" + "".join(f"{questions[name, kind]:13}" for kind in KINDS) for name in names]
    total = f"{'all ' + str(counts.total()):24}" + "".join(f"{counts[kind]:13}" for kind in KINDS)
    return "\n".join(["", head, *rows, total])


if __name__ == "__main__":
    sys.exit(main())
