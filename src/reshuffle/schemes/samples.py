"""Schemes whose batches are drawn: shuffled samples or groups, cut into batches, and draws for every step."""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle.errors import ArgumentError, UnsupportedError
from reshuffle.problem.batches import RowGroups
from reshuffle.problem.row_space import CompressedRows, needs_rows
from reshuffle.schemes.base import (
    Batches,
    Scheme,
    Shuffle,
    Unit,
    Visit,
    permutations,
    rows_of,
    with_named_numbers,
)
from reshuffle.schemes.fixed_batches import FullBatch, RandomReshuffling


class ShuffledUnits(Scheme):
    """All units of `rows_per_unit` rows once per epoch in a uniformly random order, cut into batches."""

    shuffle = Shuffle.EVERY_EPOCH
    takes_members = False
    most_alone: ClassVar[float]
    """The largest number of units for which batches of one unit each are a fixed partition with a quicker mean."""

    def _units(self, n: int) -> int:
        if n % self.rows_per_unit:
            raise ArgumentError("rows", f"divide the number of rows, {n}", f"it is {self.rows_per_unit}")
        return n // self.rows_per_unit

    def sizes(self, n: int) -> IntArray:
        return super().sizes(self._units(n)) * self.rows_per_unit

    def partition(self, n: int) -> list[IntArray]:
        self.sizes(n)
        return list(np.arange(n, dtype=np.intp).reshape(-1, self.rows_per_unit))

    def divisors(self, n: int) -> FloatArray:
        return np.ones(self._units(n))

    def _sample_visits(self, n: int, order: IntArray) -> Iterator[Visit]:
        return super()._sample_visits(n, rows_of(order, self.rows_per_unit))

    def equivalent(self, n: int) -> Scheme:
        sizes = self.sizes(n)
        if not np.array_equal(sizes, self.step_divisors(n)):
            return self
        if len(sizes) == 1 and sizes[0] == n:
            return FullBatch()
        alone = len(sizes) == self._units(n) <= self.most_alone
        return RandomReshuffling(batch_size=self.rows_per_unit) if alone else self


class SampleReshuffling(ShuffledUnits):
    """All samples once per epoch in a uniformly random order, cut into batches: DataLoader(shuffle=True).

    Batches have no fixed members, so the mean over all n! orders is that over one sample from each batch:
    Abar = sum_i (-step)^i e_i T_i, where T_i is the mean over ordered tuples of i distinct samples of the products
    of x x', and e_i the elementary symmetric functions of the batches' m_b / divisor_b (binom(B, i), if each batch
    is normalised by its own length). It is exact in polynomial time for up to four batches.

    Parameters
    ----------
    batches : int
        B, for batches that differ by at most one row.
    batch_size, drop_last, normalize
        As in torch's DataLoader: see `Scheme`. With drop_last=True other rows are left out in every epoch.

    >>> SampleReshuffling(batch_size=32)
    SampleReshuffling(batch_size=32)
    """

    unit = Unit.SAMPLE
    most_alone = math.inf

    @property
    def with_independent_steps(self) -> Scheme:
        made = SampleWithReplacement(batch_size=1)
        vars(made).update(batches=self.batches, batch_size=self.batch_size, drop_last=self.drop_last)
        return made

    def _visit_compressed(self, compressed: CompressedRows, first_rows: IntArray | None) -> None:
        # Samples are read anew, in chunks, where there is a source; which rows meet is drawn in every epoch.
        if first_rows is None:
            raise UnsupportedError(
                f"{self!r} cuts single rows into batches anew in every epoch, but of these {compressed.n} rows "
                "only the statistics of each batch are stored; try RandomReshuffling with the batches that were "
                "filled, or give LeastSquares the source of the rows."
            )


