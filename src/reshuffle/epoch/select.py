"""Selection of the method by which a mean over orders is taken: the one place that compares prices and errors.

A `Choice` can be printed: it says what was taken, at what cost, and why the others were rejected. Methods stand in
the order of preference; the first that is not rejected is taken.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reshuffle import _arrays
from reshuffle._budget import (
    A_SECOND,
    CALL,
    apart,
    duration,
    require_affordable,
    warn_out_of_reach,
)
from reshuffle.epoch.averaging.base import Approximation, Task
from reshuffle.epoch.averaging.cavity import are_alike
from reshuffle.epoch.averaging.cavity_maps import by_cavity
from reshuffle.epoch.averaging.first_order import FEWEST_MODES
from reshuffle.epoch.averaging.lattice import Walk, climbs, cuts_orders, fits_in_memory, require_few
from reshuffle.epoch.averaging.streamed import samples_of
from reshuffle.epoch.mean_map import MeanMap, grows
from reshuffle.errors import UnsupportedError
from reshuffle.problem.batches import Blocks
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.recipe import Recipe
from reshuffle.schemes.base import Scheme, Shuffle

OUT_OF_REACH = "it takes more memory than this machine can spare, or more batches than anyone waits for"
WITHOUT_SOLUTION = "its equation has no solution at so large a step"
NO_SOLUTION = (
    'the cavity equation has no solution at so large a step; try a smaller step, or method="sampling".'
)


_GROWING = 20.0
METHODS = ("auto", "exact", "cavity", "sampling")
_GONE = {"series": 'try "cavity", which is as quick and more accurate'}


@dataclass(frozen=True)
class Accuracy:
    """The method, accuracy and budget that the user requests for the mean over orders.

    Attributes
    ----------
    method : str
        "exact", "cavity", "sampling", or "auto" to choose between them.
    rtol : float
        The relative error that the decay rates of the modes may have, in root mean square over the modes.
    budget : float
        Floating-point operations that may be spent on the mean of an epoch.
    seed : int
        Of the sampled orders.
    """

    method: str = "auto"
    rtol: float = 5e-3
    budget: float = 1e12
    seed: int = 0

    @property
    def must_be_exact(self) -> bool:
        """True if only an exact answer is accepted."""
        return self.method == "exact"

    @property
    def relaxed_for_divergence(self) -> "Accuracy":
        """A twentieth of the digits and of the budget, for a mean that grows without end."""
        return replace(self, rtol=_GROWING * self.rtol, budget=self.budget / _GROWING)


def accuracy(method: Any, rtol: Any, budget: Any, seed: Any) -> Accuracy:
    """Check what the user asks for.

    >>> accuracy("guess", 1e-4, 1e12, 0)
    Traceback (most recent call last):
    ...
    ValueError: method must be "auto", "exact", "cavity" or "sampling", but it is 'guess'.
    """
    if advice := _GONE.get(str(method)):
        raise ValueError(
            f'method must be "auto", "exact", "cavity" or "sampling", but it is {method!r}, which is no more; '
            f"{advice}."
        )
    return Accuracy(
        method=_arrays.choice("method", method, METHODS),
        rtol=_arrays.positive("rtol", rtol),
        budget=_arrays.positive("budget", budget),
        seed=_arrays.whole_number("seed", seed, 0),
    )


@dataclass(frozen=True)
class Method:
    """One way to compute something.

    Attributes
    ----------
    name : str
    operations : float
        Its cost; nan if that is not known beforehand.
    rejected_because : str
        The reason against it; empty if there is none.
    """

    name: str
    operations: float
    rejected_because: str = ""

    def __repr__(self) -> str:
        price = f", {self.operations:.1g} operations" if np.isfinite(self.operations) else ""
        took = f" ({duration(self.operations)})" if price else ""
        return f"{self.name}{price}{took}" + (f": {self.rejected_because}" if self.rejected_because else "")


@dataclass(frozen=True)
class Choice:
    """The selected method, and why the others were rejected.

    Attributes
    ----------
    question : str
    methods : tuple of Method
        In the order of preference.
    """

    question: str
    methods: tuple[Method, ...]

    @property
    def taken(self) -> str:
        """The name of the first method that is not rejected."""
        return self.method.name

    @property
    def method(self) -> Method:
        """The first method that is not rejected; the last, if all are."""
        return next((way for way in self.methods if not way.rejected_because), self.methods[-1])

    def __repr__(self) -> str:
        lines = [f"{self.question}: {self.method}"]
        others = (
            way if way.rejected_because else replace(way, rejected_because="not needed")
            for way in self.methods
        )
        lines += [f"  not {way}" for way in others if way.name != self.taken]
        return "\n".join(lines)


@dataclass(frozen=True)
class Computation:
    """The methods by which the answers of a run are computed, their costs, and why others were rejected.

    Attributes
    ----------
    mean : Choice
        Of the mean over the orders of an epoch: iterates, risk, limits, stability.
    second_moment : Choice
        Of the second moments after one epoch: the expected risk and its spread.
    """

    mean: Choice
    second_moment: Choice

    def __repr__(self) -> str:
        return f"{self.mean}\n{self.second_moment}"


def too_much(operations: float, budget: float, out_of_reach: str = OUT_OF_REACH) -> str:
    """The reason to reject a price; empty if there is none."""
    if np.isinf(operations):
        return out_of_reach
    if operations <= budget:
        return ""
    needed, allowed = apart(operations, budget)
    return f"it takes {needed} operations, but budget is {allowed}"


def too_far(missed: float, rtol: float) -> str:
    """The reason to reject a method with this relative error of the decay rates; empty if there is none."""
    if missed <= rtol:
        return ""
    known, wanted = apart(missed, rtol)
    return f"it may be off by {known}, but rtol is {wanted}"


# How the mean of a symmetric epoch is taken: exactly, by the cavity equation, or from drawn orders.

_CAVITY_GRAMS, _CAVITY_PRODUCTS = 60.0, 200.0
"""Weighted Gram matrices that the cavity equation takes, where samples are strong, and products of modes, about."""
_RESPONSE_PRODUCTS = 3e4
"""Products of the small matrices of a group's response to itself: of 15 nodes with 15, in 10 rounds of 15."""
_FIRST_ORDER_GRAMS = 3.0
"""Gram matrices of the equation to first order in what leads from one of many modes to another."""
_DECOMPOSITION = 10.0
"""Of a symmetric eigendecomposition, over the cube of its rows."""
_KEEPS_ALL = "it needs all samples at once, but they are read in chunks"
_DIVERGES = "the mean grows without end, and digits of it are not drawn for"
_UNKNOWN = 1.0
"""A relative error at which not even a sign is known."""


