"""The mean iterate as a function of the epochs, and what is read off it; in the modes of a symmetric mean map.

In the modes of Z the iterate is decay(k) start + drift(k) input, and the error decay(k) (start - beta_star) +
drift(k) noise: any number of epochs costs one eigendecomposition.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from reshuffle import _uncertainty
from reshuffle._arrays import BoolArray, FloatArray
from reshuffle._budget import warn_of_no_answer
from reshuffle._linalg import moving_mean, norm, norms, power_and_sum, tail_mean
from reshuffle._uncertainty import ERROR_KINDS, ErrorKind
from reshuffle.epoch.epoch import Epoch
from reshuffle.epoch.select import Choice
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.row_space import RowSpace
from reshuffle.recipe import Average
from reshuffle.run import stopping
from reshuffle.run.risk import Risk, RiskForms
from reshuffle.run.stability import FrozenSubspace, RangeAssumption, Stability, stability
from reshuffle.run.stopping import BestEpoch

_CHUNK = 1 << 17
"""Entries of (times, modes) arrays that are worked on at a time, so that they stay in the cache."""
_LARGE_CHUNK = 1 << 20
"""Entries of such arrays where products with an (r, r) matrix are shared by many times."""
_FORGIVEN = 1e-10
"""Share of Xtilde' in the null space of Z that is put down to rounding."""


