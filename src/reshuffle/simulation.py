"""Real mini-batch gradient descent, many runs at once: the oracle of the exact answers."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from threading import Event
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray, columns
from reshuffle._linalg import each, finite_or_inf, norms, one_thread, overflow_is_inf
from reshuffle._progress import ticking, track
from reshuffle._uncertainty import CONFIDENCE, ErrorKind, with_error, with_largest_error
from reshuffle.errors import ArgumentError
from reshuffle.problem import checked_problem, checked_start
from reshuffle.problem.least_squares import LeastSquares, stacked
from reshuffle.recipe import Average, StepLike, recipe
from reshuffle.recipe.recipe import Recipe
from reshuffle.schemes import base
from reshuffle.schemes.base import Scheme, Unit, Visit

BLOCK_ENTRIES = 1 << 18
"""Parameters of the runs that are trained together: few enough to stay near a core. As all that follows, fixed, so
that results do not depend on the machine."""
MOST_ENTRIES = 1 << 24
"""Parameters of the runs that are trained together, at most."""
_SLICE = 256
"""Runs whose products one thread does."""
_FEWEST_ROWS = 2 / 3
"""Rows per column from which a batch is visited by its sums."""
_MOST_RUNS = 1_000_000_000
_FEW = 512
"""Runs that are trained together even where that is more: only those at the same batch share a product."""


def copied_generator(rng: np.random.Generator) -> np.random.Generator:
    """A generator in the same state that spawns the same generators; copies of numpy 1.26 and 2.0 spawn others.

    >>> given = np.random.default_rng(1)
    >>> int(copied_generator(given).spawn(1)[0].integers(1000)), int(given.spawn(1)[0].integers(1000))
    (15, 15)
    """
    stream = rng.bit_generator
    made = type(stream)(cast("np.random.SeedSequence", deepcopy(stream.seed_seq)))
    made.state = stream.state
    return np.random.Generator(made)


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """A mean over simulated runs and its standard error, of the same shape.

    Attributes
    ----------
    mean, standard_error : arrays of one shape

    >>> Estimate(np.array(2.0), np.array(0.1))
    Estimate(mean=2.00 +- 0.30 (confidence 99%))
    >>> Estimate(np.ones(3), np.array([0.1, 0.2, 0.1]))
    Estimate(mean of shape (3,) +- 0.6 at most (confidence 99%))
    """

    mean: FloatArray
    standard_error: FloatArray

    @property
    def error(self) -> FloatArray:
        """Three standard errors, which cover in 99 of 100 cases from about 30 runs on."""
        return 3 * self.standard_error

    @property
    def error_kind(self) -> ErrorKind:
        """In which sense `error` is meant."""
        return CONFIDENCE

    def __repr__(self) -> str:
        if self.mean.size == 1:
            return f"Estimate(mean={with_error(self.mean.item(), self.error.item(), self.error_kind)})"
        return f"Estimate(mean {with_largest_error(self.mean.shape, self.error, self.error_kind)})"


@dataclass(frozen=True, eq=False)
class Simulation:
    """Estimates from simulated runs; the last axis of each is the output, if there are several.

    Attributes
    ----------
    epochs : array
        As requested; the estimates carry its shape.
    iterate : Estimate
        The mean iterate, epochs.shape + (p,), over orders (and over noise, if that was drawn anew).
    expected_risk : Estimate or None
        |b - beta_star|_Sigma^2 of a single run, on average: the risk of the mean iterate plus the spread.
    risk : Estimate or None
        The risk of the mean iterate, without bias: from pairs of runs that share their noise but not
        their orders, (b - beta_star)' Sigma (b' - beta_star).
    spread : Estimate or None
        The part of the risk due to shuffling: half the squared distance |b - b'|_Sigma^2 of such a
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


