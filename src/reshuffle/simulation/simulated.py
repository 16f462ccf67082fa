"""Real mini-batch gradient descent, many runs at once: what the exact answers are checked against."""

from collections.abc import Callable
from itertools import cycle
from threading import Event

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._blas import each, one_thread
from reshuffle._progress import ticking
from reshuffle.problem import checked_problem, checked_start
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.outputs import of_output, stacked
from reshuffle.recipe import Average, StepLike, recipe
from reshuffle.recipe.recipe import Recipe
from reshuffle.recipe.staged_recipe import arranged
from reshuffle.schemes import base
from reshuffle.schemes.base import Scheme
from reshuffle.simulation.estimates import PairTally, Simulation
from reshuffle.simulation.run_blocks import BLOCK_ENTRIES, MOST_ENTRIES, Block, Trial, copied_generator

_FEW = 512
"""Runs that are trained together even where that is more: only those at the same batch share a product."""
_HISTORY_ENTRIES = 1 << 26
"""Parameters of a block where every run is kept at all of the stops, to be tried on test samples of its own."""
_KEPT_ENTRIES = 1 << 27
"""The same for all blocks that are trained at a time."""


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
        On how many Gaussian test samples, x ~ N(0, Sigma), each run measures its test error; none by default.
        What is drawn are not the samples, but what the errors depend on, from the same law.
    progress : bool, optional
        Whether to show a bar; by default on a terminal, once it takes longer than two seconds.

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
    problem, scheme = base.fitted(problem, scheme)
    steps = scheme.steps(problem.n)
    made = recipe.checked(step, alpha, penalty, momentum, steps, nesterov, unpenalized, problem.p, average)
    if scheme.has_stages:
        made = arranged(made, scheme, problem.n)
    when = _arrays.epochs(epochs)
    if not np.isfinite(when).all():
        raise ValueError(
            "epochs must be finite to be simulated, but one is inf; descend(...).limit() is exact."
        )
    made.clock(when)
    runs = _arrays.whole_number("runs", runs, 4)
    if runs % 2:
        raise ValueError(
            f"runs must be even, since runs come in pairs that share their noise, but it is {runs}."
        )
    rng = _arrays.generator("seed", seed)
    start = checked_start(start, problem)
    fresh_noise = _arrays.flag("fresh_noise", fresh_noise)
    progress = None if progress is None else _arrays.flag("progress", progress)
    test_samples = _arrays.whole_number("test_samples", test_samples, 0)
    for wanted, purpose in ((fresh_noise, "fresh_noise"), (test_samples, "test_samples")):
        if wanted:
            problem.require_truth(purpose)
    if problem.outputs is None:
        return _simulated(problem, scheme, made, start, when, runs, rng, fresh_noise, test_samples, progress)
    # The same randomness for every output, and so the same orders; a generator that was given has then moved on.
    streams = [*(copied_generator(rng) for _ in range(problem.outputs - 1)), rng]
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
    last = int(stops[-1]) if len(stops) else 0
    widest = max(problem.p, problem.n if fresh_noise else 1)
    kept = problem.p * max(1, len(stops)) if test_samples else 0
    sizes = _block_sizes(runs, problem.p, widest, kept)
    trial = Trial(problem, scheme, made, start, runs * last, fresh_noise, output, alone=len(sizes) == 1)
    stopped = Event()
    total = PairTally(problem, len(stops))
    # How a product rounds depends on how many threads share it.
    with one_thread(), ticking(len(sizes) * (last + 1), "simulating", progress) as tick:

        def tallied(task: tuple[int, np.random.Generator, FloatArray | None]) -> PairTally:
            size, stream, history = task
            return _block_tally(trial, size, stream, stops, history, test_samples, tick, stopped)

        together = min(len(sizes), max(1, _KEPT_ENTRIES // (max(sizes) * kept)) if kept else len(sizes))
        # Memory from the system costs as much as filling it twice: later blocks have that of earlier ones.
        shape = (len(stops), max(sizes), problem.p)
        histories = [np.empty(shape) if kept else None for _ in range(together)]
        tasks = list(zip(sizes, rng.spawn(len(sizes)), cycle(histories), strict=False))
        # From as much work as it takes to hand it to a thread; the products inside have one thread in any case.
        side = min(np.cbrt(4.0 * sizes[0] * problem.p * problem.n * max(1, last)), 500.0)
        for first in range(0, len(tasks), together):
            for tally in each(tallied, tasks[first : first + together], side, stopped.set):
                total.merge(tally)
        return total.result(when, positions, runs)


def _block_sizes(runs: int, p: int, widest: int, kept: int) -> list[int]:
    """How many runs each block trains, pairs undivided; `kept` is what a run keeps of its history.

    Whatever the scheme: with the same seed all have the same noise, which cancels in what they differ by.
    """
    height = min(max(BLOCK_ENTRIES // p, _FEW), MOST_ENTRIES // widest)
    if kept:
        height = min(height, _HISTORY_ENTRIES // kept)
    pairs = runs // 2
    count = -(-pairs // max(2, height // 2))
    # Two threads should end together.
    count += count % 2 if count > 1 else 0
    ends = np.linspace(0, pairs, count + 1).round().astype(int)
    return [2 * int(size) for size in np.diff(ends)]


def _block_tally(
    trial: "Trial",
    size: int,
    stream: np.random.Generator,
    stops: FloatArray,
    history: FloatArray | None,
    test_samples: int,
    tick: Callable[[], None],
    stopped: Event,
) -> "PairTally":
    """Train a block and take down what is reported; cut short when nobody waits for it any more."""
    block, tally = Block(trial, size, stream, copied=True), PairTally(trial.problem, len(stops))
    distinct, last = len(block.state), int(stops[-1]) if len(stops) else 0
    for epoch, state in block.epochs(last):
        for stop in np.flatnonzero(stops == epoch):
            tally.add(int(stop), np.repeat(state, size // distinct, axis=0) if distinct < size else state)
            if history is not None:
                history[stop, :distinct] = state
        tick()
        if stopped.is_set():
            return tally
    if history is not None:
        tally.add_tests(history[:, :distinct], size // distinct, test_samples, stream)
    return tally
