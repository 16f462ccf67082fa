"""The Brown measure of an expression that need not be self-adjoint: density, radii, atoms, and a picture.

The hermitised resolvent is solved up to the plane itself. Atoms are eigenvalues that matrices in general position
have many times.
"""

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from reshuffle.free import checks, progress
from reshuffle.free.checks import Complex, ConvergenceError, ErrorKind, Real, complex_points, count
from reshuffle.free.expression import Expression, block
from reshuffle.free.linearization import generated
from reshuffle.free.moments import is_polynomial
from reshuffle.free.progress import SINGLE_THREAD
from reshuffle.free.solver.atoms import atoms as atoms_of
from reshuffle.free.solver.continuation import ROUNDING, Resolved, follow, land
from reshuffle.free.solver.system import State, System, dense_solve, sandwich, solve
from reshuffle.free.spectrum import Engine, require_invertible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = 60
DEEPEST = 3
"""The largest power of p - z whose kernel is computed; its words grow with it."""
LONGEST = 12
"""Letters of the longest word that is still multiplied out."""

HEIGHT = 1e-3
"""Above the plane, in units of the pencil: where the path ends and the last steps begin."""
STEPS = 14
ENTRIES = 700_000
"""Entries of the Jacobians of points that are solved together."""
MANY, NEIGHBOURS = 100, 6
"""Points from which on most of them start from others, and those that a guess is laid through."""
WITHIN = 10.0
"""Times the distance to the neighbours and a tenth: how far a solution may be from its guess."""
LOWEST = 1e-4
"""Above the plane, in the same units: where points are solved whose unknowns are infinite on the plane."""
DOWN = np.concatenate([np.geomspace(HEIGHT, 2 * LOWEST, 5)[1:], np.geomspace(2 * LOWEST, LOWEST, 3)[1:]])
"""Heights on the way there."""

SAMPLE = 200
"""Rows of the matrix that shows where in the plane the measure is."""
ANGLES = np.exp(2j * np.pi * np.array([0.0, 0.137, 0.271, 0.418, 0.633, 0.859]))
"""Directions in which a measure that does not change under rotations is the same."""


@dataclass(frozen=True)
class PlaneGrid:
    """A Brown measure on a rectangular grid of the plane.

    Attributes
    ----------
    x, y : (columns,), (rows,)
        Real and imaginary parts of the grid's points.
    density, error : (rows, columns)
        Density of the continuous part and its error, nan and inf where a point failed.
    converged : (rows, columns) of bool
    mass : float
        Mass of the grid's cells, each with the density of its midpoint, and of the atoms: close to 1 where the
        grid is fine.
    error_kind : str
        Kind of the errors.
    """

    x: Real
    y: Real
    density: Real
    error: Real
    converged: NDArray[np.bool_]
    mass: float
    error_kind: ErrorKind = "estimate"

    def __repr__(self) -> str:
        rows, columns = self.density.shape
        return f"PlaneGrid({rows} x {columns} points, {self.converged.mean():.0%} converged, mass {self.mass:.4f})"


def brown(expression: Expression) -> "Brown":
    """Return the Brown measure of any polynomial or rational expression, self-adjoint or not.

    It is the measure with ``integral log|z - w| dmu(w) = tau(log|z - p|)``, where eigenvalues of random
    matrices go if they are not too unstable. Sources: Brown (1986), Belinschi, Sniady and Speicher (2018).

    Parameters
    ----------
    expression : Expression
        With numbers or square matrices as coefficients. Divisors must be bounded away from zero.

    Returns
    -------
    Brown
        Everything is computed on first use.

    >>> from reshuffle import free
    >>> (c,) = free.variables(free.Circular())
    >>> b = free.brown(c)
    >>> (np.pi * b.density([0.0, 0.5j, 1.5])).round(12)
    array([1., 1., 0.])
    """
    if not isinstance(expression, Expression):
        raise TypeError(
            f"expression must be made of variables(...), "
            f"but it is {expression!r}; start from c, = variables(Circular())"
        )
    require_invertible(expression)
    return Brown(expression)


