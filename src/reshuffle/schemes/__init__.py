"""Ways of visiting the data, one per file: declarations of what is random. A new one is registered here."""

from reshuffle.schemes.base import Scheme, Shuffle, Unit
from reshuffle.schemes.cyclic import Cyclic
from reshuffle.schemes.full_batch import FullBatch
from reshuffle.schemes.group_reshuffling import GroupReshuffling
from reshuffle.schemes.random_reshuffling import RandomReshuffling
from reshuffle.schemes.sample_reshuffling import SampleReshuffling
from reshuffle.schemes.sample_subsets import SampleSubsets
from reshuffle.schemes.shuffle_once import ShuffleOnce
from reshuffle.schemes.stages import Stages
from reshuffle.schemes.with_replacement import SampleWithReplacement, WithReplacement

__all__ = [
    "Cyclic",
    "FullBatch",
    "GroupReshuffling",
    "RandomReshuffling",
    "SampleReshuffling",
    "SampleSubsets",
    "SampleWithReplacement",
    "Scheme",
    "Shuffle",
    "ShuffleOnce",
    "Stages",
    "Unit",
    "WithReplacement",
]
