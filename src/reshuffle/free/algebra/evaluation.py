"""Sums of words at matrices, by Horner's rule: what is left of words behind a letter is summed up once."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MANTISSA = 2.0**46
"""Coefficients that differ by less than a rounding or two count as one, so that sums of words are recognised."""


@dataclass(frozen=True)
class Rest:
    """``c + sum_x x p_x``, with rests p_x that were made before.

    Attributes
    ----------
    constant : a number or a square matrix; behind : letter -> which rest.
    """

    constant: Any
    behind: dict[Any, int]


class Horner:
    """A plan to evaluate ``sum_w c_w w``, in which what is left of words behind a prefix is one rest.

    However many prefixes lead to a rest, it is summed up once: a product symmetrised over B variables has some B!
    words, and 2^B rests.

    Parameters
    ----------
    terms : word -> coefficient
        A number, or a square matrix A for ``A (x) word``.

    >>> x, y = np.array([[0.0, 1.0], [1.0, 0.0]]), np.diag([1.0, 2.0])
    >>> Horner({("x", "y"): 2.0, ("y",): 1.0, (): 3.0}).at({"x": x, "y": y}, 2).tolist()
    [[4.0, 4.0], [2.0, 5.0]]
    """

    def __init__(self, terms: Mapping[tuple[Any, ...], Any]):
        self.letters = list(dict.fromkeys(letter for word in terms for letter in word))
        # Strings remember their hashes, and are cut fast.
        names = {letter: chr(k) for k, letter in enumerate(self.letters)}
        self.rests: list[Rest] = []
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
            self.rests.append(Rest(terms.get("", 0.0), rests))
            self._known[key] = len(self.rests) - 1
        return self._known[key]

    def at(self, matrices: Mapping[Any, NDArray[Any]], rows: int) -> NDArray[Any]:
        """Return the sum at matrices (rows, rows), one for each letter.

        Where coefficients are matrices of size d, these are ``1_d (x) x``.
        """
        values: list[Any] = []
        for rest in self.rests:
            total: Any = rest.constant
            if rest.behind:
                total = _whole(total, rows)
            for letter, number in rest.behind.items():
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
