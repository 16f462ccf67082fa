"""Second moments of the state over the orders of an epoch and the noise: one recursion for every recipe.

A visit to batch b sends the state to G z + H y, G = F - P R: R are the rows of the batch, and F is what every visit
does (`epoch/visits.py`). Orders are merged where the same batches have been visited: M(S), the mean of E z z' over
the orders of the batches in S, is a mean over the batch b of S that came last,

    M(S) = mean over b of [ G M(S-b) G' + Y + Y' + noise^2 H H' ],      Y = G F(S-b) C_b H',

with C_b = E z eta_b' before the epoch: nothing of the noise of batch b has entered before its visit, and only the
mean map F(S-b) has acted on it. Given the responses, the covariance V and the mean m of the state obey the law of
total covariance, V(S) = mean of G V(S-b) G' + covariance of the means that come together in S.

All is written for what an epoch adds to the moments, in the coordinates R z of `EpochMap`, in which it is as small
as the modes are slow. Nodes are stacked: one product serves all subsets that batch b is visited from.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._budget import CALL
from reshuffle._linalg import few_threads
from reshuffle.epoch.averaging.lattice import Walk, climbs, fits_in_memory, follow
from reshuffle.epoch.timeline import Timeline
from reshuffle.epoch.visits import Inputs, MeanVisits, Visits
from reshuffle.errors import UnsupportedError
from reshuffle.schemes.base import Shuffle, Unit

_FEW_ROWS = 0.6
"""Rows of a batch, relative to the rank, below which two products with them are cheaper than one with their Gram
matrix: both take as long at 0.6 and rank 100."""
_NEAR_BYTES = 1.2e5  # memory of the matrices that are averaged at once: little enough to stay near a core
_CALLS = 3  # calls with small matrices that the visits to a batch take, for some nodes at once
_UNCHANGED = 1e-15  # relative change in an epoch below which the next ones are not worth their time


def flops(walk: Walk, dimension: int, rank: int, rows: float, count: int = 1) -> float:
    """Operations of an epoch of `count` second moments, calls included; infinite if memory is out of reach.

    `rows` is the mean number of rows of a batch.
    """
    d, first = float(dimension), min(rows, rank)
    each = 8.0 * d * d * count
    if climbs(walk.scheme) and not fits_in_memory(walk.steps, 2 * each):
        return np.inf
    products = count * (4 * first * rank * d + 2 * first * rank**2 + 40 * d * d)
    at_once = max(1.0, _NEAR_BYTES / max(each, 1.0))
    if (walk.scheme.shuffle, walk.scheme.unit) == (Shuffle.EVERY_STEP, Unit.SAMPLE):
        # One mean visit in every step, and the covariance of what it draws from all rows.
        return float(walk.steps * (products + 4 * (count + 1) * walk.n * rank**2 + _CALLS * CALL))
    return float(walk.visits * products + _CALLS * CALL * max(walk.visits / at_once, walk.kinds))


@dataclass(frozen=True, eq=False)
class _Batch:
    """The gradient W = U'U + penalty of a batch: by its rows U, or by `gram` = W where that is quicker.

    With a Gram matrix noise is reduced to U'w eta.
    """

    rows: FloatArray  # U (m, r), in the coordinates R z, times the roots
    roots: FloatArray  # (m, 1) of their weights in the gradient
    columns: IntArray  # (m,): their places among all inputs
    gram: FloatArray | None
    noise_rows: FloatArray  # what noise of variance 1 adds: w U or its reduction

    @classmethod
    def of(cls, visits: Visits, batch: int) -> "_Batch":
        """The gradient of a batch."""
        rows, weights = visits.weighted_rows(batch)
        roots, penalty = np.sqrt(weights)[:, np.newaxis], visits.penalty_matrix
        scaled, weighted, gram = roots * rows, np.square(roots) * (roots * rows), None
        if penalty.ndim == 2 or len(rows) > _FEW_ROWS * visits.rank:
            gram, weighted = scaled.T @ scaled, scaled.T @ weighted
            if penalty.ndim == 2 and visits.penalty:
                gram = gram + penalty
        return cls(scaled, roots, visits.columns(batch), gram, weighted)

    def gradient(self, states: FloatArray) -> FloatArray:
        """W u for states u (..., r)."""
        flat = states.reshape(-1, states.shape[-1])
        flat = flat @ self.gram if self.gram is not None else (flat @ self.rows.T) @ self.rows
        return flat.reshape(states.shape)

    def reduced(self, cross: FloatArray) -> FloatArray:
        """E eta z' (..., m, d) in the units of the rows, as `lost` takes it."""
        cross = self.roots * cross
        return cross if self.gram is None else self.rows.T @ cross

    def lost(
        self, seen: FloatArray, cross: FloatArray | None, noise: float, step: "_Step"
    ) -> tuple[FloatArray, FloatArray | None]:
        """A (nodes, r, s, d) and B (nodes, r, s, r) of the loss L = A F' - B P' of second moments in a visit.

            G M G' + Y + Y' + noise^2 H H' = F M F' - P L - L'P'

        for the first rows of M, (nodes, r, s, d), and noise E eta z' (nodes, m, d), reduced; A = L if F = I.
        """
        nodes, r, count, d = seen.shape
        first = self.rows if self.gram is None else self.gram
        gradients: FloatArray = (first @ seen.reshape(nodes, r, -1)).reshape(nodes, len(first), count, d)
        half = gradients[..., :r] / 2
        if cross is not None:
            half -= cross[:, :, np.newaxis, :r]
            gradients -= cross[:, :, np.newaxis]
        inner = self.gradient(half)
        if cross is not None:
            inner += noise**2 / 2 * self.noise_rows[:, np.newaxis]
        if step.moves is None:
            gradients -= step.pushed(inner)
            if self.gram is None:
                gradients = (self.rows.T @ gradients.reshape(nodes, len(first), -1)).reshape(seen.shape)
            return gradients, None
        if self.gram is None:
            both = np.concatenate([gradients, inner], axis=-1).reshape(nodes, len(first), -1)
            both = (self.rows.T @ both).reshape(nodes, r, count, d + r)
            return both[..., :d], both[..., d:]
        return gradients, inner


