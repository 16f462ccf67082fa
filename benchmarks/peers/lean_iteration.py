"""Operator-valued subordination by someone who cares for speed.

The smallest pencil with its frames made once, no inverse that cancels another, every point started from its
neighbour, and a tolerance that is content with what a picture shows. Still one point after the other.

Source: Belinschi, Mai and Speicher (2017).
"""

import numpy as np

from benchmarks.peers.plain_iteration import B0, B1, B2, cauchy

EPSILON = 1e-6
TOLERANCE = 1e-7


def _frame(coefficient):
    values, vectors = np.linalg.eigh(coefficient)
    kept = np.abs(values) > 1e-12
    return vectors[:, kept], 1 / values[kept]


FRAMES = (_frame(B1), _frame(B2))


def term(omega, frame, inverse_core, ratio, variance):
    """Return ``E[(omega - b w)^-1]^-1 - omega`` for one coefficient."""
    small = np.linalg.inv(frame.conj().T @ np.linalg.inv(omega) @ frame)
    points, basis = np.linalg.eig(inverse_core[:, None] * small)
    # The inverse of G(T) C^-1 is C G(T)^-1, and G(T)^-1 has the eigenvectors of T.
    inverted = (basis / cauchy(points, ratio, variance)) @ np.linalg.inv(basis) / inverse_core[:, None]
    return frame @ (inverted - small) @ frame.conj().T


def density(points, ratio, variance, iterations=100_000):
    """Return the density of w1 + w2 - (w1 w2 + w2 w1)/2 at each point and the number of iterations it took."""
    values, counts = [], []
    omega = None
    for x in np.atleast_1d(points):
        b = np.diag([x + 1j * EPSILON, 1j * EPSILON, 1j * EPSILON]) - B0
        omega = b + 1j * np.eye(3) if omega is None else omega
        count = 0
        while count < iterations:
            count += 1
            first = b + term(omega, *FRAMES[0], ratio, variance)
            new = b + term(first, *FRAMES[1], ratio, variance)
            done = np.abs(new - omega).max() <= TOLERANCE * (1 + np.abs(new).max())
            omega = new
            if done:
                break
        resolvent = np.linalg.inv(omega + term(omega, *FRAMES[0], ratio, variance))
        values.append(-resolvent[0, 0].imag / np.pi)
        counts.append(count)
    return np.array(values), np.array(counts)
