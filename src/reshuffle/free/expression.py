"""Non-commutative polynomials and rational expressions of free self-adjoint variables.

Their coefficients are numbers, or square matrices, next to which a number is a multiple of the identity. They print
like mathematics, on one line, and are evaluated at matrices by Horner's rule: the words that follow a letter are
summed once.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from numbers import Number
from typing import Any, NamedTuple, TypeVar, Union

import numpy as np
from numpy.typing import NDArray

from reshuffle.free.checks import Real, count, is_whole
from reshuffle.free.laws import Law, Pushforward
from reshuffle.free.laws.elements import Element

Coefficient = Any
"""A number, or a square matrix of numbers."""

MANTISSA = 2.0**46
"""Coefficients that differ by less than a rounding or two count as one, so that sums of words are recognised."""


@dataclass(frozen=True, eq=False)
class Family:
    """Variables that are free from each other; two families have no joint law."""

    laws: tuple[Law, ...]
    names: tuple[str, ...]
    derived: dict[Any, "Family"] = field(default_factory=dict, repr=False)
    """Families of functions of these variables, by which functions they are of."""


class Variable(NamedTuple):
    """The letter of one variable: its family and its place in it.

    A tuple, since words of many letters are hashed by the hundred thousand.
    """

    family: Family
    index: int  # type: ignore[assignment]

    @property
    def name(self) -> str:
        """The name it is printed with."""
        return self.family.names[self.index]


@dataclass(frozen=True)
class Inverse:
    """The letter ``of^-1``."""

    of: "Expression"


@dataclass(frozen=True)
class Image:
    """The letter ``function(variable)``, for a real function of one variable."""

    variable: Variable
    function: Callable[[Any], Any]
    label: str

    @property
    def name(self) -> str:
        """The name it is printed with."""
        return f"{self.label}({self.variable.name})"


Letter = Variable | Inverse | Image
Word = tuple[Letter, ...]
Operand = Union["Expression", Number, NDArray[Any], float, complex]


class Expression:
    """A sum of ``coefficient * word``; words are products of variables and inverses of expressions.

    Made by `variables` and by arithmetic: ``+ - * /``, powers (negative ones invert), ``adjoint``.
    Coefficients are numbers, or square matrices ``A`` for ``A (x) word``; numbers of any exact type are
    not converted. `terms` are the words with their coefficients, `family` the variables they are made of.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> x + y - (x * y + y * x) / 2
    x1 + x2 - 0.5 x1 x2 - 0.5 x2 x1
    >>> (1 + x**2) ** -1 * y
    (1 + x1^2)^-1 x2
    """

    # numpy must hand A * x to this class instead of multiplying entry by entry.
    __array_ufunc__ = None

    def __init__(self, terms: Mapping[Word, Coefficient], family: Family | None):
        self.terms = {w: c for w, c in terms.items() if (np.any(c) if is_matrix(c) else c != 0)}
        self.family = family

    @cached_property
    def dimension(self) -> int:
        """The size of its matrix coefficients; 1 when all are numbers."""
        sizes = {np.shape(value)[0] for value in self.terms.values() if is_matrix(value)}
        inner = {letter.of.dimension for word in self.terms for letter in word if isinstance(letter, Inverse)}
        sizes |= inner - {1}
        if len(sizes) > 1:
            raise ValueError(
                f"matrix coefficients must all have one size, but theirs are {sorted(sizes)}; pad or split them"
            )
        return sizes.pop() if sizes else 1

    @property
    def constant(self) -> Coefficient:
        """The coefficient of the empty word."""
        return self.terms.get((), 0)

    @cached_property
    def key(self) -> frozenset[Any]:
        """The hashable form that equality compares."""
        numbers = {
            word: (value.shape, np.asarray(value, dtype=complex).tobytes()) if np.ndim(value) else value
            for word, value in self.terms.items()
        }
        return frozenset(numbers.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __add__(self, other: Operand) -> "Expression":
        right = self._coerce(other)
        terms = dict(self.terms)
        for word, value in right.terms.items():
            terms[word] = added(terms[word], value) if word in terms else value
        return Expression(terms, _common(self, right))

    __radd__ = __add__

    def __neg__(self) -> "Expression":
        return Expression({word: -value for word, value in self.terms.items()}, self.family)

    def __sub__(self, other: Operand) -> "Expression":
        return self + -self._coerce(other)

    def __rsub__(self, other: Operand) -> "Expression":
        return -self + other

    def __mul__(self, other: Operand) -> "Expression":
        right = self._coerce(other)
        terms: dict[Word, Coefficient] = {}
        for left_word, left in self.terms.items():
            for right_word, value in right.terms.items():
                word = left_word + right_word
                product = multiplied(left, value)
                terms[word] = added(terms[word], product) if word in terms else product
        return Expression(terms, _common(self, right))

    def __rmul__(self, other: Operand) -> "Expression":
        return self._coerce(other) * self

    def __truediv__(self, other: Operand) -> "Expression":
        if isinstance(other, Expression):
            return self * other.inverse()
        self._coerce(other)  # Refuses what is neither a finite number nor a square matrix.
        if np.asarray(other).ndim:
            matrix = np.asarray(other)
            if np.linalg.matrix_rank(matrix) < len(matrix):
                raise ZeroDivisionError(
                    f"division by a matrix: it must be invertible, but it is {matrix.tolist()}"
                )
            return self * np.linalg.inv(matrix)
        if other == 0:
            raise ZeroDivisionError(
                "division by 0: the divisor must be an invertible expression, but it is 0"
            )
        return Expression({word: value / other for word, value in self.terms.items()}, self.family)

    def __rtruediv__(self, other: Operand) -> "Expression":
        return self._coerce(other) * self.inverse()

    def __pow__(self, exponent: int) -> "Expression":
        if not is_whole(exponent):
            raise ValueError(
                f"exponent must be an integer, but it is {exponent!r}; roots are not rational expressions"
            )
        if exponent < 0:
            return self.inverse() ** -exponent
        result = Expression({(): 1}, self.family)
        for _ in range(count("exponent", exponent, low=0)):
            result = result * self
        return result

    def inverse(self) -> "Expression":
        """Return the inverse, as a rational expression; `spectrum` checks that it exists."""
        if not self.terms:
            raise ZeroDivisionError(
                "division by 0: the divisor must be an invertible expression, but it is 0"
            )
        if set(self.terms) == {()}:
            value = self.constant
            return Expression({(): np.linalg.inv(value) if np.ndim(value) else 1 / value}, self.family)
        (word, value), *others = self.terms.items()
        if not others and not np.ndim(value) and len(word) == 1 and isinstance(word[0], Inverse):
            scaled: Expression = word[0].of / value
            return scaled
        return Expression({(Inverse(self),): 1}, self.family)

    def adjoint(self) -> "Expression":
        """Return the adjoint: words reversed, coefficients conjugated, variables unchanged."""
        terms: dict[Word, Coefficient] = {}
        for word, value in self.terms.items():
            mirrored = [Inverse(x.of.adjoint()) if isinstance(x, Inverse) else x for x in reversed(word)]
            terms[tuple(mirrored)] = np.conj(value).T if is_matrix(value) else value.conjugate()
        return Expression(terms, self.family)

    def evaluate(self, matrices: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the expression at square matrices, one per variable of the family.

        A coefficient A acts as ``A (x) word``, so the answer has ``dimension`` times their size.
        """
        values: dict[Letter, NDArray[Any]] = {}
        for letter in self._plan.letters:
            size = 1
            if isinstance(letter, Variable):
                value = matrices[letter.index]
            elif isinstance(letter, Image):
                eigenvalues, basis = np.linalg.eigh(matrices[letter.variable.index])
                value = (basis * letter.function(eigenvalues)) @ basis.conj().T
            else:
                value, size = np.linalg.inv(letter.of.evaluate(matrices)), letter.of.dimension
            values[letter] = value if size == self.dimension else np.kron(np.eye(self.dimension), value)
        return self._plan.at(values, self.dimension * len(matrices[0]))

    @cached_property
    def _plan(self) -> "Horner":
        return Horner(self.terms)

    def _coerce(self, other: Operand) -> "Expression":
        if isinstance(other, Expression):
            return other
        value = other
        if np.asarray(value).ndim:
            value = np.asarray(value)
            if value.ndim != 2 or value.shape[0] != value.shape[1]:
                raise ValueError(
                    f"a matrix coefficient must be square, but its shape is {value.shape}; pad it with zeros"
                )
        elif not isinstance(value, Number):
            raise TypeError(
                f"coefficient must be a number, a square matrix or an expression, but it is {other!r}"
            )
        if not np.all(np.isfinite(np.asarray(value, dtype=complex))):
            raise ValueError(
                f"coefficient must be finite, but it is {other!r}; check the formula that made it"
            )
        return Expression({(): value}, self.family)

    def __repr__(self) -> str:
        terms = self.terms
        # Where all have it, i goes before a bracket.
        imaginary = [not is_matrix(value) and complex(value).real == 0 for value in terms.values()]
        if len(terms) > 1 and all(imaginary):
            return f"i ({Expression({word: value / 1j for word, value in terms.items()}, None)!r})"
        text = ""
        for word, value in sorted(terms.items(), key=lambda term: len(term[0])):
            sign, size = _printed(value)
            parts = [] if size == "1" and word else [size]
            for letter, run in groupby(word):
                times = len(list(run))
                if isinstance(letter, Inverse):
                    inside = repr(letter.of)
                    base, times = (inside if inside.isidentifier() else f"({inside})"), -times
                else:
                    base = letter.name
                parts.append(base if times == 1 else f"{base}^{times}")
            body = " ".join(parts)
            text += f" {sign} {body}" if text else ("-" if sign == "-" else "") + body
        return text or "0"


