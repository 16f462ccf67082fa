"""Operator-valued subordination as usually programmed.

Undamped, point by point, a fixed epsilon, closed transforms.

Source: Belinschi, Mai and Speicher (2017), with the Cauchy transform of ``b_j (x) w`` through eigenvalues.
"""

import numpy as np

EPSILON = 1e-6
TOLERANCE = 1e-12

HALF = 1 / np.sqrt(2)
# p = w1 + w2 - (w1 w2 + w2 w1)/2 is the Schur complement of b0 + b1 w1 + b2 w2 onto its first row.
B0 = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0]], dtype=complex)
B1 = np.array([[1, HALF, 0], [HALF, 0, 0], [0, 0, 0]], dtype=complex)
B2 = np.array([[1, 0, HALF], [0, 0, 0], [HALF, 0, 0]], dtype=complex)


def cauchy(z, ratio, variance):
    """Return the Cauchy transform of Marchenko-Pastur in both half-planes."""
    low, high = variance * (1 - np.sqrt(ratio)) ** 2, variance * (1 + np.sqrt(ratio)) ** 2
    root = np.sqrt(z - low) * np.sqrt(z - high)
    return (z - variance * (1 - ratio) - root) / (2 * ratio * variance * z)


def operator_cauchy(b, coefficient, ratio, variance):
    """Return ``E[(b - coefficient w)^-1]`` on the range of the coefficient, then lifted back."""
    values, vectors = np.linalg.eigh(coefficient)
    kept = np.abs(values) > 1e-12
    frame, core = vectors[:, kept], np.diag(values[kept])
    inverse = np.linalg.inv(b)
    small = np.linalg.inv(frame.conj().T @ inverse @ frame)
    points, basis = np.linalg.eig(np.linalg.inv(core) @ small)
    reduced = (basis * cauchy(points, ratio, variance)) @ np.linalg.inv(basis) @ np.linalg.inv(core)
    term = frame @ (np.linalg.inv(reduced) - small) @ frame.conj().T
    return np.linalg.inv(b + term)


def density(points, ratio, variance, iterations=100_000):
    """Return the density at each point and the number of iterations it took."""
    values, counts = [], []
    for x in np.atleast_1d(points):
        b = np.diag([x + 1j * EPSILON, 1j * EPSILON, 1j * EPSILON]) - B0
        omega = b + 1j * np.eye(3)
        count = 0
        while count < iterations:
            count += 1
            first = np.linalg.inv(operator_cauchy(omega, B1, ratio, variance)) - omega + b
            new = np.linalg.inv(operator_cauchy(first, B2, ratio, variance)) - first + b
            done = np.abs(new - omega).max() <= TOLERANCE * (1 + np.abs(new).max())
            omega = new
            if done:
                break
        values.append(-operator_cauchy(omega, B1, ratio, variance)[0, 0].imag / np.pi)
        counts.append(count)
    return np.array(values), np.array(counts)
