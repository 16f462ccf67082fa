"""The mean epoch where it is a symmetric map: Z and Xtilde, the modes of Z, and the mean iterate in them.

In the modes of Z the iterate is decay(k) start + drift(k) input, and the error decay(k) (start - beta_star) +
drift(k) noise: any number of epochs costs one eigendecomposition, and the risk is a quadratic form in both.
"""

import math
import warnings
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from reshuffle import _arrays
from reshuffle._arrays import BoolArray, FloatArray
from reshuffle._display import Displayed
from reshuffle._linalg import (
    few_threads,
    finite_or_inf,
    moving_mean,
    norm,
    overflow_is_inf,
    power_and_sum,
    row_norms,
    tail_mean,
    times_finite,
)
from reshuffle._uncertainty import ERROR_KINDS, ErrorKind
from reshuffle.epoch import epoch_map, select
from reshuffle.epoch.averaging.lattice import climbs
from reshuffle.epoch.averaging.samples import repeated_step
from reshuffle.epoch.averaging.streamed import mean_of_samples
from reshuffle.epoch.epoch_map import MeanMap, Modes
from reshuffle.epoch.select import Accuracy, Averager, Choice
from reshuffle.errors import RangeError
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.row_space import Blocks, RowSpace
from reshuffle.recipe import Average
from reshuffle.run import stopping
from reshuffle.run.stability import FrozenSubspace, RangeAssumption, Stability, stability
from reshuffle.run.stopping import BestEpoch
from reshuffle.run.trajectory import Risk, RiskForm, Trajectory, quadratic
from reshuffle.schemes.base import Scheme, Shuffle

_CHUNK = 1 << 17
"""Entries of (times, modes) arrays that are worked on at a time, so that they stay in the cache."""
_LARGE_CHUNK = 1 << 20
"""Entries of such arrays where products with an (r, r) matrix are shared by many times."""
_FORGIVEN = 1e-10
"""Share of Xtilde' in the null space of Z that is put down to rounding."""


