"""The inputs of a run: noise or given responses, and the force of a penalty."""

from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.epoch.affine.visits import Visits


@dataclass(frozen=True, eq=False)
class Inputs:
    """White inputs zeta, E zeta zeta' = I, of which the first is the constant 1.

    Parameters
    ----------
    truth : (r,)
        u_star = scale V'beta_star, which a penalty pulls away from.
    noise : float
        The standard deviation of independent noise in the responses: one input per row of the blocks; or
    given : (rows,), optional
        the noise itself, y - X beta_star, if only the orders are random: then the constant is the only input.
    """

    truth: FloatArray
    noise: float = 0.0
    given: FloatArray | None = None

    def count(self, visits: Visits) -> int:
        """How many inputs there are."""
        return 1 if self.given is not None else 1 + len(visits.blocks.rows)

    def entry(self, visits: Visits, batch: int, slot: int) -> tuple[IntArray, FloatArray]:
        """Which inputs (c,) enter at a visit, and how: H (d, c)."""
        force = visits.force(self.truth, slot)[:, np.newaxis]
        if self.given is not None:
            pushed = visits.entry(batch, slot) @ self.given[visits.columns(batch)]
            return np.zeros(1, dtype=np.int64), force + pushed[:, np.newaxis]
        columns = np.concatenate([[0], 1 + visits.columns(batch)])
        return columns, np.hstack([force, self.noise * visits.entry(batch, slot)])

    def residual_squares(self, rows: FloatArray, second: FloatArray, cross: FloatArray) -> FloatArray:
        """E (x_i'e - eta_i)^2 for each row (n,), from E e e' (r, r) and E e zeta' (r, z)."""
        own = np.einsum("ij,ij->i", rows @ second, rows)
        if self.given is not None:
            return np.asarray(own - 2 * self.given * (rows @ cross[:, 0]) + self.given**2)
        with_noise = np.einsum("ij,ji->i", rows, cross[:, 1:])
        return np.asarray(own - 2 * self.noise * with_noise + self.noise**2)
