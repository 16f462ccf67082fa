"""Which form of the joint system a pencil is solved in."""

from collections.abc import Sequence

from reshuffle.free.algebra.linearization import Pencil
from reshuffle.free.checks import Real
from reshuffle.free.laws import Law
from reshuffle.free.solver.exchange import exchange
from reshuffle.free.solver.fixed_point import PencilSystem
from reshuffle.free.solver.subordination import System
from reshuffle.free.solver.symmetric_system import SymmetricSystem

WORTH = 5
"""Rows from which on a pencil is looked at for variables that can be exchanged."""


def joint_system(pencil: Pencil, laws: Sequence[Law], direction: Real) -> PencilSystem:
    """Return the joint system of all variables, split by the symmetry between them where there is one.

    Small pencils are left as they are: close to strong singularities their rows differ by many orders of size, and
    the rows of a type are mixtures of them.
    """
    if pencil.size >= WORTH and len(laws) > 2 and pencil.is_real:
        found = exchange(pencil.coefficients.real, pencil.corner, laws)
        if found is not None:
            try:
                return SymmetricSystem(found, laws, direction, pencil.corner)
            except ArithmeticError:
                pass
    return System(pencil.coefficients, laws, direction)
