"""`python -m tests.traces`: which modules three questions pass through, as docs/architecture.md draws them.

`python -m tests.traces --write` draws them there.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import reshuffle as rs

SCHEME = rs.RandomReshuffling(batches=4)
QUESTIONS: dict[str, Callable[[rs.LeastSquares], object]] = {
    "descend(...).risk": lambda problem: rs.descend(problem, SCHEME, alpha=0.2).risk([0, 10]),
    "descend(...).expected_risk": lambda problem: rs.descend(problem, SCHEME, alpha=0.2).expected_risk(
        [0, 10]
    ),
    "descend(momentum=).risk": lambda problem: rs.descend(problem, SCHEME, alpha=0.2, momentum=0.5).risk(
        [0, 10]
    ),
}


def modules(question: Callable[[rs.LeastSquares], object]) -> list[str]:
    """The modules of the package in which a question calls a function, in the order of the first call."""
    seen: list[str] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "").removeprefix("reshuffle.")
        ours = frame.f_globals.get("__name__", "").startswith("reshuffle.")
        if event == "call" and ours and name not in seen and not name.startswith("_"):
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
    """A trace as text: a line per room, in the order in which the question comes to it."""
    rooms: dict[str, list[str]] = {}
    for module in modules(QUESTIONS[name]):
        room, _, rest = module.partition(".")
        # A room itself has no name inside it: the checks of its front door.
        rooms.setdefault(room, []).extend([rest] if rest else [])
    lines = [f"    {name}"]
    lines += [f"      {room + '/':<10}{' -> '.join(rest)}" for room, rest in rooms.items()]
    return "\n".join(lines)


def write(page: Path) -> None:
    """Put the traces in the place of those in a page: from the question to the next empty line."""
    text = page.read_text(encoding="utf-8")
    for name in QUESTIONS:
        trace = drawn(name)
        text = re.sub(
            rf"^    {re.escape(name)}\n(?: .*\n)+", lambda _, new=trace: f"{new}\n", text, flags=re.M
        )
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if "--write" in sys.argv:
        write(Path(__file__).parent.parent / "docs/architecture.md")
    print("\n\n".join(map(drawn, QUESTIONS)))
