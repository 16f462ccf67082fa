"""A scheme that the package has never heard of: one class, declarations alone, and every question is answered.

`test_designs.py` compares its answers with the enumeration of all that it draws.
"""

import math

import numpy as np
import pytest

import reshuffle as rs


class RandomRotation(rs.Scheme):
    """The batches in a fixed order that begins anywhere, drawn afresh in every epoch."""

    shuffle = rs.Shuffle.FROM_A_LIST

    def orders(self, n):
        return [np.roll(np.arange(self.steps(n)), -first) for first in range(self.steps(n))]


def test_it_is_planned_with_and_simulated():
    problem, scheme = rs.gaussian(9, 3, noise=0.4, seed=3), RandomRotation(batches=3)
    step = rs.critical_step(problem, scheme, mean_square=False)
    assert [rs.descend(problem, scheme, share * step).converges for share in (0.99, 1.01)] == [True, False]
    exact = rs.descend(problem, scheme, 0.15)
    drawn = rs.simulate(problem, scheme, 0.15, epochs=4, runs=4000, fresh_noise=True, seed=1)
    off = abs(drawn.expected_risk.mean - exact.expected_risk(4).total)
    assert off <= 4 * drawn.expected_risk.standard_error
    heavy = rs.descend(problem, scheme, 0.15, momentum=0.5).expected_risk(math.inf)
    assert heavy.error <= 1e-12 * heavy.total
    assert "recursion" in repr(exact.computation)


def test_what_is_declared_wrongly_is_refused():
    symmetric = type("Backwards", (RandomRotation,), {"is_symmetric": True})
    in_order = type("InOrder", (symmetric,), {"shuffle": rs.Shuffle.NEVER})
    for scheme in (symmetric(batches=3), in_order(batches=3)):
        with pytest.raises(TypeError, match="is_symmetric must be False"):
            rs.descend(rs.gaussian(9, 3, noise=0.4), scheme, 0.15).risk(1)
    drawn = {"shuffle": rs.Shuffle.EVERY_STEP, "unit": rs.Unit.SAMPLE}
    with pytest.raises(TypeError, match="Unfinished must define a method draw"):
        next(type("Unfinished", (rs.Scheme,), drawn)(batches=3).draw(9, np.random.default_rng(0), 2))
    for shuffle in (rs.Shuffle.NEVER, rs.Shuffle.EVERY_EPOCH, rs.Shuffle.FROM_A_LIST):
        with pytest.raises(TypeError, match=r"Shifted must not have a method draw.*FROM_A_LIST"):
            type("Shifted", (rs.Scheme,), {"shuffle": shuffle, "draw": lambda self, n, rng, runs: None})
