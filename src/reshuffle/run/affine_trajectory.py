"""The mean iterate where the mean epoch is not symmetric: fixed orders, momentum, penalties, schedules, stages.

Every visit is an affine map on the state, z -> G_b z + H_b y_b; the mean over the orders of an epoch is one too,
and is repeated by squaring (`Timeline`).
"""

import math
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._budget import CALL
from reshuffle._linalg import few_threads
from reshuffle._uncertainty import ErrorKind
from reshuffle.epoch import visits
from reshuffle.epoch.averaging.lattice import Walk
from reshuffle.epoch.select import METHODS, Accuracy, Choice, walk_flops
from reshuffle.epoch.timeline import (
    ANY_ACCURACY,
    Timeline,
    Watch,
    finite_or_inf,
    states_through,
    through_stages,
)
from reshuffle.epoch.visits import ScaledBlocks
from reshuffle.errors import UnsupportedError
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.row_space import Blocks, Reduction, RowSpace, extended_space, split
from reshuffle.recipe import Recipe
from reshuffle.run import stopping
from reshuffle.run.risk import Readout, Risk
from reshuffle.run.stability import FrozenSubspace, Stability, nothing_frozen, slowness
from reshuffle.run.stopping import BestEpoch
from reshuffle.run.trajectory import Trajectory
from reshuffle.schemes.base import Scheme

_LARGEST = 1e300
_SEARCHED = 2000
"""Epochs that a search one by one tries, more or less."""


