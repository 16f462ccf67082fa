"""From a linear pencil to its resolvent: the joint fixed point of all variables, followed to the real axis.

`Engine` puts the parts together: transforms of single laws, their joint system, the path, what is told from
neighbours where the system is singular, and the atoms.
"""

from reshuffle.free.solver.continuation import Resolved
from reshuffle.free.solver.resolvent import Engine

__all__ = ["Engine", "Resolved"]
