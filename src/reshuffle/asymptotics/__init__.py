"""Answers with no data at all: spectra, learning curves and thresholds as n grows, p fixed or p/n -> aspect.

>>> from reshuffle import asymptotics
>>> asymptotics.learning_curve(aspect=0.25, alpha=0.4, batches=2).risk([1, 10, 100]).total.round(4)
array([0.468 , 0.2833, 0.334 ])
"""

from functools import partial

from reshuffle._progress import ticking
from reshuffle.asymptotics.batch_law import (
    BatchLaw,
    FullBatchLaw,
    batch_spectrum,
    critical_alpha,
)
from reshuffle.asymptotics.best_recipe import BestRecipe, BestRecipes, best_recipe
from reshuffle.asymptotics.epoch_law import EpochLaw
from reshuffle.asymptotics.fresh_samples import OnePassStability
from reshuffle.asymptotics.learning_curve import (
    LearningCurve,
    LimitingRisk,
    SpectralStability,
    learning_curve,
)
from reshuffle.asymptotics.one_pass import Frontier, OnePass, compute_frontier, one_pass
from reshuffle.asymptotics.replacement import ReplacementCurve, ReplacementStability, replacement_curve
from reshuffle.asymptotics.shrinkage import Shrinkage, shrinkage
from reshuffle.asymptotics.spectra import PowerLaw, toeplitz
from reshuffle.asymptotics.two_batch_law import TwoBatchLaw
from reshuffle.free import progress

# Laws of `free` are parts of the loops here: one display shows both.
progress.display = partial(ticking, None)

__all__ = [
    "BatchLaw",
    "BestRecipe",
    "BestRecipes",
    "EpochLaw",
    "Frontier",
    "FullBatchLaw",
    "LearningCurve",
    "LimitingRisk",
    "OnePass",
    "OnePassStability",
    "PowerLaw",
    "ReplacementCurve",
    "ReplacementStability",
    "Shrinkage",
    "SpectralStability",
    "TwoBatchLaw",
    "batch_spectrum",
    "best_recipe",
    "compute_frontier",
    "critical_alpha",
    "learning_curve",
    "one_pass",
    "replacement_curve",
    "shrinkage",
    "toeplitz",
]
