"""Leaving out shuffled samples, through the cavity equation: what a sample meets on its turn is made without it.

With a_i(t) = x_i'E[first t visits | sample i not among them] of `epoch.cavity`, and sample i as likely at one visit
as at any other,

    A_i = A + (w / B) sum_t a_i(B-1-t)' a_i(t),   g_i = g - (w / B) sum_t a_i(B-1-t)' alpha_i(t),

where alpha_i(t) = y_i - x_i'E[what the first t visits have learned | i not among them] solves an equation like that
of a_i: alpha_i(t) = alpha0_i(t) + e sum_{s<t} g_i(t-1-s) alpha_i(s), alpha0_i(t) = y_i - x_i'Nbar_t, with the same
echoes, and Nbar_t what the mean run has learned with another sample in the place of i.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import root_mean_square
from reshuffle.epoch.averaging import cavity, cavity_maps
from reshuffle.epoch.averaging.cavity import Solution, Visiting, are_alike
from reshuffle.epoch.averaging.low_degrees import Whitened
from reshuffle.validation.descent import Descent
from reshuffle.validation.leave_one_out_formula import LeftOutRows, standing_still
from reshuffle.validation.looks import Looks, Residuals, chunked, no_one, weighted

_TOLERANCE = 1e-9
_MOST_ROUNDS = 200
_SMALL, _OVERSHOOTS = 0.1, 1.0
"""Shares up to which errors hold to first order, and the self response of a row from which on they say nothing.