def mean_choice(task: Task, accuracy: Accuracy) -> Choice:
    """Select how the mean of a symmetric epoch is taken, as far as prices tell.

    Of "auto", the exact mean where it fits the budget; otherwise the cavity equation, if all visits but the last
    weigh the same and it fits the budget; otherwise drawn orders. Beside them, what runs that are simulated would
    cost, to the same error of one answer.
    """
    question, method, of = "the mean over orders", accuracy.method, task.approximation
    if of is None or method == "exact":
        return Choice(question, (Method("exact", task.exact_flops),))
    if method != "auto":
        named = (
            Method(name, np.nan, "" if name == method else f"method is {method!r}") for name in METHODS[1:]
        )
        return Choice(question, tuple(named))
    of_exact = too_much(task.exact_flops, accuracy.budget, task.out_of_reach or OUT_OF_REACH)
    exact = Method("exact", task.exact_flops, of_exact)
    if not of_exact:
        others = (Method(name, np.nan, "the exact mean is affordable") for name in METHODS[2:])
        return Choice(question, (exact, *others))
    cavity = Method("cavity", np.nan, "it is for visits that weigh the same, but for the last")
    if are_alike(of.shares):
        price = _price_of_cavity(of)
        cavity = Method("cavity", price, too_much(price, accuracy.budget))
    rows, modes = of.whitened().orthonormal.shape
    simulated = Method(
        "simulation", 4.0 * rows * modes / accuracy.rtol**2, "it answers for one start and one y at a time"
    )
    return Choice(question, (exact, cavity, Method("sampling", np.nan), simulated))


