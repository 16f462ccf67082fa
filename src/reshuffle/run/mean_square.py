"""Stability in mean square: the spectral radius of M -> E[A M A'], and on which side of one it is."""

from dataclasses import dataclass, replace

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._budget import A_SECOND, duration, require_affordable
from reshuffle._display import Displayed
from reshuffle._uncertainty import CONFIDENCE, ErrorKind
from reshuffle.epoch.averaging.lattice import climbs
from reshuffle.epoch.moments.matrix import (
    FEWEST_ROUNDS,
    MOST_WRITTEN_OUT,
    congruence_change,
    epoch_flops,
    is_written_out,
)
from reshuffle.epoch.moments.stationary import (
    ROUNDS,
    Enclosure,
    Map,
    MeanPart,
    eigenmatrix,
    perron,
    positive_radius,
)
from reshuffle.epoch.select import walk_flops
from reshuffle.epoch.timeline import Timeline
from reshuffle.errors import BudgetError
from reshuffle.run.expected_risk import centred_draws, mean_of
from reshuffle.run.modes import ModesTrajectory
from reshuffle.run.trajectory import AffineTrajectory
from reshuffle.schemes.base import Shuffle

_ROUNDING = 1e-12
"""Relative size of a difference of two changes that is nothing but rounding."""
_FEW_ROUNDS, _TOLERANCES, _SHARE = 3, (1e-3, 1e-7), 0.01
"""Rounds of bounds on the gain before it is computed as an eigenvalue (where orders agree on a mode the lower bound
never rises); relative accuracies of that, far from one and near it; the share of the identity in its matrix."""
_OPEN = 1e-7
"""Relative width of bounds on the rate that more rounds would improve."""


@dataclass(frozen=True)
class MeanSquareStability(Displayed):
    """Convergence of E |beta_k - limit|^2 from every start, on which the expected risk depends.

    Attributes
    ----------
    converges : bool
        The mean converges, and the gain is below one: then so is the rate.
    rate : float
        The spectral radius of M -> E[A M A'] on symmetric matrices, over the row space and, under a penalty,
        outside of it; never below the square of the rate of the mean.
    bounds : (float, float)
        Bounds on the rate: certified (Collatz and Wielandt) where it is exact, within the error otherwise.
    gain : float
        The feedback of the spread into itself: the spectral radius of (I - Abar . Abar')^-1 E, where E is what the
        differences between orders add to an epoch; infinite where the mean diverges.
    error, gain_error : float
        Errors of rate and gain because orders were drawn; without draws, the distance of the bounds from the rate,
        where they are so far apart. Where one is within `gain_error` of the gain it is open whether the mean
        square converges.
    error_kind : str
        Kind of the error: "exact", "bound", "confidence 99%" or "estimate".
    """

    _shown = ("converges", "rate", "error", "gain", "gain_error", "error_kind")

    converges: bool
    rate: float
    bounds: tuple[float, float]
    gain: float
    error: float = 0.0
    gain_error: float = 0.0
    error_kind: ErrorKind = "exact"


def mean_square_stability(run: AffineTrajectory, modes: ModesTrajectory | None = None) -> MeanSquareStability:
    """Decide for a run with a constant step.

    `modes` is the same run in the modes of its mean map, if that is symmetric: it knows more of the mean than draws
    of its own would.
    """
    budget, timeline, flops, in_all = run.accuracy.budget, run.timeline, np.inf, np.inf
    if run.walk.exists:
        flops = walk_flops(run.walk, run.blocks, run.dimension)
        in_all = flops + _fewest_flops(timeline)
    reshuffles = run.scheme.shuffle is Shuffle.EVERY_EPOCH
    if reshuffles and not run.accuracy.must_be_exact and in_all > max(budget, A_SECOND):
        return _from_draws(run, modes)
    if run.error_kind != "exact" and run.walk.exists:
        _require_affordable(flops, budget, run.walk.steps)
        wanted = replace(run.accuracy, method="exact")
        run = AffineTrajectory(run.problem, run.scheme, run.recipe, run.start, wanted)
        timeline = run.timeline
    is_lattice = climbs(run.scheme) and is_written_out(timeline)
    is_known = modes is not None and modes.error_kind == "exact"
    if modes is not None and is_known and run.visited is run.problem and is_lattice:
        timeline.learn(mean_of(modes.epoch, run, timeline.visits(0)))
    spreads = timeline.space.dimension > 0 and timeline.count == 1 and timeline.scheme.is_random
    spreads = spreads and run.dimension > 0 and run.recipe.at(0).step != 0
    rounds = _affordable_rounds(timeline, budget) if spreads else 0
    mean = run.stability()
    square = float(np.square(mean.rate))
    if not spreads:
        gain = 0.0 if mean.converges else np.inf
        return MeanSquareStability(mean.converges, square, (square, square), gain)
    rate, gained = _rate(timeline, rounds), Enclosure(np.inf, np.inf, np.inf)
    if mean.converges:
        positive, dimension = _gained(timeline)
        # A gain is compared with one: far below it few digits suffice.
        gained = positive_radius(positive, dimension, unit=1.0, rounds=rounds)
    # Gain and rate are on the same side of one: the bounds of either tell which.
    decided = False if rate.lower > 1 else gained.is_below(1.0)
    decided = rate.is_below(1.0) if decided is None else decided
    converges = mean.converges and (gained.estimate < 1 if decided is None else decided)
    # The mean knows of what a penalty does outside the row space, too.
    value, bounds = max(rate.estimate, square), (max(rate.lower, square), max(rate.upper, square))
    if mean.converges and rounds < ROUNDS and _is_open(rate) and decided is None:
        raise BudgetError(
            f"the budget of {budget:.1g} operations, {duration(budget)}, does not decide whether the mean square "
            f"converges: its rate is between {bounds[0]:.6g} and {bounds[1]:.6g}.",
            hint=("a larger {budget}",),
        )
    if not _is_open(Enclosure(bounds[0], value, bounds[1])):
        return MeanSquareStability(converges, value, bounds, gained.estimate)
    error = max(value - bounds[0], bounds[1] - value) if np.isfinite(value) else 0.0
    return MeanSquareStability(converges, value, bounds, gained.estimate, error, error_kind="bound")


