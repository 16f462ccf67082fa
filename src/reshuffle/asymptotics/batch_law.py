"""The limiting spectrum of alpha Z(alpha/B) for any B and any discrete Sigma, and the critical alpha."""

import itertools
import math
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.asymptotics import spectra
from reshuffle.asymptotics.batch_system import AlphaSystem, BatchSystem, Evaluation
from reshuffle.asymptotics.edges import contracted, ends_below, gaps, leaving_alpha, outer_ends
from reshuffle.asymptotics.epoch_law import EpochLaw
from reshuffle.asymptotics.interval_series import Intervals
from reshuffle.asymptotics.spectra import IDENTITY, Covariance, Population, population
from reshuffle.asymptotics.two_batch_law import TwoBatchLaw
from reshuffle.errors import BudgetError
from reshuffle.free.checks import Complex, ConvergenceError, Real
from reshuffle.free.laws import Discrete, MarchenkoPastur
from reshuffle.free.progress import BUDGET, Effort, working
from reshuffle.free.solver import AxisSolver, follow, resolved
from reshuffle.free.support import support as support_of
from reshuffle.problem import LeastSquares, gaussian
from reshuffle.run.modes import Epoch
from reshuffle.schemes import RandomReshuffling

_ENTRIES = 60_000
"""Entries of the sampled X whose eigenvalues locate the support."""
_ASPECTS = 1e-4, 1e4
"""Aspects for which X is sampled."""
_GOLDEN = (math.sqrt(5) - 1) / 2
_USUAL_STEPS, _STEPS_OF_DECADES = 4_000, 800
"""Newton steps that support and measure usually need, and per squared decade of the spectrum's size beyond one."""
_STEP, _STEP_PER_ENTRY = 1e-5, 1.5e-7
"""Seconds of one such step, measured on one core: for itself, and per entry of its Jacobian."""
_VISIT, _VISIT_PER_ENTRY, _VISIT_PER_PRODUCT = 3e-5, 6e-8, 2e-9
"""Seconds of one evaluation of the map at a point, per entry of its blocks, and per product in their inverses."""
_VISITS, _VISITS_OF_ENDS = 30, 2_000
"""Evaluations that a point off the axis takes, and as many as the search for both ends of the spectrum costs."""
_SHARE = 0.4
"""Share of the expected cost of single points, and of the budget, that a series around the spectrum may cost."""
_POINTWISE = 20
"""Unknowns, those of four batches, up to which single points on the axis are solved one by one, to all digits."""
_CHUNK = 4_000_000
"""Numbers that the Jacobians of the points solved together may hold."""


