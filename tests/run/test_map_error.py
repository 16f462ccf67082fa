"""Bounds on what an error of the map does, against maps that are off by as much."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle._uncertainty import jackknife, quantile
from reshuffle.run.map_error import Perturbation
from tests.problems import case

EPOCHS = np.array([0, 1, 2, 5, 30, 1000, math.inf])


def powers_and_sums(H, epochs):
    values, vectors = np.linalg.eigh(H)
    for k in epochs:
        power = np.zeros_like(values) if math.isinf(k) else (1 - values) ** k
        yield (vectors * power) @ vectors.T, (vectors * ((1 - power) / values)) @ vectors.T


@given(
    st.integers(1, 8),
    st.sampled_from([1e-6, 1e-2, 0.3]),
    st.sampled_from([0.5, 1.0, 1.4]),
    st.integers(0, 10**6),
)
def test_powers_and_sums_stay_within_their_bounds(size, error, fastest, seed):
    rng = np.random.default_rng(seed)
    rates = fastest * 10 ** rng.uniform(-4, 0, size)
    noise = rng.standard_normal((size, size))
    E = noise + noise.T
    E *= error / np.linalg.norm(E, 2)
    root = np.sqrt(rates)[:, np.newaxis]
    true_H = np.diag(rates) + root * E * root.T
    pull = root * rng.standard_normal((size, 3))
    off = rng.standard_normal((size, 3))
    off *= 0.01 / np.linalg.norm(off)
    bounds = Perturbation(rates, np.zeros(size, dtype=bool), error, 0.01)
    drift = np.array([np.diagonal(total) for _, total in powers_and_sums(np.diag(rates), EPOCHS)])
    of_powers = bounds.of_powers(EPOCHS)
    of_drifts = bounds.of_drifts(EPOCHS, drift, pull, 1.0)
    both = zip(powers_and_sums(np.diag(rates), EPOCHS), powers_and_sums(true_H, EPOCHS), strict=True)
    for at, ((power, total), (true_power, true_total)) in enumerate(both):
        assert np.linalg.norm(power - true_power, 2) <= of_powers[at] + 1e-13
        gap = np.linalg.norm(total @ pull - true_total @ (pull + off))
        assert gap <= of_drifts[at] * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(("n", "p", "batches"), [(24, 6, 8), (12, 20, 6), (40, 3, 10)])
@pytest.mark.parametrize("step", [1e-4, 3e-3, 0.01])
@pytest.mark.parametrize("covariance", ["identity", "dense"])
def test_the_series_states_its_error(n, p, batches, step, covariance):
    middle = case(n, p, batches, step=step, covariance=covariance)
    exact = rs.descend(middle.problem, middle.scheme("reshuffling"), step, start=middle.start)
    run = rs.descend(
        middle.problem, middle.scheme("reshuffling"), step, start=middle.start, method="series", rtol=1e9
    )
    assert run.epoch.method == "series"
    assert 0 < run.epoch.error < math.inf
    risk, truth = run.risk(EPOCHS), exact.risk(EPOCHS)
    assert (np.abs(risk.total - truth.total) <= risk.error + 1e-12 * truth.total).all()
    off = np.linalg.norm(run.iterate(EPOCHS) - exact.iterate(EPOCHS), axis=-1)
    assert (off <= run.iterate_error(EPOCHS) + 1e-11).all()
    assert run.limit().error == run.iterate_error(math.inf)
    # Early on, where the error of the map itself is seen, the bounds are of its size.
    early = (
        run.epoch.error * exact.epoch.paces.max() * np.linalg.norm(middle.start - middle.problem.beta_star)
    )
    assert run.iterate_error(1) <= 3 * early + 3 * run.epoch.mean.pull_error * np.linalg.norm(
        middle.problem.y
    )


def test_an_interpolating_limit_does_not_depend_on_the_order():
    """With n <= p the limit is the minimum-norm solution whatever the map: the error of the limit vanishes."""
    problem = case(12, 20, 1).problem
    run = rs.descend(problem, rs.RandomReshuffling(6), 1e-3, method="series", rtol=1.0)
    assert run.limit().error < 1e-10
    assert run.compare_limit().distance < 1e-10


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(0).standard_normal(8)
    without = np.array([np.delete(values, group).mean() for group in range(8)])
    found = jackknife(np.asarray(values.mean()), without)
    assert found == pytest.approx(quantile(8) * values.std(ddof=1) / math.sqrt(8))
    assert jackknife(np.asarray(1.0), np.array([1.0, math.inf])) == math.inf
