"""Influence and prediction intervals beside runs that are followed, order by order, without each row."""

import math

import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all, pairwise
from tests.validation.enumerated import problem

EPOCHS = [0, 1, 6, 40]
NEW = np.random.default_rng(5).standard_normal((4, 12))


@for_all(
    "recipe, scheme, p",
    pairwise(
        [{}, {"momentum": 0.5}, {"momentum": 0.95}],
        [rs.FullBatch(), rs.RandomReshuffling(batch_size=3), rs.Cyclic(batch_size=4)],
        [3, 12],
    ),
)
def test_thousands_of_epochs_are_an_integral(scheme, recipe, p):
    """The first epochs are followed one by one, but not so many."""
    data, epochs, step = problem(9, p, outputs=2), [7, 30_000], 2e-5
    run = rs.descend(data, scheme, step=step, **recipe)
    found = run.influence(NEW[:, :p], epochs, rows=[7, 2])
    for place, row in enumerate((7, 2)):
        kept = (np.arange(9) != row)[:, np.newaxis]
        alone = rs.descend(rs.LeastSquares(data.X * kept, data.y * kept), scheme, step=step, **recipe)
        want = alone.predict(NEW[:, :p], epochs) - run.predict(NEW[:, :p], epochs)
        np.testing.assert_allclose(found.values[:, place], want, atol=1e-9 * np.abs(want).max())


