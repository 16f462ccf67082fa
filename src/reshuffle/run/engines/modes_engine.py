"""The engine of symmetric epochs: the mean iterate in the modes of Z, or an average, for any epochs at once."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from reshuffle import _linalg, _uncertainty
from reshuffle._arrays import BoolArray, FloatArray
from reshuffle._uncertainty import ErrorKind
from reshuffle.epoch.accuracy import warn_of_no_answer
from reshuffle.epoch.epoch import Epoch
from reshuffle.epoch.select import Choice
from reshuffle.problem.outputs import lengths, of_output
from reshuffle.run import risk_interval, stopping
from reshuffle.run.engines.trajectory import Trajectory
from reshuffle.run.risk import Risk
from reshuffle.run.risk_interval import RiskInterval
from reshuffle.run.stability import Stability, stability
from reshuffle.run.stopping import BestEpoch


class ModesEngine(Trajectory):
    """Mini-batch gradient descent on a least-squares problem, averaged over the random orders of visits.

    beta_k - beta_* = A^k (beta_0 - beta_*) + (step B / n) (1 + A + ... + A^(k-1)) Xtilde' eta, with
    A = I - B step Z (Theorem batch_dynamics, without its range assumption).

    Attributes
    ----------
    epoch : Epoch
        Z, Xtilde and the mean map of one epoch.
    """

    def __init__(self, epoch: Epoch, start: FloatArray):
        self.epoch = epoch
        self.problem = epoch.problem
        self.start = start

    def output(self, number: int) -> "ModesEngine":
        """The engine of one output alone, with the same mean map and its modes."""
        alone = self._with_epoch(self.epoch.output(number))
        alone.start = of_output(self.start, number)
        return alone

    @property
    def method(self) -> str:
        """How the mean over orders was taken: "exact", "cavity" or "sampling"."""
        return self.epoch.method

    @property
    def error_kind(self) -> ErrorKind:
        """In which sense errors are meant."""
        return self.epoch.error_kind

    @property
    def choice(self) -> Choice:
        """How the mean over orders was chosen to be taken."""
        return self.epoch.choice

    @property
    def directions(self) -> FloatArray:
        """Q (r, r), the modes in row-space coordinates."""
        return self.epoch.modes.vectors

    @property
    def frozen_modes(self) -> BoolArray:
        """Which modes belong to the null space of Z; at step zero, all of them."""
        return self.epoch.modes.frozen | (self.epoch.step == 0)

    @property
    def _raw_pull(self) -> FloatArray:
        return self.epoch.pull

    def _require_pull(self) -> None:
        self.epoch.entering(np.ones(len(self._features)))

    @cached_property
    def _entered(self) -> FloatArray:
        entered = self.epoch.entering(self._responses)
        if self._pull_is_in_range and self.frozen_modes.any():
            entered[self.frozen_modes] = 0.0
        return entered

    @property
    def _pull_size(self) -> float:
        return self.epoch.pull_size

    @property
    def _responses(self) -> FloatArray:
        return self.epoch.blocks.response

    @property
    def _features(self) -> FloatArray:
        return self.epoch.blocks.rows

    def iterate_error(self, epochs: FloatArray) -> FloatArray:
        """How far the mean iterate may be off because the mean over orders is not exact, in Euclidean norm.

        Of the shape of `epochs`: 0 for the exact mean, an estimate for the cavity equation, and for sampling so
        much that at least 99 of 100 seeds are within.
        """
        if self.error_kind == "exact":
            return self._no_error(epochs)
        # Coordinates add up like their variances.
        off = self.sampling_error(lambda run: run.iterate(epochs), self.iterate(epochs))
        return lengths(off, self.problem.outputs)

    def _risk_error(self, risk: Risk) -> FloatArray:
        epochs, total = risk.epochs, risk.total
        if self.error_kind == "exact":
            return np.zeros(epochs.shape)
        error = self.sampling_error(lambda run: run._risk(epochs).total, total)
        begin = self.problem.covariance.norm_squared(self.start - self.problem.parameters("the risk"))
        warn_of_no_answer(epochs, total, error, begin)
        return error

    def training_loss_error(self, epochs: FloatArray) -> FloatArray:
        """How far the training loss may be off because the mean over orders is not exact, as `epochs` in shape."""
        if self.error_kind == "exact":
            return self._no_error(epochs)
        return self.sampling_error(lambda run: run.training_loss(epochs), self.training_loss(epochs))

    def sampling_error(self, answer: Callable[[Any], FloatArray], here: FloatArray) -> FloatArray:
        """How far an answer of this run, which is `here`, may be off because orders were sampled; 0 if not."""
        if not self._replicas:
            return np.zeros_like(here)
        answers = np.array([answer(replica) for replica in self._replicas])
        return _uncertainty.of_replicas(self.error_kind, here, answers)

    @cached_property
    def _replicas(self) -> "list[ModesEngine]":
        return [self._with_epoch(epoch) for epoch in self.epoch.replicas]

    def _with_epoch(self, epoch: Epoch) -> "ModesEngine":
        return ModesEngine(epoch, self.start)

    def motion(self, epochs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(1 - x)^k and its geometric sum, for the paces x of the modes."""
        return _linalg.power_and_sum(self.epoch.paces, epochs * self.epoch.mean.repeats)

    @property
    def converges(self) -> bool:
        """Whether the mean iterate has a limit from every start."""
        return self._stability().converges

    def stability(self) -> Stability:
        """Whether and how fast the mean iterate converges."""
        found = replace(self._stability(), error_kind=self.error_kind)
        if not self._replicas:
            return found
        error = self.sampling_error(lambda run: np.asarray(run._stability().rate), np.asarray(found.rate))
        return replace(found, error=float(error))

    def _stability(self) -> Stability:
        """The same, with no error for sampled orders."""
        moving = self.epoch.paces[~self.frozen_modes]
        return stability(moving, self.epoch.mean.repeats, self._pull_is_in_range, self.problem.compressed)

    def best_epoch(self) -> BestEpoch:
        """The epoch with the smallest risk, certified."""
        found = stopping.best_epoch(self.motion, self.risk_forms, self.epoch.paces, self.epoch.mean.repeats)
        return found.with_error_of(self.risk) if self.error_kind != "exact" else found

    def risk_interval(self, epochs: FloatArray) -> RiskInterval:
        """Bounds on the risk of two-batch descent from Z alone."""
        _, drift = self.motion(epochs)
        return risk_interval.two_batch_interval(self.epoch, self.risk(epochs), drift)
