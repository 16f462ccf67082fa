"""Laws from laws, without an expression: free sums and products, real powers, corners, and deconvolution."""

from reshuffle.free.convolution.convolved import Convolved
from reshuffle.free.convolution.deconvolution import Deconvolved, divide, subtract
from reshuffle.free.convolution.operations import (
    add,
    additive_power,
    compress,
    gram,
    multiplicative_power,
    multiply,
)

__all__ = [
    "Convolved",
    "Deconvolved",
    "add",
    "additive_power",
    "compress",
    "divide",
    "gram",
    "multiplicative_power",
    "multiply",
    "subtract",
]