class GroupReshuffling(ShuffledUnits):
    """Samples of several rows each, once per epoch in a uniformly random order, cut into batches.

    The outputs of a network share its parameters, so that a sample of t outputs is t rows that are always visited
    together: rows 0 .. t-1 are the first sample, and so on. With one row per sample this is SampleReshuffling.
    The mean over all orders is that of shuffled samples with W_i = X_i'X_i for x_i x_i'. It is exact in polynomial
    time for up to three batches. `leave_one_out` leaves out samples, not single rows: each row is predicted by the
    run without its sample.

    Parameters
    ----------
    rows : int
        t, the rows of a sample.
    batches : int
        B, for batches that differ by at most one sample.
    batch_size, drop_last, normalize
        As in `SampleReshuffling`, counted in samples. The gradient of a batch is the mean over all of its rows.

    >>> GroupReshuffling(10, batch_size=32)
    GroupReshuffling(10, batch_size=32)
    >>> GroupReshuffling(2, batch_size=3).sizes(10)
    array([6, 4])
    >>> GroupReshuffling(3, batch_size=1).sizes(10)
    Traceback (most recent call last):
    ...
    reshuffle.errors.ArgumentError: rows must divide the number of rows, 10, but it is 3.
    """

    unit = Unit.GROUP
    example = "10, batch_size=32"
    _own = ("rows_per_unit",)
    most_alone = 12.0

    @with_named_numbers
    def __init__(
        self,
        rows: int,
        batches: Batches = None,
        *,
        batch_size: int | None = None,
        drop_last: bool = False,
        normalize: str = "own",
    ):
        self.rows_per_unit = _arrays.whole_number("rows", rows, 1)
        super().__init__(batches=batches, batch_size=batch_size, drop_last=drop_last, normalize=normalize)

    def __repr__(self) -> str:
        return f"GroupReshuffling({self.rows_per_unit}, {self._words})"

    def _visit_compressed(self, compressed: CompressedRows, first_rows: IntArray | None) -> None:
        self.groups(compressed.n)

    def groups(self, n: int) -> RowGroups:
        raise UnsupportedError(
            f"{self!r} cuts groups of rows into batches anew in every epoch, and needs the rows themselves, but "
            f"these {n} rows are not in memory; give LeastSquares the rows, or in_memory=True."
        )


class DrawnSamples(Scheme):
    """Batches of m = batch_size rows, drawn from all rows afresh for every step."""

    shuffle = Shuffle.EVERY_STEP
    unit = Unit.SAMPLE
    example = "batch_size=32"

    @with_named_numbers
    def __init__(self, batch_size: int, *, drop_last: bool = False):
        if batch_size is None:
            raise ArgumentError("batch_size", "be a whole number of at least 1", "it is None")
        super().__init__(batch_size=batch_size, drop_last=drop_last)
        self._kept: int | None = None

    def _visit_compressed(self, compressed: CompressedRows, first_rows: IntArray | None) -> None:
        # The mean step needs no more than all rows together.
        self._kept = len(compressed.X)

    def partition(self, n: int) -> list[IntArray]:
        return [np.arange(n if self._kept is None else self._kept, dtype=np.intp)]

    def divisors(self, n: int) -> FloatArray:
        return np.array([float(n)])


class SampleWithReplacement(DrawnSamples):
    """Batches of m rows, each drawn uniformly from all rows and independently of the others.

    This is torch's DataLoader(sampler=RandomSampler(data, replacement=True), batch_size=m): an epoch takes as
    many steps as there are batches of m in n rows. The mean of one step is I - step W, as for the full batch.

    Parameters
    ----------
    batch_size : int
        m, the rows drawn for a step. With m = 1 this is WithReplacement(batch_size=1).
    drop_last : bool
        Leave out the last step if fewer than m rows are left for it.

    >>> SampleWithReplacement(batch_size=8)
    SampleWithReplacement(batch_size=8)
    """

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        while True:
            drawn = [rng.integers(n, size=(runs, int(size))) for size in self.sizes(n)]
            yield np.concatenate(drawn, axis=1)

    def equivalent(self, n: int) -> Scheme:
        return FullBatch() if n == 1 else self


class WithReplacement(Scheme):
    """B independent, uniformly random batches per epoch, from a fixed partition into B (Remark with_replacement).

    Parameters
    ----------
    batches : int or list of index arrays
    batch_size, drop_last, normalize
        As in RandomReshuffling. With unequal batches the mean step is that of least squares in which a row
        of batch b has the weight n / (B m_b). With batch_size=1 every step takes a single sample; for several
        samples drawn independently of each other for every step see SampleWithReplacement.

    >>> WithReplacement(batches=[[0, 1], [2]])
    WithReplacement(an explicit partition, batches=2)
    """

    shuffle = Shuffle.EVERY_STEP

    def equivalent(self, n: int) -> Scheme:
        covers = self.met is None and len(self.divisors(n)) == n > 1
        if covers and (self.divisors(n) == 1).all():
            return SampleWithReplacement(batch_size=1)
        return super().equivalent(n)


