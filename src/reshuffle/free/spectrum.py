"""The law of a self-adjoint expression of free variables: solver, support, atoms, measure, mixed expectations.

`Engine` is an expression made ready to be solved: its pencil, its joint system, and resolvents at any points.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reshuffle.free.checks import Complex, ConvergenceError, Real, complex_points, count, number, real_points
from reshuffle.free.expression import Expression, Inverse
from reshuffle.free.laws.elements import Element
from reshuffle.free.laws.law import Law, Pairs
from reshuffle.free.linearization import generated, linearize, reduced
from reshuffle.free.measure import Measure
from reshuffle.free.moments import is_polynomial, polynomial_moments
from reshuffle.free.parser import parse
from reshuffle.free.progress import BUDGET, SINGLE_THREAD, Effort, working
from reshuffle.free.solver.atoms import atoms as atoms_of
from reshuffle.free.solver.atoms import light_eigenvalues, residues
from reshuffle.free.solver.axis import AxisSolver, ChebyshevCache
from reshuffle.free.solver.continuation import Resolved, follow, resolved
from reshuffle.free.solver.system import System
from reshuffle.free.support import Support
from reshuffle.free.support import support as support_of

if TYPE_CHECKING:
    from reshuffle.free.certificates import Certificate, Prover

MEMORY = 150_000
"""Numbers of the points solved together: few enough to stay in the cache."""
REMEMBERED = 20_000
"""The largest number of points of a result that is remembered."""
STEP, STEP_PER_ENTRY = 2.5e-5, 3.5e-7
"""Seconds of one Newton step at one point, measured on one core: for itself, and per entry of its Jacobian."""
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


def spectrum(expression: Expression | str, /, budget: float = BUDGET, **laws: Law | Element) -> "Spectrum":
    """Return the law of a self-adjoint polynomial or rational expression of free variables.

    With matrix coefficients the law is that of the trace ``tr (x) tau``.

    Parameters
    ----------
    expression : Expression or str
        In variables of one call of `variables`; or a text, as `parse` takes it.
    budget : float
        Seconds of one core, estimated, that finding support and measure may cost before it is given up with a
        ConvergenceError.
    **laws : Law or Element
        The laws of the variables of a text, by their names.

    Returns
    -------
    Spectrum
        Everything is computed on first use.

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
    require_invertible(expression)
    return Spectrum(expression, number("budget", budget, low=0.0, open_low=True))


class SolvedLaw(Law):
    """A law whose Cauchy transform is the solution of a fixed-point system: `Spectrum` and `Convolved`.

    Points t, z and levels q have any shape and answers keep it. Real points mean the limit from the upper
    half-plane itself; a point that could not be solved is nan, and `resolve` has its error estimate and flag.
    Support, atoms and measure are found when first needed, on finer and finer grids until the total mass is 1.
    """

    _unit: float
    """The size of the spectrum."""

    @abstractmethod
    def _transform(self, z: Complex, strict: bool = True) -> Resolved:
        """Return ``G(z)`` at points of any shape; unless ``strict``, also where its error estimate is large."""

    def _working(self) -> AbstractContextManager[None]:
        """Show progress of the search for support and measure, and bound its cost if it has a budget."""
        return working(repr(self))

    @abstractmethod
    def _attempts(self) -> Iterator[tuple[Support, Pairs]]:
        """Yield supports and atoms, found on finer and finer grids."""

    @cached_property
    def _structure(self) -> tuple[Pairs, Pairs, Measure]:
        """Support, atoms and measure."""
        with SINGLE_THREAD, self._working():
            for support, atoms in self._attempts():
                measure = Measure(self._density_and_error, support.pieces, atoms, 1e-11, support.powers)
                if abs(measure.mass - 1) < 1e-7:
                    return support.intervals, atoms, measure
        raise ConvergenceError(
            f"the mass of {self!r} on {support.intervals} and atoms {atoms} is {measure.mass:.9f}, should be 1;"
            " it has parts too narrow to be found: use density(t) and resolve(t) at chosen points"
        )

    @property
    def support(self) -> Pairs:
        """The intervals of the continuous part, from left to right, with ends to 1e-8 of the largest."""
        return self._structure[0]

    @property
    def atoms(self) -> Pairs:
        return self._structure[1]

    @cached_property
    def measure(self) -> Measure:
        return self._structure[2]

    def cauchy(self, z: ArrayLike) -> Complex:
        """Return ``G(z)``, the Cauchy transform; real z means the limit from above, nan at an atom."""
        return np.asarray(self._transform(complex_points("z", z)).value)

    def resolve(self, t: ArrayLike) -> Resolved:
        """Return the density at t with error estimates and convergence flags."""
        return self._transform(real_points("t", t).astype(complex)).density(self._unit)

    def expectation(self, function: Callable[[Real], Any]) -> Any:
        """Return ``E[f(x)]`` for a vectorised ``function`` f, real or complex."""
        return self.measure.expectation(function)

    def _density(self, t: Real) -> Real:
        return np.asarray(self.resolve(t).value)

    def _cauchy(self, z: Complex) -> Complex:
        # A larger system needs this at every step of its own: the solver of this one would be run each time.
        return self.measure.cauchy(z)

    def _density_and_error(self, t: Real) -> tuple[Real, Real]:
        """Return densities and error estimates, also where these are large: the total mass is their test."""
        solved = self._transform(t.astype(complex), strict=False)
        density = np.where(solved.converged, np.maximum(-solved.value.imag / np.pi, 0.0), 0.0)
        return density, np.where(solved.converged, solved.error / np.pi, np.inf)

    def _density_or_nan(self, t: Real) -> Real:
        density, error = self._density_and_error(t)
        return np.asarray(np.where(np.isfinite(error), density, np.nan))


