"""Selection of the method by which a mean over orders is taken: the one place that compares prices and errors.

There are three averagers: the exact mean (`lattice`, `samples`), the cavity equation (`cavity`, to first order for
many modes, streamed for rows in chunks), and drawn orders (`sampling`). `select` takes the first in this order that
is not rejected. A `Choice` can be printed: it says what was taken, at what cost, and why the others were rejected.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._budget import A_SECOND, CALL, apart, duration, require_affordable, warn_out_of_reach
from reshuffle._linalg import overflow_is_inf
from reshuffle.epoch.averaging import lattice, samples, sampling
from reshuffle.epoch.averaging.cavity import are_alike
from reshuffle.epoch.averaging.cavity_maps import by_cavity
from reshuffle.epoch.averaging.first_order import FEWEST_MODES
from reshuffle.epoch.averaging.lattice import Walk, climbs, cuts_orders, fits_in_memory, require_few
from reshuffle.epoch.averaging.samples import Whitened
from reshuffle.epoch.averaging.streamed import samples_of
from reshuffle.epoch.epoch_map import MeanMap, grows
from reshuffle.errors import BudgetError, UnsupportedError
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.row_space import Blocks
from reshuffle.recipe import Recipe
from reshuffle.schemes.base import Scheme, Shuffle

MEANS, SPREADS, THRESHOLDS, LEFT_OUT, CLASSIFIED = 5e-3, 0.05, 0.02, 0.1, 0.5
"""The accuracy that is asked of each kind of answer; a smaller `rtol` than the first makes all smaller alike.

========== ===== =================================================================================================
MEANS      5e-3  error of the decay rates of a mean over orders, relative to them: the default of `rtol`
SPREADS    0.05  standard error of a spread over runs, relative to it, where orders are drawn
THRESHOLDS 0.02  error of a drawn gain, which is compared with one; relative width to which the ends of the error of
                 a drawn critical step are searched
LEFT_OUT   0.1   error of a left-out mean square, in its standard errors as an estimate of the test error
CLASSIFIED 0.5   standard error over runs of the share of rows classified correctly, in those over rows
========== ===== =================================================================================================
"""
METHODS = ("auto", "exact", "cavity", "sampling")
_GROWING = 20.0
"""A mean that grows without end is computed to so many times less accuracy, with so many times less budget."""
_UNKNOWN = 1.0  # a relative error at which not even a sign is known
_CAVITY_GRAMS, _CAVITY_PRODUCTS = 60.0, 200.0
"""Weighted Gram matrices that the cavity equation takes, where samples are strong, and products of modes, about."""
_RESPONSE_PRODUCTS = 3e4
"""Products of the small matrices of a group's response to itself: of 15 nodes with 15, in 10 rounds of 15."""
_FIRST_ORDER_GRAMS = 3.0
"""Gram matrices of the equation to first order in what leads from one of many modes to another."""
_DECOMPOSITION = 10.0  # operations of a symmetric eigendecomposition, over the cube of its rows
_CALLS = 6  # calls with small matrices that a visit takes

