"""The one place that chooses how something is computed: by what each way costs, and what speaks against it.

A `Choice` can be printed: it says what was taken, at what cost, and why the others were not. The order of the ways
is that of preference; the first against which nothing speaks is taken.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from reshuffle._core import FloatArray, confidence
from reshuffle.epoch import series, whitened_maps
from reshuffle.epoch.accuracy import (
    A_SECOND,
    CALL,
    METHODS,
    Accuracy,
    apart,
    duration,
    require_affordable,
    warn_out_of_reach,
)
from reshuffle.epoch.cavity.visiting import are_alike
from reshuffle.epoch.lattice.subsets import fits_in_memory, require_few
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.epoch.second_moment import centred_course, centred_draws, two_shuffled_batches
from reshuffle.epoch.tasks import Approximation, Task
from reshuffle.epoch.walks import Walk
from reshuffle.errors import UnsupportedError
from reshuffle.problem.blocks import Blocks
from reshuffle.recipe import Recipe
from reshuffle.schemes.base import Scheme, Shuffle, Unit

_CALLS = 6
"""Calls with small matrices that a visit takes."""
_CALLS_OF_ROWS = 1.5
"""The same for a visit of the recursion of second moments through the rows."""
_REMEMBERED_BYTES = 4e9
_CAVITY_GRAMS, _CAVITY_PRODUCTS = 60.0, 200.0
"""Weighted Gram matrices that the cavity equation takes, where samples are strong, and products of modes, about."""
_OF_A_BOUND = 0.1
"""A bound on the paces becomes a far wider one on answers than an estimate does."""
_ROUNDS_OF_A_LIMIT = 100
"""Epochs of second moments that their limit costs."""
_NO_SOLUTION = (
    'the cavity equation has no solution at so large a step; try a smaller step, or method="sampling".'
)
_OUT_OF_REACH = "it takes more memory than this machine can spare, or more batches than anyone waits for"


@dataclass(frozen=True)
class Way:
    """One way to compute something.

    Attributes
    ----------
    name : str
    operations : float
        What it costs; nan if that is not known beforehand.
    against : str
        What speaks against it; empty if nothing does.
    """

    name: str
    operations: float
    against: str = ""

    def __repr__(self) -> str:
        price = f", {self.operations:.1g} operations" if np.isfinite(self.operations) else ""
        took = f" ({duration(self.operations)})" if price else ""
        return f"{self.name}{price}{took}" + (f": {self.against}" if self.against else "")


@dataclass(frozen=True)
class Choice:
    """Which of several ways is taken.

    Attributes
    ----------
    question : str
    ways : tuple of Way
        In the order of preference.
    """

    question: str
    ways: tuple[Way, ...]

    @property
    def taken(self) -> str:
        """The name of the first way against which nothing speaks."""
        return self.way.name

    @property
    def way(self) -> Way:
        """The first way against which nothing speaks; the last, if something speaks against each."""
        return next((way for way in self.ways if not way.against), self.ways[-1])

    def __repr__(self) -> str:
        lines = [f"{self.question}: {self.way}"]
        others = (way if way.against else replace(way, against="not needed") for way in self.ways)
        lines += [f"  not {way}" for way in others if way.name != self.taken]
        return "\n".join(lines)


@dataclass(frozen=True)
class Computation:
    """How the answers of a run are computed, at what cost, and why not otherwise.

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


def _too_much(operations: float, budget: float, out_of_reach: str = _OUT_OF_REACH) -> str:
    """What speaks against a price, if anything."""
    if np.isinf(operations):
        return out_of_reach
    if operations <= budget:
        return ""
    needed, allowed = apart(operations, budget)
    return f"it takes {needed} operations, but budget is {allowed}"


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
    of_exact = _too_much(task.exact_flops, accuracy.budget, task.out_of_reach or _OUT_OF_REACH)
    exact = Way("exact", task.exact_flops, of_exact)
    if not of_exact:
        others = (Way(name, np.nan, "the exact mean is affordable") for name in METHODS[2:])
        return Choice(question, (exact, *others))
    between = [Way("cavity", *_of_cavity(of, accuracy)), Way("series", *_of_series(of, accuracy))]
    if of.contracts:
        # Where its bound is good enough, the series is sure.
        between.reverse()
    return Choice(question, (exact, *between, Way("sampling", np.nan)))