class Trajectory(ABC):
    """The mean iterate of a run from a start (p, t) along the epochs, of any shape, which are checked already.

    Where the mean map is not exact, `replicas` are the same trajectory with other maps; the error of every answer
    follows from the answers of the replicas.
    """

    problem: LeastSquares
    start: FloatArray

    @property
    @abstractmethod
    def space(self) -> RowSpace:
        """The row space in which the iterate moves."""

    @property
    @abstractmethod
    def choice(self) -> Choice:
        """The way in which the mean over orders is taken, and why."""

    @property
    def method(self) -> str:
        """The way in which the mean over orders is taken: "exact", "cavity" or "sampling"."""
        return self.choice.taken

    @property
    def error_kind(self) -> ErrorKind:
        """The meaning of errors."""
        return ERROR_KINDS[self.method]

    @property
    @abstractmethod
    def replicas(self) -> "Sequence[tuple[ErrorKind, Sequence[Trajectory]]]":
        """Trajectories with other maps of a stage, which carry its error; none if all maps are exact."""

    @abstractmethod
    def coordinates(self, when: FloatArray) -> FloatArray:
        """The iterate in the basis of `directions`, (k, t, r), at ascending epochs; inf where growing."""

    @property
    @abstractmethod
    def directions(self) -> FloatArray:
        """Q (r, r), a basis of the row space in its own coordinates."""

    def outside_decay(self, when: FloatArray) -> FloatArray:
        """The factor (k,) of the start outside the row space at ascending epochs; 1 without a penalty."""
        return np.ones(len(when))

    @property
    @abstractmethod
    def frozen(self) -> FrozenSubspace:
        """The subspace in which nothing is learned."""

    @property
    @abstractmethod
    def converges(self) -> bool:
        """True if the mean iterate has a limit from every start."""

    @abstractmethod
    def _risk(self, epochs: FloatArray) -> Risk:
        """The risk without its error."""

    @abstractmethod
    def _stability(self) -> Stability:
        """The stability without its error."""

    def iterate(self, epochs: FloatArray) -> FloatArray:
        """The mean iterate after each of the given epochs, epochs.shape + (p, t); inf where it overflows."""
        when, back = np.unique(epochs.ravel(), return_inverse=True)
        coordinates, space = self.coordinates(when), self.space
        grows = np.isinf(coordinates)
        inside = np.where(grows, 0.0, coordinates) @ self.directions.T
        outside, decay = space.outside(self.start).T, self.outside_decay(when)[:, np.newaxis, np.newaxis]
        flat = inside.reshape(len(when) * len(outside), space.dimension)
        with np.errstate(invalid="ignore"):
            parameters = np.where(outside == 0, 0.0, decay * outside)
            parameters = parameters + space.lift(flat.T).T.reshape(len(when), *outside.shape)
        if grows.any():
            reach = space.reach(self.directions, self.problem.compressed.column_sizes)
            parameters[grows.astype(np.float64) @ reach.T > 0] = np.inf
        return np.ascontiguousarray(parameters[back].swapaxes(1, 2)).reshape(*epochs.shape, *self.start.shape)

    def training_loss(self, epochs: FloatArray) -> FloatArray:
        """|y - X b|^2 / (2n) at the mean iterate b, over all rows and without the penalty, epochs.shape + (t,)."""
        return self._loss_at(self.iterate(epochs))

    def _loss_at(self, parameters: FloatArray) -> FloatArray:
        """The loss (..., t) of parameters (..., p, t), from the reduced data."""
        reduction, space = self.problem.reduction, self.problem.row_space
        # What no row sees may grow as it likes.
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

    @property
    def initial_error(self) -> FloatArray:
        """beta_0 - beta_star (p,), of a problem with one output."""
        return self.start[:, 0] - self.problem.parameters("the risk")

    def risk(self, epochs: FloatArray) -> Risk:
        """The risk of the mean iterate, E |b - beta_star|_Sigma^2 over the noise, and its parts.

        Under a penalty nothing is frozen, and all that is not noise is in the bias.
        """
        risk = self._risk(epochs)
        error = self.sampling_error(lambda run: run._risk(epochs).total, risk.total)
        if error.any():
            begin = self.problem.covariance.norm_squared(self.initial_error)
            warn_of_no_answer(epochs, risk.total, error, begin)
        return replace(risk, error=error, error_kind=self.error_kind)

    def sampling_error(self, answer: Callable[[Any], FloatArray], here: FloatArray) -> FloatArray:
        """The error of an answer of this run, which is `here`, because its map is not exact; 0 if it is."""
        error = np.zeros_like(here)
        for kind, replicas in self.replicas:
            answers = np.array([answer(replica) for replica in replicas])
            error = error + _uncertainty.of_replicas(kind, here, answers)
        return error

    def iterate_error(self, epochs: FloatArray) -> FloatArray:
        """The error of the mean iterate in Euclidean norm, epochs.shape + (t,).

        0 for the exact mean, an estimate for the cavity equation, and for sampled orders so much that at least 99
        of 100 seeds are within.
        """
        if not self.replicas:
            return np.zeros((*epochs.shape, self.start.shape[1]))
        # Coordinates add up like their variances.
        off = self.sampling_error(lambda run: run.iterate(epochs), self.iterate(epochs))
        return norms(off.swapaxes(-1, -2))

    def training_loss_error(self, epochs: FloatArray) -> FloatArray:
        """The error of the training loss, epochs.shape + (t,)."""
        if not self.replicas:
            return np.zeros((*epochs.shape, self.start.shape[1]))
        return self.sampling_error(lambda run: run.training_loss(epochs), self.training_loss(epochs))

    def stability(self) -> Stability:
        """Convergence of the mean iterate, and its rate."""
        found = self._stability()
        error = self.sampling_error(lambda run: np.asarray(run._stability().rate), np.asarray(found.rate))
        return replace(found, error=float(error), error_kind=self.error_kind)


