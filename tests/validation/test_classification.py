"""The accuracy to expect of single runs on left-out rows, against runs that are really trained without them."""

import math
from itertools import permutations

import numpy as np
import pytest
from benchmarks.accuracy import split
from sklearn.metrics import confusion_matrix

import reshuffle as rs


def trained(X, Y, batch_size, step, epochs, runs, seed, without=None):
    """Weights (runs, p, t) of runs that are trained step by step, where run r leaves out the gradient of a row."""
    rng, n = np.random.default_rng(seed), len(X)
    weights, counts = np.zeros((runs, X.shape[1], Y.shape[1])), np.ones((runs, n))
    if without is not None:
        counts[np.arange(runs), without] = 0
    for _ in range(epochs):
        orders = np.array([rng.permutation(n) for _ in range(runs)])
        for first in range(0, n, batch_size):
            rows = orders[:, first : first + batch_size]
            missed = (X[rows] @ weights - Y[rows]) * np.take_along_axis(counts, rows, 1)[..., np.newaxis]
            weights -= step / rows.shape[1] * X[rows].swapaxes(1, 2) @ missed
    return weights


def test_against_runs_that_leave_out_each_row():
    X, y, _, _ = split("wine", 0, 0.25)
    X, Y, n, each = X[:, [0, 1, 2, 3, -1]], np.eye(3)[y], len(X), 60
    run = rs.descend(rs.LeastSquares(X, Y), rs.SampleReshuffling(batch_size=4), step=0.4)
    found = run.leave_one_out([0, 3])
    right = np.array([
        (X[row] @ trained(X, Y, 4, 0.4, 3, each, row, np.full(each, row))).argmax(axis=-1) == y[row]
        for row in range(n)
    ])  # fmt: skip
    single, of_mean = found.classification.accuracy[1], found.accuracy_of_mean[1]
    chance = math.sqrt((right.var(axis=1) / each).sum()) / n
    assert chance < 0.01
    assert abs(single - right.mean()) < found.classification.error[1] + 3 * chance
    # Single runs are far from their mean here, or the test would show nothing.
    assert of_mean - right.mean() > 5 * chance
    assert found.classification.error[1] < (of_mean - right.mean()) / 1.5
    assert found.classification.error_kind == "estimate"
    # Nothing is learned before the first epoch, and the first class is what equal scores say.
    assert found.accuracy[0] == found.accuracy_of_mean[0] == (y == 0).mean()


def test_without_randomness_it_is_that_of_refits():
    X, y, _, _ = split("wine", 0, 0.4)
    Y, rows = np.eye(3)[y], np.arange(1, len(X), 2)
    for scheme in (rs.FullBatch(), rs.Cyclic(batch_size=16)):
        run = rs.descend(rs.LeastSquares(X, Y), scheme, step=0.1)
        found = run.leave_one_out([[5, 1], [2, 5]], rows=rows)
        told = []
        for row in rows:
            weights, batch = np.zeros((X.shape[1], 3)), 16 if scheme != rs.FullBatch() else len(X)
            for _ in range(5):
                for first in range(0, len(X), batch):
                    part = np.arange(first, min(first + batch, len(X)))
                    missed = (X[part] @ weights - Y[part]) * (part != row)[:, np.newaxis]
                    weights -= 0.1 / len(part) * X[part].T @ missed
            told.append((X[row] @ weights).argmax())
        accuracy = np.mean(np.array(told) == y[rows])
        assert found.accuracy.shape == (2, 2)
        np.testing.assert_allclose(found.accuracy[[0, 1], [0, 1]], accuracy)
        np.testing.assert_allclose(found.confusion[0, 0], confusion_matrix(y[rows], told))
        np.testing.assert_allclose(found.accuracy, found.accuracy_of_mean)
        made = found.classification
        assert (made.error_kind, made.runs, made.error.max(), made.deviation.max()) == ("exact", 0, 0.0, 0.0)
        spread = math.sqrt(accuracy * (1 - accuracy) / (len(rows) - 1))
        assert made.standard_error[0, 0] == pytest.approx(spread)


