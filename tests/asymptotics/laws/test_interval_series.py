"""Laws on one interval as a series, against closed forms, exact moments and points solved one by one."""

import numpy as np
import pytest

from reshuffle.asymptotics import BatchLaw, FullBatchLaw, TwoBatchLaw
from reshuffle.asymptotics.interval_series import IntervalSeries
from tests.looped import for_all


@for_all("law", [FullBatchLaw(0.25, 0.4), FullBatchLaw(1.0, 0.3), TwoBatchLaw(1.5, 0.2)])
def test_the_series_is_the_closed_form(law):
    low, high = law.ends
    series = IntervalSeries.around(law.outside, low, high, np.array([*law.frozen, 0.0]))
    assert series is not None
    # Close to the ends and in between, off the axis, and far away.
    inside = low + (high - low) * np.array([1e-8, 1e-3, 0.2, 0.5, 0.9, 1 - 1e-6])
    z = np.concatenate([inside + 0j, [0.3 + 0.1j, -2.0 + 1e-3j, 40.0j]])
    found, expected = series.transforms(z), law.transforms(z)
    assert np.abs(found - expected).max(axis=1) == pytest.approx([0, 0, 0], abs=3e-8 * np.abs(expected).max())
    middle = slice(2, None)
    assert found[:, middle] == pytest.approx(expected[:, middle], rel=1e-9, abs=1e-9)


def test_a_law_with_a_gap_has_no_series():
    # Two intervals around the eigenvalues of Sigma: full batch, few parameters.
    law = BatchLaw(0.02, 0.1, 1, [1.0, 5.0])
    assert len(law.support) == 2
    assert IntervalSeries.around(law.outside, *law.ends, np.zeros(3)) is None


@for_all(
    "aspect, alpha, batches, covariance",
    [
        (0.5, 0.02, 4, [1.0, 100.0]),
        (0.2, 0.001, 2, [1.0, 1000.0]),
        (0.3, 0.001, 3, [1e-3, 1.0, 1e3]),
        # An atom at zero lies on the way to the lower end.
        (3.0, 0.001, 1, [1.0] + 49 * [1e3]),
    ],
)
def test_the_ends_are_those_of_sampled_matrices(aspect, alpha, batches, covariance):
    # Seen from afar, the interval of the smallest eigenvalues of Sigma hides before the gap behind it.
    law = BatchLaw(aspect, alpha, batches, covariance)
    sampled = law._sampled_eigenvalues()
    low, high = law.ends
    assert [low, high] == pytest.approx([sampled[0], sampled[-1]], rel=0.15)


def test_the_ends_have_all_digits():
    low, high = BatchLaw(1.5, 0.4, 1).ends
    assert [low, high] == pytest.approx(FullBatchLaw(1.5, 0.4).ends, rel=3e-15)
    # Folds of the system, found in another way.
    law = BatchLaw(0.3, 0.1, 3, [1.0, 5.0])
    assert law.ends == pytest.approx((law.support[0][0], law.support[-1][1]), rel=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batches", "covariance", "count"), [(8, [1.0, 10.0, 100.0], 3), (10, [1.0, 100.0], 2)]
)
def test_many_batches_and_gaps(batches, covariance, count):
    law = BatchLaw(0.5, 0.005, batches, covariance)
    assert len(law.support) == count
    assert law.measure.mass == pytest.approx(1, abs=1e-10)
    # tau of a product of distinct free variables with Sigma^(1/2) between them: the mean of 1 - (1 - a s/B)^B.
    scaled = 0.005 * np.array(covariance)
    expected = 1 - np.mean((1 - scaled / batches) ** batches)
    assert law.moments(1)[0] == pytest.approx(expected, rel=1e-10)
