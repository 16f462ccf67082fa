"""The subset lattice over parameters: exact means of an epoch when the batches have many rows.

With rows C = U R, U'U = I (R triangular), and P_b = U_b'U_b / m_b, every average of products over the
orderings of S is F(S) = I - step R' D(S) R with a symmetric (r, r) kernel, and

    D(S) = mean over b in S of [ P_b + (I - step P_b R R') D(S - b) ].

Each batch enters through its statistics alone, at 2 r^3 operations a visit.
"""

from functools import partial

import numpy as np

from reshuffle._core import FloatArray
from reshuffle._core.numerics import thin_qr
from reshuffle._core.progress import track
from reshuffle._core.threads import each
from reshuffle.epoch.lattice.subsets import elements, layer, prefix_weights
from reshuffle.problem.blocks import Blocks


class ParameterLattice:
    """The lattice of one set of batches, at one step.

    Attributes
    ----------
    factor : (r, r)
        R.
    kernel : (r, r)
        K with Z = R'K R.
    pull : (r, q)
        A with Xtilde' = n R'A on the rows of the blocks.
    prefix_means : list of (r, r)
        E_b with Pi_b = I - step R'E_b R.
    """

    def __init__(self, blocks: Blocks, step: float):
        orthonormal, self.factor = thin_qr(blocks.rows)
        parts = [orthonormal[blocks.of(batch)] for batch in range(blocks.batches)]
        self._shares: list[FloatArray] = [
            part.T @ part / count for part, count in zip(parts, blocks.divisors, strict=True)
        ]
        gram = self.factor @ self.factor.T
        self._side = len(gram)
        self._visits: list[FloatArray] = [_without(step * (share @ gram)) for share in self._shares]
        self.prefix_means = [np.zeros_like(gram) for _ in parts]
        total = self._climb()
        self.kernel = (total + total.T) / (2 * blocks.batches)
        self.pull = np.hstack(
            [
                _without(step * (mean @ gram)) @ part.T / (blocks.batches * count)
                for mean, part, count in zip(self.prefix_means, parts, blocks.divisors, strict=True)
            ]
        )

    def _climb(self) -> FloatArray:
        """Fill the prefix means on the way up, and return D(all)."""
        batches = len(self._shares)
        everything = (1 << batches) - 1
        current = {0: np.zeros_like(self._shares[0])}
        for size, weight in track(enumerate(prefix_weights(batches)), batches, "averaging orders"):
            for subset, mean in current.items():
                for batch in elements(everything ^ subset):
                    self.prefix_means[batch] += weight * mean
            following = list(layer(list(range(batches)), size + 1))
            averages = each(
                partial(self._average, previous=current), following, self._side * np.cbrt(size + 1)
            )
            current = dict(zip(following, averages, strict=True))
        return current[everything]

    def _average(self, subset: int, previous: dict[int, FloatArray]) -> FloatArray:
        members = elements(subset)
        mean = np.zeros_like(self._shares[0])
        for batch in members:
            mean += self._shares[batch]
            mean += self._visits[batch] @ previous[subset ^ (1 << batch)]
        mean /= len(members)
        return mean


def _without(taken: FloatArray) -> FloatArray:
    """I - taken, in the memory of what is taken: the layers of the lattice leave no room for an identity."""
    np.negative(taken, out=taken)
    taken.flat[:: len(taken) + 1] += 1
    return taken
