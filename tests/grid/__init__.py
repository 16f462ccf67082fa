"""Grids of recipes."""
