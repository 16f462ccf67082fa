"""The Brown measure of an expression that need not be self-adjoint: density, radii, atoms, and a picture.

The hermitised resolvent is solved up to the plane itself. Atoms are eigenvalues that matrices in general position
have many times.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reshuffle.free import progress
from reshuffle.free.checks import (
    Complex,
    ConvergenceError,
    ErrorKind,
    Real,
    complex_points,
    count,
    number,
    real_points,
)
from reshuffle.free.expression import Expression, block
from reshuffle.free.linearization import generated
from reshuffle.free.moments import is_polynomial
from reshuffle.free.solver.atoms import atoms as atoms_of
from reshuffle.free.solver.continuation import ROUNDING, Resolved, follow
from reshuffle.free.solver.system import State, System
from reshuffle.free.spectrum import Engine, require_invertible, spectrum

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = 60
DEEPEST = 3
"""The largest power of p - z whose kernel is looked at; its words grow with it."""
LONGEST = 12
"""Letters of the longest word that is still multiplied out."""

PlanarAtoms = tuple[tuple[complex, float], ...]

HEIGHT = 1e-3
"""Above the plane, in units of the pencil: where the path ends and the last steps begin."""
STEPS = 14
TOGETHER = 512
LOWEST = 1e-4
"""Above the plane, in the same units: where points are solved whose unknowns are infinite on the plane."""

SAMPLE = 200
"""Rows of the matrix that tells where in the plane to look."""
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
        Of the continuous part, nan and inf where a point failed.
    converged : (rows, columns) of bool
    mass : float
        Of the grid's cells, each with the density of its midpoint, and of the atoms: close to 1 where the
        grid is fine.
    error_kind : str
        In which sense errors are meant.
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
        Nothing is computed before it is asked for.

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
    require_invertible(expression, spectrum)
    return Brown(expression)


class Brown:
    """A probability measure in the plane: made by `brown`, everything computed when first asked for.

    Points z have any shape and answers keep it. Nothing is smoothed: the hermitised resolvent
    ``(i e - [[0, z - p], [(z - p)*, 0]])^-1`` is solved at e = 0 itself, and the density is an exact
    derivative of it.

    Parameters
    ----------
    expression : Expression
    """

    def __init__(self, expression: Expression):
        self.expression = expression
        self._system = Hermitised(expression)

    def _points(self, z: ArrayLike) -> tuple["Plane", tuple[int, ...]]:
        points = complex_points("z", z)
        return self._system.points(points.ravel()), points.shape

    def resolve(self, z: ArrayLike) -> Resolved:
        """Return the density at z with error estimates and convergence flags."""
        found, shape = self._points(z)
        return Resolved(
            found.density.reshape(shape), found.error.reshape(shape), found.converged.reshape(shape)
        )

    def density(self, z: ArrayLike) -> Real:
        """Return the density at z per unit of area, nan where it could not be found."""
        return np.asarray(self.resolve(z).value)

    def potential_derivative(self, z: ArrayLike) -> Complex:
        """Return ``integral dmu(w)/(z - w)``, with the shape of z: ``tau((z - p)^-1)`` outside the spectrum."""
        found, shape = self._points(z)
        return found.potential.reshape(shape)

    def contains(self, z: ArrayLike) -> NDArray[np.bool_]:
        """Return whether z lies inside the support's interior, False where it could not be told."""
        found, shape = self._points(z)
        return np.asarray((found.depth > 1e-9 / self._system.factor) & found.converged).reshape(shape)

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
        """Pairs (location, mass): points whose kernels, those of ``(p - z)^k``, have mass of their own."""
        return planar_atoms(generated(self.expression), self.matrix)

    @cached_property
    def is_radial(self) -> bool:
        """Whether the measure is the same in six directions from 0, as it is for every R-diagonal element."""
        middle, width, height = self._rim
        if abs(middle) > 0.2 * max(width, height):
            return False
        radii = np.array([0.35, 0.6, 0.85, 1.3]) * max(width, height)
        z = radii[:, None] * ANGLES
        # In every direction z g(z) is the same number: the mass inside the circle.
        masses = self.potential_derivative(z) * z
        spread = (
            np.nanmax(masses.real, axis=1)
            - np.nanmin(masses.real, axis=1)
            + np.nanmax(np.abs(masses.imag), axis=1)
        )
        return bool(np.max(spread) < 1e-6)

    def _require_radial(self) -> None:
        if not self.is_radial:
            raise ValueError(
                f"the Brown measure of {self.expression!r} changes under rotations, so that it has no"
                f" radial profile;"
                " use density(z) and grid()"
            )

    def radial_cdf(self, r: ArrayLike) -> Real:
        """Return the mass of ``|z| <= r`` of a measure that does not change under rotations: ``r g(r)``."""
        self._require_radial()
        radii = real_points("r", r)
        return np.asarray((radii * self.potential_derivative(radii.astype(complex))).real)

    @cached_property
    def radii(self) -> tuple[float, float]:
        """The inner and the outer radius of a support that does not change under rotations, to about 1e-6.

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
        """Return where the support ends: the square of the depth is analytic there, with a simple zero."""
        width = 2 * (inside - outside)
        edge = inside
        for reach in (1.0, 0.1, 0.02):
            points = edge + reach * width * (1.02 - np.cos(np.pi * (np.arange(12) + 0.5) / 12)) / 2
            squares = self._points(points)[0].depth ** 2
            if not np.isfinite(squares).all() or squares.min() <= 0:
                break
            roots = np.polynomial.Polynomial.fit(points, squares, 8).roots()
            real = roots[np.abs(roots.imag) < 1e-3 * reach * abs(width)].real
            close = real[np.abs(real - edge) < reach * abs(width)]
            if not len(close):
                break
            edge = float(close[np.argmin(np.abs(close - points[0]))])
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
        columns, rows = np.flatnonzero(inside.any(axis=0)), np.flatnonzero(inside.any(axis=1))
        half_x, half_y = (found.x[1] - found.x[0]) / 2, (found.y[1] - found.y[0]) / 2
        return (
            float(found.x[columns[0]] - half_x),
            float(found.x[columns[-1]] + half_x),
            float(found.y[rows[0]] - half_y),
            float(found.y[rows[-1]] + half_y),
        )

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
        top = number("density", float(np.quantile(finite, 0.98)) if len(finite) else 1.0)
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


def _joined(parts: list["Plane"]) -> "Plane":
    return Plane(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in Plane.__dataclass_fields__)
    )


def _hermitised(p: Expression) -> Expression:
    """Return ``-[[0, p], [p*, 0]]``."""
    if p.dimension == 1:
        return block([[0, -p], [-p.adjoint(), 0]])
    if not is_polynomial(p):
        raise ValueError(
            f"a Brown measure with matrices as coefficients needs a polynomial, but it is {p!r}; write the"
            f" inverse entry by entry"
        )
    corner = np.array([[0.0, 1.0], [0.0, 0.0]])
    one = np.eye(p.dimension)
    upper = {
        word: np.kron(corner, -value * one if not np.ndim(value) else -value)
        for word, value in p.terms.items()
    }
    whole = Expression(upper, p.family)
    return whole + whole.adjoint()


@dataclass(frozen=True)
class Plane:
    """What is known of points z of the plane, each of shape (points,).

    Attributes
    ----------
    potential : complex
        ``g(z) = d/dz`` of the logarithmic potential, ``tau((z - p)^-1)`` outside the spectrum.
    density : of the Brown measure; error : its estimate, inf where it failed.
    depth : the imaginary part of the hermitised resolvent, zero outside the support.
    converged : flags.
    """

    potential: Complex
    density: Real
    depth: Real
    error: Real
    converged: NDArray[np.bool_]


class Hermitised(System):
    """The joint system of ``(i e - [[0, z - p], [(z - p)*, 0]])^-1``, with z in the place of a base point.

    Parameters
    ----------
    expression : p, of any kind.
    """

    def __init__(self, expression: Expression):
        engine = Engine(_hermitised(expression))
        self.expression, self.factor = engine.expression, engine.pencil.factor
        self.corner, self.height = engine.pencil.corner, HEIGHT
        family = self.expression.family
        laws = (
            [law / scale for law, scale in zip(family.laws, engine.pencil.scales, strict=True)]
            if family
            else []
        )
        super().__init__(engine.pencil.coefficients, laws, engine.direction)
        # Where z is complex, the words of z - p and those of its adjoint are told apart: no block is symmetric.
        half = self.corner // 2
        self.above, self.below = (np.zeros((self.size, self.size)) for _ in range(2))
        self.above[:half, half : self.corner] = np.eye(half)
        self.below[half : self.corner, :half] = np.eye(half)
        self.sides = np.zeros(self.size)
        self.sides[:half], self.sides[half : self.corner] = 1.0, -1.0

    def _layout(self, ranks: Any) -> None:
        self.symmetric = False
        super()._layout(ranks)

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

        There the two diagonal blocks may be scaled by inverse numbers; that their traces are equal picks
        one solution.
        ``right`` has shape (points, sides, unknowns), ``value`` (points, sides).
        """
        size = np.maximum(np.linalg.norm(gradient, axis=1), 1e-300)[:, None]
        row = gradient / size
        column = row.conj()
        matrix = np.eye(self.unknowns) - self.jacobian(state) + column[:, :, None] * row[:, None, :]
        sides = right - (value / size)[:, :, None] * column[:, None, :]
        failed = np.asarray(~(np.isfinite(matrix).all(axis=(1, 2)) & np.isfinite(sides).all(axis=(1, 2))))
        matrix[failed], sides[failed] = np.eye(self.unknowns), np.nan
        columns = sides.transpose(0, 2, 1)
        try:
            answer = np.linalg.solve(matrix, columns)
        except np.linalg.LinAlgError:
            answer = np.linalg.pinv(matrix) @ columns
        return np.asarray(answer.transpose(0, 2, 1))

    def points(self, z: Complex) -> Plane:
        """Return what is known of points z (points,)."""
        with progress.working(f"the Brown measure by {self.expression!r}"):
            parts = [self._points(z[k : k + TOGETHER]) for k in range(0, max(len(z), 1), TOGETHER)]
            found = _joined(parts)
            lost = np.flatnonzero(~found.converged)
            if len(lost):
                again = self._lifted(z[lost])
                for name in Plane.__dataclass_fields__:
                    getattr(found, name)[lost] = getattr(again, name)
        return found

    def _lifted(self, z: Complex) -> Plane:
        """Return what two heights above the plane tell, where it cannot be reached.

        In a hole all of the resolvent vanishes, and the unknowns are infinite. The error is the difference
        of the two; the answer is extrapolated, and is closer.
        """
        near, far = (self._at(z, height) for height in (LOWEST, 2 * LOWEST))
        # Outside the support the depth is in proportion to the height, and the rest moves with its square.
        outside = np.abs(near.depth / far.depth - 0.5) < 0.1
        weight = np.where(outside, 1 / 3, 1.0)
        density, potential = (
            a + weight * (a - b) for a, b in ((near.density, far.density), (near.potential, far.potential))
        )
        error = np.abs(near.density - far.density) + near.error
        good = near.converged & far.converged & (error < 1e-3 / self.factor**2)
        density = np.where(good, np.where(density > error, density, 0.0), np.nan)
        potential = np.where(good, potential, complex(np.nan, np.nan))
        depth = np.where(good, np.where(outside, 0.0, 2 * near.depth - far.depth), np.nan)
        return Plane(potential, density, depth, np.where(good, error, np.inf), good)

    def _at(self, z: Complex, height: float) -> Plane:
        self.height = height
        solved = follow(self, z, self.corner)
        return self._differentiated(z, solved.unknowns, solved.converged)

    def _points(self, z: Complex) -> Plane:
        self.height = HEIGHT
        start = follow(self, z, self.corner)
        lifted = self._differentiated(z, start.unknowns, start.converged)
        self.height = 0.0
        unknowns, moved = self._landed(z, start.unknowns)
        landed = self._differentiated(z, unknowns, start.converged & np.isfinite(moved))
        # The path to the plane is short: what is far from where it started is another solution.
        near = np.abs(landed.potential - lifted.potential) < 0.1 * (
            np.abs(lifted.potential) + 1 / self.factor
        )
        good = (
            start.converged & landed.converged & near & (moved < 1e-6) & (landed.depth > -1e-6 / self.factor)
        )
        error = landed.error + np.where(good, moved, np.inf) * (np.abs(landed.density) + 1 / self.factor**2)
        density = np.where(good, np.where(landed.density > error, landed.density, 0.0), np.nan)
        potential = np.where(good, landed.potential, complex(np.nan, np.nan))
        return Plane(
            potential, density, np.where(good, landed.depth, np.nan), np.where(good, error, np.inf), good
        )

    def _landed(self, z: Complex, unknowns: Complex) -> tuple[Complex, Real]:
        """Return the unknowns on the plane, by Newton's method, and how far its last step went."""
        base = self.base(z, np.zeros(len(z)))
        x = np.where(np.isfinite(unknowns), unknowns, 0.0)
        last = np.full(len(z), np.inf)
        with np.errstate(all="ignore"):
            for _ in range(STEPS):
                progress.step()
                state = self.evaluate(base, x)
                value, gradient = self.imbalance(state)
                finite = np.isfinite(state.image).all(axis=1) & np.isfinite(gradient).all(axis=1)
                if not finite.any():
                    break
                change = self.solve(state, (state.image - x)[:, None], value[:, None], gradient)[:, 0]
                x = x + np.where(np.isfinite(change), change, 0.0)
                last = np.linalg.norm(change, axis=1) / (1 + np.linalg.norm(x, axis=1))
                if np.nanmax(last, initial=0.0) < 1e-13:
                    break
        return x, np.where(np.isfinite(last), last, np.inf)

    def _differentiated(self, z: Complex, unknowns: Complex, good: NDArray[np.bool_]) -> Plane:
        """Return potential and density, whose derivatives in z are those of an implicit function."""
        with np.errstate(all="ignore"):
            state = self.evaluate(self.base(z, np.zeros(len(z))), unknowns)
            _, gradient = self.imbalance(state)
            moved = []
            for direction in (self.above + self.below, 1j * (self.above - self.below)):
                step = np.broadcast_to(-direction / self.factor, state.resolvent.shape)
                right = self.shift_tangent(state, step)[:, None]
                shift = -np.einsum("nij,njk,nki,i->n", state.resolvent, step, state.resolvent, self.sides)
                change = self.solve(state, right, shift[:, None], gradient)[:, 0]
                moved.append(self._entry(self.resolvent_tangent(state, step, change)))
            density = (moved[0] + 1j * moved[1]).real / (2 * np.pi)
        half = self.corner // 2
        depth = -np.einsum("nii->n", state.resolvent[:, :half, :half]).imag / half / self.factor
        size = np.abs(state.resolvent[:, : self.corner, : self.corner]).max(axis=(1, 2)) / self.factor
        finite = np.isfinite(density) & good
        error = 10 * ROUNDING * (np.abs(density) + size**2)
        return Plane(self._entry(state.resolvent), density, depth, np.where(finite, error, np.inf), finite)

    def _entry(self, resolvent: Complex) -> Complex:
        """Return ``-tau(G_21)``, which is ``tau((z - p)* ((z - p)(z - p)* + e^2)^-1)``."""
        half = self.corner // 2
        return np.asarray(-np.einsum("nii->n", resolvent[:, half : self.corner, :half]) / half / self.factor)


