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
from reshuffle.free.laws.law import Affine, Law

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
