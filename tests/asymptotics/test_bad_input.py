"""Refusals: what is wrong, what is allowed, what it is."""

import math

import numpy as np
import pytest

from reshuffle import asymptotics, free
from reshuffle.asymptotics import PowerLaw
from tests.looped import for_all

NAMES = {
    **vars(asymptotics),
    "np": np,
    "inf": math.inf,
    "nan": math.nan,
    "LAW": PowerLaw(1.5, 10),
    "END": PowerLaw(1.5),
    "UNIFORM": free.Uniform(1.0, 2.0),
}
WRONG = [
    ("batch_spectrum(0, 0.1, 2)", "aspect must be a finite number > 0, the limit of p/n, but it is 0"),
    ("batch_spectrum(nan, 0.1, 2)", "aspect must be .* nan"),
    ("batch_spectrum('a', 0.1, 2)", "aspect must be .* 'a'"),
    ("batch_spectrum(0.5, 0.0, 2)", "alpha must be a finite number > 0"),
    ("batch_spectrum(0.5, 0.1, 0)", "batches must be a whole number of at least 1, but it is 0"),
    ("batch_spectrum(0.5, 0.1, True)", "batches must be .* True"),
    ("batch_spectrum(0.5, 0.1, 2, covariance=[-1.0, 1.0])", "covariance must have eigenvalues >= 0"),
    ("batch_spectrum(0.5, 0.1, 2, covariance=np.eye(2))", "covariance must be None, a free.Discrete"),
    ("batch_spectrum(0.5, 0.1, 2, covariance=[])", "covariance must be None"),
    (
        "batch_spectrum(0.5, 0.1, 2, covariance=UNIFORM)",
        "must be free.Discrete, but it is Uniform.*quantile",
    ),
    (
        "batch_spectrum(0.5, 0.1, 2, row_scales=[0.0, 1.0])",
        "row_scales must lie between 1e-6 and 1e6, but they go from 0 to 1",
    ),
    ("batch_spectrum(0.5, 0.1, 2, row_scales=[nan])", "row_scales must"),
    # What would overflow.
    ("batch_spectrum(1e300, 0.1, 2)", "aspect must lie between 1e-12 and 1e"),
    ("batch_spectrum(0.5, 1e-300, 2)", "alpha must lie between 1e-50 and 1e"),
    ("batch_spectrum(0.5, 0.1, 2, [1e-200, 1.0])", "covariance must have eigenvalues within a factor 1e12"),
    ("batch_spectrum(1e6, 0.1, 3).support", r"aspect must lie between 0\.0001 and 10000 for the support"),
    ("TwoBatchLaw(0.5, 0)", "alpha must be"),
    ("learning_curve(0.5, 0.1, 2).risk(1.5)", "epochs must be whole numbers >= 0"),
    ("learning_curve(0.5, 0.1, 2, noise=-1)", "noise must be a finite number >= 0, but it is -1"),
    ("learning_curve(0.5, 0.1, 2, signal=nan)", "signal must be"),
    ("shrinkage(0, 0.1)", "batches must be"),
    ("shrinkage(2, -0.1)", "alpha must be"),
    ("critical_alpha(0, 2)", "aspect must be"),
    ("critical_alpha(1, 1.5)", "batches must be"),
    ("critical_alpha(0.5, 1, PowerLaw(-1.0, 9))", "covariance must have an exponent >= 0"),
    ("critical_alpha(0.5, 1, PowerLaw(30.0, 9))", "covariance must have eigenvalues within a factor 1e12"),
    ("critical_alpha(0.5, 1, END)", "covariance must be a power law of finite size here"),
    ("toeplitz(1.0)", "correlation must lie"),
    ("PowerLaw(1.0, 0)", "size must be a whole number of at least 1"),
    ("PowerLaw(1.0).values()", "size must be at most"),
    ("learning_curve(0.5, 0.1, 4, budget=0)", "budget must be a finite number > 0"),
    # Sources that do not add up.
    (
        "learning_curve(0.5, 0.1, 2, covariance=[1.0, 2.0], source=[0.5, 0.6])",
        r"source must add up to 1, .* but it adds up to 1\.1; divide it by its sum",
    ),
    (
        "learning_curve(0.5, 0.1, 2, covariance=LAW, source=LAW)",
        "source must add up to 1, .* but it adds up to 1.99",
    ),
    (
        "learning_curve(0.5, 0.1, 2, covariance=LAW, source=[1.0])",
        "source must have one entry per eigenvalue .*, 10",
    ),
    (
        "learning_curve(0.5, 0.1, 2, covariance=[1.0, 2.0], source=[-0.5, 1.5])",
        "source must hold shares >= 0",
    ),
    ("best_recipe(0.5, epochs=0)", "epochs must be a whole number of at least 1, but it is 0"),
    ("best_recipe(0.5, batches=[])", "batches must be a whole number"),
    ("best_recipe(-1.0)", "aspect must be a finite number > 0"),
    ("best_recipe(0.5, noise=-1.0)", "noise must be"),
    ("best_recipe(0.5, covariance=[1.0, 2.0], source=[1.0])", "source must have one entry per eigenvalue"),
    ("one_pass([1.0, 2.0], [1.0], 1, 0.1, 1)", r"source must have shape \(2,\)"),
    ("one_pass(LAW, [1.0], 1, 0.1, 1)", r"source must have shape \(10,\)"),
    ("one_pass([1.0, -2.0], [1.0, 1.0], 1, 0.1, 1)", "spectrum must have eigenvalues >= 0"),
    ("one_pass([0.0], [1.0], 1, 0.1, 1)", "spectrum must have eigenvalues >= 0, not all zero"),
    ("one_pass([1.0], [-1.0], 1, 0.1, 1)", r"source must have entries >= 0, squares, but source\[0\]"),
    ("one_pass(np.eye(2), np.ones(2), 1, 0.1, 1)", "spectrum must be a vector"),
    ("one_pass([1.0], [inf], 1, 0.1, 1)", "source must be finite"),
    ("one_pass(LAW, PowerLaw(1.0, 11), 1, 0.1, 1)", "source must have the size of spectrum, 10"),
    # Traces of infinitely many eigenvalues that diverge.
    (
        "one_pass(PowerLaw(1.0), END, 1, 0.1, 1)",
        "exponent > 1 where size is infinite, or its trace .* but it is 1",
    ),
    (
        "one_pass(END, PowerLaw(-0.5), 1, 0.1, 1)",
        "must add up to more than 1 where size is infinite, or the risk of",
    ),
    ("one_pass(PowerLaw(-1.0, 10), LAW, 1, 0.1, 1)", "spectrum must fall"),
    ("one_pass(LAW, LAW, 0, 0.1, 1)", "batch_size must be a whole number of at least 1"),
    ("one_pass(LAW, LAW, 1, 0.0, 1)", "step must be a number > 0"),
    ("one_pass(LAW, LAW, 1, [0.1, -0.1], 1)", "step must be a number > 0"),
    ("one_pass(LAW, LAW, 1, [0.1, 0.1], 3)", "step must have an entry for each of 3 steps"),
    ("one_pass(LAW, LAW, 1, [0.1, 0.1], inf)", "steps must be finite where step is a vector"),
    ("one_pass(LAW, LAW, 1, 0.1, 1.5)", "steps must be whole numbers >= 0"),
    ("one_pass(LAW, LAW, 1, 0.1, 2**30, momentum=0.5)", "steps must be at most"),
    ("one_pass(LAW, LAW, 1, 0.1, 1, momentum=1.0)", r"momentum must lie in \[0, 1\)"),
    ("one_pass(LAW, LAW, 1, 0.1, 1, cells=2)", "cells must be a whole number between 16 and 1024"),
    ("replacement_curve(0, 1.0)", "aspect must be"),
    ("replacement_curve(0.5, 1.0, noise=-1)", "noise must be"),
    ("replacement_curve(0.5, 1.0).spread(-1)", "epochs must be"),
    ("compute_frontier(LAW, END, 1, 0.1, [1e3, 1e4])", "spectrum must be a PowerLaw of"),
    ("compute_frontier(PowerLaw(0.9), END, 1, 0.1, [1e3, 1e4])", "traces diverge"),
    ("compute_frontier(END, PowerLaw(-0.6), 1, 0.1, [1e3, 1e4])", "traces diverge"),
    ("compute_frontier(END, END, 1, 0.1, [10.0, 1e4])", "compute must be"),
    ("compute_frontier(END, END, 1, 3.0, [1e3, 1e4])", "step must be below the critical step"),
]


