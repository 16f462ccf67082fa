"""Does the mean square converge, where orders are too many for a recursion: by centred maps."""

import numpy as np

from reshuffle._core.confidence import further_rounds
from reshuffle._core.threads import few_threads
from reshuffle.epoch.accuracy import A_SECOND, require_affordable
from reshuffle.epoch.affine.outside import Inputs
from reshuffle.epoch.second_moment import centred_radius
from reshuffle.epoch.second_moment.centred_draws import CentredDraws
from reshuffle.epoch.second_moment.centred_radius import Radius
from reshuffle.run import centred_moments
from reshuffle.run.affine_engine import AffineEngine
from reshuffle.run.modes_engine import ModesEngine

_KNOWN = 0.02
"""How far the gain may be off: it counts beside one."""
_FIRST_PAIRS = 4
_APPLIED = 200
"""Applications of all maps that two radii take, with those of halves, about."""


def radii(run: AffineEngine, modes: ModesEngine | None) -> tuple[Radius, Radius]:
    """The rate and the gain, from as many draws as it takes to know the gain, or a tenth of the budget."""
    drawn = undriven(run, modes)
    budget = max(centred_moments.SHARE_OF_BUDGET * run.accuracy.budget, A_SECOND)
    require_affordable(
        _price(drawn, _FIRST_PAIRS), max(budget, run.accuracy.budget), "the mean square from a few drawn orders",
        "try fewer rows or features, a larger budget, or expected_risk at the epochs of interest",
    )  # fmt: skip
    pairs = _FIRST_PAIRS
    with few_threads(run.dimension):
        while True:
            drawn.more(pairs)
            budget -= _price(drawn, pairs)
            gain = centred_radius.gain(drawn.maps)
            excess = gain.error / (_KNOWN * max(1.0, gain.value))
            total = drawn.orders // (2 * drawn.groups)
            most = min(
                budget / (_price(drawn, total) / total),
                centred_moments.MOST_ORDERS // (2 * drawn.groups) - total,
            )
            more = further_rounds(total, excess, most) if 1 < excess < np.inf else 0
            if more < 1:
                return centred_radius.rate(drawn.maps), gain
            pairs = more


def undriven(run: AffineEngine, modes: ModesEngine | None) -> CentredDraws:
    """Orders of a run into which nothing enters: only what it does to errors is asked."""
    nothing = Inputs(np.zeros(run.space.dimension), given=np.zeros(len(run.blocks.rows)))
    return centred_moments.draws(run, modes, nothing)


def _price(drawn: CentredDraws, pairs: int) -> float:
    maps = 2.0 * drawn.groups * pairs
    return drawn.flops(pairs) + _APPLIED * 4.0 * maps * float(len(drawn.basis)) ** 3
