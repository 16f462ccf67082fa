"""`python -m tests.traces`: the modules that questions pass through, as docs/architecture.md draws them.

`python -m tests.traces --write` draws them there.
"""

import re
import sys
import textwrap
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from unittest import mock

import pandas as pd

import reshuffle as rs
from reshuffle.cli import main
from reshuffle.free import progress
from reshuffle.sklearn import regressor

SCHEME = rs.RandomReshuffling(batches=4)


def first_fit(problem: rs.LeastSquares) -> object:
    """A fit that shares nothing with fits before it."""
    regressor._fits.clear()
    return regressor.MiniBatchRegressor().fit(problem.X, problem.y)


def density_of_an_anticommutator() -> object:
    """The density of a law of two free variables."""
    x, y = rs.free.variables(rs.free.MarchenkoPastur(0.5), rs.free.Semicircle())
    # The limits and the command line put displays of their own in the place of this one.
    with mock.patch.object(progress, "display", progress.lines):
        return rs.free.spectrum(x * y + y * x).density([0.1, 0.5])


def limiting_curve() -> object:
    """The risk of four batches in the proportional limit."""
    with mock.patch.object(progress, "display", progress.lines):
        return rs.asymptotics.learning_curve(0.5, 0.5, 4).risk([1, 10])


def advice_on_a_table(problem: rs.LeastSquares) -> object:
    """What `reshuffle advise` prints on a table with the rows of a problem."""
    table = pd.DataFrame(problem.X).add_prefix("x").assign(y=problem.y)
    with TemporaryDirectory() as folder, redirect_stdout(StringIO()) as printed:
        path = Path(folder) / "mine.csv"
        table.to_csv(path, index=False)
        assert main(["advise", "--data", str(path), "--target", "y"]) == 0
        return printed.getvalue()


QUESTIONS: dict[str, Callable[[rs.LeastSquares], object]] = {
    "descend(...).risk": lambda problem: rs.descend(problem, SCHEME, alpha=0.2).risk([0, 10]),
    "descend(...).expected_risk": lambda problem: rs.descend(problem, SCHEME, alpha=0.2).expected_risk(
        [0, 10]
    ),
    "descend(samples, momentum=).leave_one_out": lambda problem: rs.descend(
        problem, rs.SampleReshuffling(batch_size=10), step=0.005, momentum=0.9
    ).leave_one_out([1, 10]),
    "plan(X, y)": lambda problem: rs.plan(problem.X, problem.y),
    "plan(X, y, batch_sizes=[10, 25])": lambda problem: rs.plan(problem.X, problem.y, batch_sizes=[10, 25]),
    "MiniBatchRegressor().fit": first_fit,
    "the command advise": advice_on_a_table,
    "free.spectrum(x*y + y*x).density": lambda _: density_of_an_anticommutator(),
    "asymptotics.learning_curve(aspect, alpha, 4).risk": lambda _: limiting_curve(),
}


def modules(question: Callable[[rs.LeastSquares], object]) -> list[str]:
    """The modules of the package in which a question calls a function, in the order of the first call."""
    seen: list[str] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "").removeprefix("reshuffle.")
        ours = frame.f_globals.get("__name__", "").startswith("reshuffle.")
        if event == "call" and ours and name not in seen:
            seen.append(name)

    question(
        rs.gaussian(100, 20, noise=0.5, seed=1)
    )  # What is imported and cached on the way is not counted.
    problem = rs.gaussian(100, 20, noise=0.5, seed=1)
    sys.setprofile(look)
    try:
        question(problem)
    finally:
        sys.setprofile(None)
    return seen


def drawn(name: str) -> str:
    """A trace as text: the number of modules, then its modules by package, in the order of their calls."""
    seen = modules(QUESTIONS[name])
    packages: dict[str, list[str]] = {}
    for module in seen:
        package, _, rest = module.partition(".")
        if package.startswith("_"):
            package, rest = "helpers", package
        # A package itself has no name inside it: the checks of its front door.
        packages.setdefault(package, []).extend([rest] if rest else [])
    text = "; ".join(f"{package}/ {' -> '.join(rest)}" for package, rest in packages.items())
    lines = textwrap.wrap(
        text, 150, initial_indent=" " * 6, subsequent_indent=" " * 6, break_on_hyphens=False
    )
    return "\n".join([f"    {name}: {len(seen)} modules", *lines])


def write(page: Path) -> None:
    """Put the traces in the place of those in a page: the line of the question, and the deeper ones below it."""
    text = page.read_text(encoding="utf-8")
    for name in QUESTIONS:
        trace = drawn(name)
        text = re.sub(
            rf"^    {re.escape(name)}: .*\n(?: {{6}}.*\n)+", lambda _, new=trace: f"{new}\n", text, flags=re.M
        )
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if "--write" in sys.argv:
        write(Path(__file__).parent.parent / "docs/architecture.md")
    print("\n".join(map(drawn, QUESTIONS)))
