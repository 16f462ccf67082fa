"""The mean iterate as a function of the epochs, and its risk; by powers where the mean epoch is not symmetric.

Every visit is an affine map on the state, z -> G_b z + H_b y_b; the mean over the orders of an epoch is one too,
and is repeated by squaring (`Timeline`). `run/modes.py` has the symmetric special case.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from reshuffle import _uncertainty
from reshuffle._arrays import FloatArray
from reshuffle._budget import CALL, warn_of_no_answer
from reshuffle._display import Displayed
from reshuffle._linalg import few_threads, finite_or_inf, norms, overflow_is_inf, times_finite
from reshuffle._uncertainty import ERROR_KINDS, ErrorKind, significant, with_error
from reshuffle.epoch import visits
from reshuffle.epoch.averaging.lattice import Walk
from reshuffle.epoch.select import METHODS, Accuracy, Choice, walk_flops
from reshuffle.epoch.timeline import ANY_ACCURACY, Timeline, Watch, states_through, through_stages
from reshuffle.epoch.visits import ScaledBlocks
from reshuffle.errors import UnsupportedError
from reshuffle.problem.least_squares import Covariance, LeastSquares
from reshuffle.problem.row_space import Blocks, Reduction, RowSpace, extended_space, split
from reshuffle.recipe import Recipe
from reshuffle.run import stopping
from reshuffle.run.stability import FrozenSubspace, Stability, slowness
from reshuffle.run.stopping import BestEpoch
from reshuffle.schemes.base import Scheme

_SEARCHED = 2000
"""Epochs that a search one by one tries, more or less."""


@dataclass(frozen=True, eq=False)
class Risk(Displayed):
    r"""R = frozen + bias + cross + variance (Theorem batch_generr_exact, with the cross term it lacks).

    .. math::
        R_k = e_0' P_0 \Sigma P_0 e_0 + e_0' P_Z A^k \Sigma A^k P_Z e_0 + 2 e_0' P_0 \Sigma A^k P_Z e_0
              + \operatorname{tr} \Sigma V_k

    with e_0 the error of the start, P_Z and P_0 the projections on the range and the null space of Z,
    A = I - B step Z, and V_k the covariance of the mean iterate due to the noise in the responses.

    Each part has the shape of `epochs`, or epochs.shape + (t,) of t outputs; a part that grows without bound is
    inf, and so is the total.

    Attributes
    ----------
    epochs : array
        The requested epochs (or, for gradient flow, times).
    frozen : array
        The first term, of the components that are never learned.
    bias : array
        The second term, of the components that are not learned yet.
    cross : array
        The third term; zero when Sigma is a multiple of the identity.
    variance : array
        The last term, due to the noise in the responses.
    error : array
        Error of the total because the mean over orders is not exact: 0 where it is, an estimate for the cavity
        equation, and with sampling a bound that holds for at least 99 of 100 seeds.
    error_kind : str
        Kind of the error: "exact", "bound", "confidence 99%" or "estimate".
    """

    _shown = ("epochs", "total", "frozen", "bias", "cross", "variance", "error", "error_kind")

    epochs: FloatArray
    frozen: FloatArray
    bias: FloatArray
    cross: FloatArray
    variance: FloatArray
    error: FloatArray = field(default_factory=lambda: np.zeros(()))
    error_kind: ErrorKind = "exact"

    @property
    @overflow_is_inf
    def total(self) -> FloatArray:
        """The sum of the parts."""
        # The parts of a risk of zero may cancel to just below it.
        return np.maximum(self.frozen + self.bias + self.cross + self.variance, 0.0)

    def __repr__(self) -> str:
        shape = self.total.shape
        if self.epochs.size == 0:
            return f"Risk(shape={shape})"
        if len(shape):
            largest = float(self.error.max(initial=0.0))
            off = f" +- {significant(largest, 2)} at most ({self.error_kind})" if largest else ""
            span = f"total from {self.total.min():.6g} to {self.total.max():.6g}"
            return f"Risk(shape={shape}, {span}{off})"
        parts = ", ".join(f"{part.name}={float(getattr(self, part.name)):.6g}" for part in fields(Risk)[1:5])
        return f"Risk(total={with_error(self.total, self.error, self.error_kind)}: {parts})"


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
        """The iterate in the coordinates of the row space, (k, t, r), at ascending epochs, unless it overflows."""

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
        """The mean iterate at each of the epochs, epochs.shape + (p, t); inf as a whole if any of it overflows."""
        when, back = np.unique(epochs.ravel(), return_inverse=True)
        space, inside = self.space, self.coordinates(when)
        outside, decay = space.outside(self.start).T, self.outside_decay(when)[:, np.newaxis, np.newaxis]
        flat = inside.reshape(len(when) * len(outside), space.dimension)
        parameters = times_finite(decay, outside) + space.lift(flat.T).T.reshape(len(when), *outside.shape)
        parameters[~np.isfinite(parameters).all(axis=2)] = np.inf
        return np.ascontiguousarray(parameters[back].swapaxes(1, 2)).reshape(*epochs.shape, *self.start.shape)

    def training_loss(self, epochs: FloatArray) -> FloatArray:
        """|y - X b|^2 / (2n) at the mean iterate b, over all rows and without the penalty, epochs.shape + (t,)."""
        parameters, reduction = self.iterate(epochs), self.problem.reduction
        shape = epochs.size, *parameters.shape[-2:]
        fitted = reduction.fitted(
            parameters.reshape(shape).swapaxes(0, 1).reshape(shape[1], shape[0] * shape[2])
        )
        residuals = fitted.reshape(len(fitted), shape[0], shape[2]) - reduction.response[:, np.newaxis]
        loss = np.square(residuals).sum(axis=0) / (2 * self.problem.n)
        return finite_or_inf(loss).reshape(*epochs.shape, shape[2])

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


class RiskForm:
    """|V u + o|_Sigma^2 for an error u (r,) in the basis V of a row space, and o (p,) outside.

    Outside, nothing but a penalty acts: o = decay start - beta_star, both without what X sees of them. Where
    Sigma is a multiple of the identity, of V'Sigma V only the diagonal is stored.
    """

    def __init__(self, space: RowSpace, covariance: Covariance, start: FloatArray, beta_star: FloatArray):
        ends, r = np.stack([start, beta_star]), space.dimension
        weighted = covariance.apply(ends.T)
        self._outer = ends @ weighted
        if covariance.is_isotropic:
            self.gram, self._inner = covariance.apply(np.ones(r)), np.zeros((r, 2))
            return
        with few_threads(math.sqrt(space.p * r)):
            self.gram, self._inner = covariance.gram(space.lift(np.eye(r))), space.coordinates(weighted)

    def _weights(self, decay: float) -> FloatArray:
        """Factors of start and beta_star in o; where nothing starts outside nothing can grow there."""
        return np.array([decay if self._outer[0, 0] else 0.0, -1.0])

    def outside(self, decay: float) -> float:
        """|o|_Sigma^2."""
        weights = self._weights(decay)
        value = float(weights @ self._outer @ weights)
        return max(value, 0.0) if np.isfinite(value) else np.inf

    def between(self, means: FloatArray, decay: float) -> FloatArray:
        """2 o'Sigma V u for means u (..., r) of the error; 0 where it overflows, since then other parts do."""
        cross = 2 * means @ (self._inner @ self._weights(decay))
        return np.where(np.isfinite(cross), cross, 0.0)

    def inside(self, second: FloatArray) -> float:
        """The trace of Sigma and the second moment V E[u u'] V'."""
        value = times_finite(second if self.gram.ndim == 2 else np.diagonal(second), self.gram).sum()
        return float(finite_or_inf(value))

    def size(self, second: FloatArray) -> float:
        """The sum of the sizes of the terms of `inside`, to which its rounding is relative."""
        return float(
            np.vdot(np.abs(self.gram), np.abs(second if self.gram.ndim == 2 else np.diagonal(second)))
        )

    def parts(self, means: FloatArray, decay: float, variance: FloatArray) -> FloatArray:
        """Frozen, bias, cross and the given variance, (4, k), for means (k, r) of the error."""
        bias = quadratic(self.gram, means)
        cross = np.where(np.isfinite(bias), self.between(means, decay), 0.0)
        return np.stack([np.full(len(means), self.outside(decay)), bias, cross, variance])

    def of_states(self, states: FloatArray, decay: float, noise: float) -> FloatArray:
        """The parts (4, k) of states (k, r, 1 + rows): the mean error, and the effect of the noise in each row."""
        with few_threads(len(self.gram)):
            effects = noise * states[..., 1:].swapaxes(1, 2) if noise else np.zeros((len(states), 0, 1))
            variance = quadratic(self.gram, effects).sum(axis=1) if noise else np.zeros(len(states))
            return self.parts(states[..., 0], decay, variance)


