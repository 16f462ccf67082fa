"""Which method averages an epoch: the exact one within the budget, else the series, else sampled orders."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from reshuffle._core.arrays import FloatArray
from reshuffle.epoch import draws, low_degrees, series
from reshuffle.epoch.accuracy import Accuracy, require_affordable, warn_out_of_reach
from reshuffle.epoch.draws import DrawOrder
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.epoch.whitened import Whitened


@dataclass(frozen=True, eq=False)
class Task:
    """An epoch to be averaged.

    Attributes
    ----------
    exact : callable
        Averages over all orders.
    exact_flops : float
        What that costs; infinite if it cannot be done.
    whitened : callable
        The rows in the coordinates of the other methods.
    coefficients : array
        Those of the series.
    contracts : bool
        Whether the atoms are batches, between whose visits nothing is enlarged.
    draw : callable
        whitened -> a way to draw orders.
    steps : int
        The visits of an epoch.
    """

    exact: Callable[[], MeanMap]
    exact_flops: float
    whitened: Callable[[], Whitened]
    coefficients: FloatArray
    contracts: bool
    draw: Callable[[Whitened], DrawOrder]
    steps: int


def mean_map(task: Task, accuracy: Accuracy) -> MeanMap:
    """Average by the method asked for.

    "auto" takes the exact mean where it fits the budget; otherwise the series, if its bound meets rtol within the
    budget; otherwise sampling. Where rtol is out of reach, the more accurate of the last two, and a warning.
    """
    method = accuracy.method
    if method == "exact" and np.isfinite(task.exact_flops):
        require_affordable(
            task.exact_flops, accuracy.budget, f"the exact mean over the orders of {task.steps} batches",
            'try fewer batches, a larger budget, or method="auto"',
        )  # fmt: skip
    if method == "exact" or (method == "auto" and task.exact_flops <= accuracy.budget):
        return task.exact()
    with np.errstate(over="ignore", invalid="ignore"):
        mean = _approximate(task, accuracy).require_finite(task.steps)
    return _told(mean, accuracy)


def _approximate(task: Task, accuracy: Accuracy) -> MeanMap:
    method, whitened = accuracy.method, task.whitened()
    summed = None
    if method == "series" or (method == "auto" and _may_reach(whitened, task, accuracy)):
        summed = by_series(whitened, task)
        if method == "series" or summed.error <= accuracy.rtol:
            return summed
    sampled = by_sampling(whitened, task, accuracy)
    return summed if summed is not None and summed.error < sampled.error else sampled


def _may_reach(whitened: Whitened, task: Task, accuracy: Accuracy) -> bool:
    """Whether the series is worth summing, told from its bound, which costs next to nothing."""
    bound = series.error(whitened, task.coefficients, contracts=task.contracts)
    return bound.share <= accuracy.rtol and series.flops(whitened) <= accuracy.budget


def _told(mean: MeanMap, accuracy: Accuracy) -> MeanMap:
    if mean.error > accuracy.rtol:
        advice = (
            "try a larger budget, a larger rtol or a smaller step"
            if mean.method == "sampling"
            else 'try a smaller step, or method="auto"'
        )
        warn_out_of_reach(mean.error, mean.method, accuracy.rtol, advice)
    return mean


def exact_map(whitened: Whitened, pull: FloatArray, modifier: Callable[[int], FloatArray]) -> MeanMap:
    """The map of a pull (k, q) that is exact; `modifier` gives Pi_b in the basis V."""
    return MeanMap(
        whitened.factor, _kernel(whitened, pull), pull * whitened.roots, whitened.unit, 1, 1.0,
        lambda atom: _in_row_space(whitened, modifier(atom)),
    )  # fmt: skip


def by_series(whitened: Whitened, task: Task) -> MeanMap:
    """The series in coincidences, with its bound."""
    pull = series.pull(whitened, task.coefficients)
    bound = series.error(whitened, task.coefficients, contracts=task.contracts)
    kernel = _kernel(whitened, pull)
    bounded = len(kernel) and np.isfinite(bound.share)
    least = float(scipy.linalg.eigvalsh(kernel)[0]) if bounded else 1.0
    share = bound.share / least if least > 0 else np.inf

    def modifier(atom: int) -> FloatArray:
        return _in_row_space(whitened, series.modifier(whitened, task.coefficients, atom))

    return MeanMap(
        whitened.factor, kernel, pull * whitened.roots, whitened.unit, 1, 1.0, modifier,
        method="series", error=share, pull_error=bound.pull,
    )  # fmt: skip


def by_sampling(whitened: Whitened, task: Task, accuracy: Accuracy) -> MeanMap:
    """Sampled orders, with a replica for each group of draws."""
    draw = task.draw(whitened)
    low = low_degrees.up_to_two(whitened, task.coefficients)
    sampled = draws.sample(
        whitened, draw, low,
        rtol=accuracy.rtol, budget=accuracy.budget, rng=np.random.default_rng(accuracy.seed),
    )  # fmt: skip

    def modifier(atom: int) -> FloatArray:
        rng = np.random.default_rng(accuracy.seed)
        return _in_row_space(whitened, draws.modifier(whitened, draw, atom, sampled.orders, rng))

    def made(pull: FloatArray, replicas: tuple[MeanMap, ...] = ()) -> MeanMap:
        return MeanMap(
            whitened.factor, _kernel(whitened, pull.T), pull.T * whitened.roots, whitened.unit, 1, 1.0, modifier,
            method="sampling", error=sampled.error, replicas=replicas,
        )  # fmt: skip

    return made(sampled.pull, tuple(made(sampled.without(group)) for group in range(len(sampled.groups))))


def _kernel(whitened: Whitened, pull: FloatArray) -> FloatArray:
    kernel = pull @ whitened.orthonormal
    return np.asarray((kernel + kernel.T) / 2)


def _in_row_space(whitened: Whitened, inside: FloatArray) -> FloatArray:
    """M given in the basis V, as a matrix on the row space; directions that no row reaches stay as they are."""
    norms = np.sqrt(whitened.rates / whitened.unit) if whitened.unit else np.ones(len(whitened.rates))
    basis = whitened.factor / np.where(norms == 0, 1.0, norms)[:, np.newaxis]
    identity = np.eye(whitened.factor.shape[1])
    return np.asarray(identity + basis.T @ (inside - np.eye(len(norms))) @ basis)
