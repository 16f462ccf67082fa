"""Steps that draw their rows: against the enumeration of all draws, by simulation, and by their ends."""

import math
from itertools import combinations, permutations, product

import numpy as np
import pytest
import scipy.linalg

import reshuffle as rs
from reshuffle.schemes import samples
from tests.oracles.every_scheme import RECIPES, check
from tests.problems import case, close
from tests.run.test_covariance import check as check_covariance


def poisson_epochs(n, thirds, steps, normalize):
    """Every choice of rows in every step, where a row is drawn in `thirds` of three equally likely cases."""
    draws = []
    for cases in product(range(3), repeat=n):
        rows = [row for row, case in enumerate(cases) if case < thirds]
        draws.append((rows, max(len(rows), 1) if normalize == "own" else n * thirds / 3))
    return [list(visits) for visits in product(draws, repeat=steps)]


def weighted_epochs(weights, sizes):
    """Every choice of rows in every step, a row as often as its weight says."""
    rows = np.repeat(np.arange(len(weights)), weights).tolist()
    draws = [[(list(drawn), size) for drawn in product(rows, repeat=size)] for size in sizes]
    return [list(visits) for visits in product(*draws)]


def subset_epochs(n, sizes):
    """Every choice of a subset for every step."""
    draws = [[(list(rows), size) for rows in combinations(range(n), size)] for size in sizes]
    return [list(visits) for visits in product(*draws)]


