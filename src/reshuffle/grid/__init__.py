"""Metrics over grids of recipes: every question at every point, on the cores of one machine or of many."""