class ModesTrajectory(Trajectory):
    """Mini-batch gradient descent whose mean epoch is one symmetric map, in the modes of Z.

    beta_k - beta_* = A^k (beta_0 - beta_*) + (step B / n) (1 + A + ... + A^(k-1)) Xtilde' eta, with
    A = I - B step Z (Theorem batch_dynamics, without its range assumption). With an average per epoch, decay(k)
    and drift(k) are replaced by their averages: for the tail of epochs k0 + 1, ..., k with L = k - k0 and l = 1 - x
    the decay is l^(k0 + 1) (1 - l^L) / (L (1 - l)); for an EMA with decay d, d^k + (1 - d) l (l^k - d^k) / (l - d).

    Parameters
    ----------
    epoch : Epoch
        Z, Xtilde and the mean map of one epoch.
    start : (p, t)
    average : Average, optional
        Per epoch.
    problem, columns
        Of one output, its problem and its place among the responses of the epoch.
    """

    def __init__(
        self,
        epoch: Epoch,
        start: FloatArray,
        average: Average | None = None,
        problem: LeastSquares | None = None,
        columns: slice = slice(None),
    ):
        self.epoch, self.problem, self.start, self.average = epoch, problem or epoch.problem, start, average
        self._columns = columns

    def output(self, number: int) -> "ModesTrajectory":
        """The trajectory of one output alone, with the same mean map and its modes."""
        own = slice(number, number + 1)
        return type(self)(self.epoch, self.start[:, own], self.average, self.problem.output(number), own)

    @property
    def space(self) -> RowSpace:
        """Range(X')."""
        return self.problem.row_space

    @property
    def method(self) -> str:
        """The way in which the mean over orders is taken."""
        return self.epoch.method

    @property
    def choice(self) -> Choice:
        """The reasons for that way."""
        return self.epoch.choice

    @cached_property
    def replicas(self) -> "list[tuple[ErrorKind, list[ModesTrajectory]]]":
        """The trajectories of the replicas of the mean map."""
        shared = self.start, self.average, self.problem, self._columns
        copies = [type(self)(epoch, *shared) for epoch in self.epoch.replicas]
        return [(self.error_kind, copies)] if copies else []

    @property
    def directions(self) -> FloatArray:
        """Q (r, r), the modes in row-space coordinates."""
        return self.epoch.modes.vectors

    @property
    def frozen_modes(self) -> BoolArray:
        """True for the modes (r,) of the null space of Z; at step zero, all of them."""
        return self.epoch.modes.frozen | (self.epoch.step == 0)

    @property
    def frozen(self) -> FrozenSubspace:
        """The frozen subspace of parameters."""
        chosen = self.directions[:, self.frozen_modes]
        return FrozenSubspace(self.space.p - self.space.dimension + chosen.shape[1], self.space, chosen)

    @property
    def range_assumption(self) -> RangeAssumption:
        """The paper's assumption Range(Xtilde') in Range(Z), checked."""
        return RangeAssumption(self._violation <= _FORGIVEN, self._violation)

    @cached_property
    def _violation(self) -> float:
        """The part of the input map in frozen modes, relative to its size."""
        if not self.frozen_modes.any():
            # Refuses a step at which the input map leaves the range of numbers.
            self.epoch.entering(np.ones((len(self.epoch.blocks.rows), 1)))
            return 0.0
        stuck = norm(self.epoch.input_map[self.frozen_modes])
        return stuck / self.epoch.input_size if stuck else 0.0

    @cached_property
    def input_map(self) -> FloatArray:
        """The input map (r, rows) into the modes, with mere rounding in frozen modes taken away."""
        if not (self._violation <= _FORGIVEN and self.frozen_modes.any()):
            return self.epoch.input_map
        return np.where(self.frozen_modes[:, np.newaxis], 0.0, self.epoch.input_map)

    @cached_property
    def _entered(self) -> FloatArray:
        """The responses in the modes, (r, t)."""
        entered = self.epoch.entering(self.epoch.blocks.response[:, self._columns])
        if self._violation <= _FORGIVEN and self.frozen_modes.any():
            entered[self.frozen_modes] = 0.0
        return entered

    def motion(self, epochs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Decay and drift (..., r) of the modes: (1 - x)^k and its geometric sum, or their averages."""
        decay_rates, repeats = self.epoch.decay_rates, self.epoch.mean.repeats
        decay, drift = power_and_sum(decay_rates, epochs * repeats)
        average = self.average
        if average is None:
            return decay, drift
        finite = np.isfinite(epochs)
        # An epoch may be several equal steps: it takes the share x S of a mode, S the sum over its steps.
        _, steps = power_and_sum(decay_rates, np.asarray(float(repeats)))
        if average.begins_with_iterate:
            powers, sums = moving_mean(decay_rates * steps, average.kept, epochs[finite])
        else:
            powers, sums = tail_mean(decay_rates * steps, average.earliest, epochs[finite])
        with np.errstate(over="ignore", invalid="ignore"):
            for whole, part in ((decay, powers), (drift, sums * steps)):
                # What leaves the range of numbers in two directions at once still grows.
                whole[finite] = np.where(np.isnan(part), np.inf, part)
        return decay, drift

    def coordinates(self, when: FloatArray) -> FloatArray:
        """The iterate in the modes, (..., t, r)."""
        decay, drift = (part[..., np.newaxis, :] for part in self.motion(when))
        start = self.directions.T @ self.space.coordinates(self.start)
        with np.errstate(over="ignore", invalid="ignore"):
            total = times_finite(decay, start.T) + times_finite(drift, self._entered.T)
        # Start and inputs may escape in opposite directions; what is left of their race still grows.
        return np.where(np.isnan(total), np.inf, total)

    def training_loss(self, epochs: FloatArray) -> FloatArray:
        """|y - X b|^2 / (2n) at the mean iterate b, epochs.shape + (t,)."""
        coordinates, reduction = self.space.scale * self.coordinates(epochs), self.problem.reduction
        flat = coordinates.reshape(math.prod(coordinates.shape[:-1]), len(self.directions))
        with np.errstate(over="ignore", invalid="ignore"):
            # The cheaper way round; what diverges must not meet what it has no part in.
            if len(flat) < len(self.directions) // 2 and np.isfinite(flat).all():
                fitted = (flat @ self.directions.T) @ reduction.rows.T
            else:
                fitted = flat @ (reduction.rows @ self.directions).T
            fitted = fitted.reshape(*coordinates.shape[:-1], len(reduction.rows))
            loss = np.square(fitted - reduction.response.T).sum(axis=-1) / (2 * self.problem.n)
        return np.where(np.isfinite(loss), loss, np.inf)

    def degrees_of_freedom(self, epochs: FloatArray) -> FloatArray:
        """Tr X (drift(k) input map), the sum over the modes of drift times the input map of the features."""
        features = self.space.scale * (self.epoch.blocks.rows @ self.directions)
        _, drift = self.motion(epochs)
        with np.errstate(over="ignore", invalid="ignore"):
            total = times_finite(drift, np.einsum("jq,qj->j", self.input_map, features)).sum(axis=-1)
        return np.where(np.isnan(total), np.inf, total)

    @cached_property
    def risk_forms(self) -> RiskForms:
        """The quadratic forms of the risk in the modes."""
        _, covariance, noise = self.problem.truth("the risk")
        return RiskForms.of(
            space=self.space,
            modes=self.directions,
            frozen_modes=self.frozen_modes,
            error=self.initial_error,
            input_map=self.input_map,
            covariance=covariance,
            noise=noise,
        )

    def _risk(self, epochs: FloatArray) -> Risk:
        flat = epochs.ravel()
        entries = _CHUNK if self.problem.covariance.is_isotropic else _LARGE_CHUNK
        height = max(1, entries // max(1, self.problem.rank))
        parts = [
            self.risk_forms.parts(*self.motion(flat[start : start + height]))
            for start in range(0, len(flat), height)
        ]
        return Risk(epochs, *np.concatenate([np.zeros((4, 0)), *parts], axis=1).reshape(4, *epochs.shape))

    @property
    def converges(self) -> bool:
        """True if the mean iterate has a limit from every start."""
        return self._stability().converges

    def _stability(self) -> Stability:
        moving = self.epoch.decay_rates[~self.frozen_modes]
        return stability(
            moving, self.epoch.mean.repeats, self.range_assumption.holds, self.problem.compressed
        )

    def best_epoch(self) -> BestEpoch:
        """The epoch with the smallest risk, certified unless an average meets modes that change their sign.

        An average of what falls falls, so that between two epochs every mode is between its values there. Where the
        sign of a mode alternates under an average epochs are tried one by one, until the risk has converged or
        20,000 of them.
        """
        first = 0 if self.average is None else self.average.earliest
        decay_rates, repeats = self.epoch.decay_rates, self.epoch.mean.repeats
        if self.average is not None and ((decay_rates > 1) & (repeats % 2 == 1)).any():
            end = float(self._risk(np.asarray(np.inf)).total)
            found = stopping.search_one_by_one(lambda late: self._risk(late + first).total, end, np.inf)
        else:
            found = stopping.best_epoch(
                lambda late: self.motion(late + first), self.risk_forms, decay_rates, repeats
            )
        found = replace(found, epoch=found.epoch + first)
        return found.with_error_of(self.risk) if self.error_kind != "exact" else found


def times_finite(factor: FloatArray, amount: FloatArray) -> FloatArray:
    """`factor * amount`, where nothing times infinity is nothing: an absent mode cannot diverge."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(amount == 0, 0.0, factor * amount)
