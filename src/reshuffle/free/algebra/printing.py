"""How expressions are written: like mathematics, on one line."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import numpy as np


def expression(terms: Mapping[Any, Any]) -> str:
    """Return the sum of the terms, with signs between them, and i before a bracket where all have it."""
    if len(terms) > 1 and all(_imaginary(value) for value in terms.values()):
        return f"i ({_sum({word: value / 1j for word, value in terms.items()})})"
    return _sum(terms)


def _sum(terms: Mapping[Any, Any]) -> str:
    if not terms:
        return "0"
    text = ""
    for word, value in sorted(terms.items(), key=lambda term: len(term[0])):
        sign, size = _split(value)
        letters = _word(word)
        body = letters if size == "1" and letters else " ".join(part for part in (size, letters) if part)
        text += f" {sign} {body}" if text else ("-" if sign == "-" else "") + body
    return text


def _imaginary(value: Any) -> bool:
    return not np.ndim(value) and complex(value).real == 0 != complex(value).imag


def _split(value: Any) -> tuple[str, str]:
    """The sign and the size of a coefficient; a complex one that has neither stands in brackets."""
    if np.ndim(value):
        return "+", "[" + "; ".join(" ".join(number(x) for x in row) for row in value) + "]"
    z = complex(value)
    if z.real and z.imag:
        return "+", f"({number(z)})"
    return ("-", number(-z)) if z.real + z.imag < 0 else ("+", number(z))


def number(value: Any) -> str:
    """Return a coefficient with no more digits than it needs.

    >>> number(0.5), number(1 - 2j), number(1j), number(2 - 1j)
    ('0.5', '1-2i', 'i', '2-i')
    """
    z = complex(value)
    if not z.imag:
        return f"{z.real:.6g}"
    size = "" if abs(z.imag) == 1 else f"{abs(z.imag):.6g}"
    if not z.real:
        return f"{'-' if z.imag < 0 else ''}{size}i"
    return f"{z.real:.6g}{'-' if z.imag < 0 else '+'}{size}i"


def _word(word: Any) -> str:
    parts = []
    for letter, run in groupby(word):
        times = len(list(run))
        if hasattr(letter, "of"):
            inside = repr(letter.of)
            base, power = (inside if inside.isidentifier() else f"({inside})"), -times
        else:
            base, power = letter.name, times
        parts.append(base if power == 1 else f"{base}^{power}")
    return " ".join(parts)
