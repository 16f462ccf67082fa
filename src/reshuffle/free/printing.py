"""How expressions are written: like mathematics, on one line."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import numpy as np


def expression(terms: Mapping[Any, Any]) -> str:
    """Return the sum of the terms, with signs between them."""
    if not terms:
        return "0"
    text = ""
    for word, value in sorted(terms.items(), key=lambda term: len(term[0])):
        sign, size = _split(value)
        letters = _word(word)
        body = letters if size == "1" and letters else " ".join(part for part in (size, letters) if part)
        text += f" {sign} {body}" if text else ("-" if sign == "-" else "") + body
    return text


def _split(value: Any) -> tuple[str, str]:
    if np.ndim(value):
        return "+", "[" + "; ".join(" ".join(number(x) for x in row) for row in value) + "]"
    if complex(value).imag:
        return "+", f"({number(value)})"
    negative = complex(value).real < 0
    return ("-", number(-value)) if negative else ("+", number(value))


def number(value: Any) -> str:
    """Return a coefficient with no more digits than it needs.

    >>> number(0.5), number(1 - 2j), number(1j)
    ('0.5', '1-2i', '1i')
    """
    z = complex(value)
    if not z.imag:
        return f"{z.real:.6g}"
    return f"{z.imag:.6g}i" if not z.real else f"{z.real:.6g}{z.imag:+.6g}i"


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
