"""Mini-batch descent in 80 digits, order by order: the truth for features of any condition number."""

from itertools import permutations

import mpmath

DIGITS = 80


class Extended:
    """The mean over orders of an epoch, z -> A z + g, of (beta, momentum buffer) in `DIGITS` digits.

    Parameters
    ----------
    X, y : arrays
    batches : list of lists of int
    step, penalty, momentum : float
    orders : list of tuples, optional
        Equally likely; by default all permutations of the batches.
    """

    def __init__(self, X, y, batches, step, penalty=0.0, momentum=0.0, orders=None):
        self.p = len(X[0])
        with mpmath.workdps(DIGITS):
            visits = [self._visit(X, y, rows, step, penalty, momentum) for rows in batches]
            orders = list(permutations(range(len(batches)))) if orders is None else orders
            self.A, self.g = mpmath.zeros(2 * self.p), mpmath.zeros(2 * self.p, 1)
            for order in orders:
                A, g = mpmath.eye(2 * self.p), mpmath.zeros(2 * self.p, 1)
                for batch in order:
                    A, g = visits[batch][0] * A, visits[batch][0] * g + visits[batch][1]
                self.A += A / len(orders)
                self.g += g / len(orders)

    def _visit(self, X, y, rows, step, penalty, momentum):
        p, step, penalty, momentum = self.p, mpmath.mpf(step), mpmath.mpf(penalty), mpmath.mpf(momentum)
        features = mpmath.matrix([[mpmath.mpf(float(value)) for value in X[row]] for row in rows])
        responses = mpmath.matrix([mpmath.mpf(float(y[row])) for row in rows])
        gram = features.T * features / len(rows) + penalty * mpmath.eye(p)
        pull = features.T * responses / len(rows)
        A, g = mpmath.zeros(2 * p), mpmath.zeros(2 * p, 1)
        A[:p, :p], A[:p, p:] = mpmath.eye(p) - step * gram, -step * momentum * mpmath.eye(p)
        A[p:, :p], A[p:, p:] = gram, momentum * mpmath.eye(p)
        g[:p, 0], g[p:, 0] = step * pull, -pull
        return A, g

    def iterate(self, epochs):
        """The mean iterate from zero after so many epochs, by squaring."""
        with mpmath.workdps(DIGITS):
            A, g, made = self.A, self.g, mpmath.zeros(2 * self.p, 1)
            while epochs:
                if epochs & 1:
                    made = A * made + g
                A, g, epochs = A * A, A * g + g, epochs >> 1
            return [float(value) for value in made[: self.p, 0]]

    def limit(self):
        """Where the mean iterate ends, if the rows span everything."""
        with mpmath.workdps(DIGITS):
            end = mpmath.lu_solve(mpmath.eye(2 * self.p) - self.A, self.g)
            return [float(value) for value in end[: self.p, 0]]
