"""Folds, degrees of freedom, the ridge that a run equals, and the classical criteria."""

import math

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, TimeSeriesSplit

import reshuffle as rs
from tests.looped import for_all

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
    for train, test in cuts:
        alone = rs.descend(rs.LeastSquares(DATA.X[train], y[train]), scheme, step=0.05)
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
