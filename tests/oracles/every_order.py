"""Whole runs by enumeration: every sequence of orders over several epochs, in plain p coordinates.

A run is carried as the matrix R (p, 1 + n) with beta = R (1, y), so that its dependence on the responses is known.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise, permutations, product

import numpy as np
import pytest

import reshuffle as rs
from tests.problems import close


@dataclass(frozen=True)
class Training:
    """What is trained: data, the step of each epoch, weight decay, momentum, the start.

    A step is that of all visits of an epoch, or a list with one for each of them.
    """

    X: np.ndarray
    y: np.ndarray
    steps: list
    start: np.ndarray
    penalty: float = 0.0
    momentum: float = 0.0
    nesterov: bool = False
    unpenalized: tuple = ()


def begin(training):
    """R and the momentum buffer before the first visit, (1, p, 1 + n) each: a stack of one."""
    n, p = training.X.shape
    beta = np.hstack([training.start[:, np.newaxis], np.zeros((p, n))])[np.newaxis]
    return beta, np.zeros_like(beta)


def advance(training, step, visits, beta, buffer, responses=None):
    """A stack of runs (runs, p, 1 + n), and their buffers, after each of the visits, a list of (rows, divisor)."""
    n, p = training.X.shape
    responses = np.hstack([np.zeros((n, 1)), np.eye(n)]) if responses is None else responses
    penalties = np.full((p, 1), training.penalty)
    penalties[list(training.unpenalized)] = 0.0
    for (rows, divisor), now in zip(visits, np.broadcast_to(step, len(visits)), strict=True):
        x = training.X[rows]
        gradient = x.T @ (x @ beta - responses[rows]) / divisor + penalties * beta
        buffer = training.momentum * buffer + gradient
        beta = beta - now * (gradient + training.momentum * buffer if training.nesterov else buffer)
        yield beta, buffer


def histories(training, epochs, averaged=False):
    """R of every run after each visit, (runs, 1 + visits, p, 1 + n); `epochs` has equally likely visits for each.

    Where runs are `averaged` after every epoch, there is one.
    """
    beta, buffer = begin(training)
    found = beta[:, np.newaxis]
    for step, choices in zip(training.steps, epochs, strict=True):
        followed = []
        for visits in choices:
            through = list(advance(training, step, visits, beta, buffer))
            seen = np.concatenate([found, *(each[:, np.newaxis] for each, _ in through)], axis=1)
            followed.append((*through[-1], seen))
        beta, buffer, found = (np.concatenate(part) for part in zip(*followed, strict=True))
        if averaged:
            beta, buffer, found = (part.mean(axis=0, keepdims=True) for part in (beta, buffer, found))
    return found


def all_runs(training, epochs, fresh=True):
    """R of every run (runs, p, 1 + n), all equally likely: epochs chosen afresh, or one kept throughout."""
    count = len(training.steps)
    chosen = [[epochs] * count] if fresh else [[[epoch]] * count for epoch in epochs]
    return np.concatenate([histories(training, each)[:, -1] for each in chosen])


def _risks_over_noise(runs, training, beta_star, covariance, noise):
    errors = runs @ np.concatenate([[1.0], training.X @ beta_star]) - beta_star
    of_noise = np.einsum("kin,ij,kjn->k", runs[..., 1:], covariance, runs[..., 1:], optimize=True)
    return np.einsum("ki,ij,kj->k", errors, covariance, errors, optimize=True) + noise**2 * of_noise


def expected_risk(training, runs, beta_star, covariance, noise):
    """Over orders and noise; and that of the mean iterate."""
    settings = (training, beta_star, covariance, noise)
    mean = _risks_over_noise(np.mean(runs, axis=0)[np.newaxis], *settings)
    return np.mean(_risks_over_noise(runs, *settings)), mean[0]


def expected_risk_given(training, runs, beta_star, covariance):
    """Over orders alone; and that of the mean iterate."""
    errors = runs @ np.concatenate([[1.0], training.y]) - beta_star
    mean = np.mean(errors, axis=0)
    each = np.einsum("ki,ij,kj->k", errors, covariance, errors, optimize=True)
    return np.mean(each), mean @ covariance @ mean


# Equally likely epochs, each a list of visits (rows, divisor).


def cut(n, batches):
    """Batches in the order of the rows."""
    return [part.tolist() for part in np.array_split(np.arange(n), batches)]


def in_order(parts, divisors=None):
    return [(list(rows), len(rows) if divisors is None else divisors[b]) for b, rows in enumerate(parts)]


def epochs_reshuffled(parts, divisors=None):
    return [list(order) for order in permutations(in_order(parts, divisors))]


def epochs_with_replacement(parts, divisors=None):
    return [list(order) for order in product(in_order(parts, divisors), repeat=len(parts))]


def epochs_of_shuffled_samples(n, sizes, divisors=None, rows=1):
    """All ways to cut samples of some rows into batches of these sizes, once each."""
    samples = np.arange(n).reshape(-1, rows)

    def cuts(left, sizes):
        if not sizes:
            return [[]]
        return [
            [samples[list(chosen)].ravel(), *rest]
            for chosen in combinations(sorted(left), sizes[0])
            for rest in cuts(left - set(chosen), sizes[1:])
        ]

    return [in_order(parts, divisors) for parts in cuts(set(range(n // rows)), list(sizes))]


def epochs_of_draws(*draws):
    """An epoch for each choice of one of the equally likely visits of each step."""
    return [list(visits) for visits in product(*draws)]


def drawn_samples(n, size, weights=None):
    """With replacement, a row as often as its weight says."""
    rows = np.repeat(np.arange(n), 1 if weights is None else weights).tolist()
    return [(list(drawn), size) for drawn in product(rows, repeat=size)]


def drawn_subsets(n, size):
    return [(list(rows), size) for rows in combinations(range(n), size)]


def drawn_independently(n, thirds, normalize):
    """Every row in `thirds` of three equally likely cases."""
    draws = []
    for cases in product(range(3), repeat=n):
        rows = [row for row, which in enumerate(cases) if which < thirds]
        draws.append((rows, max(len(rows), 1) if normalize == "own" else n * thirds / 3))
    return draws


@dataclass(frozen=True)
class Design:
    """A scheme for n rows, and what it may do in each epoch: the last of `epochs` is that of all later ones.

    Where it is not `fresh`, one of its epochs is drawn and kept; where it is `averaged`, runs are after each epoch.
    """

    n: int
    scheme: rs.Scheme
    epochs: list
    fresh: bool = True
    averaged: bool = False

    def during(self, count):
        return (self.epochs + [self.epochs[-1]] * count)[:count]

    def histories(self, training):
        epochs = self.during(len(training.steps))
        chosen = [epochs] if self.fresh else [[[one]] * len(epochs) for one in epochs[0]]
        return np.concatenate([histories(training, each, self.averaged) for each in chosen])


@dataclass(frozen=True)
class Enumeration:
    """All answers about a design with a recipe, by enumeration. `case` has problem, start and covariance."""

    case: object
    design: Design
    recipe: dict
    average: object = None

    def training(self, count):
        recipe = {"step": self.case.step, **self.recipe}
        step = recipe.pop("step")
        visits = np.cumsum([0, *(len(epochs[0]) for epochs in self.design.during(count))])
        if isinstance(step, rs.PerVisit):
            steps = [[step(visit) for visit in range(low, high)] for low, high in pairwise(visits)]
        else:
            steps = [step(k) if callable(step) else np.ravel(step)[k % np.size(step)] for k in range(count)]
        return Training(self.case.problem.X, self.case.problem.y, steps, self.case.start, **recipe), visits

    def runs(self, count):
        """R of every run, or of its average, (runs, p, 1 + n)."""
        training, visits = self.training(count)
        seen, average = self.design.histories(training), self.average
        if average is None:
            return seen[:, -1]
        seen = seen if average.per == "visit" else seen[:, visits]
        if isinstance(average, rs.TailAverage):
            return seen[:, 1 + average.start * (visits[1] if average.per == "visit" else 1) :].mean(axis=1)
        moving = seen[:, 0]
        for each in range(1, seen.shape[1]):
            moving = average.decay * moving + (1 - average.decay) * seen[:, each]
        return moving

    def without(self, row):
        """The same where the gradient of a row is zero."""
        X, y = self.case.problem.X.copy(), self.case.problem.y.copy()
        X[row], y[row] = 0.0, 0.0
        return replace(self, case=replace(self.case, problem=rs.LeastSquares(X, y)))

    def mean(self, count):
        return self.runs(count).mean(axis=0) @ np.concatenate([[1.0], self.case.problem.y])

    @cached_property
    def state_maps(self):
        """A (2p, 2p) and G (2p, 1 + n) of every equally likely late epoch, on parameters and momentum buffer."""
        training, (n, p) = self.training(1)[0], self.case.problem.X.shape
        states, nothing = np.split(np.eye(2 * p), 2), np.zeros((p, 1 + n))
        step, maps = training.steps[0], []
        for visits in self.design.epochs[-1]:
            *_, ends = advance(training, step, visits, *states, np.zeros((n, 1)))
            *_, entries = advance(training, step, visits, nothing, nothing)
            maps.append((np.vstack(ends), np.vstack(entries)))
        A, G = (np.array(part) for part in zip(*maps, strict=True))
        return (A.mean(axis=0)[np.newaxis], G.mean(axis=0)[np.newaxis]) if self.design.averaged else (A, G)

    @property
    def repeats(self):
        """True if all epochs but those of earlier stages are alike."""
        return self.average is None and np.isscalar(self.recipe.get("step", self.case.step))

    def means(self, epochs):
        """The mean iterate (epochs, p), by the recursion of the mean where all epochs are alike."""
        if not self.repeats or self.design.scheme.has_stages:
            return np.array([self.mean(epoch) if epoch else self.case.start for epoch in epochs])
        (A, G), p, found = self.state_maps, self.case.problem.p, []
        if self.design.fresh:
            A, G = A.mean(axis=0, keepdims=True), G.mean(axis=0, keepdims=True)
        entering = (G @ np.concatenate([[1.0], self.case.problem.y]))[..., np.newaxis]
        for epoch in epochs:
            state = np.concatenate([self.case.start, np.zeros(p)])[:, np.newaxis]
            for _ in range(epoch):
                state = A @ state + entering
            found.append(state.reshape(-1, 2 * p)[:, :p].mean(axis=0))
        return np.array(found)

    def limit(self):
        """The stationary mean of the state (2p, 1 + n), of a design that is fresh."""
        A, G = self.state_maps
        return np.linalg.solve(np.eye(A.shape[1]) - A.mean(axis=0), G.mean(axis=0))

    def limit_moments(self, inputs):
        """E z z' where E (1, y)(1, y)' = `inputs`: a linear equation in its entries."""
        A, G = self.state_maps
        size, mixed = A.shape[1], A @ self.limit() @ inputs @ G.swapaxes(1, 2)
        entering = (G @ inputs @ G.swapaxes(1, 2) + mixed + mixed.swapaxes(1, 2)).mean(axis=0)
        return np.linalg.solve(np.eye(size**2) - self.squared, entering.ravel()).reshape(size, size)

    @property
    def squared(self):
        """The matrix of M -> E A M A'."""
        return np.mean([np.kron(A, A) for A in self.state_maps[0]], axis=0)


