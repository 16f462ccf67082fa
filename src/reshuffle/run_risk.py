"""The expected risk of a run, by whichever recursion its scheme allows."""

import numpy as np

from reshuffle import expected_risk as parts
from reshuffle.affine_mean import AffineMean
from reshuffle.arrays import FloatArray
from reshuffle.epoch.epoch import Epoch
from reshuffle.expected_risk import ExpectedRisk
from reshuffle.moments import streams
from reshuffle.moments.course import Course
from reshuffle.moments.inputs import Inputs
from reshuffle.moments.readout import Readout
from reshuffle.schemes.shuffle_once import ShuffleOnce


def of_affine(run: AffineMean, clock: FloatArray, given_responses: bool) -> ExpectedRisk:
    """Any scheme and recipe: along each course by itself, or by the general recursion of second moments."""
    when = np.unique(clock.ravel())
    inputs = _inputs(run, given_responses)
    mean = _mean_risk(run, when, given_responses)
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


def of_reshuffling(epoch: Epoch, start: FloatArray, clock: FloatArray, mean: FloatArray) -> ExpectedRisk:
    """Random reshuffling of all rows with nothing but a step, where `mean` is the risk of the mean iterate."""
    problem, space = epoch.problem, epoch.problem.row_space
    beta_star, covariance, noise = problem.truth("the expected risk")
    when = np.unique(clock.ravel())
    error = space.scale * space.coordinates(start - beta_star)
    return parts.of_moments(
        clock,
        streams.reshuffled(epoch, error, noise, when),
        np.ones(len(when)),
        Readout(space, covariance, start, beta_star),
        mean,
    )


def _inputs(run: AffineMean, given_responses: bool) -> Inputs:
    """What enters the run beside its state."""
    if given_responses:
        truth = run.inside(run.problem.parameters("the risk given the responses"))
        return Inputs(truth, given=run.blocks.response - run.blocks.rows @ truth)
    beta_star, _, noise = run.problem.truth("the expected risk")
    return Inputs(run.inside(beta_star), noise=noise)


def _mean_risk(run: AffineMean, when: FloatArray, given_responses: bool) -> FloatArray:
    if not given_responses:
        return run.risk(when).total
    errors = run.iterate(when) - run.problem.parameters("the risk given the responses")
    covariance = run.problem.covariance
    return np.array([covariance.norm_squared(e) if np.isfinite(e).all() else np.inf for e in errors])


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
