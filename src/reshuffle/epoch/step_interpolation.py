"""Mean maps at many steps from those at a few: kernel and input map are polynomials in the step.

With B batches both have degree B - 1, so that B values tell all others. One more is taken: the coefficient that
must then vanish tells what rounding has done to the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev

from reshuffle._arrays import FloatArray
from reshuffle._linalg import chebyshev_transform, few_threads
from reshuffle.epoch import select
from reshuffle.epoch.mean_map import MeanMap, products
from reshuffle.epoch.select import Accuracy, task
from reshuffle.problem.batches import Blocks
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.schemes.base import Scheme

_FORGIVEN = 1e-12
"""Accepted rounding of a kernel, relative to it."""
_WIDEST = 2.0
"""The ratio of the ends of a window where visits enlarge: its kernels then differ by a few digits at most."""
_NARROWEST = 0.9
"""The ratio of the ends of a window of steps that are nearly equal."""
_SMALLEST, _LARGEST = 1e-200, 1e6
"""Steps that are shared, relative to the gentle one; others are left to those who refuse them."""


@dataclass(frozen=True, eq=False)
class Interval:
    """Steps that share their mean maps, and the nodes (m,) at which these are computed."""

    low: float
    high: float
    nodes: FloatArray
    steps: tuple[float, ...]

    def weights(self, step: float) -> FloatArray:
        """Weights (m,) of the values at the nodes in the value at a step."""
        place = 2 * (step - self.low) / (self.high - self.low) - 1
        return np.asarray(chebyshev.chebvander(place, len(self.nodes) - 1)[0] @ self._transform)

    @property
    def _transform(self) -> FloatArray:
        """Coefficients of Chebyshev polynomials from values at the nodes (m, m)."""
        return chebyshev_transform(len(self.nodes))

    @property
    def must_vanish(self) -> FloatArray:
        """Weights (m,) of the values at the nodes in the coefficient that is zero but for rounding."""
        return np.asarray(self._transform[-1])


@dataclass(frozen=True, eq=False)
class NodeMean:
    """The mean map at one node: F, K, A unless it is K, F'K F (r, r), F'A (r, rows), the weight."""

    factor: FloatArray
    kernel: FloatArray
    input_map: FloatArray | None
    product: FloatArray
    entry: FloatArray
    weight: float


@dataclass(frozen=True, eq=False)
class StepWindow:
    """Mean maps at the nodes of an interval, from which those at all its steps follow.

    Attributes
    ----------
    interval : Interval
    blocks : Blocks
        The per-batch statistics.
    factor : (q, r)
    kernels, pulls, products, entries : (m, ...)
        K, A (None if it is K), F'K F and F'A at the nodes.
    weight : float
        As in `MeanMap`.
    defect : float
        The coefficient of the kernel that is zero but for rounding.
    """

    interval: Interval
    blocks: Blocks
    factor: FloatArray
    kernels: FloatArray
    pulls: FloatArray | None
    products: FloatArray
    entries: FloatArray
    weight: float
    defect: float

    def mean(self, problem: LeastSquares, scheme: Scheme, step: float) -> MeanMap | None:
        """The mean map at a step; None where rounding would show, so that it must be computed by itself."""
        weights = self.interval.weights(step)
        kernel = _combined(weights, self.kernels)
        if not self.defect <= _FORGIVEN * float(np.abs(kernel).max(initial=0.0)):
            return None
        input_map = kernel if self.pulls is None else _combined(weights, self.pulls)
        scaled = _scaled(problem, step)

        def modifier(batch: int) -> FloatArray:
            return task(scheme, problem.n, self.blocks, scaled).exact().modifier(batch)

        products = _combined(weights, self.products), _combined(weights, self.entries)
        stride = scheme.steps(problem.n) * scaled
        return MeanMap(self.factor, kernel, input_map, stride, 1, self.weight, modifier, products=products)


def intervals(
    problem: LeastSquares,
    scheme: Scheme,
    blocks: Blocks,
    accuracy: Accuracy,
    steps: Sequence[float],
    gentle: float,
) -> list[Interval]:
    """The intervals in which steps are many enough to share their mean maps; other steps are in none.

    Parameters
    ----------
    steps : sequence of float
    gentle : float
        A step at which every visit shrinks what it sees. Up to a few times that kernels are all of a size; from
        there on they grow like a power of the step, and one interval would lose the digits of its small steps.
    """
    at_one = task(scheme, problem.n, blocks, 1.0)
    if not (np.isfinite(gentle) and select.averages_all_orders(at_one, accuracy)):
        return []
    found = []
    remaining = sorted({step for step in steps if _SMALLEST * gentle < step < _LARGEST * gentle})
    high = _WIDEST * gentle
    while remaining:
        here = tuple(step for step in remaining if step <= high)
        remaining = remaining[len(here) :]
        high *= _WIDEST
        if len(here) > at_one.degree + 2:
            found.append(_interval(here, at_one.degree + 2))
    return found


def _interval(steps: tuple[float, ...], count: int) -> Interval:
    low, high = min(steps[0], _NARROWEST * steps[-1]), steps[-1]
    nodes = low + (high - low) * (chebyshev.chebpts1(count) + 1) / 2
    return Interval(low, high, np.asarray(nodes), steps)


def node_mean(problem: LeastSquares, scheme: Scheme, blocks: Blocks, step: float) -> NodeMean:
    """The exact mean map at one node."""
    with few_threads(np.sqrt(blocks.rows.size)):
        mean = task(scheme, problem.n, blocks, _scaled(problem, step)).exact()
        product, entry = products(mean)
    # Without the function that goes with it, which would take the whole lattice along.
    input_map = None if mean.input_map is mean.kernel else mean.input_map
    return NodeMean(mean.factor, mean.kernel, input_map, product, entry, mean.weight)


def window(blocks: Blocks, interval: Interval, known: Sequence[NodeMean]) -> StepWindow:
    """Put together what is known at the nodes of an interval."""
    kernels = _stacked([node.kernel for node in known])
    return StepWindow(
        interval=interval,
        blocks=blocks,
        factor=known[0].factor,
        kernels=kernels,
        pulls=None
        if known[0].input_map is None
        else _stacked([node.input_map for node in known if node.input_map is not None]),
        products=_stacked([node.product for node in known]),
        entries=_stacked([node.entry for node in known]),
        weight=known[0].weight,
        defect=float(np.abs(_combined(interval.must_vanish, kernels)).max(initial=0.0)),
    )


def _scaled(problem: LeastSquares, step: float) -> float:
    scale = problem.row_space.scale
    return step * scale * scale


def _stacked(values: Sequence[FloatArray]) -> FloatArray:
    # In one piece each, or combinations would copy all of it every time.
    return np.ascontiguousarray(np.stack(values))


def _combined(weights: FloatArray, values: FloatArray) -> FloatArray:
    return np.asarray(weights @ values.reshape(len(weights), -1)).reshape(values.shape[1:])
