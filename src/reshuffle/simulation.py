"""Real mini-batch gradient descent, many runs at once: what the exact answers are checked against."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reshuffle._core import FloatArray, IntArray, checks
from reshuffle._core.confidence import ErrorKind
from reshuffle._core.numerics import norms
from reshuffle._core.progress import track
from reshuffle._core.threads import each, one_thread
from reshuffle.problem import checked_problem, checked_start
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.outputs import of_output
from reshuffle.problem.stacked_outputs import stacked
from reshuffle.recipe import Average, StepLike, recipe
from reshuffle.recipe.recipe import Recipe
from reshuffle.recipe.staged_recipe import arranged
from reshuffle.schemes import base
from reshuffle.schemes.base import Scheme, Visit

_BLOCK_ENTRIES = 1 << 24
"""Parameters of all runs that are held at a time. Fixed, so that results do not depend on the machine."""
_SLICE = 256
"""Runs whose products one thread does. Fixed, for the same reason."""
_HISTORY_ENTRIES = 1 << 26
"""The same where every run is kept at all of the stops, to be tried on test samples of its own."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """A mean over simulated runs and its standard error, of the same shape."""

    mean: FloatArray
    standard_error: FloatArray

    @property
    def error(self) -> FloatArray:
        """Three standard errors."""
        return 3 * self.standard_error

    @property
    def error_kind(self) -> ErrorKind:
        """In which sense `error` is meant."""
        return "three standard errors"


@dataclass(frozen=True, eq=False)
class Simulation:
    """What simulated runs did; of several outputs t, whose number is then the last axis of all estimates.

    Attributes
    ----------
    epochs : array
        As asked for; the estimates carry its shape.
    iterate : Estimate
        The mean iterate, epochs.shape + (p,), over orders (and over noise, if that was drawn anew).
    expected_risk : Estimate or None
        |b - beta_star|_Sigma^2 of a single run, on average: the risk of the mean iterate plus the spread.
    risk : Estimate or None
        The risk of the mean iterate, without bias: from pairs of runs that share their noise but not
        their orders, (b - beta_star)' Sigma (b' - beta_star).
    spread : Estimate or None
        What shuffling adds to the risk of the mean iterate: half the squared distance |b - b'|_Sigma^2 of such a
        pair. The noise that the two share cancels, so this is known far better than the risk itself.
    test_error : Estimate or None
        The mean of (x'b - x'beta_star)^2 over test samples that each run draws for itself: the risk of a
        single run as one would measure it.
    runs : int
    """

    epochs: FloatArray
    iterate: Estimate
    expected_risk: Estimate | None
    risk: Estimate | None
    spread: Estimate | None
    test_error: Estimate | None
    runs: int

    def __repr__(self) -> str:
        return f"Simulation(runs={self.runs}, epochs of shape {self.epochs.shape})"


def simulate(
    problem: LeastSquares,
    scheme: Scheme,
    step: StepLike | None = None,
    *,
    alpha: StepLike | None = None,
    epochs: ArrayLike,
    runs: int,
    seed: int | np.random.Generator = 0,
    start: ArrayLike | None = None,
    fresh_noise: bool = False,
    penalty: float = 0.0,
    momentum: float = 0.0,
    nesterov: bool = False,
    unpenalized: ArrayLike = (),
    average: Average | None = None,
    test_samples: int = 0,
    progress: bool | None = None,
) -> Simulation:
    """Train `runs` times, each with its own random orders, and average.

    All outputs of a run are trained in the same orders, and each has noise of its own.

    Parameters
    ----------
    problem, scheme, step, alpha, start, penalty, momentum, nesterov, unpenalized, average
        As in `descend`.
    epochs : int or array of int
        When to look; finite.
    runs : int
        Even, at least 4. Runs come in pairs that share their noise; standard errors are those over pairs.
    seed : int or numpy Generator
        The same seed gives the same runs, whatever the number of threads.
    fresh_noise : bool
        Draw y = X beta_star + noise * N(0, 1) anew for every pair, as the risk averages over; otherwise all
        runs use the y of the problem.
    test_samples : int
        How many Gaussian test samples, x ~ N(0, Sigma), each run draws to measure its test error; none by
        default.
    progress : bool, optional
        Whether to show a bar; by default on a terminal, once it takes longer than two seconds.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(20, 5, seed=3)
    >>> result = rs.simulate(problem, rs.RandomReshuffling(batches=4), step=0.05, epochs=[1, 10], runs=100)
    >>> result.iterate.mean.shape
    (2, 5)
    """
    problem = checked_problem(problem)
    scheme = base.checked(scheme, problem.n)
    steps = scheme.steps(problem.n)
    made = recipe.checked(step, alpha, penalty, momentum, steps, nesterov, unpenalized, problem.p, average)
    made = arranged(made, scheme, problem.n)
    when = checks.epochs(epochs)
    if not np.isfinite(when).all():
        raise ValueError(
            "epochs must be finite to be simulated, but one is inf; descend(...).limit() is exact."
        )
    made.clock(when)
    runs = checks.whole_number("runs", runs, 4)
    if runs % 2:
        raise ValueError(
            f"runs must be even, since runs come in pairs that share their noise, but it is {runs}."
        )
    rng = checks.generator("seed", seed)
    start = checked_start(start, problem)
    fresh_noise = checks.flag("fresh_noise", fresh_noise)
    progress = None if progress is None else checks.flag("progress", progress)
    test_samples = checks.whole_number("test_samples", test_samples, 0)
    for wanted, purpose in ((fresh_noise, "fresh_noise"), (test_samples, "test_samples")):
        if wanted:
            problem.require_truth(purpose)
    if problem.outputs is None:
        return _simulated(problem, scheme, made, start, when, runs, rng, fresh_noise, test_samples, progress)
    # The same randomness for every output, and so the same orders; a generator that was given has then moved on.
    streams = [*(deepcopy(rng) for _ in range(problem.outputs - 1)), rng]
    return stacked(
        [
            _simulated(
                problem.output(number), scheme, made, of_output(start, number), when, runs, stream, fresh_noise,
                test_samples, progress, number,
            )
            for number, stream in enumerate(streams)
        ]
    )  # fmt: skip


def _simulated(
    problem: LeastSquares,
    scheme: Scheme,
    made: Recipe,
    start: FloatArray,
    when: FloatArray,
    runs: int,
    rng: np.random.Generator,
    fresh_noise: bool,
    test_samples: int,
    progress: bool | None,
    output: int = 0,
) -> Simulation:
    """What `simulate` does, for one output and arguments that are checked."""
    stops, positions = np.unique(when.ravel(), return_inverse=True)
    tally = _Tally(problem, len(stops))
    widest = max(problem.p, problem.n if fresh_noise else 1)
    height = 2 * max(2, _BLOCK_ENTRIES // (2 * widest))
    if test_samples:
        height = min(height, 2 * max(2, _HISTORY_ENTRIES // (2 * problem.p * max(1, len(stops)))))
    sizes = [min(height, runs - done) for done in range(0, runs, height)]
    last = int(stops[-1]) if len(stops) else 0
    trained = _trained_blocks(problem, scheme, made, start, sizes, rng, fresh_noise, last, output)
    history = np.empty((len(stops), max(sizes), problem.p)) if test_samples else None
    # How a product rounds depends on how many threads share it.
    with one_thread():
        for stream, epoch, state in track(trained, len(sizes) * (last + 1), "simulating", progress):
            for stop in np.flatnonzero(stops == epoch):
                tally.add(int(stop), state)
                if history is not None:
                    history[stop, : len(state)] = state
            if history is not None and epoch == last:
                tally.add_tests(history[:, : len(state)], test_samples, stream)
        return tally.result(when, positions, runs)


def simulated_states(
    problem: LeastSquares,
    scheme: Scheme,
    made: Recipe,
    start: FloatArray,
    stops: FloatArray,
    runs: int,
    seed: int,
    read: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """What is read off the parameters of every run on the responses of the problem, (stops, runs, ...).

    Parameters
    ----------
    problem, scheme, made, start, runs, seed
        As in `simulate`, checked.
    stops : (k,)
        Epochs, finite and ascending.
    read : callable
        Of the parameters (runs, p).
    """
    height = 2 * max(2, _BLOCK_ENTRIES // (2 * problem.p))
    sizes = [min(height, runs - done) for done in range(0, runs, height)]
    last, rng = int(stops[-1]) if len(stops) else 0, np.random.default_rng(seed)
    found: list[list[FloatArray]] = [[] for _ in stops]
    trained = _trained_blocks(problem, scheme, made, start, sizes, rng, False, last)
    with one_thread():
        for _, epoch, state in track(trained, len(sizes) * (last + 1), "simulating"):
            for stop in np.flatnonzero(stops == epoch):
                found[int(stop)].append(read(state))
    return np.array([np.concatenate(parts) for parts in found])


def single_run_risks(
    problem: LeastSquares,
    scheme: Scheme,
    step: StepLike | None = None,
    *,
    alpha: StepLike | None = None,
    epochs: ArrayLike,
    runs: int,
    seed: int = 0,
) -> FloatArray:
    """The risk |b - beta_star|_Sigma^2 of every single run, not their mean: epochs.shape + (runs,).

    Parameters
    ----------
    problem
        One output, with its truth known; all runs train on its responses.
    scheme, step, alpha
        As in `descend`.
    epochs : int or array of int
        When to look; finite.
    runs, seed : int

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(20, 5, seed=3)
    >>> risks = single_run_risks(problem, rs.RandomReshuffling(4), step=0.05, epochs=[0, 1, 10], runs=3)
    >>> risks.shape, bool((risks[0] == risks[0, 0]).all()), bool((risks[2] < risks[1]).all())
    ((3, 3), True, True)
    """
    problem = checked_problem(problem)
    beta_star, covariance, _ = problem.truth("single_run_risks")
    scheme = base.checked(scheme, problem.n)
    made = recipe.checked(step, alpha, 0.0, 0.0, scheme.steps(problem.n), False, (), problem.p, None)
    made = arranged(made, scheme, problem.n)
    when = checks.epochs(epochs)
    if not np.isfinite(when).all():
        raise ValueError("epochs must be finite to be simulated, but one is inf.")
    made.clock(when)
    stops, positions = np.unique(when.ravel(), return_inverse=True)

    def risks(state: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            errors = state - beta_star
            found = np.einsum("ij,ij->i", errors, covariance.apply(errors.T).T)
        # Beyond the range of numbers a run has diverged.
        return np.where(np.isfinite(found), found, np.inf)

    count, start = checks.whole_number("runs", runs, 1), checked_start(None, problem)
    found = simulated_states(
        problem, scheme, made, start, stops, count, checks.whole_number("seed", seed, 0), risks
    )
    return found[positions].reshape(*when.shape, count)


def _trained_blocks(
    problem: LeastSquares,
    scheme: Scheme,
    made: Recipe,
    start: FloatArray,
    sizes: list[int],
    rng: np.random.Generator,
    fresh_noise: bool,
    last: int,
    output: int = 0,
) -> Iterator[tuple[np.random.Generator, int, FloatArray]]:
    """Every block after each of its epochs, with the randomness it may go on with."""
    for size, stream in zip(sizes, rng.spawn(len(sizes)), strict=True):
        block = _Block(problem, scheme, made, start, size, stream, fresh_noise, output)
        for epoch, state in block.epochs(last):
            yield stream, epoch, state


class _Block:
    """Runs that are trained together, as matrix products over those at the same batch."""

    def __init__(
        self,
        problem: LeastSquares,
        scheme: Scheme,
        made: Recipe,
        start: FloatArray,
        runs: int,
        rng: np.random.Generator,
        fresh_noise: bool,
        output: int = 0,
    ):
        self.problem, self.scheme, self.recipe, self.rng = problem, scheme, made, rng
        self.state = np.tile(start, (runs, 1))
        self.buffer = np.zeros_like(self.state) if made.momentum else self.state
        self.taken_on: Average | None = None
        starts = made.average is not None and made.average.begins_with_iterate
        self.sums = self.state.copy() if starts else np.zeros_like(self.state)
        self.penalties = np.full(problem.p, made.penalty)
        self.penalties[list(made.unpenalized)] = 0.0
        self.responses = problem.y[np.newaxis]
        if fresh_noise:
            beta_star, _, noise = problem.truth("fresh_noise")
            draws = rng.standard_normal((runs // 2, problem.n))
            if output:
                draws = deepcopy(rng).spawn(output)[-1].standard_normal(draws.shape)
            self.responses = problem.X @ beta_star + noise * draws

    def epochs(self, last: int) -> Iterator[tuple[int, FloatArray]]:
        """Yield the parameters (runs, p) after 0, 1, ..., last epochs, or their average where it has begun."""
        average = self.recipe.average
        yield 0, self.state
        training = self.scheme.visits(self.problem.n, self.rng, len(self.state))
        for epoch in range(1, last + 1):
            self.now = self.recipe.at(epoch - 1)
            self.taken_on = average if average is not None and epoch > average.start else None
            made = np.zeros(len(self.state), dtype=np.int64)
            for visit in next(training):
                self._slot = int(made[visit.runs[0]])
                self._visit(visit)
                made[visit.runs] += 1
            yield epoch, self.state if self.taken_on is None else self._averaged(self.taken_on, epoch)

    def _averaged(self, average: Average, epoch: int) -> FloatArray:
        if not average.is_per_visit:
            self._take_on(average, np.arange(len(self.state)))
        return self.sums / average.divisor(epoch, self.scheme.steps(self.problem.n))

    def _take_on(self, average: Average, runs: IntArray) -> None:
        """One update of the averages of some of the runs."""
        with np.errstate(over="ignore", invalid="ignore"):
            self.sums[runs] = average.kept * self.sums[runs] + average.taken * self.state[runs]

    def _visit(self, visit: Visit) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            if visit.rows.ndim == 1:
                self._step_together(visit)
            else:
                self._step_apart(visit)

    def _step_together(self, visit: Visit) -> None:
        """Several runs at the same rows, in two matrix products."""
        runs, members = visit.runs, visit.rows
        is_contiguous = members[-1] - members[0] + 1 == len(members) and (np.diff(members) == 1).all()
        rows = slice(members[0], members[-1] + 1) if is_contiguous else members
        features = self.problem.X[rows]
        shared = len(self.responses) == 1
        responses = self.responses[:, rows] if shared else self.responses[runs // 2][:, rows]
        current = self.state if len(runs) == len(self.state) else self.state[runs]
        slices = [slice(start, start + _SLICE) for start in range(0, len(runs), _SLICE)]

        def gradients(part: slice) -> FloatArray:
            residuals = current[part] @ features.T - (responses if shared else responses[part])
            return np.asarray(residuals @ features)

        side = np.cbrt(float(_SLICE) * features.size)
        summed = np.concatenate(each(gradients, slices, side)) if len(slices) > 1 else gradients(slices[0])
        self._descend(runs, current, summed / visit.divisor)

    def _step_apart(self, visit: Visit) -> None:
        """Several runs at rows of their own, as many at a time as the copies of those rows allow."""
        height = max(1, _BLOCK_ENTRIES // (visit.rows.shape[1] * self.problem.p))
        for first in range(0, len(visit.runs), height):
            runs, rows = visit.runs[first : first + height], visit.rows[first : first + height]
            features = self.problem.X[rows]
            noise = np.zeros_like(runs) if len(self.responses) == 1 else runs // 2
            residuals = (features @ self.state[runs, :, np.newaxis])[..., 0]
            residuals -= self.responses[noise[:, np.newaxis], rows]
            gradients = (residuals[:, np.newaxis, :] @ features)[:, 0, :]
            self._descend(runs, self.state[runs], gradients / visit.divisor)

    def _descend(self, runs: IntArray, current: FloatArray, gradients: FloatArray) -> None:
        """One step of torch's SGD with weight decay and momentum."""
        if self.now.penalty:
            gradients += self.penalties * current
        moved = gradients
        if self.now.momentum:
            moved = gradients + self.now.momentum * self.buffer[runs]
            self.buffer[runs] = moved
        if self.now.nesterov:
            moved = gradients + self.now.momentum * moved
        self.state[runs] = current - self.now.step_of(self._slot) * moved
        if self.taken_on is not None and self.taken_on.is_per_visit:
            self._take_on(self.taken_on, runs)


