"""What a way of shuffling costs: risk, spread, limit and thresholds of several schemes beside the full batch."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle.grid.metrics import Answer, evaluate
from reshuffle.planning.compared_schemes import SchemeComparison, SchemeRow
from reshuffle.problem import checked_problem
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.recipe import StepLike
from reshuffle.run import Run, descend
from reshuffle.schemes import FullBatch, base
from reshuffle.schemes.base import Scheme

_FULL = "full batch"
_NOT_COMPUTED = Answer(np.asarray(np.nan))


def compare_schemes(
    problem: LeastSquares,
    schemes: Mapping[str, Scheme] | Iterable[Scheme],
    step: StepLike | None = None,
    *,
    alpha: StepLike | None = None,
    epochs: ArrayLike = (1, 10, 100),
    start: ArrayLike | None = None,
    penalty: float = 0.0,
    momentum: float = 0.0,
    thresholds: bool = True,
    rtol: float = 1e-4,
    budget: float = 1e12,
    seed: int = 0,
) -> SchemeComparison:
    """What does it cost to shuffle this way? Several schemes on the same problem, beside the full batch.

    Of each: the risk of its mean iterate, what the random orders add in a single run, how far its limit is from
    least squares, and up to which alpha the mean and the mean square converge. Where the problem does not know the
    truth the training loss takes the place of the risk. What a scheme cannot answer is shown with the reason.

    Parameters
    ----------
    problem : LeastSquares
    schemes : dict of schemes by name, or list of schemes
    step : float, list or callable
        The step of one visit, the same for all schemes; or
    alpha : float, list or callable
        step times the visits per epoch of each scheme. The full batch, which is always there, takes one step per
        epoch, of alpha, or of `step` times the largest number of visits per epoch among the schemes.
    epochs : number or array of any shape
    start, penalty, momentum, rtol, budget, seed
        As in `descend`.
    thresholds : bool
        Whether to look for critical steps, which takes the longest.

    Returns
    -------
    SchemeComparison
        A row per scheme, the full batch first; it prints as a table.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(60, 20, noise=1.0, seed=1)
    >>> schemes = {"fresh order": rs.RandomReshuffling(batch_size=15), "fixed order": rs.Cyclic(batch_size=15)}
    >>> rs.compare_schemes(problem, schemes, step=0.15, epochs=40)
    risk after 40 epochs
    scheme       steps  mean iterate    spread  one run  limit off by  critical alpha  in mean square   price
    full batch       1        0.5523         0   0.5523             0          0.9877          0.9877
    fresh order      4        0.5548  0.004094   0.5589       0.06577           3.851           3.212   +1.2%
    fixed order      4        0.5656         0   0.5656         0.158           3.176           3.176  +2.42%
    """
    problem = checked_problem(problem)
    if problem.outputs is not None:
        raise ValueError(
            f"compare_schemes compares schemes for one output, but y has {problem.outputs}; "
            "try problem.output(0), and so on."
        )
    named = _named(schemes)
    visits = {name: base.fitted(problem, scheme)[1].steps(problem.n) for name, scheme in named.items()}
    when, wants_thresholds = _arrays.epochs(epochs), _arrays.flag("thresholds", thresholds)
    if not when.size:
        raise ValueError(
            "epochs must hold at least one epoch after which schemes are compared, but it is empty."
        )
    descent = partial(
        descend, problem,
        start=start, penalty=penalty, momentum=momentum, rtol=rtol, budget=budget, seed=seed,
    )  # fmt: skip
    runs: dict[str, Run] = {}
    whole = alpha if step is None else _multiple(step, max(visits.values()))
    if (step is None) != (alpha is None):
        runs[_FULL] = descent(FullBatch(), whole)
    for name, scheme in named.items():
        runs[name] = descent(scheme, step, alpha=alpha)
    for run in runs.values():
        run.recipe.epochs(when)
    knows_truth = problem.beta_star is not None and problem.noise is not None
    metrics = ["risk", "expected_risk"] if knows_truth else ["training_loss", "expected_training_loss"]
    metrics += [
        "limit_distance",
        *(["critical_step", "mean_square_critical_step"] if wants_thresholds else []),
    ]
    found = evaluate(list(runs.values()), metrics, when)
    rows = [_row(name, run, answers) for (name, run), answers in zip(runs.items(), found, strict=True)]
    return SchemeComparison(when, "risk" if knows_truth else "training loss", tuple(rows))


def _named(given: Mapping[str, Scheme] | Iterable[Scheme]) -> dict[str, Scheme]:
    """The schemes by name, those that are given without one by what they are; the full batch is there anyway."""
    if isinstance(given, Mapping):
        named = dict(given)
    else:
        if not isinstance(given, Iterable):
            raise TypeError(
                f"schemes must be a dict of schemes by name, or a list of schemes, but it is {given!r}; "
                "try [rs.RandomReshuffling(4), rs.Cyclic(4)]."
            )
        named = {}
        for scheme in given:
            name, number = repr(scheme), 2
            while name in named:
                name, number = f"{scheme!r} ({number})", number + 1
            named[name] = scheme
    named = {name: scheme for name, scheme in named.items() if scheme != FullBatch()}
    if not named:
        raise ValueError("schemes must hold at least one scheme beside FullBatch(), but there is none.")
    wrong = [name for name in named if not isinstance(name, str) or name == _FULL]
    if wrong:
        raise ValueError(
            f"schemes must have names that are words other than {_FULL!r}, which is there anyway, "
            f"but one is {wrong[0]!r}."
        )
    return named


def _multiple(step: StepLike, visits: int) -> StepLike:
    """The step of a full batch that stands for as many visits."""
    if callable(step):
        return lambda epoch: visits * float(step(epoch))
    return visits * _arrays.real_array("step", step, advice="give numbers >= 0")


def _row(name: str, run: Run, found: Mapping[str, Answer]) -> SchemeRow:
    """The answers of one scheme; those that were not computed are nan, without a reason."""
    steps, mean, total = run.scheme.steps(run.problem.n), "risk", "expected_risk"
    if mean not in found:
        mean, total = "training_loss", "expected_training_loss"

    def per_epoch(metric: str) -> Answer:
        step = found.get(metric, _NOT_COMPUTED)
        return replace(step, value=np.asarray(steps * step.value), error=np.asarray(steps * step.error))

    return SchemeRow(
        name=name,
        scheme=run.scheme,
        steps=steps,
        mean=found[mean],
        spread=found[f"{total}_spread"],
        total=found[total],
        distance=found["limit_distance"],
        critical_alpha=per_epoch("critical_step"),
        mean_square_alpha=per_epoch("mean_square_critical_step"),
    )
