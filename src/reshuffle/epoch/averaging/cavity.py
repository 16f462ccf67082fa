"""The cavity equation: the mean over orders of shuffled samples, in polynomial time.

Every epoch visits the n samples in a uniformly random order, cut into B batches (`Visiting` has the visit). Let
G_t = I - Y K_t be the mean of the first t visits, and a_i(t) = u_i'Q E[first t visits | sample i not among them].
A sample is visited once per epoch, so what it meets on its turn is the work of the others:

    K_{t+1} = K_t + K_0 G_t + w P S_t,   S_t = sum_i u_i a_i(t)                                      (exact).

Take sample i out of the first t visits, and some other sample is in its place, each as likely as any. What i did
itself, w a_i(t-1-s) Y P u_i a_i(s) at visit s, is given back, and what the others do on average is taken:

    a_i(t) = u_i'Q H_t + e sum_{s<t} g_i(t-1-s) a_i(s),   g_i(t) = a_i(t) Y P u_i,   e = w n / (n-1),
    H_t    = G_t - e sum_{s<t} mean_j E[t-1-s visits | not j] Y P u_j u_j'Q E[s visits | not j].

The closure: in the last mean a sample is left out of one side at a time, E' E - mean E' mean E where both would
be, plus each side's own mean. All that is neglected is of samples that meet each other crosswise, i, j, i, j; it is
of order 1/n^2, and nothing if there are two batches. The equation for a_i is solved by numbers per sample,
a_i(t) = sum_{s<=t} rho_i(t-s) u_i'Q H_s (`SelfResponses`), so that samples speak to each other through the k x k
matrices M_t = sum_i rho_i(t) u_i u_i' alone. All functions of the visits are kept at few of them (`TimeNodes`),
and the path is found by iteration: each round takes a few weighted Gram matrices and products of small matrices.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy.fft

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._progress import track
from reshuffle.epoch.averaging.self_response import (
    GroupSelfResponses,
    SelfResponses,
    TimeNodes,
    convolve_nearly_diagonal,
)

# What a visit of shuffled samples does to the state: every sample by a matrix of rank one, the rest alike.

_MOST_MODES, _DEGREES, _MOST_SAMPLES, _FEWEST_SAMPLES = 200, 4, 30, 4
"""Modes, powers of time and samples that the functions of the visits are taken from; all others are alike."""


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
        """The kernel of the mean visit of each mode, (k, parts, parts)."""
        kernel = np.moveaxis(self.still, 2, 0).copy()
        kernel[:, :, 0] += self.weight * np.multiply.outer(self.squares, self.entry)
        return kernel

    @property
    def alone(self) -> FloatArray:
        """I - Y K (k, parts, parts), the mean visit of each mode, were all visits independent."""
        return np.asarray(np.eye(len(self.entry)) - self.grades.T[:, :, np.newaxis] * self._kernel)

    @property
    def alone_after(self) -> FloatArray:
        """I - K Y (k, parts, parts), the mean visit from the other side."""
        return np.asarray(np.eye(len(self.entry)) - self._kernel * self.grades.T[:, np.newaxis, :])

    def powers(self, maps: FloatArray) -> FloatArray:
        """The powers 0 .. B-1 of maps (modes, parts, parts), (B, modes, parts, parts)."""
        found = np.empty((self.steps, *maps.shape))
        found[0] = np.eye(maps.shape[1])
        for visit in range(1, self.steps):
            found[visit] = maps @ found[visit - 1]
        return found

    @cached_property
    def along(self) -> FloatArray:
        """u'Q G_t Y P u per mode (B, k), were visits independent."""
        return np.asarray(
            np.einsum("tkb,bk,b->tk", self.powers(self.alone)[:, :, 0], self.grades, self.entry)
        )

    @cached_property
    def strength(self) -> FloatArray:
        """w sum_t |u'Q G_t Y P u| (k,), the total effect of an epoch on each mode, were visits independent."""
        return np.asarray(self.weight * np.abs(self.along).sum(axis=0))

    @cached_property
    def strengths(self) -> FloatArray:
        """Bounds on the self response of each sample over an epoch, (n,)."""
        if self.size == 1:
            return self.strengths_of(self.rows)
        return np.asarray(np.linalg.norm(self.own_strengths(self.rows), axis=(1, 2)))

    def own_strengths(self, rows: FloatArray) -> FloatArray:
        """Effects of the rows of each of some samples (m * size, k) on each other, (m, size, size)."""
        samples = rows.reshape(-1, self.size, rows.shape[1])
        return np.asarray((samples * self.strength) @ samples.swapaxes(1, 2))

    def strengths_of(self, rows: FloatArray) -> FloatArray:
        """Bounds on the self responses of some samples (m, k), (m,)."""
        return np.asarray(np.square(rows) @ self.strength)

    def nodes(self, tolerance: float) -> TimeNodes | None:
        """The visits at which functions of the visits are computed.

        Their span is told from the powers of single modes, times powers of time, which is what small changes of the
        modes make of them, and from the self responses of a few samples, strong and weak ones, as independent
        visits would make them. None where they leave the range of numbers.
        """
        if not np.isfinite(self.along).all():
            return None
        functions = self.along if len(self.entry) == 1 else self.powers(self.alone).reshape(self.steps, -1)
        order = np.argsort(np.abs(functions).sum(axis=0))
        functions = functions[:, order[_spread(len(order), _MOST_MODES)]]
        time = np.linspace(0, 1, self.steps)[:, np.newaxis]
        shapes = [time**degree * functions for degree in range(_DEGREES)]
        strongest = np.argsort(self.strengths)[::-1]
        count = min(len(strongest), max(_MOST_SAMPLES // self.size, _FEWEST_SAMPLES))
        samples = np.geomspace(1, len(strongest), count).round().astype(int) - 1
        influence = self.along @ np.square(self._seen_apart(strongest[np.unique(samples)])).T
        # Constants are among them in any case: at step zero there is nothing else.
        together = np.hstack([np.ones((self.steps, 1)), *shapes, self_response(influence, self.exclusion)])
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
    """True if all visits weigh the same, but for the last."""
    return bool((shares[:-1] == shares[0]).all())


def _spread(count: int, most: int) -> IntArray:
    """At most so many of the numbers 0 .. count-1, evenly spread, the ends included."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def self_response(influence: FloatArray, exclusion: float) -> FloatArray:
    """The self response r (B, samples) to influence gamma (B, samples): r = e (g + g * r), g = gamma + r * gamma.

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
    # S - 1 would lose the digits of weak self responses.
    return _product(_product(gamma, following, size), following, size)


def _product(first: FloatArray, second: FloatArray, size: int) -> FloatArray:
    """The first coefficients (size, samples) of the product of power series (any, samples)."""
    length = scipy.fft.next_fast_len(len(first) + len(second) - 1, real=True)
    both = (scipy.fft.rfft(series, length, axis=0) for series in (first, second))
    product: FloatArray = scipy.fft.irfft(np.multiply(*both), length, axis=0)[:size]
    return product


_FINEST_SPAN, _COARSEST_SPAN = 1e-9, 1e-6
"""Functions of the visits that are smaller than that, relative to the largest, are left out."""
_COARSEST_ECHO = 1e-3
"""The largest tolerance of self responses, relative to the largest of them."""
_MOST_ROUNDS = 60
_MANY_MODES = 100
"""Modes from which on products of matrices take longer than to look for what can be left out of them."""
_OF_TOLERANCE = 0.1
"""The share of the tolerance that may be left out of a product."""


@dataclass(frozen=True, eq=False)
class Solution:
    """The mean of an epoch: v -> v - Y K v + Y E y, in the coordinates of `Visiting`.

    Attributes
    ----------
    kernel : (d, d)
        K.
    entries : (n, d)
        The columns of E, how the response of each sample enters, as rows.
    modifier : callable
        i -> the kernel (d, d) of the mean of the visits before the visit to sample i, I - Y K.
    pushed : callable
        f -> the entry (d,) of what enters as f (d,) at every visit.
    nodes : TimeNodes
        Visits at which the path is known.
    path : (q, d, d)
        K_t at the nodes.
    inner : (q, d, d)
        N_t at the nodes, with H_t = I - Y N_t.
    self_response : (q, n) or (q, n, m, m)
        rho_i(t + 1) at the nodes; matrices where a sample has m rows.
    """

    kernel: FloatArray
    entries: FloatArray
    modifier: Callable[[int], FloatArray]
    pushed: Callable[[FloatArray], FloatArray]
    nodes: TimeNodes
    path: FloatArray
    inner: FloatArray
    self_response: FloatArray


def solve(visiting: Visiting, tolerance: float) -> Solution | None:
    """Solve the cavity equation, until rounds change the mean map by less than a share `tolerance` of itself.

    None if they lead nowhere: steps so large that samples' influence on themselves grows without bound.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        enough, span = span_tolerance(visiting, tolerance)
        nodes = visiting.nodes(span)
        return None if nodes is None else CavityPath(visiting, tolerance, enough, nodes).solution()


def span_tolerance(visiting: Visiting, tolerance: float) -> tuple[float, float]:
    """Tolerances of the self responses and of the span of the functions of the visits."""
    # Samples change the map by no more than the strongest acts on itself: fewer digits of what they do will do.
    strength = min(1.0, float(visiting.strengths.max(initial=0.0)))
    enough = min(tolerance / max(strength, 1e-300), _COARSEST_ECHO)
    return enough, min(max(1e-2 * enough, _FINEST_SPAN), _COARSEST_SPAN)


class CavityPath:
    """K_t and H_t at the nodes, and one round of the iteration for them.

    Both sides of products are needed: with H_t = I - Y N_t, what comes after is I - N_t Y.
    """

    def __init__(self, visiting: Visiting, tolerance: float, enough: float, nodes: TimeNodes):
        self.visiting, self.tolerance, self.nodes = visiting, tolerance, nodes
        self.k, self.share = visiting.rows.shape[1], 1 / visiting.samples
        self._grades = visiting.grades.ravel()
        self._squares = visiting.squares[:, np.newaxis]
        self.enough = enough

    def _before(self, kernels: FloatArray) -> FloatArray:
        """I - Y K (..., d, d)."""
        return np.asarray(np.eye(len(self._grades)) - self._grades[:, np.newaxis] * kernels)

    def _after(self, kernels: FloatArray) -> FloatArray:
        """I - K Y (..., d, d)."""
        return np.asarray(np.eye(len(self._grades)) - kernels * self._grades)

    def solution(self) -> Solution | None:
        """The mean of the epoch, where all samples are at hand."""
        found = self.settled()
        if found is None:
            return None
        end, kernels, inner, _ = found
        solver, rho = self._followed
        modifier, pushed = partial(self._modifier, inner, rho), partial(self._pushed, kernels)
        entries = self.entries(inner, solver, rho)
        return Solution(end, entries, modifier, pushed, self.nodes, kernels, inner, rho)

    def settled(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray] | None:
        """Iterate from independent visits on, until the mean map stays as it is or is no longer a number.

        K_B, K_t and N_t at the nodes, and the influence that the last self responses were followed from.
        """
        kernels, end = self._integrate(np.zeros((len(self.nodes.nodes), self.k, len(self._grades))))
        inner = kernels
        for _ in track(range(_MOST_ROUNDS), None, "solving the cavity equation"):
            influence = self._influence(inner)
            grams = self.grams(influence)
            if grams is None:
                return None
            kernels, inner, following = self._round(kernels, inner, grams)
            change = float(np.abs(following - end).max(initial=0.0) / np.abs(following).max(initial=1e-300))
            end = following
            if change <= self.tolerance:
                return end, kernels, inner, influence
        return None

    def _influence(self, inner: FloatArray) -> FloatArray:
        """Gamma (q, k, k), shared by all samples: u_i'Gamma_t u_i is what sample i meets of its own influence."""
        return self.visiting.seen(self._before(inner)[:, : self.k] * self._grades)

    def solver_for(self, rows: FloatArray) -> SelfResponses | GroupSelfResponses:
        """The solver for the self responses of some samples (m, k)."""
        size, exclusion = self.visiting.size, self.visiting.exclusion
        if size > 1:
            return GroupSelfResponses(rows, size, self.nodes, exclusion, self.enough)
        return SelfResponses(rows, self.nodes, exclusion, self.enough)

    @cached_property
    def _solver(self) -> SelfResponses | GroupSelfResponses:
        return self.solver_for(self.visiting.rows)

    def grams(self, influence: FloatArray) -> FloatArray | None:
        """sum_i r_i u_i u_i' (q, k, k), of the self responses of all samples; None if they are no numbers."""
        self._followed = self._solver, self._solver.follow(influence)
        solver, rho = self._followed
        return solver.weighted_grams(rho) if np.isfinite(rho).all() else None

    def _round(
        self, kernels: FloatArray, inner: FloatArray, grams: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """K_t and N_t at the nodes, and K_B, from those of the round before."""
        before, after = self._before(inner)[:, : self.k], self.visiting.seen(self._after(inner))
        met = self._squares * before + self._convolve(grams, before)
        left = after * self._squares.T + self._convolve(after, grams)
        kernels, end = self._integrate(met - self._squares * self._before(kernels)[:, : self.k])
        return kernels, kernels + self.visiting.exclusion * self._others(kernels, met, left), end

    def _integrate(self, sources: FloatArray) -> tuple[FloatArray, FloatArray]:
        """K_t at the nodes and K_B, where S_t is U'U Q G_t plus sources (q, k, d).

        Modes see each other through the sources alone: K_t is the convolution of the powers of what a visit does to
        each mode by itself with all that is added per visit.
        """
        visiting, nodes = self.visiting, self.nodes
        parts, k = visiting.grades.shape
        constant = visiting.rest(np.eye(parts * k)) + visiting.weight * visiting.push(
            self._squares * np.eye(parts * k)[:k]
        )
        added = constant + visiting.weight * visiting.push(sources)
        # A product for every mode, of all times at once: (times a, visits b) with (visits b, columns). Shapes are
        # written out: features that are all zero have no modes, and of an empty array -1 cannot be told.
        visits = len(added) * parts
        apart = added.reshape(len(added), parts, k, parts * k).transpose(2, 0, 1, 3)
        by_mode = apart.reshape(k, visits, parts * k)
        powers = visiting.powers(visiting.alone_after)[nodes.nodes]
        times = [*nodes.nodes.tolist(), visiting.steps if visiting.last == 1 else visiting.steps - 1]
        rules = [np.einsum("pq,pkab->kaqb", nodes.convolution_at(t), powers) for t in times]
        met = np.stack(rules, axis=1).reshape(k, len(times) * parts, visits) @ by_mode
        by_time = met.reshape(k, len(times), parts, parts * k).transpose(1, 2, 0, 3)
        found = by_time.reshape(len(times), parts * k, parts * k)
        kernels, before_last = found[:-1], found[-1]
        if visiting.last == 1:
            return kernels, before_last
        state = self._before(before_last)
        met = self._squares * state[:k] + np.tensordot(nodes.rule[-1], sources, 1)
        return kernels, before_last + visiting.rest(state) + visiting.weight * visiting.last * visiting.push(
            met
        )

    def _others(self, kernels: FloatArray, met: FloatArray, left: FloatArray) -> FloatArray:
        """The mean effect of the others in the place of a sample, (q, d, d): each side in turn leaves it out."""
        after = self.visiting.seen(self._after(kernels))
        before = self._before(kernels)[:, : self.k]
        others = self._convolve(after, self.share * (met - self._squares * before))
        return others + self._convolve(self.share * left, before)

    def _convolve(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Of many modes, by their diagonals and what little there is beside."""
        if self.k >= _MANY_MODES and first.shape == second.shape:
            return convolve_nearly_diagonal(self.nodes, first, second, _OF_TOLERANCE * self.tolerance)
        return self.nodes.convolve(first, second)

    def entries(
        self, inner: FloatArray, solver: SelfResponses | GroupSelfResponses, rho: FloatArray
    ) -> FloatArray:
        """The mean over its visits of what comes after a sample's own, w sum_t E[visits after t | not i] P u_i.

        The last visit is affine in its weight: what is cut short lies between a whole visit and none.
        """
        visiting, steps = self.visiting, self.visiting.steps
        after = self.visiting.seen(self._after(inner))
        whole = solver.weighted_images(self._visited(solver, rho, steps), after, self.tolerance)
        if visiting.last != 1:
            short = solver.weighted_images(self._visited(solver, rho, steps - 1), after, self.tolerance).T
            none = short - visiting.rest(self._grades[:, np.newaxis] * short)
            whole = visiting.last * whole + (1 - visiting.last) * none.T
        return np.asarray(visiting.weight * whole)

    def _pushed(self, kernels: FloatArray, force: FloatArray) -> FloatArray:
        """The sum over the visits of what comes after, E[visits after t] f: like `entries`, of no sample."""
        steps, rule, last = self.visiting.steps, self.nodes.rule, self.visiting.last
        lost = kernels @ (self._grades * force)
        whole = steps * force - rule.sum(axis=0) @ lost
        if last == 1:
            return np.asarray(whole)
        short = ((steps - 1) * force - rule[:-1].sum(axis=0) @ lost)[:, np.newaxis]
        none = short - self.visiting.rest(self._grades[:, np.newaxis] * short)
        return np.asarray(last * whole + (1 - last) * (force + none[:, 0]))

    def _modifier(self, inner: FloatArray, rho: FloatArray, sample: int) -> FloatArray:
        """The mean over the visits t at which a sample may be of K in E[t visits | not i] = I - Y K."""
        nodes, size = self.nodes, self.visiting.size
        rows = self.visiting.rows[size * sample : size * (sample + 1)]
        rhythm = rho[:, sample].reshape(-1, size, size)
        after = self.visiting.seen(self._after(inner)) @ rows.T
        before = rows @ self._before(inner)[:, : self.k]
        after, before = after + nodes.convolve(after, rhythm), before + nodes.convolve(rhythm, before)
        kernels = inner - self.visiting.exclusion * nodes.convolve(after, before)
        weights = np.ones(self.visiting.steps)
        weights[-1] = self.visiting.last
        return np.asarray(np.tensordot(weights @ nodes.rule / weights.sum(), kernels, 1))

    def _visited(self, solver: SelfResponses | GroupSelfResponses, rho: FloatArray, steps: int) -> FloatArray:
        """The weights (q, n) of H at the nodes in sum_{t<steps} sum_{s<=t} rho_i(t-s) H_s."""
        total = np.multiply.outer(self.nodes.rule[:steps].sum(axis=0), solver.alone)
        return np.asarray(total + np.tensordot(self.nodes.summed_convolution(steps), rho, 1))