class _Tally:
    """What is reported, at each of the stops, from the averages of pairs: runs of a pair share their noise."""

    def __init__(self, problem: LeastSquares, stops: int):
        self.problem = problem
        self.knows_truth = problem.beta_star is not None
        self.pairs = np.zeros(stops)
        self.mean = np.zeros((stops, problem.p))
        self.squares = np.zeros((stops, problem.p))
        self.units = np.ones(stops)
        self.risks: list[list[FloatArray]] = [[] for _ in range(stops)]
        self.products: list[list[FloatArray]] = [[] for _ in range(stops)]
        self.distances: list[list[FloatArray]] = [[] for _ in range(stops)]
        self.tests: list[list[FloatArray]] = [[] for _ in range(stops)]

    def add(self, stop: int, state: FloatArray) -> None:
        """Take in the parameters (runs, p) of a block of runs, by the update of Chan, Golub and LeVeque."""
        count = self.pairs[stop]
        with np.errstate(over="ignore", invalid="ignore"):
            pairs = (state[0::2] + state[1::2]) / 2
            mean = pairs.mean(axis=0)
            shift = mean - self.mean[stop]
            share = len(pairs) / (count + len(pairs))
            if not count:
                # Squares are kept in units of the parameters: those of tiny ones would vanish.
                size = float(np.abs(pairs).max(initial=0.0))
                self.units[stop] = size if 0 < size < np.inf else 1.0
            squares = np.square((pairs - mean) / self.units[stop]).sum(axis=0)
            self.squares[stop] += squares + (shift / self.units[stop]) ** 2 * count * share
            self.mean[stop] += shift * share
            self.pairs[stop] += len(pairs)
            if self.knows_truth:
                errors = state - np.asarray(self.problem.beta_star)
                weighted = self.problem.covariance.apply(errors.T).T
                risks = np.einsum("ij,ij->i", errors, weighted)
                self.risks[stop].append((risks[0::2] + risks[1::2]) / 2)
                self.products[stop].append(np.einsum("ij,ij->i", errors[0::2], weighted[1::2]))
                apart, weighted_apart = errors[0::2] - errors[1::2], weighted[0::2] - weighted[1::2]
                self.distances[stop].append(np.einsum("ij,ij->i", apart, weighted_apart) / 2)

    def add_tests(self, history: FloatArray, samples: int, rng: np.random.Generator) -> None:
        """Try each run of (stops, runs, p) on test samples of its own, the same ones at every stop."""
        beta_star, covariance, _ = self.problem.truth("test_samples")
        stops, runs, p = history.shape
        # Test features are z Sigma^(1/2) with z white: the root is taken once, to the errors' side.
        coloured = covariance.colour((history - beta_star).reshape(-1, p)).reshape(stops, runs, p)
        errors, white = np.empty((stops, runs)), np.empty((samples, p))
        for run in range(runs):
            rng.standard_normal(out=white)
            with np.errstate(over="ignore", invalid="ignore"):
                errors[:, run] = np.square(coloured[:, run] @ white.T).mean(axis=1)
        for stop, values in enumerate(errors):
            self.tests[stop].append((values[0::2] + values[1::2]) / 2)

    def result(self, epochs: FloatArray, positions: IntArray, runs: int) -> Simulation:
        """Spread the tallies over the epochs as they were asked for."""
        pairs = runs // 2

        def estimate(mean: FloatArray, error: FloatArray) -> Estimate:
            # Beyond the range of numbers a run has diverged, and so has the mean; nothing is known of its error.
            mean = np.where(np.isfinite(mean), mean, np.inf)
            error = np.where(np.isfinite(mean) & np.isfinite(error), error, np.inf)
            shape = epochs.shape + mean.shape[1:]
            return Estimate(mean[positions].reshape(shape), error[positions].reshape(shape))

        def of_samples(samples: list[list[FloatArray]]) -> Estimate:
            values = np.array([np.concatenate(parts) for parts in samples]).reshape(len(samples), pairs)
            with np.errstate(over="ignore", invalid="ignore"):
                mean = values.mean(axis=1)
                return estimate(mean, norms(values - mean[:, np.newaxis]) / np.sqrt(pairs * (pairs - 1.0)))

        with np.errstate(invalid="ignore"):
            of_iterate = self.units[:, np.newaxis] * np.sqrt(self.squares / (pairs - 1) / pairs)
        return Simulation(
            epochs=epochs,
            iterate=estimate(self.mean, of_iterate),
            expected_risk=of_samples(self.risks) if self.knows_truth else None,
            risk=of_samples(self.products) if self.knows_truth else None,
            spread=of_samples(self.distances) if self.knows_truth else None,
            test_error=of_samples(self.tests) if any(self.tests) else None,
            runs=runs,
        )
