"""How the mean of a symmetric epoch is taken: exactly, by the cavity, by the series, or from drawn orders."""

from dataclasses import replace

import numpy as np

from reshuffle.epoch import series, whitened_maps
from reshuffle.epoch.accuracy import A_SECOND, METHODS, Accuracy, apart, require_affordable, warn_out_of_reach
from reshuffle.epoch.cavity.first_order import FEWEST_MODES
from reshuffle.epoch.cavity.visiting import are_alike
from reshuffle.epoch.choice.ways import (
    NO_SOLUTION,
    OUT_OF_REACH,
    WITHOUT_SOLUTION,
    Choice,
    Way,
    too_far,
    too_much,
)
from reshuffle.epoch.mean_map import MeanMap, grows
from reshuffle.epoch.streamed_samples import samples_of
from reshuffle.epoch.symmetric_means import Approximation, Task
from reshuffle.errors import UnsupportedError
from reshuffle.problem.batches import Blocks
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.schemes.base import Scheme

_CAVITY_GRAMS, _CAVITY_PRODUCTS = 60.0, 200.0
"""Weighted Gram matrices that the cavity equation takes, where samples are strong, and products of modes, about."""
_FIRST_ORDER_GRAMS = 3.0
"""The same to first order in what leads from one of many modes to another."""
_DECOMPOSITION = 10.0
"""Of a symmetric eigendecomposition, over the cube of its rows."""
_KEEPS_ALL = "it needs all samples at once, but they are read in chunks"
_OF_A_BOUND = 0.1
"""A bound on the paces becomes a far wider one on answers than an estimate does."""


def mean_choice(task: Task, accuracy: Accuracy) -> Choice:
    """How the mean of a symmetric epoch is taken.

    Of "auto", the exact mean where it fits the budget; otherwise the series, if its bound meets rtol, or the cavity
    equation, if samples are visited one by one: that first if they are shuffled; otherwise drawn orders.
    """
    question, method, of = "the mean over orders", accuracy.method, task.approximation
    if of is None or method == "exact":
        return Choice(question, (Way("exact", task.exact_flops),))
    if method != "auto":
        named = (Way(name, np.nan, "" if name == method else f"method is {method!r}") for name in METHODS[1:])
        return Choice(question, tuple(named))
    of_exact = too_much(task.exact_flops, accuracy.budget, task.out_of_reach or OUT_OF_REACH)
    exact = Way("exact", task.exact_flops, of_exact)
    if not of_exact:
        others = (Way(name, np.nan, "the exact mean is affordable") for name in METHODS[2:])
        return Choice(question, (exact, *others))
    between = [Way("cavity", *_of_cavity(of, accuracy)), Way("series", *_of_series(of, accuracy))]
    if of.contracts:
        # Where its bound is good enough, the series is sure.
        between.reverse()
    return Choice(question, (exact, *between, Way("sampling", np.nan)))


def averages_all_orders(task: Task, accuracy: Accuracy) -> bool:
    """Whether the mean is taken over all orders of shuffled batches, exactly: a polynomial in the step."""
    is_shuffled = task.approximation is not None and task.exact_flops <= max(accuracy.budget, A_SECOND)
    return is_shuffled and mean_choice(task, accuracy).taken == "exact"


def _of_series(of: Approximation, accuracy: Accuracy) -> tuple[float, str]:
    """What the series costs, and what speaks against it, told from its bound, which costs next to nothing."""
    whitened = of.whitened()
    bound = series.error(whitened, of.coefficients(), contracts=of.contracts).share
    price = series.flops(whitened)
    if not bound <= _OF_A_BOUND * accuracy.rtol:
        known, wanted = apart(bound, _OF_A_BOUND * accuracy.rtol)
        return price, f"its error is bounded by {known}, but {wanted}, a tenth of rtol, is wanted of a bound"
    return price, too_much(price, accuracy.budget)


def _of_cavity(of: Approximation, accuracy: Accuracy) -> tuple[float, str]:
    """What the cavity equation costs, and what speaks against it."""
    if not of.has_cavity:
        return np.nan, "it is for shuffled samples, in visits that weigh the same"
    price = _price_of_cavity(of)
    return price, too_much(price, accuracy.budget)


def _price_of_cavity(of: Approximation, *, keeps_all: bool = False) -> float:
    """Operations of the cavity equation: to first order where there are many modes, unless all is to be kept."""
    whitened = of.whitened()
    (rows, modes), strength = whitened.orthonormal.shape, float(whitened.row_norms.mean())
    if not keeps_all and modes >= FEWEST_MODES and whitened.atoms == rows:
        return float(2.0 * _FIRST_ORDER_GRAMS * modes**2 * rows)
    strong = 0.1 + min(10 * strength, 1.0)
    return float(2.0 * modes**2 * (_CAVITY_GRAMS * strong * rows + _CAVITY_PRODUCTS * modes))


