"""Leave-one-out along the whole path, in memory and from disk, against following every order without every row."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle._linalg import power_and_sum
from reshuffle.problem import sources
from reshuffle.validation.contour import around
from reshuffle.validation.leave_one_out import by_mean_step
from tests.looped import for_all, pairwise
from tests.oracles.every_order import epochs_of_shuffled_samples, in_order
from tests.problems import close
from tests.training import train
from tests.validation.enumerated import problem, residuals

EPOCHS = np.array([0, 1, 2, 7, 40])


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[3, 3, 2], [2, 2, 2, 2]])
def test_shuffled_samples_are_within_their_error(sizes):
    n = sum(sizes)
    data = problem(n, 3, outputs=2, seed=n)
    found = rs.descend(data, rs.SampleReshuffling(batch_size=sizes[0]), step=0.1).leave_one_out(EPOCHS)
    orders = epochs_of_shuffled_samples(n, sizes)
    want = np.stack([residuals(data.X, y, orders, 0.1, EPOCHS) for y in data.y.T], axis=-1)
    off = np.abs(found.mean_square - np.square(want).mean(axis=1))
    assert (off <= found.error + 1e-12).all()
    assert (found.error <= 0.1 * found.mean_square).all()


@pytest.mark.slow
def test_many_batches_are_within_their_error(monkeypatch):
    """By subsets of the other batches, and by the cavity equation of batches."""
    rng = np.random.default_rng(5)
    for share, most in 8 * [(0.3, 0.5)] + 4 * [(0.1, 1.5)]:
        n = int(rng.integers(12, 40))
        X = rng.standard_normal((n, int(rng.integers(2, most * n))))
        data = rs.LeastSquares(X, X[:, 0] + rng.standard_normal(n))
        alpha = share * float(rs.critical_step(data, rs.FullBatch()))
        run = rs.descend(data, rs.RandomReshuffling(batches=6), alpha=alpha)
        exact = run.leave_one_out([1, 10, 100])
        with monkeypatch.context() as patch:
            patch.setattr("reshuffle.validation.row_updates.MOST_BATCHES", 0)
            found = run.leave_one_out([1, 10, 100])
        assert (exact.method, found.method) == ("exact", "cavity")
        assert (np.abs(found.mean_square - exact.mean_square) <= found.error).all()
        assert found.error.all()


@pytest.mark.parametrize(
    ("scheme", "recipe"),
    [
        (rs.SampleReshuffling(batch_size=2), {"momentum": 0.5}),
        (rs.SampleReshuffling(batch_size=2), {"momentum": 0.8, "nesterov": True, "penalty": 0.1}),
        (rs.SampleReshuffling(batch_size=3), {"momentum": 0.9}),
        (rs.GroupReshuffling(batch_size=2, rows=2), {}),
        (rs.GroupReshuffling(batch_size=2, rows=2), {"momentum": 0.5}),
    ],
)
def test_the_cavity_is_within_its_error_for_any_recipe(scheme, recipe, monkeypatch):
    """Against runs without each row, or sample, that average over all orders."""
    for seed in range(3):
        n = 9 if scheme == rs.SampleReshuffling(batch_size=3) else 12 if scheme.rows_per_unit > 1 else 8
        data = problem(n, 2, seed=seed)
        alpha = 0.2 * (1 - recipe.get("momentum", 0.0)) * float(rs.critical_step(data, rs.FullBatch()))
        run = rs.descend(data, scheme, alpha=alpha, **recipe)
        exact = run.leave_one_out([1, 5, 40])
        with monkeypatch.context() as patch:
            affordable = "reshuffle.validation.leave_one_out.RowsLeftOut._refits_are_affordable"
            patch.setattr(affordable, lambda rows, count, operations: False)
            found = run.leave_one_out([1, 5, 40])
        assert (exact.method, found.method) == ("refits", "cavity")
        assert (np.abs(found.mean_square - exact.mean_square) <= found.error).all()
        assert (found.error < 0.3 * found.mean_square).all()


def test_the_tolerance_of_the_cavity_is_within_its_error_with_a_penalty():
    """Rounds end early: the map and what enters it may each be off, but not what is learned from both."""
    rng = np.random.default_rng(50112)
    X = rng.standard_normal((936, 2)) + np.array([2.0, 0.0])
    data = rs.LeastSquares(X, X @ rng.standard_normal(2) + rng.standard_normal(936))
    step, scheme = 0.05 * 936 / np.linalg.norm(X, 2) ** 2, rs.SampleReshuffling(batch_size=24)
    found, truth = (
        rs.descend(data, scheme, step, penalty=0.05, rtol=rtol).leave_one_out([1, 5, 40])
        for rtol in (0.5, 1e-4)
    )
    assert found.method == truth.method == "cavity"
    assert (np.abs(found.mean_square - truth.mean_square) <= found.error).all()


@for_all("scheme", [rs.FullBatch(), rs.RandomReshuffling(batches=2), rs.SampleReshuffling(batches=2)])
def test_rows_that_alone_see_a_direction(scheme):
    """Of interpolation every row is such a row; with a column of its own one is."""
    wide = problem(6, 9)
    tall = rs.LeastSquares(np.hstack([problem(8, 2).X, np.eye(8)[:, 3:4]]), problem(8, 2).y)
    for data, saturated in ((wide, np.ones(6)), (tall, np.arange(8) == 3)):
        run = rs.descend(data, scheme, step=0.1)
        found = run.leave_one_out([10**6, math.inf])
        np.testing.assert_array_equal(found.saturated, saturated)
        np.testing.assert_allclose(found.residuals[1], found.residuals[0], atol=1e-7)
        for i in range(data.n):
            alone = rs.descend(data.without(np.array([i])), scheme, step=0.1).iterate(math.inf)
            np.testing.assert_allclose(found.residuals[1, i], data.y[i] - data.X[i] @ alone, atol=1e-8)


def test_late_epochs_and_steps_that_diverge():
    data = problem(12, 4)
    critical = float(rs.critical_step(data, rs.FullBatch()))
    late = rs.descend(data, rs.FullBatch(), step=1e-6 * critical)
    refits = [
        data.y[i] - data.X[i] @ late.on(data.without(np.array([i]))).iterate([10**4, 10**8]).T
        for i in range(12)
    ]
    np.testing.assert_allclose(late.leave_one_out([10**4, 10**8]).residuals, np.transpose(refits), rtol=1e-7)
    beyond = rs.descend(data, rs.FullBatch(), step=1.5 * critical)
    growing = beyond.leave_one_out([20, 10**5, math.inf])
    direct = residuals(data.X, data.y, [in_order([range(12)])], 1.5 * critical, [20])[0]
    np.testing.assert_allclose(growing.residuals[0], direct, rtol=1e-6)
    assert np.isinf(growing.mean_square[1:]).all()


def test_weights_are_those_of_repeated_rows():
    """An unweighted row twice, left out together, is a row of weight two; divisors differ, so do the steps."""
    data = problem(6, 2)
    weights = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0])
    weighted = rs.LeastSquares(data.X, data.y, sample_weight=weights)
    found = rs.descend(weighted, rs.FullBatch(), step=0.1).leave_one_out([5, math.inf])
    for i in range(6):
        kept = np.where(np.arange(6) == i, 0.0, weights)
        W, g = data.X.T @ (kept[:, None] * data.X) / 6, data.X.T @ (kept * data.y) / 6
        b = train(data.X, data.y, [range(6)] * 5, rate=0.1, weights=kept)
        want = [data.y[i] - data.X[i] @ b, data.y[i] - data.X[i] @ np.linalg.solve(W, g)]
        np.testing.assert_allclose(found.residuals[:, i], want, rtol=1e-9)
    squares = np.square(found.residuals)
    np.testing.assert_allclose(found.mean_square, squares @ weights / weights.sum(), rtol=1e-12)


def test_a_single_run_has_its_spread_on_top():
    data = problem(12, 3)
    run = rs.descend(data, rs.RandomReshuffling(batches=3), step=0.1)
    mean, alone = run.leave_one_out([2, 9]), run.leave_one_out([2, 9], of_run=True)
    spread = np.einsum("ij,ejk,ik->e", data.X, run.covariance([2, 9]).matrix, data.X) / 12
    np.testing.assert_allclose(alone.mean_square - mean.mean_square, spread, rtol=1e-8)


@for_all("momentum, nesterov", [(0.0, False), (0.9, False), (0.9, True)])
def test_large_problems_take_the_mean_step_within_its_error(momentum, nesterov):
    data = problem(240, 4, outputs=2, seed=3)
    recipe = {"momentum": momentum, "nesterov": nesterov, "step": 0.02 * (1 - momentum)}
    run = rs.descend(data, rs.SampleReshuffling(batch_size=20), **recipe)
    epochs = np.array([1.0, 2, 5, 40])
    own = run.leave_one_out(epochs)
    with pytest.MonkeyPatch.context() as patch:
        for constant in ("_QUICK", "_SLOW"):
            patch.setattr(f"reshuffle.validation.mean_step.{constant}", 0.0)
        found, some = by_mean_step(run, epochs, hurried=True), run.leave_one_out(epochs, rows=range(200))
        asked = run.leave_one_out(epochs)
    assert (own.method, some.method, found.method) == ("cavity", "cavity", "mean step")
    assert (asked.error <= 0.1 * asked.standard_error).all()
    assert (np.abs(found.mean_square - own.mean_square) <= found.error + own.error).all()
    assert (0.01 * found.standard_error <= found.error).all()


def test_many_outputs_at_one_epoch_are_those_of_each():
    """With more outputs than epochs the nodes of the curve are summed up first."""
    data = problem(40, 6, outputs=5, seed=6)
    found = rs.descend(data, rs.FullBatch(), step=0.3).leave_one_out(60)
    for number in range(5):
        alone = rs.descend(data.output(number), rs.FullBatch(), step=0.3).leave_one_out(60)
        np.testing.assert_allclose(found.residuals[:, number], alone.residuals, rtol=1e-9, atol=1e-12)


def test_few_runs_know_what_orders_add():
    """Six runs, where their error is a tenth of the standard error of leave-one-out; all of them otherwise."""
    data = problem(300, 6, seed=4)
    run = rs.descend(data, rs.SampleReshuffling(batch_size=10), step=0.03)
    few = run.leave_one_out([1, 10], of_run=True)
    spread = np.square(run.covariance([1, 10]).deviation(data.X)).mean(axis=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reshuffle.validation.single_runs._QUICK", 0.0)
        found = run.leave_one_out([1, 10], of_run=True)
    mean = run.leave_one_out([1, 10])
    for each in (few, found):
        assert (np.abs(each.mean_square - mean.mean_square - spread) <= each.error).all()
        assert (each.error <= mean.error + 0.1 * mean.standard_error + 1e-12).all()


@pytest.mark.slow
def test_the_test_error_is_predicted():
    """The mean of leave-one-out over twenty draws is risk plus noise, within four standard errors."""
    off = []
    for seed in range(20):
        data = rs.gaussian(60, 30, noise=0.7, seed=seed)
        run = rs.descend(data, rs.SampleReshuffling(batch_size=10), alpha=0.3)
        off.append(run.leave_one_out([2, 10, 60]).mean_square - run.risk([2, 10, 60]).total - 0.49)
    error = np.std(off, axis=0, ddof=1) / math.sqrt(20)
    assert (np.abs(np.mean(off, axis=0)) < 4 * error).all()


@for_all(
    "rows, match",
    [([10], "rows"), ([-1], "rows"), ([1, 1], "rows"), ([0.5], "rows"), ([], "rows"), ([[1]], "rows")],
)
def test_rows_that_are_not_there(rows, match):
    run = rs.descend(problem(10, 3), rs.FullBatch(), step=0.1)
    with pytest.raises((ValueError, TypeError), match=match):
        run.leave_one_out(3, rows=rows)


def test_what_formulas_know_poorly_is_run_again():
    """Features at the ends of double precision, epochs without number: refits know them all.

    The first epochs of runs that diverge are followed one by one.
    """
    data = problem(6, 2)
    scaled = rs.LeastSquares(data.X * [1.0, 1e-9], data.y)
    critical = float(rs.critical_step(data, rs.FullBatch()))
    for run, epochs, method in (
        (rs.descend(data, rs.FullBatch(), step=1.5 * critical), [3, 40], "exact"),
        (rs.descend(scaled, rs.FullBatch(), step=0.5 * critical), [10, math.inf], "refits"),
        (rs.descend(data, rs.Cyclic(batches=2), step=0.1 * critical), [10**12], "refits"),
        (rs.descend(data, rs.RandomReshuffling(batches=3), step=1e-3 * critical), [10**12], "refits"),
    ):
        found = run.leave_one_out(epochs)
        assert found.method == method
        for i in range(6):
            alone = run.on(run.problem.without(np.array([i]))).iterate(epochs)
            np.testing.assert_allclose(
                found.residuals[:, i], run.problem.y[i] - alone @ run.problem.X[i], rtol=1e-9
            )


@for_all("size, penalty, starts", pairwise([1e2, 1e6], [0.3, 1.0], [False, True]))
def test_two_batches_are_exact_however_columns_are_scaled(size, penalty, starts):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4, 2)), rng.standard_normal(4)
    X[:, 0] *= size
    largest = np.square(X).sum(axis=1).max()
    start = rng.standard_normal(2) if starts else None
    epochs, step, shrinkage = np.arange(5), 1.3 / largest, penalty * largest
    run = rs.descend(
        rs.LeastSquares(X, y), rs.SampleReshuffling(batch_size=2), step, penalty=shrinkage, start=start
    )
    found = run.leave_one_out(epochs)
    assert found.method == "cavity"
    expected = residuals(X, y, epochs_of_shuffled_samples(4, [2, 2]), step, epochs, start, shrinkage)
    close(found.residuals / np.abs(expected).max(), expected / np.abs(expected).max())


SIZES = [2.0**-330, 2.0**-200, 2.0**300]


def plain_responses():
    rng = np.random.default_rng(0)
    return rng.standard_normal((8, 2)), rng.standard_normal(8)


@for_all(
    "size, scheme, momentum", pairwise(SIZES, [rs.FullBatch(), rs.RandomReshuffling(batches=2)], [0.0, 0.1])
)
def test_the_standard_error_has_the_unit_of_the_test_error(size, scheme, momentum):
    X, y = plain_responses()
    plain, scaled = (
        rs.descend(rs.LeastSquares(X, unit * y), scheme, 0.1, momentum=momentum).leave_one_out([1, 5])
        for unit in (1.0, size)
    )
    squares = np.square(plain.residuals)
    close(plain.standard_error, squares.std(axis=1, ddof=1) / np.sqrt(8))
    for part in ("mean_square", "standard_error"):
        close(getattr(scaled, part) / size / size, getattr(plain, part))


def test_in_the_limit_it_is_that_of_least_squares():
    data = problem(20, 4)
    found = rs.descend(data, rs.FullBatch(), step=0.1).leave_one_out(math.inf)
    fit = data.X @ np.linalg.lstsq(data.X, data.y, rcond=None)[0]
    np.testing.assert_allclose(found.residuals, (data.y - fit) / (1 - data.leverages), rtol=1e-9)
    assert not found.saturated.any()


WHEN = [1, 4, 30]


def both(folder, monkeypatch, *, n=400, outputs=None, weighted=False):
    """The same data on disk and in memory, with a few rows that are far larger."""
    monkeypatch.setattr(sources, "IN_MEMORY", 0.0)
    monkeypatch.setattr(sources, "CHUNK", 250)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3)) * [1.0, 1.5, 2.0]
    X[::90] *= 4
    y = X @ rng.standard_normal((3, outputs or 1)) + rng.standard_normal((n, outputs or 1))
    y = y if outputs else y[:, 0]
    weights = rng.uniform(0.5, 2.0, n) if weighted else None
    np.save(folder / "X.npy", X)
    return [rs.LeastSquares(rows, y, sample_weight=weights) for rows in (folder / "X.npy", X)]


@pytest.mark.parametrize(
    ("scheme", "recipe", "passes"),
    [
        (rs.FullBatch(), {}, 2),
        (rs.FullBatch(), {"momentum": 0.5, "penalty": 0.1}, 2),
        (rs.SampleWithReplacement(batch_size=20), {}, 2),
        (rs.RandomReshuffling(batches=3), {}, 2),
        (rs.RandomReshuffling(batch_size=150, drop_last=True), {"momentum": 0.5}, 2),
        (rs.Cyclic(batches=4), {}, 2),
    ],
)
@pytest.mark.parametrize(("outputs", "weighted"), [(None, True), (2, False)])
def test_exact_answers_are_those_in_memory(tmp_path, monkeypatch, scheme, recipe, passes, outputs, weighted):
    streamed, in_memory = both(tmp_path, monkeypatch, outputs=outputs, weighted=weighted)
    found, expected = (
        rs.descend(problem, scheme, 0.02, **recipe).leave_one_out(WHEN) for problem in (streamed, in_memory)
    )
    assert found.method == expected.method == "exact"
    for name in ("mean_square", "standard_error", "residuals"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-7)
    assert streamed.stream.passes == passes
    some = rs.descend(streamed, scheme, 0.02, **recipe).leave_one_out(WHEN, rows=[250, 3])
    np.testing.assert_allclose(some.residuals, expected.residuals[:, [250, 3]], rtol=1e-7)


@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.6}, {"penalty": 0.1}])
@pytest.mark.parametrize("outputs", [None, 2])
def test_shuffled_samples_are_within_the_error(tmp_path, monkeypatch, recipe, outputs):
    streamed, in_memory = both(tmp_path, monkeypatch, outputs=outputs)
    scheme, step = rs.SampleReshuffling(batch_size=40), 0.01 * (1 - recipe.get("momentum", 0.0))
    found, expected = (
        rs.descend(problem, scheme, step, rtol=0.5, **recipe).leave_one_out(WHEN)
        for problem in (streamed, in_memory)
    )
    assert (found.method, found.error_kind) == ("cavity", "estimate")
    off = np.abs(found.mean_square - expected.mean_square)
    assert (off <= found.error + expected.error).all()
    assert (found.error < found.standard_error).all()
    assert (off > 0).all()
    # The Gram matrix, the weights of the error, and the rows.
    assert streamed.stream.passes == 3
    np.testing.assert_allclose(found.residuals, expected.residuals, atol=0.05)


def test_a_penalty_leaves_shuffled_samples_within_the_error_in_the_end(tmp_path):
    """Where nothing is learned any more, weights of the rows and of the modes move what is left apart."""
    rng = np.random.default_rng(24)
    X = rng.standard_normal((1000, 2))
    y = X @ [1.0, -2.0] + rng.standard_normal(len(X))
    np.save(tmp_path / "X.npy", X)
    problems = rs.LeastSquares(tmp_path / "X.npy", y, in_memory=False), rs.LeastSquares(X, y)
    found, truth = (
        rs.descend(problem, rs.SampleReshuffling(batch_size=10), 0.1, penalty=0.05, rtol=rtol).leave_one_out(
            40
        )
        for problem, rtol in zip(problems, (0.5, 1e-4), strict=True)
    )
    assert abs(found.mean_square - truth.mean_square) <= found.error < 0.1 * found.standard_error


def test_what_takes_runs_without_a_row_is_refused(tmp_path, monkeypatch):
    streamed, _ = both(tmp_path, monkeypatch)
    run = rs.descend(streamed, rs.RandomReshuffling(batches=3), 0.02, average=rs.EMA(0.9))
    with pytest.raises(rs.UnsupportedError, match="needs the rows one by one"):
        run.leave_one_out(3)


@given(
    highest=st.floats(1e-3, 1.9999),
    share=st.floats(0.0, 1.0),
    last=st.integers(1, 10**6),
)
def test_paces_between_zero_and_two(highest, share, last):
    decay_rate, counts = share * highest, np.unique([1.0, math.ceil(math.sqrt(last)), last])
    curve = around(0.0, highest, float(last))
    found = 2 * (curve.powers(counts) / (decay_rate - curve.nodes)).sum(axis=1).real
    _, want = power_and_sum(np.array([decay_rate]), counts)
    np.testing.assert_allclose(found, want[:, 0], rtol=1e-9, atol=1e-12 * last)


@for_all("beside", [0.3 + 0.01j, 1.0 + 0.7j, 0.05 + 0.05j, 1.9 + 0.05j])
def test_complex_paces_beside_the_slit(beside):
    curve = around(0.0, 1.5, 500.0, np.array([beside, beside.conjugate()]))
    counts = np.array([1.0, 20.0, 500.0])
    for decay_rate in (0.0, 0.4, 1.5):
        _, want = power_and_sum(np.array([decay_rate]), counts)
        found = 2 * (curve.powers(counts) / (decay_rate - curve.nodes)).sum(axis=1).real
        np.testing.assert_allclose(found, want[:, 0], rtol=1e-10)
    pair = (curve.powers(counts) * (1 / (beside - curve.nodes) + 1 / (beside.conjugate() - curve.nodes))).sum(
        axis=1
    )
    np.testing.assert_allclose(2 * pair.real, 2 * ((1 - (1 - beside) ** counts) / beside).real, rtol=1e-9)


def test_paces_on_the_way_to_divergence_are_refused():
    with pytest.raises(ArithmeticError, match="diverge"):
        around(0.0, 1.5, 1000.0, np.array([1 + 0.9999j]))


@for_all("nesterov", [False, True])
@for_all("step, rel", [(3e-8, 1e-12), (1e-4, 1e-10)])
def test_limits_with_momentum_are_as_exact_at_tiny_steps(step, rel, nesterov):
    """Consistent rows end at the shortest solution, whatever the step."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((8, 12)), rng.standard_normal(8)
        scheme = rs.RandomReshuffling(batches=4)
        found = rs.descend(rs.LeastSquares(X, y), scheme, step, momentum=0.5, nesterov=nesterov)
        without = [np.linalg.pinv(np.delete(X, i, 0)) @ np.delete(y, i) for i in range(8)]
        want = np.square(y - np.einsum("ij,ij->i", X, without)).mean()
        assert float(found.leave_one_out(math.inf).mean_square) == pytest.approx(want, rel=rel)
