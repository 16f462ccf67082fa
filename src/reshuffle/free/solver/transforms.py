"""Operator-valued transforms of ``C (x) x`` for one variable, reduced to the range of its coefficient.

With ``g`` the compressed resolvent and ``H`` the current subordination term, each transform returns the next
H and how it moves; none of them integrates over the law.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from reshuffle.free.checks import Complex, Real
from reshuffle.free.laws import Law

FEW_POINTS = 24


class Transform(ABC):
    """The map ``(g, H) -> H'`` of one variable; arrays have shape (points, rank, rank)."""

    @abstractmethod
    def apply(self, g: Complex, h: Complex) -> tuple[Complex, Any]:
        """Return the next H, and what `tangent` needs to know."""

    @abstractmethod
    def tangent(self, known: Any, dg: Complex, dh: Complex) -> Complex:
        """Return the derivative of the next H along ``(dg, dh)``, each (points, directions, rank, rank)."""

    def derivatives(self, known: Any, points: int, rank: int) -> tuple[Complex, Complex | None]:
        """Return the derivatives along g and along H as matrices over the entries, (points, rank^2, rank^2).

        None stands for zero.
        """
        units = np.eye(rank * rank, dtype=complex).reshape(1, -1, rank, rank)
        units = np.broadcast_to(units, (points, *units.shape[1:]))
        none = np.zeros_like(units)
        pairs = (self.tangent(known, units, none), self.tangent(known, none, units))
        first, second = (image.reshape(points, rank**2, rank**2).transpose(0, 2, 1) for image in pairs)
        return first, second


class RationalR(Transform):
    """For ``R(t) = a + b t/(1 + c t)``: ``H' = -C R(g C) = -(a + (a c + b) C g) C (1 + c g C)^-1``.

    The semicircle (c = 0) and Marchenko-Pastur laws; no eigenvalues, no branches, one small inverse.
    """

    def __init__(self, coefficient: Complex, r: tuple[float, float, float]):
        self.coefficient = coefficient
        self.a, self.b, self.c = r
        both = self.a * self.c + self.b
        # It vanishes for Marchenko-Pastur laws; the sum a + b t/(1 + c t) would cancel at their hard edge.
        self.slope = both if abs(both) > 1e-15 * abs(self.b) else 0.0

    def apply(self, g: Complex, h: Complex) -> tuple[Complex, Any]:
        """Return the next H, and ``C (1 + c g C)^-1``."""
        c = self.coefficient
        factor = c @ inverse(np.eye(len(c)) + self.c * (g @ c))
        return -(self.a * factor + self.slope * (c @ g @ factor)), factor

    def tangent(self, known: Any, dg: Complex, dh: Complex) -> Complex:
        """Return ``-b X dg X`` with ``X = C (1 + c g C)^-1``."""
        x = known[:, None]
        return np.asarray(-self.b * (x @ dg @ x))

    def derivatives(self, known: Any, points: int, rank: int) -> tuple[Complex, Complex | None]:
        """Return ``-b X (x) X``; H itself does not enter."""
        return -self.b * sandwich(known[:, None], known[:, None]), None


class _Subordinated(Transform):
    """Laws known by G: ``A = g^-1 - H``, ``Gamma = E[(A - C x)^-1]``, ``H' = Gamma^-1 - A``."""

    def __init__(self, coefficient: Complex):
        self.coefficient = coefficient

    @abstractmethod
    def _resolvent(self, a: Complex) -> tuple[Complex, Any]:
        """Return ``E[(A - C x)^-1]`` and what its derivative needs."""

    @abstractmethod
    def _resolvent_tangent(self, known: Any, da: Complex) -> Complex:
        """Return the derivative of ``E[(A - C x)^-1]`` along ``da``."""

    def apply(self, g: Complex, h: Complex) -> tuple[Complex, Any]:
        """Return the next H, and the inverses that its derivative needs."""
        g_inverse = inverse(g)
        a = g_inverse - h
        gamma, known = self._resolvent(a)
        gamma_inverse = inverse(gamma)
        return gamma_inverse - a, (g_inverse, gamma_inverse, known)

    def tangent(self, known: Any, dg: Complex, dh: Complex) -> Complex:
        """Return ``-Gamma^-1 dGamma Gamma^-1 - dA`` with ``dA = -g^-1 dg g^-1 - dH``."""
        g_inverse, gamma_inverse, inner = known
        da = -(g_inverse[:, None] @ dg @ g_inverse[:, None]) - dh
        moved = gamma_inverse[:, None] @ self._resolvent_tangent(inner, da) @ gamma_inverse[:, None]
        return np.asarray(-moved - da)


