"""`python -m tests.rooms`: every module with the first sentence of its docstring, as docs/architecture.md has them.

`python -m tests.rooms --write` puts the tables into the page.
"""

import ast
import sys
from pathlib import Path

from tests.test_imports import ROOMS, SOURCE

PAGE = Path(__file__).parent.parent / "docs/architecture.md"
BEGIN, END = (f"<!-- {word} of what python -m tests.rooms prints -->" for word in ("Begin", "End"))
PACKAGE = SOURCE / "reshuffle"


def sentence(path: Path) -> str:
    """The first paragraph of a module's docstring, as the cell of a table."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


def table(room: Path) -> list[str]:
    """A room: what it is for, and a row per module, those of its inner rooms after its own."""
    inside = sorted(room.rglob("*.py"), key=lambda path: (path.parent.parts, path.name))
    lines = [
        f"### `{room.name}/`",
        "",
        sentence(room / "__init__.py"),
        "",
        "| module | what it is for |",
        "|---|---|",
    ]
    for path in inside:
        name = path.relative_to(room).as_posix()
        if name != "__init__.py":
            lines.append(f"| `{name.removesuffix('__init__.py')}` | {sentence(path)} |")
    return [*lines, ""]


def tables() -> list[str]:
    """All rooms as Markdown, in the order in which data flow, after the modules that are in none."""
    alone = sorted(PACKAGE.glob("*.py"))
    lines = ["| module | what it is for |", "|---|---|"]
    lines += [f"| `{path.name}` | {sentence(path)} |" for path in alone]
    rooms = [PACKAGE / name for name in (*ROOMS, "free") if (PACKAGE / name).is_dir()]
    return [*lines, "", *(line for room in rooms for line in table(room))]


def listed() -> list[str]:
    """What the page says."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip("\n").splitlines()


def write() -> None:
    """Put the tables into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n" + "\n".join(tables()) + f"\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    write() if "--write" in sys.argv else print("\n".join(tables()))
