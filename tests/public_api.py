"""Public names with their signatures, one per line: `python -m tests.public_api` writes the list.

The list is in the repository, so that a name that goes, or an argument that is renamed, is a decision.
"""

import inspect
import re
from importlib import import_module
from pathlib import Path

LIST = Path(__file__).with_name("public_api.txt")
MODULES = (
    "reshuffle",
    "reshuffle.recipe.schedules",
    "reshuffle.free",
    "reshuffle.asymptotics",
    "reshuffle.plotting",
    "reshuffle.sklearn",
    "reshuffle.torch",
)


def parameters(function):
    """The parameters of a function with their defaults; annotations and what has no stable text are left out."""
    parts, is_keyword = [], False
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            if "*" not in "".join(part[:1] for part in parts):
                parts.append("*")
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        is_keyword |= star == "*"
        default = "" if one.default is one.empty else f"={one.default!r}"
        # Functions and sentinels are printed with their address.
        parts.append(f"{star}{one.name}{'=...' if ' at 0x' in default or '<' in default else default}")
    return f"({', '.join(parts)})"


def members(name, owner):
    """The public members of a class that are defined in this package, and its fields."""
    for key in sorted({key for base in owner.__mro__ for key in vars(base)} | set(_fields(owner))):
        home = next((base for base in owner.__mro__ if key in vars(base)), owner)
        if key.startswith("_") or not home.__module__.startswith("reshuffle"):
            continue
        member = inspect.getattr_static(owner, key, None)
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        yield f"{name}.{key}{parameters(member) if inspect.isfunction(member) else ''}"


def _fields(owner):
    return getattr(owner, "__dataclass_fields__", {})


def lines():
    """All lines of the list, in order."""
    for home in MODULES:
        module = import_module(home)
        for key in sorted(module.__all__):
            found, name = getattr(module, key), f"{home}.{key}"
            if inspect.ismodule(found):
                continue
            if inspect.isclass(found):
                yield f"class {name}{parameters(found) if not issubclass(found, Exception | str) else ''}"
                yield from members(name, found)
            else:
                yield f"{name}{parameters(found) if callable(found) else ''}"


def text():
    """The list as a text; numbers of numpy are printed as Python's."""
    return re.sub(r"np\.float64\((.*?)\)", r"\1", "\n".join(lines())) + "\n"


if __name__ == "__main__":
    LIST.write_text(text())
