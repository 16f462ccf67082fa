"""What a system of fixed-point equations must offer, Newton's method for it, and what solving it may cost."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from reshuffle.free.checks import Complex

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


def solve(system: FixedPoint, state: Any, right: Complex) -> Complex:
    """Return x with ``(1 - D) x = right``, D the derivative of the map at ``state``.

    ``right`` and the answer have shape (points, sides, unknowns): several right-hand sides share the work.
    """
    if system.direct:
        return _dense(system, state, right)
    return np.stack([_gmres(system, state, right[:, side]) for side in range(right.shape[1])], axis=1)


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


def _gmres(system: FixedPoint, state: Any, right: Complex) -> Complex:
    """Arnoldi for all points together; D contracts, so a few dozen directions are enough."""
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


PATIENCE = 2.0
"""Seconds without a word."""
BUDGET = 60.0
"""Seconds of one core that a question may cost unless more are allowed."""


class Effort:
    """Counts Newton steps, in estimated seconds of one core: the same count on every machine, idle or not.

    Parameters
    ----------
    what : of which law, for the line on the terminal; step : seconds of one step at one point.
    refuse : the estimated seconds and the budget -> the error to raise.
    """

    def __init__(self, what: str, step: float, refuse: Callable[[float, float], Exception]):
        self.what, self.step, self.refuse = what, step, refuse
        self.spent, self.budget = 0.0, float("inf")
        self._began, self._shown = 0.0, False

    @contextmanager
    def question(self, budget: float) -> Iterator[None]:
        """Bound what is spent inside, and say on a terminal that it takes long when it does."""
        self.spent, self.budget, self._began = 0.0, budget, time.monotonic()
        try:
            yield
        finally:
            self.budget = float("inf")
            if self._shown:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
                self._shown = False

    def expect(self, steps: float) -> None:
        """Raise if so many steps more would exceed the budget."""
        if self.spent + steps * self.step > self.budget:
            raise self.refuse(self.spent + steps * self.step, self.budget)

    def spend(self, steps: int) -> None:
        """Count steps that were taken, and raise once the budget is spent."""
        self.spent += steps * self.step
        if self.budget < float("inf"):
            self._tell()
            self.expect(0)

    def _tell(self) -> None:
        if time.monotonic() - self._began < PATIENCE or not sys.stderr.isatty():
            return
        share = min(self.spent / self.budget, 1.0)
        print(f"\r\x1b[K{self.what[:60]}: {share:.0%} of the budget", end="", file=sys.stderr, flush=True)
        self._shown = True