def variables(*laws: Law | Element, names: Sequence[str] | None = None) -> tuple[Expression, ...]:
    """Return free variables, one for each law: self-adjoint ones, and elements that are not.

    Parameters
    ----------
    *laws : Law, Spectrum, Circular, HaarUnitary or RDiagonal
        One per variable.
    names : list of str, optional
        Their printed names, ``x1, x2, ...`` by default.

    Returns
    -------
    tuple of Expression
        As many as there are laws, free from each other.

    >>> from reshuffle import free
    >>> free.variables(free.Semicircle(), free.Projection(0.5), names=["s", "p"])
    (s, p)
    """
    if not laws:
        raise TypeError("variables needs at least one law, but there is none; pass laws such as Semicircle()")
    for law in laws:
        if not isinstance(law, Law | Element):
            raise TypeError(
                f"variables needs laws such as Semicircle(), but one is {law!r}; wrap points in Discrete(points)"
            )
    chosen = tuple(names) if names is not None else tuple(f"x{i + 1}" for i in range(len(laws)))
    if len(chosen) != len(laws) or len(set(chosen)) != len(chosen):
        raise ValueError(
            f"names must be {len(laws)} different names, but they are {chosen!r}; pass one for each law"
        )
    # One that is not self-adjoint is an expression of letters that are.
    parts: list[Law] = []
    letters: list[str] = []
    for law, name in zip(laws, chosen, strict=True):
        own = [law] if isinstance(law, Law) else law.laws
        parts += own
        letters += [name] if isinstance(law, Law) else [f"{name}_{k + 1}" for k in range(len(own))]
    family = Family(tuple(parts), tuple(letters))
    made = iter([Expression({(Variable(family, i),): 1}, family) for i in range(len(parts))])
    return tuple(
        next(made) if isinstance(law, Law) else law.combine(*itertools.islice(made, len(law.laws)))
        for law in laws
    )


