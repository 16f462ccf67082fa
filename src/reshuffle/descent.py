"""The mean iterate of a training recipe, for any number of epochs at once."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from reshuffle import (
    affine_method,
    bounds,
    confidence,
    door,
    limits,
    powers,
    recipe,
    run_risk,
    stopping,
    units,
    validate,
)
from reshuffle.affine_descent import AffineDescent
from reshuffle.arrays import BoolArray, FloatArray
from reshuffle.bounds import RiskInterval
from reshuffle.epoch.accuracy import accuracy, warn_of_no_answer
from reshuffle.epoch.epoch import Epoch
from reshuffle.expected_risk import ExpectedRisk
from reshuffle.limits import LimitComparison
from reshuffle.map_error import MapError
from reshuffle.mean_square import MeanSquareStability, mean_square_stability
from reshuffle.norms import norms
from reshuffle.perturbation import Perturbation
from reshuffle.problem import LeastSquares
from reshuffle.risk import Risk
from reshuffle.schemes import Scheme
from reshuffle.stability import Stability, stability
from reshuffle.stopping import BestEpoch
from reshuffle.trajectory import Trajectory


class Descent(Trajectory):
    """Mini-batch gradient descent on a least-squares problem, averaged over the random orders of visits.

    beta_k - beta_* = A^k (beta_0 - beta_*) + (step B / n) (1 + A + ... + A^(k-1)) Xtilde' eta, with
    A = I - B step Z (Theorem batch_dynamics, without its range assumption).

    Made by `descend`; the eigendecomposition happens once, at the first question.

    Attributes
    ----------
    epoch : Epoch
        Z, Xtilde and the mean map of one epoch.
    """

    def __init__(self, epoch: Epoch, start: FloatArray):
        self.epoch = epoch
        self.problem = epoch.problem
        self.start = start

    def __repr__(self) -> str:
        return f"Descent({self.problem}, {self.epoch.scheme}, step={self.epoch.step:g})"

    @property
    def method(self) -> str:
        """How the mean over orders was taken: "exact", "series" or "sampling"."""
        return self.epoch.method

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

    @property
    def _pull_size(self) -> float:
        return self.epoch.pull_size

    @property
    def _responses(self) -> FloatArray:
        return self.epoch.blocks.response

    def _clock(self, epochs: Any) -> FloatArray:
        return validate.epochs(epochs)

    def iterate_error(self, epochs: Any) -> FloatArray:
        """How far the mean iterate may be off because the mean over orders is not exact, in Euclidean norm.

        Of the shape of `epochs`: 0 for the exact mean, a proven bound for the series, and for sampling so much that
        at least 99 of 100 seeds are within.
        """
        clock = self._clock(epochs)
        if self.epoch.method == "exact":
            return np.zeros(clock.shape)
        if self.epoch.method == "sampling":
            # Coordinates add up like their variances.
            return norms(self.sampling_error(lambda run: run.iterate(clock), self.iterate(clock)))
        return self._map_error.of_iterate(clock, self.motion(clock)[1], self._start_inside)

    def _risk_error(self, risk: Risk) -> FloatArray:
        epochs, total = risk.epochs, risk.total
        if self.epoch.method == "exact":
            return np.zeros(epochs.shape)
        if self.epoch.method == "sampling":
            error = self.sampling_error(lambda run: run._risk(epochs).total, total)
            begin = self.problem.covariance.norm_squared(self.start - self.problem.parameters("the risk"))
            warn_of_no_answer(epochs, total, error, begin)
            return error
        beta_star, covariance, noise = self.problem.truth("the risk")
        inside = self.directions.T @ self.problem.row_space.coordinates(self.start - beta_star)
        lifted = self.problem.row_space.lift(self.directions)
        # The risk is the squared Sigma-norm of the error of the start and the map of the noise, side by side.
        of_start = self._map_error.of_start(epochs, inside)
        of_noise = noise * self._map_error.of_noise(epochs, self.motion(epochs)[1]) if noise else 0.0
        with np.errstate(invalid="ignore"):
            size = math.sqrt(covariance.norm(lifted)) * np.hypot(of_start, of_noise)
            error = np.where(size == 0, 0.0, 2 * np.sqrt(total) * size + size**2)
        return np.where(np.isnan(error), np.inf, error)

    def training_loss_error(self, epochs: Any) -> FloatArray:
        """How far the training loss may be off because the mean over orders is not exact, as `epochs` in shape."""
        clock = self._clock(epochs)
        if self.epoch.method == "exact":
            return np.zeros(clock.shape)
        if self.epoch.method == "sampling":
            return self.sampling_error(lambda run: run.training_loss(clock), self.training_loss(clock))
        # |r + X e|^2 - |r|^2, for residuals r and an error e of the iterate.
        n, largest = self.problem.n, float(np.linalg.norm(self.problem.reduction.rows, 2))
        fit = self.problem.row_space.scale * largest * self.iterate_error(clock) / math.sqrt(2 * n)
        with np.errstate(invalid="ignore"):
            error = np.where(fit == 0, 0.0, 2 * np.sqrt(self.training_loss(clock)) * fit + np.square(fit))
        return np.where(np.isnan(error), np.inf, error)

    def sampling_error(self, answer: Callable[[Any], FloatArray], here: FloatArray) -> FloatArray:
        """How far an answer of this run, which is `here`, may be off because orders were sampled; 0 if not."""
        if not self._replicas:
            return np.zeros_like(here)
        return confidence.jackknife(here, np.array([answer(replica) for replica in self._replicas]))

    @cached_property
    def _map_error(self) -> MapError:
        mean, blocks, scale = self.epoch.mean, self.epoch.blocks, self.problem.row_space.scale
        return MapError(
            Perturbation(self.epoch.rates, self.frozen_modes, mean.error, mean.pull_error / scale),
            rows=scale * blocks.rows @ self.directions,
            response=blocks.response,
            pull=self.pull,
        )

    @cached_property
    def _replicas(self) -> "list[Descent]":
        return [Descent(epoch, self.start) for epoch in self.epoch.replicas]

    def motion(self, epochs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(1 - x)^k and its geometric sum, for the rates x of the modes."""
        return powers.power_and_sum(self.epoch.rates, epochs * self.epoch.mean.repeats)

    @property
    def converges(self) -> bool:
        """Whether the mean iterate has a limit from every start."""
        return self._stability().converges

    def stability(self) -> Stability:
        """Whether and how fast the mean iterate converges."""
        found = self._stability()
        if self.epoch.method != "sampling":
            return found
        error = self.sampling_error(lambda run: np.asarray(run._stability().rate), np.asarray(found.rate))
        return replace(found, error=float(error))

    def _stability(self) -> Stability:
        """The same, with no error for sampled orders."""
        share = self.epoch.error if self.epoch.method == "series" else 0.0
        moving = self.epoch.rates[~self.frozen_modes]
        return stability(moving, self.epoch.mean.repeats, self.range_assumption.holds, self.problem.X, share)

    def mean_square_stability(self) -> MeanSquareStability:
        """Whether the mean square of a run converges too, on which its expected risk depends."""
        return mean_square_stability(self._affine.exact())

    def best_epoch(self) -> BestEpoch:
        """The epoch with the smallest risk, certified."""
        found = stopping.best_epoch(self.motion, self.risk_forms, self.epoch.rates, self.epoch.mean.repeats)
        if self.epoch.method == "exact":
            return found
        return replace(found, risk_error=float(self.risk(found.epoch).error))

    def risk_interval(self, epochs: Any) -> RiskInterval:
        """Bounds on the risk of two-batch descent from Z alone (Proposition twobatch_generr_Zonly)."""
        _, drift = self.motion(validate.epochs(epochs))
        return bounds.two_batch_interval(self.epoch, self.risk(epochs), drift)

    def compare_limit(self) -> LimitComparison:
        """The limit beside the minimum-norm solution that full-batch descent from the same start ends in."""
        return limits.compare(self.problem, self.start, self.limit())

    def expected_risk(self, epochs: Any, *, given_responses: bool = False) -> ExpectedRisk:
        """The risk of the run itself, E |beta_k - beta_star|_Sigma^2 over orders and noise, and its spread.

        The mean iterate's risk is what averaging many runs would have; a single run has the spread from shuffling
        on top (closing remark of Section 3.2). Exact by the recursion of second moments on the subset lattice.

        Parameters
        ----------
        epochs : number or array of any shape
            Every epoch costs one step of the recursion; math.inf asks for its fixed point.
        given_responses : bool
            Average over the orders alone, with the responses y of the problem, in place of orders and noise. Needs
            no noise level.

        >>> import reshuffle as rs
        >>> problem = rs.gaussian(100, 20, noise=0.5, seed=1)
        >>> rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=1.0).expected_risk(50)
        ExpectedRisk(total=0.0682156: mean=0.0646408, spread=0.00357473, error=0)
        """
        given_responses = validate.flag("given_responses", given_responses)
        clock = validate.epochs(epochs)
        unit = units.units(self.problem, self.start, given_responses)
        if not unit.are_one:
            epoch = replace(self.epoch, problem=unit.divided(self.problem, given_responses))
            return (
                Descent(epoch, unit.vector(self.start))
                ._expected_risk(clock, given_responses)
                .enlarged(unit.of_risk)
            )
        return self._expected_risk(clock, given_responses)

    def _expected_risk(self, clock: FloatArray, given_responses: bool) -> ExpectedRisk:
        """The same, where second moments are numbers."""
        distinct = np.unique(clock.ravel())
        way = run_risk.way(self.epoch, distinct, given_responses)
        if way == "sampling":
            affine = self._affine
            runs = run_risk.affordable_runs(affine, distinct)
            risk = None if given_responses else self.risk(distinct)
            mean, error = run_risk.given_risk(self, distinct) if risk is None else (risk.total, risk.error)
            return run_risk.by_sampling(affine, clock, mean, error, runs, given_responses)
        if way == "reshuffling":
            return run_risk.of_reshuffling(self.epoch, self.start, clock, self.risk(distinct).total)
        return run_risk.of_affine(self._affine, clock, given_responses)

    @property
    def _affine(self) -> AffineDescent:
        """The same run, as one that is not known to be symmetric."""
        epoch = self.epoch
        wanted = replace(epoch.accuracy, method="auto")
        return AffineDescent(self.problem, epoch.scheme, recipe.Recipe(epoch.step), self.start, wanted)


