"""What descent and gradient flow share: modes that fade at their own pace, and a frozen rest."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray
from reshuffle._linalg import norm
from reshuffle._uncertainty import ErrorKind
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.outputs import lifted_rows, outputs_last, with_outputs
from reshuffle.run.risk import Risk, RiskForms
from reshuffle.run.stability import FrozenSubspace, RangeAssumption

_CHUNK = 1 << 17
"""Entries of (times, modes) arrays that are worked on at a time, so that they stay in the cache."""
_LARGE_CHUNK = 1 << 20
"""The same where products with an (r, r) matrix are to be shared by many times."""
_FORGIVEN = 1e-10
"""Share of Xtilde' in the null space of Z that is put down to rounding."""


class Trajectory(ABC):
    """The mean iterate as a function of time, from one eigendecomposition.

    In the modes of Z the iterate is decay(t) start + drift(t) pull, and the error
    decay(t) (start - beta_star) + drift(t) pull of the noise.
    """

    problem: LeastSquares
    start: FloatArray

    @property
    @abstractmethod
    def directions(self) -> FloatArray:
        """Q (r, r), the modes in row-space coordinates."""

    @property
    @abstractmethod
    def frozen_modes(self) -> BoolArray:
        """Which modes belong to the null space of Z."""

    @property
    def error_kind(self) -> ErrorKind:
        """In which sense errors are meant."""
        return "exact"

    @property
    @abstractmethod
    def converges(self) -> bool:
        """Whether the mean iterate has a limit from every start."""

    @property
    @abstractmethod
    def _raw_pull(self) -> FloatArray:
        """Q'F'A (r, rows): how responses enter each mode."""

    @property
    @abstractmethod
    def _pull_size(self) -> float:
        """The norm that the pull has before anything cancels in it."""

    @property
    @abstractmethod
    def _responses(self) -> FloatArray:
        """The responses of the rows that the pull speaks of."""

    @property
    @abstractmethod
    def _features(self) -> FloatArray:
        """The same rows (rows, r), over their scale."""

    @abstractmethod
    def motion(self, epochs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What is left of each mode's start, and what the pull on it is multiplied by: decay, drift (..., r)."""

    @property
    def range_assumption(self) -> RangeAssumption:
        """The paper's assumption Range(Xtilde') in Range(Z), checked."""
        return RangeAssumption(self._pull_is_in_range, self._violation)

    @property
    def _pull_is_in_range(self) -> bool:
        """Whether the pull has no part in frozen modes, up to rounding."""
        return self._violation <= _FORGIVEN

    @cached_property
    def _violation(self) -> float:
        """The part of the pull in frozen modes, relative to its size."""
        if not self.frozen_modes.any():
            self._require_pull()
            return 0.0
        stuck = norm(self._raw_pull[self.frozen_modes])
        return stuck / self._pull_size if stuck else 0.0

    def _require_pull(self) -> None:
        """Refuse a step at which the pull leaves the range of numbers."""
        _ = self._raw_pull

    @property
    def frozen(self) -> FrozenSubspace:
        """The frozen subspace of weights."""
        chosen = self.directions[:, self.frozen_modes]
        space = self.problem.row_space
        return FrozenSubspace(space.p - space.dimension + chosen.shape[1], space, chosen)

    @cached_property
    def pull(self) -> FloatArray:
        """The pull (r, rows), with what is mere rounding in frozen modes taken away."""
        if not (self._pull_is_in_range and self.frozen_modes.any()):
            return self._raw_pull
        return np.where(self.frozen_modes[:, np.newaxis], 0.0, self._raw_pull)

    @cached_property
    def _entered(self) -> FloatArray:
        """How the responses enter the modes, (r,) or (r, t)."""
        return self.pull @ self._responses

    @cached_property
    def _start_inside(self) -> FloatArray:
        return self.directions.T @ self.problem.row_space.coordinates(self.start)

    def _coordinates(self, epochs: FloatArray) -> FloatArray:
        """The iterate in the modes, (..., r), or (..., t, r) of several outputs."""
        decay, drift = self.motion(epochs)
        if self.problem.outputs is not None:
            decay, drift = decay[..., np.newaxis, :], drift[..., np.newaxis, :]
        with np.errstate(over="ignore", invalid="ignore"):
            total = times_finite(decay, self._start_inside.T) + times_finite(drift, self._entered.T)
        # Start and pull may escape in opposite directions; what is left of their race still grows.
        return np.where(np.isnan(total), np.inf, total)

    def iterate(self, epochs: FloatArray) -> FloatArray:
        """The mean iterate after each of the given epochs, of shape epochs.shape + (p,), or (p, t).

        Entries that grow without bound are inf.
        """
        space = self.problem.row_space
        coordinates = self._coordinates(epochs.ravel())
        grows = np.isinf(coordinates)
        inside = np.where(grows, 0.0, coordinates) @ self.directions.T
        parameters = space.outside(self.start).T + lifted_rows(space, inside)
        if grows.any():
            reach = space.reach(self.directions, self.problem.compressed.column_sizes)
            parameters[grows.astype(np.float64) @ reach.T > 0] = np.inf
        return outputs_last(parameters, epochs.shape, self.problem.outputs)

    def iterate_error(self, epochs: FloatArray) -> FloatArray:
        """How far the mean iterate may be off beyond rounding, in Euclidean norm, of the shape of `epochs`."""
        return self._no_error(epochs)

    def training_loss_error(self, epochs: FloatArray) -> FloatArray:
        """How far the training loss may be off beyond rounding, of the shape of `epochs`."""
        return self._no_error(epochs)

    def _no_error(self, epochs: FloatArray) -> FloatArray:
        return np.zeros(with_outputs(epochs.shape, self.problem.outputs))

    def sampling_error(self, answer: Callable[[Any], FloatArray], here: FloatArray) -> FloatArray:
        """How far an answer of this run, which is `here`, may be off because orders were sampled; 0 if not."""
        return np.zeros_like(here)

    def _risk_error(self, risk: Risk) -> FloatArray:
        """How far the total risk may be off beyond rounding."""
        return np.zeros(risk.epochs.shape)

    def training_loss(self, epochs: FloatArray) -> FloatArray:
        """|y - X b|^2 / (2n) at the mean iterate b, of the shape of `epochs`, or (..., t)."""
        coordinates = self._coordinates(epochs)
        reduction = self.problem.reduction
        with np.errstate(over="ignore", invalid="ignore"):
            fitted = self._fitted(reduction.space.scale * coordinates, reduction.rows)
            loss = np.square(fitted - reduction.response.T).sum(axis=-1) / (2 * self.problem.n)
        return np.where(np.isfinite(loss), loss, np.inf)

    def _fitted(self, coordinates: FloatArray, rows: FloatArray) -> FloatArray:
        """Rows (q, r) of features times iterates in the modes (..., r): the cheaper way round, (..., q)."""
        flat = coordinates.reshape(math.prod(coordinates.shape[:-1]), len(self.directions))
        # What diverges must not meet what it has no part in.
        if len(flat) < len(self.directions) // 2 and np.isfinite(flat).all():
            fitted = (flat @ self.directions.T) @ rows.T
        else:
            fitted = flat @ (rows @ self.directions).T
        return np.asarray(fitted.reshape(*coordinates.shape[:-1], len(rows)))

    def degrees_of_freedom(self, epochs: FloatArray) -> FloatArray:
        """tr X (drift(t) pull), the sum over the modes of drift times what the pull makes of the features."""
        features = self.problem.row_space.scale * (self._features @ self.directions)
        met = np.einsum("jq,qj->j", self.pull, features)
        _, drift = self.motion(epochs)
        with np.errstate(over="ignore", invalid="ignore"):
            total = times_finite(drift, met).sum(axis=-1)
        return np.where(np.isnan(total), np.inf, total)

    @cached_property
    def risk_forms(self) -> RiskForms:
        """The quadratic forms of the risk in the modes."""
        beta_star, covariance, noise = self.problem.truth("the risk")
        return RiskForms.of(
            space=self.problem.row_space,
            modes=self.directions,
            frozen_modes=self.frozen_modes,
            error=self.start - beta_star,
            pull=self.pull,
            covariance=covariance,
            noise=noise,
        )

    def risk(self, epochs: FloatArray) -> Risk:
        """The risk of the mean iterate, E |b - beta_star|_Sigma^2 over the noise, and its parts."""
        risk = self._risk(epochs)
        return replace(risk, error=self._risk_error(risk), error_kind=self.error_kind)

    def _risk(self, epochs: FloatArray) -> Risk:
        flat = epochs.ravel()
        entries = _CHUNK if self.problem.covariance.is_isotropic else _LARGE_CHUNK
        height = max(1, entries // max(1, self.problem.rank))
        parts = [
            self.risk_forms.parts(*self.motion(flat[start : start + height]))
            for start in range(0, len(flat), height)
        ]
        return Risk(epochs, *np.concatenate([np.zeros((4, 0)), *parts], axis=1).reshape(4, *epochs.shape))


def times_finite(factor: FloatArray, amount: FloatArray) -> FloatArray:
    """`factor * amount`, where nothing times infinity is nothing: an absent mode cannot diverge."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(amount == 0, 0.0, factor * amount)
