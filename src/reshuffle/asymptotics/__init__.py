"""Answers with no data at all: spectra, learning curves and thresholds as n grows, p fixed or p/n -> aspect.

>>> from reshuffle import asymptotics
>>> asymptotics.risk(aspect=0.25, alpha=0.4, batches=2, epochs=[1, 10, 100]).total.round(4)
array([0.468 , 0.2833, 0.334 ])
"""

from reshuffle.asymptotics.batch_law import BatchLaw
from reshuffle.asymptotics.comparison import (
    CurveComparison,
    SpectrumComparison,
    compare_curves,
    compare_spectra,
)
from reshuffle.asymptotics.critical import critical_alpha
from reshuffle.asymptotics.epoch_law import EpochLaw
from reshuffle.asymptotics.fixed_dimension import FixedDimension, fixed_dimension
from reshuffle.asymptotics.full_batch_law import FullBatchLaw
from reshuffle.asymptotics.learning_curve import (
    LearningCurve,
    LimitingRisk,
    SpectralStability,
    learning_curve,
    risk,
)
from reshuffle.asymptotics.shrinkage import Shrinkage, shrinkage
from reshuffle.asymptotics.spectra import batch_spectrum, marchenko_pastur
from reshuffle.asymptotics.two_batch_law import TwoBatchLaw

__all__ = [
    "BatchLaw",
    "CurveComparison",
    "EpochLaw",
    "FixedDimension",
    "FullBatchLaw",
    "LearningCurve",
    "LimitingRisk",
    "Shrinkage",
    "SpectralStability",
    "SpectrumComparison",
    "TwoBatchLaw",
    "batch_spectrum",
    "compare_curves",
    "compare_spectra",
    "critical_alpha",
    "fixed_dimension",
    "learning_curve",
    "marchenko_pastur",
    "risk",
    "shrinkage",
]
