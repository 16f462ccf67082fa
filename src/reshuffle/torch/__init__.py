"""Training loops of torch, read off its own objects: `reshuffle.torch`.

torch is optional, and imported when something here is called.
"""

from reshuffle.torch.linear_probe import Probe, probe
from reshuffle.torch.training_loop import TrainingLoop, recipe

__all__ = ["Probe", "TrainingLoop", "probe", "recipe"]
