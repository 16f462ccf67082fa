"""Tests of the solver: points from their neighbours, series along the axis, folds, symmetrised products."""
