"""The risk of the run itself: over orders and noise, not of the mean iterate."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from reshuffle import _uncertainty
from reshuffle._arrays import FloatArray, IntArray
from reshuffle._budget import A_SECOND, CALL, duration, warn_of_no_answer
from reshuffle._uncertainty import CONFIDENCE, ErrorKind, error_of_mean, significant, with_error
from reshuffle.epoch.averaging.lattice import climbs
from reshuffle.epoch.epoch import Epoch
from reshuffle.epoch.moments.select import SecondMomentTask, second_moment_choice, through_stages
from reshuffle.epoch.moments.trajectory import (
    Readout,
    Snapshot,
    Spread,
    averaged_spreads,
    leaps,
    second_moments,
)
from reshuffle.epoch.select import Choice
from reshuffle.epoch.visits import Inputs
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.run import centred_moments
from reshuffle.run.affine_trajectory import AffineTrajectory
from reshuffle.run.trajectory import ModesTrajectory
from reshuffle.schemes.base import Unit
from reshuffle.simulation import simulate

_ROUNDING = 1e-8
"""Relative to the terms that are added: what many epochs of rounding may do to a sum of them."""


@dataclass(frozen=True, eq=False)
class ExpectedRisk:
    """E |beta_k - beta_star|_Sigma^2 of one run, over its random orders and the noise in its responses.

    Each part has the shape of `epochs`, or epochs.shape + (t,) of t outputs; what grows without bound is inf.

    Attributes
    ----------
    epochs : array
        As asked for.
    total : array
        The expected risk: mean + spread.
    mean : array
        The risk of the mean iterate, which averaging many runs would have.
    spread : array
        What shuffling adds: E |beta_k - E beta_k|_Sigma^2 over the orders.
    error : array
        Of the total: where orders were sampled so much that at least 99 of 100 seeds are within, an estimate of
        what is left of the iteration for a fixed point, and 0 where all is exact up to rounding.
    error_kind : str
        In which of these senses: "confidence 99%", "estimate" or "exact".
    """

    epochs: FloatArray
    total: FloatArray
    mean: FloatArray
    spread: FloatArray
    error: FloatArray
    error_kind: ErrorKind = "exact"

    def __repr__(self) -> str:
        if self.total.ndim or self.epochs.size == 0:
            largest = float(self.error.max(initial=0.0))
            off = f", error at most {significant(largest, 2)} ({self.error_kind})" if largest else ""
            return f"ExpectedRisk(shape={self.total.shape}{off})"
        return (
            f"ExpectedRisk(total={with_error(self.total, self.error, self.error_kind)}: "
            f"mean={float(self.mean):.6g}, spread={float(self.spread):.6g})"
        )


def of_moments(
    clock: FloatArray,
    snapshots: Iterator[Snapshot],
    outside_decay: FloatArray,
    readout: Readout,
    mean: FloatArray,
) -> ExpectedRisk:
    """Put together what the moments of the error say.

    Parameters
    ----------
    clock : any shape
    snapshots : iterator of Snapshot
        At each of the distinct epochs, ascending.
    outside_decay, mean : (distinct epochs,)
        What is left outside the row space, and the risk of the mean iterate.
    readout : Readout
    """
    when, back = np.unique(clock.ravel(), return_inverse=True)
    totals, errors = np.zeros(len(when)), np.zeros(len(when))
    for number, (snapshot, fade) in enumerate(zip(snapshots, outside_decay, strict=True)):
        inside = readout.inside(snapshot.second)
        if np.isfinite(inside):
            cross = readout.between(snapshot.mean, float(fade))
            outside = readout.outside(float(fade))
            rounding = _ROUNDING * (readout.size(snapshot.second) + abs(cross) + outside)
            totals[number] = _nonnegative(inside + cross + outside, rounding, when[number])
        else:
            totals[number] = np.inf
        errors[number] = snapshot.error * inside if snapshot.error else 0.0
    return _spread_over(clock, back, totals, mean, errors, "estimate" if errors.any() else "exact")


def of_spreads(
    clock: FloatArray, spreads: Iterator[Spread], readout: Readout, mean: FloatArray
) -> ExpectedRisk:
    """The expected risk of what the orders add to an average, at each of the distinct epochs, ascending."""
    _, back = np.unique(clock.ravel(), return_inverse=True)
    # Rounding may leave a covariance of nothing just below zero.
    sizes = [(max(readout.inside(each.covariance), 0.0), each.error) for each in spreads]
    spread = np.array([size for size, _ in sizes])
    errors = np.array([error * size if error else 0.0 for size, error in sizes])
    made = _spread_over(clock, back, mean + spread, mean, errors, "estimate" if errors.any() else "exact")
    # It may be too small to be seen in a difference of the two.
    return replace(made, spread=spread[back].reshape(clock.shape))


def _nonnegative(total: float, rounding: float, epoch: float) -> float:
    """A mean of squares; below zero, but for rounding, it is no answer."""
    if total < -rounding:
        raise ArithmeticError(
            f"the expected risk after {epoch:g} epochs came out as {total:g}, below zero by more than rounding "
            f"({rounding:.1g}): the recursion of second moments has lost its accuracy; try a smaller step."
        )
    return max(total, 0.0)


def deterministic(clock: FloatArray, mean: FloatArray) -> ExpectedRisk:
    """A run that is always the same is its own mean: nothing is spread."""
    _, back = np.unique(clock.ravel(), return_inverse=True)
    return _spread_over(clock, back, mean, mean, np.zeros(len(mean)))


def of_courses(clock: FloatArray, risks: FloatArray, mean: FloatArray, sampled: bool) -> ExpectedRisk:
    """Average the risks (timelines, distinct epochs) of runs that differ in their first draw alone.

    Sampled timelines come in pairs of an order and its reverse, whose differences tell the error.
    """
    _, back = np.unique(clock.ravel(), return_inverse=True)
    errors = np.zeros(risks.shape[1])
    if sampled:
        errors = error_of_mean((risks[0::2] + risks[1::2]) / 2)
    kind: ErrorKind = CONFIDENCE if sampled else "exact"
    return _spread_over(clock, back, risks.mean(axis=0), mean, errors, kind)


def of_estimate(clock: FloatArray, mean: FloatArray, spread: FloatArray, errors: FloatArray) -> ExpectedRisk:
    """A spread that was estimated, at the distinct epochs."""
    _, back = np.unique(clock.ravel(), return_inverse=True)
    return _spread_over(clock, back, mean + spread, mean, errors, CONFIDENCE)


def _spread_over(
    clock: FloatArray,
    back: IntArray,
    totals: FloatArray,
    mean: FloatArray,
    errors: FloatArray,
    kind: ErrorKind = "exact",
) -> ExpectedRisk:
    with np.errstate(invalid="ignore"):
        # Both are sums of the same size, so that their difference may round to just below zero.
        spread = np.where(np.isinf(totals), np.inf, np.maximum(totals - mean, 0.0))
    shape = clock.shape
    return ExpectedRisk(
        clock,
        totals[back].reshape(shape),
        mean[back].reshape(shape),
        spread[back].reshape(shape),
        errors[back].reshape(shape),
        kind,
    )


_SAMPLED_FLOPS = 4e10
_FEWEST_RUNS, _MOST_RUNS = 100, 4000


def expected_risk(
    run: AffineTrajectory, modes: ModesTrajectory | None, clock: FloatArray, given_responses: bool
) -> ExpectedRisk:
    """E |beta_k - beta_star|_Sigma^2 over orders and noise, at epochs of any shape.

    Parameters
    ----------
    run : AffineTrajectory
    modes : ModesTrajectory or None
        The same run in the modes of its mean map, if that is symmetric.
    clock : any shape
    given_responses : bool
        Average over the orders alone, with the responses of the problem.
    """
    when = np.unique(clock.ravel())
    _require_truth(run.problem, given_responses)
    if given_responses and _is_at_rest(run):
        mean, _ = _mean_risk(run if modes is None else modes, when, given_responses)
        return deterministic(clock, mean)
    by = _WAYS.get(way(run, modes, when, given_responses).taken, _followed)
    return by(run, modes, clock, given_responses)


def _simulated(
    run: AffineTrajectory, modes: ModesTrajectory | None, clock: FloatArray, given_responses: bool
) -> ExpectedRisk:
    """From runs that are trained; whether so many are affordable is asked before anything is computed."""
    when = np.unique(clock.ravel())
    runs = affordable(run, when)
    mean, error = _mean_risk(run if modes is None else modes, when, given_responses)
    return by_sampling(run, clock, mean, error, runs, given_responses)


def _followed(
    run: AffineTrajectory, modes: ModesTrajectory | None, clock: FloatArray, given_responses: bool
) -> ExpectedRisk:
    """Visit by visit, along every timeline, by the walk over all orders."""
    when = np.unique(clock.ravel())
    inputs, timeline = _inputs(run, given_responses), run.timeline
    if timeline.count > 1:
        return _of_courses(run, inputs, clock)
    engine = run if modes is None else modes
    if modes is not None and run.recipe.is_constant and climbs(run.scheme) and run.visited is run.problem:
        # The symmetric mean is known already.
        timeline.learn(centred_moments.mean_of(modes.epoch, run, timeline.visits(0)))
    mean, _ = _mean_risk(engine, when, given_responses)
    error = run.inside(run.start - run.problem.parameters("the expected risk"))
    if not any(stage.scheme.is_random for stage in run.stages):
        return deterministic(clock, mean)
    if run.recipe.average is not None:
        spreads = averaged_spreads(timeline, inputs, error, when)
        return of_spreads(clock, spreads, run.readout, mean)
    taken = second_moments(run.stages, inputs, error, when)
    return of_moments(clock, taken, run.outside_decay(when), run.readout, mean)


def way(
    run: AffineTrajectory,
    modes: ModesTrajectory | None,
    when: FloatArray,
    given_responses: bool,
    squares: bool = True,
) -> Choice:
    """The method of the second moments of a run, up to the given ascending epochs.

    `squares` says whether the map of an epoch may be squared where the state is small.
    """
    if run.scheme.has_stages:
        return through_stages(
            [way(stage, None, local, given_responses, squares) for stage, local in run.parts(when)]
        )
    epoch, recipe = None if modes is None else modes.epoch, run.recipe
    plain = epoch is not None and climbs(epoch.scheme)
    # Their shapes are the same, and these are there already.
    blocks = epoch.blocks if epoch is not None and plain else run.blocks
    dimension = run.problem.rank if plain else run.dimension
    # Averages have a recursion of their own beside the general one.
    last = recipe.average is None
    moves = dimension > 0 if epoch is None or not plain else bool(epoch.decay_rates.any())
    moves = moves and last and recipe.is_constant and recipe.at(0).step > 0
    leap = leaps(dimension, not given_responses, when) if moves and squares else 0
    rows, rank = blocks.rows.shape
    task = SecondMomentTask(
        run.walk, rows, rank, blocks.batches, dimension, when, given_responses,
        mean_is_exact=_mean_is_exact(run, epoch), is_constant=recipe.is_constant, moves=moves, leap=leap,
        settling=lambda: _settling(run, epoch),
    )  # fmt: skip
    return second_moment_choice(task, run.accuracy)


def _is_at_rest(run: AffineTrajectory) -> bool:
    """True if nothing ever moves, from zero to responses of zero.

    The error and the residuals of the truth would cancel at every visit, and what expands enlarges the rounding.
    """
    return not (run.start.any() or run.visited.compressed.y.any())


def _mean_is_exact(run: AffineTrajectory, epoch: Epoch | None) -> bool:
    """True if the mean beside which second moments are followed is exact: a few samples are walked through."""
    if not run.walk.exists:
        return False
    engine = run if epoch is None or epoch.scheme.unit.is_cut else epoch
    return engine.error_kind == "exact"


def _settling(run: AffineTrajectory, epoch: Epoch | None) -> float:
    """The number of epochs, about, that change anything: until all has faded into rounding, or has overflowed."""
    if not run.recipe.is_constant:
        return np.inf
    if epoch is None:
        rate = run.stability().rate
        if rate in (0.0, np.inf):
            return 1.0
        return float((40 if rate < 1 else 800) / abs(np.log(rate))) if rate != 1 else np.inf
    moving = epoch.decay_rates[epoch.decay_rates != 0]
    with np.errstate(divide="ignore"):
        speed = np.abs(np.log(np.abs(1 - moving))).min(initial=np.inf)
    return float(800 / speed) if speed else np.inf


def affordable(run: AffineTrajectory, when: FloatArray) -> int:
    """The number of simulated runs, a few seconds' worth; more epochs than the budget allows for are refused."""
    problem, last = run.problem, max(1.0, float(when.max(initial=0.0)))
    if np.isinf(last):
        # Only a walk over all orders is a matter of the budget.
        dearer = ", or a larger budget" if run.walk.exists else ""
        raise ValueError(
            f"epochs must be finite for {run.scheme}, whose spread is estimated from simulated runs, "
            f"but one is inf; try RandomReshuffling with few batches, where the limit is exact{dearer}."
        )
    a_run = 4.0 * problem.n * problem.p * last
    # Runs at the same batch share their calls; with many batches hardly two of them are.
    batches = len(run.scheme.partition(problem.n)) if run.scheme.unit is Unit.BATCH else 1
    calls = CALL * run.walk.steps * last
    fewest = _FEWEST_RUNS * a_run + min(batches, _FEWEST_RUNS) * calls
    budget = max(run.accuracy.budget, A_SECOND)
    if fewest > budget:
        raise ValueError(
            f"epochs must be at most {np.floor(last * budget / fewest):.0f} for {run.scheme}, whose spread is "
            f"estimated from simulated runs, but one is {last:g}; the budget is {budget:.1g} operations, "
            f"{duration(budget)}; try a larger budget, or RandomReshuffling with few batches."
        )
    affordable = _SAMPLED_FLOPS / a_run
    if batches * calls > _SAMPLED_FLOPS:
        affordable = min(affordable, _SAMPLED_FLOPS / calls)
    return 2 * int(np.clip(affordable, _FEWEST_RUNS, _MOST_RUNS) / 2)


