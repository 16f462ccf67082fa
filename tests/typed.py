"""A user's program, which mypy --strict reads beside the package: the types that an editor shows are these."""

from typing import assert_type

import reshuffle as rs
from reshuffle import asymptotics, free
from reshuffle._arrays import FloatArray
from reshuffle.sklearn import MiniBatchClassifier, MiniBatchRegressor, MiniBatchRegressorCV


def runs(X: FloatArray, y: FloatArray) -> None:
    """A plan, a run and what it is asked."""
    plan = rs.plan(X, y)
    assert_type(plan, rs.Plan)
    assert_type(plan.test_error, float)
    assert_type(plan.interval, tuple[float, float])
    assert_type(plan.to_torch(), str)
    run = rs.descend(rs.LeastSquares(X, y), rs.RandomReshuffling(batches=4), step=0.1, momentum=0.9)
    assert_type(run, rs.Run)
    assert_type(run.risk([1, 10]).total, FloatArray)
    assert_type(run.leave_one_out([1, 10]).mean_square, FloatArray)
    assert_type(run.predict(X, 10), FloatArray)
    assert_type(run.predict(X, 10, return_std=True), tuple[FloatArray, FloatArray])
    assert_type(run.stability().converges, bool)


def estimators(X: FloatArray, y: FloatArray) -> None:
    """What scikit-learn calls gives arrays."""
    model = MiniBatchRegressor(batch_size=32, learning_rate=0.1).fit(X, y)
    assert_type(model, MiniBatchRegressor)
    assert_type(model.predict(X), FloatArray)
    assert_type(model.predict(X, return_std=True), tuple[FloatArray, FloatArray])
    assert_type(MiniBatchRegressorCV().fit(X, y).predict(X), FloatArray)
    assert_type(MiniBatchClassifier().fit(X, y), MiniBatchClassifier)


def spectra() -> None:
    """Laws and limits, without data."""
    x, y = free.variables(free.Semicircle(), free.Semicircle())
    law = free.spectrum(x * y + y * x)
    assert_type(law, free.Spectrum)
    assert_type(law.support, tuple[tuple[float, float], ...])
    assert_type(asymptotics.learning_curve(0.5, 0.1, 2), asymptotics.LearningCurve)
