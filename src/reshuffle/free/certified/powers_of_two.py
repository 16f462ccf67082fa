"""Numbers times powers of two, exactly or not at all."""

import math
from fractions import Fraction

from reshuffle.free.checks import ConvergenceError


def log2(value: Fraction | complex) -> float:
    """Return the logarithm of a coefficient's size, also where the size itself is no double.

    >>> log2(Fraction(1, 2**2000))
    -2000.0
    """
    if isinstance(value, Fraction):
        return math.log2(abs(value.numerator)) - math.log2(value.denominator)
    return math.log2(abs(value))


def scaled(value: Fraction | complex, exponent: int) -> Fraction | complex:
    """Return ``value 2^exponent``, exactly."""
    if isinstance(value, Fraction):
        return value * Fraction(2) ** exponent
    return complex(scaled_float(value.real, exponent), scaled_float(value.imag, exponent))


def scaled_float(value: float, exponent: int) -> float:
    """Return ``value 2^exponent``, or refuse what is then no double any more.

    >>> scaled_float(3.0, -1)
    1.5
    """
    try:
        moved = math.ldexp(value, exponent)
    except OverflowError:
        moved = math.inf
    if math.isinf(moved) or math.ldexp(moved, -exponent) != value:
        raise ConvergenceError(
            f"no certificate: {value!r} is too far from the size of the expression, 2^{-exponent}, to be a number"
            " beside it; take z closer to that size, or coefficients closer to each other"
        )
    return moved