@pytest.mark.parametrize(
    ("scheme", "n", "recipe"),
    [
        (rs.SampleReshuffling(batch_size=2), 8, {}),
        (rs.SampleReshuffling(batch_size=2), 8, {"momentum": 0.8, "nesterov": True, "penalty": 0.1}),
        (rs.SampleReshuffling(batch_size=3), 9, {"momentum": 0.9}),
        (rs.GroupReshuffling(batch_size=2, rows=2), 12, {"momentum": 0.5}),
        (rs.RandomReshuffling(batches=6), 18, {}),
        (rs.RandomReshuffling(batches=6), 18, {"momentum": 0.5}),
    ],
)
def test_formulas_are_within_their_error(scheme, n, recipe, monkeypatch):
    """Against exact runs without each row, or without each sample of several rows."""
    size = scheme.rows_per_unit
    for seed in range(2):
        data = problem(n, 2, seed=seed)
        alpha = 0.4 * (1 - recipe.get("momentum", 0.0)) * float(rs.critical_step(data, rs.FullBatch()))
        run = rs.descend(data, scheme, alpha=alpha, **recipe)
        whole = run.predict(NEW[:, :2], [1, 5, 40])
        samples = [np.arange(row // size * size, row // size * size + size) for row in range(n)]
        alone = [run.without(rows).predict(NEW[:, :2], [1, 5, 40]) - whole for rows in samples]
        with monkeypatch.context() as patch:
            patch.setattr("reshuffle.validation.row_updates.MOST_BATCHES", 0)
            affordable = "reshuffle.validation.leave_one_out.RowsLeftOut._refits_are_affordable"
            patch.setattr(affordable, lambda rows, count, operations: False)
            found = run.influence(NEW[:, :2], [1, 5, 40])
        assert found.method == "cavity"
        off = np.abs(found.values - np.stack(alone, axis=1)).max(axis=(1, 2))
        assert (off <= found.error).all()
        assert (found.error < np.abs(found.values).max(axis=(1, 2))).all()


def test_drawn_orders_answer_where_rows_overshoot():
    """In one column the mean over all orders is known: a row's visits commute with all others."""
    n = 40
    x, y = np.sqrt([2.9] + [0.05] * (n - 2) + [0.9]), np.ones(n)
    run = rs.descend(rs.LeastSquares(x[:, np.newaxis], y), rs.SampleReshuffling(batch_size=1), step=1.0)
    found = run.influence([[1.0]], [10], rows=[0, 5, 39])
    assert found.method == "drawn orders"

    def learned(kept):
        taken, places = kept * np.square(x), np.polynomial.legendre.leggauss(n)
        factors = 1 - np.multiply.outer((places[0] + 1) / 2, taken)
        after = [places[1] / 2 @ np.prod(np.delete(factors, j, axis=1), axis=1) for j in range(n)]
        rate = math.prod(1 - taken)
        return (kept * x * y) @ np.array(after) * (1 - rate**10) / (1 - rate)

    want = [learned(np.arange(n) != row) - learned(np.ones(n)) for row in (0, 5, 39)]
    assert (np.abs(found.values[0, :, 0] - want) <= found.error[0]).all()
    assert found.error[0] < 0.5 * np.abs(want).max()


def test_what_diverges_has_no_finite_influence():
    run = rs.descend(rs.gaussian(90, 3, noise=0.5, seed=0), rs.SampleReshuffling(batches=45), step=3.0)
    with pytest.warns(rs.AccuracyWarning, match="diverges"):
        found = run.influence(NEW[:, :3], [0, 30])
    assert not found.values[0].any()
    assert np.isinf(found.values[1]).all()


def jackknife_plus(data, scheme, step, epoch, coverage):
    """Ends (new rows,) by runs on problems with a row of zeros, sorted by hand."""
    below, above = [], []
    for i in range(data.n):
        kept = np.arange(data.n) != i
        alone = rs.descend(rs.LeastSquares(data.X * kept[:, np.newaxis], data.y * kept), scheme, step)
        residual = abs(data.y[i] - data.X[i] @ alone.iterate(epoch))
        predicted = alone.predict(NEW[:, : data.p], epoch)
        below.append(predicted - residual)
        above.append(predicted + residual)
    place = math.ceil(coverage * (data.n + 1)) - 1
    return -np.sort(-np.array(below), axis=0)[place], np.sort(above, axis=0)[place]


@for_all("scheme", [rs.FullBatch(), rs.RandomReshuffling(batches=3)])
@for_all("coverage", [0.5, 0.8])
def test_intervals_are_those_of_the_jackknife_plus(scheme, coverage):
    data = problem(12, 3)
    found = rs.descend(data, scheme, 0.05).prediction_interval(NEW[:, :3], [5, 2, 5], coverage)
    for place, epoch in enumerate((5, 2, 5)):
        lower, upper = jackknife_plus(data, scheme, 0.05, epoch, coverage)
        np.testing.assert_allclose(found.lower[place], lower, atol=1e-11)
        np.testing.assert_allclose(found.upper[place], upper, atol=1e-11)


def test_intervals_of_several_outputs_and_of_few_rows():
    data = problem(12, 3, outputs=2)
    run = rs.descend(data, rs.FullBatch(), 0.05)
    both, alone = (
        run.prediction_interval(NEW[:, :3], 5, 0.8),
        run.output(1).prediction_interval(NEW[:, :3], 5, 0.8),
    )
    assert both.lower.shape == (4, 2)
    np.testing.assert_allclose(both.upper[:, 1], alone.upper, atol=1e-12)
    unknown = run.prediction_interval(NEW[:, :3], 5, 0.95)
    assert np.isneginf(unknown.lower).all()
    assert np.isposinf(unknown.upper).all()


@for_all(
    "arguments, match",
    [
        (([[1.0]], 3), "X_new must have 3 columns"),
        ((NEW[:, :3], 3, 1.0), "coverage must be between 0 and 1"),
        ((NEW[:, :3], 3, 0.0), "coverage must be"),
    ],
)
def test_arguments_of_intervals_that_make_no_sense(arguments, match):
    with pytest.raises(ValueError, match=match):
        rs.descend(problem(12, 3), rs.FullBatch(), 0.05).prediction_interval(*arguments)


@for_all("rows", [[12], [[0], [12]], [1, 1], 3, "all"])
def test_rows_that_are_not_there(rows):
    with pytest.raises((ValueError, TypeError), match="rows"):
        rs.descend(problem(12, 3), rs.FullBatch(), 0.05).influence(NEW[:, :3], 3, rows=rows)


def test_what_has_neither_a_formula_nor_the_budget_for_runs_is_refused():
    run = rs.descend(
        rs.gaussian(300, 3, seed=0),
        rs.SampleReshuffling(batches=30),
        alpha=0.3,
        average=rs.EMA(0.5),
        budget=1e9,
    )
    with pytest.raises(rs.UnsupportedError, match=r"influence has no formula for .* run\.without"):
        run.influence(NEW[:, :3], 2)


def test_groups_of_rows_are_deleted_together():
    """Against runs on the problem with rows of zeros, the truth and the noise of which are known too."""
    drawn = rs.gaussian(9, 3, noise=0.5, seed=0)
    run = rs.descend(drawn, rs.RandomReshuffling(batch_size=3), step=0.05)
    found = run.influence(NEW[:, :3], EPOCHS, rows=[[0, 4], [8]])
    for place, rows in enumerate(([0, 4], [8])):
        kept = (~np.isin(np.arange(9), rows)).astype(float)
        twin = rs.LeastSquares(drawn.X * kept[:, np.newaxis], drawn.y * kept, drawn.beta_star, noise=0.5)
        alone, same = rs.descend(twin, run.scheme, step=0.05), run.without(rows)
        want = alone.predict(NEW[:, :3], EPOCHS) - run.predict(NEW[:, :3], EPOCHS)
        np.testing.assert_allclose(found.values[:, place], want, atol=1e-12)
        np.testing.assert_allclose(same.risk(EPOCHS).total, alone.risk(EPOCHS).total, rtol=1e-12)


@for_all(
    "scheme, recipe, p",
    pairwise(
        [
            rs.FullBatch(),
            rs.Cyclic(batch_size=4),
            rs.ShuffleOnce(batches=2),
            rs.RandomReshuffling(batch_size=3),
            rs.RandomReshuffling(batch_size=2, drop_last=True),
            rs.SampleWithReplacement(batch_size=3),
            rs.WithReplacement(batches=3),
        ],
        [{"momentum": 0.5}, {"momentum": 0.9, "nesterov": True, "penalty": 0.1}, {"average": rs.EMA(0.5)}],
        [3, 12],
    ),
)
def test_momentum_averages_and_limits(scheme, recipe, p):
    """Both influence and leave-one-out, against runs on the problem with a row of zeros."""
    data, epochs, new = problem(9, p), [0, 1, 6, 100, math.inf], NEW[:, :p]
    run = rs.descend(data, scheme, step=0.05, start=np.ones(p), **recipe)
    found, left = run.influence(new, epochs, rows=[7, 2]), run.leave_one_out(epochs, rows=[7, 2])
    assert found.method == left.method == ("refits" if "average" in recipe else "exact")
    for place, row in enumerate((7, 2)):
        alone = run.on(data.without(np.array([row])))
        want = alone.predict(new, epochs) - run.predict(new, epochs)
        np.testing.assert_allclose(found.values[:, place], want, atol=1e-11)
        residual = data.y[row] - alone.iterate(epochs) @ data.X[row]
        np.testing.assert_allclose(left.residuals[:, place], residual, atol=1e-9)
