"""Measurements: ours against peers and against closed forms, in one run."""
