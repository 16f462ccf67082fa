"""Why a fit is not the least-squares solution: what has not converged, what batching does, and noise."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.linalg
import scipy.special
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._display import Displayed, Table, plain
from reshuffle._linalg import spectral_norm
from reshuffle._uncertainty import ErrorKind, significant
from reshuffle.errors import ArgumentError, UnsupportedError
from reshuffle.grid.metrics import Answer, ask
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.run import Run, descend
from reshuffle.run.limits import minimum_norm
from reshuffle.run.modes import Epoch
from reshuffle.schemes import FullBatch

_ROUNDING = 1e-12
_LONGEST = 1e6
"""The last epoch, but for the limit, with whose iterate a fit is compared where its epochs are not given."""
_SHOWN = 5
"""Modes in the table."""
_UNLIKELY = 0.01
"""Probability of a run that is as far away, below which a fit is not plausible."""
_SINGLE_PRECISION = 1e-5
"""Relative to the predictions: what is off by less may be so because training was done in single precision."""
_QUICK = 3e9
"""Operations that the spread of single runs may take exactly; it is drawn to some per cent beyond that."""
_NEAR_MEAN = 1e-3
"""Deviations from the mean within which the saddlepoint approximation loses digits."""
_STANDARD_ERRORS = 2.6
"""In an error of confidence 99%. That of a covariance is of the whole matrix, and covers the trace amply."""
_KNOWN = 1e-8
"""Noise of a mean that is known: less is lost to rounding."""
_FAR = 1e4
"""Squared distance over its mean that is as good as infinite: for a known mean the probability is below 1e-2000."""
_SPREADS: WeakKeyDictionary[Run, dict[float, tuple[Answer, FloatArray]]] = WeakKeyDictionary()
"""Spreads of the runs that were explained, by epoch."""
_MANY, _CONVERGED = 100.0, 1e-8
"""Epochs after which the fixed point costs less than following them, and what is left of the start there."""


@dataclass(frozen=True, eq=False)
class SpreadTest:
    """The distance of a fit from the mean iterate, compared with that of single runs.

    With l_i the eigenvalues of X C X' / n, C the covariance of single runs over their orders, the squared distance
    of a run is sum_i l_i z_i^2 with mean sum_i l_i, and the probability is that of normal z_i and of a mean that is
    as uncertain as `expected.error` says. In short it is about g chi^2_h of the same mean and variance,
    g = sum l_i^2 / sum l_i and h = (sum l_i)^2 / sum l_i^2. Where few batches have few orders it is but a rough
    guide.
    """

    distance: float  # |X (fit - mean iterate)| / sqrt(n)
    expected: Answer  # the root mean square of that for single runs, sqrt(sum_i l_i)
    chi_square: float  # distance^2 / g; nan where the spread is not known or zero
    degrees_of_freedom: float  # h
    probability: float  # that a single run is at least as far away

    @property
    def deviations(self) -> float:
        """The distance over that of single runs on average (root mean square)."""
        expected = float(self.expected.value)
        if expected:
            return self.distance / expected
        return np.inf if self.distance else 0.0

    @property
    def is_plausible(self) -> bool:
        """True if the fit may well be one of those runs; also where nothing is known about them."""
        return not self.probability < _UNLIKELY

    def __repr__(self) -> str:
        if not self.expected.is_known:
            return f"SpreadTest(distance={significant(self.distance, 3)}, spread unknown: {self.expected.reason})"
        word = "plausible" if self.is_plausible else "not plausible"
        size, chance = significant(self.deviations, 3), significant(self.probability, 2)
        return f"SpreadTest({size} times the spread, probability={chance}: {word})"


def _spread_test(run: Run, epochs: float, noise: FloatArray, fit: FloatArray) -> SpreadTest:
    """Test of the distance of a fit (p,) from the mean iterate, `noise` (p,), against the spread of single runs."""
    reduction, n, largest = run.problem.reduction, run.problem.n, _largest(run)
    known = _SPREADS.setdefault(run, {})
    if epochs not in known:
        known[epochs] = _spread(run, epochs, largest)
    expected, eigenvalues = known[epochs]
    distance, size = (float(np.sqrt(reduction.squares(vector) / n)) for vector in (noise, fit))
    if not expected.is_known:
        return SpreadTest(distance, expected, np.nan, np.nan, np.nan)
    off = float(run.iterate_error(epochs))
    is_near = distance <= max(_SINGLE_PRECISION * size, off * largest if off else 0.0)
    total = float(eigenvalues.sum())
    if not 0 < total < np.inf:
        return SpreadTest(distance, expected, np.nan, np.nan, 1.0 if is_near or total > 0 else 0.0)
    scale = float(np.square(eigenvalues / total).sum()) * total
    freedom, chi_square = total / scale, distance**2 / scale
    # The mean is known as that of 1 / (2 unsure^2) squares of normal numbers would be.
    unsure = float(expected.error / expected.value) / _STANDARD_ERRORS
    chance = 1.0 if is_near else _exceeded(eigenvalues / total, distance**2 / total, 2 * unsure**2)
    return SpreadTest(distance, expected, chi_square, freedom, chance)


def _exceeded(shares: FloatArray, size: float, noise: float) -> float:
    """P(sum_i l_i z_i^2 > size noise chi^2_(1 / noise)) for l_i that add up to one, within a few per cent.

    That is P(sum_i a_i chi^2_(k_i) > 0), by the saddlepoint approximation of Lugannani and Rice: where
    K(t) = -sum k_i log(1 - 2 t a_i) / 2 and K'(t) = 0, it is P(z > w + log(v / w) / w), w = sign(t) sqrt(-2 K),
    v = t sqrt(K''). The chi-square distribution of the same mean and variance is too small far out: with it 1.3% of
    7,200 trained runs had a probability below 1%.
    """
    if size <= 0:
        return 1.0
    shares, size, noise = shares[shares > _ROUNDING], min(size, _FAR), float(np.clip(noise, _KNOWN, 1.0))
    multiples, degrees = np.append(shares, -size * noise), np.append(np.ones(len(shares)), 1 / noise)

    def slope(t: float) -> float:
        return float(degrees @ (multiples / (1 - 2 * t * multiples)))

    # Left of the root the terms of the shares are below n / (2 |t|), right of it the largest is beyond the size.
    left = -1 / (2 * size * (1 / len(shares) + noise))
    right = (1 - shares.max() / (size + 1)) / (2 * shares.max())
    from scipy.optimize import brentq

    t = float(brentq(slope, left, right, xtol=1e-14))
    variance = 2 * float(degrees @ np.square(multiples / (1 - 2 * t * multiples)))
    w = math.copysign(math.sqrt(max(float(degrees @ np.log1p(-2 * t * multiples)), 0.0)), t)
    if abs(w) < _NEAR_MEAN:
        # The limit of what follows at the mean.
        skewness = 8 * float(degrees @ multiples**3) / variance**1.5
        return float(0.5 - skewness / (6 * math.sqrt(2 * math.pi)))
    v = t * math.sqrt(variance)
    return float(scipy.special.ndtr(-w - math.log(v / w) / w))


def _spread(run: Run, epochs: float, largest: float) -> tuple[Answer, FloatArray]:
    """The root mean square distance of single runs from their mean, and the eigenvalues of X C X' / n."""
    reduction, eigenvalues = run.problem.reduction, np.zeros(0)
    accuracy = replace(run.accuracy, budget=min(run.accuracy.budget, _QUICK))
    quick = Run(run.problem, run.scheme, run.recipe, run.start, accuracy)

    def question() -> tuple[FloatArray, FloatArray, ErrorKind]:
        nonlocal eigenvalues
        ends = epochs > _MANY and run.converges and run.stability().rate ** epochs < _CONVERGED
        covariance = quick.covariance(np.inf if ends else epochs)
        if np.isfinite(covariance.factor).all():
            fitted = reduction.fitted(covariance.factor)
            eigenvalues = np.square(scipy.linalg.svdvals(fitted, check_finite=False)) / run.problem.n
        else:
            eigenvalues = np.array([np.inf])
        total, off = float(eigenvalues.sum()), float(covariance.error) * largest**2
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.where(off == 0, 0.0, np.minimum(off / (2 * np.sqrt(total)), np.sqrt(off)))
        return np.asarray(np.sqrt(total)), error, covariance.error_kind

    return ask(question), eigenvalues