def averages_all_orders(task: Task, accuracy: Accuracy) -> bool:
    """True if the mean is taken over all orders of shuffled batches, exactly: a polynomial in the step."""
    is_shuffled = task.approximation is not None and task.exact_flops <= max(accuracy.budget, A_SECOND)
    return is_shuffled and mean_choice(task, accuracy).taken == "exact"


def _price_of_cavity(of: Approximation, *, keeps_all: bool = False) -> float:
    """Operations of the cavity equation: to first order where there are many modes, unless all is to be kept."""
    whitened = of.whitened()
    (rows, modes), strength = whitened.orthonormal.shape, float(whitened.row_norms.mean())
    if not keeps_all and modes >= FEWEST_MODES and whitened.atoms == rows:
        return float(2.0 * _FIRST_ORDER_GRAMS * modes**2 * rows)
    strong, size = 0.1 + min(10 * strength, 1.0), int(whitened.sizes.max())
    responses = _RESPONSE_PRODUCTS * strong * whitened.atoms * float(size) ** 3 if size > 1 else 0.0
    return float(
        2.0 * modes**2 * (_CAVITY_GRAMS * strong * rows + _CAVITY_PRODUCTS * modes) + 2.0 * responses
    )


def mean_map(task: Task, accuracy: Accuracy) -> tuple[MeanMap, Choice]:
    """Average a symmetric epoch; where rtol is out of reach, by the more accurate of its ways, with a warning.

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
        mean, of_cavity, of_draws = _approximate(of, chosen, accuracy)
        mean.require_finite(task.steps)
    wanted = accuracy.relaxed_for_divergence if of_draws == _DIVERGES else accuracy
    if mean.missed > wanted.rtol:
        advice = "try a larger budget, a larger rtol or a smaller step"
        if accuracy.method == "cavity":
            advice = 'try a smaller step, or method="auto"'
        warn_out_of_reach(mean.missed, mean.method, wanted.rtol, advice)
    turned_out = {"sampling": of_draws} | ({"cavity": of_cavity} if chosen.taken == "cavity" else {})
    ways = (
        replace(way, rejected_because=turned_out.get(way.name) or way.rejected_because)
        for way in chosen.methods
    )
    return mean, Choice(chosen.question, tuple(ways))


def _approximate(of: Approximation, chosen: Choice, accuracy: Accuracy) -> tuple[MeanMap, str, str]:
    """The mean map by the cavity equation or from drawn orders, and what speaks against the one and the other.

    Where the equation takes longer than a second, orders are drawn for as long first: where batches are large they
    differ by little. Where the mean explodes, first draws are all that is drawn.
    """
    drawn, insists = None, accuracy.method != "auto"
    if chosen.taken != "cavity":
        return of.sample(accuracy), "", ""
    if not insists and chosen.method.operations > A_SECOND:
        drawn = of.sample(replace(accuracy, budget=min(accuracy.budget, chosen.method.operations)))
        if not accuracy.rtol < drawn.missed <= _UNKNOWN:
            return drawn, "it takes longer than to draw orders", ""
    found = _by_cavity(of, accuracy)
    against = too_far(found.missed, accuracy.rtol) if found else WITHOUT_SOLUTION
    if found is not None and (insists or not against):
        return found, "", ""
    if found is not None and grows(found):
        return found, "", _DIVERGES
    explodes = found is None or found.missed > _UNKNOWN
    if drawn is None or not explodes:
        drawn = of.sample(accuracy.relaxed_for_divergence if explodes else accuracy)
    if found is None or drawn.missed < found.missed:
        return drawn, against, ""
    return found, "", too_far(drawn.missed, accuracy.rtol)


def _by_cavity(of: Approximation, accuracy: Accuracy) -> MeanMap | None:
    """The cavity's map, if its equation has a solution: not where what samples do to themselves grows for ever."""
    if not are_alike(of.shares):
        raise ValueError(
            'method must be "auto", "exact" or "sampling" for visits that weigh differently, but it is \'cavity\'.'
        )
    spares = _price_of_cavity(of, keeps_all=True) > accuracy.budget
    found = by_cavity(of.whitened(), of.shares, accuracy.rtol, spares)
    if found is None and accuracy.method == "cavity":
        raise UnsupportedError(NO_SOLUTION)
    return found


