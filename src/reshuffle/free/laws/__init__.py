"""Probability laws of self-adjoint variables, one file per family."""

from reshuffle.free.laws.classical import (
    Arcsine,
    FreePoisson,
    KestenMcKay,
    MarchenkoPastur,
    Semicircle,
    Uniform,
    Wachter,
)
from reshuffle.free.laws.custom import FromCauchy, FromDensity
from reshuffle.free.laws.discrete import Bernoulli, Discrete, Projection
from reshuffle.free.laws.elements import Circular, HaarUnitary, RDiagonal
from reshuffle.free.laws.law import Affine, Law
from reshuffle.free.laws.pushforward import Corner, Pushforward

__all__ = [
    "Affine",
    "Arcsine",
    "Bernoulli",
    "Circular",
    "Corner",
    "Discrete",
    "FreePoisson",
    "FromCauchy",
    "FromDensity",
    "HaarUnitary",
    "KestenMcKay",
    "Law",
    "MarchenkoPastur",
    "Projection",
    "Pushforward",
    "RDiagonal",
    "Semicircle",
    "Uniform",
    "Wachter",
]
