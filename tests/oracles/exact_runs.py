"""Right answers by enumeration of every order, in exact rational arithmetic: for any condition number and epoch.

The state z is beta, or (beta, v) with momentum, where the buffer v is in units of a number that makes both of one
size. With W = X_b'X_b / m and the penalty l a visit is

    v -> momentum v + g,  g = W beta - X_b'y_b / m + l beta,    beta -> beta - step v,

or beta - step (g + momentum v) with Nesterov's momentum. Responses stay, so that a map is a matrix T on (z, y).
A run chooses one of several *timelines* at its start; an epoch of it is a list of independent *stages*; a stage is
a list of equally likely *alternatives*; an alternative is a list of visits (rows, divisor).
"""

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
from flint import acb_mat, arb, arb_mat, ctx, fmpq, fmpq_mat

from tests.oracles import every_order

# Matrices.

ZERO = fmpq(0)


def rational(number):
    """The number itself: every float is a ratio of whole numbers."""
    return number if isinstance(number, fmpq) else fmpq(*number.as_integer_ratio())


def matrix(rows):
    """A matrix of floats, exactly."""
    return fmpq_mat([[rational(entry) for entry in row] for row in np.asarray(rows, dtype=float).tolist()])


def column(entries):
    return matrix(np.reshape(entries, (-1, 1)))


def identity(size):
    return diagonal([1] * size)


def diagonal(values):
    size = len(values)
    return fmpq_mat(size, size, [values[i] if i == j else 0 for i in range(size) for j in range(size)])


def zeros(rows, columns):
    return fmpq_mat(rows, columns, [0] * (rows * columns))


def part(whole, rows, columns=None):
    """The chosen rows and columns, of a rational matrix or of a real one; a number means the first of them."""
    rows = range(rows) if isinstance(rows, int) else rows
    columns = range(whole.ncols()) if columns is None else columns
    columns = range(columns) if isinstance(columns, int) else columns
    return type(whole)(len(rows), len(columns), [whole[i, j] for i in rows for j in columns])


def block(*lines):
    """One matrix from blocks, as numpy.block."""
    entries = [
        entry for line in lines for row in range(line[0].nrows())
        for one in line for entry in (one[row, j] for j in range(one.ncols()))
    ]  # fmt: skip
    return fmpq_mat(sum(line[0].nrows() for line in lines), sum(one.ncols() for one in lines[0]), entries)


def is_zero(whole):
    return all(entry == 0 for entry in whole.entries())


def mean(parts):
    """The mean of equally likely ones."""
    return total(parts) * fmpq(1, len(parts))


def total(parts):
    first, *others = parts
    return sum(others, first)


def real(whole):
    """Enclosures of the entries, at the precision that is set."""
    return arb_mat(whole.nrows(), whole.ncols(), [arb(entry) for entry in whole.entries()])


def pivots(reduced, rank):
    """The pivot columns of a reduced row echelon form."""
    return [next(j for j in range(reduced.ncols()) if reduced[row, j] != 0) for row in range(rank)]


def null_space(square):
    """A basis (d, m) of the vectors that the matrix sends to zero."""
    size, (reduced, rank) = square.ncols(), square.rref()
    leading = pivots(reduced, rank)
    free = [j for j in range(size) if j not in leading]
    basis = [[fmpq(int(j == row)) for j in free] for row in range(size)]
    for row, pivot in enumerate(leading):
        basis[pivot] = [-reduced[row, j] for j in free]
    return fmpq_mat(size, len(free), [entry for row in basis for entry in row])


PAIRS = {size: [(i, j) for i in range(size) for j in range(i, size)] for size in range(40)}
"""The entries of a symmetric matrix."""


def symmetric_square(T):
    """The matrix of M -> T M T' on symmetric matrices."""
    pairs = PAIRS[T.nrows()]
    return fmpq_mat(len(pairs), len(pairs), [
        T[i, k] * T[j, m] + (T[i, m] * T[j, k] if k != m else 0) for i, j in pairs for k, m in pairs
    ])  # fmt: skip


