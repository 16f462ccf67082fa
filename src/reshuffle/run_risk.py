"""The expected risk of a run, by whichever recursion its scheme allows."""

import numpy as np

from reshuffle import affine_method, confidence
from reshuffle import expected_risk as parts
from reshuffle.affine_mean import AffineMean
from reshuffle.arrays import FloatArray
from reshuffle.epoch.accuracy import A_SECOND, CALL, duration, require_affordable, warn_of_no_answer
from reshuffle.epoch.epoch import Epoch
from reshuffle.expected_risk import ExpectedRisk
from reshuffle.moments import streams
from reshuffle.moments.course import Course
from reshuffle.moments.inputs import Inputs
from reshuffle.moments.readout import Readout
from reshuffle.moments.reshuffled_moment import ReshuffledMoment
from reshuffle.schemes import RandomReshuffling, SampleReshuffling, ShuffleOnce, WithReplacement
from reshuffle.simulation import simulate
from reshuffle.trajectory import Trajectory

_EXACT_BYTES = 4e9
_SLOW = 1e-3
"""Rates relative to the largest, below which a limit is taken in graded coordinates."""
_SAMPLED_FLOPS = 4e10
_CALLS = 1.5
"""Calls with small matrices that a visit of second moments takes."""
_FEWEST_RUNS, _MOST_RUNS = 100, 4000
_BY_BATCHES = (RandomReshuffling, WithReplacement)
"""Schemes whose runs are simulated batch by batch."""


def way(epoch: Epoch, epochs: FloatArray, given_responses: bool) -> str:
    """How the expected risk of a plain run is computed: "reshuffling" or "affine" recursion, or "sampling"."""
    scheme, problem, rank = epoch.scheme, epoch.problem, epoch.problem.rank
    if isinstance(scheme, SampleReshuffling):
        few = scheme.is_enumerable(problem.n) and epoch.accuracy.method != "sampling"
        return "affine" if few or scheme.equivalent(problem.n) is not scheme else "sampling"
    if not isinstance(scheme, RandomReshuffling):
        return "affine"
    if epoch.method != "exact":
        return "sampling"
    if streams.leaps(rank * (rank + 1 + len(epoch.blocks.rows)), epochs):
        return "affine"
    steps = scheme.steps(problem.n)
    finite = epochs[np.isfinite(epochs)]
    rounds = min(float(finite.max(initial=0.0)), _settling(epoch)) + 100 * (len(finite) < len(epochs))
    each = 8.0 * len(epoch.blocks.rows) * rank**2 + _CALLS * CALL * steps
    flops = rounds * 2.0 ** (steps - 1) * each
    if flops > max(epoch.accuracy.budget, A_SECOND) or 2.0**steps * 8 * rank**2 > _EXACT_BYTES:
        return "sampling"
    visits_all = sum(len(rows) for rows in scheme.partition(problem.n)) == problem.n
    # The coordinates of the fast recursion lose what slow modes add up to in the long run.
    slow = float(epoch.rates.min(initial=1.0)) < _SLOW * float(epoch.rates.max(initial=1.0))
    exact = len(finite) == len(epochs) or not slow
    return "reshuffling" if visits_all and epoch.step and exact and not given_responses else "affine"


def _settling(epoch: Epoch) -> float:
    """About how many epochs the recursion is followed before nothing changes any more, or all has overflowed."""
    moving = epoch.rates[epoch.rates != 0]
    with np.errstate(divide="ignore"):
        speed = np.abs(np.log(np.abs(1 - moving))).min(initial=np.inf)
    return float(800 / speed) if speed else np.inf


