"""The engine of epochs that are no symmetric map: fixed orders, momentum, penalties, step schedules."""

import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from reshuffle import _uncertainty
from reshuffle._arrays import FloatArray
from reshuffle._blas import few_threads
from reshuffle._linalg import norms
from reshuffle.epoch.accuracy import CALL, warn_of_no_answer
from reshuffle.epoch.moments.trajectory import Readout
from reshuffle.epoch.select import walk_flops
from reshuffle.problem.outputs import lengths, lifted_rows, outputs_last, stacked, with_outputs
from reshuffle.run import stopping
from reshuffle.run.engines.affine_states import AffineStates, pairs
from reshuffle.run.risk import Risk
from reshuffle.run.stability import FrozenSubspace, Stability, nothing_frozen, slowness
from reshuffle.run.stopping import BestEpoch

_LARGEST = 1e300
_SEARCHED = 2000
"""Epochs that a search one by one looks at, more or less."""


class AffineEngine(AffineStates):
    """The mean iterate, its risk and its stability, read off the mean states along the courses of a run."""

    def _iterates(self, epochs: FloatArray) -> FloatArray:
        """The mean iterate in row-space coordinates u / scale (times, r) or (times, t, r), at ascending epochs."""
        # The run is linear in start and responses; u itself may leave the range before the parameters do, and the
        # responses over the scale before either.
        scale, largest = self.space.scale, float(np.abs(self._responses).max())
        unit = scale if largest < _LARGEST * scale else 1.0
        start = self.space.coordinates(self.start) * (scale / unit)
        states = self.means(start, epochs, self._responses / unit)
        several = self.problem.outputs is not None
        iterates = [state.T if several else state[:, 0] for state in states]
        shape = with_outputs((len(epochs),), self.problem.outputs)
        with np.errstate(over="ignore"):
            return np.array(iterates).reshape(*shape, self.space.dimension) / (scale / unit)

    @property
    def _responses(self) -> FloatArray:
        """The inputs (1 + rows,) or (1 + rows, t) of the run that the data make."""
        response = self.blocks.response
        return np.concatenate([np.ones((1, *response.shape[1:])), response])

    def degrees_of_freedom(self, epochs: FloatArray) -> FloatArray:
        """The trace of what the responses of the rows are multiplied by in their fit, of the shape of `epochs`."""
        when, back = np.unique(epochs.ravel(), return_inverse=True)
        states = self.means(np.zeros(self.space.dimension), when)
        with np.errstate(over="ignore", invalid="ignore"):
            traces = [float(np.einsum("qr,rq->", self.blocks.rows, state[:, 1:])) for state in states]
        found = np.array(traces)
        return np.where(np.isfinite(found), found, np.inf)[back].reshape(epochs.shape)

    def iterate(self, epochs: FloatArray) -> FloatArray:
        """The mean iterate after each of the given epochs, epochs.shape + (p,) or (p, t); inf where it grows."""
        when, back = np.unique(epochs.ravel(), return_inverse=True)
        coordinates, space = self._iterates(when), self.space
        grows = np.isinf(coordinates)
        inside = np.where(grows, 0.0, coordinates)
        outside = space.outside(self.start).T
        fades = self.fades(when).reshape(-1, *[1] * (coordinates.ndim - 1))
        with np.errstate(invalid="ignore"):
            faded = np.where(outside == 0, 0.0, fades * outside)
        parameters = faded + lifted_rows(space, inside)
        if grows.any():
            reach = space.reach(np.eye(space.dimension), self.problem.compressed.column_sizes)
            parameters[grows.astype(np.float64) @ reach.T > 0] = np.inf
        return outputs_last(parameters[back], epochs.shape, self.problem.outputs)

    def training_loss(self, epochs: FloatArray) -> FloatArray:
        """|y - X b|^2 / (2n) at the mean iterate b, over all rows and without the penalty, as `epochs` in shape."""
        return self._loss_at(self.iterate(epochs))

    def _loss_at(self, parameters: FloatArray) -> FloatArray:
        """The loss (...) of parameters (..., p), or (..., t) of (..., p, t)."""
        if self.problem.outputs is not None:
            return self._losses_at(parameters)
        # What no row sees may grow as it likes.
        kept = self.problem.compressed
        flat = np.where(kept.X.any(axis=0), parameters, 0.0).reshape(-1, self.problem.p)
        finite = np.isfinite(flat).all(axis=1)
        loss = np.full(len(flat), np.inf)
        with np.errstate(over="ignore"):
            residuals = flat[finite] @ kept.X.T - kept.y
            loss[finite] = np.square(residuals).sum(axis=1) / (2 * self.problem.n)
        return loss.reshape(parameters.shape[:-1])

    def _losses_at(self, parameters: FloatArray) -> FloatArray:
        """The losses (..., t) of the outputs, from the reduced data: residuals of all rows would be n for each."""
        reduction, space = self.problem.reduction, self.problem.row_space
        visible = np.asarray(self.problem.compressed.X.any(axis=0))[:, np.newaxis]
        seen = np.where(visible, parameters, 0.0)
        finite = np.asarray(np.isfinite(seen).all(axis=-2))
        columns = np.moveaxis(np.where(finite[..., np.newaxis, :], seen, 0.0), -2, 0)
        inside = space.coordinates(columns.reshape(space.p, finite.size))
        with np.errstate(over="ignore", invalid="ignore"):
            fitted = (reduction.rows @ (space.scale * inside)).reshape(len(reduction.rows), *finite.shape)
            response = reduction.response.reshape(-1, *[1] * (finite.ndim - 1), finite.shape[-1])
            loss = np.square(fitted - response).sum(axis=0) / (2 * self.problem.n)
        return np.where(finite & np.isfinite(loss), loss, np.inf)

    @cached_property
    def readout(self) -> Readout:
        """The risk as a function of the error."""
        beta_star = self.problem.parameters("the risk")
        return Readout(self.space, self.problem.covariance, self.start, beta_star)

    def risk(self, epochs: FloatArray) -> Risk:
        """The risk of the mean iterate, E |b - beta_star|_Sigma^2 over the noise, and its parts.

        Under a penalty nothing is frozen, and all that is not noise is in the bias.
        """
        return self._risk(epochs, with_error=True)

    def _risk(self, epochs: FloatArray, with_error: bool = False) -> Risk:
        beta_star, _, noise = self.problem.truth("the risk")
        when, back = np.unique(epochs.ravel(), return_inverse=True)
        parts = np.zeros((4, len(when)))
        states = self.means(self.inside(self.start - beta_star), when, of_errors=True)
        # Threads are held once for all epochs: every state is a few small products.
        with few_threads(self.dimension):
            for number, (state, fade) in enumerate(zip(states, self.fades(when), strict=True)):
                parts[:, number] = self.risk_parts(state, float(fade), noise)
        total = Risk(when, *parts).total
        errors = np.zeros(len(when))
        if with_error:
            errors += self.sampling_error(lambda run: run._risk(when).total, total)
            errors += self._pairs_error(when, total, noise)
        if errors.any():
            begin = self.problem.covariance.norm_squared(self.start - beta_star)
            warn_of_no_answer(when, total, errors, begin)
        frozen, bias, cross, variance, error = np.vstack([parts, errors])[:, back].reshape(5, *epochs.shape)
        return Risk(epochs, frozen, bias, cross, variance, error, self.error_kind)

    def _pairs_error(self, when: FloatArray, total: FloatArray, noise: float) -> FloatArray:
        """How far the risk at a mean over sampled pairs may be off, from the means without each pair in turn."""
        errors = np.zeros(len(when))
        if self.samples_courses:
            size = self.block_length()
            for block in (slice(first, first + size) for first in range(0, len(when), size)):
                errors[block] = self._error_of_pairs(when[block], total[block], noise)
        return errors

    def _error_of_pairs(self, when: FloatArray, total: FloatArray, noise: float) -> FloatArray:
        """The same for so few epochs that the means after them fit in memory."""
        start = self.inside(self.start - self.problem.parameters("the risk"))
        means, fades = list(self.means(start, when, of_errors=True)), self.fades(when)
        others, rank = len(self.courses) // 2 - 1, self.space.dimension
        without = np.zeros((others + 1, len(when)))

        def watch(place: slice, number: int, states: FloatArray) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                left = means[number] - (pairs(states[:, :rank]) - means[number]) / others
            without[_halved(place), number] = self.readout.risks(left, float(fades[number]), noise)

        for _ in self.means(start, when, of_errors=True, watch=watch):
            pass
        finite = np.array([bool(np.isfinite(mean).all()) for mean in means], dtype=bool)
        return np.where(finite, _uncertainty.jackknife(total, without), np.inf)

    def iterate_error(self, epochs: FloatArray) -> FloatArray:
        """How far the mean iterate may be off in Euclidean norm.

        0 for the exact mean, an estimate for the cavity equation, and for sampled orders so much that at least 99
        of 100 seeds are within.
        """
        if self.has_replicas:
            iterates = self.sampling_error(lambda run: run.iterate(epochs), self.iterate(epochs))
            return lengths(iterates, self.problem.outputs)
        if not self.samples_courses:
            return np.zeros(with_outputs(epochs.shape, self.problem.outputs))
        if self.problem.outputs is not None:
            return stacked([one.iterate_error(epochs) for one in self.each_output()])
        when, back = np.unique(epochs.ravel(), return_inverse=True)
        deviations = self._iterate_deviations(when)
        errors = norms(_uncertainty.error_of_mean(deviations))
        return np.asarray(errors)[back].reshape(epochs.shape)

    def _iterate_deviations(self, when: FloatArray) -> FloatArray:
        """What the iterate of each sampled pair deviates by, in coordinates V'beta: (pairs, times, r)."""
        start, inputs = self.inside(self.start), self._responses
        found = np.zeros((len(self.courses) // 2, len(when), self.space.dimension))

        def watch(place: slice, number: int, states: FloatArray) -> None:
            found[_halved(place), number] = pairs(states[:, : self.space.dimension])[:, :, 0]

        for _ in self.means(start, when, inputs, watch=watch):
            pass
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(found - found.mean(axis=0)) / self.space.scale

    def training_loss_error(self, epochs: FloatArray) -> FloatArray:
        """How far the training loss may be off because orders were sampled, as `epochs` in shape."""
        if self.has_replicas:
            return self.sampling_error(lambda run: run.training_loss(epochs), self.training_loss(epochs))
        if not self.samples_courses:
            return np.zeros(with_outputs(epochs.shape, self.problem.outputs))
        if self.problem.outputs is not None:
            return stacked([one.training_loss_error(epochs) for one in self.each_output()])
        when, back = np.unique(epochs.ravel(), return_inverse=True)
        deviations = self._iterate_deviations(when)
        iterates, others = self.iterate(when), len(deviations) - 1
        without = [iterates - self.space.lift(each.T).T / others for each in deviations]
        errors = _uncertainty.jackknife(self._loss_at(iterates), np.array(list(map(self._loss_at, without))))
        return np.asarray(errors)[back].reshape(epochs.shape)

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
        self._require_constant()
        return self._settles

    def stability(self) -> Stability:
        """Whether and how fast the mean iterate converges."""
        found = self._stability()
        if self.recipe.at(0).step == 0:
            return found
        if self.samples_courses:
            return replace(found, error=np.inf, error_kind="estimate")
        error = self.sampling_error(lambda run: np.asarray(run._stability().rate), np.asarray(found.rate))
        return replace(found, error=float(error), error_kind=self.error_kind)

    def _require_constant(self) -> None:
        if not self.recipe.is_constant:
            raise ValueError("stability is that of a constant step, but a step schedule was given.")

    @property
    def _settles(self) -> bool:
        """Whether every course converges from every start, outside the row space too."""
        if not self.settles_outside:
            return False
        return all(course.settles for course in self.chunks(inputs=np.zeros(0)))

    @property
    def settles_outside(self) -> bool:
        """Whether the start fades outside the row space, or stays there without a penalty."""
        return self._outside.settles if self._reaches_out else True

    @property
    def _reaches_out(self) -> bool:
        """Whether a penalty acts outside the row space."""
        return self.recipe.penalty > 0 and self.space.dimension < self.problem.p

    def _stability(self) -> Stability:
        """The same without its error."""
        self._require_constant()
        parts = self.chunks(inputs=np.zeros(0))
        settles, rate = self._settles, max(part.rate for part in parts)
        if self._reaches_out:
            rate = max(rate, self._outside.rate)
        if self.recipe.at(0).step == 0:
            return Stability(settles, 0.0)
        return Stability(settles, rate, advice=slowness(self.problem.compressed, 1 - rate) if settles else "")

    @property
    def frozen(self) -> FrozenSubspace:
        """The subspace in which nothing moves: all that no visited row sees, unless a penalty acts there."""
        space = self.space
        if self.recipe.penalty:
            return nothing_frozen(space.p)
        return FrozenSubspace(space.p - space.dimension, space, np.zeros((space.dimension, 0)))

    def best_epoch(self) -> BestEpoch:
        """The epoch with the smallest risk of the mean iterate, among all epochs until it has settled.

        Epochs are looked at one by one, up to the end of a step schedule, 20,000 of them or the end of the budget.
        If the risk has not settled to twelve digits by then `error` is the whole risk: later epochs are unknown,
        but for the limit.
        """
        end = float(self._risk(np.asarray(np.inf)).total) if self.recipe.has_limit else math.nan
        longest = min(stopping.LONGEST_SEARCH, max(64.0, self.accuracy.budget / self._epoch_flops // 1))
        first = self._searched_from
        found = stopping.search_one_by_one(
            lambda late: self._risk(late + first).total, end, self.recipe.horizon - first, longest
        )
        found = replace(found, epoch=found.epoch + first)
        return found.with_error_of(self.risk) if self.error_kind != "exact" else found

    @property
    def _searched_from(self) -> int:
        """The first epoch that a search for the best looks at."""
        return self.recipe.earliest

    @property
    def settling(self) -> "AffineEngine":
        """The run that decides whether this one settles."""
        return self

    def parts(self, when: FloatArray) -> "list[tuple[AffineEngine, FloatArray]]":
        """The stages that lead to ascending epochs, and those of each."""
        return [(self, when)]

    @property
    def search_operations(self) -> float:
        """About what `best_epoch` costs, a few thousand epochs as a rule; infinite where orders are drawn."""
        if self.error_kind != "exact":
            return math.inf
        state = 2.0 * len(self.courses) * self.dimension**2 * len(self.blocks.rows)
        return _SEARCHED * (state + self._flops_of_new_steps)

    @property
    def _flops_of_new_steps(self) -> float:
        """Operations of the map of an epoch, where a schedule asks for another one in every epoch."""
        if isinstance(self.recipe.schedule, float):
            return 0.0
        steps = self.walk.steps * CALL
        price = walk_flops(self.walk, self.blocks, self.dimension) if self.walk.exists else steps
        return len(self.courses) * price

    @property
    def _epoch_flops(self) -> float:
        """Operations of taking the mean states of all courses one epoch further, and of their risk."""
        rows, rank = self.blocks.rows.shape
        state = 2.0 * (1 + rows) * (self.dimension**2 * len(self.courses) + rank**2)
        calls = 1 + len(self.chunks())
        return float(state + 4 * CALL * calls + self._flops_of_new_steps)


def _halved(place: slice) -> slice:
    """Where the pairs of some of the courses are among all pairs."""
    return slice(place.start // 2, place.stop // 2)