def _largest(run: Run) -> float:
    """The largest |X b| / sqrt(n) of a unit vector b."""
    reduction = run.problem.reduction
    largest = reduction.space.scale * spectral_norm(reduction.rows)
    return largest / math.sqrt(run.problem.n)


@dataclass(frozen=True, eq=False)
class FitPart(Displayed):
    """One of the reasons why a fit is not the least-squares solution.

    Its share is <X vector, X difference> / |X difference|^2. The shares of all parts add up to one; one that points
    against the others is negative. Where two parts are not orthogonal each has half of what they have in common.
    """

    _shown = ("name", "share", "size", "sentence")

    name: str  # "unconverged", "batching", "penalty" or "noise"
    vector: FloatArray  # (p,): its contribution to the difference; all parts add up to it
    size: (
        float  # |X vector| / sqrt(n): root mean square of its effect on the predictions for the training rows
    )
    share: float
    sentence: str  # the reason in words

    def __repr__(self) -> str:
        return f"FitPart({self.name!r}, share={significant(self.share, 3)}, size={significant(self.size, 3)})"


@dataclass(frozen=True)
class ModeLeft(Displayed):
    """Progress of one mode of the mean map; shares are those of `FitPart`, and add up to what is unconverged."""

    _shown = ("rate", "left", "epochs_left", "share")

    rate: float  # factor by which its distance from its limit shrinks in an epoch
    left: float  # share of its whole way that is left after the epochs that were run
    epochs_left: float  # epochs more until one per cent of its way is left; inf if it never gets there
    share: float  # of the difference from least squares