class PairTally:
    """Sums over pairs of runs at each of the stops: runs of a pair share their noise.

    `samples` are the values of each pair, (pairs,) of each block at each stop, by their names in `Simulation`.
    """

    def __init__(self, problem: LeastSquares, stops: int):
        self.problem, self.knows_truth = problem, problem.beta_star is not None
        self.pairs, self.scale = np.zeros(stops), problem.compressed.scale
        self.mean, self.squares = np.zeros((stops, problem.p)), np.zeros((stops, problem.p))
        names = ("expected_risk", "risk", "spread") if self.knows_truth else ()
        self.risks: list[FloatArray] = [np.zeros(0)] * stops
        self.samples: dict[str, list[list[FloatArray]]] = {name: [[] for _ in range(stops)] for name in names}

    def add(self, stop: int, state: FloatArray) -> None:
        """Take down the parameters (runs, p) of a block of runs."""
        pairs = (state[0::2] + state[1::2]) / 2
        self.pairs[stop], self.mean[stop] = len(pairs), pairs.mean(axis=0)
        # Squares in units of the responses: those of tiny parameters would vanish.
        pairs -= self.mean[stop]
        pairs *= self.scale
        self.squares[stop] = np.einsum("ij,ij->j", pairs, pairs)
        if self.knows_truth:
            errors = state - np.asarray(self.problem.beta_star)
            weighted = self.problem.covariance.apply(errors.T).T
            risks = np.einsum("ij,ij->i", errors, weighted)
            apart, weighted_apart = errors[0::2] - errors[1::2], weighted[0::2] - weighted[1::2]
            self.risks[stop] = risks
            self.samples["expected_risk"][stop].append((risks[0::2] + risks[1::2]) / 2)
            self.samples["risk"][stop].append(np.einsum("ij,ij->i", errors[0::2], weighted[1::2]))
            self.samples["spread"][stop].append(np.einsum("ij,ij->i", apart, weighted_apart) / 2)

    def add_tests(self, samples: int, rng: np.random.Generator) -> None:
        """Try each run on its Gaussian test samples: its mean square is its risk times chi^2 / samples.

        A run has the same chi^2 at every stop, as its errors on one test set go up and down together.
        """
        factors = rng.chisquare(samples, len(self.risks[0])) / samples if self.risks else np.zeros(0)
        tested = [factors * risks for risks in self.risks]
        self.samples["test_error"] = [[(errors[0::2] + errors[1::2]) / 2] for errors in tested]

    def merge(self, other: "PairTally") -> None:
        """Take in the runs of another block, by the update of Chan, Golub and LeVeque."""
        counts = self.pairs[:, np.newaxis]
        share = other.pairs[:, np.newaxis] / (counts + other.pairs[:, np.newaxis])
        shift = other.mean - self.mean
        self.squares += other.squares + np.square(shift * self.scale) * counts * share
        self.mean += shift * share
        self.pairs += other.pairs
        for name, theirs in other.samples.items():
            mine = self.samples.setdefault(name, [[] for _ in theirs])
            for stop, parts in enumerate(theirs):
                mine[stop] += parts

    def result(self, epochs: FloatArray, positions: IntArray, runs: int) -> Simulation:
        """Estimates at the requested epochs."""
        pairs = runs // 2

        def estimate(mean: FloatArray, error: FloatArray) -> Estimate:
            # Beyond the range of numbers a run has diverged, and so has the mean; nothing is known of its error.
            mean = finite_or_inf(mean)
            error = np.where(np.isfinite(mean), finite_or_inf(error), np.inf)
            shape = epochs.shape + mean.shape[1:]
            return Estimate(mean[positions].reshape(shape), error[positions].reshape(shape))

        def of_samples(samples: list[list[FloatArray]]) -> Estimate:
            values = np.array([np.concatenate(parts) for parts in samples]).reshape(len(samples), pairs)
            mean = values.mean(axis=1)
            return estimate(mean, norms(values - mean[:, np.newaxis]) / np.sqrt(pairs * (pairs - 1.0)))

        of_iterate = np.sqrt(self.squares / (pairs - 1) / pairs) / self.scale
        made = {name: of_samples(parts) for name, parts in self.samples.items()}
        answers = {name: made.get(name) for name in ("expected_risk", "risk", "spread", "test_error")}
        return Simulation(epochs, estimate(self.mean, of_iterate), **answers, runs=runs)


