"""The one place that chooses how something is computed: by what each way costs, and what speaks against it.

A `Choice` can be printed: it says what was taken, at what cost, and why the others were not. The order of the ways
is that of preference; the first against which nothing speaks is taken.
"""

from reshuffle.epoch.choice.means import (
    averages_all_orders,
    choice_of_samples,
    decomposition_choice,
    mean_choice,
    mean_map,
    mean_of_samples,
)
from reshuffle.epoch.choice.second_moments import (
    SecondMomentTask,
    draws_squares,
    draws_thresholds,
    halves_samples,
    least_known,
    no_second_moments,
    second_moment_choice,
    through_stages,
)
from reshuffle.epoch.choice.walked_means import (
    affine_choice,
    asked_of_draws,
    climbs,
    for_every_visit,
    require_known,
    require_stages,
    walk_flops,
)
from reshuffle.epoch.choice.ways import Choice, Computation, Way

__all__ = [
    "Choice",
    "Computation",
    "SecondMomentTask",
    "Way",
    "affine_choice",
    "asked_of_draws",
    "averages_all_orders",
    "choice_of_samples",
    "climbs",
    "decomposition_choice",
    "draws_squares",
    "draws_thresholds",
    "for_every_visit",
    "halves_samples",
    "least_known",
    "mean_choice",
    "mean_map",
    "mean_of_samples",
    "no_second_moments",
    "require_known",
    "require_stages",
    "second_moment_choice",
    "through_stages",
    "walk_flops",
]
