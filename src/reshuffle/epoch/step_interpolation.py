"""Mean maps at many steps from those at a few: kernel and input map are polynomials in the step.

With B batches both have degree B - 1, so that B values give all others. One more is taken: the coefficient that
must then vanish is what rounding has done to the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.polynomial import chebyshev

from reshuffle._arrays import FloatArray
from reshuffle._linalg import chebyshev_transform, few_threads
from reshuffle.epoch import select
from reshuffle.epoch.epoch_map import MeanMap, products
from reshuffle.epoch.select import Accuracy, task
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.row_space import Blocks
from reshuffle.schemes.base import Scheme

_FORGIVEN = 1e-12
"""Accepted rounding of a kernel, relative to it."""
_WIDEST = 2.0
"""The ratio of the ends of a window where visits enlarge: its kernels then differ by a few digits at most."""
_NARROWEST = 0.9
"""The ratio of the ends of a window of steps that are nearly equal."""
_SMALLEST, _LARGEST = 1e-200, 1e6
"""Steps that are shared, relative to the gentle one; others are refused where they are computed."""


@dataclass(frozen=True, eq=False)
class Interval:
    """Steps that share their mean maps, and the nodes (m,) at which these are computed."""

    low: float
    high: float
    nodes: FloatArray
    steps: tuple[float, ...]

    def weights(self, step: float) -> FloatArray:
        """Weights (m,) of the values at the nodes in the value at a step."""
        place, count = 2 * (step - self.low) / (self.high - self.low) - 1, len(self.nodes)
        return np.asarray(chebyshev.chebvander(place, count - 1)[0] @ chebyshev_transform(count))

    @property
    def must_vanish(self) -> FloatArray:
        """Weights (m,) of the values at the nodes in the coefficient that is zero but for rounding."""
        return np.asarray(chebyshev_transform(len(self.nodes))[-1])


@dataclass(frozen=True, eq=False)
class StepWindow:
    """Mean maps at the nodes of an interval, from which those at all its steps follow."""

    interval: Interval
    blocks: Blocks  # the per-batch statistics
    first: MeanMap  # at the first node; factor and weight are common to all
    kernels: FloatArray  # K (m, ...) at the nodes
    input_maps: FloatArray | None  # A (m, ...); None if it is K
    products: FloatArray  # F'K F (m, r, r)
    entries: FloatArray  # F'A (m, r, rows)

    @cached_property
    def defect(self) -> float:
        """The coefficient of the kernel that is zero but for rounding."""
        return float(np.abs(_combined(self.interval.must_vanish, self.kernels)).max(initial=0.0))

    def mean(self, problem: LeastSquares, scheme: Scheme, step: float) -> MeanMap | None:
        """The mean map at a step; None where rounding would show, so that it must be computed by itself."""
        weights = self.interval.weights(step)
        kernel = _combined(weights, self.kernels)
        if not self.defect <= _FORGIVEN * float(np.abs(kernel).max(initial=0.0)):
            return None
        input_map = kernel if self.input_maps is None else _combined(weights, self.input_maps)
        scaled = _scaled(problem, step)

        def modifier(batch: int) -> FloatArray:
            return task(scheme, problem.n, self.blocks, scaled).exact().modifier(batch)

        made = _combined(weights, self.products), _combined(weights, self.entries)
        stride = scheme.steps(problem.n) * scaled
        return replace(
            self.first, kernel=kernel, input_map=input_map, stride=stride, modifier=modifier, products=made
        )


def intervals(
    problem: LeastSquares,
    scheme: Scheme,
    blocks: Blocks,
    accuracy: Accuracy,
    steps: Sequence[float],
    gentle: float,
) -> list[Interval]:
    """The intervals in which steps are many enough to share their mean maps; other steps are in none.

    At a `gentle` step every visit shrinks what it sees. Up to a few times that kernels are all of a size; beyond,
    they grow like a power of the step, and one interval would lose the digits of its small steps.
    """
    at_one = task(scheme, problem.n, blocks, 1.0)
    if not (np.isfinite(gentle) and select.averages_all_orders(at_one, accuracy)):
        return []
    found, count, high = [], at_one.steps + 1, _WIDEST * gentle
    remaining = sorted({step for step in steps if _SMALLEST * gentle < step < _LARGEST * gentle})
    while remaining:
        here = tuple(step for step in remaining if step <= high)
        remaining = remaining[len(here) :]
        high *= _WIDEST
        if len(here) > count:
            low = min(here[0], _NARROWEST * here[-1])
            nodes = low + (here[-1] - low) * (chebyshev.chebpts1(count) + 1) / 2
            found.append(Interval(low, here[-1], np.asarray(nodes), here))
    return found


def node_mean(problem: LeastSquares, scheme: Scheme, blocks: Blocks, step: float) -> MeanMap:
    """The exact mean map at one node, with its products."""
    with few_threads(np.sqrt(blocks.rows.size)):
        mean = task(scheme, problem.n, blocks, _scaled(problem, step)).exact()
        # Without its modifier, which would take the whole lattice along.
        return replace(mean, products=products(mean), modifier=_no_modifier)


def window(blocks: Blocks, interval: Interval, known: Sequence[MeanMap]) -> StepWindow:
    """The window of the mean maps at the nodes of an interval."""
    made = [products(mean) if mean.products is None else mean.products for mean in known]
    is_kernel = known[0].input_map is known[0].kernel
    return StepWindow(
        interval=interval,
        blocks=blocks,
        first=known[0],
        kernels=np.stack([mean.kernel for mean in known]),
        input_maps=None if is_kernel else np.stack([mean.input_map for mean in known]),
        products=np.stack([product for product, _ in made]),
        entries=np.stack([entry for _, entry in made]),
    )


def _no_modifier(batch: int) -> FloatArray:
    raise NotImplementedError(f"the modifier of batch {batch} is computed at the step itself.")


def _scaled(problem: LeastSquares, step: float) -> float:
    return step * problem.row_space.scale * problem.row_space.scale


def _combined(weights: FloatArray, values: FloatArray) -> FloatArray:
    return np.asarray(weights @ values.reshape(len(weights), -1)).reshape(values.shape[1:])