def affordable_runs(run: AffineMean, when: FloatArray) -> int:
    """How many runs are simulated, a few seconds' worth; more epochs than the budget allows for are refused."""
    problem, last = run.problem, max(1.0, float(when.max(initial=0.0)))
    if np.isinf(last):
        raise ValueError(
            f"epochs must be finite for {run.scheme}, whose spread is estimated from simulated runs, "
            "but one is inf; try RandomReshuffling with few batches, where the limit is exact, or a larger budget."
        )
    problem.parameters("the expected risk")
    a_run = 4.0 * problem.n * problem.p * last
    # Runs at the same batch share their calls; with many batches hardly two of them are.
    batches = len(run.scheme.partition(problem.n)) if isinstance(run.scheme, _BY_BATCHES) else 1
    calls = CALL * run.scheme.steps(problem.n) * last
    fewest = _FEWEST_RUNS * a_run + min(batches, _FEWEST_RUNS) * calls
    budget = max(run.accuracy.budget, A_SECOND)
    if fewest > budget:
        raise ValueError(
            f"epochs must be at most {np.floor(last * budget / fewest):.1g} for {run.scheme}, whose spread is "
            f"estimated from simulated runs, but one is {last:g}; the budget is {budget:.1g} operations, "
            f"{duration(budget)}; try a larger budget, or RandomReshuffling with few batches."
        )
    affordable = _SAMPLED_FLOPS / a_run
    if batches * calls > _SAMPLED_FLOPS:
        affordable = min(affordable, _SAMPLED_FLOPS / calls)
    return 2 * int(np.clip(affordable, _FEWEST_RUNS, _MOST_RUNS) / 2)


