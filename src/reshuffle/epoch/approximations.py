"""Means of a symmetric epoch in the coordinates of `Whitened`: from low degrees, the series, or drawn orders."""

from collections.abc import Callable

import numpy as np
import scipy.linalg

from reshuffle._core.arrays import FloatArray
from reshuffle.epoch import draws, low_degrees, series
from reshuffle.epoch.accuracy import Accuracy
from reshuffle.epoch.draws import DrawOrder
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.epoch.whitened import Whitened


def exact_map(whitened: Whitened, pull: FloatArray, modifier: Callable[[int], FloatArray]) -> MeanMap:
    """The map of a pull (k, q) that is exact; `modifier` gives Pi_b in the basis V."""
    return MeanMap(
        whitened.factor, _kernel(whitened, pull), pull * whitened.roots, whitened.unit, 1, 1.0,
        lambda atom: _in_row_space(whitened, modifier(atom)),
    )  # fmt: skip


def by_series(whitened: Whitened, coefficients: FloatArray, contracts: bool) -> MeanMap:
    """The series in coincidences, with its bound."""
    pull = series.pull(whitened, coefficients)
    bound = series.error(whitened, coefficients, contracts=contracts)
    kernel = _kernel(whitened, pull)
    bounded = len(kernel) and np.isfinite(bound.share)
    least = float(scipy.linalg.eigvalsh(kernel)[0]) if bounded else 1.0
    share = bound.share / least if least > 0 else np.inf

    def modifier(atom: int) -> FloatArray:
        return _in_row_space(whitened, series.modifier(whitened, coefficients, atom))

    return MeanMap(
        whitened.factor, kernel, pull * whitened.roots, whitened.unit, 1, 1.0, modifier,
        method="series", error=share, pull_error=bound.pull,
    )  # fmt: skip


def by_sampling(whitened: Whitened, coefficients: FloatArray, draw: DrawOrder, accuracy: Accuracy) -> MeanMap:
    """Sampled orders, with a replica for each group of draws."""
    low = low_degrees.up_to_two(whitened, coefficients)
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