OUT_OF_REACH = "it takes more memory than this machine can spare, or more batches than anyone waits for"
WITHOUT_SOLUTION = "its equation has no solution at so large a step"
NO_SOLUTION = (
    'the cavity equation has no solution at so large a step; try a smaller step, or method="sampling".'
)
_NEEDS_ALL = "it needs all samples at once, but they are read in chunks"
_DIVERGES = "the mean grows without end, and digits of it are not drawn for"


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
        Seed of the sampled orders.
    """

    method: str = "auto"
    rtol: float = MEANS
    budget: float = 1e12
    seed: int = 0

    def of(self, kind: float) -> float:
        """The accuracy that is asked of a kind of answer: that of the table, times what `rtol` is smaller by.

        >>> Accuracy().of(SPREADS), Accuracy(rtol=0.1).of(SPREADS), Accuracy(rtol=MEANS / 5).of(SPREADS)
        (0.05, 0.05, 0.01)
        """
        return kind * min(1.0, self.rtol / MEANS)

    @property
    def must_be_exact(self) -> bool:
        """True if only an exact answer is accepted."""
        return self.method == "exact"

    @property
    def relaxed_for_divergence(self) -> "Accuracy":
        """A twentieth of the digits and of the budget, for a mean that grows without end."""
        return replace(self, rtol=_GROWING * self.rtol, budget=self.budget / _GROWING)


def accuracy(method: Any, rtol: Any, budget: Any, seed: Any) -> Accuracy:
    """Check what the user requests.

    >>> accuracy("guess", 1e-4, 1e12, 0)
    Traceback (most recent call last):
    ...
    reshuffle.errors.ArgumentError: method must be "auto", "exact", "cavity" or "sampling", but it is 'guess'.
    """
    if str(method) == "series":
        raise ValueError(
            'method must be "auto", "exact", "cavity" or "sampling", but it is \'series\', which is no more; '
            'try "cavity", which is as quick and more accurate.'
        )
    return Accuracy(
        method=_arrays.choice("method", method, METHODS),
        rtol=_arrays.positive("rtol", rtol),
        budget=_arrays.positive("budget", budget),
        seed=_arrays.whole_number("seed", seed, 0),
    )


@dataclass(frozen=True)
class Method:
    """A method, with its price and the reason against it.

    Attributes
    ----------
    name : str
    operations : float
        Its cost; nan if that is not known beforehand.
    rejected_because : str
        The reason against it; empty if there is none.
    """

    name: str
    operations: float = np.nan
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
        return next((method for method in self.methods if not method.rejected_because), self.methods[-1])

    def __repr__(self) -> str:
        others = (replace(one, rejected_because=one.rejected_because or "not needed") for one in self.methods)
        lines = [f"{self.question}: {self.method}"]
        return "\n".join(lines + [f"  not {other}" for other in others if other.name != self.taken])


@dataclass(frozen=True)
class Computation:
    """The methods by which the answers of a run are computed, their costs, and why others were rejected.

    Attributes
    ----------
    mean : Choice
        The choice for the mean over the orders of an epoch: iterates, risk, limits, stability.
    second_moment : Choice
        The choice for the second moments after one epoch: the expected risk and its spread.
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


def select(accuracy: Accuracy, candidates: dict[str, Callable[[], Method]]) -> Choice:
    """Take the first candidate that is not rejected; those after it are not priced."""
    methods: list[Method] = []
    affordable = ""
    for name, priced in candidates.items():
        against = affordable if accuracy.method in ("auto", name) else f"method is {accuracy.method!r}"
        methods.append(Method(name, rejected_because=against) if against else priced())
        if not methods[-1].rejected_because:
            affordable = f"the {name} mean is affordable"
    return Choice("the mean over orders", tuple(methods))


# The mean of a symmetric epoch.


@dataclass(frozen=True, eq=False)
class Task:
    """A symmetric epoch to be averaged."""

    steps: int  # the visits of an epoch
    exact: Callable[[], MeanMap]  # averages over all orders
    exact_flops: float = 0.0  # infinite if it cannot be done
    out_of_reach: str = OUT_OF_REACH  # why it cannot be done, if it cannot
    shares: FloatArray | None = None  # the relative weight (B,) of each visit; None if exact is cheap
    whitened: Callable[[], Whitened] | None = None  # the rows in the coordinates of the mean step
    sample: Callable[[Accuracy], MeanMap] | None = None  # the mean map from drawn orders

    def cavity_flops(self, *, whole: bool = False) -> float:
        """Operations of the cavity equation: to first order where there are many modes, unless it is `whole`."""
        assert self.whitened is not None
        whitened = self.whitened()
        (rows, modes), strength = whitened.orthonormal.shape, float(whitened.row_norms.mean())
        if not whole and modes >= FEWEST_MODES and whitened.atoms == rows:
            return float(2.0 * _FIRST_ORDER_GRAMS * modes**2 * rows)
        strong, size = 0.1 + min(10 * strength, 1.0), int(whitened.sizes.max())
        responses = _RESPONSE_PRODUCTS * strong * whitened.atoms * float(size) ** 3 if size > 1 else 0.0
        of_modes = modes**2 * (_CAVITY_GRAMS * strong * rows + _CAVITY_PRODUCTS * modes)
        return float(2.0 * (of_modes + responses))


