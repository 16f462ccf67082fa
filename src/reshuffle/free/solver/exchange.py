"""Which variables a pencil does not tell apart, and what exchanging two of them does to its rows."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from reshuffle.free.checks import Real
from reshuffle.free.laws import Law
from reshuffle.free.laws.law import Affine

SAME = 1e-9
"""Of the pencil's size: how far an exchanged one may be off."""
INDEPENDENT = 1e-7
POINTS = (0.0, 0.37, -0.61, 0.93)

Pair = tuple[int, int]


@dataclass(frozen=True)
class Exchange:
    """Classes of variables that may be exchanged, in rows where doing so is orthogonal.

    Attributes
    ----------
    coefficients : (m + 1, k, k)
        The pencil in these rows; those of the first block are as they were.
    classes : lists of variables, numbered from 0; each variable is in one.
    swaps : pair (i, j), i < j, of one class -> (k, k)
        The orthogonal matrix S with ``S' b_i S = b_j``, ``S' b_j S = b_i``, which keeps all others.
    """

    coefficients: Real
    classes: tuple[tuple[int, ...], ...]
    swaps: dict[Pair, Real]

    def average(self, matrix: Real, swaps: dict[Pair, Real], fixed: int | None = None) -> Real:
        """Return the mean of ``S' matrix S`` over all permutations that keep the variable ``fixed``.

        Every permutation of n variables is one of n - 1 of them and one exchange with the last, so that n (n - 1)/2
        products make the mean over n! of them. ``swaps`` are those of the same pairs, in any rows.
        """
        for members in self.classes:
            others = [member for member in members if member != fixed]
            for count in range(1, len(others)):
                last = others[count]
                total = matrix.copy()
                for member in others[:count]:
                    swap = swaps[min(member, last), max(member, last)]
                    total += swap.T @ matrix @ swap
                matrix = total / (count + 1)
        return matrix


def exchange(coefficients: Real, corner: int, laws: Sequence[Law]) -> Exchange | None:
    """Return what can be exchanged in a minimal pencil, or None if nothing can.

    A minimal pencil is unique but for a change of its rows (Schuetzenberger, 1961): where an expression is the same
    after an exchange of two variables there is one such change, and it is found from what the two pencils make of
    the same words.

    Parameters
    ----------
    coefficients : real symmetric ``[b_0, ..., b_m]``, (m + 1, k, k); corner : rows of the first block.
    laws : of the m variables.
    """
    words = _Words.of(coefficients, corner)
    if words is None:
        return None
    found: list[list[int]] = []
    swaps: dict[Pair, Real] = {}
    for number, law in enumerate(laws):
        for members in found:
            first = members[0]
            if not _same_law(laws[first], law):
                continue
            swap = words.swap(first, number)
            if swap is not None:
                swaps[first, number] = swap
                members.append(number)
                break
        else:
            found.append([number])
    if all(len(members) == 1 for members in found):
        return None
    for members in found:
        for i, j in itertools.combinations(members[1:], 2):
            # (i j) = (1 i)(1 j)(1 i).
            outer = swaps[members[0], i]
            swaps[i, j] = outer @ swaps[members[0], j] @ outer
    plain = Exchange(words.coefficients, tuple(tuple(members) for members in found), swaps)
    return _orthogonal(plain)


def _orthogonal(plain: Exchange) -> Exchange | None:
    """Return the same in rows in which every exchange is orthogonal: those of an invariant form."""
    form = plain.average(np.eye(plain.coefficients.shape[1]), plain.swaps)
    values, vectors = np.linalg.eigh((form + form.T) / 2)
    if values[0] < 1e-8 * values[-1]:
        return None
    root, inverse = (vectors * values**0.5) @ vectors.T, (vectors * values**-0.5) @ vectors.T
    coefficients = inverse @ plain.coefficients @ inverse
    swaps = {}
    for pair, swap in plain.swaps.items():
        turned = root @ swap @ inverse
        turned = (turned + turned.T) / 2
        # Its own inverse: one step of Newton's method for that takes the rounding out.
        swaps[pair] = (3 * turned - turned @ turned @ turned) / 2
    return Exchange((coefficients + coefficients.transpose(0, 2, 1)) / 2, plain.classes, swaps)


def _same_law(left: Law, right: Law) -> bool:
    """Return whether two laws are surely the same."""
    if isinstance(left, Affine) and isinstance(right, Affine):
        return (left.factor, left.shift) == (right.factor, right.shift) and _same_law(left.base, right.base)
    if left is right:
        return True
    if left.rational_r is not None:
        return left.rational_r == right.rational_r
    return not left.support and not right.support and left.atoms == right.atoms