DRAWN = {
    "subsets": (4, rs.SampleSubsets(batch_size=2), subset_epochs(4, [2, 2])),
    "subsets, ragged": (5, rs.SampleSubsets(batch_size=3), subset_epochs(5, [3, 2])),
    "subsets, last of one": (3, rs.SampleSubsets(batch_size=2), subset_epochs(3, [2, 1])),
    "subsets, dropped": (5, rs.SampleSubsets(batch_size=3, drop_last=True), subset_epochs(5, [3])),
    "rare": (3, rs.PoissonSampling(1 / 3, steps=2), poisson_epochs(3, 1, 2, "equal")),
    "frequent, own": (3, rs.PoissonSampling(2 / 3, steps=2, normalize="own"), poisson_epochs(3, 2, 2, "own")),
    "rare, own": (4, rs.PoissonSampling(1 / 3, steps=1, normalize="own"), poisson_epochs(4, 1, 1, "own")),
    "weighted": (3, rs.WeightedSampling([1, 3, 1], batch_size=2), weighted_epochs([1, 3, 1], [2, 1])),
    "weighted, alone": (4, rs.WeightedSampling([2, 1, 1, 1], batch_size=1), weighted_epochs([2, 1, 1, 1], [1] * 4)),
    "weighted, dropped": (
        5, rs.WeightedSampling([1, 1, 2, 1, 1], batch_size=3, drop_last=True),
        weighted_epochs([1, 1, 2, 1, 1], [3]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("p", [2, 6])
def test_means_and_second_moments_are_those_of_all_draws(name, p, recipe):
    n, scheme, epochs = DRAWN[name]
    tiny = case(n, p, 1, step=0.08, seed=n)
    count = 2 if len(epochs) < 40 else 1
    check(tiny, scheme, epochs, True, RECIPES[recipe], count)
    check_covariance(tiny, scheme, epochs, True, RECIPES[recipe], count)


@pytest.mark.parametrize("name", ["rare", "frequent, own", "weighted", "subsets, ragged"])
def test_limits_and_critical_steps_are_those_of_all_draws(name):
    n, scheme, epochs = DRAWN[name]
    tiny = case(n, 2, 1, covariance="identity")
    X, y = tiny.problem.X, tiny.problem.y

    def maps(step):
        """A and g of each epoch, (e, 2, 2) and (e, 2)."""
        A, g = np.tile(np.eye(2), (len(epochs), 1, 1)), np.zeros((len(epochs), 2))
        for number, visits in enumerate(epochs):
            for rows, divisor in visits:
                visit = np.eye(2) - step * X[rows].T @ X[rows] / divisor
                A[number], g[number] = (
                    visit @ A[number],
                    visit @ g[number] + step * X[rows].T @ y[rows] / divisor,
                )
        return A, g

    def square_rate(step):
        A, _ = maps(step)
        return np.abs(np.linalg.eigvals(np.mean([np.kron(each, each) for each in A], axis=0))).max()

    step = 0.2
    A, g = maps(step)
    run = rs.descend(tiny.problem, scheme, step)
    close(run.limit().parameters, np.linalg.solve(np.eye(2) - A.mean(axis=0), g.mean(axis=0)))
    assert run.mean_square_stability().rate == pytest.approx(square_rate(step), rel=1e-7)
    critical = rs.critical_step(tiny.problem, scheme, mean_square=True)
    assert square_rate(critical * (1 - 1e-4)) < 1 < square_rate(critical * (1 + 1e-4))
    mean = rs.critical_step(tiny.problem, scheme, mean_square=False)
    radii = [np.abs(np.linalg.eigvals(maps(f * mean)[0].mean(axis=0))).max() for f in (1 - 1e-6, 1 + 1e-6)]
    assert radii[0] < 1 < radii[1]


@pytest.mark.parametrize(
    "recipe", [{}, {"momentum": 0.5, "penalty": 0.1}, {"momentum": 0.6, "nesterov": True}]
)
def test_gradient_noise_adds_its_own_second_moment(recipe):
    """The spread that it adds solves a recursion of its own, since the noise is independent of all else."""
    problem, step, deviation = rs.gaussian(12, 3, noise=0.5, seed=3), 0.1, 0.7
    quiet, noisy = rs.PoissonSampling(0.5), rs.PoissonSampling(0.5, gradient_noise=deviation)
    momentum, p = recipe.get("momentum", 0.0), 3
    ahead = 1 + momentum if recipe.get("nesterov") else 1.0
    of_buffer = momentum**2 if recipe.get("nesterov") else momentum

    def visit(rows):
        """G of (b, v), where v -> momentum v + g, b -> b - step (...)."""
        H = problem.X[rows].T @ problem.X[rows] / 6 + recipe.get("penalty", 0.0) * np.eye(p)
        return np.block(
            [[np.eye(p) - step * ahead * H, -step * of_buffer * np.eye(p)], [H, momentum * np.eye(p)]]
        )

    push = np.vstack([-step * ahead * np.eye(p), np.eye(p)]) * deviation
    subsets = [[row for row in range(12) if number >> row & 1] for number in range(2**12)]
    maps = np.array([visit(rows) for rows in subsets])
    second = np.zeros((2 * p, 2 * p))
    for _ in range(2 * 4):
        second = np.einsum("eij,jk,elk->il", maps, second, maps, optimize=True) / len(maps) + push @ push.T
    risks = [rs.descend(problem, one, step, **recipe).expected_risk(4) for one in (quiet, noisy)]
    close(risks[1].total - risks[0].total, np.trace(second[:p, :p]), tolerance=1e-11)
    close(risks[1].mean, risks[0].mean)
    given = [rs.descend(problem, one, step, **recipe).covariance(4) for one in (quiet, noisy)]
    np.testing.assert_allclose(given[1].matrix - given[0].matrix, second[:p, :p], atol=1e-12)


def test_gradient_noise_in_the_limit_of_the_full_batch():
    """q = 1: V solves a Lyapunov equation."""
    problem, step = rs.gaussian(30, 4, seed=1), 0.3
    run = rs.descend(problem, rs.PoissonSampling(1.0, gradient_noise=0.2), step)
    G = np.eye(4) - step * problem.X.T @ problem.X / 30
    V = scipy.linalg.solve_discrete_lyapunov(G, (step * 0.2) ** 2 * np.eye(4))
    close(run.expected_risk(math.inf).spread, np.trace(V))
    wide = rs.descend(rs.gaussian(5, 8, seed=0), rs.PoissonSampling(0.5, gradient_noise=0.1), 0.1)
    with pytest.raises(rs.UnsupportedError, match=r"gradient_noise must be 0 .* rank is 5 of 8"):
        wide.expected_risk(2)


@pytest.mark.parametrize("scheme", [
    rs.PoissonSampling(0.1), rs.PoissonSampling(0.1, normalize="own"), rs.PoissonSampling(0.2, gradient_noise=0.3),
    rs.WeightedSampling(np.arange(1, 21), batch_size=4), rs.SampleSubsets(batch_size=8),
    rs.Stages([
        (3, rs.PoissonSampling(0.1, gradient_noise=0.5)),
        (None, rs.WeightedSampling(np.arange(1, 21), batch_size=8)),
    ]),
], ids=repr)  # fmt: skip
def test_they_are_simulated(scheme, monkeypatch):
    monkeypatch.setattr(samples, "_DRAWN_AT_ONCE", 1000)
    problem, recipe = rs.gaussian(20, 3, noise=0.5, seed=1), {"momentum": 0.3, "penalty": 0.05}
    exact = rs.descend(problem, scheme, 0.1, **recipe).expected_risk([1, 6])
    found = rs.simulate(problem, scheme, 0.1, epochs=[1, 6], runs=4000, fresh_noise=True, seed=3, **recipe)
    assert exact.error_kind == "exact"
    assert (np.abs(found.spread.mean - exact.spread) <= 4 * found.spread.standard_error).all()
    assert (np.abs(found.risk.mean - exact.mean) <= 4 * found.risk.standard_error).all()


def test_their_ends_are_other_schemes():
    problem = rs.gaussian(8, 3, noise=0.5, seed=1)

    def total(scheme):
        return rs.descend(problem, scheme, 0.1, momentum=0.2).expected_risk([1, 5, math.inf]).total

    for all_rows in (
        rs.PoissonSampling(1), rs.PoissonSampling(1, normalize="own", steps=1),
        rs.SampleSubsets(batch_size=8), rs.SampleSubsets(batch_size=9),
    ):  # fmt: skip
        close(total(all_rows), total(rs.FullBatch()))
    close(total(rs.SampleSubsets(batch_size=1)), total(rs.SampleWithReplacement(batch_size=1)))
    assert rs.descend(rs.gaussian(1, 2), rs.SampleSubsets(batch_size=1), 0.1).expected_risk(3).spread == 0
    close(total(rs.WeightedSampling([3.0] * 8, batch_size=3)), total(rs.SampleWithReplacement(batch_size=3)))
    almost = 1.0 + 1e-13 * np.arange(8)
    close(
        total(rs.WeightedSampling(almost, batch_size=3)),
        total(rs.SampleWithReplacement(batch_size=3)),
        tolerance=1e-9,
    )


def test_the_mean_of_weighted_sampling_is_that_of_weighted_least_squares():
    base, weights = rs.gaussian(30, 4, seed=2), np.linspace(1, 3, 30)
    run = rs.descend(base, rs.WeightedSampling(weights, batch_size=5), 0.1)
    weighted = rs.LeastSquares(base.X, base.y, sample_weight=weights / weights.mean())
    close(
        run.iterate([1, 7, math.inf]),
        rs.descend(weighted, rs.SampleWithReplacement(batch_size=5), 0.1).iterate([1, 7, math.inf]),
    )


@pytest.mark.parametrize(
    "scheme", [rs.WeightedSampling(np.arange(1, 13), batch_size=4), rs.PoissonSampling(0.3)], ids=repr
)
@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.4}])
def test_a_row_that_is_left_out_has_no_gradient(scheme, recipe):
    problem = rs.gaussian(12, 3, noise=0.5, seed=5)
    found = rs.descend(problem, scheme, 0.1, **recipe).leave_one_out([2, 9])
    for row in (0, 7):
        X, y = problem.X.copy(), problem.y.copy()
        X[row], y[row] = 0.0, 0.0
        refit = rs.descend(rs.LeastSquares(X, y), scheme, 0.1, **recipe).iterate([2, 9])
        close(found.residuals[:, row], problem.y[row] - refit @ problem.X[row])


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("n", "size"), [(4, 2), (5, 2), (3, 1)])
def test_orders_that_are_run_backwards_in_every_second_pass(n, size, recipe):
    tiny, scheme = case(n, 3, 1, step=0.08, seed=n), rs.PairedReversal(batch_size=size)
    parts = [list(range(first, min(first + size, n))) for first in range(0, n, size)]
    there_and_back = [[*order, *order[::-1]] for order in permutations(parts)]
    epochs = [[(rows, len(rows)) for rows in order] for order in there_and_back]
    check(tiny, scheme, epochs, True, RECIPES[recipe], 2)
    check_covariance(tiny, scheme, epochs, True, RECIPES[recipe], 2)


