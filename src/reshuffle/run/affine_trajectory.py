"""The mean iterate where the mean epoch is not one symmetric map: fixed orders, momentum, penalties, schedules.

Every visit is an affine map on the state, z -> G_b z + H_b y_b; the mean over the orders of an epoch is one too,
and is repeated by squaring. Where a run draws its order once, every order is followed by itself.
"""

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self, TypeAlias

import numpy as np

from reshuffle import _uncertainty
from reshuffle._arrays import FloatArray
from reshuffle._budget import CALL
from reshuffle._linalg import few_threads
from reshuffle._uncertainty import ERROR_KINDS, MOST_GROUPS, ErrorKind
from reshuffle.epoch import select, visits
from reshuffle.epoch.averaging.cavity_maps import CavityTimeline
from reshuffle.epoch.averaging.lattice import Walk
from reshuffle.epoch.averaging.sampling import SampledTimeline
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.select import METHODS, Accuracy, Choice, walk_flops
from reshuffle.epoch.timeline import AveragedTimeline, StagedTimeline, Timeline, chosen, through_stages
from reshuffle.epoch.visits import ScaledBlocks
from reshuffle.errors import UnsupportedError
from reshuffle.problem.batches import Blocks, split
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.outputs import beside, of_output, with_outputs
from reshuffle.problem.row_space import Reduction, RowSpace, extended_space
from reshuffle.recipe import Hyperparameters, Recipe
from reshuffle.run import stopping
from reshuffle.run.risk import Readout, Risk
from reshuffle.run.stability import FrozenSubspace, Stability, nothing_frozen, slowness
from reshuffle.run.stopping import BestEpoch
from reshuffle.run.trajectory import Trajectory
from reshuffle.schemes.base import Scheme

CHUNK_BYTES = 1.6e7
"""Memory that the maps and the states of a chunk of orders may take, with what is worked on: about a cache."""
BLOCK_BYTES = 1e8
"""Memory that means over orders may take, which are added up while chunks are followed."""
_OF_THE_WORST = 3.0
"""How far the worst mode may be off, over the root mean square of all."""
_LARGEST = 1e300
_SEARCHED = 2000
"""Epochs that a search one by one tries, more or less."""
_ANY_ACCURACY = Accuracy(rtol=math.inf)

Watch: TypeAlias = Callable[[slice, int, FloatArray], None]
"""Sees the states (k, d, z) along some of the orders, after the epoch of that number."""