@dataclass(frozen=True, eq=False)
class Explanation(Displayed):
    """Why a fit is not the least-squares solution: its repr is the answer in sentences.

    Attributes
    ----------
    difference : (p,)
        The fit minus the least-squares solution next to the start of the run.
    size : float
        |X difference| / sqrt(n).
    epochs : float
        After how many epochs the fit was taken.
    epochs_were_given : bool
        If not, they are those whose mean iterate is nearest to the fit.
    parts : tuple of FitPart
        "unconverged": the mean iterate minus its limit. "batching": that limit minus the one of the full batch.
        "penalty": the latter minus least squares, if there is one. "noise": the fit minus the mean iterate.
    modes : tuple of ModeLeft
        The slowest first; none where an epoch is no symmetric map.
    spread : SpreadTest
        Test of the noise against the spread of single runs of this recipe.
    unseen : float
        The Euclidean norm of the part of the difference that no row of X sees: no training changes it.
    converges : bool
        True if the run does. If not, "unconverged" counts from the limit of the full batch.
    products : (parts, parts)
        <X a, X b> / |X difference|^2 for any two parts a and b: the rows add up to the shares.
    """

    difference: FloatArray
    size: float
    epochs: float
    epochs_were_given: bool
    parts: tuple[FitPart, ...]
    modes: tuple[ModeLeft, ...]
    spread: SpreadTest
    unseen: float
    converges: bool
    products: FloatArray

    def __getitem__(self, name: str) -> FitPart:
        for part in self.parts:
            if part.name == name:
                return part
        known = ", ".join(repr(part.name) for part in self.parts)
        raise KeyError(f"name must be one of {known}, but it is {name!r}.")

    @property
    def is_plausible(self) -> bool:
        """True if the fit may well come from this run: its noise is as large as that of random orders."""
        return self.spread.is_plausible

    def __repr__(self) -> str:
        headline, *remarks = self._lines()
        sentences = [f"  {part.sentence}" for part in self.parts] if self.size else []
        return "\n".join([headline, *sentences, *remarks])

    def _lines(self) -> list[str]:
        """The headline and remarks."""
        lines = ["the fit is the least-squares solution"]
        if self.size:
            guessed = "" if self.epochs_were_given else " (which fit best)"
            after = f"after {self.epochs:g} epochs{guessed}" if math.isfinite(self.epochs) else "in the limit"
            lines = [
                f"the predictions are {significant(self.size, 4)} away from those of least squares {after}:"
            ]
        if not self.converges:
            lines.append("  the mean of such runs does not converge: the step is too large.")
        if self.unseen:
            far = f"  beyond that the parameters differ by {significant(self.unseen, 3)}"
            lines.append(f"{far} in directions that no row of X sees.")
        return lines

    def table(self) -> Table:
        """The modes, the slowest first: their rate, what is left, epochs until that is 1%, and their share."""
        header, cells = ["rate", "left", "epochs left", "share"], []
        for mode in self.modes[:_SHOWN]:
            to_go = f"{mode.epochs_left:.0f}" if math.isfinite(mode.epochs_left) else "never"
            cells.append([f"{mode.rate:.6f}", f"{mode.left:.2%}", to_go, f"{mode.share:.1%}"])
        rest = self.modes[_SHOWN:]
        if rest:
            cells.append(["", "", f"{len(rest)} more", f"{sum(mode.share for mode in rest):.1%}"])
        columns = {name: [getattr(mode, name) for mode in self.modes] for name in ModeLeft._shown}
        return Table(columns, header, cells)

    def _columns(self) -> dict[str, Any]:
        return {name: [getattr(part, name) for part in self.parts] for name in FitPart._shown}

    def _title(self) -> str:
        return "\n".join(self._lines())

    def to_dict(self) -> dict[str, Any]:
        """The difference, its parts and the modes, in numbers, words and lists."""
        names = ("size", "epochs", "parts", "modes", "is_plausible", "unseen", "converges")
        return {name: plain(getattr(self, name)) for name in names}


