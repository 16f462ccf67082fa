"""Proven bounds off the real axis, for polynomials of semicircular and free Poisson variables."""

from reshuffle.free.certified.certificate import Certificate, Prover
from reshuffle.free.certified.majorants import CdfBounds, cdf_bounds

__all__ = ["CdfBounds", "Certificate", "Prover", "cdf_bounds"]
