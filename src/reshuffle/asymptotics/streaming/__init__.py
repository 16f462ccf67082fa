"""Descent on a stream: fresh samples for every step, or samples drawn with replacement."""

from reshuffle.asymptotics.streaming.drawn_with_replacement import (
    ReplacementCurve,
    ReplacementStability,
    replacement_curve,
)
from reshuffle.asymptotics.streaming.frontier_of_sizes import Frontier, compute_frontier, frontier_exponents
from reshuffle.asymptotics.streaming.one_pass_curve import OnePass, one_pass
from reshuffle.asymptotics.streaming.reused_data import EffectiveReuse, effective_reuse
from reshuffle.asymptotics.streaming.settled_risk import OnePassStability
from reshuffle.asymptotics.streaming.tuned_batches import CriticalBatch, critical_batch_size

__all__ = [
    "CriticalBatch",
    "EffectiveReuse",
    "Frontier",
    "OnePass",
    "OnePassStability",
    "ReplacementCurve",
    "ReplacementStability",
    "compute_frontier",
    "critical_batch_size",
    "effective_reuse",
    "frontier_exponents",
    "one_pass",
    "replacement_curve",
]