class SampleSubsets(DrawnSamples):
    """Batches of m distinct rows, every subset as likely as any other, drawn afresh for every step.

    This is `rng.choice(n, m, replace=False)` in a training loop: no row twice in a step, while some rows come more
    than once in an epoch and others not at all. The mean of one step is I - step W, as for the full batch. The mean
    of m rows has (n - m) / (n - 1) of the variance that it has with replacement, and none at all for m = n.

    Parameters
    ----------
    batch_size : int
        m, the rows drawn for a step. With m = 1 this is SampleWithReplacement(batch_size=1), with m = n the full
        batch.
    drop_last : bool
        Leave out the last step of an epoch if fewer than m rows are left for it.

    >>> SampleSubsets(batch_size=8)
    SampleSubsets(batch_size=8)
    >>> SampleSubsets(batch_size=8).variance_shares(15).round(4)
    array([0.0625, 0.0816])
    """

    def variance_shares(self, n: int) -> FloatArray:
        sizes = self.sizes(n)
        return np.asarray((n - sizes) / (max(n - 1, 1) * sizes))

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        while True:
            drawn = [permutations(rng, runs, n)[:, :size] for size in self.sizes(n)]
            yield np.concatenate(drawn, axis=1)

    def equivalent(self, n: int) -> Scheme:
        return FullBatch() if self.sizes(n).tolist() == [n] else self


class WeightedSampling(DrawnSamples):
    """Batches of m rows, drawn with replacement, row i with probability w_i / sum(w): oversampling.

    This is torch's DataLoader(sampler=WeightedRandomSampler(w, len(data)), batch_size=m). The mean of one step is
    that of least squares with sample_weight = n w / sum(w), while a single run has the noise of its draws.

    Parameters
    ----------
    weights : (n,)
        Positive, one per row; only their ratios matter.
    batch_size, drop_last
        As in SampleWithReplacement.

    >>> WeightedSampling([1, 1, 2], batch_size=2)
    WeightedSampling([1, 1, 2], batch_size=2)
    """

    example = "weights, batch_size=32"
    _own = ("weights",)

    def __init__(self, weights: ArrayLike, *, batch_size: int, drop_last: bool = False):
        super().__init__(batch_size=batch_size, drop_last=drop_last)
        given = _arrays.real_array("weights", weights, "give a number > 0 for every row")
        if given.ndim != 1 or not given.size or given.min() <= 0:
            found = f"the smallest is {given.min(initial=np.inf):g} and the shape {given.shape}"
            hint = "leave out rows that are never drawn"
            raise ArgumentError("weights", "be numbers > 0, one per row", found, hint)
        self.weights = given / given.max()

    def __repr__(self) -> str:
        shown = [f"{weight:.6g}" for weight in (self.weights / self.weights.min())[:4]]
        shown += ["..."] * (len(self.weights) > 4)
        return f"WeightedSampling([{', '.join(shown)}], {self._words})"

    def partition(self, n: int) -> list[IntArray]:
        if len(self.weights) != n:
            raise ArgumentError("weights", f"have one entry per row of X, {n}", f"it has {len(self.weights)}")
        return list(np.arange(n, dtype=np.intp)[:, np.newaxis])

    def divisors(self, n: int) -> FloatArray:
        # A row's part of the mean gradient is its gradient over n times this.
        return np.asarray(self.weights.sum() / (n * self.weights))

    def _visit_compressed(self, compressed: CompressedRows, first_rows: IntArray | None) -> None:
        self.groups(compressed.n)

    def groups(self, n: int) -> RowGroups:
        raise needs_rows(repr(self), n)

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        probabilities, drawn = self.weights / self.weights.sum(), int(self.sizes(n).sum())
        while True:
            yield rng.choice(n, size=(runs, drawn), p=probabilities)

    def equivalent(self, n: int) -> Scheme:
        if self.weights.min() < self.weights.max():
            return self
        assert self.batch_size is not None
        return SampleWithReplacement(batch_size=self.batch_size, drop_last=self.drop_last).equivalent(n)


_MOST_STEPS = 10_000_000
_DRAWN_AT_ONCE = 1 << 22
"""Rows times runs for which it is drawn at once who takes part."""


@lru_cache(maxsize=16)
def _drawn_means(n: int, q: float) -> tuple[float, float, float]:
    """n E c_i, a and b of the weights c_i = 1 / m of the m rows of a batch, as in `PoissonSampling._moments`."""
    from scipy.stats import binom

    sizes = np.arange(1.0, n + 1)
    drawn = -math.expm1(n * math.log1p(-q)) if q < 1 else 1.0
    # E 1 / m over batches that are not empty; two rows meet with what is left.
    inverse = float((binom.pmf(sizes, n, q) / sizes).sum())
    both = (drawn - inverse) / max(n - 1, 1)
    return drawn, (inverse - both) / drawn, 1 - n * both / drawn**2


