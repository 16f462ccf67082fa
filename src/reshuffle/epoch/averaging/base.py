"""A symmetric epoch that is to be averaged, for each way in which orders are drawn."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._linalg import thin_qr
from reshuffle.epoch.averaging import exact_samples, lattice, sampling
from reshuffle.epoch.averaging.exact_samples import Whitened
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.errors import BudgetError
from reshuffle.problem.batches import Blocks
from reshuffle.schemes.base import Scheme, Shuffle, Unit

if TYPE_CHECKING:
    from reshuffle.epoch.select import Accuracy

_MOST_ALONE = 12
"""Samples, one per batch, of which all orders are averaged in no time."""


@dataclass(frozen=True, eq=False)
class Approximation:
    """Data of the cavity equation and of drawn orders.

    Attributes
    ----------
    whitened : callable
        () -> the rows in the coordinates of the mean step.
    shares : (B,)
        What each visit weighs beside the mean one.
    sample : callable
        accuracy -> the mean map from drawn orders.
    """

    whitened: Callable[[], Whitened]
    shares: FloatArray
    sample: "Callable[[Accuracy], MeanMap]"


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


def _independent(scheme: Scheme, n: int, blocks: Blocks, step: float) -> Task:
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
        shares=np.ones(blocks.batches),
        sample=partial(sampling.mean_map, scheme, n, blocks, step),
    )
    mean = partial(lattice.reshuffled_mean_map, blocks, step)
    return Task(blocks.batches, blocks.batches - 1, mean, lattice.flops(blocks), approximation)


def _shuffled_samples(scheme: Scheme, n: int, blocks: Blocks, step: float) -> Task:
    """All n! orders of the samples: sums over words of distinct samples, of up to four batches."""
    steps, sizes, divisors = scheme.steps(n), scheme.sizes(n), scheme.step_divisors(n)
    shares = sizes / divisors
    weights = np.full(len(blocks.rows), 1 / n)
    whitened = cache(lambda: Whitened.of(blocks.rows, weights, steps * step, blocks.offsets))
    approximation = Approximation(whitened, shares, partial(sampling.mean_map, scheme, n, blocks, step))
    most = exact_samples.MOST_BATCHES if scheme.rows_per_unit == 1 else exact_samples.MOST_BATCHES_OF_GROUPS

    def mean() -> MeanMap:
        if steps > most:
            raise BudgetError(
                f"batches is {steps}, but the exact mean over shuffled samples is computed for at most "
                f'{most}; try fewer batches, or descend(..., method="auto").'
            )
        return exact_samples.mean_map(whitened(), shares)

    flops = exact_samples.flops(n, blocks.rows.shape[1], steps) if steps <= most else np.inf
    if most < steps == blocks.batches <= _MOST_ALONE and np.array_equal(sizes, divisors):
        # One sample per batch: fixed batches in a random order.
        alone = replace(blocks, divisors=divisors)
        mean, flops = partial(lattice.reshuffled_mean_map, alone, step), lattice.flops(alone)
    known = f"the exact mean over shuffled samples is known for at most {most} batches"
    return Task(steps, steps - 1, mean, flops, approximation, known)


_TASKS: dict[tuple[Shuffle, Unit], Callable[[Scheme, int, Blocks, float], Task]] = {
    (Shuffle.NEVER, Unit.BATCH): _one_batch,
    (Shuffle.EVERY_STEP, Unit.BATCH): _independent,
    (Shuffle.EVERY_STEP, Unit.SAMPLE): _independent,
    (Shuffle.EVERY_EPOCH, Unit.BATCH): _shuffled_batches,
    (Shuffle.EVERY_EPOCH, Unit.SAMPLE): _shuffled_samples,
    (Shuffle.EVERY_EPOCH, Unit.GROUP): _shuffled_samples,
}
