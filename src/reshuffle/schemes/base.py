"""Schemes: ways of visiting the data, by their partition into batches, what is random, and when it is drawn."""

import copy
import inspect
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from itertools import repeat
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import spectral_norm
from reshuffle.errors import ArgumentError, UnsupportedError
from reshuffle.problem.batches import RowGroups
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.row_space import Blocks, CompressedRows

_SHARED_ROWS = 300
"""Rows, each read once for every run at its batch, from which on a visit of its own for every batch is quicker."""
Batches: TypeAlias = int | Iterable[ArrayLike] | None
"""B, or the rows of each batch."""


class Shuffle(Enum):
    """Times at which the order of the visits is drawn: epochs are computed by this, never by a scheme's type.

    `Scheme.order` gives the fixed order of `NEVER`, `Scheme.orders` the equally likely ones of `FROM_A_LIST`;
    `BY_STAGE` is for `Stages` alone.
    """

    NEVER = "a fixed order"
    ONCE = "a uniformly random order, drawn at the start and kept"
    EVERY_EPOCH = "a fresh uniformly random order in every epoch"
    EVERY_STEP = "an independent draw in every step"
    FROM_A_LIST = "an order drawn in every epoch from a list of equally likely ones"
    BY_STAGE = "as the stage says that an epoch belongs to"


class Unit(Enum):
    """The objects that are put in order, or drawn."""

    BATCH = "the batches of a fixed partition"
    SAMPLE = "single samples, which are cut into batches afterwards"
    GROUP = "samples of several rows each, which are cut into batches afterwards"

    @property
    def is_cut(self) -> bool:
        """True if batches have no fixed rows, but are cut from what was put in order."""
        return self is not Unit.BATCH


@dataclass(frozen=True, eq=False)
class Visit:
    """One step of runs (k,) of a simulation: by rows (m,), or (k, m) for each its own, and their divisor.

    `noise` is the standard deviation of what is added to each coordinate of the gradient.
    """

    runs: IntArray
    rows: IntArray
    divisor: float
    noise: float = 0.0


Init = TypeVar("Init", bound=Callable[..., None])


def with_named_numbers(init: Init) -> Init:
    """Decorate the constructor of a scheme: warn of a number without a name, be it of batches or of rows."""
    names = list(inspect.signature(init).parameters)

    @wraps(init)
    def checked(self: "Scheme", *positional: Any, **named: Any) -> None:
        for name, value in zip(names[1:], positional, strict=False):
            if name in ("batches", "batch_size") and isinstance(value, int | np.integer):
                ways = {"batches": f"{value} batches", "batch_size": f"batches of {value} rows"}
                known = [f"{word}={value} for {ways[word]}" for word in ways if word in names]
                warnings.warn(
                    f"the number {value} of {type(self).__name__} must have a name from the next release on: write "
                    f"{' or '.join(known)}.",
                    DeprecationWarning,
                    stacklevel=2,
                )
        init(self, *positional, **named)

    return cast(Init, checked)