class BatchLaw(EpochLaw):
    """The limiting law of alpha Z(alpha/B) for Gaussian data with p/n -> aspect.

    Z is the symmetrised product of B free Marchenko-Pastur variables (ratio B aspect, variance alpha/B), with
    Sigma^(1/2) on both sides of each, compound free Poisson ones with scales of rows: see `BatchSystem`. Its
    aspect, alpha, batches, covariance, budget, source and row_scales are those of `batch_spectrum`.

    >>> law = BatchLaw(aspect=0.25, alpha=0.4, batches=4)
    >>> [(round(low, 6), round(high, 6)) for low, high in law.support]
    [(0.099672, 0.663094)]
    """

    def __init__(
        self,
        aspect: float,
        alpha: float,
        batches: int,
        covariance: Covariance = None,
        budget: float = BUDGET,
        source: ArrayLike | None = None,
        row_scales: ArrayLike | Discrete | None = None,
    ):
        self.aspect, self.alpha = spectra.aspect(aspect), spectra.alpha(alpha)
        self.batches = spectra.batches(batches)
        self.population = population(covariance, source, row_scales)
        self.budget = _arrays.positive("budget", budget, "seconds of one core")

    @cached_property
    def effort(self) -> Effort:
        """The estimated cost of solving, counted in Newton steps."""
        system = self.system
        entries = system.unknowns**2 + 0.3 * system.size**2 * (len(system.eigenvalues) - 1)
        return Effort(repr(self), _STEP + _STEP_PER_ENTRY * entries, self._refused)

    @cached_property
    def _visit(self) -> float:
        """Seconds of one evaluation of the map at a point."""
        # Blocks of B + 1, B - 1, B - 3, ... rows: the sums of their squares and of their cubes.
        B = self.batches
        entries, products = (B + 1) * (B + 2) * (B + 3) / 6, (B + 2) ** 4 / 8
        each = _VISIT_PER_ENTRY * entries + _VISIT_PER_PRODUCT * products
        return _VISIT + (len(self.population.eigenvalues) + len(self.population.row_squares) - 1) * each

    def _refused(self, needed: float, budget: float) -> BudgetError:
        return BudgetError(
            f"the support of {self!r} costs about {needed:.2g} s of one core, more than the budget of {budget:g} s;"
            f" allow it with budget={2 * needed:.2g}, ask for density(t) at chosen points, or for fewer"
            " batches or eigenvalues of Sigma, or for an alpha closer to convergence"
        )

    def afford(self, seconds: float) -> None:
        """Refuse what is estimated to cost so many `seconds`, if that is beyond the budget."""
        if seconds > self.budget:
            raise BudgetError(
                f"a question about {self!r} costs about {seconds:.2g} s of one core, more than the budget of"
                f" {self.budget:g} s; allow it with budget={2 * seconds:.2g}, or ask for fewer epochs, batches or"
                " eigenvalues of Sigma"
            )

    @cached_property
    def system(self) -> BatchSystem:
        """The fixed-point equations, refused where their ends are beyond the budget: they may need much memory."""
        self.afford(_VISITS_OF_ENDS * self._visit)
        return BatchSystem(self.aspect, self.alpha, self.batches, self.population)

    def _transforms(self, z: Complex) -> Complex:
        """The Cauchy transforms of law, signal and noise, (3, points); nan where a point could not be solved."""
        if self._series is not None:
            return self._series.transforms(z)
        unit = self.system.unit
        with working(repr(self)):
            found = resolved(self._solve, z / unit)
        return np.asarray(np.diagonal(found.value, axis1=1, axis2=2).T / unit)

    @cached_property
    def _series(self) -> Intervals | None:
        """Series of the transforms around the spectrum's intervals, where single points on the axis cost much."""
        low, high = self.ends
        if self.system.unknowns <= _POINTWISE or low < 0 < high:
            return None
        most = len(self.population.eigenvalues) * len(self.population.row_squares) - 1
        ends = [low, high]
        try:
            if most and _ASPECTS[0] <= self.aspect <= _ASPECTS[1]:
                seeds = self._sampled_eigenvalues
                ends[1:1] = itertools.chain(*gaps(self.system, seeds[(seeds > low) & (seeds < high)], most))
            with self.effort.question(_SHARE * min(self.budget, self._expected * self.effort.step)):
                support = tuple(zip(ends[::2], ends[1::2], strict=True))
                return Intervals.around(self._at_once, support, np.array([*self.frozen, 0.0]))
        except (BudgetError, ConvergenceError):
            return None

    @property
    def _expected(self) -> float:
        """Steps of Newton's method that the search for the support takes, as far as they can be foreseen."""
        decades = math.log10(max(1.0, *(abs(end) for end in self.ends)))
        return _USUAL_STEPS + _STEPS_OF_DECADES * decades**2

    def _at_once(self, z: Complex) -> Complex:
        """The transforms of `outside` by iterating the map alone; nan if a point does not converge."""
        inner = z / self.system.unit
        unknowns, settled = contracted(
            self.system, inner, lambda visits: self.effort.spend(visits * self._visit / self.effort.step)
        )
        found = self.read_off(self._state(inner, unknowns))
        return found if settled.all() else np.full_like(found, np.nan)

    def _solve(self, z: Complex) -> tuple[Complex, Real]:
        """The transforms as diagonal matrices (points, 3, 3), and their errors (points,), in the system's unit."""
        system = self.system
        height = max(16, _CHUNK // (system.unknowns**2 + system.block_entries))
        values, errors = np.zeros((len(z), 3, 3), dtype=complex), np.full(len(z), np.inf)
        for start in range(0, len(z), height):
            part = slice(start, start + height)
            if z.imag.any():
                solution = follow(system, z[part], 1)
                unknowns, steps = solution.unknowns, solution.steps
                errors[part] = np.where(solution.converged, solution.error, np.inf)
            else:
                # The axis has a memory.
                found = self._axis.solve(z[part].real)
                unknowns, errors[part], steps = found.unknowns, found.errors, found.steps
            self.effort.spend(steps)
            good = start + np.flatnonzero(np.isfinite(errors[part]))
            state = self._state(z[good], unknowns[good - start])
            signal = system.average(state.blocks[:1], 1)[0][:, 0, 0]
            noise = system.unit * system.noise_transform(state)
            for row, transform in enumerate((state.corner, signal, noise)):
                values[good, row, row] = transform
        return values, errors

    @cached_property
    def _axis(self) -> AxisSolver:
        """The solution on the real axis, as far as it was computed."""
        return AxisSolver(self.system, 1)

    def _state(self, z: Complex, unknowns: Complex) -> Evaluation:
        return self.system.evaluate_blocks(self.system.base_blocks(z), unknowns)

    def states(self, z: Complex) -> Evaluation:
        """The system solved at points z (n,) above the real axis, and not close to it.

        There the map itself contracts, by a half or more on a contour half way between the spectrum and whatever
        must stay outside; the half-plane is never left. Points that take long are followed as any others.
        """
        self.afford(len(z) * _VISITS * self._visit)
        inner = z / self.system.unit
        with working(repr(self)):
            unknowns, settled = contracted(self.system, inner)
            solution = follow(self.system, inner[~settled], 1) if not settled.all() else None
        if solution is not None:
            if not solution.converged.all():
                bad = z[~settled][~solution.converged][0]
                raise ConvergenceError(
                    f"{self!r} could not be solved at {bad:.6g}, {abs(bad.imag):.2g} off the axis"
                )
            unknowns[~settled] = solution.unknowns
        return self._state(inner, unknowns)

    def outside(self, z: Complex) -> Complex:
        """The Cauchy transforms of law, signal and noise, (3, n), at points z (n,) away from the spectrum."""
        return self.read_off(self.states(z))

    def read_off(self, state: Evaluation) -> Complex:
        """The Cauchy transforms of law, signal and noise, (3, n), from a `state`, the solutions at n points."""
        unit = self.system.unit
        signal = self.system.average(state.blocks[:1], 1)[0][:, 0, 0]
        return np.array([state.corner / unit, signal / unit, self.system.noise_transform(state)])

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest point of the continuous part, without a search for gaps between them."""
        self.afford(_VISITS_OF_ENDS * self._visit)
        try:
            with working(repr(self)):
                low, high = outer_ends(self.system, self.frozen[0] > 0)
        except ZeroDivisionError:
            raise ConvergenceError(
                f"the spectrum of {self!r} is narrower than rounding, which steps near one over the curvature make"
                " it with many batches of few parameters; try another alpha, or fewer batches"
            ) from None
        # A spectrum that begins at zero does so exactly: X is square, or its null space that of Sigma.
        return (
            (0.0, high)
            if self.aspect * (1 - self.population.null) == 1 and abs(low) < 1e-12 * high
            else (low, high)
        )

    @cached_property
    def support(self) -> tuple[tuple[float, float], ...]:
        """The intervals of the continuous part, by searches on finer and finer grids until no mass is missing."""
        if self._series is not None:
            return tuple((piece.low, piece.high) for piece in self._series.pieces)
        with self.effort.question(self.budget):
            self.effort.expect(self._expected)
            seeds, unit = self._sampled_eigenvalues, self.system.unit

            def density(t: Real) -> Real:
                values, errors = self._solve(t / unit + 0j)
                size = -values[:, 0, 0].imag
                # Near a hard edge the rounding of G alone would count as mass.
                found = np.where(size > errors, size, 0.0) / (np.pi * unit)
                return np.asarray(np.where(np.isfinite(errors), found, np.nan))

            def folds(outside: Real, inside: Real) -> Real:
                return np.asarray(self._axis.ends(outside / unit, inside / unit) * unit)

            for resolution in (60, 300, 1500):
                chosen = seeds[:: max(1, len(seeds) // resolution)]
                found = support_of(density, chosen, resolution, folds=folds).intervals
                missing = 1 - self._measure_on(found).mass
                if abs(missing) < 1e-7:
                    return found
            raise ConvergenceError(
                f"the intervals {found} hold all but {missing:.2g} of the spectrum of {self!r}: there is"
                " one too narrow to be found; use density(t) at chosen points"
            )

    @cached_property
    def _sampled_eigenvalues(self) -> FloatArray:
        """The nonzero eigenvalues of alpha Z for a sampled X; eight batches stand for more."""
        if not _ASPECTS[0] <= self.aspect <= _ASPECTS[1]:
            raise ValueError(
                f"aspect must lie between 0.0001 and 10000 for the support of this law, but it is {self.aspect:g};"
                " ask for density(t) at chosen points, or for shrinkage, which is the limit p/n -> 0."
            )
        batches = min(self.batches, 8)
        n = max(4 * batches, round(math.sqrt(_ENTRIES / self.aspect)))
        p = max(8, round(self.aspect * n))
        levels = (np.arange(p) + 0.5) / p
        spectrum = self.population
        order = np.searchsorted(np.cumsum(spectrum.weights), levels)
        diagonal = spectrum.eigenvalues[np.minimum(order, len(spectrum.eigenvalues) - 1)]
        problem = gaussian(n, p, covariance=diagonal, seed=0)
        if not spectrum.has_even_rows:
            # Every batch has rows of all scales: neighbours are far apart.
            places = np.searchsorted(np.cumsum(spectrum.row_shares), np.arange(n) * _GOLDEN % 1)
            squares = spectrum.row_squares[np.minimum(places, len(spectrum.row_squares) - 1)]
            problem = LeastSquares(problem.X * np.sqrt(squares)[:, np.newaxis], problem.y)
        epoch = Epoch(problem, RandomReshuffling(batches=batches), self.alpha / batches)
        return np.sort(epoch.decay_rates[~epoch.modes.frozen])


class FullBatchLaw(EpochLaw):
    """The limiting law of alpha W for isotropic Gaussian data, p/n -> aspect (Section 3.3.2).

    Its density is ((x_+ - x)(x - x_-))^(1/2) / (2 pi alpha aspect x) between x_-+ = alpha (1 -+ aspect^(1/2))^2,
    with an atom 1 - 1/aspect at zero when aspect > 1. The noise is M = W, so its transform is (z G - 1) / alpha.

    >>> FullBatchLaw(aspect=4.0, alpha=0.5).support, FullBatchLaw(aspect=4.0, alpha=0.5).atoms
    (((0.5, 4.5),), ((0.0, 0.75),))
    """

    batches = 1
    population = IDENTITY

    def __init__(self, aspect: float, alpha: float):
        self.aspect, self.alpha = spectra.aspect(aspect), spectra.alpha(alpha)

    @cached_property
    def marchenko_pastur(self) -> MarchenkoPastur:
        """The law as a variable of `reshuffle.free`."""
        return MarchenkoPastur(self.aspect, self.alpha)

    @property
    def support(self) -> tuple[tuple[float, float], ...]:
        return self.marchenko_pastur.support

    def _transforms(self, z: Complex) -> Complex:
        g = self.marchenko_pastur.cauchy(z)
        # (z G - 1)/alpha = G / (1 - alpha aspect G) keeps its digits far out.
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.array([g, g, g / (1 - self.alpha * self.aspect * g)])

    def _density(self, t: Real) -> Real:
        return self.marchenko_pastur.density(t)


def batch_spectrum(
    aspect: float,
    alpha: float,
    batches: int,
    covariance: Covariance = None,
    budget: float = BUDGET,
    source: ArrayLike | None = None,
    row_scales: ArrayLike | Discrete | None = None,
) -> EpochLaw:
    """The limiting law of alpha Z(alpha/B) for Gaussian data, p/n -> aspect, and any number of batches.

    One and two batches of isotropic data have closed forms; everything else is followed by `reshuffle.free`.

    Parameters
    ----------
    aspect : float > 0
        The limit of p/n, of all rows: see "Aspect and ratio" in docs/asymptotics.md.
    alpha : float > 0
        The full-batch step under linear scaling: each batch is visited with alpha/B.
    batches : int >= 1
    covariance : None, free.Discrete or (m,)
        The spectrum of Sigma: the identity by default, a discrete law, or eigenvalues of equal shares.
    budget : float > 0
        Seconds of one core, estimated, that finding the support may cost; a BudgetError says so beforehand.
    source : (m,), optional
        The share of the squared signal along each eigenvalue, for learning curves; it does not change the law.
    row_scales : (m,) or free.Discrete, optional
        Scales tau > 0 of the rows x = tau Sigma^(1/2) z, independent of z: of equal shares, or a law. A covariance
        of Sigma then wants E[tau^2] = 1. By default all are one.

    Returns
    -------
    EpochLaw
        Density, cdf, quantiles, support, atoms and moments of alpha Z.

    >>> law = batch_spectrum(aspect=1.5, alpha=0.2, batches=3)
    >>> law.atoms[0][1].__round__(6), [(round(low, 6), round(high, 6)) for low, high in law.support]
    (0.333333, [(0.011047, 0.782981)])
    >>> len(batch_spectrum(aspect=1.5, alpha=0.2, batches=3, row_scales=[0.5, 0.5, 2.0]).support)
    2
    """
    number, spectrum = spectra.batches(batches), population(covariance, source, row_scales)
    if spectrum.is_identity and number == 1:
        return FullBatchLaw(aspect, alpha)
    if (
        spectrum.is_identity
        and number == 2
        and TwoBatchLaw.serves(spectra.aspect(aspect), spectra.alpha(alpha))
    ):
        return TwoBatchLaw(aspect, alpha)
    return BatchLaw(aspect, alpha, number, spectrum, budget)


_MOST_BATCHES = 20
"""Batches up to which the critical alpha is searched: 24 take a minute at aspect 1/2."""
_STRIDE, _TRIES = 0.3, 6
"""Largest relative distance of neighbouring values of alpha, and how often it is reduced."""
_AT_EDGE = 1e-6
"""How far apart two computations of an end may be."""


@working("the critical alpha")
def critical_alpha(
    aspect: float,
    batches: int,
    covariance: Covariance = None,
    row_scales: ArrayLike | Discrete | None = None,
) -> float:
    """The alpha at which the spectrum of alpha Z(alpha/B), frozen modes aside, first leaves (0, 2).

    For B = 1 and Sigma = I it is 2 / (1 + aspect^(1/2))^2. Otherwise the real solution of the equations at z = 2,
    or z = 0, is followed in alpha: it turns where the spectrum arrives.

    Parameters
    ----------
    aspect : float > 0
    batches : int
        From 1 to 20: 0.05 s for 3 batches, 1 to 4 s for 16 and 6 to 25 s for 20.
    covariance, row_scales
        The spectrum of Sigma and the scales of rows, as in `batch_spectrum`.

    Returns
    -------
    float

    >>> critical_alpha(1.0, 1), round(critical_alpha(1.5, 2), 6)
    (0.5, 0.612366)
    >>> round(critical_alpha(0.5, 1, covariance=4.0), 6) == round(critical_alpha(0.5, 1) / 4, 6)
    True
    """
    ratio, number = spectra.aspect(aspect), spectra.batches(batches)
    spectrum = population(covariance, row_scales=row_scales)
    if number > _MOST_BATCHES:
        raise BudgetError(
            f"batches must be at most {_MOST_BATCHES} for the critical alpha, but it is {number}: the search would"
            f" take minutes; learning_curve(aspect, alpha, {number}).converges judges a given alpha, and with more"
            f" batches critical_alpha(aspect, {_MOST_BATCHES}) converged in every case tried."
        )
    full_batch = 2 / (1 + math.sqrt(ratio)) ** 2
    if not spectrum.is_identity:
        unit = full_batch / (2 * float(spectrum.eigenvalues.max() * spectrum.row_squares.max()))
        # The law of alpha W is that of W in other units.
        full_batch = 2 * unit / BatchLaw(ratio, unit, 1, spectrum).ends[1]
    if number == 1:
        return full_batch
    # What Sigma does not see leaves the rest of the spectrum as it is.
    seen, share = spectrum.eigenvalues > 0, 1 - spectrum.null
    ratio *= share
    spectrum = replace(
        spectrum, eigenvalues=spectrum.eigenvalues[seen], weights=spectrum.weights[seen] / share
    )
    at_two = _reached(2.0, full_batch, ratio, number, spectrum)
    if math.isfinite(at_two):
        system = BatchSystem(ratio, at_two, number, spectrum)
        system.direct = True
        if not ends_below(system, ratio > 1, 2.0):
            return at_two
    return _reached(0.0, full_batch, ratio, number, spectrum)


def _reached(edge: float, full_batch: float, aspect: float, batches: int, spectrum: Population) -> float:
    """The alpha at which the spectrum reaches `edge`, 0 or 2."""
    along = AlphaSystem(aspect, full_batch, batches, spectrum, edge)
    # The part of the largest eigenvalue of Sigma, or of the largest rows, is as wide as its share allows.
    shares = [] if spectrum.is_isotropic else [aspect * float(spectrum.weights[-1])]
    shares += [] if len(spectrum.row_shares) == 1 else [float(spectrum.row_shares[-1]) / aspect]
    stride = 1 + min([_STRIDE, *np.sqrt(shares).tolist()])
    for _ in range(_TRIES):
        alpha = leaving_alpha(along, full_batch, stride)
        if not shares:
            return alpha
        # A narrow part of the spectrum, that of few eigenvalues of Sigma or few rows, may have passed unseen.
        system = BatchSystem(aspect, min(alpha, along.last_alpha), batches, spectrum)
        system.direct = True
        ends = outer_ends(system, aspect > 1)
        if min(abs(end - edge) for end in ends) < _AT_EDGE or (math.isinf(alpha) and ends[1] < 2):
            return alpha
        stride = math.sqrt(stride)
    raise ConvergenceError(
        f"the spectrum of {batches} batches was not seen to leave (0, 2) up to alpha = {alpha:.4g}"
    )
