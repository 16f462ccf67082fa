"""Brown measures of expressions that are not self-adjoint, in the plane."""

from reshuffle.free.planar.brown_measure import Brown, PlaneGrid, brown

__all__ = ["Brown", "PlaneGrid", "brown"]
