"""Coordinates in which the mean step of an epoch is diagonal: where many batches are added up.

With the weight w_i of row i in the mean gradient of an epoch (1 / (B m_b) for batches, 1 / n for samples), the
singular value decomposition of the weighted rows sqrt(w) C = O diag(s) V' makes every W_b a product of few
orthonormal rows: step W_b = L P_b L in the basis V, where P_b = O_b'O_b, sum_b P_b = I and L^2 = diag(x) is what
all visits add up to, x = B step s^2. A word in the W_b begins and ends with L, so that

    I - Abar = L K L,   K = Y O,   Y_b = L^-1 Pi_b L O_b'   (k, rows of b),

and Y, the pull, gives the kernel of Z and the way of the responses both.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from reshuffle._core.arrays import FloatArray, IntArray
from reshuffle._core.orthogonal import thin_qr


@dataclass(frozen=True, eq=False)
class Whitened:
    """Rows in the coordinates of their mean step, at one step; the atoms are what is visited as a whole.

    Attributes
    ----------
    orthonormal : (q, k)
        O.
    factor : (k, r)
        diag(s) V', so that Z = factor' K factor.
    roots : (q,)
        sqrt(w).
    rates : (k,)
        x = unit s^2, what a mode is multiplied by exp(-x) with, were the visits infinitely many and small.
    unit : float
        B step.
    offsets : (atoms + 1,)
        Where the rows of each atom begin.
    """

    orthonormal: FloatArray
    factor: FloatArray
    roots: FloatArray
    rates: FloatArray
    unit: float
    offsets: IntArray

    @classmethod
    def of(cls, rows: FloatArray, weights: FloatArray, unit: float, offsets: IntArray) -> "Whitened":
        """Decompose rows (q, r) with weights (q,)."""
        roots = np.sqrt(weights)
        basis, triangle = thin_qr(roots[:, np.newaxis] * rows)
        left, singular, right = scipy.linalg.svd(triangle, full_matrices=False, check_finite=False)
        return cls(basis @ left, singular[:, np.newaxis] * right, roots, unit * singular**2, unit, offsets)

    @property
    def atoms(self) -> int:
        """How many batches or samples there are."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> IntArray:
        """The rows of each atom."""
        return np.diff(self.offsets)

    def of_atom(self, atom: int) -> FloatArray:
        """O_b (m, k)."""
        return self.orthonormal[self.offsets[atom] : self.offsets[atom + 1]]

    @cached_property
    def row_norms(self) -> FloatArray:
        """o'diag(x) o (q,): what a visit does along its own row."""
        return np.asarray((self.orthonormal**2) @ self.rates)

    @cached_property
    def norms(self) -> FloatArray:
        """|step W_b| (atoms,)."""
        if (self.sizes == 1).all():
            return self.row_norms
        roots = np.sqrt(self.rates)
        return np.array(
            [scipy.linalg.svdvals(self.of_atom(atom) * roots)[0] ** 2 for atom in range(self.atoms)]
        )

    @property
    def fastest(self) -> float:
        """The largest rate, |step sum_b W_b|."""
        return float(self.rates.max(initial=0.0))