class Spectrum(SolvedLaw):
    """The law of an expression p, ``G(z) = tau((z - p)^-1)``; made by `spectrum`, computed when first needed.

    It is a law like any other, so that laws compose: `variables` takes it. Its part in a larger expression is that
    of its `measure`, atoms included, whose interpolants are good to about 1e-11. The budget is that of `spectrum`.
    G is a corner of the resolvent of the pencil of `linearize`, by subordination (Belinschi, Mai, Speicher, 2017).

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> s, z = free.variables(free.spectrum(x + y), free.Semicircle())
    >>> round(float(free.spectrum(s + z).density(0.0)), 9) == round(1 / (np.pi * 3**0.5), 9)
    True
    """

    def __init__(self, expression: Expression, budget: float = BUDGET):
        self.expression, self.budget = expression, budget
        self.engine = Engine(expression)
        self._prover: Prover | None = None

    @property
    def _unit(self) -> float:  # type: ignore[override]
        return self.engine.pencil.factor

    def _transform(self, z: Complex, strict: bool = True) -> Resolved:
        return self.engine.trace(z, strict)

    def _working(self) -> AbstractContextManager[None]:
        return self.engine.effort.question(self.budget)

    def _attempts(self) -> Iterator[tuple[Support, Pairs]]:
        for size in (100, 400, 1000):
            eigenvalues = np.linalg.eigvalsh(self.engine.sample(size, seed=size))
            found = atoms_of(self.engine, size)
            yield self._support(eigenvalues, found, size), found

    def _support(self, eigenvalues: Real, found: Pairs, size: int) -> Support:
        if sum(mass for _, mass in found) > 1 - 1e-8:
            return Support((), (), {})
        seeds = _away(eigenvalues, found)
        if len(seeds) < SEEDS:
            seeds = np.concatenate([seeds, _away(light_eigenvalues(self.engine, size), found)])
        if not len(seeds):
            return Support((), (), {})
        errors = lambda t: self._density_and_error(t)[1]  # noqa: E731
        return support_of(self._density_or_nan, seeds, 3 * size, self.engine.mark, self.engine.ends, errors)

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
        low, high = self.hull
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
        """Return ``G(z)`` with a proven bound on its error, off the real axis; needs `reshuffle[certified]`.

        For polynomials with numbers as coefficients, in variables with the laws Semicircle, MarchenkoPastur and
        FreePoisson and their affine images; everything else is refused. Numbers count as the doubles they are.

        >>> from reshuffle import free
        >>> x, y = free.variables(free.Semicircle(), free.MarchenkoPastur(0.5))
        >>> free.spectrum(x * y + y * x).certify(0.3 + 0.1j).radius < 1e-15
        True
        """
        from reshuffle.free.certificates import Prover

        self._prover = self._prover or Prover(self.expression)
        return self._prover.certify(complex(complex_points("z", z)))

    def matrix(self, size: int, seed: int | None = 0) -> NDArray[Any]:
        """Return the expression at random matrices of ``size``, drawn with ``seed``, whose limit is this law."""
        return self.engine.sample(count("size", size), seed)

    def compare(self, size: int, seed: int | None = 0) -> Comparison:
        """Return the eigenvalues of ``matrix(size, seed)``, the law's heights, and the distance of the cdfs.

        Eigenvalues within rounding of an atom count as on it.
        """
        eigenvalues = np.linalg.eigvalsh(self.matrix(size, seed))
        heights, edges = np.histogram(eigenvalues, bins=min(80, max(10, size // 12)), density=True)
        expected = np.diff(self.cdf(edges)) / np.diff(edges)
        values = eigenvalues.copy()
        scale = max(float(np.abs(values).max()), 1e-300)
        for place, _ in self.atoms:
            values[np.abs(values - place) < 1e-9 * scale] = place
        # At a jump of either cdf both sides count; distinct values carry the empirical cdf before and after them.
        points, counts = np.unique(values, return_counts=True)
        after = np.cumsum(counts) / len(values)
        before = after - counts / len(values)
        jumps = np.array([sum(mass for place, mass in self.atoms if place == x) for x in points])
        exact = self.cdf(points)
        distance = float(max(np.abs(after - exact).max(), np.abs(before - (exact - jumps)).max()))
        return Comparison(eigenvalues, edges, heights, expected, distance)

    def __repr__(self) -> str:
        size = self.engine.pencil.size
        return f"Spectrum of {self.expression!r}, pencil {size} x {size}"


def _away(eigenvalues: Real, atoms: Pairs) -> Real:
    """Return the eigenvalues that are no atoms."""
    distance = 1e-7 * max(float(np.abs(eigenvalues).max()), 1e-300)
    away = np.ones(len(eigenvalues), dtype=bool)
    for place, _ in atoms:
        away &= np.abs(eigenvalues - place) > distance
    return eigenvalues[away]


class Engine:
    """Solves ``(id (x) tau)(z direction - L)^-1`` for the pencil L of a self-adjoint expression.

    ``direction`` has the rows of its own matrix block that z multiplies, all unless given.
    """

    def __init__(self, expression: Expression, direction: NDArray[Any] | None = None):
        with SINGLE_THREAD:
            self.expression = reduced(generated(expression))
            self.pencil = linearize(self.expression)
        rows = np.ones(self.pencil.corner) if direction is None else np.asarray(direction, dtype=float)
        laws = self.expression.family.laws if self.expression.family else ()
        self.laws = [law / scale for law, scale in zip(laws, self.pencil.scales, strict=True)]
        self._last: dict[bool, tuple[Complex, Resolved]] = {}
        self.direction = np.concatenate([rows, np.zeros(self.pencil.size - self.pencil.corner)])

    @cached_property
    def effort(self) -> Effort:
        """The cost of solving so far."""
        step = STEP + STEP_PER_ENTRY * self.system.unknowns**2
        return Effort(f"the law of {self.expression!r}", step, self._refused)

    def _refused(self, needed: float, budget: float) -> ConvergenceError:
        return ConvergenceError(
            f"the support and the measure of {self.expression!r} were not found within {budget:g} s of one core: "
            f"they have parts that are nearly singular; allow more with spectrum(p, budget={10 * budget:g}), or use"
            " density(t) and cauchy(z) at chosen points"
        )

    @cached_property
    def system(self) -> System:
        """The joint fixed-point system of all variables, each scaled to norm one."""
        with SINGLE_THREAD:
            return System(self.pencil.coefficients, self.laws, self.direction)

    @cached_property
    def axis(self) -> AxisSolver:
        """The solver on the real axis, with the solutions it has found."""
        return AxisSolver(self.system, self.pencil.corner)

    def mark(self, edges: Real) -> None:
        """Pass approximate ends of the spectrum to the solver, which then needs fewer steps near them."""
        self.axis.known.mark((edges - self.pencil.shift) / self.pencil.factor)

    def ends(self, outside: Real, inside: Real) -> Real:
        """Return where the spectrum ends between points (n,) outside and inside of it, nan where it is no fold."""
        pencil, before = self.pencil, self.axis.steps
        places = self.axis.ends(*((x - pencil.shift) / pencil.factor for x in (outside, inside)))
        self.effort.spend(self.axis.steps - before)
        return np.asarray(places * pencil.factor + pencil.shift)

    @cached_property
    def series(self) -> ChebyshevCache:
        """The resolvent as Chebyshev series, where many points were requested."""
        return ChebyshevCache(self._on_axis)

    def _on_axis(self, x: Real) -> tuple[Complex, Real]:
        found = self.axis.solve(x)
        self.effort.spend(found.steps)
        return found.values, found.errors

    def resolvent(self, z: Complex, strict: bool = True) -> Resolved:
        """Return the first block of the resolvent at z (points,), of shape (points, corner, corner).

        A strict answer is nan where its own error estimate says that no digit can be trusted, after a
        check by its neighbours.
        """
        pencil = self.pencil
        with working(self.effort.what):
            solved = resolved(self._chunks, (z - pencil.shift) / pencil.factor, strict)
        return Resolved(solved.value / pencil.factor, solved.error / pencil.factor, solved.converged)

    def _chunks(self, inner: Complex) -> tuple[Complex, Real]:
        corner = self.pencil.corner
        values = np.full((len(inner), corner, corner), np.nan, dtype=complex)
        errors = np.full(len(inner), np.inf)
        width = self.system.unknowns * min(max(self.system.unknowns, 1), 60) + self.pencil.size**2
        step = max(16, MEMORY // width)
        on_axis = inner.imag == 0
        index = np.flatnonzero(~on_axis)
        for start in range(0, len(index), step):
            part = index[start : start + step]
            solution = follow(self.system, inner[part], corner)
            self.effort.spend(solution.steps)
            values[part] = solution.resolvent[:, :corner, :corner]
            errors[part] = np.where(solution.converged, solution.error, np.inf)
        if on_axis.any():
            values[on_axis], errors[on_axis] = self.series.solve(inner.real[on_axis])
        return values, errors

    def trace(self, z: Complex, strict: bool = True) -> Resolved:
        """Return the normalised trace of the first block at points of any shape; the last answer is remembered."""
        points, last = self._last.get(strict, (None, None))
        if points is None or last is None or not np.array_equal(points, z):
            solved = self.resolvent(z.ravel(), strict)
            values = np.trace(solved.value, axis1=1, axis2=2) / self.pencil.corner
            last = Resolved(
                values.reshape(z.shape), solved.error.reshape(z.shape), solved.converged.reshape(z.shape)
            )
            if z.size <= REMEMBERED:
                self._last[strict] = z.copy(), last
        # A copy, since the caller may write into it.
        return Resolved(last.value.copy(), last.error.copy(), last.converged.copy())

    def sample(self, size: int, seed: int | None) -> Complex:
        """Return the expression at Haar-rotated matrices, one per variable: (corner size, corner size)."""
        family = self.expression.family
        laws = family.laws if family else ()
        seeds = np.random.SeedSequence(seed).spawn(len(laws))
        # A spectrum's own matrix is another: that of its expression, whose size is a multiple of this one.
        matrices = [
            law._rotated(size, int(s.generate_state(1)[0])) for law, s in zip(laws, seeds, strict=True)
        ]
        value = self.expression.evaluate(matrices or [np.zeros((size, size))])
        return np.asarray((value + value.conj().T) / 2)


def require_self_adjoint(expression: Expression) -> None:
    """Raise unless the expression equals its adjoint.

    Polynomials are compared word by word. Rational expressions have many forms, ``x (1 + y x)^-1 = (1 + x
    y)^-1 x``, and are compared at random Hermitian matrices, where different ones differ.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> require_self_adjoint(x * y + y * x)
    """
    expression = generated(expression)
    difference = (expression - expression.adjoint()) / 2
    sizes = {
        e: [float(np.abs(value).max() if np.ndim(value) else abs(value)) for value in e.terms.values()]
        for e in (expression, difference)
    }
    if not difference.terms:
        return
    if is_polynomial(expression) and max(sizes[difference]) <= 1e-15 * max(sizes[expression]):
        return
    laws = expression.family.laws if expression.family else ()
    drawn = np.random.default_rng(1).standard_normal((2, len(laws), 2, 5, 5))
    for real, imaginary in drawn.transpose(0, 2, 1, 3, 4):
        a = real + 1j * imaginary
        point = [(m + m.conj().T) * law.scale / 4 for m, law in zip(a, laws, strict=True)] or [np.eye(1)]
        off, whole = (np.abs(e.evaluate(point)).max() for e in (difference, expression))
        if off > 1e-12 * whole:
            break
    else:
        return
    largest = 1e-12 * max(sizes[difference]) if is_polynomial(expression) else 0.0
    terms = zip(difference.terms.items(), sizes[difference], strict=True)
    shown = Expression({word: value for (word, value), size in terms if size > largest}, difference.family)
    raise ValueError(
        f"expression must be self-adjoint, but it is {expression!r}, whose anti-self-adjoint part is {shown!r};"
        " take (p + p.adjoint())/2, or p.adjoint() * p for its singular values"
    )


def require_invertible(expression: Expression) -> None:
    """Raise unless every divisor in the expression is bounded away from 0.

    A self-adjoint divisor must not have 0 in its spectrum; for any other d, ``d* d`` must not.
    """
    for letter in {letter for word in expression.terms for letter in word if isinstance(letter, Inverse)}:
        divisor = letter.of
        law = spectrum(divisor if divisor == divisor.adjoint() else divisor.adjoint() * divisor)
        for low, high in [*law.support, *((place, place) for place, _ in law.atoms)]:
            tolerance = 1e-9 * law.scale
            if low <= tolerance and high >= -tolerance:
                raise ZeroDivisionError(
                    f"division by {divisor!r}: the divisor must be invertible, but 0 lies in the part"
                    f" [{low:.6g}, {high:.6g}] of its spectrum (or of its squared modulus); add a constant that"
                    " moves the spectrum off 0"
                )


class Weighted:
    """The measure ``f -> tau(f(p) q)`` for any q, real when q is self-adjoint.

    The entry (1, 3) of the inverse of ``[[z - p, -q, 0], [-q*, 0, 1], [0, 1, 0]]`` is ``(z - p)^-1 q``; the
    matrix is self-adjoint for real z, so its own linearization gives ``G_q(z) = tau((z - p)^-1 q)`` like any
    other law. Made by `Spectrum.weighted` from the law of p and the weight q, of the same variables.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> round(free.spectrum(x + y).mixed(lambda t: t**2, x**2), 9)
    3.0
    """

    def __init__(self, law: Spectrum, weight: Expression):
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
        require_invertible(weight)
        self.law, self.weight = law, weight
        self._size = Engine((weight + weight.adjoint()) / 2).pencil.factor or 1.0

    @cached_property
    def engine(self) -> Engine:
        """The solver of the extended pencil, into which p and q enter at size one: neither drowns the other."""
        pencil, q = self.law.engine.pencil, self.weight / self._size
        scaled = (self.law.expression - pencil.shift) / pencil.factor
        corner, right = np.zeros((3, 3)), np.zeros((3, 3))
        corner[0, 0], right[0, 1] = 1.0, 1.0
        fixed = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, -1.0, 0.0]])
        extended = corner * scaled + right * q + right.T * q.adjoint() + fixed
        return Engine(extended, direction=np.array([1.0, 0.0, 0.0]))

    def _entries(self, z: Complex) -> tuple[Complex, Complex]:
        """Return ``tau((z - p)^-1 q)`` and ``tau(q* (z - p)^-1)`` at points of any shape."""
        pencil = self.law.engine.pencil
        value = self.engine.resolvent((z.ravel() - pencil.shift) / pencil.factor).value
        unit = self._size / pencil.factor
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
        limits = residues(self.cauchy, places, self.law.engine.pencil.factor)
        return tuple(
            (float(x), v.real if self._is_real else complex(v)) for x, v in zip(places, limits, strict=True)
        )

    @cached_property
    def _quadrature(self) -> tuple[Real, NDArray[Any]]:
        """Points, and weights that hold the ratio of the two densities at the law's own nodes."""
        x, w = self.law.measure.quadrature
        plain, ours = self.law.density(x), self.density(x)
        if np.isnan(ours).any():
            raise ConvergenceError(
                f"the weighted density did not converge at {x[np.isnan(ours)][0]}; use cauchy off the real axis"
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
