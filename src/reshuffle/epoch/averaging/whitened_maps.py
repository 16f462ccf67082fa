"""The averaged map of a symmetric epoch, from a pull: exact, a series, the cavity's, or that of drawn orders."""

from collections.abc import Callable

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray
from reshuffle._linalg import root_mean_square
from reshuffle.epoch.accuracy import Accuracy
from reshuffle.epoch.averaging import cavity, cavity_maps, draws, first_order, series
from reshuffle.epoch.averaging.cavity import Visiting
from reshuffle.epoch.averaging.control_variates import Control
from reshuffle.epoch.averaging.draws import DrawOrder
from reshuffle.epoch.averaging.low_degrees import Whitened
from reshuffle.epoch.mean_map import MeanMap


def exact_map(whitened: Whitened, pull: FloatArray, modifier: Callable[[int], FloatArray]) -> MeanMap:
    """The map of a pull (k, q) that is exact; `modifier` gives Pi_b in the basis V."""
    return MeanMap(
        whitened.factor, kernel(whitened, pull), pull * whitened.roots, whitened.unit, 1, 1.0,
        lambda atom: in_row_space(whitened, modifier(atom)),
    )  # fmt: skip


def by_series(whitened: Whitened, coefficients: FloatArray, contracts: bool) -> MeanMap:
    """The series in coincidences, with its bound."""
    pull = series.pull(whitened, coefficients)
    bound = series.error(whitened, coefficients, contracts=contracts)
    inner = kernel(whitened, pull)
    bounded = len(inner) and np.isfinite(bound.share)
    least = float(scipy.linalg.eigvalsh(inner)[0]) if bounded else 1.0
    share = bound.share / least if least > 0 else np.inf

    def modifier(atom: int) -> FloatArray:
        return in_row_space(whitened, series.modifier(whitened, coefficients, atom))

    return MeanMap(
        whitened.factor, inner, pull * whitened.roots, whitened.unit, 1, 1.0, modifier,
        method="series", error=share, pull_error=bound.pull,
    )  # fmt: skip


def by_sampling(whitened: Whitened, control: Control, draw: DrawOrder, accuracy: Accuracy) -> MeanMap:
    """Sampled orders, with a replica for each group of draws."""
    sampled = draws.sample(
        whitened, draw, control,
        rtol=accuracy.rtol, budget=accuracy.budget, rng=np.random.default_rng(accuracy.seed),
    )  # fmt: skip

    def modifier(atom: int) -> FloatArray:
        rng = np.random.default_rng(accuracy.seed)
        return in_row_space(whitened, draws.modifier(whitened, draw, atom, sampled.orders, rng))

    def made(pull: FloatArray, replicas: Callable[[], tuple[MeanMap, ...]] = tuple) -> MeanMap:
        return MeanMap(
            whitened.factor, kernel(whitened, pull.T), pull.T * whitened.roots, whitened.unit, 1, 1.0, modifier,
            method="sampling", error=float(sampled.errors.max(initial=0.0)),
            typical_error=root_mean_square(sampled.errors), make_replicas=replicas,
        )  # fmt: skip

    groups = range(len(sampled.groups))
    return made(sampled.pull, lambda: tuple(made(sampled.without(group)) for group in groups))


def kernel(whitened: Whitened, pull: FloatArray) -> FloatArray:
    """The symmetric part of Y O (k, k), for a pull Y (k, q)."""
    product = pull @ whitened.orthonormal
    return np.asarray((product + product.T) / 2)


def in_row_space(whitened: Whitened, inside: FloatArray) -> FloatArray:
    """M given in the basis V, as a matrix on the row space; directions that no row reaches stay as they are."""
    norms = np.sqrt(whitened.paces / whitened.unit) if whitened.unit else np.ones(len(whitened.paces))
    basis = whitened.factor / np.where(norms == 0, 1.0, norms)[:, np.newaxis]
    identity = np.eye(whitened.factor.shape[1])
    return np.asarray(identity + basis.T @ (inside - np.eye(len(norms))) @ basis)


def cavity_tolerance(rtol: float) -> float:
    """To which the cavity equation is solved: a good deal better than rtol."""
    return 1e-3 * min(rtol, 1e-2)


def by_cavity(whitened: Whitened, shares: FloatArray, rtol: float, spares: bool) -> MeanMap | None:
    """The cavity equation's map of shuffled samples, with a replica for every way in which it may be off.

    Parameters
    ----------
    shares : (B,)
        What each visit weighs: all alike, but for the last.
    rtol : float
        The equation is solved a good deal better than that.
    spares : bool
        Whether it is solved to first order wherever that can be done: all orders would take too long.
    """
    steps, k = len(shares), len(whitened.paces)
    visiting = Visiting(
        rows=whitened.orthonormal, grades=whitened.paces[np.newaxis], still=np.zeros((1, 1, k)),
        entry=np.ones(1), weight=float(shares[0]) / steps, last=float(shares[-1] / shares[0]), steps=steps,
        size=len(whitened.orthonormal) // whitened.atoms,
    )  # fmt: skip
    tolerance = cavity_tolerance(rtol)
    first = first_order.solve(visiting, tolerance)
    if first is not None and not (first.suffices or spares):
        first = None
    found = cavity.solve(visiting, tolerance) if first is None else first
    if found is None:
        return None

    def modifier(sample: int) -> FloatArray:
        root = np.sqrt(whitened.paces)
        inside = found.modifier(sample)
        return in_row_space(whitened, np.eye(k) - root[:, np.newaxis] * (inside + inside.T) / 2 * root)

    if first is None:
        inner, left_out = kernel(whitened, found.entries.T), tolerance
    else:
        inner, left_out = first.kernel, tolerance + first.left_out
    off = cavity_maps.neglected(visiting, found.entries, left_out)
    return cavity_map(whitened, (inner, found.entries), off, lambda: cavity_maps.put_off(off), modifier)


def cavity_map(
    whitened: Whitened,
    known: tuple[FloatArray, FloatArray],
    off: FloatArray,
    replicas: Callable[[], list[FloatArray]],
    modifier: Callable[[int], FloatArray],
) -> MeanMap:
    """The map of a kernel (k, k) and entries (n, k) that may be off by `off`, and of what these may be instead."""
    inner, entries = known
    errors = cavity_maps.shares(whitened.orthonormal, entries, off)

    def made(
        inner: FloatArray, entries: FloatArray, replicas: Callable[[], tuple[MeanMap, ...]] = tuple
    ) -> MeanMap:
        return MeanMap(
            whitened.factor, inner, entries.T * whitened.roots, whitened.unit, 1, 1.0, modifier,
            method="cavity", error=float(errors.max(initial=0.0)),
            typical_error=root_mean_square(errors), make_replicas=replicas,
        )  # fmt: skip

    def put_off() -> tuple[MeanMap, ...]:
        changes = ((each, kernel(whitened, each.T)) for each in replicas())
        return tuple(made(inner + in_kernel, entries + each) for each, in_kernel in changes)

    return made(inner, entries, put_off)
