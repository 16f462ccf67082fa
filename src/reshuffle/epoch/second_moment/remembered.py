"""A linear map of matrices that is expensive, on arguments that change little from one call to the next."""

from collections.abc import Callable

import numpy as np

from reshuffle._arrays import FloatArray

_TOLERANCE = 1e-6
"""Of an argument relative to its size: what is less is not looked at. Answers from draws are known to a percent."""
_MOST_BYTES = 2e9


class Remembered:
    """The images of all arguments so far, of which the next one is nearly a linear combination.

    The moments of a run change smoothly from epoch to epoch: after a dozen epochs or two nothing new is to be seen.

    Parameters
    ----------
    image : callable
        Linear, (d, c) -> (groups, d, d): what each group of draws makes of an argument.
    units : (d, c)
        What arguments are multiplied by before their sizes are compared.

    >>> calls = []
    >>> double = Remembered(lambda matrix: calls.append(1) or 2 * matrix[np.newaxis], np.ones((2, 2)))
    >>> double.mean(np.eye(2))
    array([[2., 0.],
           [0., 2.]])
    >>> double.mean(3 * np.eye(2))[0, 0], double.shares(np.eye(2)).round(4), len(calls)
    (np.float64(6.0), array([1.4142]), 1)
    """

    def __init__(self, image: Callable[[FloatArray], FloatArray], units: FloatArray):
        self._image = image
        self._units = np.maximum(units, _TOLERANCE * units.max(initial=0.0))
        self._directions = np.zeros((0, self._units.size))
        self._images: list[FloatArray] = []
        self._means = np.zeros((0, 0, 0))

    def shares(self, matrix: FloatArray) -> FloatArray:
        """What the argument has of each of the directions so far (j,), after its own is among them."""
        flat = (self._units * matrix).ravel()
        shares = self._directions @ flat
        rest = flat - shares @ self._directions
        # Once more, since the first projection leaves its rounding along what it took away.
        again = self._directions @ rest
        rest, shares = rest - again @ self._directions, shares + again
        new = float(np.linalg.norm(rest))
        if np.isfinite(new) and new > _TOLERANCE * float(np.linalg.norm(flat)) and not self._is_full:
            self._add(rest / new)
            shares = np.append(shares, new)
        return np.asarray(shares)

    def mean(self, matrix: FloatArray) -> FloatArray:
        """The mean (d, d) of the images of all groups."""
        return self.combined(self.shares(matrix))

    def combined(self, shares: FloatArray) -> FloatArray:
        """The same of a combination of the directions."""
        # An image is square even where its argument is not, and an argument of zeros has no direction.
        d = len(self._units)
        return np.asarray(np.tensordot(shares, self._means, 1)) if len(shares) else np.zeros((d, d))

    @property
    def directions(self) -> FloatArray:
        """The arguments (j, d, c) that were looked at."""
        return np.asarray(self._directions.reshape(-1, *self._units.shape) / self._units)

    @property
    def images(self) -> FloatArray:
        """Their images (j, groups, d, d)."""
        return np.array(self._images)

    def _add(self, direction: FloatArray) -> None:
        image = self._image(direction.reshape(self._units.shape) / self._units)
        self._directions = np.vstack([self._directions, direction])
        self._images.append(image)
        mean = image.mean(axis=0)[np.newaxis]
        self._means = np.concatenate([self._means, mean]) if len(self._means) else mean

    @property
    def _is_full(self) -> bool:
        return sum(one.nbytes for one in self._images) > _MOST_BYTES
