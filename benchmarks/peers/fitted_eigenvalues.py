"""freealg on the eigenvalues of one sampled matrix: it fits a density to them, and knows no expressions.

Source: https://github.com/ameli/freealg; it is not needed, and said to be missing where it is.
"""

import importlib

import numpy as np


def available():
    """Return whether freealg can be imported."""
    try:
        importlib.import_module("freealg")
    except ImportError:
        return False
    return True


def density(eigenvalues, points):
    """Return the density that freealg fits to eigenvalues, with its own defaults, at points."""
    if not hasattr(np, "trapz"):
        # Version 0.12.2 calls it; numpy 2.4 has it under its other name alone.
        setattr(np, "trapz", np.trapezoid)  # noqa: B010
    freealg = importlib.import_module("freealg")
    form = freealg.FreeForm(eigenvalues)
    form.fit()
    return form.density(points)
