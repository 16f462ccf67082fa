"""The equation of a certificate: a semicircular system with balls for numbers, and a bound on its inverse."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.free.certified.exact_pencil import Cumulants, ExactPencil


@dataclass(frozen=True)
class Semicircular:
    """A variable that enters by ``variance b G b``."""

    coefficient: Any
    variance: Any


@dataclass(frozen=True)
class Poisson:
    """A variable that enters by ``rate V* K V``, ``K = (J^-1/jump - V G V*)^-1``, where ``b = V* J V``.

    Attributes
    ----------
    rows : which row of the pencil each row of V picks.
    inverse : ``J^-1/jump``, a ball matrix; rate : a ball.
    strength : a bound on ``|jump J|``; norm : a bound on that of the factor W with ``W* (jump J) W = b (x) x``.
    """

    rows: tuple[int, ...]
    inverse: Any
    rate: Any
    strength: Any
    norm: Any


class Unfolded:
    """``G^-1 = b - sum_j R_j(G)`` for a pencil, in ball arithmetic.

    A free Poisson variable is a product of two rectangular circular ones, so that everything is one operator-valued
    semicircular element. Its equation has one solution with ``Im G < 0`` for every b with ``Im b > 0``
    (Helton, Rashidi Far
    and Speicher, 2007).

    Parameters
    ----------
    flint : the module python-flint; pencil : exact; laws : of its variables.
    """

    def __init__(self, flint: Any, pencil: ExactPencil, laws: list[Cumulants]):
        self.flint, self.size = flint, pencil.size
        self.constant = self._matrix(pencil.entries[0])
        self.semicirculars: list[Semicircular] = []
        self.poissons: list[Poisson] = []
        arb = flint.arb
        norms = []
        for entries, law in zip(pencil.entries[1:], laws, strict=True):
            factor, shift = arb(law.factor), arb(law.shift)
            coefficient = self._matrix(entries)
            first, second = (arb(value) for value in law.parameters)
            if law.kind == "semicircle":
                shift = factor * second + shift
                variance = factor * factor * first
                norms.append(abs(shift) + 2 * variance.sqrt())
                self.semicirculars.append(Semicircular(coefficient, variance))
            else:
                rate, jump = (first, second) if law.kind == "poisson" else (1 / first, first * second)
                jump = factor * jump
                norms.append(abs(shift) + abs(jump) * (1 + rate.sqrt()) ** 2)
                if entries:
                    self.poissons.append(self._poisson(entries, rate, jump))
            self.constant = self.constant + coefficient * flint.acb(shift)
        self.norms, self.pencil = norms, pencil

    def _matrix(self, entries: dict[tuple[int, int], Any]) -> Any:
        result = self.flint.acb_mat(self.size, self.size)
        for (row, column), value in entries.items():
            result[row, column] = self.number(value)
        return result

    def number(self, value: Any) -> Any:
        """Return a coefficient, a fraction or a complex double, as a ball that holds it."""
        if isinstance(value, complex | np.complexfloating):
            return self.flint.acb(float(value.real), float(value.imag))
        if hasattr(value, "numerator") and hasattr(value, "denominator"):
            return self.flint.acb(self.flint.fmpq(int(value.numerator), int(value.denominator)))
        return self.flint.acb(float(value))

    def _poisson(self, entries: dict[tuple[int, int], Any], rate: Any, jump: Any) -> Poisson:
        """Return the variable's block: two rows of V for each pair of entries, one for each on the diagonal."""
        pairs = [
            (place, value) for place, value in sorted(entries.items()) if place[0] <= place[1] and value != 0
        ]
        rows: list[int] = []
        for (row, column), _ in pairs:
            rows += [row] if row == column else [row, column]
        inverse = self.flint.acb_mat(len(rows), len(rows))
        strength = self.flint.arb(0)
        at = 0
        for (row, column), value in pairs:
            number = self.number(value) * self.flint.acb(jump)
            strength = strength.max(abs(number))
            if row == column:
                inverse[at, at] = 1 / number
                at += 1
            else:
                # The inverse of [[0, v], [v*, 0]] is [[0, 1/v*], [1/v, 0]].
                inverse[at, at + 1], inverse[at + 1, at] = 1 / number.conjugate(), 1 / number
                at += 2
        repeats = max(rows.count(row) for row in rows)
        norm = (1 + rate.sqrt()) * self.flint.arb(repeats).sqrt()
        return Poisson(tuple(rows), inverse, rate, strength, norm)

    def base(self, z: complex, lift: Any) -> Any:
        """Return ``z`` in the corner, less ``b_0``, plus i times the lift everywhere."""
        result = -self.constant
        for i in range(self.size):
            result[i, i] = result[i, i] + self.flint.acb(0, lift)
        result[0, 0] = result[0, 0] + self.number(complex(z))
        return result

    def kernels(self, g: Any, lift: Any) -> list[Any]:
        """Return the blocks K of the Poisson variables, lifted by i times the same."""
        found = []
        for part in self.poissons:
            inner = part.inverse - self._picked(g, part.rows)
            for i in range(len(part.rows)):
                inner[i, i] = inner[i, i] + self.flint.acb(0, lift)
            found.append(inner.inv())
        return found

    def _picked(self, g: Any, rows: tuple[int, ...]) -> Any:
        return self.flint.acb_mat([[g[i, j] for j in rows] for i in rows])

    def residual(self, g: Any, z: complex, lift: Any) -> Any:
        """Return ``G^-1 + sum_j R_j(G) - b``, by which b would have to be moved for g to be its solution."""
        total = g.inv() - self.base(z, lift)
        for term in self.semicirculars:
            total = total + term.coefficient * g * term.coefficient * self.flint.acb(term.variance)
        for part, kernel in zip(self.poissons, self.kernels(g, lift), strict=True):
            for i, row in enumerate(part.rows):
                for j, column in enumerate(part.rows):
                    total[row, column] = total[row, column] + kernel[i, j] * part.rate
        return total

    def slope(self, g: NDArray[Any]) -> NDArray[Any]:
        """Return the derivative of the residual in double precision, a matrix over the entries of g."""
        inverse = np.linalg.inv(g)
        total: Any = -1.0 * np.kron(inverse, inverse.T)
        for term in self.semicirculars:
            b = as_array(term.coefficient)
            total = total + float(term.variance) * np.kron(b, b.T)
        for part in self.poissons:
            pick = np.eye(self.size)[list(part.rows)]
            kernel = np.linalg.inv(as_array(part.inverse) - pick @ g @ pick.T)
            x = pick.T @ kernel @ pick
            total = total + float(part.rate) * np.kron(x, x.T)
        return np.asarray(total)

    def inverse_norm(self, z: complex) -> Any:
        """Return a bound on the norm of ``(b - L)^-1`` unfolded, from norms of the variables alone.

        ``T = z E - L`` has ``|T^-1| <= (1 + |L_11^-1| |L_10|)^2/Im z + |L_11^-1|``, where L_11 is made of Q
        and its adjoint, Q is unipotent, and the Poisson factors W are put around it.
        """
        arb = self.flint.arb
        states = (self.size - 1) // 2
        # Sums of absolute values of entries bound norms of every part.
        inner, outer = arb(0), arb(0)
        for slot, entries in enumerate(self.pencil.entries):
            norm = arb(1) if slot == 0 else self.norms[slot - 1]
            for (row, column), value in entries.items():
                size = abs(self.number(value)) * norm
                if row == 0 and column > 0:
                    outer = outer + size
                elif row > states and 0 < column <= states and slot > 0:
                    inner = inner + size
        total, power = arb(0), arb(1)
        for _ in range(max(self.pencil.depth, 1)):
            total, power = total + power, power * inner
        pencil = (1 + total * outer) ** 2 / arb(float(z.imag)) + total
        around, strength = arb(1), arb(0)
        for part in self.poissons:
            around, strength = around + part.strength * part.norm, strength.max(part.strength)
        return pencil * around**2 + strength


def as_array(matrix: Any) -> NDArray[Any]:
    """Return the middles of a ball matrix, in double precision."""
    return np.array(
        [[complex(matrix[i, j].mid()) for j in range(matrix.ncols())] for i in range(matrix.nrows())]
    )