def quadratic(form: FloatArray, vectors: FloatArray) -> FloatArray:
    """v'F v for vectors (..., r) and a positive semidefinite F (r, r), or its diagonal (r,); inf if no number."""
    sizes = form if form.ndim == 1 else np.diagonal(form)
    if not sizes.all():
        # What the form does not see may grow as it likes.
        vectors = np.where(sizes > 0, vectors, 0.0)
    across = vectors @ form if form.ndim == 2 else vectors * form
    return np.maximum(finite_or_inf(np.einsum("...i,...i->...", across, vectors)), 0.0)


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
            "form", "last_stage", "visited",
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

    def inside(self, parameters: FloatArray) -> FloatArray:
        """The coordinates u = scale V'beta (r,) of parameters (p,) inside the row space."""
        return self.space.scale * self.space.coordinates(parameters)

    @cached_property
    def _outside(self) -> list[Timeline]:
        """The stages of one coordinate outside the row space, where only a penalty acts: a feature that is zero."""
        if not self.recipe.penalty or self.space.dimension == self.problem.p:
            return []
        nothing, n, ends = np.zeros((0, 1)), self.problem.n, np.zeros(2, dtype=np.intp)
        blocks = ScaledBlocks(nothing, np.zeros((0, 1)), ends, np.ones(1), nothing, np.zeros(1))
        return [
            Timeline(
                stage.scheme, n, blocks, self.space, stage.recipe, length=stage.length,
                orders=np.zeros((1, stage.walk.steps), dtype=np.intp),
            )
            for stage in self.stages
        ]  # fmt: skip

    def outside_decay(self, when: FloatArray) -> FloatArray:
        """The factor (k,) of the start outside the row space at the ascending epochs; 1 without a penalty."""
        if not self._outside:
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
        # The run is linear in start and responses, and u itself may leave the range before the parameters do.
        response = self.blocks.response / self.space.scale
        inputs = np.vstack([np.zeros(response.shape[1]), response])
        states = self.means(self.space.coordinates(self.start), when, inputs)
        return np.array([state.T for state in states]).reshape(
            len(when), response.shape[1], self.space.dimension
        )

    def degrees_of_freedom(self, epochs: FloatArray) -> FloatArray:
        """The trace of the matrix that sends the responses to the fit, of the shape of `epochs`."""
        when, back = np.unique(epochs.ravel(), return_inverse=True)
        states = self.means(np.zeros((self.space.dimension, 1)), when)
        traces = [float(np.einsum("qr,rq->", self.blocks.rows, state[:, 1:])) for state in states]
        return finite_or_inf(np.array(traces))[back].reshape(epochs.shape)

    @cached_property
    def form(self) -> RiskForm:
        """The risk as a function of the error."""
        beta_star, space = self.problem.parameters("the risk"), self.space
        return RiskForm(
            space, self.problem.covariance, space.outside(self.start[:, 0]), space.outside(beta_star)
        )

    def _risk(self, epochs: FloatArray) -> Risk:
        _, _, noise = self.problem.truth("the risk")
        when, back = np.unique(epochs.ravel(), return_inverse=True)
        parts = np.zeros((4, len(when)))
        states = self.means(self.inside(self.initial_error)[:, np.newaxis], when)
        # Threads are limited once for all epochs: every state is a few small products.
        with few_threads(self.dimension):
            for number, (state, decay) in enumerate(zip(states, self.outside_decay(when), strict=True)):
                scaled = state[np.newaxis] / self.space.scale
                parts[:, number] = self.form.of_states(scaled, float(decay), noise)[:, 0]
        if self.recipe.penalty:
            parts[1], parts[[0, 2]] = np.maximum(parts[:3].sum(axis=0), 0.0), 0.0
        return Risk(epochs, *parts[:, back].reshape(4, *epochs.shape))

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
        return all(stage.converges for stage in self._outside)

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
        rate = max(part.rate for part in [self.timeline, *self._outside])
        return Stability(
            converges, rate, advice=slowness(self.problem.compressed, 1 - rate) if converges else ""
        )

    @property
    def frozen(self) -> FrozenSubspace:
        """The subspace in which nothing moves: all that no visited row sees, unless a penalty acts there."""
        space = self.space
        if self.recipe.penalty:
            return FrozenSubspace(0, RowSpace(space.p, space.p, 1.0, None), np.zeros((space.p, 0)))
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
        earlier = sum(stage.length for stage in self.stages[:-1])
        first, last = self.recipe.earliest, self.recipe.horizon
        found = stopping.search_one_by_one(
            lambda epochs: self._risk(epochs).total, first, earlier, end, last, longest
        )
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