Without drawn orders, on 540 problems like those of `python -m benchmarks.cavity_coverage rows`: below a self
response of one no answer is off by more than half its error, at 1.2 one of 212 is off by 1.3 times its error, and
from 2 on some are by any factor.
"""


def exists(descent: Descent) -> bool:
    """Whether all visits weigh the same."""
    shares = _shares(descent)
    return are_alike(shares) and bool(shares[-1] == shares[0])


def _shares(descent: Descent) -> FloatArray:
    n = descent.problem.n
    return np.asarray(descent.scheme.sizes(n) / descent.scheme.step_divisors(n))


class PutOff(Protocol):
    """Makes the rows of a descent, where something is off."""

    def __call__(
        self, *, shares: FloatArray | None = None, of_paces: FloatArray | None = None, entering: bool = False
    ) -> LeftOutRows:
        """Each row (n,), each pace (r,) off by a share; samples enter by as much as they may be off, by chance."""


@dataclass(frozen=True, eq=False)
class CavityRows:
    """The rows of a descent that shuffles samples, by the cavity equation.

    Attributes
    ----------
    rows : LeftOutRows
    shares : (n,)
        How far what each row does to the mean map may be off, relative to it.
    of_mean : float
        The same of the paces of the mean map itself.
    overshoots : bool
        Whether a visit to some row does more to that row than to fit it, and nothing is known of the error.
    put_off : callable
        The same rows, where each row (n,) and each pace (r,) is off by a share, or how samples enter is.
    """

    rows: LeftOutRows
    shares: FloatArray
    of_mean: float
    overshoots: bool
    put_off: PutOff

    @property
    def is_small(self) -> bool:
        """Whether what is neglected is small beside what is not: errors are told to first order in it."""
        return bool(max(self.of_mean, float(self.shares.max(initial=0.0))) <= _SMALL)

    def error(self, residuals: Residuals, weights: FloatArray) -> FloatArray:
        """How far a mean square may be off.

        Rows do less than the product of means says, by their shares: changes add up, and none makes up for another.
        The mean map may be off in the paces of all modes alike, in those of every other one, and in how samples
        enter, by chance: these add up like independent ones.
        """
        here, modes = residuals(self.rows), np.arange(len(self.rows.paces))
        if self.overshoots:
            return np.full((len(here), here.shape[2]), np.inf)
        less = residuals(self.put_off(shares=-self.shares))
        by_rows = weighted(np.abs(np.square(less) - np.square(here)), weights)
        by_mean = np.zeros_like(by_rows)
        for way in (
            self.put_off(of_paces=np.full(len(modes), self.of_mean)),
            self.put_off(of_paces=np.where(modes % 2, self.of_mean, -self.of_mean)),
            self.put_off(entering=True),
        ):
            apart = weighted(np.square(residuals(way)) - np.square(here), weights)
            with np.errstate(over="ignore"):
                by_mean = by_mean + np.square(apart)
        return np.asarray(by_rows + np.sqrt(by_mean))


def shuffled_samples(descent: Descent) -> CavityRows | None:
    """The rows of a descent that shuffles samples; None where the cavity equation has no solution."""
    sampled = _sampled(descent)
    found = cavity.solve(sampled.visiting, _TOLERANCE)
    if found is None:
        return None
    learning = _Learning(sampled, found)
    roots = sampled.roots
    lost = roots[:, np.newaxis] * found.kernel * roots
    values, vectors = scipy.linalg.eigh((lost + lost.T) / 2, driver="evd", check_finite=False)
    pull = found.entries.T @ sampled.responses
    pull += np.column_stack([found.pushed(force) for force in (sampled.force / roots[:, np.newaxis]).T])
    steps = sampled.visiting.steps
    shared = sampled.visiting.weight * found.nodes.convolution_at(steps)
    off = cavity_maps.neglected(sampled.visiting, found.entries, _TOLERANCE)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(descent.problem.n, 1))

    def put_off(
        *, shares: FloatArray | None = None, of_paces: FloatArray | None = None, entering: bool = False
    ) -> LeftOutRows:
        # As if features were larger by a root: what is learned in the end stays, and directions that other rows do
        # not see stay still.
        root = np.ones_like(values) if of_paces is None else np.sqrt(np.maximum(1 + of_paces, 0.0))
        entered = pull + (signs * off).T @ sampled.responses if entering else pull
        paces, gained = root**2 * values, root[:, np.newaxis] * (vectors.T @ (roots[:, np.newaxis] * entered))

        def look(members: IntArray) -> Looks:
            right = root * (learning.looks(members) @ vectors)
            factors = descent.factors[members] * (1 if shares is None else 1 + shares[members])
            coupling = factors[:, np.newaxis, np.newaxis] * shared
            looks = Looks(members, right, learning.alpha(members), coupling, found.nodes.rule[0])
            # A penalty moves every direction, whoever sees it.
            return (
                looks if descent.shrinkage else standing_still(looks, descent.alone[members], paces, gained)
            )

        # Residuals are those of u_i, times sqrt(n).
        return LeftOutRows(
            paces, gained, lambda rows, height: chunked(rows, height, look), len(found.nodes.nodes),
            applications=1, is_monotone=False,
            alone=lambda: no_one(descent.problem.n) if descent.shrinkage else descent.alone,
            unit=float(np.sqrt(descent.problem.n)),
        )  # fmt: skip

    of_mean = root_mean_square(cavity_maps.shares(sampled.visiting.rows, found.entries, off))
    between, responses = _between_before_and_after(descent)
    overshoots = bool(responses.max(initial=0.0) > _OVERSHOOTS)
    return CavityRows(put_off(), between, of_mean, overshoots, put_off)


def _between_before_and_after(descent: Descent) -> tuple[FloatArray, FloatArray]:
    """What the covariance of the visits before and after each row is, relative to what the row does (n,), at most.

    Beside it, the self response of each row (n,), s |x_i|^2.

    Every other sample is before or after, never both. With W_j = x_j x_j' and W their mean, to second order in the
    step over the divisor, s, it is

        s^2 sum_j (W_j - W) x_i x_i'(W_j - W) (B - 1)(B - 2) / (6 B^2),

    whose trace is taken: nothing for rows that are alike, nor for two batches.
    """
    batches = len(_shares(descent))
    rows = descent.rows(np.arange(descent.problem.n))
    squares = np.square(rows).sum(axis=1)
    mean = rows.T @ rows / len(rows)
    fourth = rows.T @ (squares[:, np.newaxis] * rows)
    both = np.einsum("ir,rs,is->i", rows, fourth - len(rows) * mean @ mean, rows, optimize=True)
    scale = descent.step / float(descent.scheme.step_divisors(descent.problem.n)[0])
    of_visits = (batches - 1) * (batches - 2) / (6.0 * batches**2)
    shares = of_visits * scale**2 * np.maximum(both, 0.0) / np.where(squares == 0, 1.0, squares)
    # Of two batches nothing is neglected, however large the step.
    return shares, scale * squares * (batches > 2)


@dataclass(frozen=True, eq=False)
class _Sampled:
    """Shuffled samples in the coordinates of the cavity equation, v = Y^1/2 s.

    Attributes
    ----------
    visiting : Visiting
    responses : (n, t)
        y - X beta_0, over sqrt(n).
    force : (k, t)
        What the penalty adds in every visit, in coordinates s.
    shrinkage : float
    """

    visiting: Visiting
    responses: FloatArray
    force: FloatArray
    shrinkage: float

    @property
    def roots(self) -> FloatArray:
        """Y^1/2 (k,)."""
        return np.asarray(np.sqrt(self.visiting.grades[0]))


def _sampled(descent: Descent) -> _Sampled:
    n, shares = descent.problem.n, _shares(descent)
    rows, steps = descent.rows(np.arange(n)), len(shares)
    whitened = Whitened.of(rows, np.full(n, 1 / n), steps * descent.step, np.arange(n + 1))
    # What a penalty takes of a slow mode is many times its pace: beside both together everything is of size one.
    grades = whitened.paces + steps * descent.shrinkage
    grades[grades == 0] = 1.0
    visiting = Visiting(
        rows=whitened.orthonormal * np.sqrt(whitened.paces / grades), grades=grades[np.newaxis],
        still=(descent.shrinkage / grades)[np.newaxis, np.newaxis], entry=np.ones(1),
        weight=float(shares[0]) / steps, last=1.0, steps=steps,
    )  # fmt: skip
    responses = descent.responses(np.arange(n), rows) / np.sqrt(n)
    # c = V s / sqrt(B step), whatever Y is in v = Y^1/2 s.
    origin = (whitened.factor @ descent.origin) / np.sqrt(whitened.paces)[:, np.newaxis]
    return _Sampled(visiting, responses, -descent.shrinkage * origin, descent.shrinkage)


class _Learning:
    """How samples look at the parameters at the nodes, and what they have to say there."""

    def __init__(self, sampled: _Sampled, found: Solution):
        self._sampled, self._found = sampled, found
        roots = sampled.roots
        identity = np.eye(len(roots))
        # u_i'(I - Y N_t) Y^1/2 at the nodes.
        self._met = roots[:, np.newaxis] * (identity - roots[:, np.newaxis] * found.inner * roots)
        self._rows = sampled.visiting.rows * roots
        self._learned = self._settle(identity - roots[:, np.newaxis] * found.path * roots)

    def looks(self, members: IntArray) -> FloatArray:
        """a_i(t) (m, q, k), in coordinates s."""
        rows = self._sampled.visiting.rows[members]
        return self._with_echoes(members, np.stack([rows @ met for met in self._met], axis=1))

    def alpha(self, members: IntArray) -> FloatArray:
        """alpha_i(t) (m, q, t)."""
        seen = np.stack([self._rows[members] @ learned for learned in self._learned], axis=1)
        return self._with_echoes(members, self._sampled.responses[members, np.newaxis] - seen)

    def _with_echoes(self, members: IntArray, plain: FloatArray) -> FloatArray:
        """f_i(t) + sum_{s<t} rho_i(t-s) f_i(s) at the nodes, for f (m, q, any)."""
        returns = np.einsum("tab,am->mtb", self._found.nodes.convolution, self._found.echo[:, members])
        return np.asarray(plain + returns @ plain)

    def _settle(self, path: FloatArray) -> FloatArray:
        """Nbar_t (q, k, t) at the nodes, by rounds: every visit learns from what the visits before have left."""
        sampled, nodes = self._sampled, self._found.nodes
        (n, k), visiting = self._rows.shape, sampled.visiting
        sums = np.cumsum(nodes.rule, axis=0)
        before = np.vstack([np.zeros((1, sums.shape[1])), sums[:-1]])[nodes.nodes]
        # What all samples together take back is solved for, mode by mode: in rounds it is powers of the pace of an
        # epoch over factorials, and between nodes those do not come to an end.
        taken = visiting.weight * visiting.squares * visiting.grades[0] + sampled.shrinkage
        implicit = np.eye(len(before)) + taken[:, np.newaxis, np.newaxis] * before
        self._learned = np.zeros((len(nodes.nodes), k, sampled.responses.shape[1]))
        mean = self._learned
        for _ in range(_MOST_ROUNDS):
            taught = self._taught()
            added = visiting.weight * taught - sampled.shrinkage * mean + sampled.force
            missing = (np.tensordot(before, added, 1) - mean).swapaxes(0, 1)
            mean = mean + np.linalg.solve(implicit, missing).swapaxes(0, 1)
            following = mean + visiting.exclusion / n * nodes.convolve(path, taught)
            change = np.abs(following - self._learned).max(initial=0.0)
            self._learned = following
            if not change > _TOLERANCE * np.abs(following).max(initial=0.0):
                break
        return self._learned

    def _taught(self) -> FloatArray:
        """Sum_i u_i alpha_i(t) (q, k, t), samples in chunks."""
        total = np.zeros_like(self._learned)
        for start in range(0, len(self._rows), 1 << 14):
            members = np.arange(start, min(start + (1 << 14), len(self._rows)))
            total += np.einsum("mk,mqt->qkt", self._rows[members], self.alpha(members), optimize=True)
        return total
