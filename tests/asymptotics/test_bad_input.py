"""Refusals: what is wrong, what is allowed, what it is."""

import numpy as np
import pytest

from reshuffle import asymptotics, free
from reshuffle.asymptotics import PowerLaw

WRONG = [
    (
        lambda: asymptotics.batch_spectrum(0, 0.1, 2),
        "aspect must be a finite number > 0, the limit of p/n, but it is 0",
    ),
    (lambda: asymptotics.batch_spectrum(-1.0, 0.1, 2), "aspect must be"),
    (lambda: asymptotics.batch_spectrum(float("nan"), 0.1, 2), "aspect must be .* nan"),
    (lambda: asymptotics.batch_spectrum(float("inf"), 0.1, 2), "aspect must be .* inf"),
    (lambda: asymptotics.batch_spectrum("a", 0.1, 2), "aspect must be .* 'a'"),
    (lambda: asymptotics.batch_spectrum(0.5, 0.0, 2), "alpha must be a finite number > 0"),
    (lambda: asymptotics.batch_spectrum(0.5, -0.1, 2), "alpha must be .* -0.1"),
    (
        lambda: asymptotics.batch_spectrum(0.5, 0.1, 0),
        "batches must be a whole number of at least 1, but it is 0",
    ),
    (lambda: asymptotics.batch_spectrum(0.5, 0.1, 2.5), "batches must be .* 2.5"),
    (lambda: asymptotics.batch_spectrum(0.5, 0.1, True), "batches must be .* True"),
    (
        lambda: asymptotics.batch_spectrum(0.5, 0.1, 2, covariance=[-1.0, 1.0]),
        "covariance must have eigenvalues >= 0",
    ),
    (
        lambda: asymptotics.batch_spectrum(0.5, 0.1, 2, covariance=[0.0]),
        "covariance must have eigenvalues >= 0",
    ),
    (
        lambda: asymptotics.batch_spectrum(0.5, 0.1, 2, covariance=np.eye(2)),
        "covariance must be None, a free.Discrete",
    ),
    (lambda: asymptotics.batch_spectrum(0.5, 0.1, 2, covariance=[]), "covariance must be None"),
    (lambda: asymptotics.TwoBatchLaw(0.5, 0), "alpha must be"),
    (lambda: asymptotics.marchenko_pastur(-0.5, 1), "aspect must be"),
    (lambda: asymptotics.risk(0.5, 0.1, 2, 1.5), "epochs must be whole numbers >= 0"),
    (lambda: asymptotics.risk(0.5, 0.1, 2, -1), "epochs must be"),
    (lambda: asymptotics.risk(0.5, 0.1, 2, 1, noise=-1), "noise must be a finite number >= 0, but it is -1"),
    (lambda: asymptotics.risk(0.5, 0.1, 2, 1, signal=float("nan")), "signal must be"),
    (lambda: asymptotics.shrinkage(0, 0.1), "batches must be"),
    (lambda: asymptotics.shrinkage(2, -0.1), "alpha must be"),
    (lambda: asymptotics.critical_alpha(0, 2), "aspect must be"),
    (lambda: asymptotics.critical_alpha(1, 1.5), "batches must be"),
    (lambda: asymptotics.compare_spectra(0.5, 0.1, 2, levels=[1.5]), "levels must lie in"),
    # Sources that do not add up.
    (
        lambda: asymptotics.learning_curve(0.5, 0.1, 2, covariance=[1.0, 2.0], source=[0.5, 0.6]),
        r"source must add up to 1, .* but it adds up to 1\.1; divide it by its sum",
    ),
    (
        lambda: asymptotics.learning_curve(0.5, 0.1, 2, covariance=PowerLaw(1.0, 3), source=PowerLaw(1.0, 3)),
        r"source must add up to 1, .* but it adds up to 1\.8333",
    ),
    (
        lambda: asymptotics.learning_curve(0.5, 0.1, 2, covariance=PowerLaw(1.0, 3), source=[1.0]),
        "source must have one entry per eigenvalue of covariance, 3",
    ),
    (lambda: asymptotics.one_pass(PowerLaw(1.5, 3), [1.0], 1, 0.1, 1), r"source must have shape \(3,\)"),
    # Exponents that make traces diverge: of infinitely many in one pass, never of finitely many in a limit.
    (
        lambda: asymptotics.one_pass(PowerLaw(1.0), PowerLaw(1.0), 1, 0.1, 1),
        "exponent > 1 where size is infinite, or its trace and the noise of every gradient diverge, but it is 1",
    ),
    (
        lambda: asymptotics.one_pass(PowerLaw(1.2), PowerLaw(-0.2), 1, 0.1, 1),
        "must add up to more than 1 where size is infinite, or the risk of the start diverges",
    ),
    (
        lambda: asymptotics.compute_frontier(PowerLaw(1.0), PowerLaw(1.0), 1, 0.1, [1e3, 1e4]),
        "traces diverge",
    ),
    (
        lambda: asymptotics.learning_curve(0.5, 0.1, 2, covariance=PowerLaw(1.5)),
        "covariance must be a power law of finite size here",
    ),
    (
        lambda: asymptotics.best_recipe(0.5, covariance=PowerLaw(-0.5, 10)),
        "covariance must have an exponent >= 0, eigenvalues that do not grow, but it is -0.5",
    ),
    (
        lambda: asymptotics.learning_curve(0.5, 0.1, 2, covariance=PowerLaw(7.0, 100)),
        "covariance must have eigenvalues within a factor 1e12 of each other",
    ),
    # Budgets of no epochs, or of no time.
    (
        lambda: asymptotics.best_recipe(0.5, epochs=0),
        "epochs must be a whole number of at least 1, but it is 0",
    ),
    (lambda: asymptotics.best_recipe(0.5, epochs=1.5), "epochs must be a whole number"),
    (lambda: asymptotics.effective_reuse(0.5, 0), "epochs must be whole numbers >= 1"),
    (lambda: asymptotics.learning_curve(0.5, 0.1, 4, budget=0), "budget must be a finite number > 0"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_it_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_covariance_may_be_a_discrete_law():
    given = asymptotics.batch_spectrum(0.5, 0.1, 1, covariance=free.Discrete([1.0, 2.0], [0.25, 0.75]))
    listed = asymptotics.batch_spectrum(0.5, 0.1, 1, covariance=[1.0, 2.0, 2.0, 2.0])
    assert given.support[0] == pytest.approx(listed.support[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((0.5, 1.0, 1), {}),
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
    assert np.isfinite(curve.risk([0, 1, 3]).total).all()


def test_power_laws_of_any_exponent_and_finite_size_are_covariances():
    for exponent in (0.0, 0.5, 1.0, 3.0):
        law = PowerLaw(exponent, 30)
        named, listed = (
            asymptotics.risk(0.5, 0.3, 2, [1, 10], covariance=given).total for given in (law, law.values())
        )
        np.testing.assert_array_equal(named, listed)