def _of_series(of: Approximation, accuracy: Accuracy) -> tuple[float, str]:
    """What the series costs, and what speaks against it, told from its bound, which costs next to nothing."""
    whitened = of.whitened()
    bound = series.error(whitened, of.coefficients(), contracts=of.contracts).share
    price = series.flops(whitened)
    if not bound <= _OF_A_BOUND * accuracy.rtol:
        known, wanted = apart(bound, _OF_A_BOUND * accuracy.rtol)
        return price, f"its error is bounded by {known}, but {wanted}, a tenth of rtol, is wanted of a bound"
    return price, _too_much(price, accuracy.budget)


def _of_cavity(of: Approximation, accuracy: Accuracy) -> tuple[float, str]:
    """What the cavity equation costs, and what speaks against it."""
    if not of.has_cavity:
        return np.nan, "it is for shuffled samples, in visits that weigh the same"
    (rows, modes), strength = of.whitened().orthonormal.shape, float(of.whitened().row_norms.mean())
    price = (
        2.0 * modes**2 * (_CAVITY_GRAMS * (0.1 + min(10 * strength, 1.0)) * rows + _CAVITY_PRODUCTS * modes)
    )
    return price, _too_much(price, accuracy.budget)


def mean_map(task: Task, accuracy: Accuracy) -> MeanMap:
    """Average a symmetric epoch; where rtol is out of reach, by the most accurate of its ways, with a warning."""
    if accuracy.method == "exact" and np.isfinite(task.exact_flops) and task.approximation is not None:
        require_affordable(
            task.exact_flops, accuracy.budget, f"the exact mean over the orders of {task.steps} batches",
            'try fewer batches, a larger budget, or method="auto"',
        )  # fmt: skip
    chosen, of = mean_choice(task, accuracy), task.approximation
    if chosen.taken == "exact" or of is None:
        return task.exact()
    with np.errstate(over="ignore", invalid="ignore"):
        mean = _approximate(of, chosen, accuracy).require_finite(task.steps)
    if mean.missed > accuracy.rtol:
        advice = 'try a smaller step, or method="auto"'
        if mean.method == "sampling":
            advice = "try a larger budget, a larger rtol or a smaller step"
        warn_out_of_reach(mean.missed, mean.method, accuracy.rtol, advice)
    return mean


def _approximate(of: Approximation, chosen: Choice, accuracy: Accuracy) -> MeanMap:
    """The map by the first way that does not miss rtol, of those nothing speaks against; if none does, the best.

    What a way misses is known for certain only once it has been gone.
    """
    made: list[MeanMap] = []
    for way in chosen.ways:
        if not way.against:
            made += _MAPS[way.name](of, accuracy)
            if made and made[-1].missed <= accuracy.rtol:
                return made[-1]
    return min(made, key=lambda mean: mean.missed)


def _by_series(of: Approximation, accuracy: Accuracy) -> list[MeanMap]:
    return [whitened_maps.by_series(of.whitened(), of.coefficients(), of.contracts)]


def _by_cavity(of: Approximation, accuracy: Accuracy) -> list[MeanMap]:
    """The cavity's map, if its equation has a solution: not where what samples do to themselves grows for ever."""
    if not of.has_cavity:
        raise ValueError(
            'method must be "auto", "exact", "series" or "sampling" for batches of several fixed rows and for '
            "visits that weigh differently, but it is 'cavity'; there is a cavity equation for SampleReshuffling."
        )
    found = whitened_maps.by_cavity(of.whitened(), of.shares, accuracy.rtol)
    if found is None and accuracy.method == "cavity":
        raise UnsupportedError(_NO_SOLUTION)
    return [] if found is None else [found]