class Scheme(ABC):
    """A way of visiting the rows: a partition into batches, and a random order of visits in every epoch.

    A visit to batch b is one step of gradient descent on that batch's own mean loss,
    beta -> beta - step X_b'(X_b beta - y_b) / m_b, where m_b is the number of its rows (or, with
    normalize="equal", the mean number of rows of the batches).

    Schemes are equal if they are of the same kind with the same settings. Methods ask for n, the number of rows,
    and those that draw for rng, a numpy Generator, and the number of runs.

    Parameters
    ----------
    batches : int or list of index arrays
        B, for contiguous blocks of which the first n mod B have one row more than the others; or the rows of
        each batch.
    batch_size : int
        Instead of `batches`: contiguous blocks of this many rows, as torch's DataLoader cuts them. Unless it
        divides n the last block is shorter; with fewer rows than that there is one block.
    drop_last : bool
        With `batch_size`: leave that shorter block out. Of a fixed partition its rows are never visited.
    normalize : "own" or "equal"
        "own": a batch's gradient is the mean over its own rows, as in torch and scikit-learn. "equal": the sum is
        divided by the mean length of the batches (n / B where no row is left out): every row weighs the same.
    """

    unit: ClassVar[Unit] = Unit.BATCH
    """Objects that are put in order."""
    rows_per_unit: int = 1
    """Rows of each of these, where they are cut into batches afterwards."""
    takes_members: ClassVar[bool] = True
    """True if `batches` may be the rows of each batch; not where every epoch draws them anew."""
    example: ClassVar[str] = "batches=4"
    """Arguments of an example, for messages."""
    gradient_noise: float = 0.0
    """Standard deviation of Gaussian noise in every coordinate of the gradient of every step."""
    batches: int | None = None
    """B, the number of batches, if that was given; `steps(n)` knows it in every case."""
    origin: "Scheme | None" = None
    """The scheme as it was made, if this one visits compressed rows."""
    met: CompressedRows | None = None
    """Rows that it visits."""
    _own: ClassVar[tuple[str, ...]] = ()
    """Attributes of this kind of scheme in which equal ones agree, too."""
    _fixed: str = ""
    """What says nothing about another batch size, in words; empty where batches may have another one."""
    _explicit: list[IntArray] | None = None
    _compressed: tuple[list[IntArray], IntArray] | None = None

    def __init_subclass__(cls) -> None:
        """Refuse a `draw` that nothing but a simulation would know of."""
        says_it_all = (Shuffle.NEVER, Shuffle.EVERY_EPOCH, Shuffle.FROM_A_LIST)
        if "draw" in vars(cls) and cls.shuffle in says_it_all:  # type: ignore[comparison-overlap]
            raise TypeError(
                f"{cls.__name__} must not have a method draw: its shuffle, {cls.shuffle}, says how orders are "
                "drawn. Try Shuffle.FROM_A_LIST with a method orders that returns all equally likely ones."
            )

    @with_named_numbers
    def __init__(
        self,
        batches: Batches = None,
        *,
        batch_size: int | None = None,
        drop_last: bool = False,
        normalize: str = "own",
    ):
        self.batch_size = None if batch_size is None else _arrays.whole_number("batch_size", batch_size, 1)
        if self.batch_size is not None and batches is not None:
            raise TypeError(
                "exactly one of batches and batch_size must be given, "
                f"but batches is {batches!r} and batch_size is {batch_size!r}."
            )
        if isinstance(batches, Iterable) and not isinstance(batches, str):
            self._explicit = _index_arrays(batches)
            self.batches = len(self._explicit)
            if not self.takes_members:
                allowed = "be a whole number of at least 1, since every epoch draws the rows of a batch anew"
                given = "it is a list of index arrays"
                raise ArgumentError("batches", allowed, given, "try RandomReshuffling")
        elif self.batch_size is None:
            hint = "Or give {batch_size}." if batches is None else ""
            self.batches = _arrays.whole_number("batches", batches, 1, hint=hint)
        self.drop_last = _arrays.flag("drop_last", drop_last)
        if self.drop_last and self.batch_size is None:
            raise ArgumentError(
                "drop_last",
                "come with {batch_size}, since a given number of batches has no shorter last one",
                "{batch_size} is None",
            )
        self.normalize = _arrays.choice("normalize", normalize, ("own", "equal"))

    @property
    @abstractmethod
    def shuffle(self) -> Shuffle:
        """The time at which the order is drawn: an attribute of each kind of scheme."""

    @property
    def is_explicit(self) -> bool:
        """True if the rows of each batch were given, or are compressed."""
        return self._explicit is not None or self._compressed is not None

    @property
    def visits_samples(self) -> bool:
        """True if single rows matter in any stage, and not only what they sum to in each batch."""
        return self.unit.is_cut

    @property
    def is_symmetric(self) -> bool:
        """True if an epoch is as likely as its reverse, so that its mean is symmetric: where all orders are."""
        return self.shuffle in (Shuffle.EVERY_EPOCH, Shuffle.EVERY_STEP)

    @property
    def is_random(self) -> bool:
        """True if runs differ."""
        return self.shuffle is not Shuffle.NEVER

    @property
    def with_independent_steps(self) -> "Scheme":
        """Steps of as many samples, drawn independently of each other, if this one shuffles single samples."""
        return self

    @property
    def stages(self) -> "tuple[tuple[float, Scheme], ...]":
        """Pairs of epochs and scheme, one after the other; most schemes have a single one without end."""
        return ((math.inf, self),)

    @property
    def has_stages(self) -> bool:
        """True if the way of visiting changes with the epoch."""
        return self.stages[0][1] is not self

    def steps(self, n: int) -> int:
        """The number of steps per epoch over n rows."""
        return len(self.sizes(n))

    def sizes(self, n: int) -> IntArray:
        """The number of rows of each step, (steps,)."""
        if self._compressed is not None:
            return self._compressed[1]
        if self._explicit is not None:
            return np.array([len(part) for part in self._explicit], dtype=np.intp)
        if self.batch_size is not None:
            if self.batch_size > n and self.drop_last:
                raise ArgumentError(
                    "batch_size",
                    f"be a whole number between 1 and {n}, the number of rows",
                    f"it is {self.batch_size}, and {{drop_last}} leaves nothing",
                )
            whole, rest = divmod(n, self.batch_size)
            last = [rest] * (rest > 0 and not self.drop_last)
            return np.array([self.batch_size] * whole + last, dtype=np.intp)
        assert self.batches is not None
        if self.batches > n:
            allowed = f"be a whole number between 1 and {n}, the number of rows"
            raise ArgumentError("batches", allowed, f"it is {self.batches}")
        return (n + np.arange(self.batches, dtype=np.intp)[::-1]) // self.batches

    def step_divisors(self, n: int) -> FloatArray:
        """The divisors of the sum of the gradients of the rows of each step, (steps,)."""
        sizes = self.sizes(n).astype(np.float64)
        return sizes if self.normalize == "own" else np.full(len(sizes), sizes.mean())

    def variance_shares(self, n: int) -> FloatArray:
        """Shares a (steps,) in the covariance a E[w g_i g_i'] - b g g' of the gradient of a step that draws rows.

        w are the weights of the rows in the mean gradient g; m independent rows have a = b = 1 / m.
        """
        return np.asarray(1 / self.sizes(n))

    def mean_shares(self, n: int) -> FloatArray:
        """Shares b (steps,) in that covariance."""
        return self.variance_shares(n)

    def partition(self, n: int) -> list[IntArray]:
        """The row indices of each part, for n rows: those, or their compressed rows, that are visited together."""
        if self._compressed is not None:
            return list(self._compressed[0])
        if self._explicit is None:
            sizes = self.sizes(n)
            return np.split(np.arange(sizes.sum(), dtype=np.intp), np.cumsum(sizes)[:-1])
        everything = np.concatenate(self._explicit)
        low, high = int(everything.min()), int(everything.max())
        if low < 0 or high >= n:
            allowed = f"hold row indices in 0..{n - 1}"
            raise ArgumentError("batches", allowed, f"one is {low if low < 0 else high}")
        visits = np.bincount(everything, minlength=n)
        if (visits != 1).any():
            row = int(np.flatnonzero(visits != 1)[0])
            found = "none of them" if visits[row] == 0 else f"{visits[row]} places"
            allowed = f"cover every row of 0..{n - 1} exactly once"
            raise ArgumentError("batches", allowed, f"row {row} is in {found}")
        return list(self._explicit)

    def divisors(self, n: int) -> FloatArray:
        """m_b (parts,), what the sum of the gradients of each part of the partition is divided by."""
        return self.step_divisors(n)

    def groups(self, n: int) -> RowGroups:
        """The rows, of n that are read in chunks, that are always visited together.

        Rows that are never visited are one more group, the last; all rows are one if batches are drawn anew.
        """
        if self.unit.is_cut:
            self.sizes(n)
            return RowGroups.whole(n)
        if self._explicit is not None:
            labels = np.empty(n, dtype=np.intp)
            for number, members in enumerate(self.partition(n)):
                labels[members] = number
            return RowGroups.labelled(labels)
        ends = np.cumsum(self.sizes(n))
        return RowGroups(ends if ends[-1] == n else np.append(ends, n))

    def on_compressed(self, compressed: CompressedRows, first_rows: IntArray | None = None) -> Self:
        """The scheme on `compressed` rows: of batches, or of groups that begin at `first_rows`."""
        made = copy.copy(self)
        made._visit_compressed(compressed, first_rows)
        made.origin, made.met = self, compressed
        return made

    def _visit_compressed(self, compressed: CompressedRows, first_rows: IntArray | None) -> None:
        """Visit the compressed rows that represent each batch.

        Without `first_rows` the batches are there already: a scheme asks for all of them, or for all rows in one
        batch. With them every batch is some of the compressed groups, and `first_rows` has a row of each group.
        """
        places = compressed.batches
        if first_rows is not None:
            counts, labels = self.sizes(compressed.n), self.groups(compressed.n).at(first_rows)
            groups = [np.flatnonzero(labels == batch) for batch in range(len(counts))]
            self._compressed = [np.concatenate([places[one] for one in some]) for some in groups], counts
            return
        assert compressed.counts is not None
        found = len(compressed.counts)
        if self.batch_size is not None or self.is_explicit:
            raise UnsupportedError(
                f"scheme must ask for batches={found}, as they were filled, but it asks for {self._words}; "
                "a row has found its batch when it was added, and sizes are what they became."
            )
        if self.batches not in (1, found):
            allowed = f"be {found}, the number of batches that were filled, or 1"
            hint = f"fill rs.Accumulator(batches={self.batches}) for that"
            raise ArgumentError("batches", allowed, f"it is {self.batches}", hint)
        self._compressed = places, compressed.counts
        if self.batches == 1:
            self._compressed = [np.arange(len(compressed.X), dtype=np.intp)], np.array([compressed.n])

    def order(self, n: int) -> IntArray:
        """The order of the batches (steps,), if it never changes."""
        if self.shuffle is Shuffle.NEVER:
            return np.arange(self.steps(n))
        raise TypeError(f"{self!r} has no fixed order.")

    def orders(self, n: int) -> Sequence[IntArray]:
        """The equally likely orders (steps,) of the batches, if they are drawn from a list."""
        raise TypeError(f"{self!r} draws from no list of orders.")

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        """Draw the order in which each run visits, (runs, units) per epoch, epoch after epoch without end."""
        units = len(self.divisors(n))
        if self.shuffle is Shuffle.NEVER:
            yield from repeat(np.tile(self.order(n), (runs, 1)))
        if self.shuffle is Shuffle.ONCE:
            yield from repeat(permutations(rng, runs, units))
        while self.shuffle is Shuffle.FROM_A_LIST:
            orders = np.array(self.orders(n))
            yield orders[rng.integers(len(orders), size=runs)]
        while self.shuffle is Shuffle.EVERY_EPOCH:
            yield permutations(rng, runs, units)
        while self.shuffle is Shuffle.EVERY_STEP and self.unit is Unit.BATCH:
            yield rng.integers(units, size=(runs, units))
        raise TypeError(f"{type(self).__name__} must define a method draw for {self.unit.value}.")

    def visits(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[Iterator[Visit]]:
        """Draw what each of several runs does: the visits of an epoch, epoch after epoch without end."""
        is_alone = self.unit is Unit.BATCH and not shares_visits(self, n, runs)
        follow = self._alone(n) if is_alone else self._together(n) if self.unit is Unit.BATCH else None
        for order in self.draw(n, rng, runs):
            yield self._sample_visits(n, order) if follow is None else follow(order)

    def _alone(self, n: int) -> Callable[[IntArray], Iterator[Visit]]:
        """Orders of batches (runs, B) -> visits of all runs that are at batches of one size and divisor."""
        members, divisors = self.partition(n), self.divisors(n)
        sizes = np.array([len(rows) for rows in members])
        places = np.array([np.resize(rows, sizes.max()) for rows in members])
        kinds, kind_of = np.unique(np.column_stack([sizes, divisors]), axis=0, return_inverse=True)
        kind_of = kind_of.ravel()

        def visits(order: IntArray) -> Iterator[Visit]:
            for step in order.T:
                for kind, (size, divisor) in enumerate(kinds.tolist()):
                    (runs,) = (kind_of[step] == kind).nonzero()
                    if runs.size:
                        yield Visit(runs, places[step[runs], : int(size)], divisor)

        return visits

    def _together(self, n: int) -> Callable[[IntArray], Iterator[Visit]]:
        """Orders of batches (runs, B) -> visits of the runs at each of the batches."""
        members, divisors = self.partition(n), self.divisors(n)

        def visits(order: IntArray) -> Iterator[Visit]:
            for step in order.T:
                sorted_runs = np.argsort(step, kind="stable")
                batches, starts = np.unique(step[sorted_runs], return_index=True)
                for batch, group in zip(batches, np.split(sorted_runs, starts[1:]), strict=True):
                    yield Visit(group, members[batch], float(divisors[batch]))

        return visits

    def _sample_visits(self, n: int, order: IntArray) -> Iterator[Visit]:
        ends = np.concatenate([[0], np.cumsum(self.sizes(n))])
        for step, divisor in enumerate(self.step_divisors(n)):
            yield Visit(np.arange(len(order)), order[:, ends[step] : ends[step + 1]], float(divisor))

    def equivalent(self, n: int) -> "Scheme":
        """A scheme with the same runs of n rows, of which more is known, if there is one; else this one."""
        is_shuffled = self.unit is Unit.BATCH and self.shuffle in (Shuffle.EVERY_EPOCH, Shuffle.EVERY_STEP)
        if not is_shuffled or self.steps(n) > 1:
            return self
        alone = copy.copy(self)
        # A single batch is visited in a fixed order.
        vars(alone).update(shuffle=Shuffle.NEVER, origin=None, met=None)
        return alone

    def with_batch_size(self, batch_size: int) -> Self:
        """The scheme with batches of another size.

        Rows that were assigned to batches one by one, and an order of the batches that was given, have no such
        counterpart and are refused.
        """
        what = "batches whose rows were given" if self.is_explicit else self._fixed
        if what:
            raise UnsupportedError(
                f"{self!r} has {what}, which say nothing about another batch size; make that scheme yourself."
            )
        made = copy.copy(self)
        made.batches, made.batch_size = None, _arrays.whole_number("batch_size", batch_size, 1)
        return made

    def timelines(self, n: int) -> Sequence["Scheme"]:
        """The equally likely schemes between which a run chooses at its start; most draw afresh in every epoch."""
        return [self]

    def samples_orders(self, n: int) -> bool:
        """True if `timelines` are a sample of all there are, in pairs of an order and its reverse."""
        return False

    @property
    def settings(self) -> tuple[object, ...]:
        """Numbers, words and schemes that are equal for equal schemes of a kind alone."""
        rows = None if self._explicit is None else tuple(tuple(part.tolist()) for part in self._explicit)
        counts = None if self._compressed is None else self._compressed[1]
        own = [counts, *(getattr(self, name) for name in self._own)]
        plain = (tuple(one.tolist()) if isinstance(one, np.ndarray) else one for one in own)
        return self.batches, self.batch_size, rows, self.drop_last, self.normalize, *plain

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scheme):
            return NotImplemented
        return type(self) is type(other) and self.settings == other.settings

    def __hash__(self) -> int:
        return hash((type(self), self.settings))

    @property
    def _words(self) -> str:
        words = ["an explicit partition"] if self._explicit is not None else []
        words.append(
            f"batches={self.batches}" if self.batch_size is None else f"batch_size={self.batch_size}"
        )
        words += ["drop_last=True"] if self.drop_last else []
        words += [f"normalize={self.normalize!r}"] if self.normalize != "own" else []
        return ", ".join(words)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._words})"


