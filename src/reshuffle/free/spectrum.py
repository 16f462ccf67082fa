"""The law of a self-adjoint expression of free variables, and a sampled matrix beside it.

`Weighted` holds mixed expectations tau(f(p) q): the spectral measure of p weighted by another expression.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reshuffle.free.checks import Complex, ConvergenceError, Real, complex_points, count, number, real_points
from reshuffle.free.expression import Expression
from reshuffle.free.laws import Element
from reshuffle.free.laws.law import Law, Pairs
from reshuffle.free.measure import Measure
from reshuffle.free.moments import is_polynomial, polynomial_moments
from reshuffle.free.parser import parse
from reshuffle.free.progress import BUDGET, SINGLE_THREAD
from reshuffle.free.solver.atoms import atoms as atoms_of
from reshuffle.free.solver.atoms import light_eigenvalues, residues
from reshuffle.free.solver.continuation import Resolved
from reshuffle.free.solver.resolvent import Engine, require_invertible, require_self_adjoint
from reshuffle.free.support import Support
from reshuffle.free.support import support as support_of

if TYPE_CHECKING:
    from reshuffle.free.certificates import CdfBounds, Certificate, Prover

SEEDS = 8
"""Sampled eigenvalues that lead to the continuous part; if it is so light that these are fewer, others help."""


@dataclass(frozen=True)
class Comparison:
    """The eigenvalues of one sampled matrix and how far they are from the law.

    Attributes
    ----------
    eigenvalues : (n,)
        Sorted.
    edges, heights : (bins + 1,), (bins,)
        Their histogram, of area 1.
    expected : (bins,)
        The law's mean height per bin.
    distance : float
        The largest difference of the two cdfs (Kolmogorov).
    """

    eigenvalues: Real
    edges: Real
    heights: Real
    expected: Real
    distance: float

    def __repr__(self) -> str:
        return f"Comparison({len(self.eigenvalues)} eigenvalues, Kolmogorov distance {self.distance:.4f})"


def compare(law: "Spectrum", size: int, seed: int | None) -> Comparison:
    """Return the comparison for a matrix of ``size``."""
    eigenvalues = np.linalg.eigvalsh(law.matrix(size, seed))
    heights, edges = np.histogram(eigenvalues, bins=min(80, max(10, size // 12)), density=True)
    expected = np.diff(law.cdf(edges)) / np.diff(edges)
    return Comparison(eigenvalues, edges, heights, expected, kolmogorov(law, eigenvalues))


def kolmogorov(law: "Spectrum", eigenvalues: Real) -> float:
    """Return the largest difference of the cdfs; eigenvalues within rounding of an atom count as on it."""
    values = eigenvalues.copy()
    scale = max(float(np.abs(values).max()), 1e-300)
    for place, _ in law.atoms:
        values[np.abs(values - place) < 1e-9 * scale] = place
    values = np.sort(values)
    # At a jump of either cdf both sides count; distinct values carry the empirical cdf before and after them.
    points, counts = np.unique(values, return_counts=True)
    after = np.cumsum(counts) / len(values)
    before = after - counts / len(values)
    jumps = np.array([sum(mass for place, mass in law.atoms if place == x) for x in points])
    exact = law.cdf(points)
    return float(max(np.abs(after - exact).max(), np.abs(before - (exact - jumps)).max()))


def spectrum(expression: Expression | str, /, budget: float = BUDGET, **laws: Law | Element) -> "Spectrum":
    """Return the law of a self-adjoint polynomial or rational expression of free variables.

    With matrix coefficients the law is that of the trace ``tr (x) tau``.

    Parameters
    ----------
    expression : Expression or str
        Of the variables of one call of `variables`; or a text, as `parse` takes it.
    budget : float
        Seconds of one core, estimated, that finding support and measure may cost before it is given up with a
        ConvergenceError.
    **laws : Law or Element
        Of the variables of a text, by their names.

    Returns
    -------
    Spectrum
        Nothing is computed before it is asked for.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> s = spectrum(x + y)
    >>> round(float(s.density(0.0)), 12) == round(1 / (np.pi * 2**0.5), 12)
    True
    >>> spectrum("x*y + y*x", x=free.Semicircle(), y=free.Semicircle()).moments(4)
    array([ 0.,  2.,  0., 10.])
    """
    if isinstance(expression, str):
        expression = parse(expression, **laws)
    elif not isinstance(expression, Expression):
        raise TypeError(
            f"expression must be made of variables(...), but it is {expression!r}; start from x, = variables(law)"
        )
    elif laws:
        raise TypeError(
            f"laws belong to an expression given as text, but {list(laws)} are given with {expression!r}"
        )
    require_self_adjoint(expression)
    require_invertible(expression, spectrum)
    return Spectrum(expression, number("budget", budget, low=0.0, open_low=True))


class Spectrum(Law):
    """The law of an expression: made by `spectrum`, everything computed when first asked for.

    Points t, z and levels q have any shape and answers keep it. Real points mean the limit from the upper
    half-plane itself; a point that could not be solved is nan, and `resolve` tells its error estimate and
    flag.

    It is a law like any other, so that laws compose: `variables` takes it. Its part in a larger expression is that
    of its `measure`, atoms included, whose interpolants are good to about 1e-11.

    Parameters
    ----------
    expression : Expression
    budget : float
        Seconds of one core that finding support and measure may cost, as in `spectrum`.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> s, z = free.variables(free.spectrum(x + y), free.Semicircle())
    >>> round(float(free.spectrum(s + z).density(0.0)), 9) == round(1 / (np.pi * 3**0.5), 9)
    True
    """

    def __init__(self, expression: Expression, budget: float = BUDGET):
        self.expression, self.budget = expression, budget
        self.engine = Engine(expression)

    def cauchy(self, z: ArrayLike) -> Complex:
        """Return ``G(z) = tau((z - p)^-1)``; real z means the limit from above, nan at an atom."""
        return self.engine.trace(complex_points("z", z)).value

    def resolve(self, t: ArrayLike) -> Resolved:
        """Return the density at t with error estimates and convergence flags."""
        return self.engine.trace(real_points("t", t).astype(complex)).density(self.engine.pencil.factor)

    def _density(self, t: Real) -> Real:
        return np.asarray(self.resolve(t).value)

    def _cauchy(self, z: Complex) -> Complex:
        # What a larger system asks for at every step of its own: the solver of this one would be run each time.
        return self.measure.cauchy(z)

    def _density_and_error(self, t: Real) -> tuple[Real, Real]:
        """Return densities and error estimates, also where these are large: the total mass is their test."""
        solved = self.engine.trace(t.astype(complex), strict=False)
        found = solved.converged
        density = np.where(found, np.maximum(-solved.value.imag / np.pi, 0.0), 0.0)
        return density, np.where(found, solved.error / np.pi, np.inf)

    @cached_property
    def _structure(self) -> tuple[Pairs, Pairs, Measure]:
        """Support, atoms and measure, found on finer and finer samples until the total mass is 1."""
        with SINGLE_THREAD, self.engine.effort.question(self.budget):
            return self._found()

    def _found(self) -> tuple[Pairs, Pairs, Measure]:
        for size in (100, 400, 1000):
            eigenvalues = np.linalg.eigvalsh(self.engine.sample(size, seed=size))
            found = atoms_of(self.engine, size)
            support = self._support(eigenvalues, found, size)
            measure = Measure(self._density_and_error, support.pieces, found, 1e-11, support.powers)
            if abs(measure.mass - 1) < 1e-7:
                return support.intervals, found, measure
        raise ConvergenceError(
            f"the law of {self.expression!r} has mass {measure.mass:.9f} on {support.intervals} and"
            f" atoms {found}, should be 1;"
            " it has parts too narrow to be found: use density(t) and resolve(t) at chosen points"
        )

    def _support(self, eigenvalues: Real, found: Pairs, size: int) -> Support:
        nothing = Support((), (), {})
        if sum(mass for _, mass in found) > 1 - 1e-8:
            return nothing
        seeds = _away(eigenvalues, found)
        if len(seeds) < SEEDS:
            seeds = np.concatenate([seeds, _away(light_eigenvalues(self.engine, size), found)])
        if not len(seeds):
            return nothing
        return support_of(
            self._density_or_nan, seeds, 3 * size, self.engine.mark, self.engine.ends, self._errors
        )

    def _density_or_nan(self, t: Real) -> Real:
        """Return densities, nan where they failed."""
        density, error = self._density_and_error(t)
        return np.asarray(np.where(np.isfinite(error), density, np.nan))

    def _errors(self, t: Real) -> Real:
        return self._density_and_error(t)[1]

    @property
    def support(self) -> Pairs:
        """The intervals of the continuous part, from left to right, with ends to 1e-8 of the largest."""
        return self._structure[0]

    @property
    def atoms(self) -> Pairs:
        """Pairs (location, mass), from left to right."""
        return self._structure[1]

    @cached_property
    def measure(self) -> Measure:
        """The law as quadrature panels."""
        return self._structure[2]

    def expectation(self, function: Callable[[Real], Any]) -> Any:
        """Return ``tau(f(p))`` for a vectorised ``function`` f, real or complex."""
        return self.measure.expectation(function)

    def moments(self, order: int) -> Real:
        """Return ``[tau(p), ..., tau(p^order)]``, by freeness alone for polynomials: no G and no density.

        For rational expressions they are ``(1/2 pi i)`` times the integral of ``z^k G(z)`` around the
        spectrum.
        """
        order = count("order", order)
        # The engine's own expression has no functions of variables in it, but variables that are such functions.
        if is_polynomial(self.engine.expression):
            values = polynomial_moments(self.engine.expression, order)
            return np.array([complex(value).real for value in values])
        return self._contour_moments(order)

    def _contour_moments(self, order: int) -> Real:
        low = min([a for a, _ in self.support] + [x for x, _ in self.atoms])
        high = max([b for _, b in self.support] + [x for x, _ in self.atoms])
        middle, radius = (low + high) / 2, 0.75 * (high - low) or 1.0
        # The trapezoidal rule converges like (2/3)^n on this circle, and its lower half is the conjugate.
        points = middle + radius * np.exp(1j * np.pi * (np.arange(100) + 0.5) / 100)
        weights = self.cauchy(points) * (points - middle) / 100
        return np.array([(weights * points**k).sum().real for k in range(1, order + 1)])

    def weighted(self, weight: Expression) -> "Weighted":
        """Return the spectral measure of p weighted by another expression, ``f -> tau(f(p) weight)``."""
        return Weighted(self, weight)

    def mixed(self, function: Callable[[Real], Any], weight: Expression) -> Any:
        """Return ``tau(f(p) weight)`` for a vectorised ``function`` f and any expression of the same family."""
        return self.weighted(weight).expectation(function)

    def certify(self, z: complex) -> "Certificate":
        """Return ``G(z)`` with a proven bound on its error, off the real axis; needs python-flint.

        For polynomials with numbers as coefficients, in variables with the laws Semicircle, MarchenkoPastur
        and FreePoisson and their affine images; everything else is refused. Numbers count as the doubles they
        are. An approximate solution of the matrix equation is the exact one at a base point nearby, and the
        resolvent moves no faster than its norm squared: Hoffmann, Mai and Speicher (2024), here with balls
        for all roundings.

        >>> from reshuffle import free
        >>> x, y = free.variables(free.Semicircle(), free.MarchenkoPastur(0.5))
        >>> free.spectrum(x * y + y * x).certify(0.3 + 0.1j).radius < 1e-15
        True
        """
        return self._prover.certify(complex(complex_points("z", z)))

    def certify_cdf(self, t: float) -> "CdfBounds":
        """Return proven bounds on the mass of ``(-inf, t]``, for the expressions that `certify` takes.

        They are as close as values at 33 points above the axis allow: some 1e-4 apart, and 1e-2 close to an atom.
        At an atom itself they enclose the masses both below it and up to it. They do not depend on the scale of the
        expression.
        """
        from reshuffle.free.certificates import cdf_bounds

        return cdf_bounds(self._prover, number("t", t))

    @cached_property
    def _prover(self) -> "Prover":
        from reshuffle.free.certificates import Prover

        return Prover(self.expression)

    def matrix(self, size: int, seed: int | None = 0) -> NDArray[Any]:
        """Return the expression at random matrices of ``size``, drawn with ``seed``, whose limit is this law."""
        return self.engine.sample(count("size", size), seed)

    def compare(self, size: int, seed: int | None = 0) -> Comparison:
        """Return the eigenvalues of ``matrix(size, seed)`` beside the law, and the largest distance of the cdfs."""
        return compare(self, count("size", size), seed)

    def __repr__(self) -> str:
        return (
            f"Spectrum of {self.expression!r}, pencil {self.engine.pencil.size} x {self.engine.pencil.size}"
        )


def _away(eigenvalues: Real, atoms: Pairs) -> Real:
    """Return the eigenvalues that are no atoms."""
    distance = 1e-7 * max(float(np.abs(eigenvalues).max()), 1e-300)
    away = np.ones(len(eigenvalues), dtype=bool)
    for place, _ in atoms:
        away &= np.abs(eigenvalues - place) > distance
    return eigenvalues[away]


class Weighted:
    """The measure ``f -> tau(f(p) q)`` for any q, real when q is self-adjoint.

    The entry (1, 3) of the inverse of ``[[z - p, -q, 0], [-q*, 0, 1], [0, 1, 0]]`` is ``(z - p)^-1 q``; the
    matrix is self-adjoint for real z, so its own linearization gives ``G_q(z) = tau((z - p)^-1 q)`` like any
    other law. Made by `Spectrum.weighted`.

    Parameters
    ----------
    law : Spectrum
        That of p.
    weight : Expression
        q, of the same variables.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> round(free.spectrum(x + y).mixed(lambda t: t**2, x**2), 9)
    3.0
    """

    def __init__(self, law: "Spectrum", weight: Expression):
        p = law.expression
        if not isinstance(weight, Expression):
            weight = p._coerce(weight)
        if p.dimension > 1 or weight.dimension > 1:
            raise ValueError(
                f"weight and expression must have scalar coefficients, but theirs have sizes"
                f" {weight.dimension} and {p.dimension};"
                " take mixed expectations entry by entry"
            )
        # Raises for two families, whose joint law does not exist.
        p + weight
        require_invertible(weight, spectrum)
        self.law, self.weight = law, weight
        self._size = Engine(_self_adjoint_part(weight)).pencil.factor or 1.0

    @cached_property
    def engine(self) -> Engine:
        """The solver of the extended pencil, into which p and q enter at size one: neither drowns the other."""
        p, q = self.law.expression, self.weight / self._size
        centre = self._centre
        scaled = (p - centre) / self._scale
        corner, right = np.zeros((3, 3)), np.zeros((3, 3))
        corner[0, 0], right[0, 1] = 1.0, 1.0
        fixed = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, -1.0, 0.0]])
        extended = corner * scaled + right * q + right.T * q.adjoint() + fixed
        return Engine(extended, direction=np.array([1.0, 0.0, 0.0]))

    @property
    def _scale(self) -> float:
        return self.law.engine.pencil.factor

    @property
    def _centre(self) -> float:
        return self.law.engine.pencil.shift

    def _entries(self, z: Complex) -> tuple[Complex, Complex]:
        """Return ``tau((z - p)^-1 q)`` and ``tau(q* (z - p)^-1)`` at points of any shape."""
        inner = (z.ravel() - self._centre) / self._scale
        value = self.engine.resolvent(inner).value
        unit = self._size / self._scale
        return (value[:, 0, 2] * unit).reshape(z.shape), (value[:, 2, 0] * unit).reshape(z.shape)

    def cauchy(self, z: ArrayLike) -> Complex:
        """Return ``tau((z - p)^-1 q)``, with the shape of z; real z means the limit from above."""
        return self._entries(complex_points("z", z))[0]

    def density(self, t: ArrayLike) -> NDArray[Any]:
        """Return the density of the weighted measure, with the shape of t: complex unless q is self-adjoint."""
        right, left = self._entries(real_points("t", t).astype(complex))
        # Below the axis G_q is the conjugate of G_{q*} above it; the jump between them is the density.
        values = (left.conj() - right) / (2j * np.pi)
        return values.real if self._is_real else values

    @cached_property
    def _is_real(self) -> bool:
        return self.weight == self.weight.adjoint()

    @cached_property
    def atoms(self) -> tuple[tuple[float, Any], ...]:
        """Pairs (location, weighted mass) at the atoms of p."""
        places = np.array([place for place, _ in self.law.atoms])
        if not len(places):
            return ()
        limits = residues(self.cauchy, places, self._scale)
        return tuple(
            (float(x), v.real if self._is_real else complex(v)) for x, v in zip(places, limits, strict=True)
        )

    @cached_property
    def _quadrature(self) -> tuple[Real, NDArray[Any]]:
        """Points, and weights that hold the ratio of the two densities at the law's own nodes."""
        x, w = self.law.measure.quadrature
        plain, ours = self.law.density(x), self.density(x)
        if np.isnan(ours).any():
            bad = x[np.isnan(ours)][0]
            raise ConvergenceError(
                f"the weighted density did not converge at {bad}; use cauchy off the real axis"
            )
        # Where the density itself vanishes the node has no weight to share.
        return x, np.where(plain > 0, w / np.where(plain > 0, plain, 1.0), 0.0) * ours

    def expectation(self, function: Callable[[Real], Any]) -> Any:
        """Return ``tau(f(p) q)`` for a vectorised ``function`` f."""
        x, w = self._quadrature
        total = np.asarray(function(x)) @ w if len(x) else 0.0
        for place, mass in self.atoms:
            total = total + mass * np.asarray(function(np.array([place])))[0]
        return float(total) if self._is_real and np.isrealobj(total) else complex(total)


def _self_adjoint_part(weight: Expression) -> Expression:
    return (weight + weight.adjoint()) / 2
