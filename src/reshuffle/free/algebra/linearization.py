"""Linearization: an expression as a Schur complement of a self-adjoint matrix affine in the variables."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.free.algebra.expression import (
    Expression,
    Inverse,
    Letter,
    Variable,
)
from reshuffle.free.algebra.functions import generated
from reshuffle.free.algebra.minimization import minimise
from reshuffle.free.checks import Complex


@dataclass(frozen=True)
class Pencil:
    """A self-adjoint pencil whose Schur complement onto its first block is the expression.

    ``L = b_0 + sum_j b_j (x) x_j/scales_j``, ``L_00 - L_01 L_11^-1 L_10 = (expression - shift)/factor``.

    Attributes
    ----------
    coefficients : (m + 1, size, size)
        Hermitian, ``[b_0, ..., b_m]``.
    corner : int
        The size of the block ``00``, the dimension of the expression's own matrix coefficients.
    scales : (m,)
        What each variable is divided by.
    factor, shift : float
        How the Schur complement is turned into the expression.
    """

    coefficients: Complex
    corner: int
    scales: tuple[float, ...]
    factor: float
    shift: float

    @property
    def size(self) -> int:
        """The number of rows, the first block included."""
        return int(self.coefficients.shape[1])

    @cached_property
    def is_real(self) -> bool:
        """Whether every coefficient is a real matrix."""
        return not np.any(self.coefficients.imag)

    def schur(self, matrices: list[NDArray[Any]]) -> NDArray[Any]:
        """Return the expression at ``matrices`` by eliminating all rows but the first block."""
        size = len(matrices[0])
        total = np.kron(self.coefficients[0], np.eye(size))
        for b, scale, x in zip(self.coefficients[1:], self.scales, matrices, strict=True):
            total = total + np.kron(b, np.asarray(x) / scale)
        cut = self.corner * size
        inner = (
            np.linalg.solve(total[cut:, cut:], total[cut:, :cut])
            if cut < len(total)
            else 0 * total[cut:, :cut]
        )
        return np.asarray(
            self.factor * (total[:cut, :cut] - total[:cut, cut:] @ inner) + self.shift * np.eye(cut)
        )


def linearize(expression: Expression) -> Pencil:
    """Return the minimal self-adjoint pencil of a self-adjoint expression.

    The expression is read from the left, ``p = c + sum over first letters of letter * rest``; each different
    rest is one state, so that products over all orders share the states of their subsets. Then ``(p +
    p*)/2`` is written as a Hermitian pencil of twice the size, and reduced. Sources: Schuetzenberger (1961);
    Helton, Mai and Speicher (2018).

    Parameters
    ----------
    expression : Expression
        Self-adjoint, of variables of one call of `variables`.

    Returns
    -------
    Pencil
        Coefficients that are Hermitian matrices, one corner of whose inverse is the resolvent.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> linearize(x * y + y * x).size
    3
    """
    expression = generated(expression)
    family = expression.family
    laws = family.laws if family else ()
    scales = tuple(law.scale or 1.0 for law in laws)
    shift = expression.constant
    shift = 0.0 if np.ndim(shift) else complex(shift).real
    rest = expression - shift if shift else expression
    builder = _Builder(scales, expression.dimension)
    terms = builder.terms(rest)
    factor = builder.magnitude(terms) or 1.0
    system = builder.system(terms)
    pencil = minimise(_hermitian(system, expression.dimension), expression.dimension)
    return Pencil(_clean(pencil), expression.dimension, scales, factor, shift)


Terms = dict[tuple[int, ...], Any]
"""Words of numbered letters with their coefficients: sums of thousands of words are compared in an instant."""


class _Builder:
    """Collects rows ``coefficient * column`` of states, each normalised to the size of its expression."""

    def __init__(self, scales: tuple[float, ...], dimension: int):
        self.scales = scales
        self.dimension = dimension
        self.letters: dict[Letter, int] = {}
        self.inverted: dict[int, Terms] = {}
        self.sizes: list[float] = []
        self.slots: list[int] = []
        self.states: dict[Any, int] = {}
        self.equations: list[dict[int, Complex]] = []

    def terms(self, expression: Expression) -> Terms:
        """Return the words of an expression with numbers for letters."""
        return {
            tuple([self._number(letter) for letter in word]): value
            for word, value in expression.terms.items()
        }

    def _number(self, letter: Letter) -> int:
        found = self.letters.get(letter)
        if found is not None:
            return found
        if isinstance(letter, Inverse):
            divisor = self.terms(letter.of)
            size, slot = 1 / self.magnitude(divisor), 0
        else:
            assert isinstance(letter, Variable)
            divisor, size, slot = {}, self.scales[letter.index], letter.index + 1
        number = self.letters[letter] = len(self.sizes)
        if divisor:
            self.inverted[number] = divisor
        self.sizes.append(size)
        self.slots.append(slot)
        return number

    def system(self, terms: Terms) -> Complex:
        """Return ``[[a, u], [v, Q]]`` with ``expression/magnitude = a - u Q^-1 v``."""
        first = self._rows(terms, 0)
        d, size = self.dimension, len(self.equations) + 1
        result = np.zeros((len(self.scales) + 1, size * d, size * d), dtype=complex)
        for row, entries in enumerate([first, *self.equations]):
            for column, value in entries.items():
                result[:, row * d : row * d + d, column * d : column * d + d] += value
        return result

    def magnitude(self, terms: Terms) -> float:
        """Return the largest coefficient once every letter is scaled to size one."""
        largest = 0.0
        for word, value in terms.items():
            size = float(np.max(np.abs(value))) if isinstance(value, np.ndarray) else float(abs(value))
            for letter in word:
                size *= self.sizes[letter]
            largest = max(largest, size)
        return largest

    def _rows(self, terms: Terms, column: int) -> dict[int, Complex]:
        """Return the row whose value is ``expression/magnitude`` applied to ``column``."""
        unit = self.magnitude(terms) or 1.0
        entries: dict[int, Complex] = {column: self._entry(terms.get((), 0), 0) / unit}
        for letter, rest in _by_first_letter(terms).items():
            size = self.magnitude(rest)
            weight = size * self.sizes[letter] / unit
            target, factor = self._state(rest, size, column)
            if letter in self.inverted:
                target, factor = self._solve(letter, target, factor), np.eye(self.dimension)
            entries[target] = entries.get(target, 0) + weight * self._entry(factor, self.slots[letter])
        return entries

    def _state(self, rest: Terms, size: float, column: int) -> tuple[int, Any]:
        """Return the column holding ``rest/size`` of ``column``, and the matrix to multiply it by."""
        if set(rest) == {()}:
            return column, np.asarray(rest[()]) / size
        key = (frozenset((word, _rounded(value / size)) for word, value in rest.items()), column)
        if key not in self.states:
            self.states[key] = self._new()
            self._equate(
                self.states[key], self._rows(rest, column), self.states[key], -np.eye(self.dimension)
            )
        return self.states[key], 1.0

    def _solve(self, letter: int, column: int, factor: Any) -> int:
        """Return the state y with ``(divisor/magnitude) y = factor * column``."""
        key = (letter, column, np.asarray(factor).tobytes())
        if key not in self.states:
            self.states[key] = self._new()
            row = self._rows(self.inverted[letter], self.states[key])
            self._equate(self.states[key], row, column, -np.asarray(factor))
        return self.states[key]

    def _new(self) -> int:
        self.equations.append({})
        return len(self.equations)

    def _equate(self, state: int, row: dict[int, Complex], column: int, factor: Any) -> None:
        row[column] = row.get(column, 0) + self._entry(factor, 0)
        self.equations[state - 1] = row

    def _entry(self, value: Any, slot: int) -> Complex:
        result = np.zeros((len(self.scales) + 1, self.dimension, self.dimension), dtype=complex)
        result[slot] = np.asarray(value) if np.ndim(value) == 2 else complex(value) * np.eye(self.dimension)
        return result


def _rounded(value: Any) -> Any:
    """Return a coefficient as a key: multiples of each other are one state, whatever their last bits are."""
    if isinstance(value, np.ndarray):
        return value.shape, (np.round(value, 14) + 0.0).tobytes()
    number = complex(value)
    return round(number.real, 14) + 0.0, round(number.imag, 14) + 0.0


def _by_first_letter(terms: Terms) -> dict[int, Terms]:
    groups: dict[int, Terms] = {}
    for word, value in terms.items():
        if word:
            groups.setdefault(word[0], {})[word[1:]] = value
    return groups


def _hermitian(system: Complex, corner: int) -> Complex:
    """Return the Hermitian pencil of ``(p + p*)/2``: states doubled, ``Q`` off the diagonal."""
    a, u = system[:, :corner, :corner], system[:, :corner, corner:] / np.sqrt(2)
    v, q = system[:, corner:, :corner] / np.sqrt(2), system[:, corner:, corner:]
    adjoint = (0, 2, 1)
    zero = np.zeros_like(q)
    return np.concatenate(
        [
            np.concatenate([(a + a.transpose(adjoint).conj()) / 2, u, v.transpose(adjoint).conj()], axis=2),
            np.concatenate([u.transpose(adjoint).conj(), zero, q.transpose(adjoint).conj()], axis=2),
            np.concatenate([v, q, zero], axis=2),
        ],
        axis=1,
    )


def _clean(pencil: Complex) -> Complex:
    size = np.abs(pencil).max()
    symmetric = (pencil + pencil.transpose(0, 2, 1).conj()) / 2
    # Rounding left by the reduction would otherwise hide that a pencil is real, or a coefficient of low rank.
    real = np.where(np.abs(symmetric.real) < 1e-14 * size, 0.0, symmetric.real)
    imaginary = np.where(np.abs(symmetric.imag) < 1e-14 * size, 0.0, symmetric.imag)
    return np.asarray(real + 1j * imaginary)