# Numbers that are known well enough: an enclosure; infinity where it grows; None where there is no one answer.

_PRECISIONS = (320, 900, 3000)
_KNOWN = 1e-13
"""Relative to the largest number of an answer: the radius at which it counts as known."""


def size(value):
    """The size of a value; inf beyond the range of floats."""
    return 0.0 if value is None else math.inf if isinstance(value, float) else float(abs(value).mid())


def certified(compute: Callable[[], list]) -> list:
    """Groups of values, at the first precision at which they are known well enough; None where they never are."""
    groups = []
    for precision in _PRECISIONS:
        with ctx.workprec(precision):
            groups = [[beyond_is_infinite(value) for value in group] for group in compute()]
            if all(_is_known(value, group) for group in groups for value in group):
                return groups
    with ctx.workprec(_PRECISIONS[-1]):
        return [[value if _is_known(value, group) else None for value in group] for group in groups]


def beyond_is_infinite(value):
    """Infinity in place of an enclosure beyond the range of floats."""
    beyond = isinstance(value, arb) and value.is_finite() and abs(value) > arb(2) ** 1025
    return math.inf if beyond else value


def _is_known(value, group):
    if not isinstance(value, arb):
        return True
    largest = max(
        (abs(each).mid() for each in group if isinstance(each, arb) and each.is_finite()), default=0
    )
    return value.is_finite() and bool(value.rad() <= largest * _KNOWN)


def floats(groups):
    """Groups of values as floats, each known to more digits than a float has."""
    assert all(one.rad() <= 1e-25 * abs(one.mid()) or one.is_zero() for group in groups for one in group)
    return np.array([[float(value.mid()) for value in group] for group in groups])


# What the oracle works on.


