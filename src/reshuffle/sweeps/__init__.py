"""Whole grids of recipes: every question at every point, on the cores of one machine or of many."""

from reshuffle.sweeps.swept import sweep

__all__ = ["sweep"]