def task(scheme: Scheme, n: int, blocks: Blocks, step: float) -> Task:
    """The task of a symmetric scheme over n rows, for features and a step in the scale of the row space."""
    steps, shuffle = scheme.steps(n), scheme.shuffle
    if shuffle is Shuffle.EVERY_STEP:
        return Task(steps, partial(samples.repeated_step, blocks, step, steps))
    if shuffle is Shuffle.NEVER and blocks.batches == 1:
        return Task(1, partial(samples.one_batch, blocks, step))
    if shuffle is not Shuffle.EVERY_EPOCH:
        raise TypeError(
            f"{type(scheme).__name__}.is_symmetric must be False: for {shuffle.value}, of {scheme.unit.value} in "
            f"{blocks.batches} batches, there is no symmetric mean."
        )
    drawn, is_cut = partial(sampling.mean_map, scheme, n, blocks, step), scheme.unit.is_cut
    sizes, divisors = scheme.sizes(n), scheme.step_divisors(n)
    weights = np.repeat(1 / (blocks.batches * blocks.divisors), blocks.sizes)
    if is_cut:
        weights = np.full(len(blocks.rows), 1 / n)
    whitened = cache(partial(Whitened.of, blocks.rows, weights, steps * step, blocks.offsets))
    shares = sizes / divisors if is_cut else np.ones(steps)
    most = samples.MOST_BATCHES if scheme.rows_per_unit == 1 else samples.MOST_BATCHES_OF_GROUPS
    if is_cut and (steps <= most or steps < blocks.batches or not np.array_equal(sizes, divisors)):
        flops = samples.flops(n, blocks.rows.shape[1], steps) if steps <= most else np.inf
        exact = partial(samples.mean_map, whitened, shares, most)
        known = f"the exact mean over shuffled samples is known for at most {most} batches"
        return Task(steps, exact, flops, known, shares, whitened, drawn)
    # One sample per batch is as good as fixed batches in a random order.
    fixed = replace(blocks, divisors=divisors) if is_cut else blocks
    exact = partial(lattice.reshuffled_mean_map, fixed, step)
    return Task(steps, exact, lattice.flops(fixed), OUT_OF_REACH, shares, whitened, drawn)


def mean_choice(task: Task, accuracy: Accuracy) -> Choice:
    """Select how the mean of a symmetric epoch is taken, as far as prices decide; beside that of simulated runs."""
    budget = accuracy.budget if accuracy.method == "auto" else np.inf

    def exact() -> Method:
        # What is insisted on is refused where it is computed.
        known = accuracy.method == "exact" or task.shares is None
        against = "" if known else too_much(task.exact_flops, budget, task.out_of_reach)
        return Method("exact", task.exact_flops, against)

    def cavity() -> Method:
        if accuracy.method == "cavity":
            return Method("cavity")
        if task.shares is None or not are_alike(task.shares):
            return Method("cavity", rejected_because="it is for visits that weigh the same, but for the last")
        price = task.cavity_flops()
        return Method("cavity", price, too_much(price, budget))

    if task.whitened is None:
        return select(replace(accuracy, method="exact"), {"exact": exact})
    chosen = select(accuracy, {"exact": exact, "cavity": cavity, "sampling": lambda: Method("sampling")})
    if chosen.taken == "exact" or accuracy.method != "auto":
        return chosen
    rows, modes = task.whitened().orthonormal.shape
    simulated = Method(
        "simulation", 4.0 * rows * modes / accuracy.rtol**2, "it answers for one start and one y at a time"
    )
    return replace(chosen, methods=(*chosen.methods, simulated))


def averages_all_orders(task: Task, accuracy: Accuracy) -> bool:
    """True if the mean is taken over all orders of shuffled batches, exactly: a polynomial in the step."""
    is_shuffled = task.shares is not None and task.exact_flops <= max(accuracy.budget, A_SECOND)
    return is_shuffled and mean_choice(task, accuracy).taken == "exact"


@overflow_is_inf
def mean_map(task: Task, accuracy: Accuracy) -> tuple[MeanMap, Choice]:
    """Average a symmetric epoch; where rtol is out of reach, by the more accurate method, with a warning.

    Returns the map and the final choice: the error of a method is known once its map is.
    """
    chosen = mean_choice(task, accuracy)
    if chosen.taken == "exact":
        if accuracy.method == "exact" and task.shares is not None and np.isfinite(task.exact_flops):
            _require_affordable_orders(task.exact_flops, accuracy, task.steps)
        return task.exact(), chosen
    mean, other, against = _approximate(task, chosen, accuracy)
    mean.require_finite(task.steps)
    wanted = accuracy.relaxed_for_divergence if against == _DIVERGES else accuracy
    if mean.missed > wanted.rtol:
        hint = ["a larger {budget}", "a larger {rtol}", "a smaller step"]
        if accuracy.method == "cavity":
            hint = ["a smaller step", '{method}="auto"']
        warn_out_of_reach(mean.missed, mean.method, wanted.rtol, hint)
    reasons = {other: against, mean.method: ""}
    methods = [
        replace(one, rejected_because=reasons.get(one.name, one.rejected_because)) for one in chosen.methods
    ]
    return mean, replace(chosen, methods=tuple(methods))