@dataclass(frozen=True, eq=False)
class _Step:
    """P = push (x) W and F = I + moves of a visit: (parts, r), and (parts, parts, r) if it is not zero."""

    push: FloatArray
    moves: FloatArray | None

    @classmethod
    def of(cls, visits: Visits, slot: int) -> "_Step":
        """P and F in a slot."""
        r, parts, scaled = visits.rank, visits.dimension // visits.rank, visits.hyperparameters
        grades, units = visits.left * visits.right, np.kron(np.eye(parts), np.ones((r, 1)))
        # Visits to a batch of no rows do what every visit does; a penalty matrix is left to the gradient.
        if visits.penalty_matrix.ndim == 2:
            scaled = replace(scaled, penalty=0.0)
        nothing = visits.blocks.with_batches([np.zeros(0, dtype=np.intp)], np.ones(1))
        alone = Visits(nothing, scaled, visits.average)
        blocks = (grades[:, np.newaxis] * alone.kernel(0, np.asarray(units, dtype=np.float64), slot)).T
        moves = -blocks.reshape(parts, parts, r).swapaxes(0, 1) if blocks.any() else None
        return cls((grades * visits.pushed(np.ones(r), slot)).reshape(parts, r), moves)

    @cached_property
    def _blocks(self) -> list[tuple[slice, slice, FloatArray]]:
        """The blocks of F - I that are not zero: to which part, of which part, and what (r,)."""
        if self.moves is None:
            return []
        parts, _, rank = self.moves.shape
        places = [slice(part * rank, (part + 1) * rank) for part in range(parts)]
        some = zip(*np.nonzero(self.moves.any(axis=2)), strict=True)
        return [(places[to], places[of], self.moves[to, of]) for to, of in some]

    def moved(self, states: FloatArray) -> FloatArray:
        """(F - I) z for states z (..., d)."""
        made = np.zeros_like(states)
        for to, of, block in self._blocks:
            made[..., to] += block * states[..., of]
        return made

    def conjugated(self, matrices: FloatArray) -> FloatArray:
        """F M F' - M = M (F - I)' + (F - I) M F' for symmetric M (nodes, d, s, d)."""
        made = self.moved(matrices)
        right = matrices + made
        for to, of, block in self._blocks:
            made[:, to] += block[:, np.newaxis, np.newaxis] * right[:, of]
        return made

    def pushed(self, gradients: FloatArray) -> FloatArray:
        """P g (..., d) for gradients g (..., r)."""
        if len(self.push) == 1:
            return gradients * self.push
        made = gradients[..., np.newaxis, :] * self.push
        return made.reshape(*gradients.shape[:-1], self.push.size)


