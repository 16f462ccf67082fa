"""The two-batch spectrum as the paper's Appendix C computes it: 4 x 4 pencil, quadrature, fixed epsilon.

Source: Lok, Sonthalia and Rebrova, "Free probability computations"; Belinschi, Mai and Speicher (2017).
"""

import numpy as np
from scipy.integrate import quad

EPSILON = 1e-6
REACH = 100.0
TOLERANCE = 1e-6

B0 = np.array([[0, 1, 0, 0], [1, -1, -1, -1], [0, -1, -1, 1], [0, -1, 1, -1]], dtype=complex)
B1 = np.array([[0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=complex)
B2 = np.array([[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]], dtype=complex)


def stieltjes(z, ratio, variance):
    """Return the Stieltjes transform of Marchenko-Pastur, the square root with positive imaginary part."""
    root = np.sqrt((z - variance * (ratio + 1)) ** 2 - 4 * ratio * variance**2 + 0j)
    root = np.where(np.imag(root) < 0, -root, root)
    return (variance * (1 - ratio) - z + root) / (2 * variance * ratio * z)


def operator_cauchy(b, coefficient, ratio, variance):
    """Return the operator-valued Cauchy transform, each entry integrated against the smoothed density."""
    upper = variance * (1 + np.sqrt(ratio)) ** 2
    result = np.empty(b.shape, dtype=complex)
    for entry in np.ndindex(*b.shape):

        def integrand(t, entry=entry):
            density = float(np.imag(stieltjes(t + 1j * EPSILON, ratio, variance))) / np.pi
            return np.linalg.inv(b - t * coefficient)[entry] * density

        # The breakpoints keep the quadrature over [-REACH, REACH] from missing the support altogether.
        result[entry], _ = quad(
            integrand,
            -REACH,
            REACH,
            points=[0.0, upper],
            limit=200,
            epsabs=1e-6,
            epsrel=1e-6,
            complex_func=True,
        )
    return result


def h_transform(a, coefficient, ratio, variance):
    """Return ``G(a)^-1 - a``."""
    return np.linalg.inv(operator_cauchy(a, coefficient, ratio, variance)) - a


def density(points, ratio, variance, iterations=2000):
    """Return the density at each point by the plain fixed-point iteration, one point at a time."""
    values = []
    for x in np.atleast_1d(points):
        b = np.diag([x + 1j * EPSILON, 1j * EPSILON, 1j * EPSILON, 1j * EPSILON]) - B0
        omega = b + 1j * np.eye(4)
        for _ in range(iterations):
            new = h_transform(h_transform(omega, B1, ratio, variance) + b, B2, ratio, variance) + b
            done = np.abs(new - omega).max() <= TOLERANCE
            omega = new
            if done:
                break
        values.append(-operator_cauchy(omega, B1, ratio, variance)[0, 0].imag / np.pi)
    return np.array(values)