@for_all("call, message", WRONG)
def test_it_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        eval(call, NAMES)


def test_a_covariance_may_be_a_discrete_law():
    given = asymptotics.batch_spectrum(0.5, 0.1, 1, covariance=free.Discrete([1.0, 2.0], [0.25, 0.75]))
    listed = asymptotics.batch_spectrum(0.5, 0.1, 1, covariance=[1.0, 2.0, 2.0, 2.0])
    assert given.support[0] == pytest.approx(listed.support[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((0.5, 1.0, 1), {}),
        ((1.5, 0.7, 2), {}),
        ((1.5, 0.9, 3), {}),
        ((0.5, 20.0, 4), {}),
        ((0.5, 4.0, 2), {"covariance": PowerLaw(1.0, 20)}),
        ((0.5, 1.5, 2), {"covariance": [1.0, 2.0], "source": [0.25, 0.75]}),
    ],
)
def test_beyond_convergence_the_limit_is_infinite_and_names_the_mode(arguments, options):
    curve = asymptotics.learning_curve(*arguments, **options)
    critical = asymptotics.critical_alpha(arguments[0], arguments[2], options.get("covariance"))
    assert critical < arguments[1]
    limit = curve.limit()
    assert limit.total == limit.bias == limit.variance == np.inf
    low, high = curve.spectrum.ends
    assert limit.diverges == max((low, high), key=lambda end: abs(1 - end))
    assert not 0 <= limit.diverges <= 2
    assert f"diverges at {limit.diverges:.6g}" in repr(limit)
    # Finitely many epochs are answered.
    risk = curve.risk([0, 1, 3, 50])
    assert "diverges at" in repr(risk)
    risks = risk.total
    assert np.isfinite(risks[:3]).all()
    assert risks[3] > risks[1]


def test_power_laws_of_any_exponent_and_finite_size_are_covariances():
    for exponent in (0.0, 0.5, 1.0, 3.0):
        law = PowerLaw(exponent, 30)
        named, listed = (
            asymptotics.learning_curve(0.5, 0.3, 2, covariance=given).risk([1, 10]).total
            for given in (law, law.values())
        )
        np.testing.assert_array_equal(named, listed)
