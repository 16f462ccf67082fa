"""Mini-batch descent in 80 digits, order by order: the truth for features of any condition number."""

from itertools import chain, permutations

import flint

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
        with flint.ctx.workdps(DIGITS):
            visits = [self._visit(X, y, rows, step, penalty, momentum) for rows in batches]
            orders = list(permutations(range(len(batches)))) if orders is None else orders
            self.A, self.g = flint.arb_mat(2 * self.p, 2 * self.p), flint.arb_mat(2 * self.p, 1)
            for order in orders:
                A, g = identity(2 * self.p), flint.arb_mat(2 * self.p, 1)
                for batch in order:
                    A, g = visits[batch][0] * A, visits[batch][0] * g + visits[batch][1]
                self.A, self.g = self.A + A / len(orders), self.g + g / len(orders)

    def _visit(self, X, y, rows, step, penalty, momentum):
        p, step, penalty, momentum = self.p, number(step), number(penalty), number(momentum)
        features = matrix(X[row] for row in rows)
        responses = matrix([y[row]] for row in rows)
        penalties = [0 if column in self.unpenalized else penalty for column in range(p)]
        gram = features.transpose() * features / len(rows) + diagonal(penalties)
        input_map = features.transpose() * responses / len(rows)
        # With Nesterov's momentum the parameters move by the gradient and the buffer that is new.
        ahead, of_buffer = (1 + momentum, momentum * momentum) if self.nesterov else (1, momentum)
        A = stacked(
            [identity(p) - gram * (step * ahead), identity(p) * (-step * of_buffer)],
            [gram, identity(p) * momentum],
        )
        return A, stacked([input_map * (step * ahead)], [-input_map])

    def iterate(self, epochs):
        """The mean iterate from zero after so many epochs, by squaring."""
        with flint.ctx.workdps(DIGITS):
            A, g, made = self.A, self.g, flint.arb_mat(2 * self.p, 1)
            while epochs:
                if epochs & 1:
                    made = A * made + g
                A, g, epochs = A * A, A * g + g, epochs >> 1
            return rounded(made, self.p)

    def limit(self):
        """Where the mean iterate ends, if the rows span everything."""
        with flint.ctx.workdps(DIGITS):
            return rounded((identity(2 * self.p) - self.A).solve(self.g), self.p)

    @staticmethod
    def stationary_square(X, batches, step, momentum):
        """E |beta - beta_star|^2 in the long run, over orders and noise of variance one: all moments solved for."""
        p, n = len(X[0]), len(X)
        with flint.ctx.workdps(DIGITS):
            visits = [Extended._noisy_visit(X, rows, number(step), number(momentum)) for rows in batches]
            maps = []
            for order in permutations(range(len(batches))):
                A, N = identity(2 * p), flint.arb_mat(2 * p, n)
                for batch in order:
                    A, N = visits[batch][0] * A, visits[batch][0] * N + visits[batch][1]
                maps.append((A, N) if momentum else (corner(A, p, p), corner(N, p, n)))
            d = maps[0][0].nrows()
            mean_A = sum((A for A, _ in maps), flint.arb_mat(d, d)) / len(maps)
            mean_N = sum((N for _, N in maps), flint.arb_mat(d, n)) / len(maps)
            C = (identity(d) - mean_A).solve(mean_N)
            R, T = flint.arb_mat(d, d), flint.arb_mat(d * d, d * d)
            for A, N in maps:
                crossed = A * C * N.transpose()
                R += (crossed + crossed.transpose() + N * N.transpose()) / len(maps)
                entries = A.tolist()
                squared = [[i * j for i in one for j in other] for one in entries for other in entries]
                T += flint.arb_mat(squared) / len(maps)
            flat = flint.arb_mat([[entry] for row in R.tolist() for entry in row])
            M = (identity(d * d) - T).solve(flat)
            return sum(rounded(M, d * d)[i * d + i] for i in range(p))

    @staticmethod
    def _noisy_visit(X, rows, step, momentum):
        p = len(X[0])
        features = matrix(X[row] for row in rows)
        gram = features.transpose() * features / len(rows)
        G = stacked(
            [identity(p) - gram * step, identity(p) * (-step * momentum)], [gram, identity(p) * momentum]
        )
        chosen = flint.arb_mat([[int(row == column) for column in range(len(X))] for row in rows])
        entering = features.transpose() * chosen / len(rows)
        return G, stacked([entering * step], [-entering])


def number(value):
    """A float as it is, digit by digit."""
    return value if isinstance(value, flint.arb) else flint.arb(float(value))


def matrix(rows):
    return flint.arb_mat([[number(value) for value in row] for row in rows])


def identity(size):
    return diagonal([1] * size)


def diagonal(values):
    return flint.arb_mat(
        [[value if i == j else 0 for j in range(len(values))] for i, value in enumerate(values)]
    )


def stacked(*rows_of_blocks):
    """One matrix from blocks, as numpy.block."""
    made = []
    for blocks in rows_of_blocks:
        made += [[*chain(*parts)] for parts in zip(*(block.tolist() for block in blocks), strict=True)]
    return flint.arb_mat(made)


def corner(whole, rows, columns):
    return flint.arb_mat([row[:columns] for row in whole.tolist()[:rows]])


def rounded(column, count):
    """The first entries of a column as floats, each known to far more digits than a float has."""
    entries = [row[0] for row in column.tolist()[:count]]
    assert all(entry.rad() <= 1e-25 * abs(entry.mid()) or entry.is_zero() for entry in entries)
    return [float(entry) for entry in entries]