class PointSum(Transform):
    """For discrete laws, with ``Y = H + C x``: ``S = E[Y (1 - g Y)^-1]`` and ``H' = H - (1 + S g)^-1 S``.

    A finite sum that never inverts g, which is singular on the real axis when a row of the pencil serves a
    weight alone.
    """

    def __init__(self, coefficient: Complex, points: Real, weights: Real):
        self.coefficient = coefficient
        self.points, self.weights = points, weights

    def apply(self, g: Complex, h: Complex) -> tuple[Complex, Any]:
        """Return the next H, and the inverses that its derivative needs."""
        identity = np.eye(g.shape[-1])
        y = h[:, None] + self.points[:, None, None] * self.coefficient
        right = inverse(identity - g[:, None] @ y)
        total = np.einsum("k,nkij->nij", self.weights, y @ right)
        outer = inverse(identity + total @ g)
        change = outer @ total
        left = inverse(identity - y @ g[:, None])
        return h - change, (y, left, right, outer, change, identity - g @ change)

    def tangent(self, known: Any, dg: Complex, dh: Complex) -> Complex:
        """Return ``dH - (1 + S g)^-1 dS (1 + g S)^-1 + U dg U`` with ``U = (1 + S g)^-1 S``."""
        y, left, right, outer, change, inner = known
        moved = np.zeros_like(dg)
        for k, weight in enumerate(self.weights):
            point = y[:, k][:, None]
            moved = moved + weight * (left[:, k][:, None] @ (dh + point @ dg @ point) @ right[:, k][:, None])
        bent = change[:, None] @ dg @ change[:, None]
        return np.asarray(dh - outer[:, None] @ moved @ inner[:, None] + bent)

    def derivatives(self, known: Any, points: int, rank: int) -> tuple[Complex, Complex | None]:
        """Return the two derivatives, sums over the points of the law made as products of matrices."""
        y, left, right, outer, change, inner = known
        before, after = outer[:, None] @ left, right @ inner[:, None]
        weighted = self.weights[:, None, None] * before
        along_h = np.eye(rank * rank) - sandwich(weighted, after)
        along_g = sandwich(change[:, None], change[:, None]) - sandwich(weighted @ y, y @ after)
        return along_g, along_h


class ScalarTransform(_Subordinated):
    """For a coefficient of rank one: ``E[(A - C x)^-1] = G(A/C)/C``."""

    def __init__(self, coefficient: Complex, law: Law):
        super().__init__(coefficient)
        self.law = law

    def _resolvent(self, a: Complex) -> tuple[Complex, Any]:
        t = a / self.coefficient
        return self.law._cauchy(t) / self.coefficient, self.law._cauchy_derivative(t) / self.coefficient**2

    def _resolvent_tangent(self, known: Any, da: Complex) -> Complex:
        return np.asarray(known[:, None] * da)


class Diagonalised(_Subordinated):
    """For every other law: ``E[(A - C x)^-1] = G(T) C^-1``, with ``T = C^-1 A`` diagonalised."""

    def __init__(self, coefficient: Complex, law: Law):
        super().__init__(coefficient)
        self.law = law
        self.inverse = np.linalg.inv(coefficient)

    def _resolvent(self, a: Complex) -> tuple[Complex, Any]:
        t = self.inverse @ a
        # A failed step has no eigenvalues: it stays nan, and the path takes another one.
        failed = np.asarray(~np.isfinite(t).all(axis=(1, 2)))
        if failed.any():
            t = np.where(failed[:, None, None], np.eye(t.shape[-1]), t)
        values, vectors = np.linalg.eig(separated(t))
        back = inverse(vectors)
        g = self.law._cauchy(values)
        if failed.any():
            g = np.where(failed[:, None], np.nan, g)
        gamma = (vectors * g[:, None, :]) @ back @ self.inverse
        return gamma, (values, vectors, back @ self.inverse, g)

    def _resolvent_tangent(self, known: Any, da: Complex) -> Complex:
        values, vectors, right, g = known
        slopes = divided_differences(values, g, self.law._cauchy_derivative(values))
        inner = right[:, None] @ da @ vectors[:, None]
        return np.asarray(vectors[:, None] @ (slopes[:, None] * inner) @ right[:, None])

    def derivatives(self, known: Any, points: int, rank: int) -> tuple[Complex, Complex | None]:
        """Return the two derivatives as products of three matrices over the entries, the middle one diagonal."""
        g_inverse, gamma_inverse, (values, vectors, right, g) = known
        slopes = divided_differences(values, g, self.law._cauchy_derivative(values)).reshape(points, 1, -1)
        outer = sandwich((gamma_inverse @ vectors)[:, None], (right @ gamma_inverse)[:, None])
        along_h = (outer * slopes) @ sandwich(right[:, None], vectors[:, None]) + np.eye(rank * rank)
        return along_h @ sandwich(g_inverse[:, None], g_inverse[:, None]), along_h