def _index_arrays(batches: Iterable[Any]) -> list[IntArray]:
    try:
        parts = [_arrays.any_array(f"batches[{number}]", part) for number, part in enumerate(batches)]
    except (TypeError, ValueError):
        raise TypeError(
            f"batches must be a whole number >= 1 or a list of index arrays, but it is {batches!r}."
        ) from None
    if not parts:
        raise ArgumentError("batches", "hold at least one index array", "the list is empty")
    for number, part in enumerate(parts):
        if part.ndim != 1 or part.size == 0 or part.dtype.kind not in "iu":
            allowed = "be a one-dimensional, non-empty array of row indices"
            given = f"it has shape {part.shape} and dtype {part.dtype}"
            raise ArgumentError(f"batches[{number}]", allowed, given)
        if part.max() > np.iinfo(np.intp).max:
            raise ArgumentError(f"batches[{number}]", "hold row indices", f"one is {part.max()}")
    return [part.astype(np.intp) for part in parts]


def permutations(rng: np.random.Generator, runs: int, length: int) -> IntArray:
    """Independent uniformly random orders of 0 .. length - 1, (runs, length)."""
    return rng.permuted(np.tile(np.arange(length), (runs, 1)), axis=1)


def shares_visits(scheme: Scheme, n: int, runs: int) -> bool:
    """True if so many of the runs are at the same batch that their visits are made together."""
    batches = len(scheme.divisors(n))
    is_drawn = scheme.shuffle in (Shuffle.ONCE, Shuffle.EVERY_EPOCH, Shuffle.EVERY_STEP)
    together = max(1.0, runs / batches) * n / batches >= _SHARED_ROWS
    return scheme.unit is Unit.BATCH and (runs == 1 or together or not is_drawn)


