"""What there is to know of a symmetric epoch in order to average it, for each way in which orders are drawn."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._linalg import thin_qr
from reshuffle.epoch.averaging import cavity, lattice, low_degrees, series, whitened_maps
from reshuffle.epoch.averaging.control_variates import Control, LinearPart, LowDegrees
from reshuffle.epoch.averaging.draws import DrawOrder, Order
from reshuffle.epoch.averaging.low_degrees import Whitened
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.errors import BudgetError
from reshuffle.problem.batches import Blocks
from reshuffle.schemes.base import Scheme, Shuffle, Unit, rows_of

_MOST_SAMPLE_BATCHES = 4
"""Degrees beyond the fourth have crossing pairs of pairs, and no sum of polynomial cost is known to us for them."""

_MOST_ALONE = 12
"""Samples, one per batch, of which all orders are averaged in no time."""

_MOST_GROUP_BATCHES = 3
"""Samples of one row meet in pairs as numbers, which have cubes; those of several rows meet as matrices."""


@dataclass(frozen=True, eq=False)
class Approximation:
    """What the series and drawn orders need.

    Attributes
    ----------
    whitened : callable
        The rows in the coordinates of these methods.
    coefficients : callable
        Those of the series.
    contracts : bool
        Whether the atoms are batches, between whose visits nothing is enlarged.
    draw : callable
        whitened -> a way to draw orders.
    control : callable
        whitened -> a control variate for them.
    shares : (B,)
        What each visit weighs beside the mean one.
    has_cavity : bool
        Whether the atoms are single samples, and all visits but the last weigh the same.
    """

    whitened: Callable[[], Whitened]
    coefficients: Callable[[], FloatArray]
    contracts: bool
    draw: Callable[[Whitened], DrawOrder]
    control: Callable[[Whitened], Control]
    shares: FloatArray
    has_cavity: bool


@dataclass(frozen=True, eq=False)
class Task:
    """An epoch to be averaged.

    Attributes
    ----------
    steps : int
        The visits of an epoch.
    degree : int
        That of the kernel of the mean map, a polynomial in the step.
    exact : callable
        Averages over all orders.
    exact_flops : float
        What that costs; infinite if it cannot be done.
    approximation : Approximation or None
        None where the exact mean is cheap.
    out_of_reach : str
        Why the exact mean cannot be had, if it is not for its price.
    """

    steps: int
    degree: int
    exact: Callable[[], MeanMap]
    exact_flops: float
    approximation: Approximation | None = None
    out_of_reach: str = ""


def task(scheme: Scheme, n: int, blocks: Blocks, step: float) -> Task:
    """The task of a symmetric scheme over n rows, for features and a step in the scale of the row space."""
    known = _TASKS.get((scheme.shuffle, scheme.unit))
    if known is None:
        raise TypeError(
            f"{type(scheme).__name__}.is_symmetric must be False: for {scheme.shuffle.value}, of "
            f"{scheme.unit.value}, there is no symmetric mean."
        )
    return known(scheme, n, blocks, step)


def _one_batch(scheme: Scheme, n: int, blocks: Blocks, step: float) -> Task:
    """Z = W: the kernel is I / n."""
    if blocks.batches > 1:
        raise TypeError(
            f"{type(scheme).__name__}.is_symmetric must be False, since its {blocks.batches} batches are visited "
            "in a fixed order; only a single batch has a symmetric epoch then."
        )
    kernel = np.full(len(blocks.rows), 1 / blocks.divisors[0])

    def mean() -> MeanMap:
        return MeanMap(
            blocks.rows, kernel, kernel, step, 1, blocks.weight, lambda batch: np.eye(blocks.rows.shape[1])
        )

    return Task(1, 0, mean, 0.0)


def _draws(scheme: Scheme, n: int, blocks: Blocks, step: float) -> Task:
    """The mean of one step, I - step W, for every step of an epoch."""
    steps = scheme.steps(n)
    return Task(steps, 0, lambda: repeated_step(blocks, step, steps), 0.0)


def repeated_step(blocks: Blocks, step: float, steps: int) -> MeanMap:
    """The mean of a step on one of the blocks, each as likely as the others, done so many times per epoch."""
    roots = np.sqrt(np.repeat(1 / (blocks.batches * blocks.divisors), blocks.sizes))[:, np.newaxis]
    orthonormal, factor = thin_qr(roots * blocks.rows)
    identity = np.eye(factor.shape[1])

    def modifier(batch: int) -> FloatArray:
        one_step = identity - step * (factor.T @ factor)
        # Horner's rule for the mean of 1, A, ..., A^(steps-1): what comes after a given visit.
        mean = identity
        for _ in range(steps - 1):
            mean = identity + one_step @ mean
        return mean / steps

    return MeanMap(factor, np.ones(len(factor)), (orthonormal * roots).T, step, steps, 1.0, modifier)


def _shuffled_batches(scheme: Scheme, n: int, blocks: Blocks, step: float) -> Task:
    """All B! orders on the lattice of subsets."""
    weights = np.repeat(1 / (blocks.batches * blocks.divisors), blocks.sizes)
    approximation = Approximation(
        whitened=cache(lambda: Whitened.of(blocks.rows, weights, blocks.batches * step, blocks.offsets)),
        coefficients=series.batch_coefficients,
        contracts=True,
        draw=_batch_orders,
        control=lambda whitened: LowDegrees(whitened, series.batch_coefficients()),
        shares=np.ones(blocks.batches),
        has_cavity=blocks.batches == n and bool((blocks.divisors == blocks.divisors[0]).all()),
    )
    mean = partial(lattice.reshuffled_mean_map, blocks, step)
    return Task(blocks.batches, blocks.batches - 1, mean, lattice.flops(blocks), approximation)


def _batch_orders(whitened: Whitened) -> DrawOrder:
    """Draw the rows of all batches, batch after batch in random order."""
    shares, starts, all_sizes = np.ones(whitened.atoms), whitened.offsets[:-1], whitened.sizes
    rows = np.arange(whitened.offsets[-1])

    def draw(rng: np.random.Generator) -> Order:
        order = rng.permutation(whitened.atoms)
        sizes = all_sizes[order]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return Order(np.repeat(starts[order] - offsets[:-1], sizes) + rows, offsets, shares)

    return draw


def _shuffled_samples(scheme: Scheme, n: int, blocks: Blocks, step: float) -> Task:
    """All n! orders of the samples: sums over words of distinct samples, of up to four batches."""
    steps, rank, most = scheme.steps(n), blocks.rows.shape[1], _MOST_SAMPLE_BATCHES
    sizes, divisors = scheme.sizes(n), scheme.step_divisors(n)
    weights = np.full(len(blocks.rows), 1 / n)
    approximation = Approximation(
        whitened=cache(lambda: Whitened.of(blocks.rows, weights, steps * step, blocks.offsets)),
        coefficients=lambda: series.sample_coefficients(sizes / divisors, blocks.batches),
        contracts=False,
        draw=lambda whitened: _sample_orders(scheme, n, len(blocks.rows) // blocks.batches),
        control=lambda whitened: LinearPart(whitened, sizes / divisors),
        shares=sizes / divisors,
        has_cavity=cavity.are_alike(sizes / divisors),
    )
    if scheme.rows_per_unit > 1:
        most = _MOST_GROUP_BATCHES
        low = partial(LowDegrees, coefficients=approximation.coefficients())
        approximation = replace(approximation, control=low)

    def mean() -> MeanMap:
        return _few_batches_of_samples(approximation.whitened(), approximation.coefficients(), steps)

    flops = 12.0 * n * rank**2 + (4.0 * n**2 * rank if steps == _MOST_SAMPLE_BATCHES else 0.0)
    if most < steps == blocks.batches <= _MOST_ALONE and np.array_equal(sizes, divisors):
        # One sample per batch: fixed batches in a random order.
        alone = replace(blocks, divisors=divisors)
        mean, flops = partial(lattice.reshuffled_mean_map, alone, step), lattice.flops(alone)
    elif steps > most:
        mean, flops = partial(_refuse, steps, most), np.inf
    known = f"the exact mean over shuffled samples is known for at most {most} batches"
    return Task(steps, steps - 1, mean, flops, approximation, known)


def _few_batches_of_samples(whitened: Whitened, coefficients: FloatArray, steps: int) -> MeanMap:
    with np.errstate(over="ignore", invalid="ignore"):
        pull = low_degrees.up_to_two(whitened, coefficients)
        if steps == _MOST_SAMPLE_BATCHES:
            pull -= coefficients[4] * low_degrees.degree_three_of_samples(whitened)
        alone = len(whitened.orthonormal) == whitened.atoms
        of_atom = low_degrees.modifier_of_sample if alone else low_degrees.modifier_of_group
        modifier = partial(of_atom, whitened, coefficients)
        return whitened_maps.exact_map(whitened, pull.T, modifier).require_finite(steps)


def _refuse(steps: int, most: int) -> MeanMap:
    raise BudgetError(
        f"batches is {steps}, but the exact mean over shuffled samples is computed for at most "
        f'{most}; try fewer batches, or descend(..., method="auto").'
    )


def _sample_orders(scheme: Scheme, n: int, kept: int) -> DrawOrder:
    """Draw all samples in random order, cut into batches; so many rows are kept of each sample."""
    divisors, size = scheme.step_divisors(n), scheme.rows_per_unit
    shares = n / (len(divisors) * divisors)
    offsets = np.concatenate([[0], np.cumsum(scheme.sizes(n) // size * kept)])

    def draw(rng: np.random.Generator) -> Order:
        order = rng.permutation(n // size)
        return Order(rows_of(order, kept)[: int(offsets[-1])], offsets, shares)

    return draw


_TASKS: dict[tuple[Shuffle, Unit], Callable[[Scheme, int, Blocks, float], Task]] = {
    (Shuffle.NEVER, Unit.BATCH): _one_batch,
    (Shuffle.EVERY_STEP, Unit.BATCH): _draws,
    (Shuffle.EVERY_STEP, Unit.SAMPLE): _draws,
    (Shuffle.EVERY_EPOCH, Unit.BATCH): _shuffled_batches,
    (Shuffle.EVERY_EPOCH, Unit.SAMPLE): _shuffled_samples,
    (Shuffle.EVERY_EPOCH, Unit.GROUP): _shuffled_samples,
}