def radius(matrix):
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def agree(oracle, count, rows_left_out=True):
    """Every answer after so many epochs, to 1e-12, and those of the stationary state where there is one."""
    tiny, problem = oracle.case, oracle.case.problem
    n, p, given = problem.n, problem.p, np.concatenate([[1.0], problem.y])
    options = {"step": tiny.step, **oracle.recipe, "average": oracle.average}
    run = rs.descend(problem, oracle.design.scheme, start=tiny.start, **options)
    runs, (training, _) = oracle.runs(count), oracle.training(count)
    ends = runs @ given
    beta = ends.mean(axis=0)
    close(run.iterate(count), beta)
    close(run.training_loss(count), np.square(problem.y - problem.X @ beta).sum() / (2 * n))
    close(run.degrees_of_freedom(count), np.einsum("np,pn->", problem.X, runs.mean(axis=0)[:, 1:]))
    truth = problem.beta_star, tiny.covariance
    total, mean = expected_risk(training, runs, *truth, problem.noise)
    risk, found = run.risk(count), run.expected_risk(count)
    close([risk.total, risk.frozen + risk.bias + risk.cross + risk.variance], [mean, mean])
    close([found.total, found.mean, found.spread], [total, mean, total - mean])
    total, mean = expected_risk_given(training, runs, *truth)
    found = run.expected_risk(count, given_responses=True)
    close([found.total, found.mean, found.spread], [total, mean, total - mean])
    assert (run.method, found.error_kind, found.error, risk.error) == ("exact", "exact", 0, 0)
    _agree_on_the_spread(run.covariance(count), run, ends, count)
    if rows_left_out and n > 1:
        _agree_on_rows_left_out(run, oracle, [0, count, 40] if oracle.repeats else [count])
    if oracle.repeats and oracle.design.fresh:
        _agree_on_the_end(run, oracle)
        if not run.recipe.momentum and not oracle.design.scheme.has_stages:
            A, G = (part.mean(axis=0)[:p] for part in oracle.state_maps)
            close(run.epoch.matrix, A[:, :p])
            if oracle.design.scheme.is_symmetric and not run.recipe.penalty:
                steps = oracle.design.scheme.steps(n)
                close(steps * tiny.step / n * run.epoch.modified_features.T, G[:, 1:])
                close(run.epoch.Z, run.epoch.modified_features.T @ problem.X / n)
                if (
                    oracle.design.scheme.unit is rs.Unit.SAMPLE
                    and run.scheme.shuffle is rs.Shuffle.EVERY_EPOCH
                ):
                    close(run.epoch.modifier(0) @ problem.X[0], run.epoch.modified_features[0])
    return run


