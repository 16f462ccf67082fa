"""Test errors that are drawn without test samples: against moments by formula, and against samples themselves."""

import numpy as np
import pytest
import scipy.stats

from reshuffle._uncertainty import mean_squares

DRAWS = 5000


@pytest.fixture(scope="module")
def directions():
    """A trajectory: neighbours are nearly alike, one is a sum of others, and lengths differ by far."""
    rng = np.random.default_rng(5)
    steps = np.cumsum(rng.standard_normal((6, 9)), axis=0) * np.array([1e-3, 1, 1, 1, 1, 1e4])[:, np.newaxis]
    return np.vstack([steps, steps[1] + steps[2]])


def from_samples(directions, samples, draws, seed):
    white = np.random.default_rng(seed).standard_normal((draws, samples, directions.shape[1]))
    return np.square(white @ directions.T).mean(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("samples", [1, 3, 7, 40])
def test_means_and_covariances_are_those_of_the_formula(directions, samples):
    """E = d'd and Cov = 2 (d'e)^2 / samples; also with fewer samples than directions."""
    found = mean_squares(directions, samples, np.random.default_rng(1), DRAWS)
    gram = directions @ directions.T
    sizes = np.diagonal(gram)
    assert (np.abs(found.mean(axis=0) / sizes - 1) < 5 * np.sqrt(2 / samples / DRAWS)).all()
    covariance = np.cov(found / sizes, rowvar=False)
    expected = 2 * np.square(gram / np.sqrt(np.outer(sizes, sizes))) / samples
    # The fourth moment of a mean of squares of m normal numbers about its mean is 12 (m + 4) / m^3.
    error = np.sqrt(12 * (samples + 4) / samples**3 / DRAWS)
    assert np.abs(covariance - expected).max() < 5 * error


@pytest.mark.slow
@pytest.mark.parametrize("samples", [2, 5, 30])
def test_the_law_is_that_of_samples(directions, samples):
    """By Kolmogorov and Smirnov: of each, and of the ratio of two, which tells how they belong together."""
    found = mean_squares(directions, samples, np.random.default_rng(2), 4000)
    drawn = from_samples(directions, samples, 4000, seed=3)
    for statistic in (
        lambda e: e[:, 3],
        lambda e: e[:, 1] / e[:, 4],
        lambda e: e[:, 6] / (e[:, 1] + e[:, 2]),
    ):
        assert scipy.stats.ks_2samp(statistic(found), statistic(drawn)).pvalue > 1e-4


def test_one_sample_sees_all_directions(directions):
    """Of a single sample the errors are squares of numbers that add up as the directions do."""
    found = np.sqrt(mean_squares(directions, 1, np.random.default_rng(0), 50))
    first, second, both = found[:, 1], found[:, 2], found[:, 6]
    off = np.minimum(np.abs(both - (first + second)), np.abs(both - np.abs(first - second)))
    assert off.max() < 1e-12 * found[:, [1, 2, 6]].max()


def test_directions_that_are_alike_have_errors_that_are(directions):
    twice = np.vstack([directions[0], 1e-9 * directions[0], -directions[0]])
    found = mean_squares(twice, 4, np.random.default_rng(0), 10)
    np.testing.assert_allclose(found, found[:, :1] * np.array([1.0, 1e-18, 1.0]), rtol=1e-12)


def test_lengths_at_the_ends_of_the_range():
    rows = np.array([[3e160, 4e160], [0.0, 0.0], [np.inf, 1.0], [np.nan, 1.0], [3e-100, 4e-100]])
    with np.errstate(all="raise", under="ignore"):
        (found,) = mean_squares(rows, 1000, np.random.default_rng(0))
    assert found[[0, 2, 3]].tolist() == [np.inf] * 3
    assert found[1] == 0
    assert found[4] == pytest.approx(25e-200, rel=0.3)
