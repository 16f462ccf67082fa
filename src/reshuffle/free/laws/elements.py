"""Elements that are not self-adjoint, each made of free self-adjoint variables."""

from abc import ABC, abstractmethod
from typing import Any, Protocol

from reshuffle.free.checks import size
from reshuffle.free.laws.classical import Semicircle
from reshuffle.free.laws.discrete import Bernoulli
from reshuffle.free.laws.law import Law


class Factor(Protocol):
    """A factor of an element: anything that can be added and multiplied, such as a variable or a matrix."""

    def __add__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...


class Element(ABC):
    """A variable that is not self-adjoint, as an expression of self-adjoint ones; `variables` takes it."""

    @property
    @abstractmethod
    def laws(self) -> tuple[Law, ...]:
        """The laws of the self-adjoint variables that it is made of."""

    @abstractmethod
    def combine(self, *parts: Factor) -> Any:
        """Return the element from these ``parts``, free variables with the laws above, or matrices."""


class Circular(Element):
    """A circular element ``c = s_1 + i s_2``, ``tau(c* c) = variance``: matrices of independent entries.

    >>> from reshuffle import free
    >>> (c,) = free.variables(free.Circular(), names=["c"])
    >>> free.spectrum(c.adjoint() * c).moments(3).round(9)
    array([1., 2., 5.])
    """

    def __init__(self, variance: float = 1.0):
        self.variance = size("variance", variance)

    @property
    def laws(self) -> tuple[Law, ...]:
        """Two semicircles, each with half of the variance."""
        return Semicircle(self.variance / 2), Semicircle(self.variance / 2)

    def combine(self, *parts: Factor) -> Any:
        """Return ``s_1 + i s_2`` from the two ``parts``."""
        return parts[0] + 1j * parts[1]

    def __repr__(self) -> str:
        return f"Circular({self.variance:g})"


class HaarUnitary(Element):
    """A Haar unitary, ``tau(u^n) = 0`` for all n but 0, as the product of two free symmetries.

    >>> from reshuffle import free
    >>> (u,) = free.variables(free.HaarUnitary(), names=["u"])
    >>> free.spectrum(u + u.adjoint()).moments(4).round(9) + 0.0
    array([0., 2., 0., 6.])
    """

    @property
    def laws(self) -> tuple[Law, ...]:
        """Two symmetries of trace zero."""
        return Bernoulli(), Bernoulli()

    def combine(self, *parts: Factor) -> Any:
        """Return the product of the two ``parts``."""
        return parts[0] * parts[1]

    def __repr__(self) -> str:
        return "HaarUnitary()"


class RDiagonal(Element):
    """An R-diagonal element ``u h``: a Haar unitary times a free h, whose law is ``singular``.

    A matrix ``U diag(h) V`` with Haar U and V has this limit. Source: Nica and Speicher (1997).

    >>> from reshuffle import free
    >>> (a,) = free.variables(free.RDiagonal(free.Discrete([1.0, 2.0])), names=["a"])
    >>> free.spectrum(a.adjoint() * a).moments(2).round(9)
    array([2.5, 8.5])
    """

    def __init__(self, singular: Law):
        if not isinstance(singular, Law):
            raise TypeError(f"singular must be a law such as Uniform(0, 1), but it is {singular!r}")
        self.singular = singular

    @property
    def laws(self) -> tuple[Law, ...]:
        """Two symmetries of trace zero, and the law of the singular values."""
        return Bernoulli(), Bernoulli(), self.singular

    def combine(self, *parts: Factor) -> Any:
        """Return the product of the three ``parts``."""
        return parts[0] * parts[1] * parts[2]

    def __repr__(self) -> str:
        return f"RDiagonal({self.singular!r})"
