"""Descent on a stream: fresh samples for every step, or samples drawn with replacement."""

from reshuffle.asymptotics.streaming.drawn_with_replacement import (
    ReplacementCurve,
    ReplacementStability,
    replacement_curve,
)
from reshuffle.asymptotics.streaming.one_pass_curve import OnePass, one_pass
from reshuffle.asymptotics.streaming.power_law import PowerLaw
from reshuffle.asymptotics.streaming.settled_risk import OnePassStability

__all__ = [
    "OnePass",
    "OnePassStability",
    "PowerLaw",
    "ReplacementCurve",
    "ReplacementStability",
    "one_pass",
    "replacement_curve",
]