def block(rows: Sequence[Sequence[Operand]]) -> Expression:
    """Return the square matrix of expressions ``sum_ij E_ij (x) rows[i][j]``.

    Parameters
    ----------
    rows : list of lists of expressions or numbers
        As many rows as columns.

    Returns
    -------
    Expression
        Its law is that of the trace ``tr (x) tau``.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> free.block([[x, y], [y, 0]]).dimension
    2
    """
    size = len(rows)
    if any(len(row) != size for row in rows):
        raise ValueError(
            f"rows must form a square array, but their lengths are {[len(row) for row in rows]}; pad with zeros"
        )
    total = Expression({(): np.zeros((size, size))}, None)
    units = np.eye(size**2).reshape(size**2, size, size)
    for unit, entry in zip(units, itertools.chain(*rows), strict=True):
        total = total + total._coerce(unit) * entry
    return total


Operator = TypeVar("Operator", Law, Expression)


def sqrt(x: Operator) -> Operator:
    """Return the square root s of a positive variable, ``s * s = x``, or the law of the root from that of x.

    A variable and its root may meet in one expression: it is then one in the root alone.

    Parameters
    ----------
    x : Expression or Law
        A variable of a law on x >= 0, or such a law.

    Returns
    -------
    Expression or Law
        As x is one.

    >>> from reshuffle import free
    >>> law = free.MarchenkoPastur(1.0)
    >>> w1, w2 = free.variables(law, law)
    >>> free.spectrum(free.sqrt(w1) * w2 * free.sqrt(w1)).moments(3).round(9)
    array([ 1.,  3., 12.])
    """
    law = x if isinstance(x, Law) else _single(x, "sqrt")[1]
    low = law.hull[0]
    if low < 0:
        raise ValueError(
            f"sqrt needs a law on x >= 0, but it is given {law!r}, which reaches down to {low:g}; take sqrt of its"
            f" square, or apply(f, x)"
        )
    return root_law(law) if isinstance(x, Law) else _image(x, np.sqrt, "sqrt")


