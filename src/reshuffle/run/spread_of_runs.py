"""The covariance of a run over its orders, by whichever way was chosen."""

import numpy as np

from reshuffle._core import FloatArray
from reshuffle._core.confidence import ErrorKind, quantile
from reshuffle._core.numerics import norms
from reshuffle.epoch.affine.outside import Inputs
from reshuffle.epoch.course import AveragedCourse
from reshuffle.epoch.second_moment import averaged_spread
from reshuffle.epoch.second_moment.centred import covariances
from reshuffle.run import expected_risk_ways
from reshuffle.run.engines.affine_engine import AffineEngine
from reshuffle.run.engines.modes_engine import ModesEngine
from reshuffle.run.parameter_covariance import ParameterCovariance
from reshuffle.simulation import simulated_states

_REMEMBERED_BYTES = 2e8
"""Memory that the states of simulated runs may take."""
_FEWEST = 8


def covariance(run: AffineEngine, modes: ModesEngine | None, clock: FloatArray) -> ParameterCovariance:
    """Cov beta_k over the orders of a run, at epochs of any shape.

    Parameters
    ----------
    run : AffineEngine
    modes : ModesEngine or None
        The same run in the modes of its mean map, if that is symmetric.
    clock : any shape
    """
    return _Spread(run, clock).by(
        expected_risk_ways.way(run, modes, np.unique(clock.ravel()), True, squares=False).taken
    )


class _Spread:
    """What is asked of a run, in a unit in which squares of its parameters are numbers."""

    def __init__(self, run: AffineEngine, clock: FloatArray):
        self.run, self.clock = run, clock
        self.when, self.back = np.unique(clock.ravel(), return_inverse=True)
        inside = run.space.coordinates(run.start)
        self._scale = _exponent(run.space.scale) - 1
        largest = float(np.abs(inside).max(initial=0.0))
        sizes = [_exponent(largest) + self._scale] if largest else []
        sizes += [_exponent(float(np.abs(run.blocks.response).max(initial=0.0)))]
        self._unit = max(sizes)
        self._start = np.ldexp(inside, self._scale - self._unit)
        self._responses = np.ldexp(run.blocks.response, -self._unit)

    def by(self, taken: str) -> ParameterCovariance:
        """The answer, in the way that was taken."""
        run, count = self.run, len(self.when)
        (course, *others), rank = run.courses, run.space.dimension
        moves = run.start.any() or run.blocks.response.any()
        if not (count and moves and (others or course.scheme.is_random)):
            return self._made(np.zeros((count, rank, rank)), np.zeros(count), "exact")
        if others:
            return self._of_courses()
        return self._followed() if taken in ("rows", "walk") else self._simulated()

    def _followed(self) -> ParameterCovariance:
        """Epoch after epoch, by the walk over all orders."""
        (course,) = self.run.courses
        if isinstance(course, AveragedCourse):
            inputs = Inputs(np.zeros(course.rank), given=self._responses)
            spreads = list(averaged_spread.spreads(course, inputs, self._start, self.when))
            found = np.array([spread.covariance for spread in spreads])
            shares = np.array([spread.error for spread in spreads])
        else:
            snapshots = list(covariances(course, self._responses, self._start, self.when))
            found = np.array([snapshot.second for snapshot in snapshots])
            shares = np.array([snapshot.error for snapshot in snapshots])
        with np.errstate(over="ignore", invalid="ignore"):
            # That something grows without bound is known for sure.
            errors = np.where(shares == 0, 0.0, shares * _size(found))
        return self._made(found, errors, "estimate" if errors.any() else "exact")

    def _of_courses(self) -> ParameterCovariance:
        """Over the orders that may have been drawn at the start."""
        run, rank = self.run, self.run.space.dimension
        states = np.zeros((len(self.when), len(run.courses), rank))

        def watch(place: slice, number: int, seen: FloatArray) -> None:
            states[number, place] = seen[:, :rank, 0]

        inputs = np.concatenate([[1.0], self._responses])
        for _ in run.means(self._start, self.when, inputs, watch=watch):
            pass
        return self._of_draws(states, sampled=run.samples_courses)

    def _simulated(self) -> ParameterCovariance:
        """From runs that are trained."""
        run, rank = self.run, self.run.space.dimension
        most = 2 * max(_FEWEST, int(_REMEMBERED_BYTES / 16 / max(1, rank * len(self.when))))
        runs = min(expected_risk_ways.affordable(run, self.when), most)
        states = simulated_states(
            run.problem, run.scheme, run.recipe, run.start, self.when, runs, run.accuracy.seed,
            lambda parameters: run.space.coordinates(parameters.T).T,
        )  # fmt: skip
        return self._of_draws(np.ldexp(states, self._scale - self._unit), sampled=True)

    def _of_draws(self, states: FloatArray, sampled: bool) -> ParameterCovariance:
        """The covariance of equally likely states (times, draws, r): all there are, or a sample in pairs."""
        with np.errstate(over="ignore", invalid="ignore"):
            apart = states - states.mean(axis=1, keepdims=True)
            count = states.shape[1]
            found = apart.swapaxes(1, 2) @ apart / count
            if not sampled:
                return self._made(found, np.zeros(len(self.when)), "exact")
            pairs, others = (apart[:, 0::2] + apart[:, 1::2]) / 2, count / 2 - 1
            # What the mean of the draws is off by is missing in their squares.
            found += pairs.swapaxes(1, 2) @ pairs / (count / 2 * others)
            squares = np.square(apart).sum(axis=2)
            products = np.square((apart[:, 0::2] * apart[:, 1::2]).sum(axis=2))
            sizes = (np.square(squares[:, 0::2]) + np.square(squares[:, 1::2]) + 2 * products) / 4
            variance = np.maximum(sizes.mean(axis=1) - np.square(_size(found)), 0.0) / others
        errors = quantile(count // 2) * np.sqrt(variance)
        return self._made(found, errors, "three standard errors", apart)

    def _made(
        self, found: FloatArray, errors: FloatArray, kind: ErrorKind, draws: FloatArray | None = None
    ) -> ParameterCovariance:
        run, shape, exponent = self.run, self.clock.shape, self._unit - self._scale
        found = np.where(np.isfinite(found).all(axis=(1, 2), keepdims=True), found, np.inf)
        with np.errstate(over="ignore"):
            errors = np.ldexp(np.where(np.isfinite(errors), errors, np.inf), 2 * exponent)
        inside = found[self.back].reshape(*shape, *found.shape[1:])
        error = errors[self.back].reshape(shape)
        return ParameterCovariance(
            self.clock, error, kind, inside, exponent, run.space, run.problem, draws, self.back
        )  # fmt: skip


def _exponent(number: float) -> int:
    return int(np.frexp(number)[1])


def _size(matrices: FloatArray) -> FloatArray:
    """Frobenius norms (k,) of (k, r, r)."""
    return norms(matrices.reshape(len(matrices), matrices.shape[1] * matrices.shape[2]))
