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
from reshuffle.free.laws import (
    Affine,
    Arcsine,
    Bernoulli,
    Circular,
    Corner,
    Discrete,
    FreePoisson,
    FromCauchy,
    FromDensity,
    HaarUnitary,
    KestenMcKay,
    Law,
    MarchenkoPastur,
    Projection,
    Pushforward,
    RDiagonal,
    Semicircle,
    Uniform,
    Wachter,
)
from reshuffle.free.linearization import Pencil, linearize
from reshuffle.free.parser import parse
from reshuffle.free.solver import Resolved
from reshuffle.free.spectrum import Comparison, Spectrum, spectrum
from reshuffle.free.weighted import Weighted

__all__ = [
    "Affine",
    "Arcsine",
    "Bernoulli",
    "Brown",
    "Certificate",
    "Circular",
    "Comparison",
    "ConvergenceError",
    "Convolved",
    "Corner",
    "Deconvolved",
    "Discrete",
    "Expression",
    "FreePoisson",
    "FromCauchy",
    "FromDensity",
    "HaarUnitary",
    "KestenMcKay",
    "Law",
    "MarchenkoPastur",
    "Pencil",
    "PlaneGrid",
    "Projection",
    "Pushforward",
    "RDiagonal",
    "Resolved",
    "Semicircle",
    "Spectrum",
    "Uniform",
    "Wachter",
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