Entry: TypeAlias = Callable[[int, int], tuple[IntArray, FloatArray]]
"""(batch, slot) -> the states that a visit adds to, on top of its map of all states, and what it adds."""


class EpochMoments:
    """The map of second moments by the epoch after `epoch` others of a timeline with a fresh order in every epoch.

    Inputs are noise or given responses, and the force of a penalty. The state has at least one coordinate.
    """

    def __init__(self, timeline: Timeline, inputs: Inputs, epoch: int = 0):
        self.walk, self.visits, self.inputs = timeline.walk, timeline.visits(epoch), inputs
        self.layers, self.timeline, self.epoch = self.walk.layers, timeline, epoch
        self.rank, self.dimension = self.visits.rank, self.visits.dimension
        self.units, self.grades = self.visits.right, self.visits.left * self.visits.right
        # A batch may be visited more than once: then E z eta' is followed visit by visit.
        self.travels = self.walk.scheme.shuffle is not Shuffle.EVERY_EPOCH
        kinds = 1 if isinstance(self.visits, MeanVisits) else self.visits.blocks.batches
        self.batches = [_Batch.of(self.visits, batch) for batch in range(kinds)]
        self.steps = [_Step.of(self.visits, 0)] * self.walk.steps
        if self.visits.hyperparameters.shares:
            self.steps = [_Step.of(self.visits, slot) for slot in range(self.walk.steps)]
        self._constants: dict[tuple[int, int], FloatArray] = {}

    def change(self, moments: FloatArray, centred: bool = False) -> FloatArray:
        """The change over one more epoch of M = E z z' (d, d) and C = E z zeta' (d, inputs), side by side.

        The first input is the constant 1, and the others are noise, of which there is none if responses are given.
        Centred, of the covariance V (d, d) and the mean m (d, 1), given the responses, by the law of total
        covariance: a sum of squares, so that no digits are lost where runs hardly differ.
        """
        d = self.dimension
        with few_threads(d):
            source = (CentredSource if centred else Source)(self, self.units * moments[:, d:].T)
            change = self.congruence_change(moments[:, :d], source)
            return np.hstack([change, (source.change() / self.units).T])

    def change_beside(self, cross: FloatArray, centred: bool = False) -> Callable[[FloatArray], FloatArray]:
        """M or V -> what one more epoch adds to it (d, d), for C or m that stays: what enters is computed once."""
        source = (CentredSource if centred else Source)(self, self.units * cross.T, remembers=True)
        return lambda second: self.congruence_change(second, source)

    def congruence_change(self, matrix: FloatArray, source: "Source | None" = None) -> FloatArray:
        """E[A M A'] - M (d, d) over all orders for symmetric M, and what enters from a source."""
        scales = np.outer(self.units, self.units)
        with few_threads(self.dimension):
            *_, last = self.changes((scales * matrix)[:, np.newaxis], source)
            change = last.mean(axis=0)[:, 0]
            if isinstance(source, CentredSource):
                ends = source.means[-1][:, 0]
                apart = ends - ends.mean(axis=0)
                change = change + apart.T @ apart / len(apart)
            return np.asarray((change + change.T) / 2 / scales)

    def changes(self, stack: FloatArray, source: "Source | None" = None) -> Iterator[FloatArray]:
        """The sum of the visits in symmetric matrices (d, s, d) at every node (nodes, d, s, d), layer by layer."""
        d, r, count = self.dimension, self.rank, stack.shape[1]
        width = max(1, int(_NEAR_BYTES / (8.0 * count * d * d)))
        change = np.zeros((1, d, count, d))
        for slot, layer in enumerate(self.layers):
            step, following = self.steps[slot], np.empty((layer.nodes, d, count, d))
            for low in range(0, layer.nodes, width):
                nodes = min(width, layer.nodes - low)
                total, outer = np.zeros((nodes, d, count, d)), np.zeros((nodes, r, count, d))
                inner, added = np.zeros((nodes, r, count, r)), None
                for batch, every, ends in layer.visits:
                    here = slice(*np.searchsorted(ends, [low, low + nodes]))
                    before, after = every[here], ends[here]
                    if not len(before):
                        continue
                    # Views where there is one: copies of large matrices cost as much as products with them.
                    start = slice(before[0], before[0] + 1) if len(before) == 1 else before
                    place = slice(None) if len(after) == nodes else after - low
                    total[place] += change[start]
                    cross = None if source is None else source.cross(slot, batch, start)
                    lost = self.batches[batch].lost(
                        change[start, :r] + stack[:r], cross, self.inputs.noise, step
                    )
                    outer[place] += lost[0]
                    if lost[1] is not None:
                        inner[place] += lost[1]
                    entered = None if source is None else source.entered(slot, batch, before, after)
                    if entered is not None:
                        added = np.zeros((nodes, d, d)) if added is None else added
                        added[place] += entered + entered.swapaxes(1, 2)
                if step.moves is not None:
                    total += step.conjugated(total + layer.ways * stack)
                    outer += step.moved(outer) - step.pushed(inner)
                if added is not None:
                    total[:, :, 0] += added
                for part, push in enumerate(step.push):
                    place, pushed = slice(part * r, (part + 1) * r), push[:, np.newaxis, np.newaxis] * outer
                    total[:, place] -= pushed
                    total[..., place] -= pushed.transpose(0, 3, 2, 1)
                np.divide(total, layer.ways, out=following[low : low + nodes])
            drawn = self.drawn(slot, stack + change, source)
            change = following if drawn is None else following + drawn
            yield change

    def drawn(self, slot: int, current: FloatArray, source: "Source | None") -> FloatArray | None:
        """The change of matrices (1, d, s, d) by a visit that draws its rows: nothing, where batches are fixed."""
        return None

    @cached_property
    def mean_changes(self) -> list[FloatArray]:
        """F(S)' - I (nodes, d, d) before each of the visits, and after all."""
        return self.follow(np.eye(self.dimension))

    def follow(self, states: FloatArray, entry: Entry | None = None) -> list[FloatArray]:
        """The sum of the visits in the means of states (c, d), one a row: (nodes, c, d), layer by layer."""

        def visit(batch: int, change: FloatArray, slot: int) -> FloatArray:
            return self.visited(states, change, batch, slot, entry)

        return list(follow(self.layers, visit, np.zeros_like(states)))

    def visited(
        self, states: FloatArray, change: FloatArray, batch: int, slot: int, entry: Entry | None = None
    ) -> FloatArray:
        """The sum so far in states (c, d) after one more visit, from what has been before (nodes, c, d)."""
        step, current = self.steps[slot], states + change
        following = change + step.moved(current)
        following -= step.pushed(self.batches[batch].gradient(current[..., : self.rank]))
        if entry is not None:
            places, added = entry(batch, slot)
            following[:, places] += added
        return np.asarray(following)

    def constant(self, batch: int, slot: int) -> FloatArray:
        """The input of every visit to a batch alike (d,): the force of a penalty, and given responses."""
        key = batch, slot if self.visits.hyperparameters.shares else 0
        if key not in self._constants:
            visits, given = self.visits, self.inputs.given
            entry = visits.pushed(visits.unit_force(self.inputs.truth), slot)
            if given is not None:
                entry = entry + visits.unit_entry(batch, slot) @ given[visits.columns(batch)]
            self._constants[key] = self.grades * entry
        return self._constants[key]


