"""Populations from sample eigenvalues: closer than the eigenvalues themselves, and within the stated error."""

import numpy as np
from benchmarks.divide import distance

from reshuffle import free
from tests.looped import for_all

P = 200
TOEPLITZ = np.linalg.eigvalsh(0.5 ** np.abs(np.subtract.outer(np.arange(P), np.arange(P))))
POPULATIONS = {
    "1, 3, 10": (np.repeat([1.0, 3.0, 10.0], [68, 66, 66]), 1 / 3, 0.1),
    "1, 2": (np.repeat([1.0, 2.0], 100), 1 / 2, 0.16),
    "1, 3, 10, wide": (np.repeat([1.0, 3.0, 10.0], [68, 66, 66]), 2.0, 0.3),
    # Half of what a fit on a grid of equal steps, at one height, missed by.
    "Toeplitz": (TOEPLITZ, 1 / 2, 0.114 / 2),
    "power law": (20 / np.arange(1, P + 1), 1 / 2, 0.195 / 2),
}


def sampled(sigma, ratio, seed):
    n = round(P / ratio)
    x = np.random.default_rng(seed).standard_normal((n, P)) * np.sqrt(sigma)
    return np.maximum(np.linalg.eigvalsh(x.T @ x / n), 0.0)


@for_all("name", POPULATIONS)
def test_populations_are_closer_than_eigenvalues_and_within_the_error(name):
    sigma, ratio, most = POPULATIONS[name]
    found = []
    # A fit without outliers of their own was worse than the eigenvalues in samples 28 and 30 of the power law.
    for seed in (0, 1, 28, 30):
        eigenvalues = sampled(sigma, ratio, seed)
        answer = free.divide(eigenvalues, free.MarchenkoPastur(ratio))
        found.append(distance(answer.law, sigma))
        assert found[-1] < distance(free.Discrete(eigenvalues), sigma)
        assert found[-1] < answer.error / sigma.mean()
    assert np.mean(found) < most


def test_laws_over_decades_are_found_without_a_sample():
    sigma = free.Discrete([0.01, 1.0, 100.0], [0.4, 0.3, 0.3])
    noise = free.MarchenkoPastur(0.5)
    found = free.divide(free.multiply(sigma, noise), noise)
    np.testing.assert_allclose(
        found.law.cdf([0.005, 0.02, 0.5, 2.0, 50.0, 200.0]), [0, 0.4, 0.4, 0.7, 0.7, 1], atol=0.01
    )
    assert np.isnan(found.error)


@for_all(
    "sigma, ratio", [(TOEPLITZ, P / 180), (np.ones(P), P / 170), (np.repeat([1.0, 99.0], [P - 1, 1]), 0.1)]
)
def test_other_populations_are_within_the_error(sigma, ratio):
    # The covariance of the fluctuations is taken right down to a hard edge.
    answer = free.divide(sampled(sigma, ratio, 5), free.MarchenkoPastur(ratio))
    assert distance(answer.law, sigma) < answer.error / sigma.mean()


def test_equal_eigenvalues_have_an_answer():
    assert abs(free.divide(np.ones(50), free.MarchenkoPastur(0.01)).law.moments(1)[0] - 1) < 0.1
