"""Normal numbers that no library's random stream can change: SplitMix64 and the normal quantile function."""

import numpy as np
from scipy.special import ndtri

_INCREMENT, _FIRST, _SECOND = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def normal(seed: int, *shape: int) -> np.ndarray:
    """Independent standard normal numbers of the given shape, to five digits: the same on every machine."""
    count = int(np.prod(shape))
    with np.errstate(over="ignore"):
        state = np.arange(1, count + 1, dtype=np.uint64) * _INCREMENT + np.uint64(seed) * _FIRST
        state = (state ^ (state >> np.uint64(30))) * _FIRST
        state = (state ^ (state >> np.uint64(27))) * _SECOND
        state = state ^ (state >> np.uint64(31))
    return ndtri(((state >> np.uint64(11)).astype(float) + 0.5) / 2**53).round(5).reshape(shape)
