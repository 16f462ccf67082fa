"""Tests of the solver: points from their neighbours, series along the axis, variables that can be exchanged."""