def choice_of_samples(problem: LeastSquares) -> Choice:
    """The cavity equation, the only method for shuffled samples that are read in chunks."""
    others = (Method(name, float("nan"), _KEEPS_ALL) for name in METHODS[1:] if name != "cavity")
    passes = 0 if problem.stream is None else problem.stream.passes
    question = f"the mean over orders (rows read {passes} times so far)"
    return Choice(question, (Method("cavity", float("nan")), *others))


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
    """Select "decomposed" or "followed" for a problem of so many rows, given by their kernel.

    Followed along drawn orders where its eigenvectors alone take more operations than the budget has, unless a way
    of averaging that goes by them is asked for.

    >>> decomposition_choice(1000, Accuracy()).taken, decomposition_choice(10_000, Accuracy()).taken
    ('decomposed', 'followed')
    """
    price = _DECOMPOSITION * float(rows) ** 3
    against = too_much(price, accuracy.budget) if accuracy.method in ("auto", "sampling") else ""
    return Choice("a linear network", (Method("decomposed", price, against), Method("followed", np.nan)))


# How the mean of an epoch that is not symmetric is taken: by a walk, the cavity equation, or from drawn orders.

_CALLS = 6
"""Calls with small matrices that a visit takes."""


def walk_flops(walk: Walk, blocks: Blocks, dimension: int, inputs: int | None = None) -> float:
    """Operations of one epoch's walk over all orders, calls included; infinite if its memory is out of reach.

    `dimension` is that of the state; `inputs` are those beside it, by default one per row of the blocks and one
    more.
    """
    rows, rank = blocks.rows.shape
    columns = dimension + (1 + rows if inputs is None else inputs)
    if climbs(walk.scheme) and not fits_in_memory(blocks.batches, 8.0 * dimension * columns):
        return float("inf")
    visited = rows / blocks.batches
    each = 4.0 * min(visited, rank) * rank * columns + 6.0 * dimension * columns + _CALLS * CALL
    return float(walk.visits * each)


def affine_choice(
    walk: Walk,
    recipe: Recipe,
    blocks: Blocks,
    dimension: int,
    accuracy: Accuracy,
    missed: Callable[[], float],
    grows: Callable[[], bool],
) -> Choice:
    """Select how the mean of an epoch that is not symmetric is taken.

    By the walk over all orders, the cavity equation or draws. `missed` solves that equation, and tells by how much
    it may miss the decay rates; nan if it has no solution. `grows` tells whether its map does, of which less
    is asked.
    """
    question, method = "the mean over orders", accuracy.method
    known = affine_methods(walk, recipe)
    price = walk_flops(walk, blocks, dimension) if walk.exists else np.nan
    if len(known) == 1:
        (name,) = known
        return Choice(question, (Method(name, price),))
    if method == "exact":
        require_few(walk.steps)
        require_affordable(
            price, accuracy.budget, f"the exact mean over the orders of {walk.steps} batches",
            'try fewer batches, a larger budget, or method="auto"',
        )  # fmt: skip
    # What takes a second or less is exact whatever the budget.
    of_exact = (
        too_much(price, max(accuracy.budget, A_SECOND)) if walk.exists else "no walk is known over its orders"
    )
    if method in ("cavity", "sampling"):
        of_exact = f"method is {method!r}"
    ways = [Method("exact", price, of_exact)]
    if "cavity" in known:
        ways.append(Method("cavity", np.nan, _of_affine_cavity(ways, accuracy, missed, grows)))
    unneeded = next((f"the {way.name} mean is affordable" for way in ways if not way.rejected_because), "")
    return Choice(question, (*ways, Method("sampling", np.nan, unneeded)))


