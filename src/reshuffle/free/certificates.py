"""Proven values of Cauchy transforms off the real axis, with balls for all roundings.

An approximate solution of the matrix equation is the exact one at a base point nearby, the equation has one
solution in the half-plane (Helton, Rashidi Far and Speicher, 2007), and the resolvent moves no faster than its norm
squared (Hoffmann, Mai and Speicher, 2024). A free Poisson variable is a product of two rectangular circular ones,
so that everything is one operator-valued semicircular element. The extra `reshuffle[certified]` installs
python-flint, which has the balls.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reshuffle.free.checks import LARGEST, Complex, ConvergenceError
from reshuffle.free.expression import Expression
from reshuffle.free.laws import Affine, FreePoisson, Law, MarchenkoPastur, Semicircle
from reshuffle.free.linearization import generated
from reshuffle.free.moments import is_polynomial
from reshuffle.free.solver.continuation import follow
from reshuffle.free.solver.system import System

PRECISION = 320
LIFT = 2.0**-180
ROUNDS = 80
MOST_ROWS = 31
"""Rows of a pencil; its Newton steps have the square of that many unknowns."""
_ROUNDING = 1e-15

Entries = dict[tuple[int, int], Any]
"""The entries of a matrix that are not zero, by (row, column), as balls."""


@dataclass(frozen=True)
class Certificate:
    """A number that is proven to be close to ``G(z)``.

    Attributes
    ----------
    z : complex
    value : complex
    radius : float
        ``|G(z) - value| <= radius``, in ball arithmetic, rounding included.
    """

    z: complex
    value: complex
    radius: float

    def __repr__(self) -> str:
        return f"Certificate(G({self.z:.6g}) = {self.value:.15g} within {self.radius:.2g}, proven)"


class Poisson(NamedTuple):
    """A variable that enters by ``rate V* K V``, ``K = (J^-1/jump - V G V*)^-1``, where ``b = V* J V``.

    Each row of V picks one of the ``rows`` of the pencil, and ``inverse`` is ``J^-1/jump``. ``strength`` bounds
    ``|jump J|``, and ``norm`` the factor W with ``W* (jump J) W = b (x) x``.
    """

    rows: tuple[int, ...]
    inverse: Any
    rate: Any
    strength: Any
    norm: Any


class Prover:
    """Proves values of one expression's Cauchy transform, by ``G^-1 = b - sum_j R_j(G)`` for its pencil.

    Parameters
    ----------
    expression : self-adjoint polynomial in semicircular and free Poisson variables.
    """

    def __init__(self, expression: Expression):
        try:
            import flint
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "certificates need python-flint, for balls that hold every rounding: install reshuffle[certified]."
            ) from None
        self.flint = flint
        expression = certifiable(expression)
        laws = expression.family.laws if expression.family else ()
        self.depth = max((len(word) for word in expression.terms), default=0)
        self.semicirculars: list[tuple[Any, Any]] = []
        """Pairs of b and the variance: the variable enters by ``variance b G b``."""
        self.poissons: list[Poisson] = []
        self.norms: list[Any] = []
        with flint.ctx.workprec(PRECISION):
            self.entries, self.size = self._pencil(expression)
            self.constant = self._matrix(self.entries[0])
            for entries, law in zip(self.entries[1:], laws, strict=True):
                self._add(entries, law)
        coefficients = np.array([_middles(self._matrix(entries)) for entries in self.entries])
        self._system = System(coefficients, laws, np.eye(self.size)[0])

    def _add(self, entries: Entries, law: Law) -> None:
        """Add the term of one variable, ``factor x + shift`` for x of a simple kind."""
        arb = self.flint.arb
        factor, shift, coefficient = arb(1), arb(0), self._matrix(entries)
        if isinstance(law, Affine):
            factor, shift, law = arb(law.factor), arb(law.shift), law.base
        if isinstance(law, Semicircle):
            shift = factor * arb(law.mean) + shift
            variance = factor * factor * arb(law.variance)
            self.norms.append(abs(shift) + 2 * variance.sqrt())
            self.semicirculars.append((coefficient, variance))
        elif isinstance(law, FreePoisson | MarchenkoPastur):
            if isinstance(law, FreePoisson):
                rate, jump = arb(law.rate), factor * arb(law.jump)
            else:
                rate, jump = 1 / arb(law.ratio), factor * arb(law.ratio) * arb(law.variance)
            self.norms.append(abs(shift) + abs(jump) * (1 + rate.sqrt()) ** 2)
            if entries:
                self.poissons.append(self._poisson(entries, rate, jump))
        else:
            raise ValueError(
                f"a certificate needs variables with the law Semicircle, MarchenkoPastur or FreePoisson, or affine"
                f" images of these, but one is {law!r}; of other laws there are error estimates, from resolve(t)"
            )
        self.constant = self.constant + coefficient * self.flint.acb(shift)

    def _poisson(self, entries: Entries, rate: Any, jump: Any) -> Poisson:
        """Return the variable's block: two rows of V for each pair of entries, one for each on the diagonal."""
        rows: list[int] = []
        cells: Entries = {}
        strength = self.flint.arb(0)
        for (row, column), value in sorted(entries.items()):
            if row > column or value == 0:
                continue
            number, at = value * self.flint.acb(jump), len(rows)
            strength = strength.max(abs(number))
            rows += [row] if row == column else [row, column]
            # The inverse of [[0, v], [v*, 0]] is [[0, 1/v*], [1/v, 0]].
            cells[len(rows) - 1, at] = 1 / number
            cells[at, len(rows) - 1] = 1 / number if row == column else 1 / number.conjugate()
        inverse = self.flint.acb_mat(len(rows), len(rows))
        for place, number in cells.items():
            inverse[place] = number
        norm = (1 + rate.sqrt()) * self.flint.arb(max(rows.count(row) for row in rows)).sqrt()
        return Poisson(tuple(rows), inverse, rate, strength, norm)

    def _ball(self, value: Any) -> Any:
        """Return a ball that holds a coefficient: a fraction, or a double."""
        if hasattr(value, "numerator") and hasattr(value, "denominator"):
            return self.flint.acb(self.flint.fmpq(int(value.numerator), int(value.denominator)))
        if isinstance(value, float | complex) or (isinstance(value, np.inexact) and value.real.itemsize <= 8):
            return self.flint.acb(float(value.real), float(value.imag))
        raise ValueError(
            "a certificate needs coefficients that are fractions, floats or complex numbers, but one is"
            f" {value!r} of type {type(value).__name__}; take fractions.Fraction for numbers with more digits"
        )

    def _pencil(self, expression: Expression) -> tuple[list[Entries], int]:
        """Return the entries ``[b_0, b_1, ...]`` of a polynomial's pencil, and its number of rows.

        Its states are the ends of the words, each twice: with ``p = a + u (1 - N)^-1 v`` read from the left and
        ``Q = N - 1``, the pencil is ``[[a, u/2, v*], [u*/2, 0, Q*], [v, Q, 0]]``. Of coefficients it has the
        Hermitian part.
        """
        words = sorted(
            {word[i:] for word in expression.terms for i in range(1, len(word))},
            key=lambda w: (len(w), repr(w)),
        )
        states = {word: 1 + i for i, word in enumerate(words)}
        count = len(words)
        size = 1 + 2 * count
        if size > MOST_ROWS:
            raise ValueError(
                f"a certificate takes a pencil of at most {MOST_ROWS} rows, but it has {size} for {expression!r};"
                " it has too many different words"
            )
        laws = expression.family.laws if expression.family else ()
        entries: list[Entries] = [{} for _ in range(1 + len(laws))]

        def put(letters: Any, row: int, column: int, value: Any) -> None:
            own = entries[letters[0].index + 1 if letters else 0]
            for place, number in {(row, column): value, (column, row): value.conjugate()}.items():
                own[place] = own.get(place, 0) + number

        for word, coefficient in expression.terms.items():
            value = self._ball(coefficient)
            if len(word) < 2:
                put(word, 0, 0, self.flint.acb(value.real))
            else:
                put(word, 0, states[word[1:]], value / 2)
        for word, state in states.items():
            put((), count + state, state, self.flint.acb(-1))
            put(word, count + state, states.get(word[1:], 0), self.flint.acb(1))
        return entries, size

    def _matrix(self, entries: Entries) -> Any:
        result = self.flint.acb_mat(self.size, self.size)
        for place, value in entries.items():
            result[place] = value
        return result

    def _balls(self, array: Complex) -> Any:
        return self.flint.acb_mat([[self.flint.acb(v.real, v.imag) for v in row] for row in array])

    def certify(self, z: complex) -> Certificate:
        """Return the certificate at z, with ``Im z != 0``."""
        if z.imag == 0:
            raise ValueError(
                f"z must be off the real axis, but it is {z}; on it there are error estimates, from resolve(t)"
            )
        if abs(z) > LARGEST:
            raise ValueError(f"z must have a size of at most {LARGEST:g}, but it is {z}; beyond, G(z) is 1/z")
        if z.imag < 0:
            mirrored = self.certify(z.conjugate())
            return Certificate(z, mirrored.value.conjugate(), mirrored.radius)
        with self.flint.ctx.workprec(PRECISION):
            try:
                return self._proven(z)
            except (ZeroDivisionError, np.linalg.LinAlgError):
                raise self._refusal(z, "the equation is singular there") from None

    def _refusal(self, z: complex, why: str) -> ConvergenceError:
        return ConvergenceError(f"no certificate at {z}: {why}; take z further from the axis")

    def _proven(self, z: complex) -> Certificate:
        arb = self.flint.arb
        lift = arb(LIFT)
        # z in the corner, less b_0, plus i times the lift everywhere.
        base = -self.constant
        for i in range(self.size):
            base[i, i] = base[i, i] + self.flint.acb(0, lift)
        base[0, 0] = base[0, 0] + self._ball(z)
        g = self._refined(base, self._start(z), lift)
        moved = self._residual(g, base, lift)
        if not (self._is_positive(base + moved) and self._is_positive(-g)):
            raise self._refusal(z, "the solution could not be separated")
        # The Frobenius norm bounds the operator norm.
        squares = sum((abs(entry) ** 2 for entry in moved.entries()), start=arb(0))
        norm = self._inverse_norm(z)
        inside = norm * (arb(squares.upper()).sqrt() + lift)
        if not inside < arb("0.5"):
            raise self._refusal(z, "the bound is too weak")
        value = complex(g[0, 0].mid())
        bound = norm * inside / (1 - inside) + abs(g[0, 0] - self.flint.acb(value.real, value.imag))
        return Certificate(z, value, float(np.nextafter(float(bound.upper()), np.inf)))

    def _start(self, z: complex) -> Complex:
        solved = follow(self._system, np.array([z]), 1)
        if not solved.converged[0]:
            raise self._refusal(z, "the equation could not be solved there")
        return np.asarray(solved.resolvent[0])

    def _refined(self, base: Any, start: Complex, lift: Any) -> Any:
        """Return the solution to many digits: residuals in balls, corrections in double precision."""
        # The derivative of the residual, a matrix over the entries of g.
        inverse = np.linalg.inv(start)
        slope: Any = -1.0 * np.kron(inverse, inverse.T)
        for coefficient, variance in self.semicirculars:
            b = _middles(coefficient)
            slope = slope + float(variance) * np.kron(b, b.T)
        for part in self.poissons:
            pick = np.eye(self.size)[list(part.rows)]
            x = pick.T @ np.linalg.inv(_middles(part.inverse) - pick @ start @ pick.T) @ pick
            slope = slope + float(part.rate) * np.kron(x, x.T)
        factor = np.linalg.inv(slope)
        g, last = self._balls(start), np.inf
        for _ in range(ROUNDS):
            residual = _middles(self._residual(g, base, lift))
            length = float(np.abs(residual).max())
            if not np.isfinite(length) or (length < 1e-60 or length >= last):
                break
            last = length
            # In units of its own size: no number is too small for a double.
            change = -(factor @ (residual / length).ravel()).reshape(start.shape)
            g = g + self._balls(change) * self.flint.acb(self.flint.arb(length).mid())
            g = self.flint.acb_mat(self.size, self.size, [entry.mid() for entry in g.entries()])
        return g

    def _residual(self, g: Any, base: Any, lift: Any) -> Any:
        """Return ``G^-1 + sum_j R_j(G) - b``, by which b would have to be moved for g to be its solution."""
        acb = self.flint.acb
        total = g.inv() - base
        for coefficient, variance in self.semicirculars:
            total = total + coefficient * g * coefficient * acb(variance)
        for part in self.poissons:
            inner = part.inverse - self.flint.acb_mat([[g[i, j] for j in part.rows] for i in part.rows])
            for i in range(len(part.rows)):
                inner[i, i] = inner[i, i] + acb(0, lift)
            kernel = inner.inv()
            for i, row in enumerate(part.rows):
                for j, column in enumerate(part.rows):
                    total[row, column] = total[row, column] + kernel[i, j] * part.rate
        return total

    def _is_positive(self, matrix: Any) -> bool:
        """Return whether ``(A - A*)/2i`` is certainly positive definite: all pivots of its elimination are."""
        imaginary = (matrix - matrix.conjugate().transpose()) * self.flint.acb(0, -0.5)
        rows = imaginary.tolist()
        for k in range(len(rows)):
            pivot = rows[k][k].real
            if not pivot > 0:
                return False
            for i in range(k + 1, len(rows)):
                share = rows[i][k] / pivot
                for j in range(k + 1, len(rows)):
                    rows[i][j] = rows[i][j] - share * rows[k][j]
        return True

    def _inverse_norm(self, z: complex) -> Any:
        """Return a bound on the norm of ``(b - L)^-1`` unfolded, from norms of the variables alone.

        ``T = z E - L`` has ``|T^-1| <= (1 + |L_11^-1| |L_10|)^2/Im z + |L_11^-1|``, where L_11 is made of Q
        and its adjoint, Q is unipotent, and the Poisson factors W are put around it.
        """
        arb = self.flint.arb
        states = (self.size - 1) // 2
        # Sums of absolute values of entries bound norms of every part.
        inner, outer = arb(0), arb(0)
        for slot, entries in enumerate(self.entries):
            norm = arb(1) if slot == 0 else self.norms[slot - 1]
            for (row, column), value in entries.items():
                size = abs(value) * norm
                if row == 0 and column > 0:
                    outer = outer + size
                elif row > states and 0 < column <= states and slot > 0:
                    inner = inner + size
        total, power = arb(0), arb(1)
        for _ in range(max(self.depth, 1)):
            total, power = total + power, power * inner
        pencil = (1 + total * outer) ** 2 / arb(float(z.imag)) + total
        around, strength = arb(1), arb(0)
        for part in self.poissons:
            around, strength = around + part.strength * part.norm, strength.max(part.strength)
        return pencil * around**2 + strength


def _middles(matrix: Any) -> NDArray[Any]:
    return np.array([[complex(entry.mid()) for entry in row] for row in matrix.tolist()])


def certifiable(expression: Expression) -> Expression:
    """Return the expression in its own variables, or refuse what no certificate is known for.

    Coefficients of a word and of its reverse may differ by the rounding of their own computation; what is certified
    is the Hermitian part, ``(p + p*)/2``.
    """
    expression = generated(expression)
    if expression.dimension > 1:
        raise ValueError(
            f"a certificate needs numbers as coefficients, but they are matrices of size {expression.dimension} in"
            f" {expression!r}"
        )
    if not is_polynomial(expression):
        raise ValueError(
            f"a certificate needs a polynomial, but it is the rational expression {expression!r}"
        )
    for word, value in expression.terms.items():
        away = abs(complex(value) - complex(expression.terms.get(word[::-1], 0)).conjugate())
        if away > _ROUNDING * abs(complex(value)):
            raise ValueError(
                f"a certificate needs an expression that is self-adjoint up to rounding, but it is {expression!r},"
                f" in which a word and its reverse differ by {away:.2g}; take (p + p.adjoint())/2"
            )
    return expression