class PoissonSampling(DrawnSamples):
    """Every row in every step with probability q, independently of all others: as differential privacy needs it.

    This is opacus' UniformWithReplacementSampler(num_samples=n, sample_rate=q). Batches have q n rows on average,
    and may have none, or all. The mean of one step is that of the full batch; with normalize="own", times the
    probability that any row is drawn.

    Parameters
    ----------
    rate : float
        q, above 0 and at most 1.
    steps : int, optional
        Steps per epoch; by default the whole part of 1 / q, as in opacus.
    normalize : "equal" or "own"
        The divisor of the sum of the drawn gradients: "equal" is q n, as in differential privacy, and "own" the
        number of rows that were drawn, as torch's losses have it. An empty step has no gradient.
    gradient_noise : float
        Standard deviation of the Gaussian noise that every step adds to each coordinate of its gradient: in opacus
        noise_multiplier * max_grad_norm / (q n). Gradients are not clipped.

    >>> PoissonSampling(0.1)
    PoissonSampling(0.1)
    >>> PoissonSampling(0.25, normalize="own").steps(1000)
    4
    """

    example = "rate=0.1"
    _own = ("rate", "gradient_noise")
    _fixed = "a rate in place of a batch size"

    def __init__(
        self, rate: float, *, steps: int | None = None, normalize: str = "equal", gradient_noise: float = 0.0
    ):
        self.rate = _arrays.positive("rate", rate, "and at most 1")
        if self.rate > 1:
            raise ArgumentError("rate", "be above 0 and at most 1", f"it is {rate!r}")
        # 1 / q may be a whole number less rounding.
        default = int(1 / self.rate * (1 + 1e-12))
        steps = _arrays.whole_number("steps", default if steps is None else steps, 1, _MOST_STEPS)
        Scheme.__init__(self, batches=steps, normalize=normalize)
        self._kept = None
        self._default_steps = self.batches == default
        self.gradient_noise = _arrays.nonnegative("gradient_noise", gradient_noise)

    def __repr__(self) -> str:
        words = [f"{self.rate:g}"] + [f"steps={self.batches}"] * (not self._default_steps)
        words += [f"normalize={self.normalize!r}"] * (self.normalize != "equal")
        words += [f"gradient_noise={self.gradient_noise:g}"] * (self.gradient_noise > 0)
        return f"PoissonSampling({', '.join(words)})"

    def sizes(self, n: int) -> IntArray:
        """The largest number of rows of each step, (steps,): all."""
        assert self.batches is not None
        return np.full(self.batches, n, dtype=np.intp)

    def step_divisors(self, n: int) -> FloatArray:
        return np.full(self.steps(n), n * (self.rate if self.normalize == "equal" else 1.0))

    def divisors(self, n: int) -> FloatArray:
        return np.array([n / self._moments(n)[0]])

    def variance_shares(self, n: int) -> FloatArray:
        return np.full(self.steps(n), self._moments(n)[1])

    def mean_shares(self, n: int) -> FloatArray:
        return np.full(self.steps(n), self._moments(n)[2])

    def _moments(self, n: int) -> tuple[float, float, float]:
        """n E c_i, a and b of the weights c_i of the rows in a step: Cov(c) = a diag(E c) - b E c E c'."""
        if self.normalize == "equal":
            return 1.0, (1 - self.rate) / (self.rate * n), 0.0
        return _drawn_means(n, self.rate)

    def visits(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[Iterator[Visit]]:
        while True:
            yield (visit for _ in range(self.steps(n)) for visit in self._visits_of_step(n, rng, runs))

    def _visits_of_step(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[Visit]:
        """One visit for all runs that draw as many rows, some runs at a time."""
        height = max(1, _DRAWN_AT_ONCE // n)
        for first in range(0, runs, height):
            is_drawn = rng.random((min(height, runs - first), n)) < self.rate
            sizes = is_drawn.sum(axis=1)
            for size in np.unique(sizes).tolist():
                some = np.flatnonzero(sizes == size)
                rows = np.nonzero(is_drawn[some])[1].reshape(len(some), size)
                divisor = self.rate * n if self.normalize == "equal" else max(size, 1.0)
                yield Visit(first + some, rows, divisor, self.gradient_noise)

    def equivalent(self, n: int) -> Scheme:
        is_full = self.rate == 1 and self.batches == 1 and not self.gradient_noise
        return FullBatch() if is_full else self
