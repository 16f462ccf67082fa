"""Runs whose epochs are not one symmetric map: fixed orders, momentum, penalties, step schedules."""

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from reshuffle import affine_method, confidence, limits, stopping
from reshuffle.arrays import FloatArray
from reshuffle.blocks import Blocks
from reshuffle.epoch.accuracy import CALL, Accuracy, warn_of_no_answer
from reshuffle.limits import Limit, LimitComparison
from reshuffle.moments import graded, side_by_side
from reshuffle.moments.affine_map import AffineMap, average
from reshuffle.moments.course import Course
from reshuffle.moments.graded import GradedBlocks
from reshuffle.moments.outside import Outside
from reshuffle.moments.readout import Readout
from reshuffle.moments.sampled_course import SampledCourse
from reshuffle.norms import norms
from reshuffle.problem import LeastSquares
from reshuffle.recipe import Recipe
from reshuffle.risk import Risk
from reshuffle.row_space import RowSpace
from reshuffle.schemes import SampleReshuffling, SampleWithReplacement, Scheme, ShuffleOnce
from reshuffle.stability import Stability, slowness
from reshuffle.stopping import BestEpoch
from reshuffle.threads import few_threads
from reshuffle.trajectory import FrozenSubspace

_ANY_ACCURACY = Accuracy(rtol=math.inf)


