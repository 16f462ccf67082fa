"""The test error that a plan predicts, on rows that it has not seen; and the programs that it writes."""

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.errors import UnsupportedError
from tests.looped import for_all

rng = np.random.default_rng(3)
X = rng.standard_normal((120, 4)) * [1.0, 5.0, 0.1, 2.0] + 3.0
Y = X @ rng.standard_normal((4, 2)) + 7.0 + rng.standard_normal((120, 2))


@pytest.mark.parametrize("outputs", [None, 2])
def test_the_mean_run_has_the_error_of_its_coefficients(outputs):
    y = Y if outputs else Y[:, 0]
    plan = rs.plan(X[:80], y[:80], batch_sizes=[20], epochs=60)
    check = plan.check_on(X[80:], y[80:])
    slopes, intercept = plan.coefficients
    squares = np.square(X[80:] @ slopes + intercept - y[80:]).reshape(40, -1)
    assert check.found == pytest.approx(squares.mean())
    np.testing.assert_allclose(check.of_outputs, squares.mean(axis=0))
    assert check.found_error == pytest.approx(squares.mean(axis=1).std(ddof=1) / np.sqrt(40))
    assert (check.predicted, check.predicted_error) == (plan.test_error, plan.standard_error)
    assert check.rows == 40


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [None, 2])
def test_a_single_run_adds_the_spread_of_its_predictions(outputs):
    y = Y if outputs else Y[:, 0]
    plan = rs.plan(X[:80], y[:80], batch_sizes=[20], steps=[0.5], epochs=20)
    added = [
        plan.check_on(X[80:], y[80:], seed=seed).single_run - plan.check_on(X[80:], y[80:]).found
        for seed in range(150)
    ]
    rows = plan.standardizer.rows(X[80:])
    expected = np.square(plan.run.covariance(plan.best.epochs).deviation(rows)).mean()
    assert expected > 0
    assert abs(np.mean(added) - expected) < 4 * np.std(added) / np.sqrt(len(added))


def test_other_data_do_not_agree_and_all_rows_at_once_have_no_spread():
    whole = rs.plan(X[:80], Y[:80, 0], batch_sizes=[80], epochs=60).check_on(X[80:], Y[80:, 0])
    assert whole.single_run == pytest.approx(whole.found)
    plan = rs.plan(X[:80], Y[:80, 0], batch_sizes=[20], epochs=60)
    check, broken = (plan.check_on(X[80:], Y[80:, 0] + moved) for moved in (0.0, 20.0))
    assert check.agrees
    assert not broken.agrees
    assert broken.deviations > 2
    assert plan.check_on(X[80:81], Y[80:81, 0]).agrees
    assert repr(check).startswith("HoldoutCheck(predicted ")
    assert repr(check).endswith(" on 40 rows: they agree)")
    assert check.to_dict()["agrees"] is True


def executed(program, **names):
    exec(compile(program, "program", "exec"), names)
    return names


@for_all("outputs", [None, 2])
@for_all("wanted", [{}, {"standardize": False, "intercept": False}])
def test_programs_train_as_planned(outputs, wanted):
    pytest.importorskip("torch")
    features = np.column_stack([X, np.full(120, 3.0)]) if not wanted else X - 3.0
    y = (Y if outputs else Y[:, 0]) - 7.0 * bool(wanted)
    plan = rs.plan(features[:80], y[:80], batch_sizes=[80], epochs=60, penalties=[0.01], **wanted)
    coefficients, intercept = plan.coefficients
    expected = features[80:] @ coefficients + intercept
    model = executed(plan.to_sklearn(), X=features[:80], y=y[:80])["model"]
    np.testing.assert_allclose(model.predict(features[80:]), expected, rtol=1e-4)
    # One batch of all rows is not random: torch, in single precision, ends where the mean does.
    predict = executed(plan.to_torch(), X=features[:80], y=y[:80])["predict"]
    np.testing.assert_allclose(predict(features[80:]).reshape(expected.shape), expected, rtol=1e-3, atol=1e-3)


def test_programs_read_what_they_are_told_to():
    plan = rs.plan(X[:80], Y[:80, 0], batch_sizes=[20], epochs=60)
    for program in (plan.to_torch(reading="X, y = load()"), plan.to_sklearn(reading="X, y = load()")):
        assert "import pandas as pd" in program
        assert "\nX, y = load()\n" in program
    assert "batch_size=20" in plan.to_torch()
    for other in ({"scheme": rs.Cyclic(batch_size=20)}, {"sample_weight": np.linspace(1, 2, 80)}):
        with pytest.raises(UnsupportedError, match="programs are written for rows without weights"):
            rs.plan(X[:80], Y[:80, 0], batch_sizes=[20], epochs=20, verify=False, **other).to_torch()
