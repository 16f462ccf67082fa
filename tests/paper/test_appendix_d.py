"""Appendix D: what the experiments say, exactly."""

import pytest

import reshuffle as rs


def test_the_price_of_two_batches_is_below_a_thousandth():
    """Appendix D.3 in small (gamma = 1/4, alpha = 0.4, noise 1): the printed difference is 0.05."""
    problem = rs.gaussian(800, 200, noise=1.0, seed=0)
    full = float(rs.descend(problem, rs.FullBatch(), alpha=0.4).limit().risk.total)
    two = float(rs.descend(problem, rs.RandomReshuffling(batches=2), alpha=0.4).limit().risk.total)
    assert 0.0003 < two - full < 0.0012


def test_single_runs_pay_twice_that_price():
    """The figure of Appendix D.3 shows single runs, whose spread adds as much again: 0.0014."""
    problem = rs.gaussian(160, 40, noise=1.0, seed=0)
    full, two = (
        rs.descend(problem, visited, alpha=0.4).expected_risk(300)
        for visited in (rs.FullBatch(), rs.RandomReshuffling(batches=2))
    )
    assert float(two.spread) == pytest.approx(0.0007, abs=0.0001)
    assert float(two.total - full.total) == pytest.approx(0.0014, abs=0.0003)
    assert full.spread == 0