class Source:
    """The inputs of second moments in an epoch: noise, given responses, and the force of a penalty.

    `cross` (inputs, d) is E zeta z' before the epoch: the mean, and E eta z'. With `remembers`, what enters is
    stored for the next epochs, before which `cross` is the same.
    """

    def __init__(self, moments: EpochMoments, cross: FloatArray, remembers: bool = False):
        self.moments, self.mean, self.noise = moments, cross[:1], cross[1:]
        given = moments.inputs.given
        self._is_pushed = given is not None or bool(moments.constant(0, 0).any())
        self._reduced: dict[int, FloatArray] = {}
        self._known: dict[tuple[int, int, int], FloatArray] | None = {} if remembers else None

    @cached_property
    def means(self) -> list[FloatArray]:
        """The sum so far in the mean at every node, (nodes, 1, d)."""
        here, constant = np.zeros(1, dtype=np.intp), self.moments.constant
        return self.moments.follow(self.mean, lambda batch, slot: (here, constant(batch, slot)[np.newaxis]))

    @cached_property
    def noises(self) -> list[FloatArray]:
        """The sum so far in E eta z' at every node, (nodes, n, d), where it travels."""
        moments = self.moments

        def entry(batch: int, slot: int) -> tuple[IntArray, FloatArray]:
            rows = moments.batches[batch]
            pushed = moments.steps[slot].pushed(rows.rows)
            return rows.columns, moments.inputs.noise * rows.roots * pushed

        return moments.follow(self.noise, entry)

    def cross(self, slot: int, batch: int, before: IntArray | slice) -> FloatArray | None:
        """noise E eta_b z' before a visit (nodes, m, d), reduced; None if there is no noise."""
        if not len(self.noise):
            return None
        key = slot, batch, before.start if isinstance(before, slice) else int(before[0])
        if self._known is not None and key in self._known:
            return self._known[key]
        moments = self.moments
        rows, noise = moments.batches[batch], moments.inputs.noise
        if batch not in self._reduced:
            self._reduced[batch] = noise * rows.reduced(self.noise[rows.columns])
        own = self._reduced[batch]
        if moments.travels:
            made = own + noise * rows.reduced(self.noises[slot][before][:, rows.columns])
        elif slot:
            made = own @ moments.mean_changes[slot][before]
            made += own
        else:
            made = own[np.newaxis]
        if self._known is not None:
            self._known[key] = made
        return np.asarray(made)

    def entered(self, slot: int, batch: int, before: IntArray, after: IntArray) -> FloatArray | None:
        """h (G m + h / 2)' (nodes, d, d) for the constant h that enters, half of what it adds, if there is one."""
        if not self._is_pushed:
            return None
        constant = self.moments.constant(batch, slot)
        mean = self.mean + self.moments.visited(self.mean, self.means[slot][before], batch, slot)
        return np.asarray(constant[:, np.newaxis] * (mean + constant / 2))

    def change(self) -> FloatArray:
        """The change over the epoch of E zeta z' (inputs, d)."""
        moments = self.moments
        if moments.travels or not len(self.noise):
            of_noise = [self.noises[-1].mean(axis=0)] if len(self.noise) else []
            return np.vstack([self.means[-1].mean(axis=0), *of_noise])
        mean = moments.mean_changes[-1].mean(axis=0)
        of_mean = self.means[-1].mean(axis=0) if self._is_pushed else self.mean @ mean
        entries = moments.timeline.map(moments.epoch).entries[:, 1:]
        entering = (moments.inputs.noise * moments.grades[:, np.newaxis] * entries).T
        return np.vstack([of_mean, self.noise @ mean + entering])


