"""What a tab asks for: inputs by name, each with its bounds, read from text and written as text."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from reshuffle.cli.console import InputError

LONGEST_NAME = 500
"""Characters of the name of a column; what is longer is no name."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


class Field(Protocol):
    """One input. Its value travels as text: in the address, and between browser and server."""

    @property
    def name(self) -> str:
        """In addresses, and as the key of its value."""

    @property
    def label(self) -> str:
        """For people, beside the input and in complaints."""

    @property
    def default(self) -> Any:
        """What it is before anybody touches it."""

    def read(self, text: str) -> Any:
        """The value that a text stands for; what is not allowed raises InputError."""

    def write(self, value: Any) -> str:
        """The text of a value, which `read` takes back to it."""


@dataclass(frozen=True)
class Slider:
    """A number between two bounds, in steps.

    >>> aspect = Slider("aspect", "p / n", 0.1, 4.0, 0.1, 1.5)
    >>> aspect.read("0.30000"), aspect.write(0.3)
    (0.3, '0.3')
    >>> aspect.read("7")
    Traceback (most recent call last):
    ...
    reshuffle.cli.console.InputError: p / n must be a number between 0.1 and 4, but it is 7.
    """

    name: str
    label: str
    low: float
    high: float
    step: float
    default: float
    help: str = ""

    def read(self, text: str) -> float:
        """The number, moved to the nearest step: fifteen digits of it, so that 3 times 0.1 is 0.3."""
        value = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
        if not self.low <= value <= self.high:
            raise InputError(
                f"{self.label} must be a number between {self.low:g} and {self.high:g}, "
                f"but it is {quoted(text)}."
            )
        count = round((value - self.low) / self.step)
        return float(f"{min(self.low + count * self.step, self.high):.12g}")

    def write(self, value: float) -> str:
        """Without needless digits."""
        return f"{value:.12g}"


@dataclass(frozen=True)
class Whole:
    """A whole number between two bounds, on a slider or typed."""

    name: str
    label: str
    low: int
    high: int
    default: int
    help: str = ""
    is_typed: bool = False

    def read(self, text: str) -> int:
        """The number itself; fractions are refused, not rounded."""
        text = text.strip()
        value = int(text) if re.fullmatch(r"[+-]?\d{1,9}", text, re.ASCII) else None
        if value is None or not self.low <= value <= self.high:
            raise InputError(
                f"{self.label} must be a whole number between {self.low} and {self.high}, but it is {quoted(text)}."
            )
        return value

    def write(self, value: int) -> str:
        """Its digits."""
        return str(value)


@dataclass(frozen=True)
class Choice:
    """One of a few values, with words for each."""

    name: str
    label: str
    options: Mapping[str, str]
    default: str
    help: str = ""

    def read(self, text: str) -> str:
        """The value, if it is one of them."""
        if text not in self.options:
            raise InputError(
                f"{self.label} must be one of {', '.join(self.options)}, but it is {quoted(text)}."
            )
        return text

    def write(self, value: str) -> str:
        """As it is."""
        return value


@dataclass(frozen=True)
class Switch:
    """Yes or no."""

    name: str
    label: str
    default: bool
    help: str = ""

    def read(self, text: str) -> bool:
        """Of `yes` and `no`."""
        if text not in ("yes", "no"):
            raise InputError(f"{self.label} must be yes or no, but it is {quoted(text)}.")
        return text == "yes"

    def write(self, value: bool) -> str:
        """In words."""
        return "yes" if value else "no"


@dataclass(frozen=True)
class Text:
    """A text that is typed, in one line or several."""

    name: str
    label: str
    default: str
    longest: int
    help: str = ""
    lines: int = 1

    def read(self, text: str) -> str:
        """The text, if it is not too long and can be printed."""
        if len(text) > self.longest:
            raise InputError(
                f"{self.label} must have at most {self.longest} characters, but it has {len(text)}."
            )
        if not all(sign.isprintable() or sign == "\n" for sign in text):
            raise InputError(f"{self.label} must hold nothing but signs that can be printed.")
        return text.strip()

    def write(self, value: str) -> str:
        """As it is."""
        return value


@dataclass(frozen=True)
class Column:
    """The name of a column of the data, one of those that the server offers; empty for the last of them."""

    name: str
    label: str
    help: str = ""
    default: str = ""

    def read(self, text: str) -> str:
        """Any name: whether there is such a column only the data know."""
        if len(text) > LONGEST_NAME:
            raise InputError(
                f"{self.label} must have at most {LONGEST_NAME} characters, but it has {len(text)}."
            )
        return text

    def write(self, value: str) -> str:
        """As it is."""
        return value


@dataclass(frozen=True)
class Columns:
    """Several columns of the data, a name per line."""

    name: str
    label: str
    help: str = ""
    default: tuple[str, ...] = ()

    def read(self, text: str) -> tuple[str, ...]:
        """The names, each once."""
        names = tuple(dict.fromkeys(line for line in text.split("\n") if line))
        if len(text) > 40 * LONGEST_NAME:
            raise InputError(
                f"{self.label} must have at most {40 * LONGEST_NAME} characters, but it has {len(text)}."
            )
        return names

    def write(self, value: tuple[str, ...]) -> str:
        """A line each."""
        return "\n".join(value)


@dataclass(frozen=True)
class Upload:
    """A file that is sent; its value is the name it has for people, its contents are no part of any address."""

    name: str
    label: str
    help: str = ""
    default: str = ""

    def read(self, text: str) -> str:
        """No value: files do not come back from an address."""
        return ""

    def write(self, value: str) -> str:
        """Nothing."""
        return ""


def read_all(fields: Sequence[Field], texts: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The values of all fields, defaults where nothing is given; and complaints about those that are refused.

    >>> read_all([Switch("sure", "Sure", False)], {"sure": "maybe"})
    ({'sure': False}, ["Sure must be yes or no, but it is 'maybe'."])
    """
    values: dict[str, Any] = {}
    complaints = []
    for field in fields:
        values[field.name] = field.default
        if field.name in texts:
            try:
                values[field.name] = field.read(texts[field.name])
            except InputError as error:
                complaints.append(str(error))
    return values, complaints


def quoted(text: str) -> str:
    """A text as it is quoted in a sentence: its first signs if there are many.

    >>> quoted("7"), quoted("seven"), quoted("x" * 100)[-5:]
    ('7', "'seven'", "x...'")
    """
    if _NUMBER.fullmatch(text):
        return text
    return repr(text if len(text) <= 40 else text[:40] + "...")