@dataclass(frozen=True)
class Scheme:
    """The name of a class of schemes, and its arguments."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


def sizes(n, arguments):
    """How many rows each batch has."""
    batches, size = arguments.get("batches"), arguments.get("batch_size")
    if isinstance(batches, list):
        return [len(batch) for batch in batches]
    if size is None:
        return [n // batches + (number < n % batches) for number in range(batches)]
    whole, rest = divmod(n, size)
    return [size] * whole + ([rest] if rest and not arguments.get("drop_last") else [])


def timelines(scheme, n):
    """All timelines of a scheme on n rows."""
    name, arguments = scheme.name, scheme.arguments
    if name == "FullBatch":
        return [[[[(range(n), n)]]]]
    each = sizes(n, arguments)
    if name in ("SampleWithReplacement", "SampleSubsets"):
        drawn = every_order.drawn_samples if name == "SampleWithReplacement" else every_order.drawn_subsets
        return [[[[visit] for visit in drawn(n, size)] for size in each]]
    divisors = [Fraction(sum(each), len(each))] * len(each) if arguments.get("normalize") == "equal" else each
    if name == "SampleReshuffling":
        return [[every_order.epochs_of_shuffled_samples(n, each, divisors)]]
    given, ends = arguments.get("batches"), np.cumsum(each)
    parts = given if isinstance(given, list) else np.split(np.arange(ends[-1]), ends[:-1])
    batches = every_order.in_order(parts, divisors)
    if name == "RandomReshuffling":
        return [[[list(order) for order in permutations(batches)]]]
    if name == "WithReplacement":
        return [[[[batch] for batch in batches]] * len(batches)]
    if arguments.get("order") is not None:
        return [[[[batches[number] for number in arguments["order"]]]]]
    return [[[batches]]] if name == "Cyclic" else [[[list(order)]] for order in permutations(batches)]


def visits_per_epoch(scheme, n):
    return sum(len(stage[0]) for stage in timelines(scheme, n)[0])


@dataclass(frozen=True)
class Setting:
    """A problem, a scheme and a recipe; `beta_star` and `noise` are None where the truth is unknown."""

    X: fmpq_mat
    y: fmpq_mat
    scheme: Scheme
    step: Callable[[int], fmpq]
    start: fmpq_mat
    sigma: fmpq_mat
    beta_star: fmpq_mat | None = None
    noise: fmpq | None = None
    penalty: fmpq = ZERO
    momentum: fmpq = ZERO
    nesterov: bool = False
    unpenalized: tuple = ()
    is_constant: bool = True

    @property
    def n(self):
        return self.X.nrows()

    @property
    def p(self):
        return self.X.ncols()

    def without(self, row):
        """The same with the gradient of one row left out: it is zero."""
        X, y = self.X.tolist(), self.y.tolist()
        X[row], y[row] = [fmpq(0)] * self.p, [fmpq(0)]
        return replace(self, X=fmpq_mat(X), y=fmpq_mat(y))


_MOVEMENT = 1e-15
"""By how much inputs are moved, relative to the largest number beside them."""


def moved(given, seed):
    """The setting after every input has moved by 1e-15: zeros stay, and so does the rank of X."""
    rng = random.Random(seed)

    def shift():
        return rational(_MOVEMENT * rng.uniform(-1, 1))

    def shaken(whole):
        largest = max(map(abs, whole.entries()), default=fmpq(0))
        entries = [entry + largest * shift() if entry != 0 else entry for entry in whole.entries()]
        return fmpq_mat(whole.nrows(), whole.ncols(), entries)

    def features(X):
        reduced, rank = X.rref()
        if rank == min(X.nrows(), X.ncols()):
            return shaken(X)
        # X is columns of its own times their combinations: as both move, what is collinear stays so.
        made = [entry * (1 + shift()) for entry in part(reduced, rank).entries()]
        return shaken(part(X, X.nrows(), pivots(reduced, rank))) * fmpq_mat(rank, X.ncols(), made)

    factor, sigma = 1 + shift(), shaken(given.sigma)
    return replace(
        given,
        X=features(given.X),
        y=shaken(given.y),
        beta_star=None if given.beta_star is None else shaken(given.beta_star),
        noise=None if given.noise is None else given.noise * (1 + shift()),
        sigma=(sigma + sigma.transpose()) * fmpq(1, 2),
        step=lambda epoch: given.step(epoch) * factor,
        penalty=given.penalty * (1 + shift()),
        momentum=given.momentum * (1 + shift()),
        start=shaken(given.start),
    )


def posed(X, y, scheme, step, *, penalty=0.0, momentum=0.0, **more):
    """The oracle of a run from zero; a list of steps has one for each epoch."""
    p, steps = np.shape(X)[1], np.ravel(step).tolist()
    return Oracle(Setting(
        matrix(X), column(y), scheme, lambda epoch: rational(steps[epoch % len(steps)]), zeros(p, 1), identity(p),
        penalty=rational(penalty), momentum=rational(momentum), is_constant=len(steps) == 1, **more,
    ))  # fmt: skip


# Powers of a linear map to any number of epochs, and where they end.

_SPECTRAL_PRECISION = 640
"""Bits with which eigenvalues are computed: rates of 1e-170 beside 1 are seen."""
_ON_THE_CIRCLE = 1e-60
"""Relative distance to the unit circle below which an eigenvalue is taken to lie on it."""
_LATE = 1 << 80
"""Epochs after which whatever grows has left the range of floats, unless it grows by less than 1e-21 per epoch."""
_FAR = 4200
"""Powers of two by which a drift is followed."""


class LinearMap:
    """(z, y) -> T (z, y): states z of length d, inputs y that stay; `seen` is A where it is not the identity."""

    def __init__(self, T, d, seen):
        self.T, self.d, self.seen = T, d, seen
        self.A, self.N = part(T, d, d), part(T, d, range(d, T.ncols()))
        self.lost = identity(d) - self.A

    @cached_property
    def moving(self):
        """The eigenvalues x of I - A other than zero, sorted by size; those of A are 1 - x."""
        lost = identity(self.seen.nrows()) - self.seen
        if not lost.nrows():
            return []
        with ctx.workprec(_SPECTRAL_PRECISION):
            values = sorted(acb_mat(real(lost)).eig(algorithm="approx"), key=lambda value: abs(value).mid())
        return values[lost.nrows() - lost.rank() :]

    def shrinks(self):
        """True if |1 - x| < 1 for all of them; None if one lies on the circle itself."""
        answer = True
        with ctx.workprec(_SPECTRAL_PRECISION):
            for x in self.moving:
                square, twice = abs(x) ** 2, 2 * x.real
                gap = float(((twice - square) / (abs(x) + square)).mid())
                if gap < -_ON_THE_CIRCLE:
                    return False
                answer = None if gap < _ON_THE_CIRCLE else answer
        return answer

    def rate(self):
        """The largest |1 - x|."""
        with ctx.workprec(_SPECTRAL_PRECISION):
            return max((abs(1 - x).mid() for x in self.moving), default=arb(0))

    @cached_property
    def fixed(self):
        """The right null vectors R of I - A, and L with L R = I; None if eigenvalue one is defective."""
        right, left = null_space(self.lost), null_space(self.lost.transpose()).transpose()
        if not right.ncols():
            return right, left
        between = left * right
        return None if between.rank() < between.nrows() else (right, between.solve(left))

    def powers(self, columns, epochs):
        """The states after each of the epochs, enclosed at the precision that is set."""
        squares = [real(self.T)]
        for _ in range(max([epoch.bit_length() for epoch in epochs], default=0) - 1):
            squares.append(squares[-1] * squares[-1])
        found = []
        for epoch in epochs:
            current = real(columns)
            for bit, power in enumerate(squares):
                current = power * current if epoch >> bit & 1 else current
            found.append(part(current, self.d))
        return found

    def end(self, columns):
        """Where the states tend to, and what each drifts by in an epoch; None if something grows or oscillates."""
        if self.shrinks() is not True or self.fixed is None:
            return None
        states, inputs = part(columns, self.d), part(columns, range(self.d, columns.nrows()))
        (right, left), pushed = self.fixed, self.N * inputs
        if not right.ncols():
            return self.lost.solve(pushed), zeros(self.d, states.ncols())
        onto = right * left
        drift = onto * pushed
        return onto * states + (self.lost + onto).solve(pushed - drift), drift


def settled(one, other):
    """The limit that two late epochs agree on; None if they do not."""
    if one is None or other is None:
        return None
    if isinstance(one, float) or isinstance(other, float):
        return math.inf if isinstance(one, float) and isinstance(other, float) else None
    with ctx.workprec(900):
        apart = abs(one - other)
        return one if apart <= abs(one) * 1e-12 or apart <= 1e-300 else None


MOST_STEPWISE = 16
"""Epochs up to which second moments are followed one epoch at a time."""
MOST_SQUARED = 15
"""The largest number of second moments of which an epoch is written as a matrix."""
_PROBES, _HALVINGS = 4, 60


class Oracle:
    """Answers for one setting; everything is computed when it is first asked for."""

    def __init__(self, setting):
        self.setting = setting
        self.timelines = timelines(setting.scheme, setting.n)
        self.d = setting.p * (2 if setting.momentum != 0 else 1)
        self._kept = {}

    @property
    def is_random(self):
        """True if epochs of one run differ."""
        return len(self.timelines) == 1 and any(len(stage) > 1 for stage in self.timelines[0])

    # Maps.

    @cached_property
    def _unit(self):
        """What the buffer is multiplied by, so that both halves of the state are of one size."""
        largest = max(map(abs, self.setting.X.entries()), default=fmpq(0))
        return self.setting.step(0) or 1 / (1 + largest * largest)

    def _visit(self, step, rows, divisor):
        setting, p, n = self.setting, self.setting.p, self.setting.n
        times, share = Counter(map(int, rows)), 1 / rational(divisor)
        chosen = fmpq_mat(p, n, [times[i] * setting.X[i, j] * share for j in range(p) for i in range(n)])
        penalties = [0 if j in setting.unpenalized else setting.penalty for j in range(p)]
        curvature, momentum, unit = chosen * setting.X + diagonal(penalties), setting.momentum, self._unit
        ahead, of_buffer = (1 + momentum, momentum**2) if setting.nesterov else (fmpq(1), momentum)
        beta = [identity(p) - curvature * (step * ahead), chosen * (step * ahead)]
        if momentum == 0:
            return block(beta, [zeros(n, p), identity(n)])
        beta.insert(1, identity(p) * (-step * of_buffer / unit))
        buffer = [curvature * unit, identity(p) * momentum, chosen * -unit]
        return block(beta, buffer, [zeros(n, 2 * p), identity(n)])

    def _once(self, key, compute):
        if key not in self._kept:
            self._kept[key] = compute()
        return self._kept[key]

    def alternatives(self, timeline=0, epoch=0):
        """For every stage of an epoch the maps of its alternatives."""
        step = self.setting.step(epoch)

        def walked(alternative):
            made = None
            for rows, divisor in alternative:
                visit = self._once(
                    (step, tuple(rows), divisor), lambda rows=rows, by=divisor: self._visit(step, rows, by)
                )
                made = visit if made is None else visit * made
            return made

        stages = self.timelines[timeline]
        return self._once(
            ("all", step, timeline), lambda: [[walked(each) for each in stage] for stage in stages]
        )

    def mean_map(self, timeline=0, epoch=0):
        """The mean of an epoch along a timeline."""

        def compute():
            first, *others = [mean(maps) for maps in self.alternatives(timeline, epoch)]
            for other in others:
                first = other * first
            return first

        return self._once(("mean", self.setting.step(epoch), timeline), compute)

    @cached_property
    def visited(self):
        """The rows of X that are ever visited."""
        every = {
            int(row)
            for line in self.timelines
            for stage in line
            for one in stage
            for v in one
            for row in v[0]
        }
        return part(self.setting.X, sorted(every))

    def restricted(self, A):
        """The matrix of a map on the row space of what is visited; all of it if a penalty acts everywhere."""
        if self.setting.penalty != 0:
            return A
        basis = part(*self.visited.rref())
        if not basis.nrows():
            return zeros(0, 0)
        if self.setting.momentum != 0:
            nothing = zeros(basis.nrows(), self.setting.p)
            basis = block([basis, nothing], [nothing, basis])
        return (basis * basis.transpose()).solve(basis * A * basis.transpose())

    def linear(self, timeline=0):
        """The mean of an epoch along a timeline."""
        T = self.mean_map(timeline)
        return self._once(
            ("linear", timeline), lambda: LinearMap(T, self.d, self.restricted(part(T, self.d, self.d)))
        )

    # States: the start and the responses enter linearly, a column each.

    def _columns(self, beta, responses):
        return block([beta], [zeros(self.d - self.setting.p, beta.ncols())], [responses])

    def run_columns(self):
        """One column: the run itself, on the responses y."""
        return self._columns(self.setting.start, self.setting.y)

    def truth_columns(self):
        """Columns of the run on X beta_star, and of the noise in each row."""
        setting, n = self.setting, self.setting.n
        beta = block([setting.start, zeros(setting.p, n)])
        return self._columns(beta, block([setting.X * setting.beta_star, identity(n) * setting.noise]))

    def states(self, epochs, columns, timeline):
        """The mean states along a timeline, after each of the epochs."""
        if self.setting.is_constant:
            return self.linear(timeline).powers(columns, epochs)
        found = {0: real(columns)}
        for epoch in range(max(epochs, default=0)):
            found[epoch + 1] = real(self.mean_map(timeline, epoch)) * found[epoch]
        return [found[epoch] for epoch in epochs]

    def along(self, epochs, read, end):
        """What `read` gives at each epoch; at infinity the `end` if there is one, or what late epochs agree on."""
        finite = [int(epoch) for epoch in epochs if not math.isinf(epoch)]
        known = dict(zip(finite, certified(lambda: read(finite)), strict=True))
        if math.inf in epochs:
            found = end()
            if found is None:
                late = certified(lambda: read([_LATE, _LATE + 1]))
                known[math.inf] = [settled(*pair) for pair in zip(*late, strict=True)]
            else:
                known[math.inf] = certified(lambda: [found()])[0]
        return [known[epoch] for epoch in epochs]

    def read(self, epochs, columns, reading):
        """What is read off the parameters of the mean state, an entry per epoch, infinity included."""
        lines, p = range(len(self.timelines)), self.setting.p

        def at(asked):
            each = [self.states(asked, columns, line) for line in lines]
            return [
                reading(part(total(found) * arb(fmpq(1, len(lines))), p)) for found in zip(*each, strict=True)
            ]

        def end():
            ends = [self.linear(line).end(columns) for line in lines]
            if None in ends:
                return None
            limit, drift = (mean(each) for each in zip(*ends, strict=True))
            far = limit if is_zero(drift) else limit + drift * fmpq(1 << _FAR)
            return lambda: reading(part(real(far), p))

        return self.along(epochs, at, end)

    # Questions about the mean iterate.

    def iterates(self, epochs):
        return self.read(epochs, self.run_columns(), lambda beta: list(beta.entries()))

    def losses(self, epochs):
        """|y - X b|^2 / (2n) at the mean iterate b."""
        setting = self.setting

        def reading(beta):
            residual = real(setting.y) - real(setting.X) * beta
            return [(residual.transpose() * residual)[0, 0] / (2 * setting.n)]

        return self.read(epochs, self.run_columns(), reading)

    def left_out(self, epochs):
        """The mean square over rows of y_i - x_i'b, b the mean iterate without row i."""
        setting, squares = self.setting, []
        for row in range(setting.n):

            def reading(beta, row=row):
                return [((real(setting.y) - real(setting.X) * beta)[row, 0]) ** 2]

            alone = Oracle(setting.without(row))
            squares.append([value for (value,) in alone.read(epochs, alone.run_columns(), reading)])
        return [[_mean_value(values)] for values in zip(*squares, strict=True)]

    @cached_property
    def _still(self):
        """Directions that never move: the null space of Z where the mean map is symmetric, else of visited rows."""
        setting = self.setting
        if setting.penalty != 0:
            return zeros(setting.p, 0)
        if (
            setting.is_constant
            and setting.momentum == 0
            and setting.scheme.name not in ("Cyclic", "ShuffleOnce")
        ):
            return null_space(identity(setting.p) - self.linear().A)
        return null_space(self.visited)

    @property
    def frozen_dimension(self):
        return self._still.ncols()

    @property
    def range_holds(self):
        """True if Range(Xtilde') lies in Range(Z)."""
        return is_zero(self._still.transpose() * self.linear().N)

    def risk_reading(self):
        """Total, frozen, bias, cross and variance, from the columns of the truth."""
        setting, basis = self.setting, self._still
        still = zeros(setting.p, 1)
        if basis.ncols():
            error = setting.start - setting.beta_star
            still = basis * (basis.transpose() * basis).solve(basis.transpose() * error)

        def reading(beta):
            sigma, stuck = real(setting.sigma), real(still)
            moving = part(beta, setting.p, 1) - real(setting.beta_star) - stuck
            noise = part(beta, setting.p, range(1, 1 + setting.n))
            frozen, bias, cross = (
                (one.transpose() * sigma * other)[0, 0]
                for one, other in ((stuck, stuck), (moving, moving), (stuck, moving))
            )
            variance = (noise.transpose() * (sigma * noise)).trace()
            return [frozen + bias + 2 * cross + variance, frozen, bias, 2 * cross, variance]

        return reading

    def risks(self, epochs):
        """The risk of the mean iterate over the noise, and its parts."""
        return self.read(epochs, self.truth_columns(), self.risk_reading())

    def given_reading(self):
        """|b - beta_star|_Sigma^2."""

        def reading(beta):
            error = beta - real(self.setting.beta_star)
            return [(error.transpose() * real(self.setting.sigma) * error)[0, 0]]

        return reading

    def converges(self):
        """True if the mean has a limit from every start and for all responses; None on the edge."""
        answer = True
        for line in range(len(self.timelines)):
            once = self.linear(line)
            shrinks = once.shrinks()
            if shrinks is False or once.fixed is None or not is_zero(once.fixed[1] * once.N):
                return False
            answer = None if shrinks is None else answer
        return answer

    def rate(self):
        """What the slowest mode is multiplied by in an epoch."""
        if self.setting.step(0) == 0:
            # A momentum buffer fades even then, but it is empty.
            return arb(0)
        return max(self.linear(line).rate() for line in range(len(self.timelines)))

    def Z(self):
        """(I - Abar) / (B step), row by row."""
        Z = self.linear().lost * (
            1 / (self.setting.step(0) * visits_per_epoch(self.setting.scheme, self.setting.n))
        )
        return certified(lambda: [list(real(Z).entries())])[0]

    def minimum_norm(self):
        """Of all least-squares solutions the nearest to the start."""
        setting = self.setting
        rows = part(*setting.X.rref()).transpose()
        within, solution = setting.X * rows, setting.start
        if rows.ncols():
            shifted = within.transpose() * (setting.y - setting.X * setting.start)
            solution += rows * (within.transpose() * within).solve(shifted)
        return certified(lambda: [list(real(solution).entries())])[0]

    # Second moments.

    def expected_risks(self, epochs, given_responses):
        """Total and mean of the expected risk at each epoch."""
        columns = self.run_columns() if given_responses else self.truth_columns()
        reading = self.given_reading() if given_responses else self.risk_reading()
        means = [values[:1] for values in self.read(epochs, columns, reading)]
        if len(self.timelines) > 1:
            totals = self._over_timelines(epochs, columns, reading)
        elif not self.is_random:
            totals = means
        elif all(epoch <= MOST_STEPWISE for epoch in epochs):
            totals = certified(lambda: self._stepwise(epochs, columns))
        else:
            totals = self._by_squaring(epochs, columns)
        return [run + mean for run, mean in zip(totals, means, strict=True)]

    def _over_timelines(self, epochs, columns, reading):
        """The mean of the risks along timelines on which nothing is random."""
        lines, p = range(len(self.timelines)), self.setting.p

        def averaged(each):
            risks = [[reading(part(state, p))[0] for state in states] for states in each]
            return [[total(found) / len(lines)] for found in zip(*risks, strict=True)]

        def end():
            ends = [self.linear(line).end(columns) for line in lines]
            if all(one is not None and is_zero(one[1]) for one in ends):
                return lambda: averaged([[real(limit)] for limit, _ in ends])[0]
            return None

        return self.along(
            epochs, lambda asked: averaged([self.states(asked, columns, line) for line in lines]), end
        )

    def _square_risk(self, second, first=None):
        """tr(Sigma E bb') - 2 beta_star'Sigma E b + beta_star'Sigma beta_star; of noise, the first term alone."""
        sigma = real(self.setting.sigma)
        if first is None:
            return (sigma * second).trace()
        truth = real(self.setting.beta_star).transpose() * sigma
        return (sigma * second).trace() - (truth * (first * 2 - real(self.setting.beta_star)))[0, 0]

    def _stepwise(self, epochs, columns):
        """S -> E[T S T'] for the second moment S of state and responses together."""
        p, start, found = self.setting.p, real(columns), {}
        second, first = start * start.transpose(), part(start, start.nrows(), 1)
        for epoch in range(int(max(epochs, default=-1)) + 1):
            found[epoch] = [self._square_risk(part(second, p, p), part(first, p))]
            if epoch < max(epochs):
                for stage in self.alternatives(0, epoch):
                    whole, share = [real(each) for each in stage], arb(fmpq(1, len(stage)))
                    second = total([each * second * each.transpose() for each in whole]) * share
                    first = total([each * first for each in whole]) * share
        return [found[epoch] for epoch in epochs]

    def _square(self, change):
        """M -> E[T M T'] on symmetric matrices over the stages of an epoch, of changed maps."""
        first, *others = [
            mean([symmetric_square(change(each)) for each in stage]) for stage in self.alternatives()
        ]
        for other in others:
            first = other * first
        return LinearMap(first, first.nrows(), first)

    def _by_squaring(self, epochs, columns):
        """Many epochs: each column by itself, as a homogeneous map on the second moments of (state, 1)."""
        p, d, pairs, systems = self.setting.p, self.d, PAIRS[self.d + 1], []
        for number in range(columns.ncols()):
            state, inputs = part(columns, d, [number]), part(columns, range(d, columns.nrows()), [number])
            bottom = block([zeros(1, d), identity(1)])

            def change(T, inputs=inputs, bottom=bottom):
                return block([part(T, d, d), part(T, d, range(d, T.ncols())) * inputs], [bottom])

            whole = [*state.entries(), fmpq(1)]
            systems.append(
                (self._square(change), fmpq_mat(len(pairs), 1, [whole[i] * whole[j] for i, j in pairs]))
            )

        def risk(each):
            summed = arb(0)
            for number, moments in enumerate(each):
                at = {pair: moments[place, 0] for place, pair in enumerate(pairs)}
                second = arb_mat([[at[min(i, j), max(i, j)] for j in range(p)] for i in range(p)])
                summed += self._square_risk(
                    second, None if number else arb_mat([[at[i, d]] for i in range(p)])
                )
            return [summed]

        def end():
            ends = [once.end(start) for once, start in systems]
            return None if None in ends else lambda: risk([real(limit) for limit, _ in ends])

        def at(asked):
            each = [once.powers(start, asked) for once, start in systems]
            return [risk(moments) for moments in zip(*each, strict=True)]

        return self.along(epochs, at, end)

    def mean_square(self):
        """M -> E[A M A'] over the row space of what is visited, or everywhere if penalised."""
        return self._square(lambda T: self.restricted(part(T, self.d, self.d)))

    def is_stable(self, step, of_squares):
        """True if the mean, or the mean square, converges at a step."""
        at = Oracle(replace(self.setting, step=lambda epoch: step))
        if at.converges() is not True:
            return False
        return not (of_squares and at.is_random) or at.mean_square().shrinks() is True

    def critical_step(self, claimed, of_squares, precision):
        """The claimed step, if stability ends there and holds at a few steps below; else where it ends."""
        if self.setting.penalty == 0 and not self.visited.rank():
            return math.inf
        if not (math.isfinite(claimed) and claimed > 0):
            return arb(0)
        c, slack, rng = rational(claimed), rational(precision), random.Random(0)
        for probe in (*(c * rational(rng.random()) for _ in range(_PROBES)), c * (1 - slack)):
            if probe != 0 and not self.is_stable(probe, of_squares):
                return arb(self._crossing(fmpq(0), probe, of_squares))
        low, high = c * (1 - slack), c * (1 + slack)
        for _ in range(_HALVINGS):
            if not self.is_stable(high, of_squares):
                return arb(c) if high == c * (1 + slack) else arb(self._crossing(low, high, of_squares))
            low, high = high, high + (high - c) * 2
        return math.inf

    def _crossing(self, low, high, of_squares):
        """A step at which stability ends, between one where it holds and one where it does not."""
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.is_stable(middle, of_squares) else (low, middle)
            if high - low <= high * fmpq(1, 10**10):
                break
        return (low + high) / 2


def _mean_value(values):
    """Infinity if any is infinite; nothing is known where one is not."""
    if any(isinstance(value, float) for value in values):
        return math.inf
    return None if None in values else total(values) / len(values)
