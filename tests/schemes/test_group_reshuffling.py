"""Samples of several rows that are shuffled together: against all orders, drawn orders and the simulator."""

from itertools import permutations

import numpy as np
import pytest

import reshuffle as rs
from tests.problems import case, close

STEP = 0.25


def all_orders(X, rows, sizes, divisors, step):
    """The mean of A and N of v -> A v + N y over all orders of the samples, straight from the definition."""
    n, p = X.shape
    samples = np.arange(n).reshape(-1, rows)
    ends = np.cumsum([0, *sizes])
    A_mean, N_mean, count = np.zeros((p, p)), np.zeros((p, n)), 0
    for order in permutations(range(len(samples))):
        A, N = np.eye(p), np.zeros((p, n))
        for slot, divisor in enumerate(divisors):
            batch = samples[list(order[ends[slot] : ends[slot + 1]])].ravel()
            visit = np.eye(p) - step / divisor * X[batch].T @ X[batch]
            entry = np.zeros((p, n))
            entry[:, batch] = step / divisor * X[batch].T
            A, N = visit @ A, visit @ N + entry
        A_mean, N_mean, count = A_mean + A, N_mean + N, count + 1
    return A_mean / count, N_mean / count


CUTS = [
    ({"batches": 1}, [6], [6]),
    ({"batches": 2}, [3, 3], [3, 3]),
    ({"batches": 3}, [2, 2, 2], [2, 2, 2]),
    ({"batch_size": 4}, [4, 2], [4, 2]),
    ({"batch_size": 4, "normalize": "equal"}, [4, 2], [3, 3]),
    ({"batch_size": 4, "drop_last": True}, [4], [4]),
]


@pytest.mark.parametrize(("arguments", "sizes", "divisors"), CUTS)
@pytest.mark.parametrize(("p", "rows"), [(4, 2), (14, 2), (1, 4), (2, 4)])
def test_few_batches_equal_the_enumeration_of_all_orders(arguments, sizes, divisors, p, rows):
    """Samples of more rows than columns are kept as triangles."""
    n = 6 * rows
    tiny = case(n, p, 1)
    A, N = all_orders(tiny.problem.X, rows, sizes, [rows * divisor for divisor in divisors], STEP)
    run = rs.descend(tiny.problem, rs.GroupReshuffling(rows, **arguments), STEP, start=tiny.start)
    assert run.epoch.method == "exact"
    close(run.epoch.matrix, A)
    close(len(sizes) * STEP / n * run.epoch.modified_features.T, N)
    expected = A @ (A @ tiny.start + N @ tiny.problem.y) + N @ tiny.problem.y
    close(run.iterate(2), expected)
    sample = tiny.problem.X[rows : 2 * rows].T
    close(run.epoch.modifier(1) @ sample, run.epoch.modified_features[rows : 2 * rows].T)
    twice = rs.LeastSquares(tiny.problem.X, np.column_stack([tiny.problem.y] * 2))
    both = rs.descend(twice, rs.GroupReshuffling(rows, **arguments), STEP, start=tiny.start)
    close(both.iterate(2), np.column_stack([expected] * 2))


@pytest.mark.parametrize("rows", [2, 4])
def test_four_batches_and_drawn_orders_are_within_their_error(rows):
    problem = case(6 * rows, 2, 1).problem
    for batches, sizes, method in ((4, [2, 2, 1, 1], "auto"), (3, [2, 2, 2], "sampling")):
        A, N = all_orders(problem.X, rows, sizes, [rows * size for size in sizes], STEP)
        scheme = rs.GroupReshuffling(rows, batches=batches)
        run = rs.descend(problem, scheme, step=STEP, method=method)
        assert 0 < run.iterate_error(2) < 0.1
        off = run.iterate(2) - (A @ (N @ problem.y) + N @ problem.y)
        assert np.abs(off).max() <= run.iterate_error(2)


def test_five_samples_one_by_one_are_within_their_error():
    tiny = case(10, 4, 1)
    _, N = all_orders(tiny.problem.X, 2, [1] * 5, [2] * 5, 0.1)
    # With a penalty that does next to nothing every order is walked through.
    exact = rs.descend(tiny.problem, rs.GroupReshuffling(2, batch_size=1), 0.1, penalty=1e-14)
    assert exact.method == "exact"
    close(exact.iterate(1), N @ tiny.problem.y)
    for way in ("cavity", "sampling"):
        run = rs.descend(tiny.problem, rs.GroupReshuffling(2, batch_size=1), 0.1, method=way, rtol=0.1)
        assert np.linalg.norm(run.iterate(1) - N @ tiny.problem.y) <= run.iterate_error(1)
        assert run.iterate_error(1) < 0.2 * np.linalg.norm(run.iterate(1))


