"""Expressions and laws from text, such as `x + y - (x*y + y*x)/2` and `x=mp(0.5, 0.2)`.

A grammar of its own: nothing of the text is ever handed to Python, so it can reach nothing but these laws.
`Reader` splits the text into words, numbers and signs; the rest of the file gives them their meaning.
"""

import inspect
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reshuffle.free import laws
from reshuffle.free.expression import Expression, variables
from reshuffle.free.functions import sqrt
from reshuffle.free.laws import Law

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

_MOST_TERMS = 2000
_LARGEST_EXPONENT = 16


LAWS: dict[str, type[Law]] = {
    "affine": laws.Affine,
    "arcsine": laws.Arcsine,
    "bernoulli": laws.Bernoulli,
    "discrete": laws.Discrete,
    "free_poisson": laws.FreePoisson,
    "freepoisson": laws.FreePoisson,
    "kesten": laws.KestenMcKay,
    "kesten_mckay": laws.KestenMcKay,
    "kestenmckay": laws.KestenMcKay,
    "marchenko_pastur": laws.MarchenkoPastur,
    "marchenkopastur": laws.MarchenkoPastur,
    "mp": laws.MarchenkoPastur,
    "poisson": laws.FreePoisson,
    "projection": laws.Projection,
    "sc": laws.Semicircle,
    "semicircle": laws.Semicircle,
    "uniform": laws.Uniform,
    "wachter": laws.Wachter,
}
"""Every law that numbers describe, by its names in lower case."""


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


def parse(text: str, definitions: Sequence[str]) -> Expression:
    """Read an expression of variables whose laws are given as `name=law(numbers)`.

    >>> parse("x + y - (x*y + y*x)/2", ["x=mp(0.5, 0.2)", "y=mp(0.5, 0.2)"])
    x + y - 0.5 x y - 0.5 y x
    >>> parse("sqrt(x)*y*sqrt(x)", ["x=mp(1)", "y=mp(1)"])
    sqrt(x) y sqrt(x)
    >>> parse("x + _y", ["x=sc()"])
    Traceback (most recent call last):
    ...
    ValueError: expression 'x + _y': expected a variable, a number or "(" at position 5, but there is "_".
    """
    given = dict(parse_definition(definition) for definition in definitions)
    if len(given) < len(definitions):
        raise ValueError(
            f"every variable must have one law, but {list(definitions)} define one of them twice."
        )
    if not given:
        raise ValueError('an expression needs the law of every variable in it, such as "x=mp(0.5, 0.2)".')
    family = dict(zip(given, variables(*given.values(), names=list(given)), strict=True))
    result = _Expressions(Reader("expression", text), family).whole()
    if not isinstance(result, Expression):
        raise ValueError(f"expression {text!r} must have a variable in it, but it is the number {result}.")
    return result


def parse_definition(text: str) -> tuple[str, Law]:
    """Read `name=law(numbers)`.

    >>> parse_definition("x = MarchenkoPastur(ratio=0.5, variance=0.2)")
    ('x', MarchenkoPastur(ratio=0.5, variance=0.2))
    """
    reader = Reader("law", text)
    if reader.ahead.kind != "name":
        raise reader.error("the name of a variable")
    name = reader.next().text
    reader.require("=")
    law = _law(reader)
    reader.require_end()
    return name, law


def parse_law(text: str) -> Law:
    """Read `law(numbers)`.

    >>> parse_law("discrete([0, 1], [0.25, 0.75])").atoms
    ((0.0, 0.25), (1.0, 0.75))
    """
    reader = Reader("law", text)
    law = _law(reader)
    reader.require_end()
    return law


def _law(reader: Reader) -> Law:
    if reader.ahead.kind != "name" or reader.ahead.text.lower() not in LAWS:
        raise reader.error(f"a law ({', '.join(sorted(LAWS))})")
    name = reader.next().text
    kind = LAWS[name.lower()]
    positional: list[Any] = []
    named: dict[str, Any] = {}
    reader.require("(")
    reader.deeper()
    while not reader.takes(")"):
        if positional or named:
            reader.require(",")
        if reader.ahead.kind == "name" and reader.ahead.text.lower() not in LAWS:
            if reader.ahead.text in named:
                raise reader.error("an argument that is not given yet")
            key = reader.next().text
            reader.require("=")
            named[key] = _value(reader)
        elif named:
            raise reader.error("another argument by name")
        else:
            positional.append(_value(reader))
    reader.depth -= 1
    try:
        inspect.signature(kind).bind(*positional, **named)
    except TypeError as error:
        raise ValueError(f"law {reader.text!r}: {name}{inspect.signature(kind)}: {error}.") from None
    return kind(*positional, **named)