@dataclass(frozen=True, eq=False)
class AffineEpoch:
    """The mean of the first epoch of a run with a constant step and no momentum: what the error is multiplied by.

    Attributes
    ----------
    timeline : Timeline
    outside_decay : float
        The factor of the error outside the row space: 1 without a penalty.
    """

    timeline: Timeline
    outside_decay: float

    def __repr__(self) -> str:
        timeline = self.timeline
        return f"AffineEpoch({timeline.scheme}, {timeline.recipe}, method={self.method!r})"

    @property
    def method(self) -> str:
        """The way in which the mean over orders was taken: "exact", "cavity" or "sampling"."""
        return self.timeline.choice.taken

    @property
    def error_kind(self) -> ErrorKind:
        """The meaning of errors."""
        return self.timeline.error_kind

    @property
    @overflow_is_inf
    def matrix(self) -> FloatArray:
        """A (p, p), which the mean error is multiplied by in the first epoch."""
        space, parts = self.timeline.space, [once.loss for once in self.timeline.responses]
        loss = sum(part.reshape(-1, *part.shape[-2:]).sum(axis=0) for part in parts) / self.timeline.count
        inside = (1 - self.outside_decay) * np.eye(space.dimension) - loss
        return self.outside_decay * np.eye(space.p) + space.lift(space.lift(inside).T).T

    @property
    def Z(self) -> FloatArray:
        """(I - A) / (B step) (p, p), not symmetric in general; with a penalty it is part of it."""
        timeline = self.timeline
        stride = timeline.walk.steps * timeline.recipe.at(0).step
        return (np.eye(timeline.space.p) - self.matrix) / stride
