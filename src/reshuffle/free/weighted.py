"""Mixed expectations tau(f(p) q): the spectral measure of one expression weighted by another."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reshuffle.free.checks import Complex, ConvergenceError, Real, complex_points, real_points
from reshuffle.free.expression import Expression
from reshuffle.free.solver.atoms import residues
from reshuffle.free.spectrum import Engine, Spectrum, require_invertible


class Weighted:
    """The measure ``f -> tau(f(p) q)`` for any q, real when q is self-adjoint.

    The entry (1, 3) of the inverse of ``[[z - p, -q, 0], [-q*, 0, 1], [0, 1, 0]]`` is ``(z - p)^-1 q``; the
    matrix is self-adjoint for real z, so its own linearization gives ``G_q(z) = tau((z - p)^-1 q)`` like any
    other law. Made by `Spectrum.weighted`.

    Parameters
    ----------
    law : Spectrum
        That of p.
    weight : Expression
        q, of the same variables.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> round(free.spectrum(x + y).mixed(lambda t: t**2, x**2), 9)
    3.0
    """

    def __init__(self, law: "Spectrum", weight: Expression):
        p = law.expression
        if not isinstance(weight, Expression):
            weight = p._coerce(weight)
        if p.dimension > 1 or weight.dimension > 1:
            raise ValueError(
                f"weight and expression must have scalar coefficients, but theirs have sizes"
                f" {weight.dimension} and {p.dimension};"
                " take mixed expectations entry by entry"
            )
        # Raises for two families, whose joint law does not exist.
        p + weight
        require_invertible(weight)
        self.law, self.weight = law, weight
        self._size = Engine((weight + weight.adjoint()) / 2).pencil.factor or 1.0

    @cached_property
    def engine(self) -> Engine:
        """The solver of the extended pencil, into which p and q enter at size one: neither drowns the other."""
        pencil, q = self.law.engine.pencil, self.weight / self._size
        scaled = (self.law.expression - pencil.shift) / pencil.factor
        corner, right = np.zeros((3, 3)), np.zeros((3, 3))
        corner[0, 0], right[0, 1] = 1.0, 1.0
        fixed = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, -1.0, 0.0]])
        extended = corner * scaled + right * q + right.T * q.adjoint() + fixed
        return Engine(extended, direction=np.array([1.0, 0.0, 0.0]))

    def _entries(self, z: Complex) -> tuple[Complex, Complex]:
        """Return ``tau((z - p)^-1 q)`` and ``tau(q* (z - p)^-1)`` at points of any shape."""
        pencil = self.law.engine.pencil
        value = self.engine.resolvent((z.ravel() - pencil.shift) / pencil.factor).value
        unit = self._size / pencil.factor
        return (value[:, 0, 2] * unit).reshape(z.shape), (value[:, 2, 0] * unit).reshape(z.shape)

    def cauchy(self, z: ArrayLike) -> Complex:
        """Return ``tau((z - p)^-1 q)``, with the shape of z; real z means the limit from above."""
        return self._entries(complex_points("z", z))[0]

    def density(self, t: ArrayLike) -> NDArray[Any]:
        """Return the density of the weighted measure, with the shape of t: complex unless q is self-adjoint."""
        right, left = self._entries(real_points("t", t).astype(complex))
        # Below the axis G_q is the conjugate of G_{q*} above it; the jump between them is the density.
        values = (left.conj() - right) / (2j * np.pi)
        return values.real if self._is_real else values

    @cached_property
    def _is_real(self) -> bool:
        return self.weight == self.weight.adjoint()

    @cached_property
    def atoms(self) -> tuple[tuple[float, Any], ...]:
        """Pairs (location, weighted mass) at the atoms of p."""
        places = np.array([place for place, _ in self.law.atoms])
        if not len(places):
            return ()
        limits = residues(self.cauchy, places, self.law.engine.pencil.factor)
        return tuple(
            (float(x), v.real if self._is_real else complex(v)) for x, v in zip(places, limits, strict=True)
        )

    @cached_property
    def _quadrature(self) -> tuple[Real, NDArray[Any]]:
        """Points, and weights that hold the ratio of the two densities at the law's own nodes."""
        x, w = self.law.measure.quadrature
        plain, ours = self.law.density(x), self.density(x)
        if np.isnan(ours).any():
            raise ConvergenceError(
                f"the weighted density did not converge at {x[np.isnan(ours)][0]}; use cauchy off the real axis"
            )
        # Where the density itself vanishes the node has no weight to share.
        return x, np.where(plain > 0, w / np.where(plain > 0, plain, 1.0), 0.0) * ours

    def expectation(self, function: Callable[[Real], Any]) -> Any:
        """Return ``tau(f(p) q)`` for a vectorised ``function`` f."""
        x, w = self._quadrature
        total = np.asarray(function(x)) @ w if len(x) else 0.0
        for place, mass in self.atoms:
            total = total + mass * np.asarray(function(np.array([place])))[0]
        return float(total) if self._is_real and np.isrealobj(total) else complex(total)
