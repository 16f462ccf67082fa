"""Why a fit is not the least-squares solution: what has not converged, what batching does, and noise."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import significant
from reshuffle.errors import UnsupportedError
from reshuffle.planning.explained_fit import Explanation, FitPart, ModeLeft, modes_left
from reshuffle.planning.spread_test import RunSpread, SpreadTest
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.run import Run, descend
from reshuffle.run.limits import minimum_norm
from reshuffle.run.modes import Epoch
from reshuffle.schemes import FullBatch

_ROUNDING = 1e-12
_LONGEST = 1e6
"""The last epoch, but for the limit, among those that a fit is compared with where they were not told."""


def explain(
    X: ArrayLike,
    y: ArrayLike,
    coef: ArrayLike,
    recipe: Run | Mapping[str, Any],
    *,
    epochs: float | None = None,
) -> Explanation:
    """Why this fit is not the least-squares solution: what is unconverged, what batching does, and what is noise.

    With b_k the mean iterate of the run and b_ols the least-squares solution next to its start,
    coef - b_ols = (b_k - b_inf) + (b_inf - b_ols) + (coef - b_k): what is not converged, where the run ends instead
    (under a penalty in two parts, that of batching and that of the penalty), and what the random orders of this one
    run did. Each part's share is its inner product with the whole, <X part, X whole> / |X whole|^2, so that shares
    add up to one.

    Parameters
    ----------
    X : (n, p)
    y : (n,)
    coef : (p,)
        What training gave, an intercept included if X has a column of ones for it.
    recipe : Run or dict
        How it was trained: a run on these data, or the arguments of `descend` for it, such as
        {"scheme": rs.SampleReshuffling(batch_size=32), "step": 0.01}. The step must be constant.
    epochs : int, optional
        How long. By default so many that the mean iterate is nearest to coef.

    Returns
    -------
    Explanation
        The parts of the difference and their shares; it prints as sentences.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(60, 5, noise=1.0, seed=1)
    >>> run = rs.descend(problem, rs.RandomReshuffling(batch_size=15), step=0.1)
    >>> rs.explain(problem.X, problem.y, run.iterate(4), run, epochs=4)  # doctest: +NORMALIZE_WHITESPACE
    the predictions are 0.2173 away from those of least squares after 4 epochs:
      98.4% is not converged yet: 5 of 5 modes have more than 1% of their way to go, the slowest for 22 epochs.
      1.6% is due to batches: with 4 visits per epoch even endless training ends elsewhere.
      0.0% is noise from shuffling, 0 times its usual size; 100% of such runs have more: plausible.
    """
    run = _run(X, y, recipe)
    problem = run.problem
    fit = _arrays.vector(
        "coef", coef, problem.p, "one entry per column of X (an intercept is one of a column of ones)"
    )
    when = _nearest_epoch(run, fit) if epochs is None else _given_epoch(run, epochs)
    vectors = _vectors(run, when, fit)
    difference = fit - minimum_norm(problem, run.start)
    fitted = problem.reduction.fitted(np.column_stack([*vectors.values(), difference]))
    total = float(np.square(fitted[:, -1]).sum())
    is_solved = total <= _ROUNDING**2 * float(problem.reduction.squares(fit))
    products = np.zeros((len(vectors),) * 2) if is_solved else fitted[:, :-1].T @ fitted[:, :-1] / total
    shares = np.zeros(len(vectors)) if is_solved else fitted[:, :-1].T @ fitted[:, -1] / total
    sizes = np.sqrt(np.square(fitted).sum(axis=0) / problem.n)
    modes = _modes(run, when, vectors["unconverged"], fitted[:, -1], 0.0 if is_solved else 1 / total)
    tested = RunSpread.of(run, when).test(vectors["noise"], fit)
    sentences = _sentences(run, when, shares, list(vectors), modes, tested)
    outside = float(np.linalg.norm(problem.row_space.outside(difference)))
    return Explanation(
        difference=difference,
        size=0.0 if is_solved else float(sizes[-1]),
        epochs=when,
        epochs_were_given=epochs is not None,
        parts=tuple(
            FitPart(name, vector, float(size), float(share), sentence)
            for (name, vector), size, share, sentence in zip(
                vectors.items(), sizes[:-1], shares, sentences, strict=True
            )
        ),
        modes=modes,
        spread=tested,
        unseen=outside if outside > _ROUNDING * float(np.linalg.norm(fit)) else 0.0,
        converges=run.converges,
        products=products,
    )


def _run(X: ArrayLike, y: ArrayLike, recipe: Any) -> Run:
    """The run on these data."""
    given = LeastSquares(X, y)
    if isinstance(recipe, Mapping):
        run = descend(given, **recipe)
    elif isinstance(recipe, Run):
        run = recipe
        if given.n == run.problem.n:
            given = LeastSquares(X, y, sample_weight=run.problem.sample_weight)
        same = run.problem.X.shape == given.X.shape and np.array_equal(run.problem.X, given.X)
        if not (same and np.array_equal(run.problem.y, given.y)):
            raise ValueError(
                f"recipe must be a run on the X and y that are given, but it is one on others, {run.problem!r}; "
                "pass run.problem.X and run.problem.y, or the arguments of descend as a dict."
            )
    else:
        raise TypeError(
            "recipe must be a Run, or a dict of arguments of rs.descend such as "
            f'{{"scheme": rs.SampleReshuffling(batch_size=32), "step": 0.01}}, but it is a {type(recipe).__name__}.'
        )
    if run.problem.outputs is not None:
        raise UnsupportedError(
            "explain has no answer for many outputs at once; ask for one of them, with y[:, j], its coef and "
            "run.output(j)."
        )
    if not run.recipe.is_constant:
        raise UnsupportedError(
            f"explain has no answer for {run!r}, which changes with the epoch and has no limit of its own; "
            "it needs one scheme and a constant step."
        )
    return run


def _given_epoch(run: Run, epochs: Any) -> float:
    when = run.recipe.epochs(epochs)
    if when.ndim:
        raise ValueError(f"epochs must be a single number of epochs, but its shape is {when.shape}.")
    if not np.isfinite(run.iterate(when)).all():
        raise ValueError(
            f"epochs must be so few that the mean iterate is a number, but after {float(when):g} it has grown "
            "without bound: the run diverges."
        )
    return float(when)


def _nearest_epoch(run: Run, fit: FloatArray) -> float:
    """After how many epochs the mean iterate is nearest to a fit: among ever sparser ones, then between these."""
    begin = float(run.recipe.earliest)
    tried = np.unique(np.concatenate([np.arange(16.0), np.geomspace(16, _LONGEST, 80).round()])) + begin
    if run.converges:
        tried = np.append(tried, np.inf)

    def apart(epochs: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            return run.problem.reduction.squares(run.iterate(epochs) - fit, 1)

    while True:
        place = int(np.argmin(apart(tried)))
        low = tried[max(place - 1, 0)]
        high = tried[min(place + 1, len(tried) - 1)]
        best = float(tried[place])
        if math.isinf(best) or math.isinf(high) or high - low <= 2:
            return best
        tried = np.unique(np.append(np.linspace(low, high, 33).round(), best))


def _vectors(run: Run, when: float, fit: FloatArray) -> dict[str, FloatArray]:
    """The parts of the difference, by name."""
    problem = run.problem
    here, least = run.iterate(when), minimum_norm(problem, run.start)
    whole = _full_batch_limit(run) if run.recipe.penalty else least
    end = run.iterate(math.inf) if run.converges else whole
    parts = {"unconverged": here - end, "batching": end - whole}
    if run.recipe.penalty:
        parts["penalty"] = whole - least
    return {**parts, "noise": fit - here}


def _full_batch_limit(run: Run) -> FloatArray:
    """Where the full batch ends under the penalty of a run."""
    reduction, recipe = run.problem.reduction, run.recipe
    largest = reduction.space.scale * float(np.linalg.norm(reduction.rows, 2))
    step = 1 / (largest**2 / run.problem.n + recipe.penalty)
    plain = replace(recipe, schedule=step, divisor=1, momentum=0.0, nesterov=False, average=None, visits=1)
    return Run(run.problem, FullBatch(), plain, run.start, run.accuracy).iterate(math.inf)


def _modes(
    run: Run, when: float, unconverged: FloatArray, whole: FloatArray, unit: float
) -> tuple[ModeLeft, ...]:
    """What each mode has left, if an epoch has modes: shares are products with the whole (q,) times `unit`."""
    try:
        epoch = run.epoch
    except UnsupportedError:
        return ()
    if not isinstance(epoch, Epoch):
        return ()
    space, rows, directions = run.problem.row_space, run.problem.reduction.rows, epoch.modes.vectors
    along = directions.T @ space.coordinates(unconverged)
    seen = directions.T @ (space.scale * (rows.T @ whole))
    return modes_left(epoch.rates, when, along * seen * unit)


def _sentences(
    run: Run,
    when: float,
    shares: FloatArray,
    names: list[str],
    modes: tuple[ModeLeft, ...],
    spread: SpreadTest,
) -> list[str]:
    told = {
        "unconverged": _of_unconverged(modes, when),
        "batching": _of_batching(run),
        "penalty": f"the penalty of {run.recipe.penalty:g}, which pulls towards zero",
        "noise": _of_noise(spread),
    }
    # Adding zero makes a zero of a negative one.
    rounded = np.round(shares, 3) + 0.0
    return [f"{share:.1%} is {told[name]}." for name, share in zip(names, rounded, strict=True)]


def _of_unconverged(modes: tuple[ModeLeft, ...], when: float) -> str:
    if math.isinf(when):
        return "not converged yet"
    behind = [mode for mode in modes if mode.left > 0.01 and mode.rate != 1]
    if not modes:
        return "not converged yet, and goes away with more epochs"
    if not behind:
        return "not converged yet: every mode has less than 1% of its way to go"
    to_go = behind[0].epochs_left
    until = f"the slowest for {to_go:.0f} epochs" if math.isfinite(to_go) else "the slowest for ever"
    return f"not converged yet: {len(behind)} of {len(modes)} modes have more than 1% of their way to go, {until}"


def _of_batching(run: Run) -> str:
    visits = run.scheme.steps(run.problem.n)
    if visits == 1:
        return "due to batches: there is but one"
    return f"due to batches: with {visits} visits per epoch even endless training ends elsewhere"


def _of_noise(spread: SpreadTest) -> str:
    if not spread.expected.is_known:
        return "what this one run has beside the mean of all orders; how much is usual is not known"
    if not float(spread.expected.value):
        fits = "" if spread.is_plausible else ", so that this fit was not trained this way"
        return f"beside what such training gives, which is not random{fits}"
    odds = spread.probability
    chance = significant(odds, 2) if odds < 0.01 else f"{odds:.0%}"
    word = "plausible" if spread.is_plausible else "this fit was trained differently"
    size = f"{significant(spread.deviations, 2)} times its usual size"
    return f"noise from shuffling, {size}; {chance} of such runs have more: {word}"