@pytest.mark.parametrize("arguments", [{"batches": 3}, {"batch_size": 4}], ids=str)
def test_momentum_and_penalty_walk_over_all_cuts(arguments):
    tiny, scheme = case(10, 3, 1), rs.GroupReshuffling(2, **arguments)
    run = rs.descend(tiny.problem, scheme, STEP, momentum=0.5, penalty=0.2, start=tiny.start)
    assert run.method == "exact"
    ends, sizes = [], (scheme.sizes(10) // 2).tolist()
    for order in permutations(range(5)):
        beta, buffer, first = tiny.start, np.zeros(3), 0
        for size in sizes:
            batch = np.ravel([[2 * one, 2 * one + 1] for one in order[first : first + size]])
            first += size
            gradient = tiny.problem.X[batch].T @ (tiny.problem.X[batch] @ beta - tiny.problem.y[batch])
            buffer = 0.5 * buffer + gradient / len(batch) + 0.2 * beta
            beta = beta - STEP * buffer
        ends.append(beta)
    close(run.iterate(1), np.mean(ends, axis=0))
    cavity = rs.descend(
        tiny.problem, scheme, STEP, momentum=0.5, penalty=0.2, start=tiny.start, method="cavity"
    )
    slack = 1e-6 if len(sizes) == 2 else float(np.max(cavity.iterate_error(1)))
    np.testing.assert_allclose(cavity.iterate(1), run.iterate(1), rtol=0, atol=slack)


@pytest.mark.parametrize(
    "scheme", [rs.GroupReshuffling(3, batches=2), rs.GroupReshuffling(3, batch_size=5)], ids=repr
)
def test_the_cavity_equation_of_two_batches_is_exact(scheme):
    problem = case(24, 7, 1, noise=0.5).problem
    exact, cavity = (rs.descend(problem, scheme, 0.5, method=way) for way in ("exact", "cavity"))
    assert cavity.method == "cavity"
    for epochs in ([0, 1, 2, 7], np.inf):
        close(cavity.iterate(epochs), exact.iterate(epochs), 1e-6)
    close(cavity.epoch.modifier(2), exact.epoch.modifier(2), 1e-6)


def test_the_cavity_equation_of_three_batches_is_off_by_what_it_says():
    found = []
    for samples in (10, 40):
        problem = rs.gaussian(3 * samples, 5, noise=0.5, seed=2)
        exact, cavity = (
            rs.descend(problem, rs.GroupReshuffling(3, batches=3), alpha=1.0, method=way, rtol=0.1)
            for way in ("exact", "cavity")
        )
        off = np.linalg.norm(cavity.iterate(5) - exact.iterate(5))
        assert off <= cavity.iterate_error(5)
        independent = np.linalg.matrix_power(np.eye(5) - problem.X.T @ problem.X / problem.n / 3, 3)
        found.append(np.abs(cavity.epoch.matrix - exact.epoch.matrix).max())
        assert found[-1] < 0.1 * np.abs(independent - exact.epoch.matrix).max()
    # Four times as many samples: about a sixteenth.
    assert found[1] < found[0] / 8


def test_with_one_row_per_sample_they_are_shuffled_samples():
    problem = case(30, 4, 1).problem
    for way in ("cavity", "auto"):
        single, grouped = (
            rs.descend(problem, scheme(batch_size=5), 0.02, method=way)
            for scheme in (rs.SampleReshuffling, lambda **cut: rs.GroupReshuffling(1, **cut))
        )
        close(grouped.epoch.matrix, single.epoch.matrix, 1e-10)
        close(grouped.epoch.modified_features, single.epoch.modified_features, 1e-10)


def test_many_batches_are_those_of_drawn_orders_and_of_real_runs():
    problem = rs.gaussian(400, 8, noise=0.5, seed=1)
    scheme = rs.GroupReshuffling(4, batch_size=10)
    cavity = rs.descend(problem, scheme, 0.3)
    assert cavity.method == "cavity"
    drawn = rs.descend(problem, scheme, 0.3, method="sampling", rtol=1e-3)
    slack = drawn.iterate_error(4) + cavity.iterate_error(4)
    assert np.linalg.norm(cavity.iterate(4) - drawn.iterate(4)) < slack
    real = rs.simulate(problem, scheme, step=0.3, epochs=4, runs=2000, seed=0)
    off = np.abs(real.iterate.mean - cavity.iterate(4))
    assert (off < 4 * real.iterate.standard_error + cavity.iterate_error(4)).all()
    # Rows that are visited one by one make another mean.
    single = rs.descend(problem, rs.SampleReshuffling(batch_size=40), 0.3)
    assert np.linalg.norm(single.iterate(4) - cavity.iterate(4)) > 3 * cavity.iterate_error(4)


def test_what_does_not_fit_is_named():
    problem = case(10, 3, 1).problem
    with pytest.raises(ValueError, match="rows must divide the number of rows, 10, but it is 4"):
        rs.descend(problem, rs.GroupReshuffling(4, batch_size=1), 0.1)
    with pytest.raises(ValueError, match="rows must be a whole number"):
        rs.GroupReshuffling(0, batch_size=1)
    with pytest.raises(rs.BudgetError, match="at most 3"):
        rs.descend(problem, rs.GroupReshuffling(2, batches=4), 0.1, method="exact").iterate(1)
    assert rs.GroupReshuffling(2, batch_size=3) != rs.GroupReshuffling(3, batch_size=3)


def test_leaving_out_a_sample_leaves_out_all_of_its_rows():
    """Against all orders, where the rows of a sample are zero but the divisors stay."""
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((8, 2)), rng.standard_normal(8)
    run = rs.descend(rs.LeastSquares(X, y), rs.GroupReshuffling(2, batch_size=2), 0.4)
    found = run.leave_one_out([1, 3], rows=[5, 4, 0])
    assert found.method == "refits"
    for place, row in enumerate([5, 4, 0]):
        kept = (np.arange(8) // 2 != row // 2)[:, np.newaxis]
        A, N = all_orders(kept * X, 2, [2, 2], [4, 4], 0.4)
        beta = [np.zeros(2)]
        for _ in range(3):
            beta.append(A @ beta[-1] + N @ y)
        for when, epoch in enumerate((1, 3)):
            assert found.residuals[when, place] == pytest.approx(y[row] - X[row] @ beta[epoch], abs=1e-12)
    with pytest.raises(ValueError, match="at least 2 samples"):
        rs.descend(rs.LeastSquares(X, y), rs.GroupReshuffling(8, batch_size=1), 0.1).leave_one_out(1)
    many = rs.descend(rs.gaussian(60, 2, seed=0), rs.GroupReshuffling(2, batch_size=4), 0.1, method="cavity")
    assert many.leave_one_out(1).method == "cavity"


@pytest.mark.parametrize("cut", [{"batches": 1}, {"batch_size": 1}], ids=str)
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_samples_are_left_out_whole_where_batches_are_an_equivalent_scheme(cut, momentum):
    problem, scheme, epochs = case(12, 2, 1).problem, rs.GroupReshuffling(4, **cut), [1, 3]
    found = rs.descend(problem, scheme, STEP, momentum=momentum).leave_one_out(epochs)
    for members in (slice(0, 4), slice(4, 8), slice(8, 12)):
        X, y = problem.X.copy(), problem.y.copy()
        X[members], y[members] = 0.0, 0.0
        run = rs.descend(rs.LeastSquares(X, y), scheme, STEP, momentum=momentum)
        close(found.residuals[:, members], problem.y[members] - run.iterate(epochs) @ problem.X[members].T)


@pytest.mark.parametrize(
    ("rows", "cut"), [(2, {"batches": 1}), (4, {"batch_size": 3}), (4, {"batch_size": 2, "drop_last": True})]
)
def test_the_critical_step_of_one_batch_of_samples_is_that_of_all_rows(rows, cut):
    problem = case(12, 2, 1).problem
    found = rs.critical_step(problem, rs.GroupReshuffling(rows, **cut), mean_square=False)
    close(found, 2 / np.linalg.eigvalsh(problem.X.T @ problem.X / 12).max())