def test_the_deviation_is_that_of_the_accuracies_of_all_orders():
    """All 720 orders of six rows, on scores that differ from left-out ones by their means alone."""
    rng = np.random.default_rng(3)
    labels = np.arange(6) % 2
    X = np.column_stack([2 * labels - 1 + 0.8 * rng.standard_normal(6), rng.standard_normal((6, 2))])
    y, heads = 2.0 * labels - 1, []
    for order in permutations(range(6)):
        weights = np.zeros(3)
        for batch in np.split(np.array(order), 3):
            weights -= 0.5 * X[batch].T @ (X[batch] @ weights - y[batch]) / 2
        heads.append(weights)
    heads = np.array(heads)
    run = rs.descend(rs.LeastSquares(X, y), rs.SampleReshuffling(batch_size=2), step=0.5)
    found = run.leave_one_out(1)
    scores = y - found.residuals + (heads - heads.mean(axis=0)) @ X.T
    accuracies = ((scores > 0) == (y > 0)).mean(axis=1)
    made = found.classification
    assert "in a single run" in repr(made)
    assert accuracies.std() > 0.05
    assert abs(made.accuracy - accuracies.mean()) < 4 * accuracies.std() / math.sqrt(made.runs)
    assert made.deviation == pytest.approx(accuracies.std(), rel=0.3)
    assert made.confusion.sum() == pytest.approx(6)
    assert np.trace(made.confusion) / 6 == pytest.approx(made.accuracy)
    # Rows of weight four at a quarter of the step: the same training.
    heavy = rs.LeastSquares(X, y, sample_weight=np.full(6, 4.0))
    same = rs.descend(heavy, run.scheme, step=0.125).leave_one_out(1).classification
    assert float(same.accuracy) == pytest.approx(float(made.accuracy))
    assert float(same.deviation) == pytest.approx(float(made.deviation))


def test_centred_and_weighted_classes_are_those_that_were_given():
    X, y, _, _ = split("breast cancer", 0, 0.2)
    X = X[:, :-1]
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    shares = weights / weights.sum()
    scheme, found = rs.RandomReshuffling(batches=4), []
    # 0 and 1, -1 and 1, a column each; centred by weighted means.
    for targets in (1.0 * y, 2.0 * y - 1, np.eye(2)[y]):
        centred = targets - shares @ targets
        problem = rs.LeastSquares(X - shares @ X, centred, sample_weight=weights)
        found.append(rs.descend(problem, scheme, step=0.02).leave_one_out(20, centred=True))
    first = found[0].classification
    for other in found[1:]:
        assert other.accuracy == pytest.approx(float(first.accuracy))
        np.testing.assert_allclose(other.confusion, first.confusion)
    scores = 2 * y - 1 - found[1].residuals
    assert found[1].accuracy_of_mean == pytest.approx(shares @ ((scores > 0) == (y == 1)))
    np.testing.assert_allclose(first.confusion.sum(axis=1), np.bincount(y, weights))


def test_divergence_and_what_cannot_be_asked():
    X, y, _, _ = split("wine", 0, 0.3)
    run = rs.descend(rs.LeastSquares(X, np.eye(3)[y]), rs.SampleReshuffling(batch_size=8), step=0.05)
    with pytest.raises(ValueError, match="epochs must be finite for the accuracy of single runs"):
        _ = run.leave_one_out([1, math.inf]).accuracy
    assert run.leave_one_out([1, math.inf]).accuracy_of_mean[1] > 0.8
    numbers = rs.descend(rs.LeastSquares(X, X[:, 0]), rs.FullBatch(), step=0.05).leave_one_out(1)
    with pytest.raises(rs.ArgumentError, match="y must have classes to ask for accuracy"):
        _ = numbers.accuracy
    two = rs.descend(rs.LeastSquares(X, np.ones((len(X), 2))), rs.FullBatch(), step=0.05).leave_one_out(1)
    with pytest.raises(rs.ArgumentError, match="y must have classes"):
        _ = two.accuracy_of_mean
    wild = rs.descend(rs.LeastSquares(X, np.eye(3)[y]), rs.FullBatch(), step=50.0)
    assert wild.leave_one_out(500).accuracy == 0.0
    long = rs.descend(run.problem, run.scheme, step=0.05, budget=1.0)
    with pytest.raises(rs.BudgetError, match="accuracy of 32 single runs"):
        _ = long.leave_one_out(10**6).accuracy