@dataclass(frozen=True, eq=False)
class Epoch:
    r"""The mean of an epoch over its orders (Theorem batch_dynamics).

    .. math:: \beta \to \beta - B\, \text{step}\, (Z \beta - \tilde X' y / n), \qquad Z = \tilde X' X / n .

    Matrices are computed when they are first used; those of size p x p are meant for moderate p.

    Attributes
    ----------
    problem : LeastSquares
    scheme : Scheme
    step : float
        The step of one visit.
    accuracy : Accuracy
        The method of the mean over orders, with its tolerance.
    """

    problem: LeastSquares
    scheme: Scheme
    step: float
    accuracy: Accuracy = field(default_factory=Accuracy)

    def __repr__(self) -> str:
        return f"Epoch({self.scheme}, step={self.step:g}, method={self.accuracy.method!r})"

    def __getstate__(self) -> dict[str, Any]:
        """The attributes, for pickles and copies: maps and modes follow from them, and keep functions."""
        return {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}

    def adopt(self, blocks: Blocks, mean: MeanMap | None) -> None:
        """Take over the statistics of the batches (blocks), and their mean map if it is known to those who call."""
        self.__dict__["blocks"] = blocks
        if mean is not None:
            self.__dict__["_averaged"] = mean, select.select(self._averagers, self.accuracy)

    @property
    def method(self) -> str:
        """The way in which the mean over orders was taken: "exact", "cavity" or "sampling"."""
        return self.mean.method

    @property
    def error_kind(self) -> ErrorKind:
        """The meaning of `error`."""
        return ERROR_KINDS[self.method]

    @property
    def choice(self) -> Choice:
        """The reasons for the method: costs beforehand, or as it turned out, once the mean is known."""
        if self.reads_samples:
            return select.choice_of_samples(self.problem)
        known = self.__dict__.get("_averaged")
        return known[1] if known else select.select(self._averagers, self.accuracy)

    @property
    def error(self) -> float:
        """The error of the decay rate B step z of each mode beyond rounding, relative to that rate.

        0 for the exact mean; for the cavity equation an estimate, and for sampling the error of the worst mode,
        within which are at least 99 of 100 seeds.
        """
        return self.mean.error

    @cached_property
    def blocks(self) -> Blocks:
        """The per-batch statistics."""
        if self.reads_samples:
            return self._read[1]
        return self.problem.blocks(
            self.scheme.partition(self.problem.n), self.scheme.divisors(self.problem.n)
        )

    @property
    def reads_samples(self) -> bool:
        """True if single samples are shuffled that are read in chunks: then they are, for every step anew."""
        shuffles = self.scheme.unit.is_cut and self.scheme.shuffle is Shuffle.EVERY_EPOCH
        return shuffles and self.problem.stream is not None

    @cached_property
    def _read(self) -> tuple[MeanMap, Blocks]:
        """The mean map, and the compressed rows of all samples."""
        scaled = self.step * self.problem.row_space.scale**2
        return mean_of_samples(self.problem, self.scheme, scaled, self.accuracy)

    @cached_property
    def mean(self) -> MeanMap:
        """The map in row-space coordinates, for features divided by their scale."""
        return (self._read if self.reads_samples else self._averaged)[0]

    @cached_property
    def _averaged(self) -> tuple[MeanMap, Choice]:
        with few_threads(self._side):
            mean, chosen = select.average(self._averagers, self.accuracy)
        return mean.require_finite(self.scheme.steps(self.problem.n)), chosen

    @property
    def _averagers(self) -> list[Averager[MeanMap]]:
        """The methods to take the mean, for features divided by their scale."""
        step = self.step * self.problem.row_space.scale**2
        return select.of_symmetric_epoch(self.scheme, self.problem.n, self.blocks, step)

    @cached_property
    def replicas(self) -> "list[Epoch]":
        """Copies of the epoch with each of the maps that carry its error; none if it is exact."""
        copies = [replace(self) for _ in self.mean.replicas]
        for copy, mean in zip(copies, self.mean.replicas, strict=True):
            copy.__dict__.update(mean=mean, blocks=self.blocks)
        return copies

    @cached_property
    def modes(self) -> Modes:
        """The modes of one application of the mean map."""
        with few_threads(self._side):
            return epoch_map.modes(self.mean)

    @property
    def _side(self) -> float:
        """The side of a square matrix that costs about as much as the blocks do."""
        return math.sqrt(self.blocks.rows.size)

    @property
    @overflow_is_inf
    def rates(self) -> FloatArray:
        """The factor (r,) of each mode per epoch: (1 - x)^repeats for a decay rate x."""
        return (1 - self.decay_rates) ** self.mean.repeats

    @cached_property
    @overflow_is_inf
    def decay_rates(self) -> FloatArray:
        """The share x (r,) of each mode that one application takes away; an epoch is `mean.repeats` of them."""
        return self.mean.stride * self.modes.values

    @cached_property
    @overflow_is_inf
    def input_map(self) -> FloatArray:
        """(r, rows): how the responses of the rows of the blocks enter each mode in one application."""
        input_map = self._natural_stride * self.modes.input_map
        if not np.isfinite(input_map).all():
            raise RangeError(
                f"step is {self.step:g}, so large that a single epoch leaves the range of floating-point numbers; "
                "the iterates diverge.",
                hint="Try a step near {critical_step}",
            )
        return input_map

    def entering(self, responses: FloatArray) -> FloatArray:
        """The responses (rows, t) as they enter each mode in one application, (r, t)."""
        entered = self._natural_stride * self.modes.entering(responses)
        # What leaves the range of numbers does so in the input map itself, which is refused, or is infinite.
        return entered if np.isfinite(entered).all() else np.asarray(self.input_map @ responses)

    @property
    def _natural_stride(self) -> float:
        return self.mean.stride / self.problem.row_space.scale

    @property
    def input_size(self) -> float:
        """The norm that the input map has before anything cancels in it."""
        return self._natural_stride * self.mean.weight * float(np.linalg.norm(self.mean.factor))

    @property
    def paces(self) -> FloatArray:
        """The old name of `decay_rates`."""
        warnings.warn("Epoch.paces is now Epoch.decay_rates.", DeprecationWarning, stacklevel=2)
        return self.decay_rates

    @property
    def Z(self) -> FloatArray:
        """The sample cross-covariance Z = Xtilde'X / n (p, p), symmetric (Lemma batch_Z_symmetric)."""
        return self._lift_matrix(self._inner_Z) * self.problem.row_space.scale**2

    @property
    def matrix(self) -> FloatArray:
        """I - B step Z (p, p), which the mean error is multiplied by in an epoch."""
        inside = (self.mean.stride * self.mean.repeats) * self._inner_Z
        return np.eye(self.problem.p) - self._lift_matrix(inside)

    @property
    def modified_features(self) -> FloatArray:
        """Xtilde (n, p): row i of batch b is Pi_b x_i, times n / (B m_b) if the batches are not equal.

        Rows that are never visited are zero.
        """
        problem, space = self.problem, self.problem.row_space
        problem.require_rows("modified_features")
        modified = np.zeros((problem.n, problem.p))
        partition = self.scheme.partition(problem.n)
        # Blocks as long as their batches hold the rows themselves; a single one may be a triangular factor.
        is_plain = len(partition) > 1 and all(self.blocks.sizes == [len(members) for members in partition])
        if self.mean.repeats == 1 and is_plain:
            inside = problem.n * space.scale * self.mean.mapped_inputs(self.mean.factor)
            modified[np.concatenate(partition)] = space.lift(inside).T
            return modified
        for batch, members in enumerate(partition):
            # Samples of several rows are visited as one, and each of the rows has its share.
            weight = problem.n / (
                self.blocks.batches * self.blocks.divisors[batch] * self.scheme.rows_per_unit
            )
            inside = space.coordinates(problem.X[members].T)
            modified[members] = weight * space.lift(self.mean.modifier(batch) @ inside).T
        return modified

    def modifier(self, batch: int) -> FloatArray:
        """Pi_b (p, p), the mean of the product of I - step W_j over the batches j visited before `batch` b."""
        batch = _arrays.whole_number("batch", batch, 0, self.blocks.batches - 1)
        inside = self.mean.modifier(batch) - np.eye(self.problem.rank)
        return np.eye(self.problem.p) + self._lift_matrix(inside)

    @property
    def _inner_Z(self) -> FloatArray:
        mean = self.mean
        Z = mean.factor.T @ mean.weigh(mean.factor)
        if mean.repeats > 1:
            Z = Z @ mean.modifier(0)
        return (Z + Z.T) / 2

    def _lift_matrix(self, inside: FloatArray) -> FloatArray:
        space = self.problem.row_space
        return space.lift(space.lift(inside).T)


