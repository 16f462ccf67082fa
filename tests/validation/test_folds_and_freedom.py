"""Folds, degrees of freedom, the ridge that a run equals, criteria, and rows that are centred anew."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold, LeaveOneOut, TimeSeriesSplit, cross_val_predict

import reshuffle as rs
from tests.looped import for_all
from tests.oracles.every_order import epochs_reshuffled
from tests.training import centred, train
from tests.validation.enumerated import residuals

DATA = rs.gaussian(30, 6, noise=0.5, seed=2)
WIDE = rs.gaussian(12, 20, noise=0.5, seed=3)
SCHEMES = [
    rs.FullBatch(),
    rs.RandomReshuffling(batch_size=8),
    rs.SampleReshuffling(batch_size=10),
    rs.WithReplacement(batch_size=8),
    rs.Cyclic(batch_size=8),
    rs.ShuffleOnce(batches=3),
]


@for_all("scheme", SCHEMES)
@for_all("outputs", [None, 2])
def test_folds_are_runs_on_the_other_rows(scheme, outputs):
    y = DATA.y if outputs is None else np.column_stack([DATA.y, DATA.X[:, 0] ** 2])
    run = rs.descend(rs.LeastSquares(DATA.X, y), scheme, step=0.05)
    cuts = list(KFold(4, shuffle=True, random_state=0).split(DATA.X))
    found = run.cross_validate([1, 20, math.inf], folds=KFold(4, shuffle=True, random_state=0))
    for kept, test in cuts:
        alone = rs.descend(rs.LeastSquares(DATA.X[kept], y[kept]), scheme, step=0.05)
        want = y[test] - alone.predict(DATA.X[test], [1, 20, math.inf])
        np.testing.assert_allclose(found.residuals[:, test], want, atol=1e-9)
    np.testing.assert_allclose(found.mean_square, np.square(found.residuals).mean(axis=1), rtol=1e-12)
    assert found.fold_mean_squares.shape == (4, *found.mean_square.shape)
    given = run.cross_validate([1, 20, math.inf], folds=cuts)
    np.testing.assert_allclose(given.mean_square, found.mean_square, rtol=1e-12)


def test_folds_by_number_cover_all_rows_and_some_splitters_do_not():
    run = rs.descend(DATA, rs.RandomReshuffling(batch_size=8), step=0.05)
    assert sorted(np.concatenate(run.cross_validate(5, folds=7).folds)) == list(range(30))
    assert len(run.cross_validate(5, folds=TimeSeriesSplit(3)).rows) == 21


@for_all(
    "folds", [1, 31, 2.5, [], [([0, 1], [1])], [([0], [1]), ([0], [1])], [([0], [40])], [([0], [])], "5"]
)
def test_folds_that_make_no_sense(folds):
    run = rs.descend(DATA, rs.FullBatch(), step=0.05)
    with pytest.raises((ValueError, TypeError), match="folds"):
        run.cross_validate(3, folds=folds)


def test_batches_with_members_of_their_own_cannot_be_cut_anew():
    run = rs.descend(DATA, rs.RandomReshuffling(batches=[range(15), range(15, 30)]), step=0.05)
    with pytest.raises(ValueError, match="batches"):
        run.cross_validate(3)


def test_folds_that_leave_too_few_rows_for_the_batches():
    run = rs.descend(rs.LeastSquares(np.eye(6), np.ones(6)), rs.RandomReshuffling(batches=4), step=0.1)
    with pytest.raises(
        ValueError, match=r"folds must leave rows .* leaves 3 of 6: batches must be .* more folds"
    ):
        run.cross_validate(3, folds=2)
    assert run.cross_validate(3, folds=6).mean_square > 0


@pytest.mark.parametrize("data", [DATA, WIDE])
def test_the_ridge_with_the_same_freedom(data):
    run = rs.descend(data, rs.RandomReshuffling(batch_size=6), step=0.03)
    found = run.ridge_equivalent([2, 15])
    for number, epoch in enumerate((2, 15)):
        penalty = found.penalty[number]
        ridge = Ridge(alpha=data.n * penalty, fit_intercept=False, tol=1e-14).fit(data.X, data.y)
        values = np.linalg.svd(data.X, compute_uv=False) ** 2 / data.n
        assert math.isclose((values / (values + penalty)).sum(), run.degrees_of_freedom(epoch), rel_tol=1e-9)
        apart = data.X @ (run.iterate(epoch) - ridge.coef_)
        assert math.isclose(found.distance[number], np.linalg.norm(apart) / math.sqrt(data.n), rel_tol=1e-6)
        moved = np.linalg.norm(data.X @ run.iterate(epoch)) / math.sqrt(data.n)
        assert math.isclose(found.share[number], found.distance[number] / moved, rel_tol=1e-9)


def test_the_ridge_at_the_ends_and_of_many_outputs():
    run = rs.descend(rs.LeastSquares(DATA.X, np.column_stack([DATA.y] * 3)), rs.FullBatch(), step=0.1)
    found = run.ridge_equivalent([0, 5, math.inf])
    assert found.distance.shape == (3, 3)
    assert found.penalty[0] == math.inf
    assert found.penalty[2] == 0
    np.testing.assert_allclose(found.distance[[0, 2]], 0, atol=1e-9)


def test_mallows_cp_and_its_noise():
    run = rs.descend(rs.LeastSquares(DATA.X, DATA.y), rs.FullBatch(), step=0.1)
    fit = DATA.X @ np.linalg.lstsq(DATA.X, DATA.y, rcond=None)[0]
    variance = np.square(DATA.y - fit).sum() / 24
    want = np.square(DATA.y - DATA.X @ run.iterate(7)).mean() + 2 * variance * run.degrees_of_freedom(7) / 30
    assert math.isclose(run.mallows_cp(7), want, rel_tol=1e-10)
    assert math.isclose(run.mallows_cp(7, noise=0.0), 2 * run.training_loss(7), rel_tol=1e-12)
    with pytest.raises(rs.MissingTruthError, match="noise"):
        rs.descend(rs.LeastSquares(WIDE.X, WIDE.y), rs.FullBatch(), step=0.1).mallows_cp(7)


def test_generalized_cross_validation_warns():
    run = rs.descend(DATA, rs.FullBatch(), step=0.1)
    with pytest.warns(rs.AccuracyWarning, match="leave_one_out"):
        found = run.generalized_cross_validation(7)
    want = 2 * run.training_loss(7) / (1 - run.degrees_of_freedom(7) / 30) ** 2
    assert math.isclose(found, want, rel_tol=1e-12)


@for_all("scheme", [rs.FullBatch(), rs.RandomReshuffling(batches=3), rs.SampleReshuffling(batch_size=10)])
def test_the_best_epoch_without_the_truth(scheme):
    drawn = rs.gaussian(40, 25, noise=1.0, seed=4)
    run = rs.descend(rs.LeastSquares(drawn.X, drawn.y), scheme, alpha=0.1)
    found = run.best_epoch()
    errors = run.leave_one_out(np.arange(400)).mean_square
    assert found.criterion == "leave-one-out"
    assert found.epoch == int(np.argmin(errors))
    assert math.isclose(found.risk, errors.min(), rel_tol=1e-9)
    known = rs.descend(drawn, scheme, alpha=0.1).best_epoch()
    assert known.criterion == "risk"


def test_folds_at_epochs_that_are_worth_a_look():
    run = rs.descend(DATA, rs.FullBatch(), step=0.05)
    found = run.cross_validate(folds=3)
    assert found.epochs[0] == 0
    assert found.epochs[-1] == math.inf
    assert found.mean_square.shape == found.epochs.shape
    np.testing.assert_allclose(run.cross_validate([4], 3).mean_square, found.mean_square[found.epochs == 4])
    scheduled = rs.descend(DATA, rs.FullBatch(), step=[0.1, 0.05, 0.02])
    assert scheduled.cross_validate(folds=3).epochs.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("method", "kind"), [("sampling", "confidence 99%"), ("cavity", "estimate")])
def test_folds_of_inexact_runs_carry_their_error_and_its_kind(method, kind):
    problem, epochs = rs.gaussian(60, 5, noise=0.5, seed=2), [1, 10]
    scheme = rs.SampleReshuffling(batches=4)
    exact = rs.descend(problem, scheme, alpha=0.4).cross_validate(epochs, 3)
    assert exact.error_kind == "exact"
    assert not exact.error.any()
    assert "+-" not in repr(exact)
    found = rs.descend(problem, scheme, alpha=0.4, method=method, rtol=0.05).cross_validate(epochs, 3)
    assert found.error_kind == kind
    assert (np.abs(found.mean_square - exact.mean_square) <= found.error).all()
    assert (found.error > 0).all()
    assert (found.error < 0.5 * found.mean_square).all()
    assert repr(found).endswith(f" at most ({kind}), 3 folds)")


def test_leaving_out_rows_says_in_which_sense_it_may_be_off():
    problem = rs.gaussian(40, 5, noise=0.5, seed=2)
    exact = rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=0.4).leave_one_out([1, 10])
    assert (exact.error_kind, repr(exact)) == ("exact", "LeaveOneOut(mean_square of shape (2,), exact)")
    samples = rs.descend(problem, rs.SampleReshuffling(batch_size=5), alpha=0.4).leave_one_out([1, 10])
    assert samples.error.any()
    assert samples.error_kind == "estimate"
    assert " at most (estimate), cavity)" in repr(samples)
    assert "(estimate)" in repr(
        rs.descend(problem, rs.SampleReshuffling(batch_size=5), alpha=0.4).leave_one_out(10)
    )


def test_degrees_of_freedom_at_the_ends():
    run = rs.descend(DATA, rs.FullBatch(), step=0.1)
    np.testing.assert_allclose(run.degrees_of_freedom([0, math.inf]), [0, 6], atol=1e-12)
    assert np.isinf(rs.descend(DATA, rs.FullBatch(), step=100.0).degrees_of_freedom(math.inf))


def test_the_best_epoch_of_each_output():
    drawn = rs.gaussian(40, 25, noise=1.0, seed=4)
    y = np.column_stack([drawn.y, drawn.X @ np.ones(25)])
    found = rs.descend(rs.LeastSquares(drawn.X, y), rs.RandomReshuffling(batches=3), alpha=0.1).best_epoch()
    alone = rs.descend(
        rs.LeastSquares(drawn.X, drawn.y), rs.RandomReshuffling(batches=3), alpha=0.1
    ).best_epoch()
    assert found.epoch[0] == alone.epoch
    assert found.epoch[1] == math.inf


def test_more_outputs_than_memory(monkeypatch):
    monkeypatch.setattr("reshuffle._budget.available_bytes", lambda: 1e4)
    run = rs.descend(rs.LeastSquares(DATA.X, np.ones((30, 50))), rs.FullBatch(), step=0.05)
    with pytest.raises(rs.BudgetError, match="columns of y"):
        run.leave_one_out(5)


def drawn(n, p, outputs=None):
    rng = np.random.default_rng(p)
    X = rng.standard_normal((n, p)) + 3.0
    return X, X[:, 0] + rng.standard_normal(n) if outputs is None else rng.standard_normal((n, outputs)) + X[
        :, :1
    ]


@for_all("p, outputs, penalty", [(3, None, 0.0), (15, None, 0.0), (15, 2, 0.5)])
def test_the_limit_is_that_of_regression_or_ridge_with_an_intercept(p, outputs, penalty):
    X, y = drawn(12, p, outputs)
    run = rs.descend(rs.LeastSquares(*centred(X, y)), rs.FullBatch(), step=0.01, penalty=penalty)
    found = run.leave_one_out(math.inf, centred=True)
    model = Ridge(alpha=12 * penalty) if penalty else LinearRegression()
    want = y - cross_val_predict(model, X, y, cv=LeaveOneOut())
    np.testing.assert_allclose(found.residuals, want, rtol=1e-8 if penalty else 1e-6)
    assert found.saturated.all() == (p > 12)


@for_all("weights", [None, np.arange(1.0, 13.0)])
@for_all("scheme", [rs.FullBatch(), rs.SampleWithReplacement(batch_size=4)])
def test_finite_epochs_with_the_means_of_the_others(scheme, weights):
    X, y = drawn(12, 4)
    problem = rs.LeastSquares(*centred(X, y, weights), sample_weight=weights)
    found = rs.descend(problem, scheme, step=0.02).leave_one_out([1, 9], centred=True)
    w = np.ones(12) if weights is None else weights
    for i in range(12):
        kept = np.where(np.arange(12) == i, 0.0, w)
        A, t = centred(X, y, kept)
        for number, epoch in enumerate((1, 9)):
            b = train(A, t, [range(12)] * (epoch * scheme.steps(12)), rate=0.02, weights=kept)
            np.testing.assert_allclose(found.residuals[number, i], t[i] - A[i] @ b, rtol=1e-9)


@pytest.mark.parametrize("p", [3, 15])
def test_batches_feel_the_means_on_average(p):
    """Centring moves all rows of all batches a little, which the formula knows on average alone."""
    X, y = drawn(12, p)
    problem, orders = (
        rs.LeastSquares(*centred(X, y)),
        epochs_reshuffled([range(6), range(6, 12)]),
    )
    found = rs.descend(problem, rs.RandomReshuffling(batches=2), step=0.05).leave_one_out([5], centred=True)
    for i in range(12):
        kept = np.where(np.arange(12) == i, 0.0, 1.0)
        A, t = centred(X, y, kept)
        want = residuals(A, t, orders, 0.05, [5])[0, i]
        given = residuals(problem.X, problem.y, orders, 0.05, [5])[0, i]
        assert abs(found.residuals[0, i] - want) < 0.35 * abs(given - want) + 1e-3


@for_all(
    "scheme", [rs.RandomReshuffling(batches=2), rs.SampleReshuffling(batch_size=6), rs.Cyclic(batches=2)]
)
def test_what_is_not_there_is_not_known(scheme):
    """Pure noise, more columns than rows: the rows add up to zero, and would be known by the others."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 60)), rng.standard_normal(30)
    run = rs.descend(rs.LeastSquares(*centred(X, y)), scheme, alpha=0.02)
    late = [10**4, math.inf]
    assert (run.leave_one_out(late).mean_square < 1e-3).all()
    assert (run.leave_one_out(late, centred=True).mean_square > 0.7 * y.var()).all()


