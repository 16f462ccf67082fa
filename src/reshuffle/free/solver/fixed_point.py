"""What a system of fixed-point equations must offer, and the linear system of Newton's method for it."""

from typing import Any, Protocol

import numpy as np

from reshuffle.free.checks import Complex, Real

KRYLOV = 40
"""Directions after which GMRES ends."""


class FixedPoint(Protocol):
    """The unknowns of a resolvent: its solution is where ``evaluate(base, unknowns).image`` is ``unknowns``.

    Attributes
    ----------
    size : k, the rows of the resolvent; unknowns : their number; norm : of everything that is added to z.
    direct : whether the Jacobian is cheap enough to be made and factored.
    """

    size: int
    unknowns: int
    norm: float
    direct: bool

    def base(self, z: Complex, height: Complex) -> Complex:
        """Return what z and the height above the axis are to the resolvent, shape (points, k, k)."""

    def start(self, points: int) -> Complex:
        """Return the unknowns far up in the half-plane."""

    def evaluate(self, base: Complex, unknowns: Complex) -> Any:
        """Return the map at ``unknowns``, in the form that the tangents need.

        It has a ``resolvent`` (points, k, k) and an ``image``, the next unknowns (points, unknowns).
        """

    def tangent(self, state: Any, directions: Complex) -> Complex:
        """Return the derivative of the map along ``directions``, shape (points, count, unknowns)."""

    def jacobian(self, state: Any) -> Complex:
        """Return the derivative of the map as matrices, shape (points, unknowns, unknowns)."""

    def shift_tangent(self, state: Any, direction: Complex) -> Complex:
        """Return the derivative of the map when ``base`` moves along a matrix, shape (points, unknowns)."""

    def resolvent_tangent(self, state: Any, direction: Any, unknowns: Complex) -> Complex:
        """Return the derivative of G as ``base`` moves along ``direction`` and the unknowns along theirs."""


class PencilSystem(FixedPoint, Protocol):
    """The system of a pencil, whose ends are folds.

    Attributes
    ----------
    direction : the matrix that z multiplies, (k, k).
    """

    direction: Real

    def mirrored(self, unknowns: Complex) -> Complex:
        """Return the unknowns of the adjoint solution, which is that of the conjugate base."""


def solve(system: FixedPoint, state: Any, right: Complex) -> Complex:
    """Return x with ``(1 - D) x = right``, D the derivative of the map at ``state``.

    ``right`` and the answer have shape (points, sides, unknowns): several right-hand sides share the work.
    """
    if system.direct:
        return _dense(system, state, right)
    return np.stack([krylov_solve(system, state, right[:, side]) for side in range(right.shape[1])], axis=1)


def _dense(system: FixedPoint, state: Any, right: Complex) -> Complex:
    identity = np.eye(system.unknowns, dtype=complex)
    matrix = identity - system.jacobian(state)
    finite = np.isfinite(matrix).all(axis=(1, 2))
    if not finite.all():
        matrix[~finite] = identity
    columns = right.transpose(0, 2, 1)
    try:
        answer = np.linalg.solve(matrix, columns)
    except np.linalg.LinAlgError:
        # One exactly singular point must not stop the others; the least-norm step is as good as any there.
        answer = np.linalg.pinv(matrix) @ columns
    if not finite.all():
        answer[~finite] = np.nan
    return np.asarray(answer.transpose(0, 2, 1))


def krylov_solve(system: FixedPoint, state: Any, right: Complex) -> Complex:
    """Return x with ``(1 - D) x = right`` (points, unknowns) by GMRES, from products with D alone.

    Arnoldi for all points together; D contracts, so a few dozen directions are enough.
    """
    norm = np.linalg.norm(right, axis=1)
    safe = np.where(norm > 0, norm, 1.0)
    basis = [right / safe[:, None]]
    hessenberg = np.zeros((len(right), KRYLOV + 1, KRYLOV), dtype=complex)
    for k in range(KRYLOV):
        image = basis[k] - system.tangent(state, basis[k][:, None])[:, 0]
        for _ in range(2):
            for i, vector in enumerate(basis):
                overlap = np.einsum("nu,nu->n", vector.conj(), image)
                hessenberg[:, i, k] += overlap
                image = image - overlap[:, None] * vector
        size = np.linalg.norm(image, axis=1)
        hessenberg[:, k + 1, k] = size
        basis.append(image / np.where(size > 0, size, 1.0)[:, None])
        if k % 5 == 4 or k == KRYLOV - 1:
            weights, residual = _least_squares(hessenberg[:, : k + 2, : k + 1], norm)
            if np.nanmax(residual / safe, initial=0.0) < 1e-9:
                break
    return np.asarray(np.einsum("nk,knu->nu", weights, np.array(basis[:-1])))


def _least_squares(hessenberg: Complex, norm: Complex) -> tuple[Complex, Complex]:
    finite = np.asarray(np.isfinite(hessenberg).all(axis=(1, 2)))
    safe = np.where(finite[:, None, None], hessenberg, 0)
    target = np.zeros(hessenberg.shape[:2], dtype=complex)
    target[:, 0] = norm
    weights = (np.linalg.pinv(safe) @ target[..., None])[..., 0]
    weights[~finite] = np.nan
    residual = np.linalg.norm((safe @ weights[..., None])[..., 0] - target, axis=1)
    return weights, np.asarray(residual)