def _require_affordable_orders(flops: float, accuracy: Accuracy, steps: int) -> None:
    """Refuse an exact mean that is insisted on, but not within the budget."""
    require_affordable(
        flops, accuracy.budget, f"the exact mean over the orders of {steps} batches",
        ("fewer batches", "a larger {budget}", '{method}="auto"'),
    )  # fmt: skip


def _approximate(task: Task, chosen: Choice, accuracy: Accuracy) -> tuple[MeanMap, str, str]:
    """The mean map by the cavity equation or from drawn orders; the other one, and the reason against it.

    Where the equation takes longer than a second, orders are drawn for as long first: where batches are large they
    differ by little. Where the mean explodes, first draws are all that is drawn.
    """
    assert task.sample is not None
    assert task.whitened is not None
    assert task.shares is not None
    sample, insists, drawn = task.sample, accuracy.method != "auto", None
    if chosen.taken != "cavity":
        return sample(accuracy), "", ""
    if not are_alike(task.shares):
        raise ValueError(
            'method must be "auto", "exact" or "sampling" for visits that weigh differently, but it is \'cavity\'.'
        )

    def affordable_orders(wanted: Accuracy) -> MeanMap | None:
        """Drawn orders; None where even the fewest cost more than the budget."""
        try:
            return sample(wanted)
        except BudgetError:
            return None

    if not insists and chosen.method.operations > A_SECOND:
        drawn = affordable_orders(replace(accuracy, budget=min(accuracy.budget, chosen.method.operations)))
        if drawn is not None and not accuracy.rtol < drawn.missed <= _UNKNOWN:
            return drawn, "cavity", "it takes longer than to draw orders"
    spares = task.cavity_flops(whole=True) > accuracy.budget
    found = by_cavity(task.whitened(), task.shares, accuracy.rtol, spares)
    if found is None:
        if insists:
            raise UnsupportedError(NO_SOLUTION)
        return drawn or sample(accuracy.relaxed_for_divergence), "cavity", WITHOUT_SOLUTION
    against = too_far(found.missed, accuracy.rtol)
    if insists or not against:
        return found, "", ""
    if grows(found):
        return found, "sampling", _DIVERGES
    explodes = found.missed > _UNKNOWN
    if drawn is None or not explodes:
        drawn = affordable_orders(accuracy.relaxed_for_divergence if explodes else accuracy)
    if drawn is not None and drawn.missed < found.missed:
        return drawn, "cavity", against
    reason = "it takes more than the budget" if drawn is None else too_far(drawn.missed, accuracy.rtol)
    return found, "sampling", reason


def choice_of_samples(problem: LeastSquares) -> Choice:
    """The cavity equation, the only method for shuffled samples that are read in chunks."""
    others = (Method(name, rejected_because=_NEEDS_ALL) for name in ("exact", "sampling"))
    passes = 0 if problem.stream is None else problem.stream.passes
    return Choice(f"the mean over orders (rows read {passes} times so far)", (Method("cavity"), *others))


def require_cavity(accuracy: Accuracy) -> None:
    """Refuse other methods for shuffled samples that are read in chunks."""
    if accuracy.method not in ("auto", "cavity"):
        raise UnsupportedError(
            f'method must be "auto" or "cavity" for shuffled samples that are read in chunks, but it is '
            f"{accuracy.method!r}; {_NEEDS_ALL}."
        )


@overflow_is_inf
def mean_of_samples(
    problem: LeastSquares, scheme: Scheme, scaled_step: float, accuracy: Accuracy
) -> tuple[MeanMap, Blocks]:
    """The mean map of shuffled samples that are read in chunks, and rows that replace all of them."""
    require_cavity(accuracy)
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
        warn_out_of_reach(found[0].missed, "cavity", accuracy.rtol, ("a smaller step", "a larger {rtol}"))
    return found


def decomposition_choice(rows: int, accuracy: Accuracy) -> Choice:
    """Select "decomposed" or "followed" for a problem of so many rows, given by their kernel.

    Followed along drawn orders where its eigenvectors alone take more operations than the budget has, unless a
    method that needs them is requested.

    >>> decomposition_choice(1000, Accuracy()).taken, decomposition_choice(10_000, Accuracy()).taken
    ('decomposed', 'followed')
    """
    price = _DECOMPOSITION * float(rows) ** 3
    against = too_much(price, accuracy.budget) if accuracy.method in ("auto", "sampling") else ""
    return Choice("a linear network", (Method("decomposed", price, against), Method("followed")))


