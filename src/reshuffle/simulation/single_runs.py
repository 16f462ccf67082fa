"""Single runs, one by one: their parameters, or what is read off them."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._blas import one_thread
from reshuffle._progress import track
from reshuffle.problem import checked_problem, checked_start
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.recipe import StepLike, recipe
from reshuffle.recipe.recipe import Recipe
from reshuffle.recipe.staged_recipe import arranged
from reshuffle.schemes import base
from reshuffle.schemes.base import Scheme
from reshuffle.simulation.run_blocks import MOST_ENTRIES, Block, Trial


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
    last, rng = int(stops[-1]) if len(stops) else 0, np.random.default_rng(seed)
    height = 2 * max(2, MOST_ENTRIES // (2 * problem.p))
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
    if scheme.has_stages:
        made = arranged(made, scheme, problem.n)
    when = _arrays.epochs(epochs)
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

    count, start = _arrays.whole_number("runs", runs, 1), checked_start(None, problem)
    found = simulated_states(
        problem, scheme, made, start, stops, count, _arrays.whole_number("seed", seed, 0), risks
    )
    return found[positions].reshape(*when.shape, count)