def _of_affine_cavity(
    ways: list[Method], accuracy: Accuracy, missed: Callable[[], float], grows: Callable[[], bool]
) -> str:
    """The reason to reject the cavity equation, beside other methods."""
    if accuracy.method == "sampling":
        return f"method is {accuracy.method!r}"
    if not ways[0].rejected_because:
        return "the exact mean is affordable"
    share = missed()
    if np.isnan(share) and accuracy.method == "cavity":
        raise UnsupportedError(NO_SOLUTION)
    if np.isnan(share):
        return WITHOUT_SOLUTION
    if accuracy.method == "cavity":
        return ""
    return too_far(
        share, (accuracy.relaxed_for_divergence if share > accuracy.rtol and grows() else accuracy).rtol
    )


def asked_of_draws(chosen: Choice, accuracy: Accuracy, grows: Callable[[], bool]) -> Accuracy:
    """Accuracy requested of drawn orders: less if the cavity equation, where it was tried, says that they grow."""
    tried = accuracy.method == "auto" and any(way.name == "cavity" for way in chosen.methods)
    return accuracy.relaxed_for_divergence if tried and grows() else accuracy


def affine_methods(walk: Walk, recipe: Recipe) -> list[str]:
    """The methods there are where an epoch is not symmetric.

    There is a cavity equation of shuffled samples where all visits of an epoch but the last are alike, and what
    they do beside their samples keeps the modes apart.
    """
    scheme, n = walk.scheme, walk.n
    followed = scheme.shuffle is Shuffle.ONCE and not scheme.samples_orders(n)
    draws = scheme.shuffle is Shuffle.EVERY_EPOCH or scheme.samples_orders(n)
    shuffles = cuts_orders(scheme)
    cavity = shuffles and recipe.is_even and are_alike(scheme.sizes(n) / scheme.step_divisors(n))
    return ["exact"] * (walk.exists or followed) + ["cavity"] * cavity + ["sampling"] * draws


def require_stages(scheme: Scheme) -> None:
    """Refuse stages that have no mean map of an epoch.

    >>> import reshuffle as rs
    >>> require_stages(rs.Stages([(5, rs.ShuffleOnce(2)), (None, rs.FullBatch())]))
    Traceback (most recent call last):
    ...
    reshuffle.errors.UnsupportedError: descend has no answer for stages that draw one order and keep it, \
such as ShuffleOnce(batches=2); try RandomReshuffling or Cyclic in its place, or simulate(...).
    """
    for _, stage in scheme.stages:
        if stage is not scheme and stage.shuffle is Shuffle.ONCE:
            raise UnsupportedError(
                f"descend has no answer for stages that draw one order and keep it, such as {stage!r}; "
                "try RandomReshuffling or Cyclic in its place, or simulate(...)."
            )


def require_known(scheme: Scheme, recipe: Recipe, n: int, method: str) -> None:
    """Refuse a method that the scheme has not got where epochs are not symmetric.

    >>> import reshuffle as rs
    >>> require_known(rs.Cyclic(2), Recipe(0.1), 10, "cavity")
    Traceback (most recent call last):
    ...
    ValueError: method must be "auto" or "exact" for Cyclic(batches=2) with this recipe, but it is 'cavity'.
    """
    known = ["auto", *affine_methods(Walk(scheme.equivalent(n), n), recipe)]
    if method not in known:
        words = [f'"{word}"' for word in known]
        raise ValueError(
            f"method must be {', '.join(words[:-1])} or {words[-1]} for {scheme} with this recipe, "
            f"but it is {method!r}."
        )


def for_every_visit(accuracy: Accuracy) -> Accuracy:
    """Accuracy requested of a symmetric run that is followed visit by visit."""
    return accuracy if accuracy.method in ("cavity", "sampling") else replace(accuracy, method="auto")
