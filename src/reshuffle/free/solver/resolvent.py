"""An expression made ready to be solved: its pencil, its joint system, and resolvents at any points.

Before that, expressions without a law are refused and powers that repeat are reduced.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.free.checks import Complex, ConvergenceError, Real
from reshuffle.free.expression import (
    Expression,
    Inverse,
    Variable,
    Word,
)
from reshuffle.free.functions import generated
from reshuffle.free.laws import Law
from reshuffle.free.linearization import Pencil, linearize
from reshuffle.free.moments import is_polynomial
from reshuffle.free.progress import SINGLE_THREAD, Effort, working
from reshuffle.free.solver.axis import AxisSolver, ChebyshevCache
from reshuffle.free.solver.continuation import Resolved, follow, resolved
from reshuffle.free.solver.symmetry import SymmetricSystem, exchange
from reshuffle.free.solver.system import PencilSystem, System

if TYPE_CHECKING:
    from reshuffle.free.spectrum import Spectrum

# Of the points solved together: few enough to stay in the cache.
MEMORY = 150_000
# Points of an answer that is kept for the next question.
REMEMBERED = 20_000
# Seconds of one Newton step at one point, measured on one core: for itself, and per entry of its Jacobian.
STEP, STEP_PER_ENTRY = 2.5e-5, 3.5e-7
# Rows from which on a pencil is looked at for variables that can be exchanged.
WORTH = 5


class Engine:
    """Solves ``(id (x) tau)(z direction - L)^-1`` for the pencil L of an expression.

    Parameters
    ----------
    expression : self-adjoint.
    direction : which rows of its own matrix block z multiplies, all unless given.
    """

    def __init__(self, expression: Expression, direction: NDArray[Any] | None = None):
        with SINGLE_THREAD:
            self.expression = reduced(generated(expression))
            self.pencil = linearize(self.expression)
        rows = np.ones(self.pencil.corner) if direction is None else np.asarray(direction, dtype=float)
        self._last: dict[bool, tuple[Complex, Resolved]] = {}
        self.direction = np.concatenate([rows, np.zeros(self.pencil.size - self.pencil.corner)])

    @cached_property
    def effort(self) -> Effort:
        """What solving has cost."""
        return Effort(
            f"the law of {self.expression!r}", STEP + STEP_PER_ENTRY * self.system.unknowns**2, self._refused
        )

    def _refused(self, needed: float, budget: float) -> ConvergenceError:
        return ConvergenceError(
            f"the support and the measure of {self.expression!r} were not found within {budget:g} s of one core: "
            f"they have parts that are nearly singular; allow more with spectrum(p, budget={10 * budget:g}), or use"
            " density(t) and cauchy(z) at chosen points"
        )

    @cached_property
    def system(self) -> PencilSystem:
        """The joint fixed-point system of all variables, each scaled to norm one, split where they are alike."""
        family = self.expression.family
        laws = (
            [law / scale for law, scale in zip(family.laws, self.pencil.scales, strict=True)]
            if family
            else []
        )
        with SINGLE_THREAD:
            return joint_system(self.pencil, laws, self.direction)

    @cached_property
    def axis(self) -> AxisSolver:
        """What is known of the resolvent on the real axis."""
        return AxisSolver(self.system, self.pencil.corner)

    def mark(self, edges: Real) -> None:
        """Tell the solver where the spectrum has ends, nearly: beside them it then needs fewer steps."""
        self.axis.known.mark((edges - self.pencil.shift) / self.pencil.factor)

    def ends(self, outside: Real, inside: Real) -> Real:
        """Return where the spectrum ends between points (n,) outside and inside of it, nan where it is no fold."""
        pencil, before = self.pencil, self.axis.steps
        places = self.axis.ends(*((x - pencil.shift) / pencil.factor for x in (outside, inside)))
        self.effort.spend(self.axis.steps - before)
        return np.asarray(places * pencil.factor + pencil.shift)

    @cached_property
    def series(self) -> ChebyshevCache:
        """The same as series, where many points were asked for."""
        return ChebyshevCache(self._on_axis)

    def resolvent(self, z: Complex, strict: bool = True) -> Resolved:
        """Return the first block of the resolvent at z (points,), of shape (points, corner, corner).

        A strict answer is nan where its own error estimate says that no digit can be trusted, after the
        neighbours were asked too.
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

    def _on_axis(self, x: Real) -> tuple[Complex, Real]:
        landed = self.axis.solve(x)
        self.effort.spend(landed.steps)
        return landed.values, landed.errors

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
        # A copy, since who asked may write into it.
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


def joint_system(pencil: Pencil, laws: Sequence[Law], direction: Real) -> PencilSystem:
    """Return the joint system of all variables, split by the symmetry between them where there is one.

    Small pencils are left as they are: close to strong singularities their rows differ by many orders of size, and
    the rows of a type are mixtures of them.
    """
    if pencil.size >= WORTH and len(laws) > 2 and pencil.is_real:
        found = exchange(pencil.coefficients.real, pencil.corner, laws)
        if found is not None:
            try:
                return SymmetricSystem(found, laws, direction, pencil.corner)
            except ArithmeticError:
                pass
    return System(pencil.coefficients, laws, direction)


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
    if not difference.terms or _is_rounding(difference, expression):
        return
    values = [difference.evaluate(_point(expression, seed)) for seed in (1, 2)]
    sizes = [np.abs(expression.evaluate(_point(expression, seed))).max() for seed in (1, 2)]
    if all(np.abs(value).max() <= 1e-12 * size for value, size in zip(values, sizes, strict=True)):
        return
    shown = difference if not is_polynomial(expression) else _without_rounding(difference)
    raise ValueError(
        f"expression must be self-adjoint, but it is {expression!r}, whose anti-self-adjoint part is {shown!r};"
        " take (p + p.adjoint())/2, or p.adjoint() * p for its singular values"
    )


