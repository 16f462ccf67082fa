"""The text of an expression as words, numbers and signs, read one after the other."""

import math
import re
from dataclasses import dataclass

Number = int | float | complex
LONGEST = 2000
"""Characters of a formula; what is longer is a mistake or an attack."""
DEEPEST = 40
"""Nested brackets and signs."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?j?)"
    r"|(?P<name>[A-Za-z][A-Za-z0-9_]*)"
    r"|(?P<sign>\*\*|[-+*/^()\[\],=])"
    r"|(?P<end>\Z)|(?P<other>.))",
    re.ASCII | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """One piece of text: its kind (number, name, sign, end or other), itself, and where it starts."""

    kind: str
    text: str
    place: int


class Reader:
    """A position in a text, one token ahead; errors say what was expected, where, and what was found.

    >>> reader = Reader("expression", "x + 2")
    >>> [reader.next().text for _ in range(3)]
    ['x', '+', '2']
    """

    def __init__(self, what: str, text: str):
        self.what, self.text, self.depth = what, text, 0
        if len(text) > LONGEST:
            raise ValueError(f"{what} must have at most {LONGEST} characters, but it has {len(text)}.")
        self._tokens = [
            Token(str(m.lastgroup), m[str(m.lastgroup)], m.start(str(m.lastgroup)))
            for m in _TOKEN.finditer(text)
        ]
        self._at = 0

    @property
    def ahead(self) -> Token:
        """The token that is read next."""
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def next(self) -> Token:
        """Read one token."""
        token = self.ahead
        self._at += 1
        return token

    def takes(self, *signs: str) -> str | None:
        """Read a sign if it is one of these."""
        if self.ahead.kind == "sign" and self.ahead.text in signs:
            return self.next().text
        return None

    def require(self, sign: str) -> None:
        """Read this sign, or fail."""
        if self.takes(sign) is None:
            raise self.error(f'"{sign}"')

    def require_end(self) -> None:
        """Fail unless everything was read."""
        if self.ahead.kind != "end":
            raise self.error("an operator or the end")

    def number(self) -> Number:
        """Read a number: whole, decimal, or imaginary with a j."""
        text = self.next().text
        if text.endswith("j"):
            return complex(0.0, self._finite(text[:-1], text))
        return int(text) if text.isdigit() and len(text) < 16 else self._finite(text, text)

    def _finite(self, digits: str, text: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise ValueError(f"{self.what}: the number {text} is beyond the range of numbers.")
        return value

    def deeper(self) -> None:
        """Count one more level of nesting; the caller counts it down again."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise ValueError(f"{self.what} must not nest deeper than {DEEPEST} brackets and signs.")

    def error(self, expected: str) -> ValueError:
        """Say that something else was expected here."""
        token = self.ahead
        found = "the text ends" if token.kind == "end" else f'there is "{token.text}"'
        return ValueError(
            f"{self.what} {self.text!r}: expected {expected} at position {token.place + 1}, but {found}."
        )