class CentredSource(Source):
    """The growth of the covariance of a state over the orders, given the responses: means that meet differ."""

    def entered(self, slot: int, batch: int, before: IntArray, after: IntArray) -> FloatArray:
        """Half the squares (nodes, d, d) of what the mean after a visit differs by from that of its node."""
        arrived = self.moments.visited(self.mean, self.means[slot][before], batch, slot)
        apart = arrived + self.moments.constant(batch, slot) - self.means[slot + 1][after]
        return np.asarray(apart.swapaxes(1, 2) * apart / 2)


def epoch_moments(timeline: Timeline, inputs: Inputs, epoch: int = 0) -> EpochMoments:
    """The map of second moments by the epoch after `epoch` others of a timeline."""
    drawn = isinstance(timeline.visits(epoch), MeanVisits)
    return (DrawnSteps if drawn else EpochMoments)(timeline, inputs, epoch)


class DrawnSteps(EpochMoments):
    """One epoch of steps that draw their rows from all rows: the mean step plus its covariance.

    With residuals rho = X e - eta and weights w of the rows in the mean gradient g = X'w rho, the gradient of a
    step has the covariance a X' diag(w E rho^2) X - b E g g', with shares a and b that the scheme declares: both
    1 / m for m independent rows, (n - m) / ((n - 1) m) for distinct ones. Noise that is added to the gradient
    of every step adds its own.
    """

    @cached_property
    def _fixed(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The shares a and b of each step, and the rows times their weights."""
        scheme, n, visits = self.walk.scheme, self.walk.n, self.visits
        weighted = visits.weighted_rows(0)[1][:, np.newaxis] * visits.unit
        return scheme.variance_shares(n), scheme.mean_shares(n), weighted

    def drawn(self, slot: int, current: FloatArray, source: Source | None) -> FloatArray:
        """The covariance (1, d, s, d) that drawing adds to a visit, given the second moments before it."""
        assert isinstance(self.visits, MeanVisits)
        of_rows, of_mean, wU = self._fixed
        r, U, W, inputs = self.rank, self.visits.unit, self.visits.gram, self.inputs
        second = current[0, :r, :, :r]
        if isinstance(source, CentredSource):
            mean = source.mean[0] + source.means[slot][0, 0]
            second = second + np.outer(mean[:r], mean[:r])[:, np.newaxis]
        seen = (U @ second.reshape(r, -1)).reshape(len(U), -1, r)
        squares = np.einsum("nsi,ni->sn", seen, U)
        gradients = W @ second.swapaxes(0, 1) @ W
        # The parts of given responses or noise in E rho_i^2 (n,) and E g g' (r, r): mixed, and their own.
        if source is not None and inputs.given is not None:
            mean, pushed = (source.mean[0] + source.means[slot][0, 0])[:r], wU.T @ inputs.given
            squares = squares + inputs.given * (inputs.given - 2 * (U @ mean))
            mixed = np.outer(W @ mean, pushed)
            gradients = gradients - mixed - mixed.T + np.outer(pushed, pushed)
        elif source is not None and len(source.noise):
            cross = inputs.noise * (source.noise + source.noises[slot][0])[:, :r]
            squares = squares + inputs.noise**2 - 2 * np.einsum("ij,ij->i", U, cross)
            mixed = W @ (cross.T @ wU)
            gradients = gradients - mixed - mixed.T + inputs.noise**2 * (wU.T @ wU)
        covariance = of_rows[slot] * (U.T @ (squares[..., np.newaxis] * wU)) - of_mean[slot] * gradients
        noise, space = self.walk.scheme.gradient_noise, self.timeline.space
        if source is not None and noise:
            if space.dimension < space.p:
                raise UnsupportedError(
                    "gradient_noise must be 0 where columns of X are linearly dependent, since parameters that no "
                    f"row sees would wander without end, but the rank is {space.dimension} of {space.p}; drop "
                    "columns."
                )
            covariance = covariance + np.diag(np.square(noise / (space.scale * self.visits.sizes)))
        # Every part of the state is pushed by the same gradient, coordinate by coordinate.
        push = self.steps[slot].push
        return np.asarray(np.einsum("ai,sij,bj->aisbj", push, covariance, push).reshape(current.shape))


def is_stationary(now: FloatArray, before: FloatArray, tolerance: float = _UNCHANGED) -> bool:
    """True if nothing has changed by more than a share of the largest entry."""
    return bool(np.abs(now - before).max(initial=0.0) <= tolerance * np.abs(now).max(initial=0.0))


def distance(here: FloatArray, end: FloatArray) -> float:
    """The distance of a matrix that seems stationary from its limit, relative to its size."""
    size = float(np.abs(here).max(initial=0.0))
    return float(np.abs(here - end).max(initial=0.0)) / size if size else 0.0
