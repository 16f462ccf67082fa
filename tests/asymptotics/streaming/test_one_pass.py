"""One pass over fresh data, and frontiers: against simulated runs, the plain recursion and closed forms."""

import math

import numpy as np
import pytest
from benchmarks.scaling_laws import exact_risk, least_risk

from reshuffle.asymptotics import PowerLaw, compute_frontier, one_pass
from tests.asymptotics.streaming import simulated_passes
from tests.looped import for_all

SPECTRUM = np.array([1.0, 0.6, 0.6, 0.3, 0.1, 0.05, 0.01])
SOURCE = np.array([1.0, 0.5, 0.0, 2.0, 1.0, 3.0, 10.0])
RUNS = 10_000


@for_all(
    "batch_size, step, momentum",
    [
        (1, 0.3, 0.0),
        # Much closer to the critical step the risk of a run has no variance, and its mean no standard error.
        (6, 0.5, 0.0),
        (4, 0.15, 0.7),
        (6, np.linspace(0.6, 0.05, 30), 0.0),
        (6, np.geomspace(0.4, 0.01, 30), 0.5),
    ],
)
def test_ten_thousand_runs_have_this_risk(batch_size, step, momentum):
    steps = np.arange(31)
    found = one_pass(SPECTRUM, SOURCE, batch_size, step, steps, noise=0.5, momentum=momentum)
    runs, of_mean = simulated_passes.risks(
        SPECTRUM,
        SOURCE,
        batch_size,
        np.broadcast_to(step, 30),
        RUNS,
        noise=0.5,
        momentum=momentum,
        seed=batch_size,
    )
    error = runs.std(axis=1, ddof=1) / math.sqrt(RUNS)
    assert (np.abs(runs.mean(axis=1) - found.risk) <= 4 * error + 1e-12).all()
    # The mean over runs has a spread of its own, that of one run over their number.
    allowed = 4 * np.sqrt(found.mean_risk * found.spread / RUNS) * 2 + 4 * found.spread / RUNS
    assert (np.abs(of_mean - found.mean_risk) <= allowed + 1e-12).all()
    assert found.error_kind == "exact"
    assert not found.error.any()


def test_every_number_of_steps_follows_the_recursion():
    path = simulated_passes.recursion(SPECTRUM, SOURCE, 3, 0.7, 500, 0.5)
    found = one_pass(SPECTRUM, SOURCE, 3, 0.7, np.arange(501).reshape(3, 167), noise=0.5)
    np.testing.assert_allclose(found.risk.ravel(), path, rtol=1e-12)
    assert found.risk.shape == (3, 167)


@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_it_settles_at_the_fixed_point(momentum):
    found = one_pass(SPECTRUM, SOURCE, 2, 0.3, [10_000, math.inf], noise=0.5, momentum=momentum)
    assert found.converges
    np.testing.assert_allclose(found.risk[0], found.limit, rtol=1e-9)
    kappa = found.stability.kappa
    assert found.limit == found.risk[1] == pytest.approx(0.25 * kappa / (1 - kappa))
    if not momentum:
        assert kappa == pytest.approx(0.15 * (SPECTRUM / (2 - 0.3 * 1.5 * SPECTRUM)).sum())


@for_all("momentum", [0.0, 0.6])
@for_all("spectrum, batch_size", [(SPECTRUM, 1), (np.array([1.0]), 3), (np.ones(40), 5)])
def test_beyond_the_critical_step_it_grows(spectrum, batch_size, momentum):
    source = np.ones(len(spectrum))
    ask = {"noise": 0.1, "momentum": momentum}
    critical = one_pass(spectrum, source, batch_size, 0.1, 1, **ask).stability.critical_step
    inside = one_pass(spectrum, source, batch_size, 0.9 * critical, [3_000, 5_000, math.inf], **ask)
    outside = one_pass(spectrum, source, batch_size, 1.05 * critical, [200, 5_000, math.inf], **ask)
    assert inside.converges
    assert inside.stability.diverges is None
    np.testing.assert_allclose(inside.risk, inside.limit, rtol=1e-5)
    assert not outside.converges
    assert outside.stability.diverges == "the noise of the gradients"
    assert outside.risk[1] > 1e6
    assert outside.limit == math.inf
    assert "the noise of the gradients diverges" in repr(outside)


def test_a_step_at_which_one_mode_grows_names_it():
    found = one_pass([1.0, 0.1], [1.0, 1.0], 1000, 2.1, [10, 10**6, math.inf])
    assert found.stability.diverges == "the largest eigenvalue"
    assert found.stability.kappa == math.inf
    assert math.isinf(found.risk[1])
    assert math.isinf(found.mean_risk[2])