@dataclass(frozen=True)
class _Words:
    """Words that reach every row of the pencil: each is a letter before an earlier one."""

    coefficients: Real
    corner: int
    starts: Real
    maps: Real
    letters: list[int]
    parents: list[int]
    sizes: list[float]
    reached: Real

    @staticmethod
    def of(coefficients: Real, corner: int) -> "_Words | None":
        states = coefficients.shape[1] - corner
        if states == 0:
            return None
        # All variables at one number, which no exchange changes.
        values = [coefficients[0] + point * coefficients[1:].sum(axis=0) for point in POINTS]
        conditions = [float(np.linalg.cond(value[corner:, corner:])) for value in values]
        best = int(np.argmin(conditions))
        if conditions[best] > 1e6:
            return None
        middle = values[best][corner:, corner:]
        # Rows may also be shifted by those of the first block; the shift that parts them there is one of a kind.
        shift = np.eye(len(values[best]))
        shift[corner:, :corner] = -np.linalg.solve(middle, values[best][corner:, :corner])
        coefficients = shift.T @ coefficients @ shift
        images = np.linalg.solve(middle, coefficients[:, corner:, :])
        return _Words._spanning(coefficients, corner, images[:, :, :corner], images[1:, :, corner:])

    @staticmethod
    def _spanning(coefficients: Real, corner: int, starts: Real, maps: Real) -> "_Words | None":
        letters: list[int] = []
        parents: list[int] = []
        sizes: list[float] = []
        states = maps.shape[1]
        basis = np.zeros((states, 0))
        columns: list[Real] = []
        trials = [
            (letter, -1 - c, starts[letter][:, c]) for letter in range(len(starts)) for c in range(corner)
        ]
        while trials:
            vectors = np.array([vector for _, _, vector in trials]).T
            norms = np.linalg.norm(vectors, axis=0)
            # What cancels leaves rounding behind, which has a direction too.
            vectors = np.where(
                norms > 1e-10 * np.abs(maps).max(), vectors / np.where(norms > 0, norms, 1.0), 0.0
            )
            residual = vectors.copy()
            for _ in range(2):
                residual = residual - basis @ (basis.T @ residual)
            q, r, order = qr(residual, mode="economic", pivoting=True)
            rank = int(np.sum(np.abs(np.diag(r)) > INDEPENDENT))
            first = len(columns)
            for place in order[:rank]:
                letter, parent, _ = trials[place]
                letters.append(letter)
                parents.append(parent)
                sizes.append(float(norms[place]))
                columns.append(vectors[:, place])
            basis = np.concatenate([basis, q[:, :rank]], axis=1)
            new = range(first, len(columns))
            trials = [(j + 1, i, maps[j] @ columns[i]) for i in new for j in range(len(maps))]
        if len(columns) < states:
            return None
        return _Words(coefficients, corner, starts, maps, letters, parents, sizes, np.array(columns).T)

    def swap(self, first: int, second: int) -> Real | None:
        """Return S for the exchange of two variables, or None if the pencil is not the same after it."""
        renamed = np.arange(len(self.starts))
        renamed[[first + 1, second + 1]] = second + 1, first + 1
        moved = np.zeros_like(self.reached)
        for number, (letter, parent, size) in enumerate(
            zip(self.letters, self.parents, self.sizes, strict=True)
        ):
            target = renamed[letter]
            vector = (
                self.starts[target][:, -1 - parent]
                if parent < 0
                else self.maps[target - 1] @ moved[:, parent]
            )
            moved[:, number] = vector / size
        whole = np.eye(self.coefficients.shape[1])
        states = slice(self.corner, None)
        # All words of one more letter: so many equations tell S with less rounding than the chosen ones alone.
        after = self._longer(moved, renamed)
        whole[states, states] = np.linalg.solve(self._factors[1], self._factors[0].T @ after.T).T
        exchanged = whole.T @ self.coefficients @ whole
        off = np.abs(exchanged - self.coefficients[renamed]).max()
        return whole if off <= SAME * np.abs(self.coefficients).max() else None

    def _longer(self, vectors: Real, renamed: NDArray[np.int_]) -> Real:
        maps = self.maps[renamed[1:] - 1]
        first = self.starts[renamed].transpose(1, 0, 2).reshape(len(vectors), -1)
        return np.concatenate([first, *(a @ vectors for a in maps)], axis=1)

    @cached_property
    def _factors(self) -> tuple[Real, Real]:
        """Orthogonal and triangular factors of all words of one more letter, as rows."""
        q, r = np.linalg.qr(self._longer(self.reached, np.arange(len(self.starts))).T)
        return q, r