def test_reversal_has_less_spread_than_two_fresh_orders():
    problem, fixed = rs.gaussian(40, 4, noise=1.0, seed=0), {"batches": 4}
    twice = rs.descend(problem, rs.RandomReshuffling(**fixed), 0.02).expected_risk(20)
    paired = rs.descend(problem, rs.PairedReversal(**fixed), 0.02).expected_risk(10)
    assert paired.spread < 0.1 * twice.spread
    with pytest.raises(rs.UnsupportedError, match="at most 6 batches"):
        rs.descend(problem, rs.PairedReversal(batches=7), 0.02).risk(1)


def test_bad_settings_are_refused():
    for rate in (0, 1.5, -1, "often", None):
        with pytest.raises(ValueError, match="rate must be"):
            rs.PoissonSampling(rate)
    with pytest.raises(ValueError, match="normalize must be"):
        rs.PoissonSampling(0.5, normalize="drawn")
    with pytest.raises(ValueError, match="gradient_noise must be"):
        rs.PoissonSampling(0.5, gradient_noise=-1)
    for size in (0, None, 2.5):
        with pytest.raises(ValueError, match="batch_size"):
            rs.SampleSubsets(batch_size=size)
    for weights in ([], [[1.0]], [1.0, 0.0], [1.0, -2.0]):
        with pytest.raises(ValueError, match="weights must be"):
            rs.WeightedSampling(weights, batch_size=2)
    with pytest.raises(ValueError, match="weights must have one entry per row of X, 5, but it has 2"):
        rs.descend(rs.gaussian(5, 2), rs.WeightedSampling([1, 2], batch_size=2), 0.1)
    data = rs.Accumulator().add(np.ones((5, 1)), np.ones(5))
    with pytest.raises(rs.UnsupportedError, match="needs the rows one by one"):
        rs.descend(data.problem(), rs.WeightedSampling([1, 2, 1, 1, 1], batch_size=2), 0.1)
    assert rs.PoissonSampling(0.1) == rs.PoissonSampling(0.1) != rs.PoissonSampling(0.1, gradient_noise=1)
    assert rs.WeightedSampling([1, 2], batch_size=1) == rs.WeightedSampling([2, 4], batch_size=1)
    assert rs.PoissonSampling(1 / 49).steps(10) == 49