def _value(reader: Reader) -> Any:
    """A number, a list of numbers or a law."""
    if reader.takes("["):
        entries: list[Number] = []
        while not reader.takes("]"):
            if entries:
                reader.require(",")
            entries.append(_signed(reader))
        return entries
    return _law(reader) if reader.ahead.kind == "name" else _signed(reader)


def _signed(reader: Reader) -> Number:
    sign = -1 if reader.takes("-") else 1
    if reader.ahead.kind != "number":
        raise reader.error("a number")
    return sign * reader.number()


class _Expressions:
    """Recursive descent: sums of products of signed powers of atoms."""

    def __init__(self, reader: Reader, family: Mapping[str, Expression]):
        self.reader, self.family = reader, family

    def whole(self) -> Any:
        value = self._sum()
        self.reader.require_end()
        return value

    def _sum(self) -> Any:
        value = self._product()
        while sign := self.reader.takes("+", "-"):
            right = self._product()
            value = value + right if sign == "+" else value - right
        return value

    def _product(self) -> Any:
        value = self._factor()
        while sign := self.reader.takes("*", "/"):
            right = self._factor()
            value = self._times(value, right) if sign == "*" else self._over(value, right)
        return value

    def _factor(self) -> Any:
        self.reader.deeper()
        try:
            if sign := self.reader.takes("+", "-"):
                value = self._factor()
                return value if sign == "+" else -value
            return self._power()
        finally:
            self.reader.depth -= 1

    def _power(self) -> Any:
        base = self._atom()
        if not self.reader.takes("**", "^"):
            return base
        exponent = _signed(self.reader)
        if not isinstance(exponent, int) or abs(exponent) > _LARGEST_EXPONENT:
            raise ValueError(
                f"expression {self.reader.text!r}: exponents must be whole numbers between "
                f"-{_LARGEST_EXPONENT} and {_LARGEST_EXPONENT}, but one is {exponent}."
            )
        value: Any = 1
        for _ in range(abs(exponent)):
            value = self._times(value, base)
        return value if exponent >= 0 else self._over(1, value)

    def _atom(self) -> Any:
        reader = self.reader
        if reader.takes("("):
            value = self._sum()
            reader.require(")")
            return value
        if reader.ahead.kind == "number":
            return reader.number()
        if reader.ahead.kind != "name":
            raise reader.error('a variable, a number or "("')
        if reader.ahead.text == "sqrt" and "sqrt" not in self.family:
            return self._root()
        if reader.ahead.text not in self.family:
            raise reader.error(f"one of the variables {', '.join(self.family)}")
        return self.family[reader.next().text]

    def _root(self) -> Any:
        self.reader.next()
        self.reader.require("(")
        value = self._sum()
        self.reader.require(")")
        if isinstance(value, Expression):
            return sqrt(value)
        if isinstance(value, complex) or value < 0:
            raise ValueError(
                f"expression {self.reader.text!r}: sqrt needs a variable or a number >= 0, but it has {value}."
            )
        return math.sqrt(value)

    def _times(self, left: Any, right: Any) -> Any:
        if isinstance(left, Expression) and isinstance(right, Expression):
            count = len(left.terms) * len(right.terms)
            if count > _MOST_TERMS:
                raise ValueError(
                    f"expression {self.reader.text!r} must multiply out to at most {_MOST_TERMS} terms, "
                    f"but a product in it has {count}."
                )
        return self._finite(left * right)

    def _over(self, left: Any, right: Any) -> Any:
        try:
            return self._finite(left / right)
        except ZeroDivisionError:
            raise ValueError(f"expression {self.reader.text!r} divides by 0.") from None

    def _finite(self, value: Any) -> Any:
        if not isinstance(value, Expression) and abs(value) > 1e150:
            raise ValueError(f"expression {self.reader.text!r} holds a number beyond 1e150.")
        return value