def sandwich(left: Complex, right: Complex) -> Complex:
    """Return the maps ``X -> sum_k left_k X right_k`` as matrices over the entries of X.

    Both have shape (points, terms, rank, rank), the answer (points, rank^2, rank^2).

    >>> a, b, x = np.arange(12.0).reshape(3, 2, 2)
    >>> bool(np.allclose(sandwich(a[None, None], b[None, None])[0] @ x.ravel(), (a @ x @ b).ravel()))
    True
    """
    points, terms = left.shape[:2]
    (rows, inner), (outer, columns) = left.shape[2:], right.shape[2:]
    first = left.reshape(points, terms, rows * inner).transpose(0, 2, 1)
    product = first @ right.reshape(points, terms, outer * columns)
    whole = product.reshape(points, rows, inner, outer, columns).transpose(0, 1, 4, 2, 3)
    return np.asarray(whole.reshape(points, rows * columns, inner * outer))


def divided_differences(points: Complex, values: Complex, derivatives: Complex) -> Complex:
    """Return ``(f_i - f_j)/(x_i - x_j)``, with derivatives where points meet; shape (n, r, r).

    >>> x = np.array([[1.0, 2.0]])
    >>> divided_differences(x, x**2, 2 * x)[0].real.tolist()
    [[2.0, 3.0], [3.0, 4.0]]
    """
    gap = points[:, :, None] - points[:, None, :]
    size = np.abs(points).max(axis=1)[:, None, None]
    close = np.abs(gap) < 1e-7 * size
    slope = (values[:, :, None] - values[:, None, :]) / np.where(close, 1.0, gap)
    middle = (derivatives[:, :, None] + derivatives[:, None, :]) / 2
    return np.asarray(np.where(close, middle, slope))


def separated(t: Complex) -> Complex:
    """Return the matrices moved by a few roundings, so that exactly defective ones diagonalise."""
    size = t.shape[-1]
    nudge = np.diag(np.arange(size)) * np.abs(t).max(axis=(1, 2))[:, None, None] * 1e-15
    return np.asarray(t + nudge)


def inverse(matrices: Complex) -> Complex:
    """Return stacked inverses; a singular matrix gives nan, which the path then treats as a failed step.

    Those of one and two rows are written out, for all matrices together.
    """
    if matrices.shape[-1] == 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(matrices == 0, np.nan, 1 / matrices))
    if matrices.shape[-1] == 2:
        return _inverse_of_two(matrices)
    try:
        return np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        with np.errstate(invalid="ignore"):
            determinants = np.linalg.det(matrices)
        safe = np.where((determinants == 0)[..., None, None], np.eye(matrices.shape[-1]) * np.nan, matrices)
        return np.linalg.inv(safe)


def _inverse_of_two(matrices: Complex) -> Complex:
    a, b, c, d = matrices[..., 0, 0], matrices[..., 0, 1], matrices[..., 1, 0], matrices[..., 1, 1]
    determinant = a * d - b * c
    singular = determinant == 0
    if singular.any():
        determinant = np.where(singular, np.nan, determinant)
    result = np.empty_like(matrices)
    result[..., 0, 0], result[..., 0, 1] = d / determinant, -b / determinant
    result[..., 1, 0], result[..., 1, 1] = -c / determinant, a / determinant
    return result


def transform_of(law: Law, coefficient: Complex) -> Transform:
    """Return the cheapest exact transform of ``coefficient (x) x`` for x with this law."""
    if law.rational_r is not None:
        return RationalR(coefficient, law.rational_r)
    if not law.support and len(law.atoms) <= FEW_POINTS:
        points, weights = np.array(law.atoms).T
        return PointSum(coefficient, points, weights)
    return ScalarTransform(coefficient, law) if len(coefficient) == 1 else Diagonalised(coefficient, law)
