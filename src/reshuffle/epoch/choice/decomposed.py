"""Whether a problem is decomposed at all, or followed along drawn orders."""

import numpy as np

from reshuffle.epoch.accuracy import Accuracy
from reshuffle.epoch.choice.ways import Choice, Way, too_much

_OPERATIONS = 10.0
"""Of a symmetric eigendecomposition, over the cube of its rows."""


def decomposition_choice(rows: int, accuracy: Accuracy) -> Choice:
    """How a problem of so many rows, given by their kernel, is answered for: "decomposed" or "followed".

    Followed along drawn orders where its eigenvectors alone take more operations than the budget has, unless a way
    of averaging that goes by them is asked for.

    >>> decomposition_choice(1000, Accuracy()).taken, decomposition_choice(10_000, Accuracy()).taken
    ('decomposed', 'followed')
    """
    price = _OPERATIONS * float(rows) ** 3
    against = too_much(price, accuracy.budget) if accuracy.method in ("auto", "sampling") else ""
    return Choice("a linear network", (Way("decomposed", price, against), Way("followed", np.nan)))