class AffineMean:
    """Mini-batch gradient descent as an affine recursion on a state: the parameters and the momentum buffer.

    Every visit is an affine map on the state, z -> G_b z + H_b y_b; the mean over the orders of an epoch is one
    too, though not symmetric in general, and is repeated by squaring. What `descend` returns wraps this.

    Attributes
    ----------
    problem : LeastSquares
    scheme : Scheme
    recipe : Recipe
        Step schedule, penalty, momentum.
    start : (p,)
    accuracy : Accuracy
        How the mean over orders is to be taken; by default whatever the first draws give, where they are drawn.
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
        self._given_scheme, self.scheme = scheme, scheme.equivalent(problem.n)
        self._left_out: int | None = None
        self._groups: dict[bool, dict[float, list[AffineMap]]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.problem}, {self._given_scheme}, {self.recipe})"

    def with_recipe(self, recipe: Recipe) -> "AffineMean":
        """The same run with another step: what is known of the data is kept."""
        made = copy(self)
        made.recipe, made._groups = recipe, {}
        for known in ("_courses", "_outside"):
            made.__dict__.pop(known, None)
        return made

    @cached_property
    def method(self) -> str:
        """How the mean over orders is taken: "exact" or "sampling"."""
        return affine_method.chosen(self.scheme, self.problem.n, self.blocks, self.dimension, self.accuracy)

    @property
    def dimension(self) -> int:
        """The length of the state."""
        return self.space.dimension * (1 if self.recipe.momentum == 0 else 2)

    @cached_property
    def visited(self) -> LeastSquares:
        """The problem without rows that are never visited: outside the row space of the others nothing moves."""
        problem = self.problem
        rows = np.concatenate(self.scheme.partition(problem.n))
        if len(rows) == problem.n:
            return problem
        # A partition that leaves rows out leaves out the last ones.
        return LeastSquares(
            problem.X[: len(rows)],
            problem.y[: len(rows)],
            beta_star=problem.beta_star,
            covariance=problem.covariance.value,
            noise=problem.noise,
        )

    @property
    def space(self) -> RowSpace:
        """The row space of what is visited, turned to the singular vectors of the features."""
        return self._graded[0]

    @property
    def blocks(self) -> GradedBlocks:
        """The per-batch statistics in these coordinates."""
        return self._graded[1]

    @cached_property
    def _graded(self) -> tuple[RowSpace, GradedBlocks]:
        visited, n = self.visited, self.problem.n
        space, divisors = visited.row_space, self.scheme.divisors(n)
        if isinstance(self.scheme, SampleReshuffling | SampleWithReplacement):
            rows = np.ascontiguousarray(space.coordinates(visited.X.T).T / space.scale)
            single = isinstance(self.scheme, SampleReshuffling)
            offsets = np.arange(n + 1) if single else np.array([0, n])
            return graded.graded(space, Blocks(rows, visited.y, offsets, divisors))
        return graded.graded(space, visited.blocks(self.scheme.partition(n), divisors))

    def inside(self, parameters: FloatArray) -> FloatArray:
        """U = scale V'beta (r,)."""
        return self.space.scale * self.space.coordinates(parameters)

    def courses(self, truth: FloatArray | None = None) -> list[Course]:
        """The mean states along each of the courses between which the start of a run chooses."""
        n = self.problem.n
        if self._draws_orders:
            # Only a penalty makes the map of the error another than that of the parameters.
            groups = self._groups.setdefault(truth is None or self.recipe.penalty == 0, {})
            return [
                SampledCourse(
                    self.scheme, n, self.blocks, self.space, self.recipe, truth,
                    self.accuracy, groups, self._left_out,
                )
            ]  # fmt: skip
        return [
            Course(scheme, n, self.blocks, self.space, self.recipe, truth)
            for scheme in self.scheme.courses(n)
        ]

    @cached_property
    def _courses(self) -> list[Course]:
        return self.courses()

    @cached_property
    def _outside(self) -> Outside:
        return Outside(self.recipe, self.scheme.steps(self.problem.n), self.space)

    def fades(self, epochs: FloatArray) -> FloatArray:
        """What is left, outside the row space, of the start after each of the ascending epochs."""
        return self._outside.fades(epochs)

    @property
    def _draws_orders(self) -> bool:
        """Whether the map of an epoch is the mean of drawn orders."""
        return self.method == "sampling" and not isinstance(self.scheme, ShuffleOnce)

    @property
    def _is_sampled(self) -> bool:
        return isinstance(self.scheme, ShuffleOnce) and self.scheme.is_sampled(self.problem.n)

    def _replicas(self) -> "list[AffineMean]":
        """The same run without each group of drawn orders in turn; none unless orders are drawn."""
        if not self._draws_orders or self._left_out is not None:
            return []
        (course,) = self._courses
        assert isinstance(course, SampledCourse)
        made = [copy(self) for _ in range(course.groups)]
        for group, replica in enumerate(made):
            replica._left_out = group
            replica.__dict__.pop("_courses", None)
        return made

    def sampling_error(self, answer: Callable[[Any], FloatArray], here: FloatArray) -> FloatArray:
        """How far an answer of this run, which is `here`, may be off because orders were sampled; 0 if not."""
        replicas = self._replicas()
        if not replicas:
            return np.zeros_like(here)
        return confidence.jackknife(here, np.array([answer(replica) for replica in replicas]))

    def _means(
        self,
        start: FloatArray,
        epochs: FloatArray,
        truth: FloatArray | None,
        inputs: FloatArray | None = None,
    ) -> Iterator[tuple[FloatArray, list[FloatArray]]]:
        """The states (r, 1 + rows), or (r, 1) for given inputs, averaged over courses, at the ascending epochs.

        Beside them, if the courses are a sample, what each pair of an order and its reverse deviates by.
        """
        courses = self._courses if truth is None else self.courses(truth)
        rank = self.space.dimension
        for states in self._states(courses, start, epochs, inputs):
            with np.errstate(invalid="ignore"):
                mean = average(states)[:rank]
                pairs = zip(states[0::2], states[1::2], strict=True) if self._is_sampled else ()
                deviations = [(one[:rank] + other[:rank]) / 2 - mean for one, other in pairs]
            yield np.where(np.isfinite(mean), mean, np.inf), deviations

    def _states(
        self, courses: list[Course], start: FloatArray, epochs: FloatArray, inputs: FloatArray | None
    ) -> Iterator[Sequence[FloatArray] | FloatArray]:
        """The states along each of the courses, at the ascending epochs."""
        if side_by_side.serves(courses):
            return side_by_side.states(courses, start, epochs, inputs)
        return zip(*[course.states(start, epochs, inputs) for course in courses], strict=True)

    def _iterates(self, epochs: FloatArray) -> FloatArray:
        """The mean iterate in row-space coordinates u (times, r), at ascending epochs."""
        states = self._means(self.inside(self.start), epochs, None, self._responses)
        iterates = [state[:, 0] for state, _ in states]
        return np.array(iterates).reshape(len(epochs), self.space.dimension)

    @property
    def _responses(self) -> FloatArray:
        """The inputs (1 + rows,) of the run that the data make."""
        return np.concatenate([[1.0], self.blocks.response])

    def iterate(self, epochs: Any) -> FloatArray:
        """The mean iterate after each of the given epochs, of shape epochs.shape + (p,); inf where it grows."""
        clock = self.recipe.clock(epochs)
        when, back = np.unique(clock.ravel(), return_inverse=True)
        coordinates, space = self._iterates(when), self.space
        with np.errstate(over="ignore"):
            inside = coordinates / space.scale
        grows = np.isinf(inside)
        inside = np.where(grows, 0.0, inside)
        outside = space.outside(self.start)
        fades = self.fades(when)
        with np.errstate(invalid="ignore"):
            faded = np.where(outside == 0, 0.0, fades[:, np.newaxis] * outside)
        parameters = faded + space.lift(inside.T).T
        if grows.any():
            reach = space.reach(np.eye(space.dimension), self.problem.X)
            parameters[grows.astype(np.float64) @ reach.T > 0] = np.inf
        return parameters[back].reshape(*clock.shape, space.p)

    def training_loss(self, epochs: Any) -> FloatArray:
        """|y - X b|^2 / (2n) at the mean iterate b, over all rows and without the penalty, as `epochs` in shape."""
        return self._loss_at(self.iterate(epochs))

    def _loss_at(self, parameters: FloatArray) -> FloatArray:
        # What no row sees may grow as it likes.
        flat = np.where(self.problem.X.any(axis=0), parameters, 0.0).reshape(-1, self.problem.p)
        finite = np.isfinite(flat).all(axis=1)
        loss = np.full(len(flat), np.inf)
        with np.errstate(over="ignore"):
            residuals = flat[finite] @ self.problem.X.T - self.problem.y
            loss[finite] = np.square(residuals).sum(axis=1) / (2 * self.problem.n)
        return loss.reshape(parameters.shape[:-1])

    @cached_property
    def readout(self) -> Readout:
        """The risk as a function of the error."""
        beta_star = self.problem.parameters("the risk")
        return Readout(self.space, self.problem.covariance, self.start, beta_star)

    def risk(self, epochs: Any) -> Risk:
        """The risk of the mean iterate, E |b - beta_star|_Sigma^2 over the noise, and its parts.

        Under a penalty nothing is frozen, and all that is not noise is in the bias.
        """
        return self._risk(self.recipe.clock(epochs), with_error=True)

    def _risk(self, clock: FloatArray, with_error: bool = False) -> Risk:
        beta_star, _, noise = self.problem.truth("the risk")
        when, back = np.unique(clock.ravel(), return_inverse=True)
        parts = np.zeros((4, len(when)))
        errors = np.zeros(len(when))
        error = self.inside(self.start - beta_star)
        states = self._means(error, when, self.inside(beta_star))
        # Threads are held once for all epochs: every state is a few small products.
        with few_threads(self.dimension):
            for number, ((state, deviations), fade) in enumerate(zip(states, self.fades(when), strict=True)):
                parts[:, number] = self.risk_parts(state, float(fade), noise)
                if with_error:
                    errors[number] = self._pairs_error(state, deviations, float(fade), noise)
        total = Risk(when, *parts).total
        if with_error:
            errors += self.sampling_error(lambda run: run._risk(when).total, total)
        if errors.any():
            begin = self.problem.covariance.norm_squared(self.start - beta_star)
            warn_of_no_answer(when, total, errors, begin)
        return Risk(clock, *np.vstack([parts, errors])[:, back].reshape(5, *clock.shape))

    def _pairs_error(
        self, state: FloatArray, deviations: list[FloatArray], fade: float, noise: float
    ) -> float:
        """How far the risk at a mean over sampled pairs may be off, from the means without each pair in turn."""
        if not deviations:
            return 0.0
        if not np.isfinite(state).all():
            return np.inf
        others = len(deviations) - 1
        without = [sum(self.risk_parts(state - each / others, fade, noise)) for each in deviations]
        here = sum(self.risk_parts(state, fade, noise))
        return float(confidence.jackknife(np.asarray(here), np.array(without)))

    def iterate_error(self, epochs: Any) -> FloatArray:
        """How far the mean iterate may be off in Euclidean norm.

        0 for the exact mean; for sampled orders so much that at least 99 of 100 seeds are within.
        """
        clock = self.recipe.clock(epochs)
        if self._draws_orders:
            iterates = self.sampling_error(lambda run: run.iterate(clock), self.iterate(clock))
            return norms(iterates)
        if not self._is_sampled:
            return np.zeros(clock.shape)
        when, back = np.unique(clock.ravel(), return_inverse=True)
        deviations = self._iterate_deviations(when)
        errors = norms(confidence.error_of_mean(deviations))
        return np.asarray(errors)[back].reshape(clock.shape)

    def _iterate_deviations(self, when: FloatArray) -> FloatArray:
        """What the iterate of each sampled pair deviates by, in coordinates V'beta: (pairs, times, r)."""
        means = self._means(self.inside(self.start), when, None, self._responses)
        found = np.array([[deviation[:, 0] for deviation in deviations] for _, deviations in means])
        with np.errstate(invalid="ignore"):
            found = found.reshape(len(when), -1, self.space.dimension) / self.space.scale
        return found.swapaxes(0, 1)

    def training_loss_error(self, epochs: Any) -> FloatArray:
        """How far the training loss may be off because orders were sampled, as `epochs` in shape."""
        clock = self.recipe.clock(epochs)
        if self._draws_orders:
            return self.sampling_error(lambda run: run.training_loss(clock), self.training_loss(clock))
        if not self._is_sampled:
            return np.zeros(clock.shape)
        when, back = np.unique(clock.ravel(), return_inverse=True)
        deviations = self._iterate_deviations(when)
        iterates, others = self.iterate(when), len(deviations) - 1
        without = [iterates - self.space.lift(each.T).T / others for each in deviations]
        errors = confidence.jackknife(self._loss_at(iterates), np.array(list(map(self._loss_at, without))))
        return np.asarray(errors)[back].reshape(clock.shape)

    def risk_parts(self, state: FloatArray, fade: float, noise: float) -> tuple[float, float, float, float]:
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
        """Whether the mean iterate has a limit from every start."""
        return self._stability().converges

    def stability(self) -> Stability:
        """Whether and how fast the mean iterate converges."""
        found = self._stability()
        if self.recipe.at(0).step == 0:
            return found
        if self._is_sampled:
            return replace(found, error=np.inf)
        error = self.sampling_error(lambda run: np.asarray(run._stability().rate), np.asarray(found.rate))
        return replace(found, error=float(error))

    def _stability(self) -> Stability:
        """The same without its error."""
        if not self.recipe.is_constant:
            raise ValueError("stability is that of a constant step, but a step schedule was given.")
        settles, rate = True, 0.0
        for course in self._courses:
            with few_threads(self.dimension):
                settles, rate = settles and course.settles, max(rate, course.rate)
        if self.recipe.penalty and self.space.dimension < self.problem.p:
            rate = max(rate, self._outside.rate)
            settles = settles and self._outside.settles
        if self.recipe.at(0).step == 0:
            return Stability(settles, 0.0)
        return Stability(settles, rate, advice=slowness(self.problem.X, 1 - rate) if settles else "")

    def limit(self) -> Limit:
        """Where the mean iterate ends, and its risk there if the truth is known."""
        knows_truth = self.problem.beta_star is not None and self.problem.noise is not None
        return Limit(
            converges=self.converges,
            parameters=self.iterate(np.inf),
            training_loss=float(self.training_loss(np.inf)),
            risk=self.risk(np.inf) if knows_truth else None,
            error=float(self.iterate_error(np.inf)),
            training_loss_error=float(self.training_loss_error(np.inf)),
        )

    def compare_limit(self) -> LimitComparison:
        """The limit beside the minimum-norm solution that full-batch descent from the same start ends in."""
        return limits.compare(self.problem, self.start, self.limit())

    @property
    def frozen(self) -> FrozenSubspace:
        """The subspace in which nothing moves: all that no visited row sees, unless a penalty acts there."""
        space = self.space
        if self.recipe.penalty:
            everything = RowSpace(space.p, space.p, 1.0, None)
            return FrozenSubspace(0, everything, np.zeros((space.p, 0)))
        return FrozenSubspace(space.p - space.dimension, space, np.zeros((space.dimension, 0)))

    def best_epoch(self) -> BestEpoch:
        """The epoch with the smallest risk of the mean iterate, among all epochs until it has settled.

        Epochs are looked at one by one, up to the end of a step schedule, 20,000 of them or the end of the budget.
        If the risk has not settled to twelve digits by then `error` is the whole risk: later epochs are unknown,
        but for the limit.
        """
        end = float(self._risk(np.asarray(np.inf)).total) if self.recipe.is_constant else math.nan
        longest = min(stopping.LONGEST_SEARCH, max(64.0, self.accuracy.budget / self._epoch_flops // 1))
        found = stopping.search_one_by_one(
            lambda epochs: self._risk(epochs).total, end, self.recipe.horizon, longest
        )
        if not (self._draws_orders or self._is_sampled):
            return found
        return replace(found, risk_error=float(self.risk(found.epoch).error))

    @property
    def _epoch_flops(self) -> float:
        """Operations of taking the mean states of all courses one epoch further, and of their risk."""
        rows, rank = self.blocks.rows.shape
        state = 2.0 * (1 + rows) * (self.dimension**2 * len(self._courses) + rank**2)
        return float(state + 4 * CALL * (1 + len(self._courses)))