def explain(
    X: ArrayLike,
    y: ArrayLike,
    coef: ArrayLike,
    recipe: Run | Mapping[str, Any],
    *,
    epochs: float | None = None,
) -> Explanation:
    """Split the difference of a fit from least squares into three parts: too few epochs, batching, and noise.

    With b_k the mean iterate of the run and b_ols the least-squares solution nearest to its start,
    coef - b_ols = (b_k - b_inf) + (b_inf - b_ols) + (coef - b_k): the epochs that are missing, the limit of the run
    (with a penalty, in two parts: batching and the penalty), and the random orders of this one run. The share of a
    part is its inner product with the whole difference, <X part, X whole> / |X whole|^2, so that shares add up to
    one.

    Parameters
    ----------
    X : (n, p)
    y : (n,)
    coef : (p,)
        What training gave, an intercept included if X has a column of ones for it.
    recipe : Run or dict
        How it was trained: a run on these data, or the arguments of `descend` for it, such as
        {"scheme": rs.SampleReshuffling(batch_size=32), "step": 0.01}. The step must be constant.
    epochs : int, optional
        How long. By default so many that the mean iterate is nearest to coef.

    Returns
    -------
    Explanation
        The parts of the difference and their shares; it prints as sentences.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(60, 5, noise=1.0, seed=1)
    >>> run = rs.descend(problem, rs.RandomReshuffling(batch_size=15), step=0.1)
    >>> rs.explain(problem.X, problem.y, run.iterate(4), run, epochs=4)  # doctest: +NORMALIZE_WHITESPACE
    the predictions are 0.2173 away from those of least squares after 4 epochs:
      98.4% is not converged yet: 5 of 5 modes have more than 1% of their way to go, the slowest for 22 epochs.
      1.6% is due to batches: with 4 visits per epoch even endless training ends elsewhere.
      0.0% is noise from shuffling, 0 times its usual size; 100% of such runs have more: plausible.
    """
    run = _run(X, y, recipe)
    problem = run.problem
    fit = _arrays.vector(
        "coef", coef, problem.p, "one entry per column of X (an intercept is one of a column of ones)"
    )
    when = _nearest_epoch(run, fit) if epochs is None else run.recipe.epochs(epochs)
    if np.ndim(when):
        raise ArgumentError("epochs", "be a single number of epochs", f"its shape is {np.shape(when)}")
    when = float(when)
    here, least = run.iterate(when), minimum_norm(problem, run.start)
    if not np.isfinite(here).all():
        allowed = "be so few that the mean iterate is a number"
        raise ArgumentError("epochs", allowed, f"after {when:g} it has grown without bound: the run diverges")
    full_batch = least
    if run.recipe.penalty:
        whole = replace(
            run.recipe, schedule=1 / (_largest(run) ** 2 + run.recipe.penalty), divisor=1, momentum=0.0,
            nesterov=False, average=None, visits=1,
        )  # fmt: skip
        full_batch = Run(problem, FullBatch(), whole, run.start, run.accuracy).iterate(math.inf)
    end = run.iterate(math.inf) if run.converges else full_batch
    vectors = {"unconverged": here - end, "batching": end - full_batch}
    if run.recipe.penalty:
        vectors["penalty"] = full_batch - least
    vectors["noise"] = fit - here
    difference = fit - least
    fitted = problem.reduction.fitted(np.column_stack([*vectors.values(), difference]))
    total = float(np.square(fitted[:, -1]).sum())
    is_solved = total <= _ROUNDING**2 * float(problem.reduction.squares(fit))
    products = np.zeros((len(vectors),) * 2) if is_solved else fitted[:, :-1].T @ fitted[:, :-1] / total
    shares = np.zeros(len(vectors)) if is_solved else fitted[:, :-1].T @ fitted[:, -1] / total
    sizes = np.sqrt(np.square(fitted).sum(axis=0) / problem.n)
    modes = _modes(run, when, vectors["unconverged"], fitted[:, -1], 0.0 if is_solved else 1 / total)
    tested = _spread_test(run, when, vectors["noise"], fit)
    visits = run.scheme.steps(problem.n)
    elsewhere = f"with {visits} visits per epoch even endless training ends elsewhere"
    reasons = {
        "unconverged": _of_unconverged(modes, when),
        "batching": f"due to batches: {elsewhere if visits > 1 else 'there is but one'}",
        "penalty": f"the penalty of {run.recipe.penalty:g}, which shrinks towards zero",
        "noise": _of_noise(tested),
    }
    outside = float(np.linalg.norm(problem.row_space.outside(difference)))
    # Adding zero makes a zero of a negative one.
    sentences = [
        f"{round(share, 3) + 0.0:.1%} is {reasons[name]}."
        for name, share in zip(vectors, shares, strict=True)
    ]
    parts = zip(vectors, vectors.values(), sizes[:-1].tolist(), shares.tolist(), sentences, strict=True)
    return Explanation(
        difference=difference,
        size=0.0 if is_solved else float(sizes[-1]),
        epochs=when,
        epochs_were_given=epochs is not None,
        parts=tuple(FitPart(*part) for part in parts),
        modes=modes,
        spread=tested,
        unseen=outside if outside > _ROUNDING * float(np.linalg.norm(fit)) else 0.0,
        converges=run.converges,
        products=products,
    )