def apply(
    function: Callable[[Real], Any], x: Operator, *, derivative: Callable[[Real], Any] | None = None
) -> Operator:
    """Return f(x) for a real function f of one variable, or the law of f(x) from that of x.

    f is cut into pieces on which it increases, decreases or is constant; where it is constant the law has an atom.

    Parameters
    ----------
    function : callable
        f, vectorised, and continuous on the spectrum.
    x : Expression or Law
        A variable, or a law: that of an expression too, with ``spectrum(p)``.
    derivative : callable, optional
        f', for laws; by a complex step or by differences unless given.

    Returns
    -------
    Expression or Law
        As x is one. In an expression f(x) may not meet x itself, nor another function of it.

    >>> from reshuffle import free
    >>> rectified = free.apply(lambda t: np.maximum(t, 0.0), free.Semicircle())
    >>> [(place, round(mass, 12)) for place, mass in rectified.atoms], rectified.support
    ([(0.0, 0.5)], ((0.0, 2.0),))
    """
    if isinstance(x, Law):
        return Pushforward(x, function, derivative=derivative)
    return _image(x, function, getattr(function, "__name__", "f").strip("<>"))


def root_law(law: Law) -> Law:
    """Return the law of the square root of a positive variable."""
    return Pushforward(law, np.sqrt, inverse=np.square, derivative=lambda x: 0.5 / np.sqrt(x), name="sqrt")


def _single(x: Any, name: str) -> tuple[Variable, Law]:
    """Return the one variable that x is, and its law."""
    if isinstance(x, Expression) and len(x.terms) == 1:
        ((word, value),) = x.terms.items()
        if len(word) == 1 and isinstance(word[0], Variable) and not np.ndim(value) and value == 1:
            return word[0], word[0].family.laws[word[0].index]
    raise ValueError(
        f"{name} needs one variable or a law, but it is given {x!r}; of an expression p there is the law"
        f" {name}(spectrum(p)), of a variable that is free from all others"
    )


def _image(x: Expression, function: Callable[[Any], Any], label: str) -> Expression:
    return Expression({(Image(_single(x, label)[0], function, label),): 1}, x.family)


def _common(left: Expression, right: Expression) -> Family | None:
    if left.family is not None and right.family is not None and left.family is not right.family:
        raise ValueError(
            f"an expression must use variables of one family, but these are of two: {left!r} and {right!r}"
            f" from two calls of variables; make all variables in one call: x, y = variables(law_1, law_2)"
        )
    return left.family or right.family


def _printed(value: Any) -> tuple[str, str]:
    """Return the sign and the size of a coefficient; a complex one goes into brackets."""
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
    real = f"{z.real:.6g}" if z.real or not z.imag else ""
    if not z.imag:
        return real
    sign = "-" if z.imag < 0 else "+" if real else ""
    return f"{real}{sign}{'' if abs(z.imag) == 1 else f'{abs(z.imag):.6g}'}i"


