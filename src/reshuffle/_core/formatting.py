"""Numbers as text: a value with its error, to as many digits as the error leaves, and factors."""

import math
from decimal import Context, Decimal

_LEAST, _MOST = Decimal("1e-4"), Decimal("1e6")
"""Sizes from the first to below the second are written without an exponent."""
_DIGITS = 6
"""Significant digits of a value, at most: nobody reads more."""


def significant(value: float, digits: int = _DIGITS) -> str:
    """A number to so many significant digits, without an exponent from 1e-4 to 1e6.

    >>> significant(0.61478912), significant(3001.4, 2), significant(67.31, 2)
    ('0.614789', '3000', '67')
    >>> significant(1e-9), significant(23456789.0), significant(math.inf)
    ('1e-09', '2.34568e+07', 'inf')
    """
    value = float(value)
    if not value or not math.isfinite(value):
        return f"{value if value else abs(value):g}"
    rounded = _rounded(value, digits)
    if not _LEAST <= abs(rounded) < _MOST:
        return f"{value:.{digits}g}"
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def factor(value: float) -> str:
    """How many times as much, to two digits.

    >>> factor(67.31), factor(6.731), factor(67310.0)
    ('x67', 'x6.7', 'x67000')
    """
    return f"x{significant(value, 2)}"


def with_error(value: float, error: float, sign: str = "±") -> str:
    """A value and its error: two significant digits of the error, and the value to the same decimal.

    Without an exponent where the larger of both is from 1e-4 to 1e6, and with one for both elsewhere. An error of
    zero is left out. A value has six significant digits at most; an error below these is written by itself.

    >>> with_error(3001.2, 178.2), with_error(0.48123, 0.0311), with_error(0.61478912, 0.0)
    ('3000 ± 180', '0.481 ± 0.031', '0.614789')
    >>> with_error(3.0012e7, 1.782e6), with_error(1.5e-9, 2e-11, "+-"), with_error(2.5, 30.0)
    ('(3.00 ± 0.18)e+07', '(1.500 +- 0.020)e-09', '2 ± 30')
    >>> with_error(0.61478912, 9.7e-9), with_error(2.5, math.inf)
    ('0.614789 ± 9.7e-09', '2.5 ± inf')
    """
    value, error = float(value), abs(float(error))
    if not error:
        return significant(value)
    apart = f"{significant(value)} {sign} {significant(error, 2)}"
    if not (math.isfinite(value) and math.isfinite(error)):
        return apart
    off = _rounded(error, 2)
    # That of the second digit; 10 has two, although it is one digit longer than the 9.99 that it was rounded from.
    last = off.adjusted() - 1
    if value and Decimal(value).adjusted() - last >= _DIGITS:
        return apart
    pair = [one.quantize(Decimal((0, (1,), last))) for one in (Decimal(value), off)]
    if not pair[0]:
        pair[0] = abs(pair[0])
    largest = max(map(abs, pair))
    if _LEAST <= largest < _MOST:
        return f" {sign} ".join(f"{one:f}" for one in pair)
    power = largest.adjusted()
    mantissas = f" {sign} ".join(f"{one.scaleb(-power):f}" for one in pair)
    return f"({mantissas})e{power:+03d}"


def _rounded(value: float, digits: int) -> Decimal:
    return Context(prec=digits).plus(Decimal(value))
