"""Selection of the method by which a mean over orders is taken: the one place that compares prices and errors.

An `Averager` is a method for one epoch: the exact mean, the cavity equation, or drawn orders. `of_symmetric_epoch`
lists those of plain steps, whose mean is a `MeanMap`, and `of_epoch` those of all other recipes, whose mean is an
`EpochMap`. `select` takes the first that is not rejected beforehand, and `average` computes its map; if that misses
rtol, also by drawn orders, and the more accurate one is taken. A `Choice` can be printed: it says what was taken,
at what cost, and why the others were rejected.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Generic, TypeVar

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._budget import A_SECOND, CALL, apart, duration, require_affordable, warn_out_of_reach
from reshuffle._linalg import overflow_is_inf
from reshuffle.epoch.averaging import cavity_maps, lattice, samples, sampling
from reshuffle.epoch.averaging.first_order import FEWEST_MODES
from reshuffle.epoch.averaging.lattice import Walk, climbs, cuts_orders, fits_in_memory, require_few
from reshuffle.epoch.averaging.samples import Whitened
from reshuffle.epoch.averaging.sampling import DrawPairs
from reshuffle.epoch.epoch_map import Averaged, EpochMap, MeanMap
from reshuffle.epoch.visits import ScaledBlocks, Visits
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

OUT_OF_REACH = "it takes more memory than this machine can spare, or more batches than anyone waits for"
WITHOUT_SOLUTION = "its equation has no solution at so large a step"
NO_SOLUTION = (
    'the cavity equation has no solution at so large a step; try a smaller step, or method="sampling".'
)
_NEEDS_ALL = "it needs all samples at once, but they are read in chunks"
_UNLIKE = "it is for visits that weigh the same, but for the last"
_DIVERGES = "the mean grows without end, and digits of it are not drawn for"
_CAVITY_GRAMS, _CAVITY_PRODUCTS = 60.0, 200.0
"""Weighted Gram matrices that the cavity equation takes, where samples are strong, and products of modes, about."""
_RESPONSE_PRODUCTS = 3e4
"""Products of the small matrices of a group's response to itself: of 15 nodes with 15, in 10 rounds of 15."""
_FIRST_ORDER_GRAMS = 3.0
"""Gram matrices of the equation to first order in what leads from one of many modes to another."""
_DECOMPOSITION = 10.0  # operations of a symmetric eigendecomposition, over the cube of its rows
_CALLS = 6  # calls with small matrices that a visit takes

Mean = TypeVar("Mean", bound=Averaged)


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


@dataclass(frozen=True, eq=False)
class Averager(Generic[Mean]):
    """A method to take the mean of one epoch over its orders.

    Attributes
    ----------
    name : str
        "exact", "cavity" or "sampling".
    average : function
        From the requested accuracy to the mean map; None where an equation has no solution.
    price : function
        Its operations, nan if they are not known beforehand, and infinite where they are `out_of_reach`.
    unsuited : str
        The reason for which it is not for these visits; empty if it is.
    free : float
        Operations that it may take whatever the budget.
    simulated : float
        Operations of an epoch of one simulated run.
    """

    name: str
    average: Callable[[Accuracy], Mean | None]
    price: Callable[[], float] = lambda: math.nan
    unsuited: str = ""
    out_of_reach: str = OUT_OF_REACH
    free: float = 0.0
    simulated: float = math.nan


def select(averagers: Sequence[Averager[Mean]], accuracy: Accuracy) -> Choice:
    """Take the first averager that is not rejected, as far as prices decide; those after it are not priced.

    One that is insisted on, or the only one, is refused where it is computed, if at all.
    """
    methods: list[Method] = []
    affordable = ""
    for one in averagers:
        price, against, is_settled = math.nan, "", accuracy.method == one.name or len(averagers) == 1
        if not is_settled:
            is_open = accuracy.method == "auto"
            against = one.unsuited or affordable if is_open else f"method is {accuracy.method!r}"
        if not against:
            price = one.price()
            if not is_settled and not math.isnan(price):
                against = too_much(price, max(accuracy.budget, one.free), one.out_of_reach)
        methods.append(Method(one.name, price, against))
        if not against:
            affordable = f"the {one.name} mean is affordable"
    if accuracy.method == "auto" and methods[0].rejected_because:
        price = averagers[-1].simulated / accuracy.rtol**2
        methods.append(Method("simulation", price, "it answers for one start and one y at a time"))
    return Choice("the mean over orders", tuple(methods))