def _run(X: ArrayLike, y: ArrayLike, recipe: Any) -> Run:
    """The run on these data."""
    given = LeastSquares(X, y)
    if isinstance(recipe, Mapping):
        run = descend(given, **recipe)
    elif isinstance(recipe, Run):
        run = recipe
        if given.n == run.problem.n:
            given = LeastSquares(X, y, sample_weight=run.problem.sample_weight)
        same = run.problem.X.shape == given.X.shape and np.array_equal(run.problem.X, given.X)
        if not (same and np.array_equal(run.problem.y, given.y)):
            allowed = "be a run on the X and y that are given"
            hint = "pass run.problem.X and run.problem.y, or the arguments of descend as a dict"
            raise ArgumentError("recipe", allowed, f"it is one on others, {run.problem!r}", hint)
    else:
        raise TypeError(
            "recipe must be a Run, or a dict of arguments of rs.descend such as "
            f'{{"scheme": rs.SampleReshuffling(batch_size=32), "step": 0.01}}, but it is a {type(recipe).__name__}.'
        )
    if run.problem.outputs is not None:
        raise UnsupportedError(
            "explain has no answer for many outputs at once; explain one of them, with y[:, j], its coef and "
            "run.output(j)."
        )
    if not run.recipe.is_constant:
        raise UnsupportedError(
            f"explain has no answer for {run!r}, which changes with the epoch and has no limit; "
            "it needs one scheme and a constant step."
        )
    return run


