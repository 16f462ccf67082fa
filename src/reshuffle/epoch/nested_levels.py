"""Eigenvalues of a graded form, level by level: each is known beside the largest of its own level.

The eigenvalues of S K S, with S = diag(s) and K well conditioned, are as far apart as the squares of s, and those
that are found at once are known up to eps times the largest. The eigenvectors of all that is small span their space
just as well, though. In that space the form is small itself, so that it is made anew, of S q, and decomposed anew.
"""

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray

LEVEL = 1e-6
"""Eigenvalues above this ratio to the largest of their level have at least nine digits."""


def refined(
    values: FloatArray, vectors: FloatArray, sizes: FloatArray, kernel: FloatArray, level: float = LEVEL
) -> tuple[FloatArray, FloatArray]:
    """The eigenvalues (r,), ascending, and eigenvectors (r, r) of diag(s) K diag(s), from those that LAPACK finds.

    Parameters
    ----------
    values, vectors : (r,) and (r, r)
        Of the whole form, ascending; those of small eigenvalues are taken for a basis of their space alone.
    sizes : (r,)
        s, positive.
    kernel : (r, r)
        K, positive definite.
    level : float
        Down to which ratio to the largest of their level eigenvalues are good enough.

    >>> sizes, kernel = np.array([1.0, 1e-9]), np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> found, _ = refined(*np.linalg.eigh(sizes[:, np.newaxis] * kernel * sizes), sizes, kernel)
    >>> print(found / [0.75e-18, 1.0])
    [1. 1.]
    """
    count = len(values)
    while count > 1 and values[0] < level * values[count - 1]:
        count = int(np.searchsorted(values[:count], level * values[count - 1]))
        images = sizes[:, np.newaxis] * vectors[:, :count]
        form = images.T @ (kernel @ images)
        # LAPACK squares what it is given.
        unit = float(np.abs(form).max())
        found, turn = scipy.linalg.eigh((form + form.T) / (2 * unit), driver="evd", check_finite=False)
        values, vectors = values.copy(), vectors.copy()
        values[:count], vectors[:, :count] = unit * found, vectors[:, :count] @ turn
    return values, vectors
