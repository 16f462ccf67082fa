"""Labels of classes, where rows and responses are given."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.utils.class_weight import compute_sample_weight

import reshuffle as rs
from reshuffle.problem.classes import Classes
from tests.looped import for_all


@pytest.mark.slow
def test_labels_are_found_by_their_kind_and_numbers_by_being_told():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    options = {"batch_sizes": [30], "epochs": 50, "verify": False}
    found = rs.plan(X, names, **options)
    assert found.classes.tolist() == ["setosa", "versicolor", "virginica"]
    assert rs.plan(X, y, classes=True, **options).best.test_error == pytest.approx(found.best.test_error)
    numbers = rs.plan(X, np.eye(3)[y], **options)
    assert numbers.best.test_error == pytest.approx(found.best.test_error)
    assert numbers.classes is None
    assert rs.plan(X, y, **options).problem.outputs is None
    with pytest.raises(TypeError, match=r"plan\(X, labels\) and MiniBatchClassifier learn classes"):
        rs.LeastSquares(X, names)
    assert any("3 classes" in note for note in found.notes)
    assert any("classes=True" in note for note in rs.plan(X, y, **options).notes)
    # Whole numbers, text and flags of two classes.
    pairs = [y == 1, (y == 1).astype(str), np.where(y == 1, "one", "all").astype(object), 2.0 * (y == 1) - 1]
    told = [rs.plan(X, pair, **options).best.test_error for pair in pairs]
    np.testing.assert_allclose(told[:2] + told[3:], told[0])
    assert told[2] == pytest.approx(told[0])


def test_the_accuracy_of_a_plan_is_that_of_left_out_rows_of_its_run():
    X, y = load_wine(return_X_y=True)
    labels = np.array(["a", "b", "c"])[y]
    plan = rs.plan(X[::2], labels[::2], batch_sizes=[16], epochs=30)
    found = plan.run.leave_one_out(plan.best.epochs, centred=True)
    assert plan.accuracy == float(found.accuracy)
    assert any(
        "3 classes, learned by squared loss as a column of 0 and 1 each" in note for note in plan.notes
    )
    assert plan.classification.of_mean == found.accuracy_of_mean
    assert plan.classification.confusion.shape == (3, 3)
    coefficients, intercept = plan.coefficients
    held_out = np.mean((X[1::2] @ coefficients + intercept).argmax(axis=1) == y[1::2])
    assert abs(plan.accuracy - held_out) < 0.05
    assert plan.check_on(X[1::2], labels[1::2]).rows == len(X[1::2])
    with pytest.raises(rs.ArgumentError, match="y must have labels among"):
        plan.check_on(X[:2], ["a", "d"])


@pytest.mark.parametrize("kind", [str, bool])
def test_programs_learn_and_tell_labels(kind):
    X, y = load_wine(return_X_y=True)
    labels = np.array(["a", "b", "c"])[y] if kind is str else y == 0
    plan = rs.plan(X, labels, batch_sizes=[len(X)], epochs=30)
    space = {"X": X, "y": labels}
    exec(plan.to_torch(), space)
    told = np.asarray(space["predicted_labels"](X))
    assert np.mean(told == labels) > 0.95
    crossed = {"X": X, "y": labels}
    exec(plan.to_torch(loss="cross_entropy"), crossed)
    assert np.mean(np.asarray(crossed["predicted_labels"](X)) == labels) > 0.95
    fitted = {"X": X, "y": labels}
    exec(plan.to_sklearn(), fitted)
    assert np.mean(fitted["model"].predict(X) == told) > 0.99


def test_cross_entropy_is_for_classes():
    X, y = load_wine(return_X_y=True)
    numbers = rs.plan(X, 1.0 * y, batch_sizes=[len(X)], epochs=5)
    with pytest.raises(rs.UnsupportedError, match="cross-entropy is for classes"):
        numbers.to_torch(loss="cross_entropy")
    with pytest.raises(ValueError, match="loss must be"):
        numbers.to_torch(loss="hinge")


def test_balanced_weights_are_those_of_scikit_learn():
    X, y = load_wine(return_X_y=True)
    X, y = X[:80], y[:80] == 0
    weights = compute_sample_weight("balanced", y)
    np.testing.assert_allclose(Classes.of(y).balanced, weights)
    options = {"batch_sizes": [16], "epochs": 20, "verify": False}
    plans = [rs.plan(X, y, sample_weight=given, **options) for given in ("balanced", weights, None)]
    assert all(
        any("2 classes, learned by squared loss as -1 and 1" in note for note in plan.notes) for plan in plans
    )
    errors = [plan.test_error for plan in plans]
    assert errors[0] == pytest.approx(errors[1], rel=1e-12)
    assert errors[0] != pytest.approx(errors[2], rel=0.01)


@for_all(
    "labels, message",
    [
        ([["a"], ["b"]], "one label per row"),
        (["a", "a"], "at least two classes"),
        (np.array(["a", None, "b"], dtype=object), r"a label in every row, but y\[1\] is None"),
        ([1.0, float("nan"), 2.0], r"a label in every row, but y\[1\] is nan"),
        (np.array(["a", 1], dtype=object), "labels of one kind, but they are int and str"),
    ],
)
def test_bad_labels(labels, message):
    with pytest.raises(rs.ArgumentError, match=message):
        rs.plan(np.ones((len(labels), 1)), labels, classes=True)


@pytest.mark.slow
def test_a_plan_by_accuracy_takes_the_recipe_that_tells_most_left_out_rows_right():
    X, y = load_wine(return_X_y=True)
    noisy = X + 2 * X.std(axis=0) * np.random.default_rng(0).standard_normal(X.shape)
    plan = rs.plan(noisy, y, classes=True, batch_sizes=[8, 178], steps=[0.5], epochs=30)
    chosen, recipes = plan.by_accuracy(), (plan.best, *plan.runners_up)
    told = []
    for recipe in recipes:
        run = rs.descend(plan.problem, **recipe.arguments)
        told.append(run.leave_one_out(recipe.epochs, centred=True).classification)
    highest = max(told, key=lambda one: one.accuracy)
    place = recipes.index(chosen.best)
    assert chosen.accuracy == float(told[place].accuracy)
    assert chosen.accuracy >= highest.accuracy - highest.standard_error / 4
    assert all(one.accuracy < highest.accuracy - highest.standard_error / 4 for one in told[:place])
    assert {id(recipe) for recipe in (chosen.best, *chosen.runners_up)} == set(map(id, recipes))
    # A plan for numbers has no accuracy.
    with pytest.raises(rs.ArgumentError, match="y must have classes"):
        rs.plan(noisy, noisy[:, 0] ** 2, batch_sizes=[178], epochs=5).by_accuracy()