def _agree_on_the_spread(found, run, ends, count):
    p = ends.shape[1]
    apart = ends - ends[0]
    expected = np.cov(apart.T, ddof=0).reshape(p, p) if len(ends) > 1 else np.zeros((p, p))
    assert (found.error, found.error_kind) == (0, "exact")
    # The ends of the oracle are known to their rounding, and so is by how much they differ.
    size, rounding = np.abs(expected).max(), 20 * np.finfo(float).eps * np.abs(ends).max()
    allowed = 1e-12 * size + rounding * np.sqrt(size) + rounding**2
    if run.recipe.average is not None:
        # Second moments of averages are those about zero less the mean's.
        allowed += 1e-14 * np.abs(ends).max() ** 2
    np.testing.assert_allclose(found.matrix, expected, rtol=0, atol=allowed)
    np.testing.assert_allclose(found.factor @ found.factor.T, found.matrix, rtol=0, atol=allowed)
    np.testing.assert_allclose(found.trace, np.trace(expected), rtol=0, atol=p * allowed)
    rows, off = np.random.default_rng(5).standard_normal((4, p)), np.sqrt(allowed)
    predicted, deviation = run.predict(rows, count, return_std=True)
    close(predicted, (ends @ rows.T).mean(axis=0))
    np.testing.assert_allclose(deviation, (apart @ rows.T).std(axis=0), rtol=1e-9, atol=10 * off)
    np.testing.assert_allclose(found.standard_deviations, apart.std(axis=0), rtol=1e-9, atol=off)


