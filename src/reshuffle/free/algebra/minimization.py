"""Reduce a Hermitian pencil to its smallest size, by congruences that keep its Schur complement."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from reshuffle.free.checks import Complex

TOLERANCE = 1e-11


def minimise(pencil: Complex, corner: int) -> Complex:
    """Return the smallest Hermitian pencil with the same Schur complement onto the first ``corner`` rows.

    Two reductions alternate until neither shrinks it: states that the first block never reaches (by symmetry
    also those that never reach it) are dropped, and rows without any variable are solved for.

    Parameters
    ----------
    pencil : Hermitian coefficients ``[b_0, b_1, ..., b_m]``, shape (m + 1, size, size).
    """
    size = pencil.shape[1] + 1
    while pencil.shape[1] < size:
        size = pencil.shape[1]
        pencil = _drop_unreachable(pencil, corner)
        pencil = _solve_constant_rows(pencil, corner)
    return pencil


def _drop_unreachable(pencil: Complex, corner: int) -> Complex:
    """Restrict to the states reached from the first block, modulo the radical of the form on them.

    With M the states' block at a scalar point, the reachable space is the smallest one that holds ``M^-1
    v_j`` and is invariant under ``M^-1 Q_j``. A vector of it that is M-orthogonal to all of it is orthogonal
    to every ``v_j`` and ``Q_j`` image as well, so it drops out of the Schur complement.
    """
    states = pencil.shape[1] - corner
    if states == 0:
        return pencil
    middle = _regular_point(pencil[:, corner:, corner:])
    if middle is None:
        # Inverses without a scalar point, such as (xy - yx)^-1, keep their full size: right, only larger.
        return pencil
    images = np.linalg.solve(middle, pencil[:, corner:, :])
    inputs = images[:, :, :corner].transpose(1, 0, 2).reshape(states, -1)
    reached = _krylov(inputs, images[1:, :, corner:])
    if reached.shape[1] == 0:
        return pencil[:, :corner, :corner]
    # Echelon bases keep the pencil sparse. Close to a strong singularity the resolvent's entries differ by
    # many orders of size, and rotating the states would drown the small ones in the rounding of the large.
    reached = _echelon(reached)
    form = reached.conj().T @ middle @ reached
    basis = reached[:, _independent((form + form.conj().T) / 2)]
    return _congruent(pencil, corner, basis, np.zeros((states, corner)))


def _echelon(basis: Complex) -> Complex:
    """Return the basis of the same space that is the identity on well chosen rows."""
    _, _, pivots = qr(basis.conj().T, mode="economic", pivoting=True)
    chosen = pivots[: basis.shape[1]]
    result = basis @ np.linalg.inv(basis[np.sort(chosen)])
    return np.asarray(np.where(np.abs(result) < 1e-13, 0.0, result))


def _independent(form: Complex) -> NDArray[Any]:
    """Return indices of a largest nonsingular principal block of a Hermitian form."""
    _, r, pivots = qr(form, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(r))
    return np.sort(pivots[: int(np.sum(sizes > TOLERANCE * sizes[0]))])


def _regular_point(blocks: Complex) -> Complex | None:
    """Return the block at the best conditioned of a few real scalar points, or None if all are singular."""
    generator = np.random.default_rng(7)
    trials = [np.zeros(len(blocks) - 1), *generator.uniform(-1, 1, size=(8, len(blocks) - 1))]
    values = [blocks[0] + np.tensordot(point, blocks[1:], axes=1) for point in trials]
    conditions = [np.linalg.cond(value) for value in values]
    best = int(np.argmin(conditions))
    return values[best] if conditions[best] < 1e8 else None


def _krylov(start: Complex, maps: Complex) -> Complex:
    """Return an orthonormal basis of the smallest space that holds ``start`` and that ``maps`` preserve."""
    basis = np.zeros((len(start), 0), dtype=complex)
    fresh = start
    while fresh.shape[1]:
        scale = max(float(np.linalg.norm(fresh, axis=0).max()), 1e-300)
        for _ in range(2):
            fresh = fresh - basis @ (basis.conj().T @ fresh)
        left, sizes, _ = np.linalg.svd(fresh, full_matrices=False)
        new = left[:, sizes > TOLERANCE * scale]
        basis = np.concatenate([basis, new], axis=1)
        fresh = np.concatenate([a @ new for a in maps], axis=1) if len(maps) else new[:, :0]
    return basis


def _solve_constant_rows(pencil: Complex, corner: int) -> Complex:
    """Eliminate the combinations of rows in which no variable occurs.

    If ``E* b_j = 0`` for all variables then ``E* b_0 w = 0`` is a linear constraint on the solution w.
    Restricted to it, the pencil loses also the directions of E that satisfy the constraint themselves.
    """
    states = pencil.shape[1] - corner
    if states == 0:
        return pencil
    stacked = pencil[1:, :, corner:].reshape(-1, states)
    scale = max(float(np.abs(stacked).max()), 1e-300) if stacked.size else 1.0
    constant = _null_space(stacked / scale)
    if constant.shape[1] == 0:
        return pencil
    rows = constant.conj().T @ pencil[0, corner:, :]
    lift = -np.linalg.lstsq(rows[:, corner:], rows[:, :corner], rcond=None)[0]
    allowed = _null_space(rows[:, corner:])
    allowed = _echelon(allowed) if allowed.shape[1] else allowed
    spare = allowed @ _null_space(_away_from(constant) @ allowed)
    basis = allowed @ _null_space(spare.conj().T @ allowed)
    return _congruent(pencil, corner, basis, lift)


def _away_from(basis: Complex) -> Complex:
    """Return the orthogonal projection away from an orthonormal basis."""
    return np.asarray(np.eye(len(basis)) - basis @ basis.conj().T)


def _null_space(matrix: Complex) -> Complex:
    columns = matrix.shape[1]
    if matrix.shape[0] == 0:
        return np.eye(columns, dtype=complex)
    if matrix.shape[0] > columns:
        # The triangular factor has the same null space, and no left singular vectors of all rows.
        matrix = np.asarray(np.linalg.qr(matrix, mode="r"))
    _, sizes, right = np.linalg.svd(matrix, full_matrices=True)
    rank = int(np.sum(sizes > TOLERANCE * max(float(sizes.max(initial=0.0)), 1.0)))
    return np.asarray(right[rank:].conj().T)


def _congruent(pencil: Complex, corner: int, basis: Complex, lift: Complex) -> Complex:
    """Return ``T* b T`` with ``T = [[1, 0], [lift, basis]]``."""
    transform = np.zeros((pencil.shape[1], corner + basis.shape[1]), dtype=complex)
    transform[:corner, :corner] = np.eye(corner)
    transform[corner:, :corner] = lift
    transform[corner:, corner:] = basis
    return np.asarray(transform.conj().T @ pencil @ transform)