def by_sampling(
    run: AffineMean,
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
    run : AffineMean
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
        step=lambda epoch: made.at(epoch).step,
        penalty=made.penalty,
        momentum=made.momentum,
        epochs=when,
        runs=runs,
        start=run.start,
        seed=run.accuracy.seed,
        fresh_noise=not given_responses,
    )
    assert simulated.spread is not None
    spread = simulated.spread
    errors = np.hypot(confidence.quantile(runs // 2) * spread.standard_error, mean_error)
    begin = problem.covariance.norm_squared(run.start - problem.parameters("the expected risk"))
    warn_of_no_answer(when, mean + spread.mean, errors, begin)
    return parts.of_estimate(clock, mean, spread.mean, errors)


def of_affine(run: AffineMean, clock: FloatArray, given_responses: bool) -> ExpectedRisk:
    """Any scheme and recipe: along each course by itself, or by the general recursion of second moments."""
    when = np.unique(clock.ravel())
    inputs = _inputs(run, given_responses)
    simulates = not isinstance(run.scheme, ShuffleOnce) and _is_too_much(run, when, given_responses)
    runs = affordable_runs(run, when) if simulates else 0
    mean, mean_error = _mean_risk(run, when, given_responses)
    if given_responses and _is_at_rest(run):
        return parts.deterministic(clock, mean)
    if simulates:
        return by_sampling(run, clock, mean, mean_error, runs, given_responses)
    courses = run.courses(inputs.truth)
    error = run.inside(run.start - run.problem.parameters("the expected risk"))
    if len(courses) > 1:
        risks = np.array([_course_risk(run, course, inputs, error, when) for course in courses])
        sampled = isinstance(run.scheme, ShuffleOnce) and run.scheme.is_sampled(run.problem.n)
        return parts.of_courses(clock, risks, mean, sampled)
    if not courses[0].scheme.is_random:
        return parts.deterministic(clock, mean)
    snapshots = streams.general(courses[0], inputs, error, when)
    return parts.of_moments(clock, snapshots, run.fades(when), run.readout, mean)


def _is_at_rest(run: AffineMean) -> bool:
    """Whether nothing ever moves, from zero to responses of zero.

    The error and the residuals of the truth would cancel at every visit, and what expands enlarges the rounding.
    """
    return not (run.start.any() or run.visited.y.any())


def _is_too_much(run: AffineMean, epochs: FloatArray, given_responses: bool) -> bool:
    """Whether the recursion of second moments is out of reach, or longer than anyone waits."""
    if run.method == "sampling":
        return True
    if not run.scheme.is_random:
        return False
    inputs = 1 if given_responses else None
    epoch = affine_method.walk_flops(run.scheme, run.problem.n, run.blocks, run.dimension, inputs)
    finite = epochs[np.isfinite(epochs)]
    rounds = float(finite.max(initial=0.0))
    moments = run.dimension * (run.dimension + (1 if given_responses else 1 + len(run.blocks.rows)))
    if run.recipe.is_constant and streams.leaps(moments, epochs):
        rounds = float(moments)
    if run.recipe.is_constant and rounds * epoch > run.accuracy.budget:
        rounds = min(rounds, _epochs_to_settle(run.stability().rate))
    price = (rounds + 100 * (len(finite) < len(epochs))) * epoch
    if run.accuracy.method == "exact":
        require_affordable(
            price, run.accuracy.budget, f"the exact expected risk after {epochs[-1]:g} epochs",
            'try fewer epochs, fewer batches, a larger budget, or method="auto"',
        )  # fmt: skip
    return price > max(run.accuracy.budget, A_SECOND)


def _epochs_to_settle(rate: float) -> float:
    """About how many epochs change anything: until all has faded into rounding, or has overflowed."""
    if rate in (0.0, np.inf):
        return 1.0
    return float((40 if rate < 1 else 800) / abs(np.log(rate))) if rate != 1 else np.inf


def of_reshuffling(epoch: Epoch, start: FloatArray, clock: FloatArray, mean: FloatArray) -> ExpectedRisk:
    """Random reshuffling of all rows with nothing but a step, where `mean` is the risk of the mean iterate."""
    problem, space = epoch.problem, epoch.problem.row_space
    beta_star, covariance, noise = problem.truth("the expected risk")
    when = np.unique(clock.ravel())
    error = space.scale * space.coordinates(start - beta_star)
    step = epoch.step * space.scale * space.scale
    lattice = ReshuffledMoment(epoch.blocks, step, epoch.modes.vectors, noise)
    return parts.of_moments(
        clock,
        streams.reshuffled(epoch, lattice, error, when),
        np.ones(len(when)),
        Readout(space, covariance, start, beta_star).turned(lattice.basis),
        mean,
    )


def _inputs(run: AffineMean, given_responses: bool) -> Inputs:
    """What enters the run beside its state."""
    if given_responses:
        truth = run.inside(run.problem.parameters("the risk given the responses"))
        return Inputs(truth, given=run.blocks.response - run.blocks.rows @ truth)
    beta_star, _, noise = run.problem.truth("the expected risk")
    return Inputs(run.inside(beta_star), noise=noise)


def _mean_risk(run: AffineMean, when: FloatArray, given_responses: bool) -> tuple[FloatArray, FloatArray]:
    """The risk of the mean iterate, and its error."""
    if not given_responses:
        risk = run.risk(when)
        return risk.total, risk.error
    return given_risk(run, when)


def given_risk(run: AffineMean | Trajectory, when: FloatArray) -> tuple[FloatArray, FloatArray]:
    """|b - beta_star|_Sigma^2 at the mean iterate b itself, and how far the error of b may put it off."""
    problem, covariance = run.problem, run.problem.covariance
    beta_star = problem.parameters("the risk given the responses")

    def risk(run: AffineMean | Trajectory) -> FloatArray:
        errors = run.iterate(when) - beta_star
        return np.array([covariance.norm_squared(e) if np.isfinite(e).all() else np.inf for e in errors])

    value = risk(run)
    sampled = run.sampling_error(risk, value)
    if sampled.any():
        return value, sampled
    off = run.iterate_error(when)
    if off.any():
        off = off * np.sqrt(covariance.norm(problem.row_space.lift(np.eye(problem.rank))))
    with np.errstate(invalid="ignore"):
        return value, np.where(off == 0, 0.0, 2 * np.sqrt(value) * off + off**2)


def _course_risk(
    run: AffineMean, course: Course, inputs: Inputs, error: FloatArray, when: FloatArray
) -> FloatArray:
    """The risk along one course, on which nothing is random but the noise."""
    rank, risks = run.space.dimension, []
    for state, fade in zip(course.states(error, when), run.fades(when), strict=True):
        inside = state[:rank]
        if inputs.given is not None:
            with np.errstate(invalid="ignore"):
                inside = inside[:, :1] + inside[:, 1:] @ inputs.given[:, np.newaxis]
            inside = np.where(np.isfinite(inside), inside, np.inf)
        pieces = run.risk_parts(inside, float(fade), inputs.noise)
        risks.append(max(sum(pieces), 0.0) if np.isfinite(pieces).all() else np.inf)
    return np.array(risks)
