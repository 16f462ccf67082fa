"""Descent on a stream: fresh samples for every step, or samples drawn with replacement."""

from reshuffle.asymptotics.streaming.settled_risk import OnePassStability
from reshuffle.asymptotics.streaming.one_pass_curve import OnePass, one_pass
from reshuffle.asymptotics.streaming.power_law import PowerLaw

__all__ = ["OnePass", "OnePassStability", "PowerLaw", "one_pass"]
