"""Probability laws of self-adjoint variables, one per file."""

from reshuffle.free.laws.affine import Affine
from reshuffle.free.laws.arcsine import Arcsine
from reshuffle.free.laws.base import Law
from reshuffle.free.laws.bernoulli import Bernoulli, Projection
from reshuffle.free.laws.custom import FromCauchy, FromDensity
from reshuffle.free.laws.discrete import Discrete
from reshuffle.free.laws.free_poisson import FreePoisson
from reshuffle.free.laws.kesten_mckay import KestenMcKay
from reshuffle.free.laws.marchenko_pastur import MarchenkoPastur
from reshuffle.free.laws.semicircle import Semicircle
from reshuffle.free.laws.uniform import Uniform
from reshuffle.free.laws.wachter import Wachter

__all__ = [
    "Affine",
    "Arcsine",
    "Bernoulli",
    "Discrete",
    "FreePoisson",
    "FromCauchy",
    "FromDensity",
    "KestenMcKay",
    "Law",
    "MarchenkoPastur",
    "Projection",
    "Semicircle",
    "Uniform",
    "Wachter",
]