@overflow_is_inf
def average(averagers: Sequence[Averager[Mean]], accuracy: Accuracy) -> tuple[Mean, Choice]:
    """Take the mean over orders; where rtol is out of reach, by the more accurate method, with a warning.

    Returns the map and the final choice: the error of a method is known once its map is.
    """
    chosen, by_name = select(averagers, accuracy), {one.name: one for one in averagers}
    if chosen.taken != "cavity" or accuracy.method == "cavity":
        return averaged(by_name[chosen.taken], accuracy), chosen
    mean, other, against = _cavity_or_drawn(by_name, chosen, accuracy)
    _warn_of_error(mean, accuracy.relaxed_for_divergence if against == _DIVERGES else accuracy)
    reasons = {other: against, mean.method: ""}
    methods = [
        replace(one, rejected_because=reasons.get(one.name, one.rejected_because)) for one in chosen.methods
    ]
    return mean, replace(chosen, methods=tuple(methods))


def averaged(averager: Averager[Mean], accuracy: Accuracy) -> Mean:
    """The mean by one method, with a warning where it does not reach rtol."""
    if averager.unsuited:
        raise ValueError(
            f'method must be "auto" or "sampling", but it is {averager.name!r}: {averager.unsuited}.'
        )
    mean = averager.average(accuracy)
    if mean is None:
        raise UnsupportedError(NO_SOLUTION)
    _warn_of_error(mean, accuracy)
    return mean


def _warn_of_error(mean: Averaged, accuracy: Accuracy) -> None:
    if accuracy.rtol < mean.missed < math.inf:
        hint = ["a larger {budget}", "a larger {rtol}", "a smaller step"]
        if accuracy.method == "cavity":
            hint = ["a smaller step", '{method}="auto"']
        warn_out_of_reach(mean.missed, mean.method, accuracy.rtol, hint)


def _cavity_or_drawn(
    by_name: dict[str, Averager[Mean]], chosen: Choice, accuracy: Accuracy
) -> tuple[Mean, str, str]:
    """The mean map by the cavity equation or from drawn orders; the other one, and the reason against it.

    Where the equation takes longer than a second, orders are drawn for as long first: where batches are large they
    differ by little. Where the mean explodes, first draws are all that is drawn.
    """
    drawn = None

    def affordable_orders(wanted: Accuracy) -> Mean | None:
        """Drawn orders; None where even the fewest cost more than the budget."""
        try:
            return by_name["sampling"].average(wanted)
        except BudgetError:
            return None

    if chosen.method.operations > A_SECOND:
        drawn = affordable_orders(replace(accuracy, budget=min(accuracy.budget, chosen.method.operations)))
        if drawn is not None and not accuracy.rtol < drawn.missed <= _UNKNOWN:
            return drawn, "cavity", "it takes longer than to draw orders"
    found = by_name["cavity"].average(accuracy)
    if found is None:
        drawn = drawn or by_name["sampling"].average(accuracy.relaxed_for_divergence)
        assert drawn is not None
        return drawn, "cavity", WITHOUT_SOLUTION
    against = too_far(found.missed, accuracy.rtol)
    if not against:
        return found, "", ""
    if found.grows:
        return found, "sampling", _DIVERGES
    explodes = found.missed > _UNKNOWN
    if drawn is None or not explodes:
        drawn = affordable_orders(accuracy.relaxed_for_divergence if explodes else accuracy)
    if drawn is not None and drawn.missed < found.missed:
        return drawn, "cavity", against
    reason = "it takes more than the budget" if drawn is None else too_far(drawn.missed, accuracy.rtol)
    return found, "sampling", reason


def are_alike(shares: FloatArray) -> bool:
    """True if all visits weigh the same, but for the last."""
    return bool((shares[:-1] == shares[0]).all())


def choice_of_samples(problem: LeastSquares) -> Choice:
    """The cavity equation, the only method for shuffled samples that are read in chunks."""
    passes = 0 if problem.stream is None else problem.stream.passes
    others = (Method(name, rejected_because=_NEEDS_ALL) for name in ("exact", "sampling"))
    return Choice(f"the mean over orders (rows read {passes} times so far)", (Method("cavity"), *others))


def require_cavity(accuracy: Accuracy) -> None:
    """Refuse other methods for shuffled samples that are read in chunks."""
    if accuracy.method not in ("auto", "cavity"):
        raise UnsupportedError(
            f'method must be "auto" or "cavity" for shuffled samples that are read in chunks, but it is '
            f"{accuracy.method!r}; {_NEEDS_ALL}."
        )


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