def _by_sampling(of: Approximation, accuracy: Accuracy) -> list[MeanMap]:
    whitened = of.whitened()
    return [whitened_maps.by_sampling(whitened, of.control(whitened), of.draw(whitened), accuracy)]


_MAPS = {"series": _by_series, "cavity": _by_cavity, "sampling": _by_sampling}


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


def climbs(scheme: Scheme) -> bool:
    """Whether a walk goes up the lattice of subsets of the batches."""
    return (scheme.shuffle, scheme.unit) == (Shuffle.EVERY_EPOCH, Unit.BATCH)


def affine_choice(
    walk: Walk,
    recipe: Recipe,
    blocks: Blocks,
    dimension: int,
    accuracy: Accuracy,
    missed: Callable[[], float],
) -> Choice:
    """How the mean of an epoch that is not symmetric is taken.

    By the walk over all orders, the cavity equation or draws. `missed` solves that equation, and tells by how much
    it may miss the paces of the modes; nan if it has no solution.
    """
    question, method = "the mean over orders", accuracy.method
    known = affine_methods(walk, recipe)
    price = walk_flops(walk, blocks, dimension) if walk.exists else np.nan
    if len(known) == 1:
        (name,) = known
        return Choice(question, (Way(name, price),))
    if method == "exact":
        require_few(walk.steps)
        require_affordable(
            price, accuracy.budget, f"the exact mean over the orders of {walk.steps} batches",
            'try fewer batches, a larger budget, or method="auto"',
        )  # fmt: skip
    # What takes a second or less is exact whatever the budget.
    of_exact = (
        _too_much(price, max(accuracy.budget, A_SECOND))
        if walk.exists
        else "no walk is known over its orders"
    )
    if method in ("cavity", "sampling"):
        of_exact = f"method is {method!r}"
    ways = [Way("exact", price, of_exact)]
    if "cavity" in known:
        ways.append(Way("cavity", np.nan, _of_affine_cavity(ways, accuracy, missed)))
    unneeded = next((f"the {way.name} mean is affordable" for way in ways if not way.against), "")
    return Choice(question, (*ways, Way("sampling", np.nan, unneeded)))


def _of_affine_cavity(ways: list[Way], accuracy: Accuracy, missed: Callable[[], float]) -> str:
    """What speaks against the cavity equation, beside other ways."""
    if accuracy.method == "sampling":
        return f"method is {accuracy.method!r}"
    if not ways[0].against:
        return "the exact mean is affordable"
    share = missed()
    if np.isnan(share) and accuracy.method == "cavity":
        raise UnsupportedError(_NO_SOLUTION)
    if np.isnan(share):
        return "its equation has no solution at so large a step"
    if share > accuracy.rtol and accuracy.method != "cavity":
        known, wanted = apart(share, accuracy.rtol)
        return f"it may be off by {known}, but rtol is {wanted}"
    return ""


