"""Powers of a linear map to any number of epochs, and where they end."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flint import acb_mat, arb, arb_mat, ctx, fmpq_mat

from tests.oracles.exact import arithmetic as exact
from tests.oracles.exact.arithmetic import Matrix

_SPECTRAL_PRECISION = 640
"""Bits with which eigenvalues are computed: rates of 1e-170 beside 1 are seen."""
_ON_THE_CIRCLE = 1e-60
"""Relative distance to the unit circle below which an eigenvalue is taken to lie on it."""


def losses(A: Matrix) -> list[Any]:
    """The eigenvalues x of I - A, sorted by size; those of A are 1 - x."""
    size = A.nrows()
    if not size:
        return []
    with ctx.workprec(_SPECTRAL_PRECISION):
        lost = acb_mat(exact.real(exact.identity(size) - A))
        values = lost.eig(algorithm="approx")
        return sorted(values, key=lambda value: abs(value).mid())


@dataclass(frozen=True)
class LinearMap:
    """W -> A Z + N U for states Z with inputs U that stay as they are; `seen` is A where it is not the identity."""

    A: Matrix
    N: Matrix
    seen: Matrix

    @cached_property
    def still(self) -> int:
        """How many dimensions of what is seen do not move at all."""
        size = self.seen.nrows()
        return int(size - (exact.identity(size) - self.seen).rank()) if size else 0

    @cached_property
    def moving(self) -> list[Any]:
        """The eigenvalues x of I - A other than zero."""
        return losses(self.seen)[self.still :]

    def shrinks(self) -> bool | None:
        """Whether |1 - x| < 1 for all of them; None if one lies on the circle itself."""
        answer: bool | None = True
        with ctx.workprec(_SPECTRAL_PRECISION):
            for x in self.moving:
                square, twice = abs(x) ** 2, 2 * x.real
                gap = float(((twice - square) / (abs(x) + square)).mid())
                if gap < -_ON_THE_CIRCLE:
                    return False
                if gap < _ON_THE_CIRCLE:
                    answer = None
        return answer

    def rate(self) -> arb:
        """The largest |1 - x|."""
        with ctx.workprec(_SPECTRAL_PRECISION):
            return max((abs(1 - x).mid() for x in self.moving), default=arb(0))

    @cached_property
    def _fixed(self) -> tuple[Matrix, Matrix] | None:
        """The right null vectors R of I - A, and L with L R = I; None if eigenvalue one is defective."""
        lost = exact.identity(self.A.nrows()) - self.A
        right = exact.null_space(lost)
        left = exact.null_space(lost.transpose()).transpose()
        if not right.ncols():
            return right, left
        between = left * right
        return None if between.rank() < between.nrows() else (right, between.solve(left))

    def end(self, states: Matrix, inputs: Matrix) -> tuple[Matrix, Matrix] | None:
        """Where the states tend to, and what each drifts by in an epoch; None if something grows or oscillates."""
        if self.shrinks() is not True or self._fixed is None:
            return None
        right, left = self._fixed
        pushed = self.N * inputs
        lost = exact.identity(self.A.nrows()) - self.A
        if not right.ncols():
            return lost.solve(pushed), exact.zeros(states.nrows(), states.ncols())
        onto = right * left
        drift = onto * pushed
        return onto * states + (lost + onto).solve(pushed - drift), drift


def powers(once: LinearMap, states: Matrix, inputs: Matrix, epochs: list[int]) -> list[arb_mat]:
    """The states after each of the epochs, enclosed at the precision that is set."""
    size, count = once.A.nrows(), once.N.ncols()
    below = exact.beside(exact.zeros(count, size), exact.identity(count)) if count else None
    whole: Matrix = exact.beside(once.A, once.N) if count else once.A
    whole = whole if below is None else exact.above(whole, below)
    start = exact.real(exact.above(states, inputs) if count else states)
    squares = [exact.real(whole)]
    for _ in range(max([epoch.bit_length() for epoch in epochs], default=0) - 1):
        squares.append(squares[-1] * squares[-1])
    found = []
    for epoch in epochs:
        current = start
        for bit, power in enumerate(squares):
            if epoch >> bit & 1:
                current = power * current
        found.append(exact.top(current, size))
    return found


def no_inputs(size: int, columns: int) -> tuple[Matrix, Matrix]:
    """N and U where there is nothing beside the state."""
    return fmpq_mat(size, 0, []), fmpq_mat(0, columns, [])