def _require_affordable_orders(flops: float, accuracy: Accuracy, steps: int) -> None:
    """Refuse an exact mean that is insisted on, but not within the budget."""
    if accuracy.must_be_exact:
        require_affordable(
            flops, accuracy.budget, f"the exact mean over the orders of {steps} batches",
            ("fewer batches", "a larger {budget}", '{method}="auto"'),
        )  # fmt: skip


# ------------------------------------------------------------------------------------------- symmetric epochs


def exact_mean(
    scheme: Scheme, n: int, blocks: Blocks, step: float
) -> tuple[Callable[[], MeanMap], float, str]:
    """The exact mean of a symmetric epoch over n rows: what makes it, its operations, and why these are infinite.

    Features and step are in the scale of the row space.
    """
    steps, shuffle = scheme.steps(n), scheme.shuffle
    if shuffle is Shuffle.EVERY_STEP:
        return partial(samples.repeated_step, blocks, step, steps), 0.0, ""
    if shuffle is Shuffle.NEVER and blocks.batches == 1:
        return partial(samples.one_batch, blocks, step), 0.0, ""
    if shuffle is not Shuffle.EVERY_EPOCH:
        raise TypeError(
            f"{type(scheme).__name__}.is_symmetric must be False: for {shuffle.value}, of {scheme.unit.value} in "
            f"{blocks.batches} batches, there is no symmetric mean."
        )
    most = samples.MOST_BATCHES if scheme.rows_per_unit == 1 else samples.MOST_BATCHES_OF_GROUPS
    sizes, divisors, is_cut = scheme.sizes(n), scheme.step_divisors(n), scheme.unit.is_cut
    if is_cut and (steps <= most or steps < blocks.batches or not np.array_equal(sizes, divisors)):
        flops = samples.flops(n, blocks.rows.shape[1], steps) if steps <= most else math.inf
        whitened = partial(_whitened, scheme, n, blocks, step)
        known = f"the exact mean over shuffled samples is known for at most {most} batches"
        return partial(samples.mean_map, whitened, sizes / divisors, most), flops, known
    # One sample per batch is as good as fixed batches in a random order.
    fixed = replace(blocks, divisors=divisors) if is_cut else blocks
    return partial(lattice.reshuffled_mean_map, fixed, step), lattice.flops(fixed), OUT_OF_REACH


def _whitened(scheme: Scheme, n: int, blocks: Blocks, step: float) -> Whitened:
    """The rows in the coordinates of the mean step."""
    weights = np.repeat(1 / (blocks.batches * blocks.divisors), blocks.sizes)
    if scheme.unit.is_cut:
        weights = np.full(len(blocks.rows), 1 / n)
    return Whitened.of(blocks.rows, weights, scheme.steps(n) * step, blocks.offsets)


def of_symmetric_epoch(scheme: Scheme, n: int, blocks: Blocks, step: float) -> list[Averager[MeanMap]]:
    """The averagers of a symmetric epoch over n rows, for features and a step in the scale of the row space."""
    mean, flops, out_of_reach = exact_mean(scheme, n, blocks, step)

    def exact(accuracy: Accuracy) -> MeanMap:
        # What is beyond reach is refused where it is computed, which says more.
        if math.isfinite(flops):
            _require_affordable_orders(flops, accuracy, scheme.steps(n))
        return mean()

    of_all = Averager("exact", exact, lambda: flops, out_of_reach=out_of_reach)
    if scheme.shuffle is not Shuffle.EVERY_EPOCH:
        return [of_all]
    shares = scheme.sizes(n) / scheme.step_divisors(n) if scheme.unit.is_cut else np.ones(scheme.steps(n))
    whitened = cache(partial(_whitened, scheme, n, blocks, step))

    def by_cavity(accuracy: Accuracy) -> MeanMap | None:
        spares = _cavity_flops(whitened(), whole=True) > accuracy.budget
        return cavity_maps.by_cavity(whitened(), shares, accuracy.rtol, spares)

    unlike = "" if are_alike(shares) else _UNLIKE
    return [
        of_all,
        Averager("cavity", by_cavity, lambda: _cavity_flops(whitened()), unlike),
        Averager(
            "sampling", partial(sampling.mean_map, scheme, n, blocks, step), simulated=4.0 * blocks.rows.size
        ),
    ]


