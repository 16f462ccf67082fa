"""Whether anything has become slower since an earlier commit: `python -m benchmarks.since HEAD~10`.

Both sources answer the same questions in processes of their own, in turns, so that a busy machine slows down both.
A question may use names that both of them know, and no others.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

from rich.console import Console

from benchmarks.core import table

_ROOT = Path(__file__).parent.parent
_ROUNDS = 3
_GAUSSIAN = "problem = rs.gaussian({}, {}, noise=0.5, seed=1)"
_QUESTIONS = {
    "import": ("", "import reshuffle; reshuffle.descend"),
    "risk, n = 2000, p = 300, B = 4": (
        _GAUSSIAN.format(2000, 300),
        "rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=0.5).risk(range(300))",
    ),
    "risk, n = 200, p = 400, B = 8": (
        _GAUSSIAN.format(200, 400),
        "rs.descend(problem, rs.RandomReshuffling(batches=8), alpha=0.2).risk(range(300))",
    ),
    "risk by the series, n = 640, p = 50, B = 64": (
        _GAUSSIAN.format(640, 50),
        'rs.descend(problem, rs.RandomReshuffling(batches=64), alpha=0.02, method="series").risk(range(100))',
    ),
    "expected risk, n = 400, p = 100, B = 4": (
        _GAUSSIAN.format(400, 100),
        "rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=0.5).expected_risk([1, 10, 30])",
    ),
    "risk with momentum, n = 400, p = 60, B = 4": (
        _GAUSSIAN.format(400, 60),
        "rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=0.2, momentum=0.5).risk([1, 10, 100])",
    ),
    "best epoch, n = 300, p = 200, B = 3": (
        _GAUSSIAN.format(300, 200),
        "rs.descend(problem, rs.RandomReshuffling(batches=3), alpha=0.2).best_epoch()",
    ),
    "critical step, n = 200, p = 30, B = 4": (
        _GAUSSIAN.format(200, 30),
        "rs.critical_step(problem, rs.RandomReshuffling(batches=4))",
    ),
    "500 simulated runs, n = 200, p = 50, B = 4": (
        _GAUSSIAN.format(200, 50),
        "rs.simulate(problem, rs.RandomReshuffling(batches=4), step=0.05, epochs=[1, 10], runs=500, seed=0)",
    ),
    "density of a free product with a sum, 400 points": (
        "from reshuffle import free; import numpy as np\n"
        "x, y = free.variables(free.MarchenkoPastur(ratio=0.5), free.Semicircle(variance=1.0))",
        "free.spectrum(x + y - (x * y + y * x) / 4).density(np.linspace(-5, 8, 400))",
    ),
}
"""What is done before, and what is timed."""


def unpacked(commit: str, where: Path) -> Path:
    """The sources of a commit."""
    archive = subprocess.run(
        ["git", "archive", commit, "src"], cwd=_ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(where, filter="data")
    return where / "src"


def seconds(source: Path, before: str, question: str) -> float:
    """Processor time of a question in a process of its own: the least of several, but for an import, done once."""
    asked = ["import reshuffle as rs", before, question] if before else []
    times = 5 if before else 1
    clock = ["import time", "taken = []", f"for _ in range({times}):", "    begin = time.process_time()"]
    clock += [f"    {question}", "    taken.append(time.process_time() - begin)", "print(min(taken))"]
    settings = {**os.environ, "PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1"}
    # Both are compiled once: an import that compiles is no import that anyone waits for twice.
    settings.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(asked + clock)],
        check=True,
        capture_output=True,
        text=True,
        env=settings,
    )
    return float(done.stdout)


def main(commit: str) -> None:
    """Print both times, and their ratio."""
    made = table(f"Since {commit}", "question", "seconds then", "now", "now / then")
    with tempfile.TemporaryDirectory() as folder:
        sources = unpacked(commit, Path(folder)), _ROOT / "src"
        for name, (before, question) in _QUESTIONS.items():
            rounds = [[seconds(source, before, question) for source in sources] for _ in range(_ROUNDS)]
            then, now = (min(column) for column in zip(*rounds, strict=True))
            made.add_row(name, f"{then:.3g}", f"{now:.3g}", f"{now / then:.2f}")
    Console(width=100).print(made)


if __name__ == "__main__":
    main(sys.argv[1])