def affine_methods(walk: Walk, recipe: Recipe) -> list[str]:
    """The methods there are where an epoch is not symmetric.

    There is a cavity equation of shuffled samples where all visits of an epoch but the last are alike, and what
    they do beside their samples keeps the modes apart.
    """
    scheme, n = walk.scheme, walk.n
    followed = scheme.shuffle is Shuffle.ONCE and not scheme.samples_courses(n)
    draws = scheme.shuffle is Shuffle.EVERY_EPOCH or scheme.samples_courses(n)
    shuffles = (scheme.shuffle, scheme.unit) == (Shuffle.EVERY_EPOCH, Unit.SAMPLE)
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
    >>> require_known(rs.Cyclic(2), Recipe(0.1), 10, "series")
    Traceback (most recent call last):
    ...
    ValueError: method must be "auto" or "exact" for Cyclic(batches=2) with this recipe, but it is 'series'.
    """
    known = ["auto", *affine_methods(Walk(scheme.equivalent(n), n), recipe)]
    if method not in known:
        words = [f'"{word}"' for word in known]
        raise ValueError(
            f"method must be {', '.join(words[:-1])} or {words[-1]} for {scheme} with this recipe, "
            f"but it is {method!r}."
        )


@dataclass(frozen=True, eq=False)
class SecondMomentTask:
    """Second moments to be followed through the epochs of a run.

    Attributes
    ----------
    walk : Walk
    blocks : Blocks
    dimension : int
        Of the state.
    epochs : (k,)
        Ascending.
    given_responses : bool
        Whether the responses are given, so that no noise is followed.
    mean_is_exact : bool
        Whether the mean is: second moments are followed only beside an exact one.
    rows_serve : bool
        Whether the quicker recursion through the rows of the batches is as accurate as the general one.
    leaps : bool
        Whether the state is so small that the map of an epoch is squared.
    settling : callable
        About how many epochs it takes until nothing changes any more, or all has overflowed.
    moves_alike : bool
        Whether all epochs have the same step, and it is not zero.
    is_plain : bool
        Whether there is nothing but a step, and the mean map is exact and symmetric.
    """

    walk: Walk
    blocks: Blocks
    dimension: int
    epochs: FloatArray
    given_responses: bool
    mean_is_exact: bool
    rows_serve: bool
    leaps: bool
    settling: Callable[[], float]
    moves_alike: bool = True
    is_plain: bool = False

    def rounds(self, each: float, budget: float) -> float:
        """How many epochs are followed, at this price each."""
        finite = self.epochs[np.isfinite(self.epochs)]
        rounds = float(finite.max(initial=0.0))
        if rounds * each > budget:
            rounds = min(rounds, self.settling())
        return rounds + _ROUNDS_OF_A_LIMIT * (len(finite) < len(self.epochs))


def second_moment_choice(task: SecondMomentTask, accuracy: Accuracy) -> Choice:
    """How second moments are followed: order by order, through the rows, by the general walk, or from draws.

    Where orders are too many for a recursion, centred maps of drawn orders serve all epochs, if these are alike.
    """
    question, walk = "the second moments", task.walk
    if walk.scheme.shuffle is Shuffle.ONCE:
        return Choice(question, (Way("each order by itself", np.nan),))
    if not walk.scheme.is_random:
        return Choice(question, (Way("no orders differ", 0.0),))
    unknown = "" if task.mean_is_exact else "the mean over orders is not exact"
    budget = max(accuracy.budget, A_SECOND)
    of_rows, by_rows = _of_rows(task, budget)
    walked = _walked(task, budget) if walk.exists else np.inf
    if accuracy.method == "exact" and not unknown:
        last = task.epochs[-1] if len(task.epochs) else 0.0
        require_affordable(
            min(by_rows, walked), accuracy.budget, f"the exact expected risk after {last:g} epochs",
            'try fewer epochs, fewer batches, a larger budget, or method="auto"',
        )  # fmt: skip
    of_walk = unknown or _too_much(walked, budget)
    return Choice(
        question,
        (
            Way("rows", by_rows, unknown or of_rows),
            Way("walk", walked, of_walk),
            Way("two batches", *_of_two_batches(task, budget, bool(of_walk))),
            Way("centred maps", *_of_centred_maps(task, budget, bool(of_walk))),
            Way("simulation", np.nan, "" if of_walk else "the exact recursion is affordable"),
        ),
    )


def least_known(choices: list[Choice]) -> Choice:
    """Of the means of several stages, the one that is known worst."""
    return max(choices, key=lambda each: METHODS.index(each.taken))


_THROUGH_STAGES = ("walk", "no orders differ")
"""Ways that hand second moments on from one stage to the next."""


def through_stages(choices: list[Choice]) -> Choice:
    """How second moments are followed through stages: at the dearest's price, or simulated if not in all."""
    others = [each for each in choices if each.taken not in _THROUGH_STAGES]
    if not others:
        return max(choices, key=lambda each: each.way.operations)
    alone = "it is for runs whose epochs are all alike"
    ways = (
        way if way.against or way.name == "simulation" else replace(way, against=alone)
        for way in others[0].ways
    )
    return Choice(others[0].question, tuple(ways))