def _cavity_flops(whitened: Whitened, *, whole: bool = False) -> float:
    """Operations of the cavity equation: to first order where there are many modes, unless it is `whole`."""
    (rows, modes), strength = whitened.orthonormal.shape, float(whitened.row_norms.mean())
    if not whole and modes >= FEWEST_MODES and whitened.atoms == rows:
        return float(2.0 * _FIRST_ORDER_GRAMS * modes**2 * rows)
    strong, size = 0.1 + min(10 * strength, 1.0), int(whitened.sizes.max())
    responses = _RESPONSE_PRODUCTS * strong * whitened.atoms * float(size) ** 3 if size > 1 else 0.0
    of_modes = modes**2 * (_CAVITY_GRAMS * strong * rows + _CAVITY_PRODUCTS * modes)
    return float(2.0 * (of_modes + responses))


def averages_all_orders(averagers: list[Averager[MeanMap]], accuracy: Accuracy) -> bool:
    """True if the mean is taken over all orders of shuffled batches, exactly: a polynomial in the step."""
    is_shuffled = len(averagers) > 1 and averagers[0].price() <= max(accuracy.budget, A_SECOND)
    return is_shuffled and select(averagers, accuracy).taken == "exact"


# ------------------------------------------------------------------------------------------------- all other epochs


def of_epoch(
    walk: Walk,
    recipe: Recipe,
    blocks: ScaledBlocks,
    visits: Visits,
    force: FloatArray,
    draw: Callable[[], DrawPairs],
    over_all_orders: Callable[[], EpochMap],
) -> list[Averager[EpochMap]]:
    """The averagers of an epoch that is not symmetric.

    Batches may be cut of the rows of the `blocks`. Minus the gradient `force` (r,) enters at every visit with input
    1; `draw` makes what draws pairs of orders, and `over_all_orders` takes the mean over all of them.
    """
    scheme, n, known = walk.scheme, walk.n, methods(walk, recipe)
    # Where the steps of an epoch differ, a column for each input is followed.
    inputs = 1 + len(blocks.rows) if recipe.goes_by_visits else None
    flops = walk_flops(walk, blocks, visits.dimension, inputs) if walk.exists else math.nan

    def exact(accuracy: Accuracy) -> EpochMap:
        if accuracy.must_be_exact:
            require_few(walk.steps)
            _require_affordable_orders(flops, accuracy, walk.steps)
        return over_all_orders()

    def by_cavity(accuracy: Accuracy) -> EpochMap | None:
        samples = Visits(blocks, visits.hyperparameters, visits.average)
        return cavity_maps.epoch_map(samples, force, scheme.sizes(n) / scheme.step_divisors(n))

    def by_drawing(accuracy: Accuracy) -> EpochMap:
        return sampling.epoch_map(visits, force, draw(), accuracy)

    if scheme.shuffle is Shuffle.ONCE or known == ["exact"]:
        return [Averager(known[0], lambda _: over_all_orders(), lambda: flops)]
    unwalked = "" if walk.exists else "no walk is known over its orders"
    found = [
        # What takes a second or less is exact whatever the budget.
        Averager("exact", exact, lambda: flops, unwalked, free=A_SECOND),
        Averager("cavity", by_cavity),
        Averager("sampling", by_drawing, simulated=4.0 * len(blocks.rows) * visits.dimension),
    ]
    return [one for one in found if one.name in known or (one.unsuited and len(known) > 1)]


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


def methods(walk: Walk, recipe: Recipe) -> list[str]:
    """The methods there are where an epoch is not symmetric.

    There is a cavity equation of shuffled samples where all visits of an epoch but the last are alike, and
    treat all parameters alike.
    """
    scheme, n = walk.scheme, walk.n
    followed = scheme.shuffle is Shuffle.ONCE and not scheme.samples_orders(n)
    draws = scheme.shuffle is Shuffle.EVERY_EPOCH or scheme.samples_orders(n)
    cavity = cuts_orders(scheme) and recipe.is_even and are_alike(scheme.sizes(n) / scheme.step_divisors(n))
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
        known = ["auto", *methods(Walk(stage.equivalent(n), n), part)]
        if method not in known:
            words = [f'"{word}"' for word in known]
            allowed = f"{', '.join(words[:-1])} or {words[-1]} for {stage} with this recipe"
            raise ValueError(f"method must be {allowed}, but it is {method!r}.")
