"""Linearization: an expression as a Schur complement of a self-adjoint matrix affine in the variables.

`minimise` reduces such a Hermitian pencil to its smallest size, by congruences that keep its Schur complement.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from reshuffle.free.checks import Complex
from reshuffle.free.expression import Expression, Family, Image, Inverse, Letter, Variable, Word, root_law
from reshuffle.free.laws import Pushforward

TOLERANCE = 1e-11


@dataclass(frozen=True)
class Pencil:
    """A self-adjoint pencil whose Schur complement onto its first block is the expression.

    ``L = b_0 + sum_j b_j (x) x_j/scales_j``, ``L_00 - L_01 L_11^-1 L_10 = (expression - shift)/factor``.

    Attributes
    ----------
    coefficients : (m + 1, size, size)
        Hermitian, ``[b_0, ..., b_m]``.
    corner : int
        The size of the block ``00``, the dimension of the expression's own matrix coefficients.
    scales : (m,)
        The divisor of each variable.
    factor, shift : float
        The affine map from the Schur complement to the expression.
    """

    coefficients: Complex
    corner: int
    scales: tuple[float, ...]
    factor: float
    shift: float

    @property
    def size(self) -> int:
        """The number of rows, the first block included."""
        return int(self.coefficients.shape[1])

    @cached_property
    def is_real(self) -> bool:
        """True if every coefficient is a real matrix."""
        return not np.any(self.coefficients.imag)

    def schur(self, matrices: list[NDArray[Any]]) -> NDArray[Any]:
        """Return the expression at ``matrices`` by eliminating all rows but the first block."""
        size = len(matrices[0])
        total = np.kron(self.coefficients[0], np.eye(size))
        for b, scale, x in zip(self.coefficients[1:], self.scales, matrices, strict=True):
            total = total + np.kron(b, np.asarray(x) / scale)
        cut = self.corner * size
        inner = total[:cut, cut:] @ np.linalg.solve(total[cut:, cut:], total[cut:, :cut])
        return np.asarray(self.factor * (total[:cut, :cut] - inner) + self.shift * np.eye(cut))


def linearize(expression: Expression) -> Pencil:
    """Return the minimal self-adjoint pencil of a self-adjoint expression.

    The expression is read from the left, ``p = c + sum over first letters of letter * rest``; each different
    rest is one state, so that products over all orders share the states of their subsets. Then ``(p +
    p*)/2`` is written as a Hermitian pencil of twice the size, and reduced. Sources: Schuetzenberger (1961);
    Helton, Mai and Speicher (2018).

    Parameters
    ----------
    expression : Expression
        Self-adjoint, of variables of one call of `variables`.

    Returns
    -------
    Pencil
        Coefficients that are Hermitian matrices, one corner of whose inverse is the resolvent.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> linearize(x * y + y * x).size
    3
    """
    expression = generated(expression)
    family = expression.family
    laws = family.laws if family else ()
    scales = tuple(law.scale or 1.0 for law in laws)
    shift = expression.constant
    shift = 0.0 if np.ndim(shift) else complex(shift).real
    rest = expression - shift if shift else expression
    corner = expression.dimension
    builder = _Builder(scales, corner)
    terms = builder.terms(rest)
    factor = builder.magnitude(terms) or 1.0
    system = builder.system(terms)
    # The Hermitian pencil of (p + p*)/2: states doubled, Q off the diagonal.
    a, u = system[:, :corner, :corner], system[:, :corner, corner:] / np.sqrt(2)
    v, q = system[:, corner:, :corner] / np.sqrt(2), system[:, corner:, corner:]
    a_, u_, v_, q_ = (part.transpose(0, 2, 1).conj() for part in (a, u, v, q))
    zero = np.zeros_like(q)
    pencil = minimise(np.block([[(a + a_) / 2, u, v_], [u_, zero, q_], [v, q, zero]]), corner)
    # Rounding left by the reduction would otherwise hide that a pencil is real, or a coefficient of low rank.
    pencil = (pencil + pencil.transpose(0, 2, 1).conj()) / 2
    small = 1e-14 * np.abs(pencil).max()
    real, imaginary = (np.where(np.abs(part) < small, 0.0, part) for part in (pencil.real, pencil.imag))
    return Pencil(real + 1j * imaginary, corner, scales, factor, shift)


Terms = dict[tuple[int, ...], Any]
"""Words of numbered letters with their coefficients: sums of thousands of words are compared in an instant."""


class _Builder:
    """Collects rows ``coefficient * column`` of states, each normalised to the size of its expression."""

    def __init__(self, scales: tuple[float, ...], dimension: int):
        self.scales = scales
        self.dimension = dimension
        self.letters: dict[Letter, int] = {}
        self.inverted: dict[int, Terms] = {}
        self.sizes: list[float] = []
        self.slots: list[int] = []
        self.states: dict[Any, int] = {}
        self.equations: list[dict[int, Complex]] = []

    def terms(self, expression: Expression) -> Terms:
        """Return the words of an expression with numbers for letters."""
        return {
            tuple([self._number(letter) for letter in word]): value
            for word, value in expression.terms.items()
        }

    def _number(self, letter: Letter) -> int:
        found = self.letters.get(letter)
        if found is not None:
            return found
        if isinstance(letter, Inverse):
            divisor = self.terms(letter.of)
            size, slot = 1 / self.magnitude(divisor), 0
        else:
            assert isinstance(letter, Variable)
            divisor, size, slot = {}, self.scales[letter.index], letter.index + 1
        number = self.letters[letter] = len(self.sizes)
        if divisor:
            self.inverted[number] = divisor
        self.sizes.append(size)
        self.slots.append(slot)
        return number

    def system(self, terms: Terms) -> Complex:
        """Return ``[[a, u], [v, Q]]`` with ``expression/magnitude = a - u Q^-1 v``."""
        first = self._rows(terms, 0)
        d, size = self.dimension, len(self.equations) + 1
        result = np.zeros((len(self.scales) + 1, size * d, size * d), dtype=complex)
        for row, entries in enumerate([first, *self.equations]):
            for column, value in entries.items():
                result[:, row * d : row * d + d, column * d : column * d + d] += value
        return result

    def magnitude(self, terms: Terms) -> float:
        """Return the largest coefficient once every letter is scaled to size one."""
        largest = 0.0
        for word, value in terms.items():
            size = float(np.max(np.abs(value))) if isinstance(value, np.ndarray) else float(abs(value))
            for letter in word:
                size *= self.sizes[letter]
            largest = max(largest, size)
        return largest

    def _rows(self, terms: Terms, column: int) -> dict[int, Complex]:
        """Return the row whose value is ``expression/magnitude`` applied to ``column``."""
        unit = self.magnitude(terms) or 1.0
        entries: dict[int, Complex] = {column: self._entry(terms.get((), 0), 0) / unit}
        groups: dict[int, Terms] = {}
        for word, value in terms.items():
            if word:
                groups.setdefault(word[0], {})[word[1:]] = value
        for letter, rest in groups.items():
            size = self.magnitude(rest)
            weight = size * self.sizes[letter] / unit
            target, factor = self._state(rest, size, column)
            if letter in self.inverted:
                target, factor = self._solve(letter, target, factor), np.eye(self.dimension)
            entries[target] = entries.get(target, 0) + weight * self._entry(factor, self.slots[letter])
        return entries

    def _state(self, rest: Terms, size: float, column: int) -> tuple[int, Any]:
        """Return the column holding ``rest/size`` of ``column``, and the matrix to multiply it by."""
        if set(rest) == {()}:
            return column, np.asarray(rest[()]) / size
        key = (frozenset((word, _rounded(value / size)) for word, value in rest.items()), column)
        return self._defined(key, rest, column, None, -np.eye(self.dimension)), 1.0

    def _solve(self, letter: int, column: int, factor: Any) -> int:
        """Return the state y with ``(divisor/magnitude) y = factor * column``."""
        key = (letter, column, np.asarray(factor).tobytes())
        return self._defined(key, self.inverted[letter], None, column, -np.asarray(factor))

    def _defined(self, key: Any, terms: Terms, at: int | None, column: int | None, factor: Any) -> int:
        """Return the state with the equation ``terms * at + factor * column = 0``; None stands for itself."""
        if key not in self.states:
            self.equations.append({})
            state = self.states[key] = len(self.equations)
            row = self._rows(terms, state if at is None else at)
            target = state if column is None else column
            row[target] = row.get(target, 0) + self._entry(factor, 0)
            self.equations[state - 1] = row
        return self.states[key]

    def _entry(self, value: Any, slot: int) -> Complex:
        result = np.zeros((len(self.scales) + 1, self.dimension, self.dimension), dtype=complex)
        result[slot] = np.asarray(value) if np.ndim(value) == 2 else complex(value) * np.eye(self.dimension)
        return result


def _rounded(value: Any) -> Any:
    """Return a coefficient as a key: multiples of each other are one state, whatever their last bits are."""
    if isinstance(value, np.ndarray):
        return value.shape, (np.round(value, 14) + 0.0).tobytes()
    number = complex(value)
    return round(number.real, 14) + 0.0, round(number.imag, 14) + 0.0


def minimise(pencil: Complex, corner: int) -> Complex:
    """Return the smallest Hermitian pencil with the same Schur complement onto the first ``corner`` rows.

    Two reductions alternate until neither shrinks it: states that the first block never reaches (by symmetry
    also those that never reach it) are dropped, and rows without any variable are solved for.
    """
    size = pencil.shape[1] + 1
    while pencil.shape[1] < size:
        size = pencil.shape[1]
        pencil = _drop_unreachable(pencil, corner)
        pencil = _solve_constant_rows(pencil, corner)
    return pencil


def _drop_unreachable(pencil: Complex, corner: int) -> Complex:
    """Restrict to the states reached from the first block, modulo the radical of the form on them.

    With M the states' block at a scalar point, the reachable space is the smallest one that holds ``M^-1
    v_j`` and is invariant under ``M^-1 Q_j``. A vector of it that is M-orthogonal to all of it is orthogonal
    to every ``v_j`` and ``Q_j`` image as well, so it drops out of the Schur complement.
    """
    states = pencil.shape[1] - corner
    if states == 0:
        return pencil
    middle = _regular_point(pencil[:, corner:, corner:])
    if middle is None:
        # Inverses without a scalar point, such as (xy - yx)^-1, keep their full size: right, only larger.
        return pencil
    images = np.linalg.solve(middle, pencil[:, corner:, :])
    inputs = images[:, :, :corner].transpose(1, 0, 2).reshape(states, -1)
    reached = _krylov(inputs, images[1:, :, corner:])
    if reached.shape[1] == 0:
        return pencil[:, :corner, :corner]
    # Echelon bases keep the pencil sparse. Close to a strong singularity the resolvent's entries differ by
    # many orders of size, and rotating the states would drown the small ones in the rounding of the large.
    reached = _echelon(reached)
    form = reached.conj().T @ middle @ reached
    # A largest nonsingular principal block of the form.
    _, r, pivots = qr((form + form.conj().T) / 2, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(r))
    basis = reached[:, np.sort(pivots[: int(np.sum(sizes > TOLERANCE * sizes[0]))])]
    return _congruent(pencil, corner, basis, np.zeros((states, corner)))


def _echelon(basis: Complex) -> Complex:
    """Return the basis of the same space that is the identity on well chosen rows."""
    _, _, pivots = qr(basis.conj().T, mode="economic", pivoting=True)
    chosen = pivots[: basis.shape[1]]
    result = basis @ np.linalg.inv(basis[np.sort(chosen)])
    return np.asarray(np.where(np.abs(result) < 1e-13, 0.0, result))


def _regular_point(blocks: Complex) -> Complex | None:
    """Return the block at the best conditioned of a few real scalar points, or None if all are singular."""
    generator = np.random.default_rng(7)
    trials = [np.zeros(len(blocks) - 1), *generator.uniform(-1, 1, size=(8, len(blocks) - 1))]
    values = [blocks[0] + np.tensordot(point, blocks[1:], axes=1) for point in trials]
    conditions = [np.linalg.cond(value) for value in values]
    best = int(np.argmin(conditions))
    return values[best] if conditions[best] < 1e8 else None


def _krylov(start: Complex, maps: Complex) -> Complex:
    """Return an orthonormal basis of the smallest space that holds ``start`` and that ``maps`` preserve."""
    basis = np.zeros((len(start), 0), dtype=complex)
    fresh = start
    while fresh.shape[1]:
        scale = max(float(np.linalg.norm(fresh, axis=0).max()), 1e-300)
        for _ in range(2):
            fresh = fresh - basis @ (basis.conj().T @ fresh)
        left, sizes, _ = np.linalg.svd(fresh, full_matrices=False)
        new = left[:, sizes > TOLERANCE * scale]
        basis = np.concatenate([basis, new], axis=1)
        fresh = np.concatenate([a @ new for a in maps], axis=1) if len(maps) else new[:, :0]
    return basis


def _solve_constant_rows(pencil: Complex, corner: int) -> Complex:
    """Eliminate the combinations of rows in which no variable occurs.

    If ``E* b_j = 0`` for all variables then ``E* b_0 w = 0`` is a linear constraint on the solution w.
    Restricted to it, the pencil loses also the directions of E that satisfy the constraint themselves.
    """
    states = pencil.shape[1] - corner
    if states == 0:
        return pencil
    stacked = pencil[1:, :, corner:].reshape(-1, states)
    scale = max(float(np.abs(stacked).max()), 1e-300) if stacked.size else 1.0
    constant = _null_space(stacked / scale)
    if constant.shape[1] == 0:
        return pencil
    rows = constant.conj().T @ pencil[0, corner:, :]
    lift = -np.linalg.lstsq(rows[:, corner:], rows[:, :corner], rcond=None)[0]
    allowed = _null_space(rows[:, corner:])
    allowed = _echelon(allowed) if allowed.shape[1] else allowed
    away = np.eye(states) - constant @ constant.conj().T
    spare = allowed @ _null_space(away @ allowed)
    basis = allowed @ _null_space(spare.conj().T @ allowed)
    return _congruent(pencil, corner, basis, lift)


def _null_space(matrix: Complex) -> Complex:
    columns = matrix.shape[1]
    if matrix.shape[0] == 0:
        return np.eye(columns, dtype=complex)
    if matrix.shape[0] > columns:
        # The triangular factor has the same null space, and no left singular vectors of all rows.
        matrix = np.asarray(np.linalg.qr(matrix, mode="r"))
    _, sizes, right = np.linalg.svd(matrix, full_matrices=True)
    rank = int(np.sum(sizes > TOLERANCE * max(float(sizes.max(initial=0.0)), 1.0)))
    return np.asarray(right[rank:].conj().T)


def _congruent(pencil: Complex, corner: int, basis: Complex, lift: Complex) -> Complex:
    """Return ``T* b T`` with ``T = [[1, 0], [lift, basis]]``."""
    transform = np.zeros((pencil.shape[1], corner + basis.shape[1]), dtype=complex)
    transform[:corner, :corner] = np.eye(corner)
    transform[corner:, :corner] = lift
    transform[corner:, corner:] = basis
    return np.asarray(transform.conj().T @ pencil @ transform)


def generated(expression: Expression) -> Expression:
    """Return the same operator without functions: each variable replaced by the function of it that occurs.

    A variable that meets its square root becomes the square of it. The law of the new variable is a pushforward.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.MarchenkoPastur(1.0), free.Semicircle())
    >>> generated(free.sqrt(x) * y * free.sqrt(x) + x)
    sqrt(x1)^2 + sqrt(x1) x2 sqrt(x1)
    """
    letters = set(_letters(expression))
    images = {letter.variable.index: letter for letter in letters if isinstance(letter, Image)}
    if not images:
        return expression
    for letter in letters:
        is_variable = isinstance(letter, Variable)
        other = images.get(letter.index if isinstance(letter, Variable) else letter.variable.index)
        if other not in (None, letter) and not (is_variable and other.function is np.sqrt):
            raise ValueError(
                f"{other.name} may not meet {letter.name} in one expression, but it does in {expression!r}; only a"
                " square root and its variable may: write both as polynomials of one function of the variable"
            )
    family = expression.family
    assert family is not None
    # The family in which these variables are replaced by their functions is the same one each time.
    key = frozenset(images.values())
    if key not in family.derived:
        laws, names = list(family.laws), list(family.names)
        for index, image in images.items():
            root = image.function is np.sqrt
            law = laws[index]
            laws[index] = root_law(law) if root else Pushforward(law, image.function, name=image.label)
            names[index] = image.name
        family.derived[key] = Family(tuple(laws), tuple(names))
    return _rewritten(expression, images, family.derived[key])


def _letters(expression: Expression) -> Iterator[Variable | Image]:
    for word in expression.terms:
        for letter in word:
            if isinstance(letter, Inverse):
                yield from _letters(letter.of)
            else:
                yield letter


def _rewritten(expression: Expression, images: dict[int, Image], family: Family) -> Expression:
    total = Expression({}, family)
    for word, value in expression.terms.items():
        new: list[Letter] = []
        for letter in word:
            if isinstance(letter, Inverse):
                new.append(Inverse(_rewritten(letter.of, images, family)))
            elif isinstance(letter, Image):
                new.append(Variable(family, letter.variable.index))
            else:
                new += [Variable(family, letter.index)] * (2 if letter.index in images else 1)
        total = total + Expression({tuple(new): value}, family)
    return total


FEW = 4
"""Largest number of values that is examined; a power of as many letters is rare."""

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
    rules: list[Rule | None] = []
    for law in laws:
        # The powers of a variable end, if it has few values and their polynomial has two terms.
        few = not law.support and len(law.atoms) <= FEW
        coefficients = -np.poly([place for place, _ in law.atoms])[:0:-1] if few else np.ones(2)
        (powers,) = np.nonzero(coefficients)
        power = int(powers[0]) if len(powers) else 0
        rules.append((len(coefficients), power, float(coefficients[power])) if len(powers) < 2 else None)
    if not any(rules) and not any(
        isinstance(letter, Inverse) for word in expression.terms for letter in word
    ):
        return expression
    # Words that become the same are added in as few sums as there are of them: each sum copies all words.
    layers: list[dict[Word, Any]] = [{}]
    for word, value in expression.terms.items():
        # A word without high powers, built up letter by letter, and its factor.
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
        layer = next((layer for layer in layers if short not in layer), None)
        if layer is None:
            layers.append(layer := {})
        layer[short] = value * factor
    return sum(
        (Expression(layer, expression.family) for layer in layers[1:]),
        Expression(layers[0], expression.family),
    )
