"""Mean maps of the cavity equation, with replicas that are perturbed by an estimate of what it neglects.

What is neglected are samples that meet crosswise, i, j, i, j. To leading order they change the entry of sample i by
sum_j g_ij^3 E_j, where E_j is the entry of sample j and g_ij what both do to each other in the course of an epoch;
a sample that has a direction to itself is off by about g_ii^2 / n. Signs and factors of order one are unknown.
So answers are computed from several maps that are perturbed by that much: in all modes alike, in every mode by
chance, in every sample by chance. The factor is calibrated on problems whose means are known exactly
(benchmarks/cavity_coverage.py).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._linalg import root_mean_square
from reshuffle.epoch.averaging import cavity, first_order
from reshuffle.epoch.averaging.cavity import Visiting
from reshuffle.epoch.averaging.samples import Whitened, in_row_space, kernel
from reshuffle.epoch.epoch_map import EpochMap, MeanMap
from reshuffle.epoch.visits import Visits

_FACTOR = 3.0  # calibrated: answers are within the error in more than 99 of 100 cases
_FACTOR_OF_GROUPS, _CHANCE_OF_GROUPS = 2.0, 0.7
"""Factors for groups, whose leading error has a sign: replicas with random signs are perturbed by less."""
_FINEST_OF_ROUNDS = 1e-12  # a change from round to round that is rounding
_OF_GROUPS, _FINEST = 0.1, 1e-8
"""Tolerance of the equation for groups, relative to what it neglects, and the smallest one."""
_SATURATES = 3.0  # the error grows with the effect s of an epoch on a mode like s / (1 + s / 3)
_MOST_OPERATIONS = 2e10
_CHUNK = 256  # samples whose meetings with all that come after are computed at a time
_BY_CHANCE = 2
_AFTERWARDS = 0.25
"""Mean error of the mean map in the course of an epoch, relative to that after it: it grows like a third power."""
_MOST_ENTRIES = 1e7  # entries of an input map up to which several replicas of it are made
_TOLERANCE = 1e-7
"""Tolerance of the equation with momentum or a penalty, relative to the mean map: far below what it neglects."""


def neglected(
    visiting: Visiting, entries: FloatArray, tolerance: float, of_groups: FloatArray | None = None
) -> FloatArray:
    """Estimated error (n, d) of the entries (n, d) of the samples.

    `tolerance` is that of the iteration, `of_groups` the leading error of groups, if that is known already.
    """
    rows, strength, own = visiting.rows, visiting.strength, visiting.strengths
    n, k = rows.shape
    if visiting.steps <= 2 or 4.0 * n * n * (k + visiting.size) > _MOST_OPERATIONS:
        return by_own_meetings(visiting, rows, entries, tolerance)
    if visiting.size > 1:
        missed = _of_groups(visiting) if of_groups is None else of_groups
        off = _FACTOR_OF_GROUPS * visiting.weight * visiting.steps * missed
        return np.asarray(tolerance * entries + np.hstack([part * off for part in visiting.entry]))
    crosswise = (own**2 / n + tolerance)[:, np.newaxis] * entries
    for start in range(0, n, _CHUNK):
        # Every pair once, for both of its samples.
        end = min(start + _CHUNK, n)
        met = (rows[start:end] * strength) @ rows[start:].T
        met[np.arange(end - start), np.arange(end - start)] = 0.0
        # A power of three is taken by pow, which is fifty times as slow as two products.
        cubes = met * met
        cubes *= met
        crosswise[start:end] += cubes @ entries[start:]
        crosswise[end:] += cubes[:, end - start :].T @ entries[start:end]
    # A sample that overshoots on its visit does more than an epoch leaves of it.
    overshot = np.maximum(visiting.self_responses, 1.0)[:, np.newaxis]
    return np.asarray(_FACTOR * overshot**2 * crosswise)


def _of_groups(visiting: Visiting) -> FloatArray:
    """Leading error (n m, k) of the entries of groups of m rows, with propagators of independent visits.

    With D_b = U_b'U_b - I / n and S what an epoch does to the modes, the equation misses of the entry of group b

        - (D_b S^2 + S D_b S) U_b' / (6 n) + (D_b S D_b S - mean) U_b' / (3 (n - 2))
        - sum_a D_a S D_b S D_a S U_b' / 24:

    the others are drawn without b as well; b is missing twice; two groups meet crosswise.
    """
    n, steps, size = visiting.samples, visiting.steps, visiting.size
    s = np.maximum(visiting.weight * steps * np.abs(visiting.along[0]), visiting.strength)
    s = (s / (1 + s / _SATURATES))[:, np.newaxis]
    groups = visiting.rows.reshape(n, size, -1)
    columns = groups.swapaxes(1, 2)

    def centred(matrices: FloatArray) -> FloatArray:
        return np.asarray(columns @ (groups @ matrices) - matrices / n)

    flat = visiting.rows
    mean, mean_of_squares = (
        flat.T @ ((groups * weight[:, 0]) @ columns @ groups).reshape(flat.shape) for weight in (s, s**2)
    )
    mean[np.diag_indices(len(s))] -= s[:, 0] / n
    twice = centred(s * centred(s * columns)) - mean @ (s * columns) / n
    off = -(centred(s**2 * columns) + s * centred(s * columns)) / (6 * n) + twice / (3 * max(n - 2, 1))
    off *= (n / max(n - 1, 1)) ** 2
    others = mean_of_squares @ (s * columns) + s * centred(s**2 * columns)
    crosswise, weighted = np.zeros_like(flat), flat * s[:, 0]
    for start, own in zip(range(0, len(flat), size), groups, strict=True):
        # Every pair of groups once: what one does to the other is the transpose of what that does to it.
        met = (weighted[start:] @ own.T).reshape(-1, size, size)
        thrice = (met @ (met.swapaxes(1, 2) @ met)).reshape(-1, size)
        crosswise[start : start + size] += thrice.T @ flat[start:]
        crosswise[start + size :] += thrice[size:] @ own
    off -= (crosswise.reshape(groups.shape).swapaxes(1, 2) - others / n) / 24
    return np.asarray(off.swapaxes(1, 2).reshape(flat.shape))


def by_own_meetings(
    visiting: Visiting, rows: FloatArray, entries: FloatArray, tolerance: float
) -> FloatArray:
    """Estimated error of the entries of some samples (m, k) where pairs are too many to be computed.

    The squares of the samples' own meetings are more than those of pairs; of two visits nothing is neglected.
    """
    if visiting.size > 1 and visiting.steps > 2:
        between = visiting.own_strengths(rows)
        samples = entries.reshape(len(between), visiting.size, -1)
        return np.asarray(tolerance * entries + (between @ between @ samples).reshape(entries.shape))
    own = visiting.strengths_of(rows) if visiting.steps > 2 else np.zeros(len(rows))
    return np.asarray((np.square(own) + tolerance)[:, np.newaxis] * entries)


def perturbed(visiting: Visiting, rows: FloatArray, off: FloatArray) -> list[FloatArray]:
    """Errors (n, d) of the entries of samples `rows` (n, k), by how they may add up.

    What the samples themselves are off by, together, with random signs per mode, and per sample; and what all are
    off by since the visits after their own are: the error of the mean map, as it grows in the course of an epoch.
    Of rows that do little by themselves it is the larger one.
    """
    n, d = off.shape
    if n * d > _MOST_ENTRIES:
        return perturbed_together(off)
    rng, share = np.random.default_rng(0), _CHANCE_OF_GROUPS if visiting.size > 1 else 1.0
    by_mode = rng.choice([-1.0, 1.0], size=(_BY_CHANCE, 1, d))
    by_sample = rng.choice([-1.0, 1.0], size=(_BY_CHANCE, n, 1))
    effect = visiting.weight * visiting.steps * visiting.entry[0] * visiting.grades[0]
    common = rows * (_AFTERWARDS * effect / (1 + effect / _SATURATES)) @ (rows.T @ off)
    return [off, off - common, *(share * off * signs for signs in [*by_mode, *by_sample])]


def perturbed_together(off: FloatArray) -> list[FloatArray]:
    """The error of large problems in one direction, large enough for the others."""
    return [_BY_CHANCE * off]


def shares_of(rows: FloatArray, entries: FloatArray, off: FloatArray) -> FloatArray:
    """Relative errors of the decay rates of the modes (k,), for samples `rows` (n, k)."""
    k = rows.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.einsum("ik,ik->k", off[:, :k], rows) / np.einsum("ik,ik->k", entries[:, :k], rows)
    return np.where(np.isnan(share), 0.0, np.abs(share))


def cavity_tolerance(rtol: float) -> float:
    """Tolerance of the cavity equation: a good deal better than rtol."""
    return max(1e-3 * min(rtol, 1e-2), _FINEST_OF_ROUNDS)


def by_cavity(whitened: Whitened, shares: FloatArray, rtol: float, spares: bool) -> MeanMap | None:
    """The cavity equation's map of shuffled samples, with perturbed replicas that carry its error.

    Parameters
    ----------
    shares : (B,)
        The weight of each visit: all alike, but for the last.
    rtol : float
        The equation is solved a good deal better than that.
    spares : bool
        Solve to first order wherever that is possible: all orders would take too long.
    """
    steps, k, size = len(shares), len(whitened.decay_rates), int(whitened.sizes.max())
    # Groups of fewer rows than others are filled with zeros.
    filled = np.arange(size) < whitened.sizes[:, np.newaxis]
    rows = np.zeros((*filled.shape, k))
    rows[filled] = whitened.orthonormal
    places = np.flatnonzero(filled)
    visiting = Visiting(
        rows=rows.reshape(filled.size, k), grades=whitened.decay_rates[np.newaxis], still=np.zeros((1, 1, k)),
        entry=np.ones(1), weight=float(shares[0]) / steps, last=float(shares[-1] / shares[0]), steps=steps,
        size=size,
    )  # fmt: skip
    tolerance, of_groups = cavity_tolerance(rtol), None
    if size > 1:
        # What is neglected is known beforehand, and the error of the rounds must be small relative to it.
        of_groups = _of_groups(visiting)
        missed = root_mean_square(shares_of(visiting.rows, visiting.rows, of_groups))
        tolerance = min(tolerance, max(_OF_GROUPS * missed, _FINEST))
    first = first_order.solve(visiting, tolerance)
    if first is not None and not (first.suffices or spares):
        first = None
    found = cavity.solve(visiting, tolerance) if first is None else first
    if found is None:
        return None

    def modifier(sample: int) -> FloatArray:
        root = np.sqrt(whitened.decay_rates)
        inside = found.modifier(sample)
        return in_row_space(whitened, np.eye(k) - root[:, np.newaxis] * (inside + inside.T) / 2 * root)

    entries, samples = found.entries[places], visiting.rows[places]
    if first is None:
        inner, left_out = kernel(whitened, entries.T), tolerance
    else:
        inner, left_out = first.kernel, tolerance + first.left_out
    off = neglected(visiting, found.entries, left_out, of_groups)[places]
    return cavity_map(whitened, inner, entries, off, partial(perturbed, visiting, samples, off), modifier)


def cavity_map(
    whitened: Whitened,
    inner: FloatArray,
    entries: FloatArray,
    off: FloatArray,
    perturbations: Callable[[], list[FloatArray]],
    modifier: Callable[[int], FloatArray],
) -> MeanMap:
    """The map of a kernel (k, k) and entries (n, k) of error `off`, with perturbed replicas."""
    errors = shares_of(whitened.orthonormal, entries, off)
    mean = MeanMap(
        whitened.factor, inner, entries.T * whitened.roots, whitened.unit, 1, 1.0, modifier, method="cavity",
        error=float(errors.max(initial=0.0)), missed=root_mean_square(errors),
    )  # fmt: skip

    def replica(each: FloatArray) -> MeanMap:
        inputs = (entries + each).T * whitened.roots
        return replace(mean, kernel=inner + kernel(whitened, each.T), input_map=inputs)

    return replace(mean, make_replicas=lambda: tuple(map(replica, perturbations())))


def epoch_map(visits: Visits, force: FloatArray, shares: FloatArray) -> EpochMap | None:
    """The cavity equation's map of an epoch, with perturbed replicas that carry its error; None without a solution.

    Parameters
    ----------
    visits : Visits
    force : (r,)
        Minus the gradient of the penalty, which enters at every visit with the constant input 1.
    shares : (B,)
        The weight of each visit.
    """
    visiting = visiting_of(visits, shares)
    found = cavity.solve(visiting, _TOLERANCE)
    if found is None:
        return None
    weight, sizes = visits.sizes_of(visiting.steps, force)
    constant = found.pushed(visits.pushed(force, 0)[:, np.newaxis])

    def made(off: FloatArray) -> EpochMap:
        kernel = found.kernel.copy()
        kernel[:, : visits.rank] += off.T @ visiting.rows
        entries = np.hstack([constant, (found.entries + off).T])
        return EpochMap(visits.left, visits.right, kernel, entries, weight, sizes)

    off = neglected(visiting, found.entries, _TOLERANCE)
    missed = root_mean_square(shares_of(visiting.rows, found.entries, off))
    return replace(
        made(np.zeros_like(off)), method="cavity", missed=missed,
        make_replicas=lambda: tuple(map(made, perturbed(visiting, visiting.rows, off))),
    )  # fmt: skip


def visiting_of(visits: Visits, shares: FloatArray) -> Visiting:
    """An epoch of visits in the terms of the cavity equation: K_b = K_0 + P U_b'U_b Q / m_b."""
    rows, k = visits.unit.shape
    parts = visits.dimension // k if k else 1
    entry, still = visits.rank_one_parts()
    return Visiting(
        rows=visits.unit, grades=(visits.left * visits.right).reshape(parts, k), still=still, entry=entry,
        weight=float(shares[0]) / rows, last=float(shares[-1] / shares[0]), steps=len(shares),
        size=rows // visits.blocks.batches,
    )  # fmt: skip


def beyond_numbers(visits: Visits, steps: int) -> EpochMap:
    """The map where not even the equation has a solution: it grows without bound."""
    d, rows = visits.dimension, len(visits.blocks.rows)
    weight, sizes = visits.sizes_of(steps, np.zeros(visits.rank))
    kernel, entries = np.full((d, d), np.inf), np.full((d, 1 + rows), np.inf)
    return EpochMap(visits.left, visits.right, kernel, entries, weight, sizes)
