"""The mean over all orders of shuffled samples in one column, as a polynomial in exact arithmetic.

In one column a visit to a batch multiplies by 1 - step times the mean of a = x^2 over it, and numbers commute: the
mean over all permutations, cut into B batches, is f(step) = sum_i (-step)^i binom(B, i) e_i(a) / binom(n, i).
"""

from fractions import Fraction
from itertools import permutations
from math import comb, prod

from flint import fmpq, fmpq_poly


def mean_polynomial(squares, batches):
    """The coefficients of f, fractions, lowest first."""
    symmetric = [Fraction(1)] + [Fraction(0)] * batches
    for a in map(Fraction, squares):
        for degree in range(batches, 0, -1):
            symmetric[degree] += a * symmetric[degree - 1]
    n = len(squares)
    return [(-1) ** i * comb(batches, i) * symmetric[i] / comb(n, i) for i in range(batches + 1)]


def enumerated(squares, sizes, step):
    """f at a step, by enumeration of all permutations."""
    values = []
    for order in permutations(map(Fraction, squares)):
        rest, factors = list(order), []
        for size in sizes:
            batch, rest = rest[:size], rest[size:]
            factors.append(1 - step * sum(batch) / size)
        values.append(prod(factors))
    return sum(values) / len(values)


def first_crossing(squares, batches):
    """The first positive step at which |f| is one."""
    coefficients = mean_polynomial(squares, batches)
    found = []
    for level in (1, -1):
        shifted = [coefficients[0] - level, *coefficients[1:]]
        # f(0) = 1 is where every run begins: that root is left out.
        kept = shifted[1:] if level == 1 else shifted
        polynomial = fmpq_poly([fmpq(c.numerator, c.denominator) for c in kept])
        roots = [root for root, _ in polynomial.numer().complex_roots()]
        found += [float(root.real) for root in roots if root.imag == 0 and root.real > 0]
    return min(found)