class AffineTrajectory(Trajectory):
    """Mini-batch gradient descent as an affine recursion on a state: the parameters and the momentum buffer."""

    def __init__(
        self,
        problem: LeastSquares,
        scheme: Scheme,
        recipe: Recipe,
        start: FloatArray,
        accuracy: Accuracy = ANY_ACCURACY,
    ):
        self.problem, self.recipe, self.start, self.accuracy = problem, recipe, start, accuracy
        self.scheme = scheme.equivalent(problem.n)
        self.walk = Walk(self.scheme, problem.n)
        self._is_replica = False

    def _copy(self, *dropped: str, **changes: Any) -> Self:
        """A copy without the cached properties of the given names, and with other attributes."""
        made = copy(self)
        for name in dropped:
            made.__dict__.pop(name, None)
        made.__dict__.update(changes)
        return made

    def with_recipe(self, recipe: Recipe) -> Self:
        """A copy with another step, which shares the decomposition of the data."""
        return self._copy("stages", "_outside", "last_stage", recipe=recipe)

    def output(self, number: int) -> Self:
        """The run of one output alone, which shares its maps with all others."""
        problem, (space, blocks), stages = self.problem.output(number), self._scaled_data, self.stages
        blocks = replace(blocks, response=blocks.response[:, [number]])
        made = self._copy(
            "readout", "last_stage", "visited",
            problem=problem, start=self.start[:, [number]], _scaled_data=(space, blocks),
        )  # fmt: skip
        made.stages = [stage.with_truth(made._truth) for stage in stages]
        return made

    def _stage(self, number: int) -> "AffineTrajectory":
        """One stage by itself, in the coordinates of the whole run."""
        stage = self.stages[number]
        return self._copy(
            "last_stage", "_outside",
            scheme=stage.scheme, recipe=stage.recipe, walk=stage.walk, stages=[stage],
            _scaled_data=(self.space, replace(stage.blocks, response=self.blocks.response)),
        )  # fmt: skip

    @cached_property
    def stages(self) -> list[Timeline]:
        """The timeline of each stage that the schedule reaches; one if the scheme has no stages."""
        n, scheme = self.problem.n, self.scheme
        if not scheme.has_stages:
            return [Timeline(scheme, n, self.blocks, self.space, self.recipe, self._truth, self.accuracy)]
        stages = []
        for (length, stage), part in zip(scheme.stages, self.recipe.parts, strict=False):
            stage = stage.equivalent(n)
            blocks = self.blocks.with_batches(stage.partition(n), stage.divisors(n))
            stages.append(Timeline(stage, n, blocks, self.space, part, self._truth, self.accuracy, length))
        return stages

    @property
    def timeline(self) -> Timeline:
        """The timeline of the only stage, or of the first one."""
        return self.stages[0]

    @property
    def _truth(self) -> FloatArray | None:
        """u_star (r,), if it is known; several outputs have no one truth."""
        known = self.problem.beta_star is not None and self.problem.outputs is None
        return self.inside(self.problem.parameters("the risk")) if known else None

    @property
    def choice(self) -> Choice:
        """The way in which the mean over orders is taken, in the stage where it is known worst."""
        return max((stage.choice for stage in self.stages), key=lambda each: METHODS.index(each.taken))

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
            return visits.scaled_blocks(
                visited.row_space, self._blocks(visited.compressed.X, visited.reduction)
            )
        space, features, reduction, penalized = extended_space(
            visited.compressed, visited.reduction, np.array(unpenalized)
        )
        root = math.sqrt(self.recipe.penalty) / space.scale
        blocks = self._blocks(features, reduction)
        return visits.scaled_blocks(space, blocks, root * np.eye(space.dimension)[penalized])

    def _blocks(self, X: FloatArray, reduction: Reduction) -> Blocks:
        """The per-batch statistics of features, in the coordinates of their reduction."""
        y, n, space = self.visited.compressed.y, self.problem.n, reduction.space
        partition, divisors = self.scheme.partition(n), self.scheme.divisors(n)
        if self.scheme.visits_samples:
            question = f"what {self.scheme!r} does beyond its mean without momentum or penalty"
            self.problem.require_rows(question)
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
    def _outside(self) -> list[Timeline]:
        """The stages of one coordinate outside the row space, where only a penalty acts: a feature that is zero."""
        nothing, n, ends = np.zeros((0, 1)), self.problem.n, np.zeros(2, dtype=np.int64)
        blocks = ScaledBlocks(nothing, np.zeros((0, 1)), ends, np.ones(1), nothing, np.zeros(1))
        return [
            Timeline(
                stage.scheme, n, blocks, self.space, stage.recipe, length=stage.length,
                orders=np.zeros((1, stage.walk.steps), dtype=np.int64),
            )
            for stage in self.stages
        ]  # fmt: skip

    def outside_decay(self, when: FloatArray) -> FloatArray:
        """The factor (k,) of the start outside the row space at the ascending epochs; 1 without a penalty."""
        if not self.recipe.penalty:
            return np.ones(len(when))
        states = states_through(self._outside, np.ones((1, 1)), when, np.ones((1, 1)))
        return np.array([float(state[0, 0, 0]) for state in states])

    @property
    def replicas(self) -> "list[tuple[ErrorKind, list[Self]]]":
        """The copies of the run with each replica of each of its stages."""
        if self._is_replica:
            return []
        made = []
        for number, stage in enumerate(self.stages):
            copies = [
                self._copy(
                    _is_replica=True, stages=[*self.stages[:number], replica, *self.stages[number + 1 :]]
                )
                for replica in stage.replicas
            ]
            if copies:
                made.append((stage.error_kind, copies))
        return made

    def means(
        self,
        start: FloatArray,
        epochs: FloatArray,
        inputs: FloatArray | None = None,
        watch: Watch | None = None,
    ) -> Iterator[FloatArray]:
        """The states (r, 1 + rows), or (r, t) for given inputs, averaged over orders, at ascending epochs."""
        if len(self.stages) == 1:
            return self.timeline.means(start, epochs, inputs, watch)
        states = states_through(self.stages, start, epochs, inputs)
        return (finite_or_inf(state[: self.space.dimension]) for state in states)

    def coordinates(self, when: FloatArray) -> FloatArray:
        """The mean iterate in row-space coordinates u / scale (k, t, r), at ascending epochs."""
        # The run is linear in start and responses; u itself may leave the range before the parameters do, and the
        # responses over the scale before either.
        response = self.blocks.response
        inputs = np.vstack([np.zeros(response.shape[1]), response])
        scale, largest = self.space.scale, float(np.abs(inputs).max())
        unit = scale if largest < _LARGEST * scale else 1.0
        states = self.means(self.space.coordinates(self.start) * (scale / unit), when, inputs / unit)
        shape = len(when), response.shape[1], self.space.dimension
        with np.errstate(over="ignore"):
            return np.array([state.T for state in states]).reshape(shape) / (scale / unit)

    def degrees_of_freedom(self, epochs: FloatArray) -> FloatArray:
        """The trace of the matrix that sends the responses to the fit, of the shape of `epochs`."""
        when, back = np.unique(epochs.ravel(), return_inverse=True)
        states = self.means(np.zeros((self.space.dimension, 1)), when)
        with np.errstate(over="ignore", invalid="ignore"):
            traces = [float(np.einsum("qr,rq->", self.blocks.rows, state[:, 1:])) for state in states]
        return finite_or_inf(np.array(traces))[back].reshape(epochs.shape)

    @cached_property
    def readout(self) -> Readout:
        """The risk as a function of the error."""
        beta_star = self.problem.parameters("the risk")
        return Readout(self.space, self.problem.covariance, self.start[:, 0], beta_star)

    def _risk(self, epochs: FloatArray) -> Risk:
        _, _, noise = self.problem.truth("the risk")
        when, back = np.unique(epochs.ravel(), return_inverse=True)
        parts = np.zeros((4, len(when)))
        states = self.means(self.inside(self.initial_error)[:, np.newaxis], when)
        # Threads are limited once for all epochs: every state is a few small products.
        with few_threads(self.dimension):
            for number, (state, decay) in enumerate(zip(states, self.outside_decay(when), strict=True)):
                parts[:, number] = self._risk_parts(state, float(decay), noise)
        return Risk(epochs, *parts[:, back].reshape(4, *epochs.shape))

    def _risk_parts(self, state: FloatArray, decay: float, noise: float) -> tuple[float, float, float, float]:
        """Frozen, bias, cross and variance of states (r, 1 + rows): of the mean, and of the noise in each row."""
        readout = self.readout
        with np.errstate(over="ignore"):
            variance = readout.inside_of(noise * state[:, 1:]) if noise else 0.0
        bias = readout.inside_of(state[:, :1])
        frozen = readout.outside(decay)
        cross = readout.between(state[:, 0], decay) if np.isfinite(bias) else 0.0
        if self.recipe.penalty:
            return 0.0, max(frozen + bias + cross, 0.0), 0.0, variance
        return frozen, bias, cross, variance

    @cached_property
    def last_stage(self) -> "AffineTrajectory":
        """The run that decides about convergence: the last stage by itself, without rows that others visit."""
        if not self.scheme.has_stages:
            return self
        length, scheme = self.scheme.stages[-1]
        if np.isfinite(length):
            raise ValueError(
                f"there must be a last stage without end to ask what becomes of a run, but {self.scheme!r} ends; "
                "give None for the epochs of the last one."
            )
        return AffineTrajectory(self.problem, scheme, self.recipe.parts[-1], self.start, self.accuracy)

    @property
    def converges(self) -> bool:
        """True if the mean iterate has a limit from every start, along every order."""
        if self.scheme.has_stages:
            return self.last_stage.converges
        if not self.recipe.is_constant:
            raise ValueError("stability is that of a constant step, but a step schedule was given.")
        return self.converges_outside and self.timeline.converges

    @property
    def converges_outside(self) -> bool:
        """True if the start decays outside the row space, or stays there without a penalty."""
        return not self._reaches_out or self._outside[0].converges

    @property
    def _reaches_out(self) -> bool:
        """True if a penalty acts outside the row space."""
        return self.recipe.penalty > 0 and self.space.dimension < self.problem.p

    def stability(self) -> Stability:
        """Convergence of the mean iterate, and its rate; in the last stage, if there are several."""
        if self.scheme.has_stages:
            return self.last_stage.stability()
        if self.recipe.is_constant and self.recipe.at(0).step == 0:
            return self._stability()
        if self.timeline.samples_orders:
            return replace(self._stability(), error=np.inf, error_kind="estimate")
        return super().stability()

    def _stability(self) -> Stability:
        converges = self.converges
        if self.recipe.at(0).step == 0:
            return Stability(converges, 0.0)
        rate = max(part.rate for part in [self.timeline, *(self._outside if self._reaches_out else [])])
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
        """The epoch with the smallest risk of the mean iterate, among all epochs until it has converged.

        Epochs are tried one by one, up to the end of a step schedule, 20,000 of them or the end of the budget. If
        the risk has not converged to twelve digits by then `error` is the whole risk: later epochs are unknown, but
        for the limit.
        """
        end = float(self._risk(np.asarray(np.inf)).total) if self.recipe.has_limit else math.nan
        rows, rank = self.blocks.rows.shape
        count = self.timeline.count
        state = 2.0 * (1 + rows) * (self.dimension**2 * count + rank**2)
        flops = float(state + 4 * CALL * (1 + self.timeline.chunks) + self._flops_of_new_steps)
        longest = min(stopping.LONGEST_SEARCH, max(64.0, self.accuracy.budget / flops // 1))
        # Only the last stage can converge.
        first = max(self.recipe.earliest, int(sum(stage.length for stage in self.stages[:-1])))
        found = stopping.search_one_by_one(
            lambda late: self._risk(late + first).total, end, self.recipe.horizon - first, longest
        )
        found = replace(found, epoch=found.epoch + first)
        if len(self.stages) > 1:
            early = self._risk(np.arange(min(first, stopping.LONGEST_SEARCH), dtype=float)).total
            if early.min() <= found.risk:
                best = int(early.argmin())
                risk = float(early[best])
                found = replace(found, epoch=best, risk=risk, error=found.error and risk)
            if len(early) < first:
                found = replace(found, error=found.risk)
        return found.with_error_of(self.risk) if self.error_kind != "exact" else found

    def parts(self, when: FloatArray) -> "list[tuple[AffineTrajectory, FloatArray]]":
        """The stages that lead to ascending epochs, and those of each."""
        has_limit = len(when) and np.isinf(when[-1]) and self.scheme.is_random and self.last_stage.converges
        if has_limit and not self.stages[-1].converges:
            raise UnsupportedError(
                f"the spread in the end has no answer for {self.scheme!r}, whose last stage leaves out rows "
                "that others visit; ask for a finite epoch, or visit all rows in the last stage."
            )
        lengths = [stage.length for stage in self.stages]
        return [(self._stage(number), local) for number, local, _ in through_stages(lengths, when)]

    @property
    def search_operations(self) -> float:
        """Operations of `best_epoch`, about: a few thousand epochs as a rule; infinite where orders are drawn."""
        if self.error_kind != "exact":
            return math.inf
        state = 2.0 * self.timeline.count * self.dimension**2 * len(self.blocks.rows)
        return _SEARCHED * (state + self._flops_of_new_steps)

    @property
    def _flops_of_new_steps(self) -> float:
        """Operations of the map of an epoch, where a schedule has another one in every epoch."""
        if isinstance(self.recipe.schedule, float):
            return 0.0
        steps = self.walk.steps * CALL
        price = walk_flops(self.walk, self.blocks, self.dimension) if self.walk.exists else steps
        return self.timeline.count * price
