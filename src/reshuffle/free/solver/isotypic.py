"""Split a space on which a finite group acts into copies of what the group cannot split further."""

from collections.abc import Callable

import numpy as np

from reshuffle.free.checks import Real

APART = 1e-7
ALIKE = 1e-5


def isotypic(average: Callable[[Real], Real], size: int, seed: int = 0) -> list[Real] | None:
    """Return an orthonormal basis in which all that the group leaves alone is block-diagonal, by type.

    The eigenspaces of a random invariant symmetric matrix are irreducible; a second one tells which of them are
    copies of the same type, and turns their bases into each other (Schur's lemma).

    Parameters
    ----------
    average : (size, size) -> (size, size)
        The mean of ``S' X S`` over an orthogonal group.

    Returns
    -------
    list of (dimension, size, copies), one per type
        An invariant X is ``sum_a U_a X_0 U_a'`` over the types with ``X_0 = U_0' X U_0``. None if rounding
        blurs it.

    >>> flip = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> [u.shape for u in isotypic(lambda x: (x + flip @ x @ flip) / 2, 2)]
    [(1, 2, 1), (1, 2, 1)]
    """
    generator = np.random.default_rng(seed)
    first, second = (average(x + x.T) for x in generator.standard_normal((2, size, size)))
    values, vectors = np.linalg.eigh((first + first.T) / 2)
    cuts = np.flatnonzero(np.diff(values) > APART * max(float(np.abs(values).max()), 1e-300)) + 1
    spaces = np.split(vectors, cuts, axis=1)
    types: list[list[Real]] = []
    for space in spaces:
        for copies in types:
            link = copies[0].T @ second @ space
            if link.shape[0] != link.shape[1] or np.abs(link).max() < ALIKE:
                continue
            left, sizes, right = np.linalg.svd(link)
            if sizes[0] - sizes[-1] > ALIKE * sizes[0]:
                return None
            copies.append(space @ (left @ right).T)
            break
        else:
            types.append([space])
    # Axes: which of the vectors of a copy, rows, which copy.
    return [np.array(copies).transpose(2, 1, 0) for copies in types]
