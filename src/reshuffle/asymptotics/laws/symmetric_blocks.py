"""Matrices over the subsets of exchangeable batches: their blocks, and the numbers that fill them."""

import itertools
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.asymptotics.laws.subset_symmetry import SubsetSymmetry
from reshuffle.free.checks import Complex

Blocks = list[Any]
"""One matrix for each type, (..., sizes, sizes)."""


class SymmetricBlocks:
    """How symmetric matrices on the subsets without a batch are packed, spread over all subsets, and restricted.

    Parameters
    ----------
    batches : int

    Attributes
    ----------
    symmetry : SubsetSymmetry
    outer : for each type of all subsets, the rows that it has
    size : of all of them
    triangles : for each inner type, the rows and columns on and above the diagonal
    unknowns : how many numbers fill the inner blocks
    indices : for each inner type, the unknown that fills each entry
    """

    def __init__(self, batches: int):
        self.symmetry = SubsetSymmetry(batches)
        ends = np.cumsum([0, *(len(sizes) for sizes in self.symmetry.sizes)])
        self.outer = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        self.size = int(ends[-1])
        self.triangles = [np.triu_indices(len(sizes)) for sizes in self.symmetry.inner_sizes]
        self.unknowns = sum(len(rows) for rows, _ in self.triangles)
        self.indices = self._layout()

    def _layout(self) -> list[IntArray]:
        """For each inner type, the unknown that fills each entry."""
        indices, start = [], 0
        for sizes, (rows, columns) in zip(self.symmetry.inner_sizes, self.triangles, strict=True):
            index = np.zeros((len(sizes), len(sizes)), dtype=np.int64)
            index[rows, columns] = index[columns, rows] = start + np.arange(len(rows))
            indices.append(index)
            start += len(rows)
        return indices

    def spread(self, inner: Sequence[Any]) -> Blocks:
        """Sum over b of a matrix on the subsets without b, in the outer types."""
        outer: list[Any] = [0.0] * len(self.outer)
        for block, links in zip(inner, self.symmetry.links, strict=True):
            for link in links:
                outer[link.outer] = outer[link.outer] + link.weight * (
                    link.embedding @ block @ link.embedding.T
                )
        return outer

    def restrict(self, outer: Sequence[Any]) -> Blocks:
        """A matrix on all subsets, seen from those without a given batch, in the inner types."""
        shape = outer[0].shape[:-2]
        flat = [block.reshape(*shape, -1) for block in outer]
        inner = [sum(flat[number] @ matrix for number, matrix in parts) for parts in self._restricting]
        return [
            np.asarray(block).reshape(*shape, len(sizes), len(sizes))
            for block, sizes in zip(inner, self.symmetry.inner_sizes, strict=True)
        ]

    @cached_property
    def _restricting(self) -> list[list[tuple[int, Complex]]]:
        """For each inner type, what it has of each outer one, (sizes^2, inner sizes^2): one product for all."""
        return [
            [(link.outer, np.kron(link.embedding, link.embedding).astype(complex)) for link in links]
            for links in self.symmetry.links
        ]

    @cached_property
    def _spreading(self) -> list[Complex]:
        """`spread` of each unknown, (unknowns, sizes^2) for each outer type."""
        outer = self.spread(self.unpack(np.eye(self.unknowns, dtype=complex)))
        return [block.reshape(self.unknowns, -1) for block in outer]

    def spread_unknowns(self, unknowns: Complex) -> Blocks:
        """The sum over b of H_b, from vectors (..., unknowns)."""
        shape = unknowns.shape[:-1]
        return [
            (unknowns @ matrix).reshape(*shape, len(sizes), len(sizes))
            for matrix, sizes in zip(self._spreading, self.symmetry.sizes, strict=True)
        ]

    def unpack(self, vector: Complex) -> Blocks:
        """The blocks of H, one for each inner type, from vectors (..., unknowns)."""
        return [vector[..., index] for index in self.indices]

    def pack(self, blocks: Sequence[Complex]) -> Complex:
        """The inverse of `unpack`."""
        pieces = [
            block[..., rows, columns] for block, (rows, columns) in zip(blocks, self.triangles, strict=True)
        ]
        return np.concatenate(pieces, axis=-1)

    @cached_property
    def crossings(self) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        """For each outer type the inner entries that meet it, where they lie in it, and their factors both ways."""
        starts = np.cumsum([0, *(index.size for index in self.indices)])
        columns: tuple[list[Any], list[Any], list[Any], list[Any]] = ([], [], [], [])
        for outer, sizes in enumerate(self.symmetry.sizes):
            pieces: list[tuple[Any, ...]] = []
            for start, index, links in zip(starts, self.indices, self.symmetry.links, strict=False):
                for link in (link for link in links if link.outer == outer):
                    row, share = np.argmax(link.embedding, axis=0), link.embedding.max(axis=0)
                    factor = np.outer(share, share).ravel()
                    place = (row[:, np.newaxis] * len(sizes) + row).ravel()
                    pieces.append((start + np.arange(index.size), place, factor, link.weight * factor))
            for column, parts in zip(columns, zip(*pieces, strict=True), strict=True):
                column.append(np.concatenate(parts))
        return columns

    @cached_property
    def unknown_of_entry(self) -> IntArray:
        """The unknown of each entry of the inner blocks, (entries,)."""
        return np.concatenate([index.ravel() for index in self.indices])

    @cached_property
    def first_entries(self) -> IntArray:
        """The first entry that each unknown fills, (unknowns,)."""
        return np.unique(self.unknown_of_entry, return_index=True)[1]

    @cached_property
    def folded(self) -> list[tuple[IntArray, IntArray, IntArray, FloatArray]]:
        """For each outer type: pairs of unknowns, where the maps hold them and the mirror image, their factors."""
        every, first = self.unknown_of_entry, self.first_entries
        mirror = len(every) - 1 - np.unique(every[::-1], return_index=True)[1]
        result = []
        for entries, places, down, up, sizes in zip(*self.crossings, self.symmetry.sizes, strict=True):
            # Of symmetric moves and images the entries on and above the diagonals tell all.
            upper = np.isin(entries, first)
            unknown, row, width = every[entries[upper]], places[upper], len(sizes) ** 2
            where = dict(zip(entries.tolist(), places.tolist(), strict=True))
            below = np.array([where[int(mirror[u])] for u in unknown])
            twice = np.where(first[unknown] != mirror[unknown], 1.0, 0.5)
            result.append(
                (
                    (unknown[:, np.newaxis] * self.unknowns + unknown).ravel(),
                    (row[:, np.newaxis] * width + row).ravel(),
                    (row[:, np.newaxis] * width + below).ravel(),
                    np.outer(down[upper], up[upper] * twice).ravel(),
                )
            )
        return result

    @property
    def entries(self) -> int:
        """Of all inner blocks, where they are not symmetric."""
        return sum(index.size for index in self.indices)
