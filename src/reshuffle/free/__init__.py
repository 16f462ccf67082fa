"""From an expression of free random variables to its law.

>>> from reshuffle import free
>>> law = free.MarchenkoPastur(ratio=0.5, variance=0.2)
>>> x, y = free.variables(law, law)
>>> s = free.spectrum(x + y - (x * y + y * x) / 2)
>>> [tuple(round(end, 8) for end in interval) for interval in s.support]
[(0.09987126, 0.72195051)]
"""

from reshuffle.free.algebra import Expression, Pencil, block, linearize, variables
from reshuffle.free.checks import ConvergenceError
from reshuffle.free.laws import (
    Affine,
    Arcsine,
    Bernoulli,
    Discrete,
    FreePoisson,
    FromCauchy,
    FromDensity,
    KestenMcKay,
    Law,
    MarchenkoPastur,
    Projection,
    Semicircle,
    Uniform,
    Wachter,
)
from reshuffle.free.solver import Resolved
from reshuffle.free.spectrum import Comparison, Spectrum, spectrum
from reshuffle.free.weighted import Weighted

__all__ = [
    "Affine",
    "Arcsine",
    "Bernoulli",
    "Comparison",
    "ConvergenceError",
    "Discrete",
    "Expression",
    "FreePoisson",
    "FromCauchy",
    "FromDensity",
    "KestenMcKay",
    "Law",
    "MarchenkoPastur",
    "Pencil",
    "Projection",
    "Resolved",
    "Semicircle",
    "Spectrum",
    "Uniform",
    "Wachter",
    "Weighted",
    "block",
    "linearize",
    "spectrum",
    "variables",
]
