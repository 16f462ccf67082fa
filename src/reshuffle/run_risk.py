"""Which way the expected risk of a plain run is computed."""

from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle import expected_risk as parts
from reshuffle import validate
from reshuffle.affine_descent import AffineDescent
from reshuffle.expected_risk import ExpectedRisk
from reshuffle.moments import streams
from reshuffle.moments.readout import Readout
from reshuffle.recipe import Recipe
from reshuffle.schemes import RandomReshuffling

if TYPE_CHECKING:
    from reshuffle.descent import Descent


def expected_risk(run: "Descent", epochs: Any, given_responses: bool) -> ExpectedRisk:
    """Answer by the fast lattice where there is one, and by the general recursion elsewhere."""
    problem, scheme = run.problem, run.epoch.scheme
    clock = validate.epochs(epochs)
    is_whole = sum(len(rows) for rows in scheme.partition(problem.n)) == problem.n
    fast = isinstance(scheme, RandomReshuffling) and is_whole and run.epoch.step > 0 and not given_responses
    if not fast:
        general = AffineDescent(problem, scheme, Recipe(run.epoch.step), run.start)
        return general.expected_risk(clock, given_responses=given_responses)
    beta_star, covariance, noise = problem.truth("the expected risk")
    when, space = np.unique(clock.ravel()), problem.row_space
    error = space.scale * space.coordinates(run.start - beta_star)
    return parts.of_moments(
        clock,
        streams.reshuffled(run.epoch, error, noise, when),
        np.ones(len(when)),
        Readout(space, covariance, run.start, beta_star),
        run.risk(when).total,
    )