def _point(expression: Expression, seed: int) -> list[Complex]:
    generator = np.random.default_rng(seed)
    laws = expression.family.laws if expression.family else ()
    result = []
    for law in laws:
        a = generator.standard_normal((5, 5)) + 1j * generator.standard_normal((5, 5))
        result.append((a + a.conj().T) * law.scale / 4)
    return result or [np.eye(1)]


def _is_rounding(difference: Expression, expression: Expression) -> bool:
    """Return whether a polynomial's coefficients are rounding beside those of another."""
    if not is_polynomial(expression):
        return False
    largest, left = (
        max(float(np.abs(value).max() if np.ndim(value) else abs(value)) for value in sum_.terms.values())
        for sum_ in (expression, difference)
    )
    return left <= 1e-15 * largest


def _without_rounding(difference: Expression) -> Expression:
    largest = max(float(np.abs(value).max()) for value in difference.terms.values())
    kept = {word: value for word, value in difference.terms.items() if np.abs(value).max() > 1e-12 * largest}
    return Expression(kept, difference.family)


def require_invertible(expression: Expression, spectrum: Callable[[Expression], "Spectrum"]) -> None:
    """Raise unless every divisor in the expression is bounded away from 0.

    A self-adjoint divisor must not have 0 in its spectrum; for any other d the same is asked of ``d* d``.
    """
    for letter in {letter for word in expression.terms for letter in word if isinstance(letter, Inverse)}:
        divisor = letter.of
        law = spectrum(divisor if divisor == divisor.adjoint() else divisor.adjoint() * divisor)
        tolerance = 1e-9 * max(abs(end) for pair in _spectrum(law) for end in pair)
        for low, high in _spectrum(law):
            if low <= tolerance and high >= -tolerance:
                raise ZeroDivisionError(
                    f"division by {divisor!r}: the divisor must be invertible, but 0 lies in the"
                    f" part [{low:.6g}, {high:.6g}]"
                    " of its spectrum (or of its squared modulus); add a constant that"
                    " moves the spectrum off 0"
                )


def _spectrum(law: "Spectrum") -> list[tuple[float, float]]:
    return [*law.support, *((place, place) for place, _ in law.atoms)]


FEW = 4
"""Largest number of values that is looked at; a power of as many letters is rare."""

Rule = tuple[int, int, float]
"""Whole numbers k > j and a factor c with x^k = c x^j."""


def reduced(expression: Expression) -> Expression:
    """Return the same operator with every power x^k replaced by c x^j where the values of x allow it.

    A projection is its own square, a symmetry squares to one, a constant is a number. The pencil becomes smaller,
    and less singular where variables meet their own powers. Rules of several terms, such as
    ``x^2 = (a + b) x - a b`` for two values a and b, are not used: they lengthen most expressions.

    >>> from reshuffle import free
    >>> p, s = free.variables(free.Projection(0.5), free.Bernoulli())
    >>> reduced(p * s * s * s * p + p**3)
    x1 + x1 x2 x1
    """
    laws = expression.family.laws if expression.family else ()
    rules = [_rule(law) for law in laws]
    if not any(rules) and not any(
        isinstance(letter, Inverse) for word in expression.terms for letter in word
    ):
        return expression
    # Words that become the same are added in as few sums as there are of them: each sum copies all words.
    layers: list[dict[Word, Any]] = [{}]
    for word, value in expression.terms.items():
        short, factor = _word(word, rules)
        layer = next((layer for layer in layers if short not in layer), None)
        if layer is None:
            layers.append(layer := {})
        layer[short] = value * factor
    return sum(
        (Expression(layer, expression.family) for layer in layers[1:]),
        Expression(layers[0], expression.family),
    )


def _rule(law: Law) -> Rule | None:
    """Return how the powers of a variable end, if it has few values and their polynomial has two terms."""
    if law.support or len(law.atoms) > FEW:
        return None
    coefficients = -np.poly([place for place, _ in law.atoms])[:0:-1]
    (powers,) = np.nonzero(coefficients)
    if len(powers) > 1:
        return None
    power = int(powers[0]) if len(powers) else 0
    return len(coefficients), power, float(coefficients[power])


def _word(word: Word, rules: list[Rule | None]) -> tuple[Word, Any]:
    """Return a word without high powers, built up letter by letter, and its factor."""
    short: Word = ()
    factor = 1.0
    for letter in word:
        if isinstance(letter, Inverse):
            short = (*short, Inverse(reduced(letter.of)))
            continue
        assert isinstance(letter, Variable)
        short, rule = (*short, letter), rules[letter.index]
        if rule is not None and short[-rule[0] :] == (letter,) * rule[0]:
            short = short[: len(short) - rule[0]] + (letter,) * rule[1]
            factor *= rule[2]
    return short, factor