class AffineTrajectory(Trajectory):
    """Mini-batch gradient descent as an affine recursion on a state: the parameters and the momentum buffer.

    Attributes
    ----------
    problem : LeastSquares
    scheme : Scheme
    recipe : Recipe
        Step schedule, penalty, momentum, average.
    start : (p,)
    accuracy : Accuracy
        Of the mean over orders; by default whatever the first draws give, where they are drawn.
    """

    def __init__(
        self,
        problem: LeastSquares,
        scheme: Scheme,
        recipe: Recipe,
        start: FloatArray,
        accuracy: Accuracy = _ANY_ACCURACY,
    ):
        self.problem, self.recipe, self.start, self.accuracy = problem, recipe, start, accuracy
        self.scheme = scheme.equivalent(problem.n)
        self.walk = Walk(self.scheme, problem.n)
        self._replica: int | None = None
        self._stacked: dict[tuple[bool, bool], list[Timeline]] = {}
        self._sums: dict[str, Any] = {}
        self._known_maps: dict[tuple[str, bool], dict[Hyperparameters, list[EpochMap]]] = {}

    def with_recipe(self, recipe: Recipe) -> Self:
        """A copy with another step, which shares the decomposition of the data."""
        made = self._afresh("visited", "_scaled_data", "readout")
        made.recipe, made._known_maps, made._stacked, made._sums = recipe, {}, {}, {}
        return made

    def _afresh(self, *names: str) -> Self:
        """A copy that forgets all cached properties but those of the given names."""
        made = copy(self)
        for name in set(made.__dict__).difference(names):
            if isinstance(getattr(type(self), name, None), cached_property):
                del made.__dict__[name]
        return made

    def output(self, number: int) -> Self:
        """The run of one output alone, which shares its maps with all others."""
        (space, blocks), timelines = self._scaled_data, self.timelines
        made = self._afresh("choice", "timelines", "_grows", "_outside")
        made.problem, made.start = self.problem.output(number), of_output(self.start, number)
        made._scaled_data = space, replace(blocks, response=of_output(blocks.response, number))
        # Those of the parameters depend on no responses, those of the errors on the truth where there is a penalty.
        made._stacked = {kind: known for kind, known in self._stacked.items() if not kind[0]}
        made._sums = {}
        if not self.recipe.penalty:
            made.timelines_of_errors = timelines
        alike = [("drawn", True), ("cavity", True)]
        made._known_maps = {kind: self._known_maps.setdefault(kind, {}) for kind in alike}
        return made

    @cached_property
    def choice(self) -> Choice:
        """The way in which the mean over orders is taken, and why."""
        return select.affine_choice(
            self.walk, self.recipe, self.blocks, self.dimension, self.accuracy,
            lambda: self._cavity_timeline(None).missed, lambda: self._grows,
        )  # fmt: skip

    @property
    def method(self) -> str:
        """The way in which the mean over orders is taken: "exact", "cavity" or "sampling"."""
        return self.choice.taken

    @property
    def error_kind(self) -> ErrorKind:
        """The meaning of errors."""
        return ERROR_KINDS[self.method]

    @property
    def dimension(self) -> int:
        """The length of the state."""
        average = self.recipe.average
        parts = (self.recipe.momentum != 0) + (average is not None and average.is_per_visit)
        return self.space.dimension * (1 + parts)

    @cached_property
    def visited(self) -> LeastSquares:
        """The problem without rows that are never visited: outside the row space of the others nothing moves."""
        problem = self.problem
        rows = sum(len(part) for part in self.scheme.partition(problem.n))
        # A partition that leaves rows out leaves out the last ones.
        return problem if rows == len(problem.compressed.X) else problem.of_first(rows)

    @property
    def space(self) -> RowSpace:
        """The row space of the visited rows, turned to the singular vectors of the features."""
        return self._scaled_data[0]

    @property
    def blocks(self) -> ScaledBlocks:
        """The per-batch statistics in these coordinates."""
        return self._scaled_data[1]

    @cached_property
    def _scaled_data(self) -> tuple[RowSpace, ScaledBlocks]:
        visited, unpenalized = self.visited, self.recipe.unpenalized
        if not unpenalized:
            return visits.graded(visited.row_space, self._blocks(visited.compressed.X, visited.reduction))
        seen = extended_space(visited.compressed, visited.reduction, np.array(unpenalized))
        root = math.sqrt(self.recipe.penalty) / seen.space.scale
        blocks = self._blocks(seen.features, seen.reduction)
        return visits.graded(seen.space, blocks, root * np.eye(seen.space.dimension)[seen.penalized])

    def _blocks(self, X: FloatArray, reduction: Reduction) -> Blocks:
        """The per-batch statistics of features, in the coordinates of their reduction."""
        y, n, space = self.visited.compressed.y, self.problem.n, reduction.space
        partition, divisors = self.scheme.partition(n), self.scheme.divisors(n)
        if self.scheme.visits_samples:
            self.problem.require_rows(
                f"what {self.scheme!r} does beyond its mean without momentum or penalty"
            )
        if self.scheme.unit.is_cut:
            rows = np.ascontiguousarray(space.coordinates(X.T).T / space.scale)
            offsets = np.concatenate([[0], np.cumsum([len(part) for part in partition])])
            return Blocks(rows, y, offsets, divisors)
        with few_threads(math.sqrt(X.size)):
            return split(X, y, reduction, partition, divisors)

    @property
    def directions(self) -> FloatArray:
        """The identity: coordinates are those of the row space."""
        return np.eye(self.space.dimension)

    def inside(self, parameters: FloatArray) -> FloatArray:
        """The coordinates u = scale V'beta (r,) of parameters (p,) inside the row space."""
        return self.space.scale * self.space.coordinates(parameters)

    @cached_property
    def timelines(self) -> list[Timeline]:
        """The mean states of the parameters; one timeline per order where a run draws its order once."""
        return self._timelines(None)

    @cached_property
    def timelines_of_errors(self) -> list[Timeline]:
        """The mean states of the errors, on which a penalty acts as a force; several outputs have no one truth."""
        if self.problem.outputs is not None:
            return self.timelines
        return self._timelines(self.inside(self.problem.parameters("the risk")))

    def _timelines(self, truth: FloatArray | None) -> list[Timeline]:
        timelines, average = self._sources(truth), self.recipe.average
        return (
            timelines if average is None else [AveragedTimeline(timeline, average) for timeline in timelines]
        )

    def _sources(self, truth: FloatArray | None) -> list[Timeline]:
        n = self.problem.n
        if self.error_kind == "estimate":
            return [self._cavity_timeline(truth)]
        if self.error_kind != "exact" and not self.samples_orders:
            return [
                SampledTimeline(
                    self.scheme, n, self.blocks, self.space, self.recipe, truth,
                    accuracy=select.asked_of_draws(self.choice, self.accuracy, lambda: self._grows),
                    kept=self._maps("drawn", truth), left_out=self._replica,
                )
            ]  # fmt: skip
        return [
            Timeline(scheme, n, self.blocks, self.space, self.recipe, truth)
            for scheme in self.scheme.timelines(n)
        ]

    def _cavity_timeline(self, truth: FloatArray | None) -> CavityTimeline:
        return CavityTimeline(
            self.scheme, self.problem.n, self.blocks, self.space, self.recipe, truth,
            kept=self._maps("cavity", truth), replica=self._replica,
        )  # fmt: skip

    @cached_property
    def _grows(self) -> bool:
        """True if the mean of the cavity equation grows for certain: it has no solution if a sample alone does."""
        timeline = self._cavity_timeline(None)
        missed = timeline.missed
        return math.isnan(missed) or timeline.map(0).radius * (1 - _OF_THE_WORST * missed) > 1

    def _maps(self, kind: str, truth: FloatArray | None) -> dict[Hyperparameters, list[EpochMap]]:
        """The known maps and their replicas: those of errors apart, if a penalty makes them others."""
        return self._known_maps.setdefault((kind, truth is None or self.recipe.penalty == 0), {})

    @cached_property
    def _outside(self) -> Timeline:
        """The course of one coordinate outside the row space, where only a penalty acts: a feature that is zero."""
        timeline = self._outside_source()
        return timeline if self.recipe.average is None else AveragedTimeline(timeline, self.recipe.average)

    def _outside_source(self) -> Timeline:
        nothing, order = np.zeros((0, 1)), np.zeros((1, self.walk.steps), dtype=np.int64)
        blocks = ScaledBlocks(
            nothing, np.zeros(0), np.zeros(2, dtype=np.int64), np.ones(1), nothing, np.zeros(1)
        )
        return Timeline(self.scheme, self.problem.n, blocks, self.space, self.recipe, orders=order)

    def outside_decay(self, when: FloatArray) -> FloatArray:
        """The factor (k,) of the start outside the row space at the ascending epochs; 1 without a penalty."""
        if not self.recipe.penalty:
            return np.ones(len(when))
        return np.array([float(s[0, 0, 0]) for s in self._outside.states(np.ones(1), when, np.ones(1))])

    @property
    def samples_orders(self) -> bool:
        """True if the orders that are followed are a sample of all there are."""
        return self.scheme.samples_orders(self.problem.n)

    @property
    def replicas(self) -> list[Self]:
        """Copies with each of the maps that carry the error, or without each group of drawn orders."""
        if self.error_kind == "exact" or self._replica is not None:
            return []
        if self.samples_orders:
            count = len(self._groups)
        else:
            source = self.timelines[0].source
            assert isinstance(source, SampledTimeline | CavityTimeline)
            count = source.replicas
        names = ["choice", "visited", "_scaled_data", "_grows", "_outside", "readout"]
        names += ["timelines", "timelines_of_errors"] if self.samples_orders else []
        made = [self._afresh(*names) for _ in range(count)]
        for number, replica in enumerate(made):
            replica._replica = number
        return made

    @property
    def _groups(self) -> list[slice]:
        """The orders of each group that is left out in turn: pairs of an order and its reverse stay together."""
        pairs = len(self.timelines) // 2
        ends = 2 * np.unique(np.linspace(0, pairs, min(MOST_GROUPS, pairs) + 1).astype(int))
        return [slice(int(first), int(last)) for first, last in pairwise(ends)]

    def chunks(self, of_errors: bool = False, inputs: FloatArray | None = None) -> list[Timeline]:
        """The timelines of all orders, as many of them side by side as memory allows for.

        Drawn orders that are a sample are cut at the groups that are left out in turn.
        """
        timelines = self.timelines_of_errors if of_errors else self.timelines
        if len(timelines) == 1:
            return timelines
        known = self._stacked.get((of_errors, inputs is None))
        if known is None:
            d, rows, one = self.dimension, len(self.blocks.rows), timelines[0].source
            columns = 1 + rows if inputs is None else beside(inputs).shape[1]
            # Kernels and entries of a power, of its square and of what they are made from; and the states.
            each = 8.0 * max(d, 1) * (6 * d + 4 * columns)
            size = 2 * max(1, int(CHUNK_BYTES / each / 2))
            orders = np.array([timeline.scheme.order(timeline.n) for timeline in timelines])
            groups = self._groups if self.samples_orders else [slice(0, len(orders))]
            known = [
                Timeline(
                    one.scheme, one.n, one.blocks, one.space, one.recipe, one.truth,
                    orders[at : min(at + size, group.stop)],
                )
                for group in groups
                for at in range(group.start, group.stop, size)
            ]  # fmt: skip
            if self.recipe.average is not None:
                known = [AveragedTimeline(timeline, self.recipe.average) for timeline in known]
            self._stacked[of_errors, inputs is None] = known
        return known

    def means(
        self,
        start: FloatArray,
        epochs: FloatArray,
        inputs: FloatArray | None = None,
        of_errors: bool = False,
        watch: Watch | None = None,
    ) -> Iterator[FloatArray]:
        """The states (r, 1 + rows), or (r, t) for given inputs, averaged over orders, at the ascending epochs.

        Where a run draws its order once, `watch` sees the states along each order. Epochs are followed block by
        block, so that the sums over chunks of orders fit in memory.
        """
        parts, rank = self.chunks(of_errors, inputs), self.space.dimension
        if self.samples_orders and watch is None:
            yield from self._without_a_group(parts, start, epochs, inputs, of_errors)
            return
        places = np.cumsum([0, *(timeline.count for timeline in parts)])
        size = max(len(epochs), 1)
        if len(parts) > 1 and self.recipe.is_constant:
            columns = 1 + len(self.blocks.rows) if inputs is None else beside(inputs).shape[1]
            size = max(16, int(BLOCK_BYTES / 8 / max(self.dimension * columns, 1)))
        for begin in range(0, len(epochs), size):
            sums: list[FloatArray] = []
            for place, timeline in zip(places[:-1], parts, strict=True):
                states = timeline.states(start, epochs[begin : begin + size], inputs)
                for number, state in enumerate(states):
                    if watch is not None and timeline.orders is not None:
                        watch(slice(int(place), int(place) + timeline.count), begin + number, state)
                    with np.errstate(over="ignore", invalid="ignore"):
                        summed = state if timeline.orders is None else state.sum(axis=0)
                        if len(parts) == 1:
                            yield _finite_or_inf(summed[:rank] / timeline.count)
                        elif number == len(sums):
                            sums.append(summed[:rank])
                        else:
                            sums[number] = sums[number] + summed[:rank]
            yield from (_finite_or_inf(summed / places[-1]) for summed in sums)

    def _without_a_group(
        self,
        parts: list[Timeline],
        start: FloatArray,
        epochs: FloatArray,
        inputs: FloatArray | None,
        of_errors: bool,
    ) -> Iterator[FloatArray]:
        """The mean states over drawn orders, of a replica without its group, from sums that all replicas share."""
        groups, rank = self._groups, self.space.dimension
        columns = 1 + len(self.blocks.rows) if inputs is None else beside(inputs).shape[1]
        size = max(1, int(BLOCK_BYTES / 8 / max(len(groups) * rank * columns, 1)))
        sizes = np.array([group.stop - group.start for group in groups])
        counted = np.arange(len(groups)) != self._replica
        for begin in range(0, len(epochs), size):
            when = epochs[begin : begin + size]
            key = (of_errors, start.tobytes(), when.tobytes(), None if inputs is None else inputs.tobytes())
            if self._sums.get("key") != key:
                sums = np.zeros((len(when), len(groups), rank, columns))
                place = 0
                for timeline in parts:
                    group = next(at for at, one in enumerate(groups) if one.start <= place < one.stop)
                    for number, state in enumerate(timeline.states(start, when, inputs)):
                        with np.errstate(over="ignore", invalid="ignore"):
                            sums[number, group] += state[:, :rank].sum(axis=0)
                    place += timeline.count
                self._sums.update(key=key, sums=sums)
            for state in self._sums["sums"]:
                with np.errstate(over="ignore", invalid="ignore"):
                    yield _finite_or_inf(state[counted].sum(axis=0) / sizes[counted].sum())

    def coordinates(self, when: FloatArray) -> FloatArray:
        """The mean iterate in row-space coordinates u / scale (k, r) or (k, t, r), at ascending epochs."""
        # The run is linear in start and responses; u itself may leave the range before the parameters do, and the
        # responses over the scale before either.
        response = self.blocks.response
        inputs = np.concatenate([np.ones((1, *response.shape[1:])), response])
        scale, largest = self.space.scale, float(np.abs(inputs).max())
        unit = scale if largest < _LARGEST * scale else 1.0
        states = self.means(self.space.coordinates(self.start) * (scale / unit), when, inputs / unit)
        several = self.problem.outputs is not None
        iterates = [state.T if several else state[:, 0] for state in states]
        shape = with_outputs((len(when),), self.problem.outputs)
        with np.errstate(over="ignore"):
            return np.array(iterates).reshape(*shape, self.space.dimension) / (scale / unit)

    def degrees_of_freedom(self, epochs: FloatArray) -> FloatArray:
        """The trace of the matrix that sends the responses to the fit, of the shape of `epochs`."""
        when, back = np.unique(epochs.ravel(), return_inverse=True)
        states = self.means(np.zeros(self.space.dimension), when)
        with np.errstate(over="ignore", invalid="ignore"):
            traces = [float(np.einsum("qr,rq->", self.blocks.rows, state[:, 1:])) for state in states]
        return _finite_or_inf(np.array(traces))[back].reshape(epochs.shape)

    @cached_property
    def readout(self) -> Readout:
        """The risk as a function of the error."""
        beta_star = self.problem.parameters("the risk")
        return Readout(self.space, self.problem.covariance, self.start, beta_star)

    def _risk(self, epochs: FloatArray) -> Risk:
        beta_star, _, noise = self.problem.truth("the risk")
        when, back = np.unique(epochs.ravel(), return_inverse=True)
        parts = np.zeros((4, len(when)))
        states = self.means(self.inside(self.start - beta_star), when, of_errors=True)
        # Threads are held once for all epochs: every state is a few small products.
        with few_threads(self.dimension):
            for number, (state, fade) in enumerate(zip(states, self.outside_decay(when), strict=True)):
                parts[:, number] = self._risk_parts(state, float(fade), noise)
        return Risk(epochs, *parts[:, back].reshape(4, *epochs.shape))

    def _risk_parts(self, state: FloatArray, fade: float, noise: float) -> tuple[float, float, float, float]:
        """Frozen, bias, cross and variance of states (r, 1 + rows): of the mean, and of the noise in each row."""
        readout = self.readout
        with np.errstate(over="ignore"):
            variance = readout.inside_of(noise * state[:, 1:]) if noise else 0.0
        bias = readout.inside_of(state[:, :1])
        frozen = readout.outside(fade)
        cross = readout.between(state[:, 0], fade) if np.isfinite(bias) else 0.0
        if self.recipe.penalty:
            return 0.0, max(frozen + bias + cross, 0.0), 0.0, variance
        return frozen, bias, cross, variance

    @property
    def converges(self) -> bool:
        """True if the mean iterate has a limit from every start, along every order."""
        if not self.recipe.is_constant:
            raise ValueError("stability is that of a constant step, but a step schedule was given.")
        return self.settles_outside and all(timeline.settles for timeline in self.chunks(inputs=np.zeros(0)))

    @property
    def settles_outside(self) -> bool:
        """True if the start decays outside the row space, or stays there without a penalty."""
        return not self._reaches_out or self._outside.settles

    @property
    def _reaches_out(self) -> bool:
        """True if a penalty acts outside the row space."""
        return self.recipe.penalty > 0 and self.space.dimension < self.problem.p

    def stability(self) -> Stability:
        """Convergence of the mean iterate, and its rate."""
        if self.recipe.is_constant and self.recipe.at(0).step == 0:
            return self._stability()
        if self.samples_orders:
            return replace(self._stability(), error=np.inf, error_kind="estimate")
        return super().stability()

    def _stability(self) -> Stability:
        converges = self.converges
        if self.recipe.at(0).step == 0:
            return Stability(converges, 0.0)
        parts = [*self.chunks(inputs=np.zeros(0)), *([self._outside] if self._reaches_out else [])]
        rate = max(part.rate for part in parts)
        return Stability(
            converges, rate, advice=slowness(self.problem.compressed, 1 - rate) if converges else ""
        )

    @property
    def frozen(self) -> FrozenSubspace:
        """The subspace in which nothing moves: all that no visited row sees, unless a penalty acts there."""
        space = self.space
        if self.recipe.penalty:
            return nothing_frozen(space.p)
        return FrozenSubspace(space.p - space.dimension, space, np.zeros((space.dimension, 0)))

    def best_epoch(self) -> BestEpoch:
        """The epoch with the smallest risk of the mean iterate, among all epochs until it has settled.

        Epochs are tried one by one, up to the end of a step schedule, 20,000 of them or the end of the budget. If
        the risk has not settled to twelve digits by then `error` is the whole risk: later epochs are unknown, but
        for the limit.
        """
        end = float(self._risk(np.asarray(np.inf)).total) if self.recipe.has_limit else math.nan
        rows, rank = self.blocks.rows.shape
        state = 2.0 * (1 + rows) * (self.dimension**2 * len(self.timelines) + rank**2)
        flops = float(state + 4 * CALL * (1 + len(self.chunks())) + self._flops_of_new_steps)
        longest = min(stopping.LONGEST_SEARCH, max(64.0, self.accuracy.budget / flops // 1))
        first = self._searched_from
        found = stopping.search_one_by_one(
            lambda late: self._risk(late + first).total, end, self.recipe.horizon - first, longest
        )
        found = replace(found, epoch=found.epoch + first)
        return found.with_error_of(self.risk) if self.error_kind != "exact" else found

    @property
    def _searched_from(self) -> int:
        """The first epoch of a search for the best."""
        return self.recipe.earliest

    @property
    def settling(self) -> "AffineTrajectory":
        """The run that decides about convergence."""
        return self

    def parts(self, when: FloatArray) -> "list[tuple[AffineTrajectory, FloatArray]]":
        """The stages that lead to ascending epochs, and those of each."""
        return [(self, when)]

    @property
    def search_operations(self) -> float:
        """Operations of `best_epoch`, about: a few thousand epochs as a rule; infinite where orders are drawn."""
        if self.error_kind != "exact":
            return math.inf
        state = 2.0 * len(self.timelines) * self.dimension**2 * len(self.blocks.rows)
        return _SEARCHED * (state + self._flops_of_new_steps)

    @property
    def _flops_of_new_steps(self) -> float:
        """Operations of the map of an epoch, where a schedule asks for another one in every epoch."""
        if isinstance(self.recipe.schedule, float):
            return 0.0
        steps = self.walk.steps * CALL
        price = walk_flops(self.walk, self.blocks, self.dimension) if self.walk.exists else steps
        return len(self.timelines) * price


class StageTrajectory(AffineTrajectory):
    """One stage, in the coordinates of the whole run.

    Parameters
    ----------
    whole : StagedTrajectory
    scheme : Scheme
        Of the stage.
    recipe : Recipe
        From the beginning of the stage on.
    """

    def __init__(self, whole: "StagedTrajectory", scheme: Scheme, recipe: Recipe):
        super().__init__(whole.problem, scheme, recipe, whole.start, whole.accuracy)
        self._whole = whole

    def of_whole(self, whole: "StagedTrajectory", number: int) -> "StageTrajectory":
        """The stage of one output of the whole run."""
        made = self.output(number)
        made._whole = whole
        return made

    @property
    def visited(self) -> LeastSquares:
        """The problem without rows that no stage visits."""
        return self._whole.visited

    @cached_property
    def _scaled_data(self) -> tuple[RowSpace, ScaledBlocks]:
        n, whole = self.problem.n, self._whole
        return whole.space, chosen(whole.blocks, self.scheme.partition(n), self.scheme.divisors(n))


class StagedTrajectory(AffineTrajectory):
    """The mean iterate of a run whose scheme changes with the epoch, through one stage after the other."""

    @cached_property
    def stages(self) -> "list[StageTrajectory]":
        """The trajectory of each stage."""
        stages = zip(self.scheme.stages, self.recipe.parts, strict=False)
        return [StageTrajectory(self, scheme, part) for (_, scheme), part in stages]

    def output(self, number: int) -> Self:
        """The run of one output alone, stage by stage."""
        made = super().output(number)
        made.stages = [stage.of_whole(made, number) for stage in self.stages]
        return made

    @property
    def _lengths(self) -> list[float]:
        """The epochs of each stage that the schedule reaches."""
        return [length for length, _ in self.scheme.stages[: len(self.recipe.parts)]]

    @property
    def _searched_from(self) -> int:
        """Only the last stage can settle."""
        return int(sum(self._lengths[:-1]))

    @cached_property
    def choice(self) -> Choice:
        """The way in which the mean over orders is taken in the stage where it is known worst."""
        return max((stage.choice for stage in self.stages), key=lambda each: METHODS.index(each.taken))

    def parts(self, when: FloatArray) -> list[tuple[AffineTrajectory, FloatArray]]:
        """The stages that lead to ascending epochs, and those of each."""
        if len(when) and np.isinf(when[-1]) and self.scheme.is_random:
            last = self.stages[-1]
            (timeline,) = last.timelines_of_errors if self.problem.beta_star is not None else last.timelines
            if self.settling.converges and not timeline.settles:
                raise UnsupportedError(
                    f"the spread in the end has no answer for {self.scheme!r}, whose last stage leaves out rows "
                    "that others visit; ask for a finite epoch, or visit all rows in the last stage."
                )
        return [(self.stages[stage], local) for stage, local, _ in through_stages(self._lengths, when)]

    def _staged(self, timelines: list[Timeline]) -> Timeline:
        one = timelines[0]
        return StagedTimeline(
            self.scheme, self.problem.n, one.blocks, self.space, self.recipe, one.truth, one.orders,
            timelines=timelines, lengths=self._lengths,
        )  # fmt: skip

    def _sources(self, truth: FloatArray | None) -> list[Timeline]:
        timelines = [timeline for stage in self.stages for timeline in stage._sources(truth)]
        return [self._staged(timelines)]

    def _outside_source(self) -> Timeline:
        return self._staged([stage._outside_source() for stage in self.stages])

    def sampling_error(self, answer: Callable[[Any], FloatArray], here: FloatArray) -> FloatArray:
        """The error of an answer because the maps of stages are not exact: the sum over the stages."""
        error = np.zeros_like(here)
        for number, stage in enumerate(self.stages if self._replica is None else []):
            replicas = [answer(self._with_stage(number, replica)) for replica in stage.replicas]
            if replicas:
                error = error + _uncertainty.of_replicas(stage.error_kind, here, np.array(replicas))
        return error

    @property
    def replicas(self) -> list[Self]:
        """One run per stage whose map is not exact, to tell that there is an error at all."""
        return [self for stage in self.stages if self._replica is None and stage.replicas]

    def _with_stage(self, number: int, stage: StageTrajectory) -> "StagedTrajectory":
        """A copy with another map in one of the stages."""
        made = self._afresh("choice", "visited", "_scaled_data", "_outside", "readout", "settling")
        made._replica, made._stacked, made._sums = number, {}, {}
        made.stages = [*self.stages[:number], stage, *self.stages[number + 1 :]]
        return made

    @cached_property
    def settling(self) -> AffineTrajectory:
        """The last stage by itself, which decides about convergence."""
        length, scheme = self.scheme.stages[-1]
        if np.isfinite(length):
            raise ValueError(
                f"there must be a last stage without end to ask what becomes of a run, but {self.scheme!r} ends; "
                "give None for the epochs of the last one."
            )
        return AffineTrajectory(self.problem, scheme, self.recipe.parts[-1], self.start, self.accuracy)

    @property
    def converges(self) -> bool:
        """True if the mean iterate has a limit from every start."""
        return self.settling.converges

    def stability(self) -> Stability:
        """Convergence of the mean iterate in the last stage, and its rate."""
        return self.settling.stability()

    def best_epoch(self) -> BestEpoch:
        """The epoch with the smallest risk of the mean iterate, among all epochs until it has settled."""
        found, begins = super().best_epoch(), self._searched_from
        early = self._risk(np.arange(min(begins, stopping.LONGEST_SEARCH), dtype=float)).total
        if len(early) and early.min() <= found.risk:
            best = int(early.argmin())
            found = replace(
                found, epoch=best, risk=float(early[best]), error=found.error and float(early[best])
            )
        if len(early) < begins:
            found = replace(found, error=found.risk)
        return found.with_error_of(self.risk) if self.error_kind != "exact" else found


def _finite_or_inf(values: FloatArray) -> FloatArray:
    return np.where(np.isfinite(values), values, np.inf)
