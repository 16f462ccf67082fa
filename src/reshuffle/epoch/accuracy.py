"""How an epoch is to be averaged: by which method, how accurately, at what expense."""

import sys
import warnings
from dataclasses import dataclass
from typing import Any

from reshuffle import validate
from reshuffle.errors import AccuracyWarning

CALL = 2e5
"""Operations that could have been done in the time that a call with small matrices takes anyway."""
METHODS = ("auto", "exact", "series", "sampling")


@dataclass(frozen=True)
class Accuracy:
    """What the user asks of the mean over orders.

    Attributes
    ----------
    method : str
        "exact", "series", "sampling", or "auto" to choose between them.
    rtol : float
        The largest relative error that the rate of a mode may have (`Epoch.error`).
    budget : float
        Floating-point operations that may be spent on the mean of an epoch.
    seed : int
        Of the sampled orders.
    """

    method: str = "auto"
    rtol: float = 1e-4
    budget: float = 1e12
    seed: int = 0


def accuracy(method: Any, rtol: Any, budget: Any, seed: Any) -> Accuracy:
    """Check what the user asks for.

    >>> accuracy("guess", 1e-4, 1e12, 0)
    Traceback (most recent call last):
    ...
    ValueError: method must be "auto", "exact", "series" or "sampling", but it is 'guess'.
    """
    return Accuracy(
        method=validate.choice("method", method, METHODS),
        rtol=validate.positive("rtol", rtol),
        budget=validate.positive("budget", budget),
        seed=validate.whole_number("seed", seed, 0),
    )


def warn_out_of_reach(error: float, method: str, rtol: float, advice: str) -> None:
    """Say that rtol was not reached, at the line outside this package from which the question came."""
    # Cached properties put frames of other modules in between, so the outermost frame of ours is looked for.
    frame, depth, outermost = sys._getframe().f_back, 1, 1
    while frame is not None:
        depth += 1
        if frame.f_globals.get("__name__", "").startswith("reshuffle."):
            outermost = depth
        frame = frame.f_back
    warnings.warn(
        f"the mean over orders is known to a relative error of {error:.1g} by {method}, "
        f"but rtol is {rtol:.1g}; answers carry their error. To reach it, {advice}.",
        AccuracyWarning,
        stacklevel=outermost + 1,
    )