@dataclass(eq=False)
class Trial:
    """The problem, scheme and recipe that all runs share, whichever block they are in, for `epochs` in all.

    Batches with many rows are visited by their sums X_b'X_b / scale^2, found by their rows: that takes 2 p^2
    operations, by the rows themselves 4 m p. Only `alone` may a block use the threads.
    """

    problem: LeastSquares
    scheme: Scheme
    recipe: Recipe
    start: FloatArray
    epochs: int
    fresh_noise: bool = False
    output: int = 0
    alone: bool = True

    def __post_init__(self) -> None:
        self.scale, self.batches = self.problem.compressed.scale, dict[bytes, FloatArray]()
        # Each row in one piece: visits fetch many of them.
        self.X = np.ascontiguousarray(self.problem.X)
        for _, stage in self.scheme.stages if self.epochs > 4 * self.problem.p else ():
            for rows in stage.partition(self.problem.n) if stage.unit is Unit.BATCH else ():
                if _FEWEST_ROWS * self.problem.p <= len(rows):
                    features = self.problem.X[rows] / self.scale
                    self.batches[rows.tobytes()] = features.T @ features


class Block:
    """Runs that are trained together, as matrix products over those at the same batch.

    All outputs of a run have the same orders: the state is (runs, t, p). With `copied`, runs that cannot differ are
    trained once: all of a fixed order that share their responses.
    """

    def __init__(self, trial: Trial, runs: int, rng: np.random.Generator, copied: bool = False):
        problem, made, self.trial, self.rng = trial.problem, trial.recipe, trial, rng
        self.problem, self.scheme, self.recipe = problem, trial.scheme, made
        self.X = trial.X
        # (1, t, n), or (pairs, 1, n) where each pair of runs has its own.
        self.responses = columns(problem.y).T[np.newaxis]
        self.sharing = 2
        if trial.fresh_noise:
            beta_star, _, noise = problem.truth("fresh_noise")
            draws = rng.standard_normal((runs // 2, problem.n))
            if trial.output:
                draws = copied_generator(rng).spawn(trial.output)[-1].standard_normal(draws.shape)
            self.responses = (problem.X @ beta_star + noise * draws)[:, np.newaxis]
        if copied and not trial.scheme.is_random:
            runs, self.sharing = len(self.responses), 1
        self.state = np.tile(columns(trial.start).T, (runs, 1, 1))
        self.buffer = np.zeros_like(self.state) if made.momentum else self.state
        self.taken_on: Average | None = None
        starts = made.average is not None and made.average.begins_with_iterate
        self.sums = self.state.copy() if starts else np.zeros_like(self.state)
        self.penalties = np.full(problem.p, made.penalty)
        self.penalties[list(made.unpenalized)] = 0.0
        self.inputs: dict[bytes, FloatArray] = {}

    def epochs(self, last: int) -> Iterator[tuple[int, FloatArray]]:
        """Yield the parameters after 0, 1, ..., last epochs, or their average where it has begun.

        They are (runs, p), or (runs, t, p) of several outputs.
        """
        average, seen = self.recipe.average, slice(None) if self.problem.outputs is not None else 0
        yield 0, self.state[:, seen]
        training = self.scheme.visits(self.problem.n, self.rng, len(self.state))
        for epoch in range(1, last + 1):
            self.now = self.recipe.at(epoch - 1)
            self.taken_on = average if average is not None and epoch > average.start else None
            made = np.zeros(len(self.state), dtype=np.intp)
            for visit in next(training):
                self._slot = int(made[visit.runs[0]])
                self._visit(visit)
                made[visit.runs] += 1
            if self.taken_on is None:
                yield epoch, self.state[:, seen]
                continue
            if not self.taken_on.is_per_visit:
                self._take_on(self.taken_on, np.arange(len(self.state)))
            divisor = self.taken_on.divisor(epoch, self.scheme.steps(self.problem.n))
            yield epoch, self.sums[:, seen] / divisor

    def _take_on(self, average: Average, runs: IntArray) -> None:
        """One update of the averages of some of the runs."""
        self.sums[runs] = average.kept * self.sums[runs] + average.taken * self.state[runs]

    def _visit(self, visit: Visit) -> None:
        if visit.rows.ndim == 1:
            # Without a copy where that is all of the runs.
            current = self.state if len(visit.runs) == len(self.state) else self.state[visit.runs]
            self._descend(visit.runs, current, self._shared_gradients(visit, current))
            return
        # As many runs at a time as the copies of their rows allow.
        height = max(1, BLOCK_ENTRIES // max(1, visit.rows.shape[1] * self.problem.p))
        for first in range(0, len(visit.runs), height):
            runs, rows = visit.runs[first : first + height], visit.rows[first : first + height]
            # Several times as quick as X[rows] where these are short.
            features = np.take(self.X, rows, axis=0, mode="clip")
            noise = np.zeros_like(runs) if len(self.responses) == 1 else runs // self.sharing
            residuals = self.state[runs] @ features.swapaxes(1, 2)
            residuals -= self.responses[noise[:, np.newaxis], :, rows].swapaxes(1, 2)
            gradients = residuals @ features
            gradients /= visit.divisor
            if visit.noise:
                gradients += visit.noise * self.rng.standard_normal(gradients.shape)
            self._descend(runs, self.state[runs], gradients)

    def _shared_gradients(self, visit: Visit, current: FloatArray) -> FloatArray:
        """X_b'(X_b b - y_b) / m_b of runs b (k, t, p) at the same rows; by X_b'X_b and X_b'y_b if summed."""
        runs, members, name, scale = visit.runs, visit.rows, visit.rows.tobytes(), self.trial.scale
        flat = current.reshape(-1, current.shape[2])
        # Each pair of runs has different responses, unless all share them.
        shared = len(self.responses) == 1
        if name in self.trial.batches:
            if name not in self.inputs:
                self.inputs[name] = self.responses[..., members] @ (self.X[members] / scale)
            moments, inputs, scaled = self.trial.batches[name], self.inputs[name], scale * flat
            products = self._in_slices(lambda part: scaled[part] @ moments, len(flat), moments.size)
            summed = products.reshape(current.shape)
            summed -= inputs if shared else inputs[runs // self.sharing]
            summed *= scale / visit.divisor
            return summed
        is_contiguous = members[-1] - members[0] + 1 == len(members) and (np.diff(members) == 1).all()
        rows = slice(members[0], members[-1] + 1) if is_contiguous else members
        features, responses = self.X[rows], self.responses[..., rows]
        if not shared:
            responses = responses[runs // self.sharing]
        elif responses.shape[1] > 1:
            responses = np.broadcast_to(responses, (len(runs), *responses.shape[1:]))
        wanted = responses.reshape(-1, len(members))

        def gradients(part: slice) -> FloatArray:
            residuals = flat[part] @ features.T
            residuals -= wanted if len(wanted) == 1 else wanted[part]
            return np.asarray(residuals @ features)

        summed = self._in_slices(gradients, len(flat), features.size)
        summed /= visit.divisor
        return summed.reshape(current.shape)

    def _in_slices(self, product: Callable[[slice], FloatArray], runs: int, work: int) -> FloatArray:
        """A product over runs, as many at a time as one thread does."""
        slices = [slice(start, start + _SLICE) for start in range(0, runs, _SLICE)]
        if len(slices) == 1:
            return product(slices[0])
        if not self.trial.alone:
            # The threads are busy with other blocks.
            return np.concatenate([product(part) for part in slices])
        return np.concatenate(each(product, slices, np.cbrt(float(_SLICE) * work)))

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


@_arrays.with_known_keywords
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

    All outputs of a run are trained in the same orders, and each has independent noise.

    Parameters
    ----------
    problem, scheme, step, alpha, start, penalty, momentum, nesterov, unpenalized, average
        As in `descend`.
    epochs : int or array of int
        Epochs at which runs are evaluated; finite.
    runs : int
        Even, at least 4. Runs come in pairs that share their noise; standard errors are those over pairs.
    seed : int or numpy Generator
        The same seed gives the same runs, whatever the number of threads.
    fresh_noise : bool
        Draw y = X beta_star + noise * N(0, 1) anew for every pair, as the risk averages over; otherwise all
        runs use the y of the problem.
    test_samples : int
        The number of Gaussian test samples, x ~ N(0, Sigma), on which each run measures its test error; none by
        default. The mean square over them is the risk of the run times chi^2 / test_samples, which is drawn in
        their place.
    progress : bool, optional
        Show a progress bar; by default on a terminal, once it takes longer than two seconds.

    Returns
    -------
    Simulation
        Means over the runs, with standard errors, in the shape of `epochs`.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(20, 5, seed=3)
    >>> result = rs.simulate(problem, rs.RandomReshuffling(batches=4), step=0.05, epochs=[1, 10], runs=100)
    >>> result.iterate.mean.shape
    (2, 5)
    """
    problem = checked_problem(problem)
    problem.require_rows("a simulation")
    steps = base.scheme_of(scheme).steps(problem.n)
    made = recipe.checked(step, alpha, penalty, momentum, steps, nesterov, unpenalized, problem.p, average)
    problem, scheme, made, when = _trained(problem, scheme, made, epochs)
    runs = _arrays.whole_number("runs", runs, 4, _MOST_RUNS)
    if runs % 2:
        raise ArgumentError(
            "runs", "be even, since runs come in pairs that share their noise", f"it is {runs}"
        )
    rng = _arrays.generator("seed", seed)
    start = checked_start(start, problem)
    fresh_noise = _arrays.flag("fresh_noise", fresh_noise)
    progress = None if progress is None else _arrays.flag("progress", progress)
    test_samples = _arrays.whole_number("test_samples", test_samples, 0)
    for wanted, purpose in ((fresh_noise, "fresh_noise"), (test_samples, "test_samples")):
        if wanted:
            problem.require_truth(purpose)
    sizes = _block_sizes(runs, problem, fresh_noise)
    in_all, answers = runs * int(when.max(initial=0.0)), []
    for output in range(problem.outputs or 1):
        # The same randomness, and so the same orders, for every output; a generator that was given moves on.
        stream = copied_generator(rng) if output + 1 < (problem.outputs or 1) else rng
        one = problem if problem.outputs is None else problem.output(output)
        begin = columns(start)[:, output]
        trial = Trial(one, scheme, made, begin, in_all, fresh_noise, output, alone=len(sizes) == 1)
        answers.append(_simulated(trial, when, sizes, stream, test_samples, progress))
    return answers[0] if problem.outputs is None else stacked(answers)


def _trained(
    problem: LeastSquares, scheme: Scheme, made: Recipe, epochs: ArrayLike
) -> tuple[LeastSquares, Scheme, Recipe, FloatArray]:
    """Fit scheme and recipe to the rows that are trained on, and check for how long."""
    problem, scheme = base.fitted(problem, scheme)
    made.require_ordinary(problem.compressed.scale)
    made, when = made.fitted(scheme, problem.n), _arrays.epochs(epochs)
    if not np.isfinite(when).all():
        raise ValueError(
            "epochs must be finite to be simulated, but one is inf; descend(...).limit() is exact."
        )
    return problem, scheme, made, made.epochs(when)


@overflow_is_inf
def _simulated(
    trial: Trial,
    when: FloatArray,
    sizes: list[int],
    rng: np.random.Generator,
    test_samples: int,
    progress: bool | None,
) -> Simulation:
    """Simulate one output, in blocks of so many runs."""
    stops, positions = np.unique(when.ravel(), return_inverse=True)
    last, p = int(stops.max(initial=0.0)), trial.problem.p
    stopped, total = Event(), PairTally(trial.problem, len(stops))
    # How a product rounds depends on how many threads share it.
    with one_thread(), ticking(len(sizes) * (last + 1), "simulating", progress) as tick:

        def tallied(task: tuple[int, np.random.Generator]) -> PairTally:
            """Train a block, and stop when nobody waits for it any more."""
            size, stream = task
            block, tally = Block(trial, size, stream, copied=True), PairTally(trial.problem, len(stops))
            distinct = len(block.state)
            for epoch, state in block.epochs(last):
                for stop in np.flatnonzero(stops == epoch):
                    tally.add(
                        int(stop), np.repeat(state, size // distinct, axis=0) if distinct < size else state
                    )
                tick()
                if stopped.is_set():
                    return tally
            if test_samples:
                tally.add_tests(test_samples, stream)
            return tally

        # From as much work as it takes to hand it to a thread; the products inside have one thread in any case.
        side = min(np.cbrt(4.0 * sizes[0] * p * trial.problem.n * max(1, last)), 500.0)
        for tally in each(tallied, zip(sizes, rng.spawn(len(sizes)), strict=True), side, stopped.set):
            total.merge(tally)
        return total.result(when, positions, sum(sizes))


def _block_sizes(runs: int, problem: LeastSquares, fresh_noise: bool) -> list[int]:
    """The number of runs of each block, pairs undivided.

    Whatever the scheme: with the same seed all have the same noise, which cancels in what they differ by.
    """
    widest = max(problem.p, problem.n if fresh_noise else 1)
    height = min(max(BLOCK_ENTRIES // problem.p, _FEW), MOST_ENTRIES // widest)
    pairs = runs // 2
    count = -(-pairs // max(2, height // 2))
    # Two threads should end together.
    count += count % 2 if count > 1 else 0
    ends = np.linspace(0, pairs, count + 1).round().astype(int)
    return [2 * int(size) for size in np.diff(ends)]


@overflow_is_inf
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
    """Apply `read` to the parameters of every run on the responses of the problem: (stops, runs, ...).

    It is given those of some runs, (runs, p), or (runs, t, p) of several outputs. All arguments are checked;
    `stops` are finite and ascending.
    """
    last, rng = int(stops[-1]) if len(stops) else 0, np.random.default_rng(seed)
    height = 2 * max(2, MOST_ENTRIES // (2 * problem.p * (problem.outputs or 1)))
    sizes = [min(height, runs - done) for done in range(0, runs, height)]
    trial = Trial(problem, scheme, made, start, runs * last, fresh_noise=False)
    found: list[list[FloatArray]] = [[] for _ in stops]

    def trained() -> Iterator[tuple[int, FloatArray]]:
        for size, stream in zip(sizes, rng.spawn(len(sizes)), strict=True):
            yield from Block(trial, size, stream).epochs(last)

    with one_thread():
        for epoch, state in track(trained(), len(sizes) * (last + 1), "simulating"):
            for stop in np.flatnonzero(stops == epoch):
                found[int(stop)].append(read(state))
    return np.array([np.concatenate(parts) for parts in found])


def single_run(
    problem: LeastSquares, scheme: Scheme, made: Recipe, start: FloatArray, epochs: FloatArray, seed: int
) -> FloatArray:
    """Parameters of one run after finite epochs, epochs.shape + (p,) or (p, t); inf where it has diverged.

    All arguments are checked, and all outputs are trained in the same orders.
    """
    stops, positions = np.unique(epochs.ravel(), return_inverse=True)
    found = simulated_states(problem, scheme, made, start, stops, 1, seed, np.copy)[positions, 0]
    trained = found if problem.outputs is None else found.swapaxes(1, 2)
    return finite_or_inf(trained).reshape(epochs.shape + trained.shape[1:])


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

    The problem has one output and knows its truth; all runs train on its responses. Arguments as in `simulate`.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(20, 5, seed=3)
    >>> risks = single_run_risks(problem, rs.RandomReshuffling(batches=4), step=0.05, epochs=[0, 1, 10], runs=3)
    >>> risks.shape, bool((risks[0] == risks[0, 0]).all()), bool((risks[2] < risks[1]).all())
    ((3, 3), True, True)
    """
    problem = checked_problem(problem)
    beta_star, covariance, _ = problem.truth("single_run_risks")
    made = recipe.checked(step, alpha, 0.0, 0.0, base.scheme_of(scheme).steps(problem.n))
    problem, scheme, made, when = _trained(problem, scheme, made, epochs)
    stops, positions = np.unique(when.ravel(), return_inverse=True)

    def risks(state: FloatArray) -> FloatArray:
        errors = state - beta_star
        found = np.einsum("ij,ij->i", errors, covariance.apply(errors.T).T)
        # Beyond the range of numbers a run has diverged.
        return finite_or_inf(found)

    count, start = _arrays.whole_number("runs", runs, 1), checked_start(None, problem)
    found = simulated_states(
        problem, scheme, made, start, stops, count, _arrays.whole_number("seed", seed, 0), risks
    )
    return found[positions].reshape(*when.shape, count)
