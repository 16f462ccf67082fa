"""From an expression of free random variables to its law.

>>> from reshuffle import free
>>> law = free.MarchenkoPastur(ratio=0.5, variance=0.2)
>>> x, y = free.variables(law, law)
>>> s = free.spectrum(x + y - (x * y + y * x) / 2)
>>> [tuple(round(end, 8) for end in interval) for interval in s.support]
[(0.09987126, 0.72195051)]
"""

from reshuffle.free.brown_measure import Brown, PlaneGrid, brown
from reshuffle.free.certificates import Certificate
from reshuffle.free.checks import ConvergenceError
from reshuffle.free.convolution import (
    Convolved,
    add,
    additive_power,
    compress,
    gram,
    multiplicative_power,
    multiply,
)
from reshuffle.free.deconvolution import Deconvolved, divide, subtract
from reshuffle.free.expression import Expression, apply, block, sqrt, variables
from reshuffle.free.laws import *  # noqa: F403
from reshuffle.free.laws import __all__ as _laws
from reshuffle.free.linearization import Pencil, linearize
from reshuffle.free.parser import parse
from reshuffle.free.solver import Resolved
from reshuffle.free.spectrum import Comparison, Spectrum, Weighted, spectrum

__all__ = [
    "Brown",
    "Certificate",
    "Comparison",
    "ConvergenceError",
    "Convolved",
    "Deconvolved",
    "Expression",
    "Pencil",
    "PlaneGrid",
    "Resolved",
    "Spectrum",
    "Weighted",
    "add",
    "additive_power",
    "apply",
    "block",
    "brown",
    "compress",
    "divide",
    "gram",
    "linearize",
    "multiplicative_power",
    "multiply",
    "parse",
    "spectrum",
    "sqrt",
    "subtract",
    "variables",
]
__all__ += _laws