def test_refits_and_folds_are_centred_anew():
    X, y = drawn(10, 3)
    problem = rs.LeastSquares(*centred(X, y))
    run = rs.descend(problem, rs.RandomReshuffling(batches=2), step=0.05, average=rs.EMA(0.5))
    found = run.leave_one_out([7], centred=True)
    assert found.method == "refits"
    for i in range(10):
        kept = np.where(np.arange(10) == i, 0.0, 1.0)
        A, t = centred(X, y, kept)
        alone = run.on(rs.LeastSquares(A, t).without(np.array([i]))).iterate(7)
        np.testing.assert_allclose(found.residuals[0, i], t[i] - A[i] @ alone, rtol=1e-9)


def test_rows_that_are_not_centred_are_refused():
    with pytest.raises(ValueError, match="centred must be False"):
        rs.descend(rs.LeastSquares(*drawn(10, 3)), rs.FullBatch(), step=0.05).leave_one_out(3, centred=True)


def test_the_best_epoch_of_centred_rows():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((30, 60)), rng.standard_normal(30)
    run = rs.descend(rs.LeastSquares(*centred(X, y)), rs.RandomReshuffling(batches=2), alpha=0.02)
    assert run.best_epoch().risk < 1e-3
    assert run.best_epoch(centred=True).risk > 0.7 * y.var()
