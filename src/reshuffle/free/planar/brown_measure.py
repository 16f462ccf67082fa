"""The Brown measure of an expression that need not be self-adjoint: density, radii, atoms, and a picture."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
from reshuffle.free.expression import Expression
from reshuffle.free.functions import generated
from reshuffle.free.planar.hermitised import Hermitised, Plane
from reshuffle.free.planar.kernels import planar_atoms
from reshuffle.free.solver.continuation import Resolved
from reshuffle.free.solver.resolvent import require_invertible
from reshuffle.free.spectrum import spectrum

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

    def _points(self, z: ArrayLike) -> tuple[Plane, tuple[int, ...]]:
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
        from reshuffle.free.view import current_axes

        ax = current_axes() if ax is None else ax
        found = self.grid(points)
        finite = found.density[np.isfinite(found.density) & (found.density > 0)]
        top = number("density", float(np.quantile(finite, 0.98)) if len(finite) else 1.0)
        mesh = ax.pcolormesh(found.x, found.y, np.nan_to_num(found.density), cmap="Blues", vmin=0, vmax=top)
        ax.figure.colorbar(mesh, ax=ax, label="density", shrink=0.8)
        if sample is not None:
            drawn = self.eigenvalues(sample, seed)
            ax.plot(
                drawn.real, drawn.imag, ".", ms=2.0, color="#b5482a", label=f"one matrix of size {sample}"
            )
            ax.legend(frameon=False, loc="upper right", fontsize="small")
        for place, mass in self.atoms:
            ax.annotate(f"{mass:.3g}", (place.real, place.imag), color="#b5482a", ha="center", va="center")
        ax.set_aspect("equal")
        ax.set_xlabel("real part")
        ax.set_ylabel("imaginary part")
        return ax

    def __repr__(self) -> str:
        return f"Brown measure of {self.expression!r}, pencil {self._system.size} x {self._system.size}"