def mean_map(task: Task, accuracy: Accuracy) -> tuple[MeanMap, Choice]:
    """Average a symmetric epoch; where rtol is out of reach, by the most accurate of its ways, with a warning.

    Beside the map, the choice as it turned out: what a way misses is known for certain once it has been gone.
    """
    if accuracy.method == "exact" and np.isfinite(task.exact_flops) and task.approximation is not None:
        require_affordable(
            task.exact_flops, accuracy.budget, f"the exact mean over the orders of {task.steps} batches",
            'try fewer batches, a larger budget, or method="auto"',
        )  # fmt: skip
    chosen, of = mean_choice(task, accuracy), task.approximation
    if chosen.taken == "exact" or of is None:
        return task.exact(), chosen
    with np.errstate(over="ignore", invalid="ignore"):
        mean, turned_out, accuracy = _approximate(of, chosen, accuracy)
        mean.require_finite(task.steps)
    if mean.missed > accuracy.rtol:
        advice = "try a larger budget, a larger rtol or a smaller step"
        if accuracy.method == "cavity":
            advice = 'try a smaller step, or method="auto"'
        warn_out_of_reach(mean.missed, mean.method, accuracy.rtol, advice)
    return mean, turned_out


def _approximate(of: Approximation, chosen: Choice, accuracy: Accuracy) -> tuple[MeanMap, Choice, Accuracy]:
    """The map by the first way that does not miss rtol, of those nothing speaks against; if none does, the best.

    Beside it, what was asked of it in the end: less, if it grows.
    """
    made: list[MeanMap] = []
    asked = accuracy
    against: dict[str, str] = {}
    for way in chosen.ways:
        if not way.against:
            found = _MAPS[way.name](of, accuracy)
            made += found
            if not found or (found[-1].missed > accuracy.rtol and grows(found[-1])):
                accuracy = asked.of_what_grows
            against[way.name] = too_far(found[-1].missed, accuracy.rtol) if found else WITHOUT_SOLUTION
            if not against[way.name]:
                break
    best = min(made, key=lambda mean: mean.missed)
    against[best.method] = ""
    ways = (replace(way, against=against.get(way.name, way.against)) for way in chosen.ways)
    return best, Choice(chosen.question, tuple(ways)), accuracy


def _by_series(of: Approximation, accuracy: Accuracy) -> list[MeanMap]:
    return [whitened_maps.by_series(of.whitened(), of.coefficients(), of.contracts)]


def _by_cavity(of: Approximation, accuracy: Accuracy) -> list[MeanMap]:
    """The cavity's map, if its equation has a solution: not where what samples do to themselves grows for ever."""
    if not of.has_cavity:
        raise ValueError(
            'method must be "auto", "exact", "series" or "sampling" for batches of several fixed rows and for '
            "visits that weigh differently, but it is 'cavity'; there is a cavity equation for SampleReshuffling."
        )
    spares = _price_of_cavity(of, keeps_all=True) > accuracy.budget
    found = whitened_maps.by_cavity(of.whitened(), of.shares, accuracy.rtol, spares)
    if found is None and accuracy.method == "cavity":
        raise UnsupportedError(NO_SOLUTION)
    return [] if found is None else [found]


def _by_sampling(of: Approximation, accuracy: Accuracy) -> list[MeanMap]:
    whitened = of.whitened()
    return [whitened_maps.by_sampling(whitened, of.control(whitened), of.draw(whitened), accuracy)]


_MAPS = {"series": _by_series, "cavity": _by_cavity, "sampling": _by_sampling}


def choice_of_samples(problem: LeastSquares) -> Choice:
    """How the mean over shuffled samples is taken that are read in chunks: by the cavity equation alone."""
    others = (Way(name, float("nan"), _KEEPS_ALL) for name in METHODS[1:] if name != "cavity")
    passes = 0 if problem.stream is None else problem.stream.passes
    question = f"the mean over orders (rows read {passes} times so far)"
    return Choice(question, (Way("cavity", float("nan")), *others))


def mean_of_samples(
    problem: LeastSquares, scheme: Scheme, scaled_step: float, accuracy: Accuracy
) -> tuple[MeanMap, Blocks]:
    """The mean map of shuffled samples that are read in chunks, and rows that stand for all of them."""
    if accuracy.method not in ("auto", "cavity"):
        raise UnsupportedError(
            f'method must be "auto" or "cavity" for shuffled samples that are read in chunks, but it is '
            f"{accuracy.method!r}; {_KEEPS_ALL}."
        )
    n = problem.n
    if not are_alike(scheme.sizes(n) / scheme.step_divisors(n)):
        raise UnsupportedError(
            f"{scheme!r} has visits that weigh differently, of which the mean is not known for samples that are "
            'read in chunks; try normalize="own".'
        )
    found = samples_of(problem, scheme, scaled_step, accuracy.rtol)
    if found is None:
        raise UnsupportedError(NO_SOLUTION.partition(", or")[0] + ".")
    if found[0].missed > accuracy.rtol:
        warn_out_of_reach(found[0].missed, "cavity", accuracy.rtol, "try a smaller step or a larger rtol")
    return found


def decomposition_choice(rows: int, accuracy: Accuracy) -> Choice:
    """How a problem of so many rows, given by their kernel, is answered for: "decomposed" or "followed".

    Followed along drawn orders where its eigenvectors alone take more operations than the budget has, unless a way
    of averaging that goes by them is asked for.

    >>> decomposition_choice(1000, Accuracy()).taken, decomposition_choice(10_000, Accuracy()).taken
    ('decomposed', 'followed')
    """
    price = _DECOMPOSITION * float(rows) ** 3
    against = too_much(price, accuracy.budget) if accuracy.method in ("auto", "sampling") else ""
    return Choice("a linear network", (Way("decomposed", price, against), Way("followed", np.nan)))