def descend(
    problem: LeastSquares,
    scheme: Scheme,
    step: Any = None,
    *,
    alpha: Any = None,
    start: Any = None,
    penalty: float = 0.0,
    momentum: float = 0.0,
    method: str = "auto",
    rtol: float = 1e-4,
    budget: float = 1e12,
    seed: int = 0,
) -> Descent | AffineDescent:
    """Describe gradient descent on a problem: nothing is trained, and what is not exact carries its error.

    Parameters
    ----------
    problem : LeastSquares
    scheme : Scheme
        How the rows are visited: FullBatch(), RandomReshuffling(batches=4), WithReplacement(batches=4).
    step : float, list or callable
        The step of one visit, torch's lr; or
    alpha : float, list or callable
        the full-batch step it stands for under the linear scaling rule, step = alpha / B. A list has one step an
        epoch, and nothing is known beyond; a function is called with 0, 1, 2, ..., the epochs done before it.
    start : (p,), optional
        beta_0; zero by default.
    penalty : float
        lambda of an l2 penalty, torch's weight_decay: the gradient of every visit gets lambda * beta added. The
        loss is |y - X beta|^2 / (2n) + lambda |beta|^2 / 2: ridge regression with n * lambda in the usual scaling.
    momentum : float
        Of the heavy ball, in [0, 1), with a buffer that is kept from visit to visit and from epoch to epoch, as in
        torch's SGD: v -> momentum v + gradient, beta -> beta - step v.
    method : str
        How the mean over orders is taken: "exact" (a handful of batches), "series" (with a proven bound),
        "sampling" (of orders, with a standard error), or "auto": exact if that fits the budget, else the series if
        it reaches rtol, else sampling. `run.method` tells which it was. There is no series with momentum,
        a penalty, a schedule or a fixed order; how many orders of ShuffleOnce are drawn is up to the scheme.
    rtol : float
        The relative error that the rate of a mode may have where the mean is not exact. The error of a risk curve
        is then about as small, relative to its start; `run.risk(epochs).error` tells it.
    budget : float
        Floating-point operations that may be spent on the mean of an epoch; 1e12 is a minute or so. If that is not
        enough for rtol a warning says so, and the answers carry their error.
    seed : int
        Of sampled orders.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(100, 150, noise=0.5, seed=1)
    >>> run = rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=0.2)
    >>> run.risk([0, 10, 300]).total.round(4)
    array([1.    , 0.5801, 0.8588])
    >>> run.best_epoch()
    BestEpoch(epoch=7, risk=0.575587)
    """
    problem = door.problem(problem)
    scheme = door.scheme(scheme, problem)
    made = recipe.recipe(step, alpha, penalty, momentum, scheme.steps(problem.n))
    start = door.start(start, problem)
    wanted = accuracy(method, rtol, budget, seed)
    if made.is_plain and scheme.is_symmetric:
        return Descent(Epoch(problem, scheme, made.at(0).step, wanted), start)
    affine_method.require_known(scheme, problem.n, wanted.method)
    return AffineDescent(problem, scheme, made, start, wanted)
