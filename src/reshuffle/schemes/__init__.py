"""Ways of visiting the data, one a file."""

from reshuffle.schemes.base import Scheme
from reshuffle.schemes.full_batch import FullBatch
from reshuffle.schemes.random_reshuffling import RandomReshuffling
from reshuffle.schemes.sample_reshuffling import SampleReshuffling
from reshuffle.schemes.with_replacement import WithReplacement

__all__ = ["FullBatch", "RandomReshuffling", "SampleReshuffling", "Scheme", "WithReplacement"]