class Brown:
    """A probability measure in the plane: made by `brown`, everything is computed on first use.

    Points z have any shape and answers keep it. Nothing is smoothed: the hermitised resolvent
    ``(i e - [[0, z - p], [(z - p)*, 0]])^-1`` is solved at e = 0 itself, and the density is an exact
    derivative of it (Belinschi, Sniady and Speicher, 2018). The expression is p.
    """

    def __init__(self, expression: Expression):
        self.expression = expression
        self._system = Hermitised(expression)

    def _points(self, z: ArrayLike) -> "Plane":
        points = complex_points("z", z)
        return Plane(*(field.reshape(points.shape) for field in self._system.points(points.ravel())))

    def resolve(self, z: ArrayLike) -> Resolved:
        """Return the density at z with error estimates and convergence flags."""
        found = self._points(z)
        return Resolved(found.density, found.error, found.converged)

    def density(self, z: ArrayLike) -> Real:
        """Return the density at z per unit of area, nan where it could not be found."""
        return np.asarray(self.resolve(z).value)

    def potential_derivative(self, z: ArrayLike) -> Complex:
        """Return ``integral dmu(w)/(z - w)``, with the shape of z: ``tau((z - p)^-1)`` outside the spectrum."""
        return self._points(z).potential

    def contains(self, z: ArrayLike) -> NDArray[np.bool_]:
        """Return whether z lies inside the support's interior, False where the solver failed."""
        found = self._points(z)
        return np.asarray((found.depth > 1e-9 / self._system.factor) & found.converged)

    def matrix(self, size: int, seed: int | None = 0) -> Complex:
        """Return the expression at random matrices of ``size``, drawn with ``seed``."""
        size, expression = count("size", size), generated(self.expression)
        laws = expression.family.laws if expression.family else ()
        seeds = np.random.SeedSequence(seed).spawn(len(laws))
        drawn = [law.matrix(size, int(s.generate_state(1)[0])) for law, s in zip(laws, seeds, strict=True)]
        return expression.evaluate(drawn or [np.zeros((size, size))])

    def eigenvalues(self, size: int, seed: int | None = 0) -> Complex:
        """Return the eigenvalues of ``matrix(size, seed)``, in no order."""
        return np.asarray(np.linalg.eigvals(self.matrix(size, seed)))

    @cached_property
    def _rim(self) -> tuple[complex, float, float]:
        """The middle of a sampled spectrum, and how far it reaches to the sides and up and down."""
        sampled = self.eigenvalues(SAMPLE)
        x, y = sampled.real, sampled.imag
        middle = complex((x.min() + x.max()) / 2, (y.min() + y.max()) / 2)
        width, height = float(np.ptp(x)) / 2, float(np.ptp(y)) / 2
        reach = 0.15 * max(width, height, 1e-3 * self._system.factor)
        return middle, width + reach, height + reach

    @cached_property
    def atoms(self) -> tuple[tuple[complex, float], ...]:
        """Pairs (location, mass): points where ``(p - z)^k`` has a kernel, for k so large that its mass stays.

        Locations are eigenvalues that a matrix in general position repeats; masses are those of the atom at 0 of
        ``|(p - z)^k|^2``, which are exact. Without atoms of its variables no expression has one (Mai, Speicher and
        Weber, 2017), unless it is a number.
        """
        expression = generated(self.expression)
        laws = expression.family.laws if expression.family else ()
        if not any(law.atoms for law in laws) and set(expression.terms) - {()}:
            return ()
        eigenvalues = self.eigenvalues(SIZE)
        scale = max(float(np.abs(eigenvalues).max()), 1e-300)
        constant = [] if np.ndim(expression.constant) else [complex(expression.constant)]
        places: list[complex] = []
        for candidate in [*constant, *eigenvalues.tolist()]:
            # Jordan blocks scatter the eigenvalues of a group.
            group = eigenvalues[np.abs(eigenvalues - candidate) < 1e-3 * scale]
            if len(group) >= 3 and not any(abs(place - candidate) < 3e-3 * scale for place in places):
                given = [place for place in constant if abs(candidate - place) < 3e-3 * scale]
                middle = given[0] if given else complex(np.mean(group))
                places.append(complex(0.0) if abs(middle) < 1e-9 * scale else middle)
        masses = [_kernel_mass(expression - place) for place in places]
        return tuple((place, mass) for place, mass in zip(places, masses, strict=True) if mass > 0)

    @cached_property
    def is_radial(self) -> bool:
        """True where the measure is the same in six directions from 0, as for every R-diagonal element."""
        middle, width, height = self._rim
        if abs(middle) > 0.2 * max(width, height):
            return False
        radii = np.array([0.35, 0.6, 0.85, 1.3]) * max(width, height)
        z = radii[:, None] * ANGLES
        # In every direction z g(z) is the same number: the mass inside the circle.
        masses = self.potential_derivative(z) * z
        spread = np.nanmax(masses.real, axis=1) - np.nanmin(masses.real, axis=1)
        return bool(np.max(spread + np.nanmax(np.abs(masses.imag), axis=1)) < 1e-6)

    def _require_radial(self) -> None:
        if not self.is_radial:
            raise ValueError(
                f"the Brown measure of {self.expression!r} changes under rotations, so that it has no radial"
                " profile; use density(z) and grid()"
            )

    def radial_cdf(self, r: ArrayLike) -> Real:
        """Return the mass of ``|z| <= r`` of a measure that does not change under rotations: ``r g(r)``."""
        self._require_radial()
        radii = checks.real_points("r", r)
        return np.asarray((radii * self.potential_derivative(radii.astype(complex))).real)

    @cached_property
    def radii(self) -> tuple[float, float]:
        """The inner and the outer radius of a support that does not change under rotations, to about 1e-12.

        >>> from reshuffle import free
        >>> (a,) = free.variables(free.RDiagonal(free.Discrete([1.0, 2.0])))
        >>> [round(r, 4) for r in free.brown(a).radii] == [round(1.6**0.5, 4), round(2.5**0.5, 4)]
        True
        """
        self._require_radial()
        _, width, height = self._rim
        far = 1.3 * max(width, height)
        grid = np.linspace(0, far, 66)[1:]
        inside = self.contains(grid)
        if not inside.any():
            raise ConvergenceError(
                f"the support of {self.expression!r} is too thin to be found; use density(z)"
            )
        first, last = np.flatnonzero(inside)[[0, -1]]
        low = 0.0 if first == 0 else self._crossing(grid[first - 1], grid[first])
        return low, self._crossing(grid[last + 1] if last + 1 < len(grid) else far, grid[last])

    def _crossing(self, outside: float, inside: float) -> float:
        """Return where the support ends: the square of the depth is analytic there, with a simple zero.

        Closer than a hundredth of a cell, points next to a hole may fail: the others determine the end as well.
        """
        width, edge = 2 * (inside - outside), inside
        for reach in (1.0, 0.5, 0.2):
            points = edge + reach * width * (1.02 - np.cos(np.pi * (np.arange(24) + 0.5) / 24)) / 2
            squares = self._points(points).depth ** 2
            good = squares > 0
            if good.sum() < 16:
                break
            series = Chebyshev.fit(points[good], squares[good], 14)
            slope, root = series.deriv(), edge
            for _ in range(20):
                root = root - float(series(root) / slope(root))
            if not abs(root - edge) < reach * abs(width):
                break
            edge = root
        return float(edge)

    def grid(self, points: int = 60) -> PlaneGrid:
        """Return the density on a grid with ``points`` columns over the support and a margin around it."""
        columns = count("points", points, low=4)
        middle, width, height = self._rim
        rows = max(4, round(columns * height / width))
        x = middle.real + width * (2 * np.arange(columns) + 1 - columns) / columns
        y = middle.imag + height * (2 * np.arange(rows) + 1 - rows) / rows
        found = self.resolve(x + 1j * y[:, None])
        cell = (x[1] - x[0]) * (y[1] - y[0])
        mass = float(np.nansum(found.value) * cell) + sum(m for _, m in self.atoms)
        return PlaneGrid(x, y, found.value, found.error, found.converged, mass)

    @cached_property
    def support(self) -> tuple[float, float, float, float]:
        """The rectangle around the support, to a thirtieth of its size: low x, high x, low y, high y."""
        found = self.grid(60)
        inside = np.nan_to_num(found.density) > 0
        if not inside.any():
            raise ConvergenceError(
                f"the Brown measure of {self.expression!r} has no density on a grid; see atoms"
            )
        x, y = found.x[inside.any(axis=0)], found.y[inside.any(axis=1)]
        half_x, half_y = (found.x[1] - found.x[0]) / 2, (found.y[1] - found.y[0]) / 2
        return float(x[0] - half_x), float(x[-1] + half_x), float(y[0] - half_y), float(y[-1] + half_y)

    def plot(
        self, ax: "Axes | None" = None, *, sample: int | None = None, seed: int | None = 0, points: int = 60
    ) -> "Axes":
        """Draw the density, and eigenvalues of ``matrix(sample, seed)`` as dots, on ``ax``, which is returned.

        ``points`` are the columns of the grid.
        """
        from reshuffle.free.plot import COLOURS, current_axes

        ax = current_axes() if ax is None else ax
        found = self.grid(points)
        finite = found.density[np.isfinite(found.density) & (found.density > 0)]
        top = float(np.quantile(finite, 0.98)) if len(finite) else 1.0
        mesh = ax.pcolormesh(found.x, found.y, np.nan_to_num(found.density), cmap="Blues", vmin=0, vmax=top)
        ax.figure.colorbar(mesh, ax=ax, label="density", shrink=0.8)
        if sample is not None:
            drawn = self.eigenvalues(sample, seed)
            label = f"one matrix of size {sample}"
            ax.plot(drawn.real, drawn.imag, ".", ms=2.0, color=COLOURS[1], label=label)
            ax.legend(frameon=False, loc="upper right", fontsize="small")
        for place, mass in self.atoms:
            ax.annotate(f"{mass:.3g}", (place.real, place.imag), color=COLOURS[1], ha="center", va="center")
        ax.set_aspect("equal")
        ax.set_xlabel("real part")
        ax.set_ylabel("imaginary part")
        return ax

    def __repr__(self) -> str:
        return f"Brown measure of {self.expression!r}, pencil {self._system.size} x {self._system.size}"


