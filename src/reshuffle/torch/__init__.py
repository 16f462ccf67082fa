"""Training loops of torch, read off its own objects: `reshuffle.torch`.

torch is optional, and imported when something here is called.
"""

from reshuffle.torch.drawn_runs import DrawnRuns
from reshuffle.torch.lazy_comparison import LazyComparison, compare
from reshuffle.torch.lazy_network import LazyNetwork, linearize
from reshuffle.torch.linear_probe import Probe, probe
from reshuffle.torch.training_loop import TrainingLoop, recipe

__all__ = [
    "DrawnRuns",
    "LazyComparison",
    "LazyNetwork",
    "Probe",
    "TrainingLoop",
    "compare",
    "linearize",
    "probe",
    "recipe",
]
