"""The exact mean over the orders of a handful of batches: on the lattice of their subsets, whichever is cheaper."""

import math
from math import comb

import numpy as np

from reshuffle._core import FloatArray, IntArray
from reshuffle.epoch.accuracy import CALL
from reshuffle.epoch.lattice.parameter_lattice import ParameterLattice
from reshuffle.epoch.lattice.sample_lattice import SampleLattice
from reshuffle.epoch.lattice.subsets import MOST_BATCHES, available_bytes, require_few
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.errors import BudgetError
from reshuffle.problem.blocks import Blocks


def flops(blocks: Blocks) -> float:
    """Operations of the cheaper lattice, calls included; infinite with too many batches or too little memory."""
    if blocks.batches > MOST_BATCHES or _needed_bytes(blocks) > available_bytes():
        return math.inf
    return min(_flops_of_both(blocks)) + CALL * blocks.batches * 2.0 ** (blocks.batches - 1)


def reshuffled_mean_map(blocks: Blocks, step: float) -> MeanMap:
    """The mean over all B! orders of the batches, from 2^B matrices (section 3.1, Lemma batch_Z_symmetric)."""
    batches = blocks.batches
    require_few(batches)
    needed, available = _needed_bytes(blocks), available_bytes()
    if needed > available:
        raise BudgetError(
            f"batches is {batches}, and the exact mean over their orders needs {needed / 2**30:.1f} GiB of the "
            f"{available / 2**30:.1f} GiB that this machine can spare; "
            'try fewer batches, or descend(..., method="auto").'
        )
    over_samples, over_parameters = _flops_of_both(blocks)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = (
            _over_samples(blocks, step) if over_samples <= over_parameters else _over_parameters(blocks, step)
        )
    return mean.require_finite(batches)


def _over_samples(blocks: Blocks, step: float) -> MeanMap:
    lattice = SampleLattice(blocks, step)
    rows, kernel = blocks.rows, lattice.kernel()

    def modifier(batch: int) -> FloatArray:
        return np.eye(rows.shape[1]) - step * (rows.T @ lattice.prefix_mean(batch) @ rows)

    return MeanMap(rows, kernel, kernel, blocks.batches * step, 1, blocks.weight, modifier)


def _over_parameters(blocks: Blocks, step: float) -> MeanMap:
    lattice = ParameterLattice(blocks, step)
    factor = lattice.factor

    def modifier(batch: int) -> FloatArray:
        return np.eye(factor.shape[1]) - step * (factor.T @ lattice.prefix_means[batch] @ factor)

    return MeanMap(factor, lattice.kernel, lattice.pull, blocks.batches * step, 1, blocks.weight, modifier)


def _flops_of_both(blocks: Blocks) -> tuple[float, float]:
    return sample_flops(blocks.sizes), parameter_flops(blocks.batches, blocks.rows.shape[1])


def _needed_bytes(blocks: Blocks) -> float:
    over_samples, over_parameters = _flops_of_both(blocks)
    if over_samples <= over_parameters:
        return sample_bytes(blocks.sizes)
    return parameter_bytes(blocks.batches, blocks.rows.shape[1])


def sample_flops(sizes: IntArray) -> float:
    """Multiplications and additions of `SampleLattice.kernel`, for blocks of about equal size."""
    batches, size = len(sizes), float(np.mean(sizes))
    half = batches // 2
    layers = sum(
        batches * comb(batches - 1, done) * 2 * size * (done * size) ** 2 for done in range(batches - half)
    )
    halves = comb(batches, half) / (2 - batches % 2)
    meeting = halves * 2 * (half * size) * ((batches - half) * size) * (batches * size)
    return layers + meeting


def sample_bytes(sizes: IntArray) -> float:
    """Memory of the two largest layers that are alive together, and of two matrices beside them."""
    batches, size = len(sizes), float(np.mean(sizes))
    top = batches - batches // 2
    layers = sum(comb(batches, done) * (done * size) ** 2 for done in (top - 1, top))
    return 8 * (layers + 2 * (batches * size) ** 2)


def parameter_flops(batches: int, rank: int) -> float:
    """Multiplications and additions of a `ParameterLattice`."""
    return batches * 2.0 ** (batches - 1) * 2 * rank**3


def parameter_bytes(batches: int, rank: int) -> float:
    """Memory of the two largest layers, and of the statistics of the batches."""
    return 8.0 * rank**2 * (comb(batches + 1, (batches + 1) // 2) + 3 * batches)