def rows_of(groups: IntArray, rows: int) -> IntArray:
    """The rows of groups (..., g) of so many rows each, (..., g * rows).

    >>> rows_of(np.array([2, 0]), 2)
    array([4, 5, 0, 1])
    """
    if rows == 1:
        return groups
    members = groups[..., np.newaxis] * rows + np.arange(rows)
    return members.reshape(*groups.shape[:-1], -1)


def fitted(problem: LeastSquares, value: Any) -> tuple[LeastSquares, Scheme]:
    """Return a problem and a scheme whose batches fit it, made to visit its compressed rows.

    Rows that are read in chunks are read here, once for all batches of the scheme, unless they have been before.
    """
    if isinstance(value, Scheme) and value.met is not None and problem.has_compressed(value.met):
        return problem, value
    if problem.stream is not None:
        scheme = _alike(scheme_of(value), problem.n)
        groups = scheme.groups(problem.n)
        seen = problem.of_groups(groups)
        return seen, scheme.on_compressed(seen.compressed, groups.first_rows)
    if problem.compressed.are_all:
        return problem, checked(value, problem.n)
    return problem, _alike(scheme_of(value), problem.n).on_compressed(problem.compressed)


def _alike(scheme: Scheme, n: int) -> Scheme:
    """All rows as one batch, if that is what samples are put into: then no single row matters."""
    whole = scheme.equivalent(n)
    return scheme if whole.visits_samples or whole.steps(n) > 1 else whole


