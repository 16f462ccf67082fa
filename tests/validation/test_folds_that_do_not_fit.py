"""Folds that leave fewer rows than there are batches are refused by name."""

import numpy as np
import pytest

import reshuffle as rs


def test_too_few_rows_for_the_batches():
    run = rs.descend(rs.LeastSquares(np.eye(6), np.ones(6)), rs.RandomReshuffling(batches=4), step=0.1)
    with pytest.raises(
        ValueError, match=r"folds must leave rows .* leaves 3 of 6: batches must be .* more folds"
    ):
        run.cross_validate(3, folds=2)
    assert run.cross_validate(3, folds=6).mean_square > 0