def by_centred_maps(
    run: AffineTrajectory, modes: ModesTrajectory | None, clock: FloatArray, given_responses: bool
) -> ExpectedRisk:
    """The mean iterate's risk as it is known, plus the spread by the centred maps of drawn orders."""
    when, problem = np.unique(clock.ravel()), run.problem
    mean, mean_error = _mean_risk(run if modes is None else modes, when, given_responses)
    error = run.start - problem.parameters("the expected risk")
    found = centred_moments.spread(run, modes, _inputs(run, given_responses), when, run.inside(error))
    # Of the spread an error of the decay rates is as large a share as of the time for which what orders do is kept.
    share = 0.0 if modes is None else modes.epoch.error
    with np.errstate(invalid="ignore"):
        errors = np.where(
            np.isfinite(mean), np.hypot(found.errors + share * found.values, mean_error), np.inf
        )
    warn_of_no_answer(when, mean + found.values, errors, problem.covariance.norm_squared(error))
    return of_estimate(clock, mean, found.values, errors)


def by_sampling(
    run: AffineTrajectory,
    clock: FloatArray,
    mean: FloatArray,
    mean_error: FloatArray,
    runs: int,
    given_responses: bool,
) -> ExpectedRisk:
    """The mean iterate's risk as it is known, plus the spread of simulated runs, with its standard error.

    Runs come in pairs that share their noise: half their squared distance has the spread for its mean, and the
    noise, by far the larger part of what varies, cancels in it.

    Parameters
    ----------
    run : AffineTrajectory
    clock : any shape
        Epochs, finite.
    mean, mean_error : (distinct epochs,)
        The risk of the mean iterate, and its error.
    runs : int
        How many to simulate.
    given_responses : bool
    """
    problem, made, when = run.problem, run.recipe, np.unique(clock.ravel())
    simulated = simulate(
        problem,
        run.scheme,
        step=made.schedule if made.divisor == 1 else None,
        alpha=None if made.divisor == 1 else made.schedule,
        penalty=made.penalty,
        momentum=made.momentum,
        average=made.average,
        nesterov=made.nesterov,
        unpenalized=made.unpenalized,
        epochs=when,
        runs=runs,
        start=run.start,
        seed=run.accuracy.seed,
        fresh_noise=not given_responses,
    )
    assert simulated.spread is not None
    spread = simulated.spread
    errors = np.hypot(_uncertainty.quantile(runs // 2) * spread.standard_error, mean_error)
    begin = problem.covariance.norm_squared(run.start - problem.parameters("the expected risk"))
    warn_of_no_answer(when, mean + spread.mean, errors, begin)
    return of_estimate(clock, mean, spread.mean, errors)


def _require_truth(problem: LeastSquares, given_responses: bool) -> None:
    """Say what is missing before anything is computed."""
    if given_responses:
        problem.parameters("the risk given the responses")
    else:
        problem.truth("the expected risk")


def _inputs(run: AffineTrajectory, given_responses: bool) -> Inputs:
    """The inputs of the run."""
    if given_responses:
        truth = run.inside(run.problem.parameters("the risk given the responses"))
        return Inputs(truth, given=run.blocks.response - run.blocks.rows @ truth)
    beta_star, _, noise = run.problem.truth("the expected risk")
    return Inputs(run.inside(beta_star), noise=noise)


def _mean_risk(
    run: AffineTrajectory | ModesTrajectory, when: FloatArray, given_responses: bool
) -> tuple[FloatArray, FloatArray]:
    """The risk of the mean iterate, and its error."""
    if not given_responses:
        risk = run.risk(when)
        return risk.total, risk.error
    return given_risk(run, when)


def given_risk(run: AffineTrajectory | ModesTrajectory, when: FloatArray) -> tuple[FloatArray, FloatArray]:
    """|b - beta_star|_Sigma^2 at the mean iterate b itself, and how far the error of b may put it off."""
    problem, covariance = run.problem, run.problem.covariance
    beta_star = problem.parameters("the risk given the responses")

    def risk(run: AffineTrajectory | ModesTrajectory) -> FloatArray:
        errors = run.iterate(when) - beta_star
        return np.array([covariance.norm_squared(e) if np.isfinite(e).all() else np.inf for e in errors])

    value = risk(run)
    sampled = run.sampling_error(risk, value)
    if sampled.any():
        return value, sampled
    off = run.iterate_error(when)
    if off.any():
        space = run.space if isinstance(run, AffineTrajectory) else problem.row_space
        off = off * np.sqrt(covariance.norm(space.lift(np.eye(space.dimension))))
    with np.errstate(invalid="ignore"):
        return value, np.where(off == 0, 0.0, 2 * np.sqrt(value) * off + off**2)


def _of_courses(run: AffineTrajectory, inputs: Inputs, clock: FloatArray) -> ExpectedRisk:
    """Over timelines that differ in their first draw alone, and along which nothing is random but the noise."""
    when = np.unique(clock.ravel())
    given = None if inputs.given is None else np.concatenate([[1.0], inputs.given])
    noise = inputs.noise if given is None else 0.0
    rank, outside_decay = run.space.dimension, run.outside_decay(when)
    risks, mean = np.zeros((run.timeline.count, len(when))), np.zeros(len(when))

    def watch(place: slice, number: int, states: FloatArray) -> None:
        risks[place, number] = run.readout.risks(states[:, :rank], float(outside_decay[number]), noise)

    error = run.inside(run.start - run.problem.parameters("the expected risk"))
    for number, state in enumerate(run.means(error, when, given, watch)):
        mean[number] = run.readout.risks(state[np.newaxis], float(outside_decay[number]), noise)[0]
    return of_courses(clock, risks, mean, run.timeline.samples_orders)


_WAYS = {
    "centred maps": by_centred_maps,
    "simulation": _simulated,
}
"""What is done in the ways that the planner knows beside following every visit."""
