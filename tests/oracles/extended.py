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
    step, penalty, momentum, nesterov, unpenalized
    orders : list of tuples, optional
        Equally likely; by default all permutations of the batches.
    """

    def __init__(
        self, X, y, batches, step, penalty=0.0, momentum=0.0, orders=None, nesterov=False, unpenalized=()
    ):
        self.p, self.nesterov, self.unpenalized = len(X[0]), nesterov, unpenalized
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
        penalties = [0 if column in self.unpenalized else penalty for column in range(p)]
        gram = features.T * features / len(rows) + mpmath.diag(penalties)
        pull = features.T * responses / len(rows)
        A, g = mpmath.zeros(2 * p), mpmath.zeros(2 * p, 1)
        A[:p, :p], A[:p, p:] = mpmath.eye(p) - step * gram, -step * momentum * mpmath.eye(p)
        A[p:, :p], A[p:, p:] = gram, momentum * mpmath.eye(p)
        g[:p, 0], g[p:, 0] = step * pull, -pull
        if self.nesterov:
            # The parameters move by the gradient and the buffer that is new.
            A[:p, :p] = mpmath.eye(p) - step * (1 + momentum) * gram
            A[:p, p:] = -step * momentum * momentum * mpmath.eye(p)
            g[:p, 0] = step * (1 + momentum) * pull
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

    @staticmethod
    def stationary_square(X, batches, step, momentum):
        """E |beta - beta_star|^2 in the long run, over orders and noise of variance one: all moments solved for."""
        p, n, d = len(X[0]), len(X), 2 * len(X[0])
        with mpmath.workdps(DIGITS):
            visits = []
            for rows in batches:
                features = mpmath.matrix([[mpmath.mpf(float(value)) for value in X[row]] for row in rows])
                G, H = mpmath.zeros(d), mpmath.zeros(d, n)
                gram = features.T * features / len(rows)
                G[:p, :p], G[:p, p:] = (
                    mpmath.eye(p) - step * gram,
                    -mpmath.mpf(step) * momentum * mpmath.eye(p),
                )
                G[p:, :p], G[p:, p:] = gram, mpmath.mpf(momentum) * mpmath.eye(p)
                for place, row in enumerate(rows):
                    H[:p, row] = mpmath.mpf(step) * features[place, :].T / len(rows)
                    H[p:, row] = -features[place, :].T / len(rows)
                visits.append((G, H))
            maps = []
            for order in permutations(range(len(batches))):
                A, N = mpmath.eye(d), mpmath.zeros(d, n)
                for batch in order:
                    A, N = visits[batch][0] * A, visits[batch][0] * N + visits[batch][1]
                maps.append((A, N))
            if not momentum:
                maps = [(A[:p, :p], N[:p, :]) for A, N in maps]
                d = p
            mean_A = sum((A for A, _ in maps), mpmath.zeros(d)) / len(maps)
            mean_N = sum((N for _, N in maps), mpmath.zeros(d, n)) / len(maps)
            C = mpmath.inverse(mpmath.eye(d) - mean_A) * mean_N
            R, T = mpmath.zeros(d), mpmath.zeros(d * d)
            for A, N in maps:
                R += (A * C * N.T + N * C.T * A.T + N * N.T) / len(maps)
                for row in range(d * d):
                    for column in range(d * d):
                        i, j, k, m = row // d, row % d, column // d, column % d
                        T[row, column] += A[i, k] * A[j, m] / len(maps)
            flat = mpmath.matrix([R[i, j] for i in range(d) for j in range(d)])
            M = mpmath.lu_solve(mpmath.eye(d * d) - T, flat)
            return float(sum(M[i * d + i] for i in range(p)))
