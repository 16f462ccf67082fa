"""The joint fixed point of all variables of a linear pencil, followed to the real axis.

`system` has the fixed-point systems, `continuation` the path from high above the axis to a point, `axis` solutions
along the axis, `atoms` the masses of points. The names here serve packages with other systems: `find_folds` finds
the ends of a spectrum from both sides of them, for spectra here and for those of limits.
"""

from reshuffle.free.solver.axis import AxisSolver
from reshuffle.free.solver.continuation import Resolved, follow, resolved
from reshuffle.free.solver.system import PencilSystem, RationalR, find_folds, inverse, solve

__all__ = [
    "AxisSolver",
    "PencilSystem",
    "RationalR",
    "Resolved",
    "find_folds",
    "follow",
    "inverse",
    "resolved",
    "solve",
]