def _of_two_batches(task: SecondMomentTask, budget: float, is_needed: bool) -> tuple[float, str]:
    """What the sums over the ways to cut samples in two cost, and what speaks against them."""
    if not (halves_samples(task.walk) and task.is_plain and task.moves_alike) or task.given_responses:
        return (
            np.nan,
            "it is for shuffled samples in two batches, with nothing but a step, over orders and noise",
        )
    each = two_shuffled_batches.flops(*task.blocks.rows.shape)
    price = task.rounds(each, budget) * each
    return price, _too_much(price, budget) if is_needed else "the exact recursion is affordable"


def halves_samples(walk: Walk) -> bool:
    """Whether samples are shuffled and cut into two batches."""
    kind = walk.scheme.shuffle, walk.scheme.unit
    return kind == (Shuffle.EVERY_EPOCH, Unit.SAMPLE) and walk.steps == 2


def _of_centred_maps(task: SecondMomentTask, budget: float, is_needed: bool) -> tuple[float, str]:
    """What second moments by centred maps cost, for the fewest draws, and what speaks against them."""
    walk, rows = task.walk, len(task.blocks.rows)
    if walk.scheme.shuffle is not Shuffle.EVERY_EPOCH or not task.moves_alike:
        return np.nan, "they are for a fresh order in every epoch, at a step that stays"
    pairs = centred_draws.FEWEST_PAIRS * confidence.MOST_GROUPS
    price = centred_draws.flops(pairs, task.dimension, rows, walk.steps)
    price += centred_course.flops(2 * pairs, task.dimension, task.epochs)
    return price, _too_much(price, budget) if is_needed else "the exact recursion is affordable"


def draws_squares(walk: Walk, price: float, accuracy: Accuracy) -> bool:
    """Whether the mean square is told from drawn orders: where all of them, at this price, are not affordable."""
    return (
        walk.scheme.shuffle is Shuffle.EVERY_EPOCH
        and accuracy.method != "exact"
        and bool(_too_much(price, max(accuracy.budget, A_SECOND)))
    )


def draws_thresholds(walk: Walk, price: float, budget: float) -> bool:
    """Whether critical steps are searched with a mean that is not exact, since all orders cost too much."""
    return walk.scheme.shuffle is Shuffle.EVERY_EPOCH and bool(_too_much(price, budget))


def _of_rows(task: SecondMomentTask, budget: float) -> tuple[str, float]:
    """What speaks against the recursion through the rows, and what it costs."""
    if not (task.rows_serve and climbs(task.walk.scheme)):
        return "it is for plain random reshuffling of all rows, well conditioned", np.inf
    if task.leaps:
        return "the state is small enough to square the map of an epoch", np.inf
    steps, (rows, rank) = task.walk.steps, task.blocks.rows.shape
    if 2.0**steps * 8 * rank**2 > _REMEMBERED_BYTES:
        return _OUT_OF_REACH, np.inf
    each = 2.0 ** (steps - 1) * (8.0 * rows * rank**2 + _CALLS_OF_ROWS * CALL * steps)
    price = task.rounds(each, budget) * each
    return _too_much(price, budget), price


def _walked(task: SecondMomentTask, budget: float) -> float:
    """What the general recursion costs."""
    inputs = 1 if task.given_responses else 1 + len(task.blocks.rows)
    each = walk_flops(task.walk, task.blocks, task.dimension, inputs)
    if task.leaps:
        return (task.dimension * (task.dimension + inputs) + _ROUNDS_OF_A_LIMIT) * each
    return task.rounds(each, budget) * each


def for_every_visit(accuracy: Accuracy) -> Accuracy:
    """What is asked of a symmetric run, where it is followed visit by visit: there is no series, and no waiting."""
    return accuracy if accuracy.method in ("cavity", "sampling") else replace(accuracy, method="auto")