class Plane(NamedTuple):
    """Solutions at points z of the plane, each field of shape (points,).

    ``potential`` is d/dz of the logarithmic potential, ``tau((z - p)^-1)`` outside the spectrum; ``depth`` is the
    imaginary part of the hermitised resolvent, zero outside the support; ``error`` that of the density, or inf.
    """

    potential: Complex
    density: Real
    depth: Real
    error: Real
    converged: NDArray[np.bool_]

    @classmethod
    def of(
        cls, potential: Complex, density: Real, depth: Real, error: Real, good: NDArray[np.bool_]
    ) -> "Plane":
        """Return what is known where a solution is good; a density within its error is zero."""
        density = np.where(good, np.where(density > error, density, 0.0), np.nan)
        potential = np.where(good, potential, complex(np.nan, np.nan))
        return cls(potential, density, np.where(good, depth, np.nan), np.where(good, error, np.inf), good)


class Hermitised(System):
    """The joint system of ``(i e - [[0, z - p], [(z - p)*, 0]])^-1`` for any p; z takes the place of a base."""

    def __init__(self, expression: Expression):
        if expression.dimension == 1:
            whole = block([[0, -expression], [-expression.adjoint(), 0]])
        elif is_polynomial(expression):
            corner, one = np.array([[0.0, 1.0], [0.0, 0.0]]), np.eye(expression.dimension)
            upper = {
                word: np.kron(corner, -value if np.ndim(value) else -value * one)
                for word, value in expression.terms.items()
            }
            half = Expression(upper, expression.family)
            whole = half + half.adjoint()
        else:
            raise ValueError(
                f"a Brown measure with matrices as coefficients needs a polynomial, but it is {expression!r}; write"
                f" the inverse entry by entry"
            )
        engine = Engine(whole)
        self.expression, self.factor = engine.expression, engine.pencil.factor
        self.corner, self.height = engine.pencil.corner, HEIGHT
        super().__init__(engine.pencil.coefficients, engine.laws, engine.direction)
        # Where z is complex, the words of z - p and those of its adjoint differ: no block is symmetric.
        middle = self.corner // 2
        self.above, self.below = (np.zeros((self.size, self.size)) for _ in range(2))
        self.above[:middle, middle : self.corner] = np.eye(middle)
        self.below[middle : self.corner, :middle] = np.eye(middle)
        self.sides = np.zeros(self.size)
        self.sides[:middle], self.sides[middle : self.corner] = 1.0, -1.0

    def _layout(self, ranks: Any) -> None:
        self.symmetric = False
        super()._layout(ranks)
        # On the plane the Jacobian is singular, which no product with vectors sees: it is made for every size.
        if not self.direct:
            self.direct = True
            self._tabulate()

    def jacobian(self, state: State) -> Complex:
        """Return the derivative of the map, (points, unknowns, unknowns), as products of blocks of ``U* G U``."""
        points = len(state.resolvent)
        seen = (self.frame.conj().T @ state.resolvent @ self.frame)[:, None]
        result = np.empty((points, self.unknowns, self.unknowns), dtype=complex)
        for i, (row, rows) in enumerate(zip(self.blocks, self.entries, strict=True)):
            along_g, along_h = self.transforms[i].derivatives(state.known[i], points, len(self.indices[i]))
            for column, columns in zip(self.blocks, self.entries, strict=True):
                inner = sandwich(seen[..., row, column], seen[..., column, row])
                result[:, rows, columns] = -(along_g @ inner)
            if along_h is not None:
                result[:, rows, rows] += along_h
        return result

    def base(self, z: Complex, height: Complex) -> Complex:
        """Return ``i (e + height) - b_0 - [[0, z], [z*, 0]]`` in units of the pencil."""
        scaled = (z / self.factor)[:, None, None]
        lifted = 1j * (height[:, None, None] * np.eye(self.size) + self.height * self.direction)
        return np.asarray(lifted - self.constant - scaled * self.above - scaled.conj() * self.below)

    def imbalance(self, state: State) -> tuple[Complex, Complex]:
        """Return the difference of the two halves' traces, zero for a trace, and its gradient in the unknowns."""
        resolvent = state.resolvent
        value = np.einsum("nii,i->n", resolvent, self.sides)
        weighted = resolvent @ (self.sides[:, None] * resolvent)
        inner = self.frame.conj().T @ weighted @ self.frame
        pieces = [
            -inner[:, part, part][:, columns, rows]
            for part, rows, columns in zip(self.blocks, self.rows, self.columns, strict=True)
        ]
        return value, np.concatenate(pieces, axis=1)

    def solve(self, state: State, right: Complex, value: Complex, gradient: Complex) -> Complex:
        """Return x with ``(1 - D) x = right`` and ``gradient . x = -value``: on the plane itself 1 - D is singular.

        There the two diagonal blocks may be scaled by inverse numbers; that their traces are equal picks one
        solution. ``right`` has shape (points, sides, unknowns), ``value`` (points, sides).
        """
        size = np.maximum(np.linalg.norm(gradient, axis=1), 1e-300)[:, None]
        row = gradient / size
        column = row.conj()
        matrix = np.eye(self.unknowns) - self.jacobian(state) + column[:, :, None] * row[:, None, :]
        return dense_solve(matrix, right - (value / size)[:, :, None] * column[:, None, :])

    def points(self, z: Complex) -> Plane:
        """Return the solutions at points z (points,)."""
        together = max(16, ENTRIES // self.unknowns**2)
        with SINGLE_THREAD, progress.working(f"the Brown measure by {self.expression!r}"):
            start, reached = self._above(z, together)
            cuts = range(0, max(len(z), 1), together)
            parts = [self._points(*(a[k : k + together] for a in (z, start, reached))) for k in cuts]
            found = Plane(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
            lost = np.flatnonzero(~found.converged)
            if len(lost):
                again = self._lifted(z[lost], start[lost], reached[lost])
                for whole, part in zip(found, again, strict=True):
                    whole[lost] = part
        return found

    def _above(self, z: Complex, together: int) -> tuple[Complex, NDArray[np.bool_]]:
        """Return the unknowns at the height above z, and where they were found.

        Of many points one in ten is followed down the whole path. The others start from their neighbours: above the
        plane the solution with ``Im G < 0`` is unique, so that a wrong guess is noticed.
        """
        self.height = HEIGHT
        unknowns, reached = np.zeros((len(z), self.unknowns), dtype=complex), np.zeros(len(z), dtype=bool)
        order = np.random.default_rng(0).permutation(len(z))
        ends = [len(z)] if len(z) < MANY else [len(z) // 10, len(z) // 3, len(z)]
        for first, last in itertools.pairwise([0, *ends]):
            level, known = order[first:last], order[:first][reached[order[:first]]]
            if len(known) >= NEIGHBOURS:
                places = np.stack([z[known].real, z[known].imag], axis=1)
                wanted = np.stack([z[level].real, z[level].imag], axis=1)
                near = known[cKDTree(places).query(wanted, k=NEIGHBOURS)[1]]
                steps = z[near] - z[level][:, None]
                # The plane through the neighbours, at the point itself.
                affine = np.stack([np.ones(steps.shape), steps.real, steps.imag], axis=2)
                guess = np.einsum("nk,nku->nu", np.linalg.pinv(affine)[:, 0], unknowns[near])
                spread = WITHIN * np.linalg.norm(unknowns[near] - guess[:, None], axis=2).max(axis=1)
                for k in range(0, len(level), together):
                    part = slice(k, k + together)
                    solved = land(self, z[level[part]], guess[part], spread[part], self.corner)
                    unknowns[level[part]], reached[level[part]] = solved.unknowns, solved.converged
            waiting = level[~reached[level]]
            for k in range(0, len(waiting), together):
                chosen = waiting[k : k + together]
                solved = follow(self, z[chosen], self.corner)
                unknowns[chosen], reached[chosen] = solved.unknowns, solved.converged
        return unknowns, reached

    def _lifted(self, z: Complex, start: Complex, reached: NDArray[np.bool_]) -> Plane:
        """Return the limit of two heights above the plane, where it cannot be reached.

        In a hole all of the resolvent vanishes, and the unknowns are infinite. The error is the difference
        of the two; the answer is extrapolated, and is closer.
        """
        # By steps down to twice the lowest height and to the lowest. In a hole the unknowns are nearly powers of
        # the height; what gets lost is followed from the top.
        self.height = HEIGHT
        with np.errstate(all="ignore"):
            state = self.evaluate(self.base(z, np.zeros(len(z))), start)
            slope = solve(self, state, self.shift_tangent(state, 1j * self.direction)[:, None])[:, 0]
        here, guess, found = start, start + (DOWN[0] - HEIGHT) * slope, []
        for height in DOWN:
            self.height = float(height)
            tried = reached & np.isfinite(guess).all(axis=1)
            spread = WITHIN * np.linalg.norm(guess[tried] - here[tried], axis=1)
            before, here = here, np.full_like(here, np.nan)
            if tried.any():
                solved = land(self, z[tried], guess[tried], spread, self.corner)
                here[tried] = np.where(solved.converged[:, None], solved.unknowns, np.nan)
            reached = np.asarray(np.isfinite(here).all(axis=1))
            with np.errstate(all="ignore"):
                guess = here * np.where(before == 0, 1.0, here / before)
            if height in (DOWN[3], DOWN[-1]):
                unknowns, there = here.copy(), reached.copy()
                if not there.all():
                    solved = follow(self, z[~there], self.corner)
                    unknowns[~there], there[~there] = solved.unknowns, solved.converged
                found.append(self._differentiated(z, unknowns, there))
        far, near = found
        # Outside the support the depth is in proportion to the height, and the rest moves with its square.
        outside = np.abs(near.depth / far.depth - 0.5) < 0.1
        weight = np.where(outside, 1 / 3, 1.0)
        density, potential = (
            a + weight * (a - b) for a, b in ((near.density, far.density), (near.potential, far.potential))
        )
        error = np.abs(near.density - far.density) + near.error
        good = near.converged & far.converged & (error < 1e-3 / self.factor**2)
        return Plane.of(potential, density, np.where(outside, 0.0, 2 * near.depth - far.depth), error, good)

    def _points(self, z: Complex, start: Complex, reached: NDArray[np.bool_]) -> Plane:
        """Return the solutions on the plane, from unknowns above it."""
        self.height = HEIGHT
        with np.errstate(all="ignore"):
            lifted = self._entry(self.evaluate(self.base(z, np.zeros(len(z))), start).resolvent)
        self.height = 0.0
        base, x = self.base(z, np.zeros(len(z))), np.where(np.isfinite(start), start, 0.0)
        # Newton's method, and how far its last step went.
        moved, open_ = np.full(len(z), np.inf), np.arange(len(z))
        with np.errstate(all="ignore"):
            for _ in range(STEPS):
                progress.step()
                state = self.evaluate(base[open_], x[open_])
                value, gradient = self.imbalance(state)
                right = (state.image - x[open_])[:, None]
                change = self.solve(state, right, value[:, None], gradient)[:, 0]
                x[open_] = x[open_] + np.where(np.isfinite(change), change, 0.0)
                moved[open_] = np.linalg.norm(change, axis=1) / (1 + np.linalg.norm(x[open_], axis=1))
                open_ = open_[moved[open_] >= 1e-13]
                if not len(open_):
                    break
        moved = np.where(np.isfinite(moved), moved, np.inf)
        landed = self._differentiated(z, x, reached & np.isfinite(moved))
        # The path to the plane is short: what is far from where it started is another solution.
        near = np.abs(landed.potential - lifted) < 0.1 * (np.abs(lifted) + 1 / self.factor)
        good = reached & landed.converged & near & (moved < 1e-6) & (landed.depth > -1e-6 / self.factor)
        error = landed.error + np.where(good, moved, np.inf) * (np.abs(landed.density) + 1 / self.factor**2)
        return Plane.of(landed.potential, landed.density, landed.depth, error, good)

    def _differentiated(self, z: Complex, unknowns: Complex, good: NDArray[np.bool_]) -> Plane:
        """Return potential and density, whose derivatives in z are those of an implicit function."""
        with np.errstate(all="ignore"):
            state = self.evaluate(self.base(z, np.zeros(len(z))), unknowns)
            _, gradient = self.imbalance(state)
            directions = -np.array([self.above + self.below, 1j * (self.above - self.below)]) / self.factor
            right = np.stack([self.shift_tangent(state, step) for step in directions], axis=1)
            g = state.resolvent
            shifts = -np.einsum("nij,sjk,nki,i->ns", g, directions, g, self.sides, optimize=True)
            changes = self.solve(state, right, shifts, gradient)
            x, y = (self.resolvent_tangent(state, step, changes[:, k]) for k, step in enumerate(directions))
            density = (self._entry(x) + 1j * self._entry(y)).real / (2 * np.pi)
        half = self.corner // 2
        depth = -np.einsum("nii->n", g[:, :half, :half]).imag / half / self.factor
        size = np.abs(g[:, : self.corner, : self.corner]).max(axis=(1, 2)) / self.factor
        finite = np.isfinite(density) & good
        error = 10 * ROUNDING * (np.abs(density) + size**2)
        return Plane(self._entry(g), density, depth, np.where(finite, error, np.inf), finite)

    def _entry(self, resolvent: Complex) -> Complex:
        """Return ``-tau(G_21)``, which is ``tau((z - p)* ((z - p)(z - p)* + e^2)^-1)``."""
        half = self.corner // 2
        return np.asarray(-np.einsum("nii->n", resolvent[:, half : self.corner, :half]) / half / self.factor)


def _kernel_mass(moved: Expression) -> float:
    """Return the mass of the kernel of the highest power that is computed."""
    last, power = -1.0, Expression({(): 1}, moved.family)
    for _ in range(DEEPEST):
        power = power * moved
        longest = max((len(word) for word in power.terms), default=0)
        if is_polynomial(power) and longest > LONGEST:
            break
        square = power.adjoint() * power
        mass = sum(m for x, m in atoms_of(Engine(square), SIZE) if abs(x) < 1e-9)
        if mass == last:
            break
        last = mass
    return max(last, 0.0)