# The mean of an epoch that is not symmetric.


def walk_flops(walk: Walk, blocks: Blocks, dimension: int, inputs: int | None = None) -> float:
    """Operations of one epoch's walk over all orders, calls included; infinite if its memory is out of reach.

    `dimension` is that of the state. By default `inputs` are one per row of the blocks and one more, or none where
    the kernels of all subsets are enough.
    """
    rows, rank = blocks.rows.shape
    if inputs is None:
        inputs = 0 if climbs(walk.scheme) else 1 + rows
    columns = dimension + inputs
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

    `missed` solves the cavity equation, and gives the relative error of the decay rates; nan if it has no solution.
    A map that `grows` is computed to less accuracy.
    """
    known = affine_methods(walk, recipe)
    # Where the steps of an epoch differ, a column for each input is followed.
    inputs = 1 + len(blocks.rows) if recipe.goes_by_visits else None
    price = walk_flops(walk, blocks, dimension, inputs) if walk.exists else np.nan

    def exact() -> Method:
        if accuracy.method == "exact":
            require_few(walk.steps)
            _require_affordable_orders(price, accuracy, walk.steps)
        # What takes a second or less is exact whatever the budget.
        against = too_much(price, max(accuracy.budget, A_SECOND))
        return Method("exact", price, against if walk.exists else "no walk is known over its orders")

    def cavity() -> Method:
        share = missed()
        if np.isnan(share):
            if accuracy.method == "cavity":
                raise UnsupportedError(NO_SOLUTION)
            return Method("cavity", rejected_because=WITHOUT_SOLUTION)
        if accuracy.method == "cavity":
            return Method("cavity")
        wanted = accuracy.relaxed_for_divergence if share > accuracy.rtol and grows() else accuracy
        return Method("cavity", rejected_because=too_far(share, wanted.rtol))

    if len(known) == 1:
        return Choice("the mean over orders", (Method(known[0], price),))
    candidates = {"exact": exact, "cavity": cavity, "sampling": lambda: Method("sampling")}
    return select(
        accuracy, {name: candidates[name] for name in candidates if name == "exact" or name in known}
    )


def wanted_of_draws(chosen: Choice, accuracy: Accuracy, grows: Callable[[], bool]) -> Accuracy:
    """Accuracy requested of drawn orders: less if the cavity equation, where it was tried, says that they grow."""
    tried = accuracy.method == "auto" and any(one.name == "cavity" for one in chosen.methods)
    return accuracy.relaxed_for_divergence if tried and grows() else accuracy


def affine_methods(walk: Walk, recipe: Recipe) -> list[str]:
    """The methods there are where an epoch is not symmetric.

    There is a cavity equation of shuffled samples where all visits of an epoch but the last are alike, and
    treat all parameters alike.
    """
    scheme, n = walk.scheme, walk.n
    followed = scheme.shuffle is Shuffle.ONCE and not scheme.samples_orders(n)
    draws = scheme.shuffle is Shuffle.EVERY_EPOCH or scheme.samples_orders(n)
    alike = are_alike(scheme.sizes(n) / scheme.step_divisors(n))
    cavity = cuts_orders(scheme) and recipe.is_even and alike
    return ["exact"] * (walk.exists or followed) + ["cavity"] * cavity + ["sampling"] * draws


def require_known(scheme: Scheme, recipe: Recipe, n: int, method: str) -> None:
    """Refuse stages that draw one order and keep it, and a method that one has not got, where epochs differ."""
    for _, stage in scheme.stages:
        if stage is not scheme and stage.shuffle is Shuffle.ONCE:
            raise UnsupportedError(
                f"descend has no answer for stages that draw one order and keep it, such as {stage!r}; "
                "try RandomReshuffling or Cyclic in its place, or simulate(...)."
            )
    for (_, stage), part in zip(scheme.stages, recipe.parts, strict=False):
        known = ["auto", *affine_methods(Walk(stage.equivalent(n), n), part)]
        if method not in known:
            words = [f'"{word}"' for word in known]
            allowed = f"{', '.join(words[:-1])} or {words[-1]} for {stage} with this recipe"
            raise ValueError(f"method must be {allowed}, but it is {method!r}.")