class ModesTrajectory(Trajectory):
    """Mini-batch gradient descent whose mean epoch is one symmetric map, in the modes of Z.

    beta_k - beta_* = A^k (beta_0 - beta_*) + (step B / n) (1 + A + ... + A^(k-1)) Xtilde' eta, with
    A = I - B step Z (Theorem batch_dynamics, without its range assumption). With an average per epoch, decay(k)
    and drift(k) are replaced by their averages: for the tail of epochs k0 + 1, ..., k with L = k - k0 and l = 1 - x
    the decay is l^(k0 + 1) (1 - l^L) / (L (1 - l)); for an EMA with decay d, d^k + (1 - d) l (l^k - d^k) / (l - d).
    `problem` and `columns` are the problem of one output, and its column among the responses of the epoch.
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
        decay[finite], drift[finite] = powers, sums * steps
        return decay, drift

    def coordinates(self, when: FloatArray) -> FloatArray:
        """The iterate in the coordinates of the row space, (k, t, r), at ascending epochs, unless it overflows."""
        return self._in_modes(when) @ self.directions.T

    def _in_modes(self, when: FloatArray) -> FloatArray:
        """The iterate in the modes, (..., t, r)."""
        decay, drift = (part[..., np.newaxis, :] for part in self.motion(when))
        start = self.directions.T @ self.space.coordinates(self.start)
        return times_finite(decay, start.T) + times_finite(drift, self._entered.T)

    def training_loss(self, epochs: FloatArray) -> FloatArray:
        """|y - X b|^2 / (2n) at the mean iterate b, epochs.shape + (t,)."""
        coordinates, reduction = self.space.scale * self._in_modes(epochs), self.problem.reduction
        fitted = coordinates @ (reduction.rows @ self.directions).T
        return finite_or_inf(np.square(fitted - reduction.response.T).sum(axis=-1) / (2 * self.problem.n))

    def degrees_of_freedom(self, epochs: FloatArray) -> FloatArray:
        """Tr X (drift(k) input map), the sum over the modes of drift times the input map of the features."""
        features = self.space.scale * (self.epoch.blocks.rows @ self.directions)
        traces, (_, drift) = np.einsum("jq,qj->j", self.input_map, features), self.motion(epochs)
        return finite_or_inf(times_finite(drift, traces).sum(axis=-1))

    @cached_property
    def _form(self) -> tuple[RiskForm, FloatArray, FloatArray, FloatArray]:
        """The risk in the modes: its form, the error at the start, and form and sizes of the noise.

        The sizes are apart from the form of the noise, since their squares may leave the range of numbers.
        """
        _, covariance, noise = self.problem.truth("the risk")
        directions, rotation = self.directions, self.space.rotation
        space = replace(self.space, rotation=directions if rotation is None else rotation @ directions)
        inside = space.coordinates(self.initial_error)
        moving = np.where(self.frozen_modes, 0.0, inside)
        stuck = space.outside(self.initial_error) + space.lift(inside - moving)
        form, sizes = RiskForm(space, covariance, stuck, np.zeros_like(stuck)), row_norms(self.input_map)
        if form.gram.ndim == 1:
            return form, moving, form.gram, noise * sizes
        units = self.input_map / np.where(sizes == 0, 1.0, sizes)[:, np.newaxis]
        return form, moving, form.gram * (units @ units.T), noise * sizes

    def _risk(self, epochs: FloatArray) -> Risk:
        (form, moving, of_noise, sizes), flat = self._form, epochs.ravel()
        height = max(1, (_CHUNK if form.gram.ndim == 1 else _LARGE_CHUNK) // max(1, self.problem.rank))
        parts = [np.zeros((4, 0))]
        for start in range(0, len(flat), height):
            decay, drift = self.motion(flat[start : start + height])
            variance = quadratic(of_noise, times_finite(drift, sizes))
            parts.append(form.parts(times_finite(decay, moving), 1.0, variance))
        return Risk(epochs, *np.concatenate(parts, axis=1).reshape(4, *epochs.shape))

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
        """The epoch with the smallest risk, sought until the slowest mode has decayed."""
        first = 0 if self.average is None else self.average.earliest
        decay_rates, repeats = self.epoch.decay_rates, self.epoch.mean.repeats
        # Where the sign of a mode alternates even and odd epochs are smooth by themselves.
        apart = 1 + int(((decay_rates > 1) & (repeats % 2 == 1)).any())
        slowest = np.abs(np.log1p(-np.minimum(np.abs(decay_rates[decay_rates != 0]), 0.5))).min(initial=1.0)
        last = stopping.DECAYED / (repeats * max(float(slowest), 1e-300))
        found = stopping.search_smooth(lambda late: self._risk(late + first).total, last, apart)
        found = replace(found, epoch=found.epoch + first)
        return found.with_error_of(self.risk) if self.error_kind != "exact" else found


@dataclass(frozen=True, eq=False)
class RiskInterval(Displayed):
    """The risk lies between `lower` and `upper`, each of the shape of `epochs`, or epochs.shape + (t,)."""

    _shown = ("epochs", "lower", "upper")

    epochs: FloatArray
    lower: FloatArray
    upper: FloatArray


def two_batch_interval(epoch: Epoch, problem: LeastSquares, risk: Risk, drift: FloatArray) -> RiskInterval:
    """Bound the risk of two-batch descent without Xtilde'Xtilde (Proposition twobatch_generr_Zonly).

    The variance lies between (1 -+ step |W|) times noise^2 tr(G Sigma G Z^+) / n, with G = I - (I - 2 step Z)^k and
    W = (W_1 + W_2) / 2, provided step |W| <= 1. The cross term that the paper omits is part of both ends. With
    unequal batches Xtilde_b carries the weight n / (2 m_b), and the ends the smaller and the larger of the two.
    `risk` is exact, and its frozen, bias and cross are used; `drift` (..., r) are the geometric sums of the modes.
    """
    if not (climbs(epoch.scheme) and epoch.blocks.batches == 2):
        raise ValueError(
            f"risk_interval holds for RandomReshuffling with 2 batches, but the scheme is {epoch.scheme}; "
            "risk(epochs) is exact for every scheme."
        )
    # |W| of the features divided by their scale.
    norm = float(scipy.linalg.svdvals(repeated_step(epoch.blocks, 1.0, 2).factor).max(initial=0.0)) ** 2
    reach = epoch.mean.stride / 2 * norm
    if reach > 1 + 1e-12:
        raise ValueError(
            f"risk_interval needs step <= 1 / |W| = {epoch.step / reach:.6g}, but step is {epoch.step:.6g}; "
            "risk(epochs) is exact for every step."
        )
    _, covariance, noise = problem.truth("risk_interval")
    lifted = problem.row_space.lift(epoch.modes.vectors)
    sizes = np.einsum("ij,ij->j", lifted, covariance.apply(lifted))
    # G^2 / z = stride^2 z drift^2 for an eigenvalue z of Z: no division, so frozen modes take care of themselves.
    moving = np.where(epoch.decay_rates == 0, 0.0, drift)
    amplitude = noise * epoch.mean.stride / problem.row_space.scale * moving
    spread = np.square(times_finite(np.sqrt(sizes * epoch.modes.values / problem.n), amplitude)).sum(axis=-1)
    weights = problem.n / (2 * epoch.blocks.divisors)
    rest = risk.frozen + risk.bias + risk.cross
    lower = rest + max(1 - reach, 0.0) * weights.min() * spread
    return RiskInterval(risk.epochs, lower, rest + (1 + reach) * weights.max() * spread)