def _agree_on_rows_left_out(run, oracle, epochs):
    """What each row's gradient does to its own residual, and to predictions elsewhere."""
    problem, new = oracle.case.problem, np.random.default_rng(6).standard_normal((2, oracle.case.problem.p))
    epochs = [epoch for epoch in epochs if epoch <= 2] if run.scheme.has_stages else epochs
    without = np.array([oracle.without(row).means(epochs) for row in range(problem.n)]).swapaxes(0, 1)
    wanted = problem.y - np.einsum("eip,ip->ei", without, problem.X)
    moved, whole = without @ new.T, oracle.means(epochs) @ new.T
    found, influence = run.leave_one_out(epochs), run.influence(new, epochs)
    for place in range(len(epochs)):
        scale = max(1.0, np.abs(wanted[place]).max())
        off = abs(found.mean_square[place] - np.square(wanted[place]).mean())
        assert off <= found.error[place] + 1e-10 * scale**2
        if found.error[place] == 0:
            close(found.residuals[place] / scale, wanted[place] / scale, 1e-10)
        change = moved[place] - whole[place]
        if run.recipe.unpenalized and problem.rank < problem.p:
            # Such columns move what no row sees, which influence does not follow.
            continue
        assert np.abs(influence.values[place] - change).max() <= influence.error[place] + 1e-10 * scale


def _agree_on_the_end(run, oracle):
    """Rates and limits, where everything is seen and the mean square converges."""
    tiny, problem = oracle.case, oracle.case.problem
    (A, _), p = oracle.state_maps, problem.p
    found = run.stability(), run.mean_square_stability()
    rates = radius(A.mean(axis=0)), radius(oracle.squared)
    for each, rate, digits in zip(found, rates, (1e-7, 1e-6), strict=True):
        # Directions that nothing moves keep an eigenvalue of one, which is not a rate.
        if abs(rate - 1) > 1e-3:
            assert each.rate == pytest.approx(rate, rel=digits)
            assert each.converges == (rate < 1)
    if max(rates) > 0.99:
        return
    ones, star = np.concatenate([[1.0], problem.y]), problem.beta_star
    close(run.limit().parameters, oracle.limit()[:p] @ ones, 1e-10)
    means = np.concatenate([[1.0], problem.X @ star])
    noisy = np.diag(np.concatenate([[0.0], np.full(problem.n, problem.noise**2)]))
    for inputs, given in ((np.outer(ones, ones), True), (np.outer(means, means) + noisy, False)):
        second, mean = oracle.limit_moments(inputs)[:p, :p], oracle.limit()[:p] @ inputs[:, 0]
        error = second - np.outer(mean, star) - np.outer(star, mean) + np.outer(star, star)
        close(run.expected_risk(np.inf, given_responses=given).total, np.sum(tiny.covariance * error), 1e-10)
        if given:
            close(run.covariance(np.inf).matrix, second - np.outer(mean, mean), 1e-10)
