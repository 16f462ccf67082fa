"""Courses followed at once, against each of them by itself."""

import math

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.epoch import timeline


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [rs.ShuffleOnce(batches=4), rs.ShuffleOnce(batches=6, draws=8)], ids=str)
def test_small_chunks_say_the_same_as_large_ones(scheme, monkeypatch):
    """Memory that holds two timelines, and means of sixteen epochs."""
    problem = rs.gaussian(12, 5, noise=0.5, seed=2)

    def answers():
        run = rs.descend(problem, scheme, step=0.2, penalty=0.05)
        epochs = [*range(40), math.inf]
        risk, expected = run.risk(epochs), run.expected_risk(epochs)
        given, best = run.expected_risk(epochs, given_responses=True), run.best_epoch()
        return [
            risk.total, risk.error, expected.total, expected.error, given.total, run.iterate(epochs),
            run.iterate_error(epochs), run.training_loss_error(epochs), run.epoch.matrix,
            [run.stability().rate, best.epoch, best.risk],
        ]  # fmt: skip

    at_once = answers()
    monkeypatch.setattr(timeline, "CHUNK_BYTES", 1.0)
    monkeypatch.setattr(timeline, "BLOCK_BYTES", 1.0)
    assert rs.descend(problem, scheme, step=0.2)._affine.timeline.chunks > 1
    for one, other in zip(at_once, answers(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-13)
