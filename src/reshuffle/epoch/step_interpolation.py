"""Mean maps at many steps from those at a few: kernel and input map are polynomials in the step.

With B batches both have degree B - 1, so that B values give all others. One more is taken: the coefficient that
must then vanish is what rounding has done to the others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.polynomial import chebyshev

from reshuffle._arrays import FloatArray
from reshuffle._linalg import chebyshev_transform, few_threads
from reshuffle.epoch.epoch_map import MeanMap
from reshuffle.epoch.select import Accuracy, averages_all_orders, exact_mean, of_symmetric_epoch
from reshuffle.problem.row_space import Blocks
from reshuffle.schemes.base import Scheme, contracting_step

_FORGIVEN = 1e-12  # accepted rounding of a kernel, relative to it
_WIDEST = 2.0
"""The ratio of the ends of an interval where visits enlarge: its kernels then differ by a few digits at most."""
_NARROWEST = 0.9  # the ratio of the ends of an interval of steps that are nearly equal
_SMALLEST, _LARGEST = 1e-200, 1e6
"""Steps that are shared, relative to the contracting one; others are refused where they are computed."""


def shared_means(
    scheme: Scheme, n: int, blocks: Blocks, accuracy: Accuracy, steps: Sequence[float]
) -> Iterator[tuple[float, MeanMap]]:
    """Mean maps at those of the (scaled) steps that are many enough to be interpolated.

    At the contracting step every visit shrinks what it sees. Up to twice that, all steps share one interval;
    beyond, kernels grow like a power of the step, and one interval would lose the digits of its small steps.
    """
    gentle, at_one = contracting_step(scheme, n, blocks), of_symmetric_epoch(scheme, n, blocks, 1.0)
    if not (np.isfinite(gentle) and averages_all_orders(at_one, accuracy)):
        return
    count, high = scheme.steps(n) + 1, _WIDEST * gentle
    remaining = sorted({step for step in steps if _SMALLEST * gentle < step < _LARGEST * gentle})
    while remaining:
        here, remaining = [s for s in remaining if s <= high], [s for s in remaining if s > high]
        high *= _WIDEST
        if len(here) > count:
            yield from _interpolated(scheme, n, blocks, here, count)


def _interpolated(
    scheme: Scheme, n: int, blocks: Blocks, steps: list[float], count: int
) -> Iterator[tuple[float, MeanMap]]:
    """Mean maps at ascending steps from those at `count` Chebyshev nodes, but where rounding would show."""
    low, transform = min(steps[0], _NARROWEST * steps[-1]), chebyshev_transform(count)
    half = (steps[-1] - low) / 2
    with few_threads(np.sqrt(blocks.rows.size)):
        nodes = (low + half * (1 + chebyshev.chebpts1(count))).tolist()
        known = [exact_mean(scheme, n, blocks, node)[0]() for node in nodes]
    kernels = np.array([mean.kernel for mean in known])
    is_kernel = known[0].input_map is known[0].kernel
    input_maps = kernels if is_kernel else np.array([mean.input_map for mean in known])
    vanishes = np.abs(np.tensordot(transform[-1], kernels, 1)).max(initial=0.0)
    for step in steps:
        weights = chebyshev.chebvander((step - low) / half - 1, count - 1)[0] @ transform
        kernel = np.tensordot(weights, kernels, 1)
        if vanishes <= _FORGIVEN * np.abs(kernel).max(initial=0.0):

            def modifier(batch: int, step: float = step) -> FloatArray:
                return exact_mean(scheme, n, blocks, step)[0]().modifier(batch)

            input_map = kernel if is_kernel else np.tensordot(weights, input_maps, 1)
            stride = scheme.steps(n) * step
            yield (
                step,
                replace(known[0], kernel=kernel, input_map=input_map, stride=stride, modifier=modifier),
            )
