"""Expressions of free variables: written, read, printed, checked, reduced and linearised.

Their moments, which need nothing but the definition of freeness, are here too; everything else about their laws
takes a solver.
"""

from reshuffle.free.algebra.expression import Expression, block, variables
from reshuffle.free.algebra.functions import apply, sqrt
from reshuffle.free.algebra.linearization import Pencil, linearize

__all__ = ["Expression", "Pencil", "apply", "block", "linearize", "sqrt", "variables"]
