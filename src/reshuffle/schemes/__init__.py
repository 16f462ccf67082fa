"""Ways of visiting the data: declarations of what is random. A new one is registered here."""

from reshuffle.schemes.base import Scheme, Shuffle, Unit
from reshuffle.schemes.fixed_batches import (
    Cyclic,
    FullBatch,
    LocalDescent,
    PairedReversal,
    RandomReshuffling,
    ShuffleOnce,
)
from reshuffle.schemes.samples import (
    GroupReshuffling,
    PoissonSampling,
    SampleReshuffling,
    SampleSubsets,
    SampleWithReplacement,
    WeightedSampling,
    WithReplacement,
)
from reshuffle.schemes.stages import Stages

__all__ = [
    "Cyclic",
    "FullBatch",
    "GroupReshuffling",
    "LocalDescent",
    "PairedReversal",
    "PoissonSampling",
    "RandomReshuffling",
    "SampleReshuffling",
    "SampleSubsets",
    "SampleWithReplacement",
    "Scheme",
    "Shuffle",
    "ShuffleOnce",
    "Stages",
    "Unit",
    "WeightedSampling",
    "WithReplacement",
]
