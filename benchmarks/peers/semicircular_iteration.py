"""The averaged iteration for matrix-valued semicircular elements, point by point at a fixed height above the axis.

By their descriptions free-matrix-laws (Python) and, for semicircular variables, NCDist.jl (Julia) do it like this.
Neither is needed here. The linearization is made by hand, and ``G -> (G + (b - sum_j b_j G b_j)^-1)/2`` is repeated
until it settles. Source: Helton, Rashidi Far and Speicher (2007).
"""

import numpy as np

EPSILON = 1e-6
TOLERANCE = 1e-10

# x y + y x is the Schur complement of this pencil onto its first row.
B0 = np.array([[0, 0, 0], [0, 0, -1], [0, -1, 0]], dtype=complex)
B1 = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=complex)
B2 = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=complex)


def anticommutator(points, iterations=200_000):
    """Return the density of ``x y + y x`` for unit semicirculars at each point, and how many iterations it took."""
    values, counts = [], []
    for x in np.atleast_1d(points):
        b = np.diag([x + 1j * EPSILON, 1j * EPSILON, 1j * EPSILON]) - B0
        g = -1j * np.eye(3)
        count = 0
        while count < iterations:
            count += 1
            new = (g + np.linalg.inv(b - B1 @ g @ B1 - B2 @ g @ B2)) / 2
            done = np.abs(new - g).max() <= TOLERANCE
            g = new
            if done:
                break
        values.append(-g[0, 0].imag / np.pi)
        counts.append(count)
    return np.array(values), np.array(counts)
