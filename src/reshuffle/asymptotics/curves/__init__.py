"""Learning curves in the proportional limit: integrals over the limiting spectra, and comparisons of them."""

from reshuffle.asymptotics.curves.comparison import (
    CurveComparison,
    SpectrumComparison,
    compare_curves,
    compare_spectra,
)
from reshuffle.asymptotics.curves.learning_curve import (
    LearningCurve,
    LimitingRisk,
    SpectralStability,
    learning_curve,
    risk,
)

__all__ = [
    "CurveComparison",
    "LearningCurve",
    "LimitingRisk",
    "SpectralStability",
    "SpectrumComparison",
    "compare_curves",
    "compare_spectra",
    "learning_curve",
    "risk",
]
