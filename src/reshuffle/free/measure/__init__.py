"""Measures on the line: panels that know the edges, where the edges are, moments and recurrences.

Nothing here knows where a density comes from: a function of points is all that is asked for.
"""

from reshuffle.free.measure.edges import Support, support
from reshuffle.free.measure.measure import Measure

__all__ = ["Measure", "Support", "support"]