def planar_atoms(expression: Expression, matrix: Callable[[int], Complex]) -> PlanarAtoms:
    """Return pairs (location, mass) of the points where ``(p - z)^k`` has a kernel.

    Locations are repeated eigenvalues of one matrix in general position; masses are those of the atom at 0 of
    ``|(p - z)^k|^2``, which are exact. The power is raised until the mass stays.

    Parameters
    ----------
    expression : p; matrix : size -> p at random matrices.
    """
    laws = expression.family.laws if expression.family else ()
    if not any(law.atoms for law in laws) and not _constant(expression):
        # Without atoms of its variables no expression has one (Mai, Speicher and Weber, 2017), unless it
        # is a number.
        return ()
    found = []
    for place in _repeated(np.linalg.eigvals(matrix(SIZE)), expression):
        mass = _mass(expression - place)
        if mass > 0:
            found.append((place, mass))
    return tuple(found)


def _constant(expression: Expression) -> bool:
    return set(expression.terms) <= {()}


def _repeated(eigenvalues: Complex, expression: Expression) -> list[complex]:
    """Return the middles of groups of at least three eigenvalues; Jordan blocks scatter them."""
    scale = max(float(np.abs(eigenvalues).max()), 1e-300)
    near = partial(_close, scale=scale)
    constant = expression.constant
    candidates = [] if np.ndim(constant) else [complex(constant)]
    candidates += [complex(value) for value in eigenvalues]
    places: list[complex] = []
    for candidate in candidates:
        group = eigenvalues[near(eigenvalues, candidate)]
        if len(group) >= 3 and not any(abs(place - candidate) < 3e-3 * scale for place in places):
            given = abs(candidate - candidates[0]) < 3e-3 * scale and not np.ndim(constant)
            middle = candidates[0] if given else complex(np.mean(group))
            places.append(complex(0.0) if abs(middle) < 1e-9 * scale else middle)
    return places


def _close(values: Complex, place: complex, scale: float) -> Complex:
    return np.asarray(np.abs(values - place) < 1e-3 * scale)


def _mass(moved: Expression) -> float:
    """Return the mass of the kernel of the highest power that is looked at."""
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