def added(left: Coefficient, right: Coefficient) -> Coefficient:
    """Return the sum; a number counts as a multiple of the identity."""
    if is_matrix(left) == is_matrix(right):
        return left + right
    if is_matrix(left):
        return left + right * np.eye(len(left))
    return left * np.eye(len(right)) + right


def multiplied(left: Coefficient, right: Coefficient) -> Coefficient:
    """Return the product, in this order."""
    return left @ right if is_matrix(left) and is_matrix(right) else left * right


def is_matrix(value: Coefficient) -> bool:
    """Return True for matrices, False for numbers."""
    # np.ndim would make an array of every number.
    return isinstance(value, np.ndarray) and value.ndim > 0


class Horner:
    """A plan to evaluate ``sum_w c_w w``, in which what is left of words behind a prefix is one rest.

    However many prefixes lead to a rest, it is summed up once: a product symmetrised over B variables has some B!
    words, and 2^B rests.

    >>> x, y = np.array([[0.0, 1.0], [1.0, 0.0]]), np.diag([1.0, 2.0])
    >>> Horner({("x", "y"): 2.0, ("y",): 1.0, (): 3.0}).at({"x": x, "y": y}, 2).tolist()
    [[4.0, 4.0], [2.0, 5.0]]
    """

    def __init__(self, terms: Mapping[tuple[Any, ...], Any]):
        self.letters = list(dict.fromkeys(letter for word in terms for letter in word))
        # Strings remember their hashes, and are cut fast.
        names = {letter: chr(k) for k, letter in enumerate(self.letters)}
        self.rests: list[tuple[Any, dict[Any, int]]] = []
        """Each is ``c + sum_x x p_x``: the constant c, and by letter which rest p_x of those before it."""
        self._known: dict[Any, int] = {}
        self._add({"".join([names[x] for x in word]): _simple(value) for word, value in terms.items()})

    def _add(self, terms: Mapping[str, Any]) -> int:
        key = frozenset((word, _key(value)) for word, value in terms.items())
        if key not in self._known:
            behind: dict[str, dict[str, Any]] = {}
            for word, value in terms.items():
                if word:
                    behind.setdefault(word[0], {})[word[1:]] = value
            rests = {self.letters[ord(name)]: self._add(rest) for name, rest in behind.items()}
            self.rests.append((terms.get("", 0.0), rests))
            self._known[key] = len(self.rests) - 1
        return self._known[key]

    def at(self, matrices: Mapping[Any, NDArray[Any]], rows: int) -> NDArray[Any]:
        """Return the sum at matrices (rows, rows), one for each letter.

        Where coefficients are matrices of size d, these are ``1_d (x) x``.
        """
        values: list[Any] = []
        for constant, behind in self.rests:
            total: Any = _whole(constant, rows) if behind else constant
            for letter, number in behind.items():
                value, matrix = values[number], matrices[letter]
                total = total + (matrix @ _whole(value, rows) if np.ndim(value) else matrix * value)
            values.append(total)
        return _whole(values[-1], rows)


def _whole(value: Any, rows: int) -> NDArray[Any]:
    """Return a number or a coefficient's matrix as a matrix of so many rows."""
    if not np.ndim(value):
        return np.asarray(value * np.eye(rows))
    return np.asarray(value if len(value) == rows else np.kron(value, np.eye(rows // len(value))))


def _simple(value: Any) -> Any:
    """Return a coefficient in real arithmetic where it is real, which is four times faster."""
    number = np.asarray(value)
    if np.iscomplexobj(number) and not np.any(number.imag):
        number = number.real
    if not number.ndim:
        return complex(number) if np.iscomplexobj(number) else float(number)
    return number if np.iscomplexobj(number) else number.astype(float)


def _key(value: Any) -> Any:
    if isinstance(value, float):
        fraction, exponent = math.frexp(value)
        return round(fraction * MANTISSA), exponent
    if isinstance(value, complex):
        return *_key(value.real), *_key(value.imag)
    return value.shape, value.tobytes()
