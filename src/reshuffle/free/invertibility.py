"""Refuse to divide by expressions that have 0 in their spectrum."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from reshuffle.free.expression import Expression, Inverse

if TYPE_CHECKING:
    from reshuffle.free.spectrum import Spectrum


def require(expression: Expression, spectrum: Callable[[Expression], "Spectrum"]) -> None:
    """Raise unless every divisor in the expression is bounded away from 0.

    A self-adjoint divisor must not have 0 in its spectrum; for any other d the same is asked of ``d* d``.
    """
    for letter in {letter for word in expression.terms for letter in word if isinstance(letter, Inverse)}:
        divisor = letter.of
        law = spectrum(divisor if divisor == divisor.adjoint() else divisor.adjoint() * divisor)
        tolerance = 1e-9 * max(abs(end) for pair in _spectrum(law) for end in pair)
        for low, high in _spectrum(law):
            if low <= tolerance and high >= -tolerance:
                raise ZeroDivisionError(
                    f"division by {divisor!r}: the divisor must be invertible, got 0 in the"
                    f" part [{low:.6g}, {high:.6g}]"
                    " of its spectrum (or of its squared modulus); add a constant that"
                    " moves the spectrum off 0"
                )


def _spectrum(law: "Spectrum") -> list[tuple[float, float]]:
    return [*law.support, *((place, place) for place, _ in law.atoms)]
