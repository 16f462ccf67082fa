"""Appendix D: what the experiments say, exactly."""

import reshuffle as rs


def test_the_price_of_two_batches_is_below_a_thousandth():
    """Appendix D.3 in small (gamma = 1/4, alpha = 0.4, noise 1): the printed difference is 0.05."""
    problem = rs.gaussian(800, 200, noise=1.0, seed=0)
    full = float(rs.descend(problem, rs.FullBatch(), alpha=0.4).limit().risk.total)
    two = float(rs.descend(problem, rs.RandomReshuffling(batches=2), alpha=0.4).limit().risk.total)
    assert 0.0003 < two - full < 0.0012
