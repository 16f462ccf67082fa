"""What a visit of shuffled samples does to the state: every sample by a matrix of rank one, the rest alike."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.fft

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.epoch.cavity.time_nodes import TimeNodes

_MOST_MODES, _DEGREES, _MOST_SAMPLES = 200, 4, 30
"""From how many modes, powers of time and samples the functions of the visits are taken; all others are alike."""


@dataclass(frozen=True, eq=False)
class Visiting:
    """An epoch of shuffled samples on states of d = parts * k coordinates.

    A visit to the samples of a batch sends v to v - Y (K_0 + (w n / m) sum_i P u_i u_i'Q) v.

    Attributes
    ----------
    rows : (n, k)
        u_i; U'U is diagonal.
    grades : (parts, k)
        Y.
    still : (parts, parts, k)
        K_0, made of diagonal blocks.
    entry : (parts,)
        P = entry (x) I; Q takes the first part.
    weight : float
        w, of a sample in the mean of a visit.
    last : float
        What the last visit weighs beside the others: less than one if its batch is cut short but not its divisor.
    steps : int
        B.
    size : int
        How many rows a sample has, which are always visited together: then u_i is a matrix U_i of them.
    """

    rows: FloatArray
    grades: FloatArray
    still: FloatArray
    entry: FloatArray
    weight: float
    last: float
    steps: int
    size: int = 1

    @cached_property
    def squares(self) -> FloatArray:
        """The diagonal of U'U (k,)."""
        return np.asarray(np.einsum("ij,ij->j", self.rows, self.rows))

    @property
    def dimension(self) -> int:
        """The length d of the state."""
        return self.grades.size

    @property
    def samples(self) -> int:
        """n."""
        return len(self.rows) // self.size

    @property
    def exclusion(self) -> float:
        """The weight w n / (n - 1) of a sample in the mean over all samples but one."""
        n = self.samples
        return self.weight * n / max(n - 1, 1)

    def push(self, matrix: FloatArray) -> FloatArray:
        """P M (..., d, m) for M (..., k, m)."""
        return np.concatenate([part * matrix for part in self.entry], axis=-2)

    def seen(self, matrix: FloatArray) -> FloatArray:
        """M P (..., m, k) for M (..., m, d)."""
        parts = np.split(matrix, len(self.entry), axis=-1)
        return np.asarray(sum(part * block for part, block in zip(self.entry, parts, strict=True)))

    def rest(self, matrix: FloatArray) -> FloatArray:
        """K_0 M (d, m) for M (d, m)."""
        blocks = matrix.reshape(*self.grades.shape, matrix.shape[1])
        return np.asarray(np.einsum("abk,bkm->akm", self.still, blocks).reshape(matrix.shape))

    @cached_property
    def _kernel(self) -> FloatArray:
        """That of the mean visit of each mode, (k, parts, parts)."""
        kernel = np.moveaxis(self.still, 2, 0).copy()
        kernel[:, :, 0] += self.weight * np.multiply.outer(self.squares, self.entry)
        return kernel

    @property
    def alone(self) -> FloatArray:
        """What the mean visit does to each mode, were all visits independent: I - Y K (k, parts, parts)."""
        return np.asarray(np.eye(len(self.entry)) - self.grades.T[:, :, np.newaxis] * self._kernel)

    @property
    def alone_after(self) -> FloatArray:
        """The same from the other side: I - K Y (k, parts, parts)."""
        return np.asarray(np.eye(len(self.entry)) - self._kernel * self.grades.T[:, np.newaxis, :])

    def powers(self, maps: FloatArray) -> FloatArray:
        """The powers 0 .. B-1 of maps (modes, parts, parts), (B, modes, parts, parts)."""
        found = np.empty((self.steps, *maps.shape))
        found[0] = np.eye(maps.shape[1])
        for visit in range(1, self.steps):
            found[visit] = maps @ found[visit - 1]
        return found

    @cached_property
    def _along(self) -> FloatArray:
        """What u'Q G_t Y P u would be per mode if visits were independent, (B, k)."""
        return np.asarray(
            np.einsum("tkb,bk,b->tk", self.powers(self.alone)[:, :, 0], self.grades, self.entry)
        )

    @cached_property
    def strength(self) -> FloatArray:
        """What an epoch does to each mode in total, w sum_t |u'Q G_t Y P u| (k,), were visits independent."""
        return np.asarray(self.weight * np.abs(self._along).sum(axis=0))

    @cached_property
    def strengths(self) -> FloatArray:
        """How strongly each sample acts on itself in the course of an epoch (n,), at most."""
        if self.size == 1:
            return self.strengths_of(self.rows)
        return np.asarray(np.linalg.norm(self.own_strengths(self.rows), axis=(1, 2)))

    def own_strengths(self, rows: FloatArray) -> FloatArray:
        """How strongly the rows of each of some samples (m * size, k) act on each other, (m, size, size)."""
        samples = rows.reshape(-1, self.size, rows.shape[1])
        return np.asarray((samples * self.strength) @ samples.swapaxes(1, 2))

    def strengths_of(self, rows: FloatArray) -> FloatArray:
        """The same of some samples (m, k)."""
        return np.asarray(np.square(rows) @ self.strength)

    def nodes(self, tolerance: float) -> TimeNodes | None:
        """The visits at which functions of the visits are computed.

        Their span is told from the powers of single modes, times powers of time, which is what small changes of the
        modes make of them, and from the echoes of a few samples, strong and weak ones, as independent visits would
        make them. None where they leave the range of numbers.
        """
        if not np.isfinite(self._along).all():
            return None
        functions = self._along if len(self.entry) == 1 else self.powers(self.alone).reshape(self.steps, -1)
        order = np.argsort(np.abs(functions).sum(axis=0))
        functions = functions[:, order[_spread(len(order), _MOST_MODES)]]
        time = np.linspace(0, 1, self.steps)[:, np.newaxis]
        shapes = [time**degree * functions for degree in range(_DEGREES)]
        strongest = np.argsort(self.strengths)[::-1]
        samples = np.geomspace(1, len(strongest), min(len(strongest), _MOST_SAMPLES)).round().astype(int) - 1
        influence = self._along @ np.square(self._seen_apart(strongest[np.unique(samples)])).T
        # Constants are among them in any case: at step zero there is nothing else.
        together = np.hstack([np.ones((self.steps, 1)), *shapes, echo(influence, self.exclusion)])
        if not np.isfinite(together).all():
            return None
        together = together[:, together.any(axis=0)]
        return TimeNodes.spanning(together / np.abs(together).max(axis=0), tolerance)

    def _seen_apart(self, chosen: IntArray) -> FloatArray:
        """The rows of some samples, turned so that those of a sample hardly act on each other."""
        if self.size == 1:
            return self.rows[chosen]
        samples = self.rows.reshape(self.samples, self.size, -1)[chosen]
        _, turns = np.linalg.eigh(self.own_strengths(samples.reshape(-1, samples.shape[2])))
        return np.asarray((turns.swapaxes(1, 2) @ samples).reshape(-1, samples.shape[2]))


def are_alike(shares: FloatArray) -> bool:
    """Whether all visits weigh the same, but for the last."""
    return bool((shares[:-1] == shares[0]).all())


def _spread(count: int, most: int) -> IntArray:
    """At most so many of the numbers 0 .. count-1, evenly spread, the ends included."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def echo(influence: FloatArray, exclusion: float) -> FloatArray:
    """The echo r (B, samples) of an influence gamma (B, samples): r = e (g + g * r), g = gamma + r * gamma.

    As power series in z, where the convolution is a product times z, R = e Gamma S^2 with S = 1 + z R. So
    S = 1 + e z Gamma S^2, which S = 2 / (1 + (1 - 4 e z Gamma)^(1/2)) solves.
    """
    size, gamma = len(influence), exclusion * influence
    under_root = np.vstack([np.ones((1, gamma.shape[1])), -4 * gamma])[:size]
    inverse_root = np.ones((1, gamma.shape[1]))
    while len(inverse_root) < size:
        # Newton's method, W (3 - D W^2) / 2, doubles the number of terms that are known.
        longer = min(2 * len(inverse_root), size)
        missing = -_product(under_root[:longer], _product(inverse_root, inverse_root, longer), longer)
        missing[0] += 3
        inverse_root = _product(missing, inverse_root, longer) / 2
    divisor = _product(under_root, inverse_root, size) / 2
    divisor[0] += 0.5
    following = np.ones((1, gamma.shape[1]))
    while len(following) < size:
        longer = min(2 * len(following), size)
        missing = -_product(divisor[:longer], following, longer)
        missing[0] += 2
        following = _product(missing, following, longer)
    # S - 1 would lose the digits of weak echoes.
    return _product(_product(gamma, following, size), following, size)


def _product(first: FloatArray, second: FloatArray, size: int) -> FloatArray:
    """The first coefficients (size, samples) of the product of power series (any, samples)."""
    length = scipy.fft.next_fast_len(len(first) + len(second) - 1, real=True)
    both = (scipy.fft.rfft(series, length, axis=0) for series in (first, second))
    product: FloatArray = scipy.fft.irfft(np.multiply(*both), length, axis=0)[:size]
    return product
