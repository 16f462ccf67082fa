"""The rate of the mean square where other eigenvalues are nearly as large: momentum, against Kronecker products."""

import numpy as np

import reshuffle as rs
from tests.problems import close

X = np.array(
    [
        [0.49926395, -0.4284545],
        [0.50660397, -0.29641072],
        [1.76777349, 0.21137197],
        [-0.12281678, 0.80508867],
    ]
)
MOMENTUM = 0.9


def test_bounds_that_stay_apart_are_an_error(monkeypatch):
    """What stands for larger problems: nothing is known beyond what so many rounds tell."""
    monkeypatch.setattr("reshuffle.run.mean_square.MOST_WRITTEN_OUT", 0)
    monkeypatch.setattr("reshuffle.epoch.moments.matrix.MOST_ENTRIES", 0)
    scheme = rs.SampleReshuffling(batch_size=3, drop_last=True)
    run = rs.descend(rs.LeastSquares(X, np.zeros(4)), scheme, 0.03155, momentum=MOMENTUM)
    found = run.mean_square_stability()
    assert found.error_kind == "bound"
    close(found.error, max(found.rate - found.bounds[0], found.bounds[1] - found.rate))
    assert found.error > 1e-4


def test_the_rate_does_not_depend_on_the_method_of_the_mean():
    """A mean over drawn orders is not taken for the exact one."""
    problem = rs.LeastSquares(X, np.zeros(4))
    sampled, exact = (
        rs.descend(problem, rs.RandomReshuffling(batches=3), 0.15, method=method).mean_square_stability()
        for method in ("sampling", "exact")
    )
    assert exact.rate > sampled.error == 0
    close(sampled.rate, exact.rate)
    close(sampled.gain, exact.gain)