def _fewest_flops(timeline: Timeline) -> float:
    """Operations of the recursion without which there is no use to begin."""
    return epoch_flops(timeline) * (1 if is_written_out(timeline) else 2 * FEWEST_ROUNDS)


def _require_affordable(operations: float, budget: float, batches: int) -> None:
    hint = ("fewer batches", "a larger {budget}", "{expected_risk} at the epochs of interest")
    require_affordable(operations, budget, f"the mean square over the orders of {batches} batches", hint)


def _affordable_rounds(timeline: Timeline, budget: float) -> int:
    """Applications of the recursion that the budget allows for each of the two radii; refused if too few."""
    _require_affordable(_fewest_flops(timeline), budget, timeline.walk.steps)
    rounds = max(budget, A_SECOND) / (2 * epoch_flops(timeline))
    return ROUNDS if is_written_out(timeline) else int(min(ROUNDS, rounds))


def _from_draws(run: AffineTrajectory, modes: ModesTrajectory | None) -> MeanSquareStability:
    mean = run.stability() if modes is None else modes.stability()
    square = float(np.square(mean.rate))
    if run.recipe.at(0).step == 0 or not run.space.dimension:
        return MeanSquareStability(mean.converges, square, (square, square), 0.0)
    rate, gain = centred_draws(run, modes).radii(run.accuracy)
    # The mean knows of what a penalty does outside the row space, too.
    value = max(rate.value, square)
    # Where the mean is not exact the rate is off by what its square is, the gain by its share in the decay rate.
    error = rate.error + 2 * mean.rate * mean.error
    share = mean.error / max(1 - mean.rate, mean.error) if mean.error and mean.converges else 0.0
    return MeanSquareStability(
        mean.converges and gain.value < 1, value, (value - error, value + error), gain.value,
        error, gain.error + (gain.value * share if share else 0.0), CONFIDENCE,
    )  # fmt: skip


def gain_beside_one(
    timeline: Timeline, start: FloatArray | None = None, is_near: bool = False
) -> tuple[float, FloatArray | None]:
    """Gain along a trajectory of random orders on which the mean converges, on the right side of one.

    Far from one it is an estimate; digits are sought at once where it `is_near`. Also returns a definite matrix
    near its eigenmatrix, a `start` for a nearby step.
    """
    positive, dimension = _gained(timeline)
    found = positive_radius(positive, dimension, 1.0, unit=1.0, rounds=_FEW_ROUNDS, start=start)
    if found.is_below(1.0) is not None:
        return found.estimate, found.matrix
    value, matrix = 1.0, found.matrix
    for tolerance in _TOLERANCES[is_near:]:
        value, matrix = perron(positive, dimension, tolerance, matrix)
        # Definite, with a share of all that may be the eigenmatrix at another step.
        matrix = (1 - _SHARE) * matrix / np.trace(matrix) + _SHARE * np.eye(dimension) / dimension
        if abs(value - 1) > 10 * tolerance:
            break
    return value, matrix


def _rate(timeline: Timeline, rounds: int) -> Enclosure:
    """The spectral radius of M -> E[A M A']."""
    change = congruence_change(timeline)
    dimension = timeline.visits(0).dimension

    def moved(matrix: FloatArray) -> FloatArray:
        return np.asarray(matrix + change(matrix))

    found = positive_radius(moved, dimension, rounds=rounds)
    # Where other eigenvalues are nearly as large, as those of the momentum buffer are, no number of rounds will do.
    small = dimension * (dimension + 1) // 2 <= MOST_WRITTEN_OUT
    if rounds < ROUNDS or not small or not np.isfinite(found.upper) or not _is_open(found):
        return found
    again = positive_radius(moved, dimension, rounds=1, start=eigenmatrix(moved, dimension))
    lower, upper = max(found.lower, again.lower), min(found.upper, again.upper)
    return Enclosure(lower, min(max(again.estimate, lower), upper), upper, again.matrix)


def _is_open(rate: Enclosure) -> bool:
    """True where bounds are so far apart that more rounds would improve them."""
    return rate.upper - rate.lower > _OPEN * rate.upper


def _gained(timeline: Timeline) -> tuple[Map, int]:
    """M -> (I - Abar . Abar')^-1 E(M) of symmetric matrices (d, d), and d."""
    part, change = MeanPart(timeline.map(0)), congruence_change(timeline)
    scales = np.outer(part.units, part.units)
    # Slow modes change by little, and what they change by is known as well, relative to that, as of fast ones.
    weights = scales / np.maximum(part.speeds, np.finfo(np.float64).tiny)

    def size(change: FloatArray) -> float:
        return float(np.abs(weights * change).max(initial=0.0))

    def positive(scaled: FloatArray) -> FloatArray:
        # In units in which slow modes, too, have a spread of ordinary size.
        matrix = scaled / scales
        by_the_mean = part.change(matrix)
        spread = change(matrix) - by_the_mean
        if size(spread) <= _ROUNDING * size(by_the_mean):
            return np.zeros_like(matrix)
        return scales * part.solve(spread)

    return positive, len(scales)
