"""The subset lattice of B exchangeable batches, reduced by the symmetry between them.

One epoch is linearized on the proper subsets of the batches, 2^B - 1 states. All batches are alike, so every
matrix that occurs commutes with permutations of them and splits into blocks, one for each type
k = 0, 1, ..., B/2, whose rows are the sizes i = k, ..., B - k of the subsets: about B^2 / 4 rows in all.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Link:
    """How vectors of one inner type lie in one outer type.

    Attributes
    ----------
    outer : int
        The outer type.
    embedding : (outer sizes, inner sizes)
        The component of each vector there.
    weight : float
        What makes summing over b the adjoint of restricting to the subsets without b.
    """

    outer: int
    embedding: FloatArray
    weight: float


@dataclass(frozen=True, eq=False)
class SubsetSymmetry:
    """The matrices of the linearization in the symmetry-adapted basis.

    With states S (proper subsets), the Hermitian matrix

        A = z E - E - J + sum_b beta_b (x) (1 - w_b),   E = e_0 e_0',

    where J pairs complementary subsets and beta_b pairs the subsets that are complementary once b is left out,
    has A^-1 = [F(S) (z - alpha Z)^-1 F(T)] up to terms without z; F(S) is the mean product over the
    orders of S, as in the exact lattice. State S carries the factor binom(B, |S|)^(1/2), which keeps entries of
    size one.

    Types: those of all B batches (`sizes`) and of the B - 1 batches other than a given one
    (`inner_sizes`). A vector on the subsets without b, of inner type k and size i, has the squared
    components (B - k - i) / (B - 2k) and (i - k) / (B - 2k) in the outer types k and k + 1.

    Parameters
    ----------
    batches : int
        B >= 1.
    """

    batches: int

    @cached_property
    def sizes(self) -> list[FloatArray]:
        """For each type, the sizes of subsets in which it occurs; the full set is no state."""
        top = [self.batches - max(k, 1) for k in range(self.batches // 2 + 1)]
        return [np.arange(k, last + 1.0) for k, last in enumerate(top) if last >= k]

    @cached_property
    def inner_sizes(self) -> list[FloatArray]:
        """The same for the subsets of B - 1 batches, the full one included."""
        return [np.arange(k, self.batches - k + 0.0) for k in range((self.batches + 1) // 2)]

    @cached_property
    def pairing(self) -> list[FloatArray]:
        """J in each type: sizes i and B - i, with the sign (-1)^k of a complement; zero at the empty set."""
        blocks = []
        for k, sizes in enumerate(self.sizes):
            block = (-1.0) ** k * (sizes[:, np.newaxis] + sizes == self.batches)
            blocks.append(block)
        return blocks

    @cached_property
    def coefficients(self) -> list[FloatArray]:
        """The blocks of beta_b in each inner type: (-1)^k ((i + 1)(j + 1))^(-1/2) where i + j = B - 1."""
        return [
            (-1.0) ** k
            * (sizes[:, np.newaxis] + sizes == self.batches - 1)
            / np.sqrt(np.outer(sizes + 1, sizes + 1))
            for k, sizes in enumerate(self.inner_sizes)
        ]

    @cached_property
    def links(self) -> list[list[Link]]:
        """For each inner type, where its vectors live among the outer types."""
        return [self._links_of(k, sizes) for k, sizes in enumerate(self.inner_sizes)]

    def _links_of(self, k: int, sizes: FloatArray) -> list[Link]:
        B = self.batches
        # B dim(inner) / dim(outer), with dim(k) = binom(B, k) - binom(B, k - 1).
        stays = self._link(
            k, sizes, (B - k - sizes) / (B - 2 * k), (B - 2 * k) * (B - k + 1) / (B - 2 * k + 1)
        )
        if k + 1 >= len(self.sizes):
            return [stays]
        rises = self._link(k + 1, sizes, (sizes - k) / (B - 2 * k), (k + 1) * (B - 2 * k) / (B - 2 * k - 1))
        return [stays, rises]

    def _link(self, outer: int, sizes: FloatArray, share: FloatArray, weight: float) -> Link:
        same = self.sizes[outer][:, np.newaxis] == sizes
        return Link(outer, same * np.sqrt(share), weight)

    @cached_property
    def modifier(self) -> FloatArray:
        """Pi_b = sum_S pi_S F(S) over the subsets without b, which is of inner type 0: (B (B - i))^(-1/2)."""
        return 1 / np.sqrt(self.batches * (self.batches - self.inner_sizes[0]))
