"""Operator-valued subordination for one pencil, by someone who cares for speed.

A pencil of 4 x 4 for products of two variables, closed transforms, each point started from its neighbour, and a
tolerance that is content with what a picture shows.

Source: Belinschi, Mai and Speicher (2017); the linearization of Anderson (2013).
"""

import numpy as np

EPSILON = 1e-6
TOLERANCE = 1e-7

# p = w1 + w2 - (w1 w2 + w2 w1)/2 = a - u Q^-1 u* with the two products apart: rows 2 and 3 for (w1, w2).
HALF = 1 / np.sqrt(2)
B0 = np.zeros((4, 4), dtype=complex)
B0[1, 2] = B0[2, 1] = 1.0
B0[3, 3] = 1.0
B1 = np.zeros((4, 4), dtype=complex)
B1[0, 0], B1[0, 1], B1[1, 0] = 1.0, HALF, HALF
B2 = np.zeros((4, 4), dtype=complex)
B2[0, 0], B2[0, 2], B2[2, 0] = 1.0, HALF, HALF
