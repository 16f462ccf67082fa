"""Refusals: what is wrong, what is allowed, what it is."""

import numpy as np
import pytest

from reshuffle import asymptotics, free

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
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_it_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_covariance_may_be_a_discrete_law():
    given = asymptotics.batch_spectrum(0.5, 0.1, 1, covariance=free.Discrete([1.0, 2.0], [0.25, 0.75]))
    listed = asymptotics.batch_spectrum(0.5, 0.1, 1, covariance=[1.0, 2.0, 2.0, 2.0])
    assert given.support[0] == pytest.approx(listed.support[0])