def _nearest_epoch(run: Run, fit: FloatArray) -> float:
    """The epoch whose mean iterate is nearest to a fit: among ever sparser ones, then between these."""
    begin = float(run.recipe.earliest)
    tried = np.unique(np.concatenate([np.arange(16.0), np.geomspace(16, _LONGEST, 80).round()])) + begin
    if run.converges:
        tried = np.append(tried, np.inf)

    def apart(epochs: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            return run.problem.reduction.squares(run.iterate(epochs) - fit, 1)

    while True:
        place = int(np.argmin(apart(tried)))
        low = tried[max(place - 1, 0)]
        high = tried[min(place + 1, len(tried) - 1)]
        best = float(tried[place])
        if math.isinf(best) or math.isinf(high) or high - low <= 2:
            return best
        tried = np.unique(np.append(np.linspace(low, high, 33).round(), best))


def _modes(
    run: Run, when: float, unconverged: FloatArray, whole: FloatArray, unit: float
) -> tuple[ModeLeft, ...]:
    """Progress of each mode, if an epoch has modes: shares are products with the whole (q,) times `unit`."""
    try:
        epoch: Any = run.epoch
    except UnsupportedError:
        return ()
    if not isinstance(epoch, Epoch):
        return ()
    space, rows, directions = run.problem.row_space, run.problem.reduction.rows, epoch.modes.vectors
    along = directions.T @ space.coordinates(unconverged)
    seen = directions.T @ (space.scale * (rows.T @ whole))
    sizes = np.abs(epoch.rates)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        left = np.where(sizes == 1, 1.0, sizes**when)
        needed = np.where(sizes < 1, np.log(0.01) / np.log(sizes), np.inf)
        to_go = np.maximum(np.ceil(needed - when), 0.0)
    to_go = np.where(sizes < 1, np.where(np.isnan(to_go), 0.0, to_go), np.inf)
    columns = np.column_stack([epoch.rates, left, to_go, along * seen * unit])
    return tuple(ModeLeft(*mode) for mode in columns[np.argsort(-sizes, kind="stable")].tolist())


def _of_unconverged(modes: tuple[ModeLeft, ...], when: float) -> str:
    if math.isinf(when):
        return "not converged yet"
    behind = [mode for mode in modes if mode.left > 0.01 and mode.rate != 1]
    if not modes:
        return "not converged yet, and goes away with more epochs"
    if not behind:
        return "not converged yet: every mode has less than 1% of its way to go"
    to_go = behind[0].epochs_left
    until = f"the slowest for {to_go:.0f} epochs" if math.isfinite(to_go) else "the slowest for ever"
    return f"not converged yet: {len(behind)} of {len(modes)} modes have more than 1% of their way to go, {until}"


def _of_noise(spread: SpreadTest) -> str:
    if not spread.expected.is_known:
        return "what sets this one run apart from the mean of all orders; how much is usual is not known"
    if not float(spread.expected.value):
        fits = "" if spread.is_plausible else ", so that this fit was not trained this way"
        return f"not from such training, which is not random{fits}"
    odds = spread.probability
    chance = significant(odds, 2) if odds < 0.01 else f"{odds:.0%}"
    word = "plausible" if spread.is_plausible else "this fit was trained differently"
    size = f"{significant(spread.deviations, 2)} times its usual size"
    return f"noise from shuffling, {size}; {chance} of such runs have more: {word}"
