"""The cavity equation of modes that do not see each other: numbers per mode, where `equation` has matrices.

In the coordinates of the modes all paths are diagonal but for what is particular to samples. Diagonals alone obey
the same equation, with products of numbers for products of matrices: with h = 1 - x N and g = 1 - x K of a mode of
pace x, and m(t) = sum_i r_i(t) u_i^2 of that mode,

    s = h + m * h,   K = w p * (1 + s - g),   N = K + (e / n) (g * (s - g) + s * g),   p(t) = (1 - w x)^t.
"""

from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.epoch.cavity.time_nodes import TimeNodes
from reshuffle.epoch.cavity.visiting import Visiting

_MOST_ROUNDS = 60


@dataclass(frozen=True, eq=False)
class SingleModes:
    """The diagonals of K_t and N_t at the nodes.

    Attributes
    ----------
    paces : (m,)
        x of the modes.
    kernels, inner : (q, m)
        K_t and N_t.
    met : (q, m)
        S_t, what the visits of all samples do to a mode.
    """

    paces: FloatArray
    kernels: FloatArray
    inner: FloatArray
    met: FloatArray

    @property
    def before(self) -> FloatArray:
        """H_t (q, m)."""
        return 1 - self.paces * self.inner

    @property
    def mean(self) -> FloatArray:
        """G_t (q, m)."""
        return 1 - self.paces * self.kernels


class SingleModesRound:
    """One round of the iteration for the diagonals.

    Parameters
    ----------
    visiting : Visiting
        Of states of one part with nothing beside the samples, whose rows are orthonormal.
    nodes : TimeNodes
    paces : (m,)
        Of the modes; not necessarily those of `visiting`.
    """

    def __init__(self, visiting: Visiting, nodes: TimeNodes, paces: FloatArray):
        self._nodes, self._paces, self._weight = nodes, paces, visiting.weight
        self._share = visiting.exclusion / visiting.samples
        self._powers = (1 - visiting.weight * paces) ** nodes.nodes[:, np.newaxis]

    @property
    def independent(self) -> SingleModes:
        """The modes, were visits independent."""
        kernels = self._weight * self._nodes.convolve_scalars(self._powers, np.ones_like(self._powers))
        return SingleModes(self._paces, kernels, kernels, 1 - self._paces * kernels)

    def following(self, modes: SingleModes, grams: FloatArray) -> SingleModes:
        """The modes after one more round, for sums m (q, m) over the samples."""
        convolve, before = self._nodes.convolve_scalars, modes.before
        met = before + convolve(grams, before)
        kernels = self._weight * convolve(self._powers, 1 + met - modes.mean)
        after = 1 - self._paces * kernels
        inner = kernels + self._share * (convolve(after, met - after) + convolve(met, after))
        return SingleModes(self._paces, kernels, inner, met)

    def settled(self, grams: FloatArray, tolerance: float) -> SingleModes:
        """The modes that stay as they are, for sums over the samples (q, 1) that all have in common."""
        modes = self.independent
        for _ in range(_MOST_ROUNDS):
            following = self.following(modes, grams)
            change = float(np.abs(following.inner - modes.inner).max(initial=0.0))
            modes = following
            if change <= tolerance * float(np.abs(modes.inner).max(initial=0.0)):
                break
        return modes