def test_the_isotropic_critical_step_is_closed():
    """kappa = s p / (m (2 - s (1 + 1/m))) = 1 at s = 2 m / (p + m + 1)."""
    for batch_size, p in ((1, 10), (7, 3)):
        found = one_pass(np.ones(p), np.ones(p), batch_size, 0.01, 1)
        assert found.stability.critical_step == pytest.approx(2 * batch_size / (p + batch_size + 1))


@for_all("a, b, size", [(1.5, 0.5, 30_000), (0.7, 1.0, 5_000), (2.5, -0.8, 20_000)])
def test_the_bound_of_groups_covers_all_eigenvalues(a, b, size):
    values, source = PowerLaw(a, size).values(), PowerLaw(b, size).values()
    batch_size = 8
    step = 0.5 * one_pass(values, source, batch_size, 0.01, 1).stability.critical_step
    path = simulated_passes.recursion(values, source, batch_size, step, 400, 0.5)
    steps = np.arange(401)
    shuffled = np.random.default_rng(0).permutation(size)
    for spectrum, start in (
        (PowerLaw(a, size), PowerLaw(b, size)),
        (values[shuffled], source[shuffled]),
    ):
        for cells in (32, 256):
            found = one_pass(spectrum, start, batch_size, step, steps, noise=0.5, cells=cells)
            assert found.error_kind == "bound"
            off = np.abs(found.risk - path)
            assert (off <= found.error + 1e-12 * path).all()
        assert (found.error <= 1e-3 * path).all()
        assert (off <= 2e-5 * path).all()


def test_the_estimate_of_groups_covers_with_momentum_and_changing_steps():
    values, source = PowerLaw(1.3, 1000).values(), PowerLaw(0.5, 1000).values()
    for step, momentum in ((0.2, 0.8), (np.geomspace(1.2, 0.01, 200), 0.1)):
        ask = {"noise": 0.3, "momentum": momentum}
        many = one_pass(values, source, 4, step, np.arange(200), **ask, cells=1024)
        few = one_pass(values, source, 4, step, np.arange(200), **ask, cells=64)
        assert many.error_kind == "exact"
        assert few.error_kind == "estimate"
        assert (np.abs(few.risk - many.risk) <= few.error + 1e-12).all()


def test_infinitely_many_eigenvalues_are_the_limit_of_many():
    steps = np.array([0, 10, 1000, math.inf])
    ask = {"batch_size": 4, "step": 0.2, "steps": steps}
    endless = one_pass(PowerLaw(1.5), PowerLaw(0.6), **ask)
    many = one_pass(PowerLaw(1.5, 10**12), PowerLaw(0.6, 10**12), **ask)
    np.testing.assert_allclose(endless.risk, many.risk, rtol=1e-4)
    np.testing.assert_allclose(endless.stability.kappa, many.stability.kappa, rtol=1e-5)


def test_power_laws_add_up():
    scipy_special = pytest.importorskip("scipy.special")
    for exponent in (0.0, 0.5, 1.0, 1.7, 3.0, -0.5):
        law = PowerLaw(exponent, 5000, scale=2.0)
        assert law.total() == pytest.approx(math.fsum(law.values()), rel=1e-14)
    assert PowerLaw(1.2).total() == pytest.approx(scipy_special.zeta(1.2), rel=1e-14)
    assert PowerLaw(1.0).total() == math.inf


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(1.5, 0.3), (2.0, 0.0)])
def test_its_exponents_are_those_of_theory(a, b):
    found = compute_frontier(PowerLaw(a), PowerLaw(b), 1, 0.2, np.geomspace(1e6, 1e9, 5))
    assert found.risk_exponent == pytest.approx(found.theory[0], abs=0.01)
    assert found.size_exponent == pytest.approx(found.theory[1], abs=0.02)
    np.testing.assert_allclose(found.size * found.steps, found.compute)


@for_all(
    "laws, step, batch_size, largest",
    [((2.0, 0.0), 0.2, 1, 64), ((1.5, 0.3), 0.1, 1, 150), ((1.5, 2.5), 0.3, 4, 90)],
)
def test_the_frontier_is_within_its_error_of_the_best_of_all_sizes(laws, step, batch_size, largest):
    """`python -m benchmarks.scaling_laws` has 108 such cases."""
    budgets = batch_size * np.array([1e3, 1e4, 1e5])
    found = compute_frontier(*map(PowerLaw, laws), batch_size, step, budgets)
    for budget, size, risk, error in zip(budgets, found.size, found.risk, found.error, strict=True):
        assert abs(least_risk(laws, batch_size, step, budget, largest) - risk) <= error < 0.01 * risk
        # The size is whole, and has this risk.
        steps = int(budget // (batch_size * size))
        assert abs(exact_risk(laws, int(size), batch_size, step, steps) - risk) <= error