def checked(value: Any, n: int) -> Scheme:
    """Return `value` if it is a scheme whose batches fit n rows."""
    scheme = scheme_of(value)
    scheme.partition(n)
    return scheme


def scheme_of(value: Any) -> Scheme:
    """Return `value` if it is a scheme, as it was made."""
    if isinstance(value, type) and issubclass(value, Scheme):
        made = f"{value.__name__}({value.example})"
        raise TypeError(f"scheme must be made before it is used: {made} in place of {value.__name__}.")
    if not isinstance(value, Scheme):
        raise TypeError(f"scheme must be a scheme such as RandomReshuffling(batches=4), but it is {value!r}.")
    # One that visits the compressed rows of other data is cut anew.
    return value.origin or value


def contracting_step(scheme: Scheme, n: int, blocks: Blocks, longest: float | None = None) -> float:
    """A step below 2 / |W_b| for every batch that may be visited: each visit is then a contraction.

    A batch of drawn samples has |W_b| at most the largest |x|^2 times m_b / divisor_b, and at most |X'X| over
    divisor_b. That |x|^2 is `longest`, where `blocks` are compressed rows.
    """
    if scheme.unit is Unit.BATCH:
        norms = [
            spectral_norm(blocks.rows[blocks.of(batch)]) ** 2 / float(divisor)
            for batch, divisor in enumerate(blocks.divisors)
        ]
        return 2 / max(norms)
    divisors = scheme.step_divisors(n)
    if longest is None:
        longest = float(np.square(blocks.rows).sum(axis=1).max())
    by_rows = longest * float((scheme.sizes(n) / divisors).max())
    if scheme.shuffle is Shuffle.EVERY_STEP:
        # The same row may be drawn again and again.
        return 2 / by_rows if by_rows else math.inf
    by_sum = spectral_norm(blocks.rows) ** 2 / float(divisors.min())
    return 2 / min(by_rows, by_sum)


def without_stages(scheme: Scheme, question: str) -> Scheme:
    """Return a scheme without stages; refuse one that has them, each with another answer."""
    if scheme.has_stages:
        raise UnsupportedError(
            f"{question} has no answer for {scheme!r}, whose stages have one each; ask for that of a single stage."
        )
    return scheme
