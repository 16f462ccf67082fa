"""Learning curves in the limit, also of many batches and random row scales, against formulas and finite sizes."""

import itertools
import math
import sys
from dataclasses import replace

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import asymptotics, free
from reshuffle.asymptotics import BatchLaw, LearningCurve, batch_spectrum, learning_curve
from reshuffle.free import ConvergenceError
from tests.asymptotics.oracles import expression, finite_risk, marchenko_pastur
from tests.looped import for_all

EPOCHS = np.array([1, 3, 10, 40, 200])


def full_batch_risk(aspect, alpha, epochs, noise, signal):
    """Gradient descent in the limit by quadrature with the Marchenko-Pastur density, as in the literature."""
    x, weights = marchenko_pastur(aspect)
    decay, drift = (1 - alpha * x) ** epochs, alpha * sum((1 - alpha * x) ** epoch for epoch in range(epochs))
    frozen = signal**2 * max(0.0, 1 - 1 / aspect)
    return frozen, signal**2 * (weights @ decay**2), noise**2 * aspect * (weights @ (x * drift**2))


@for_all(
    "aspect, alpha",
    [
        *((aspect, 0.3) for aspect in (0.25, 1.0, 1.5, 3.0)),
        # Spectra that end exactly at 1 or 2, where (1 - x)^k is special.
        *((1.0, 0.25), (1.0, 0.5), (0.5, 0.3431457505076198), (0.25, 4 / 9), (0.25, 8 / 9), (4.0, 1 / 9)),
    ],
)
def test_one_batch_is_gradient_descent(aspect, alpha):
    closed = LearningCurve(asymptotics.batch_spectrum(aspect, alpha, 1), noise=0.7, signal=1.3)
    for epochs in (0, 1, 5, 7, 50, 100):
        found, expected = closed.risk(epochs), full_batch_risk(aspect, alpha, epochs, 0.7, 1.3)
        parts = found.frozen, found.bias, found.variance
        assert [float(part) for part in parts] == pytest.approx(expected, rel=1e-10, abs=1e-14)
        if alpha == 0.3:
            system = LearningCurve(BatchLaw(aspect, alpha, 1), noise=0.7, signal=1.3).risk(epochs)
            parts = system.frozen, system.bias, system.variance
            assert [float(part) for part in parts] == pytest.approx(expected, rel=1e-8, abs=1e-9)


@for_all("aspect, limit", [(0.25, 1 / 3), (0.8, 4.0), (1.5, 2.0), (3.0, 0.5)])
def test_one_batch_ends_in_the_ridgeless_risk(aspect, limit):
    risk = asymptotics.learning_curve(aspect, 0.1, 1, noise=2.0, signal=3.0).risk(math.inf)
    assert risk.variance == pytest.approx(4 * limit, rel=1e-12)
    assert risk.frozen == pytest.approx(9 * max(0.0, 1 - 1 / aspect))
    assert risk.bias == 0


@for_all("aspect, alpha, value", [(0.25, 0.4, 0.33399558), (0.5, 0.3, 1.00131405), (0.8, 0.2, 4.00140102)])
def test_two_batches_end_at_the_known_values(aspect, alpha, value):
    assert asymptotics.learning_curve(aspect, alpha, 2).limit().total == pytest.approx(value, abs=5e-9)


@for_all("aspect, alpha", [(0.25, 0.4), (1.0, 0.3), (1.5, 0.5)])
def test_the_engine_finds_the_same_curve_for_two_batches(aspect, alpha):
    p, m, _ = expression(aspect, alpha, 2)
    spectrum = free.spectrum(p)
    weighted = spectrum.weighted(m / alpha)
    found = learning_curve(aspect, alpha, 2).risk(EPOCHS)
    # The engine's own panels are not made for higher powers.
    for i, k in enumerate(EPOCHS[:2]):
        total = spectrum.expectation(lambda x, k=k: (1 - x) ** (2 * k))
        # The noise has no part in the frozen modes; the residue that the engine extrapolates there is rounding.
        stuck = sum(mass for _, mass in weighted.atoms)
        assert abs(stuck) < 1e-8
        noise = weighted.expectation(lambda x, k=k: _drift(x, k) ** 2) - stuck * k**2
        assert found.frozen[i] + found.bias[i] == pytest.approx(total, rel=1e-8)
        assert found.variance[i] == pytest.approx(aspect * alpha**2 * noise, rel=1e-8)


def _drift(x, k):
    return np.sum([(1 - x) ** j for j in range(k)], axis=0)


@for_all("aspect, batches", [(0.25, 1), (1.5, 1), (0.25, 2), (1.5, 2), (0.25, 3), (1.5, 4)])
def test_exact_finite_curves_approach_the_limit_like_one_over_n(batches, aspect):
    alpha, errors = 0.25, []
    curve = learning_curve(aspect, alpha, batches)
    limit = curve.risk(EPOCHS)
    for n, draws in ((40, 60), (160, 15)):
        p = round(aspect * n)
        parts = [finite_risk(rs.gaussian(n, p, seed=s), batches, alpha, EPOCHS) for s in range(draws)]
        bias, variance = np.mean(parts, axis=0)
        frozen = max(0.0, 1 - n / p)
        errors.append(np.abs((frozen + bias + variance) / limit.total - 1).max())
    assert errors[1] < 0.02
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.slow
@pytest.mark.parametrize(("batches", "power"), [(1, None), (2, None), (2, 1.0), (4, 2.0)])
def test_with_any_sigma_and_source_finite_curves_approach_the_limit_like_one_over_n(batches, power):
    """The mean over draws of the exact risk, and of the bias of a signal along the eigenvalues to some power."""
    aspect, alpha, eigenvalues = 0.5, 0.3, np.array([2.0, 1.0, 0.5, 0.25])
    shares = np.full(4, 0.25) if power is None else eigenvalues**power / (eigenvalues**power).sum()
    source = None if power is None else shares
    limit = learning_curve(aspect, alpha, batches, covariance=eigenvalues, source=source).risk(EPOCHS).total
    errors = []
    for n, draws in ((16, 160), (64, 40)):
        p = round(aspect * n)
        diagonal, signal = np.repeat(eigenvalues, p // 4), np.repeat(shares, p // 4) * 4 / p
        totals = []
        for seed in range(draws):
            problem = rs.gaussian(n, p, covariance=diagonal, seed=seed)
            run = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=alpha)
            modes = problem.row_space.lift(run.epoch.modes.vectors)
            both = (modes.T @ (diagonal[:, np.newaxis] * modes)) * (modes.T @ (signal[:, np.newaxis] * modes))
            decay = np.power.outer(1 - run.epoch.decay_rates, EPOCHS.astype(float)).T
            bias = np.einsum("ki,ij,kj->k", decay, both, decay)
            totals.append(bias + run.risk(EPOCHS).variance / problem.noise**2)
        errors.append(np.abs(np.mean(totals, axis=0) / limit - 1).max())
    assert errors[1] < 0.05
    assert -1.5 < math.log(errors[1] / errors[0]) / math.log(4) < -0.6


@for_all("aspect, batches", [(0.25, 2), (1.5, 2), (0.9, 1), (2.0, 3)])
def test_the_best_epoch_is_the_best_of_all(aspect, batches):
    curve = learning_curve(aspect, 0.2, batches, noise=0.8)
    found = curve.best_epoch()
    epochs = np.arange(3000)
    totals = curve.risk(epochs).total
    assert found.epoch == totals.argmin()
    assert found.risk == pytest.approx(totals.min(), rel=1e-9)


def test_at_aspect_one_the_limiting_variance_is_infinite_and_finite_epochs_are_not():
    for batches in (1, 2, 3):
        curve = learning_curve(1.0, 0.3, batches)
        risk = curve.risk([10, 1000, 10**6, math.inf])
        assert np.isfinite(risk.total[:3]).all()
        assert (np.diff(risk.variance[:3]) > 0).all()
        assert risk.total[3] == math.inf
        assert replace(curve, noise=0.0).limit().total == 0


@for_all("aspect", [0.9, 0.99, 0.999999, 1.0, 1.000001, 1.1])
@for_all("batches, alpha", [(1, 0.1), (1, 0.4), (2, 0.3), (2, 0.5)])
def test_nothing_is_lost_near_aspect_one(aspect, batches, alpha):
    curve = learning_curve(aspect, alpha, batches)
    law = curve.spectrum
    assert curve.risk(0).total == pytest.approx(1, abs=1e-10)
    assert law.cdf(law.support[-1][1]) == pytest.approx(1, abs=1e-10)
    mean = 1 - (1 - alpha / batches) ** batches
    assert law.moments(1)[0] == pytest.approx(mean, rel=1e-11)
    if batches == 1:
        assert curve.risk(1).bias + curve.frozen == pytest.approx(
            1 - 2 * alpha + alpha**2 * (1 + aspect), rel=1e-12
        )
    if aspect < 1:
        price = 0.0 if batches == 1 else (aspect * alpha) ** 2 / 16
        assert curve.limit().total == pytest.approx(
            aspect / (1 - aspect) + price, rel=2e-3 * price + 1e-9, abs=price
        )


def test_a_hard_edge_is_integrated_for_any_number_of_epochs():
    def exact(epochs):
        # With x = 4 sin(angle)^2 the law is (4/pi) cos(angle)^2, and panels grow geometrically from zero.
        points, weights = np.polynomial.legendre.leggauss(60)
        total = 0.0
        for a, b in itertools.pairwise([0.0, *np.geomspace(1e-9, np.pi / 2, 400)]):
            angle = (a + b) / 2 + (b - a) / 2 * points
            x = 4 * np.sin(angle) ** 2
            drift = -np.expm1(epochs * np.log1p(-0.2 * x)) / x
            total += np.sum(weights * (b - a) / 2 * 4 / np.pi * np.cos(angle) ** 2 * x * drift**2)
        return total

    for epochs in (10, 10**4, 10**7):
        found = asymptotics.learning_curve(1.0, 0.2, 1).risk(epochs)
        assert found.variance == pytest.approx(exact(epochs), rel=1e-9)


def test_without_noise_it_is_best_never_to_stop():
    assert learning_curve(0.5, 0.2, 2, noise=0.0).best_epoch().epoch == math.inf


# The package has a function of this name.
MODULE = sys.modules["reshuffle.asymptotics.learning_curve"]


@pytest.mark.slow
@pytest.mark.parametrize(("aspect", "alpha"), [(0.5, 0.5), (0.25, 2.0), (1.5, 0.5)])
def test_the_expansion_is_within_its_error_of_the_equations(aspect, alpha, monkeypatch):
    """From few batches to twelve, where both are cheap."""
    monkeypatch.setattr(MODULE, "_EXPANDED", (3, 4, 6, 8))
    epochs = [1, 5, 100]
    exact = learning_curve(aspect, alpha, 12, noise=0.5).risk(epochs)
    monkeypatch.setattr(MODULE, "MOST_BATCHES", 11)
    expanded = learning_curve(aspect, alpha, 12, noise=0.5).risk(epochs)
    assert exact.error_kind == "exact"
    assert expanded.error_kind == "estimate"
    assert (np.abs(expanded.total - exact.total) <= expanded.error).all()
    assert (expanded.error < (0.1 if alpha == 2 else 1e-3) * exact.total).all()


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "accuracy"), [(2.6, 0.01), (3.2, 0.05), (5.5, 0.5)])
def test_what_diverges_with_fewer_batches_is_left_out_of_the_expansion(alpha, accuracy, monkeypatch):
    """Three batches converge up to alpha = 2.03, four up to 2.85, six up to 4.83, twelve up to 10.2."""
    monkeypatch.setattr(MODULE, "_EXPANDED", (3, 4, 6, 8, 10))
    exact = learning_curve(0.5, alpha, 12, noise=0.5).risk([1, 5, 100])
    monkeypatch.setattr(MODULE, "MOST_BATCHES", 11)
    expanded = learning_curve(0.5, alpha, 12, noise=0.5).risk([1, 5, 100])
    assert (np.abs(expanded.total - exact.total) <= expanded.error).all()
    assert (expanded.error < accuracy * exact.total).all()


def test_an_expansion_that_does_not_tell_convergence_from_divergence_says_so(monkeypatch):
    monkeypatch.setattr(MODULE, "_EXPANDED", (3, 4, 6))
    monkeypatch.setattr(MODULE, "MOST_BATCHES", 8)
    with pytest.raises(ConvergenceError, match=r"does not tell whether .* at most 8 batches"):
        _ = learning_curve(0.5, 7.0, 12).converges


@pytest.mark.slow
def test_a_thousand_batches_are_answered_with_an_error():
    curve = learning_curve(0.5, 0.5, 1000, noise=0.5)
    risk = curve.risk(10)
    assert risk.error_kind == "estimate"
    assert 0 < risk.error < 1e-6
    assert curve.converges
    # Batches of one row each: every row meets all others in random order.
    problem = rs.gaussian(400, 200, noise=0.5, seed=0)
    run = rs.descend(problem, rs.SampleReshuffling(batch_size=1), step=0.5 / 400)
    assert run.risk(10).variance == pytest.approx(float(risk.variance), rel=0.03)


SCALES = np.array([0.5, 1.0, 2.0])
SHARES = np.array([0.5, 0.3, 0.2])
LAW = free.Discrete(SCALES, SHARES)


def finite_problem(n, p, batches, covariance, seed):
    """A problem whose batches have the same number of rows of each scale."""
    scales = np.tile(np.repeat(SCALES, np.round(SHARES * n / batches).astype(int)), batches)
    drawn = rs.gaussian(n, p, covariance=covariance, noise=0.5, seed=seed)
    X = scales[:, np.newaxis] * drawn.X
    y = X @ drawn.beta_star + 0.5 * np.random.default_rng(seed).standard_normal(n)
    return rs.LeastSquares(X, y, beta_star=drawn.beta_star, covariance=covariance, noise=0.5)


def test_the_spectrum_of_one_batch_has_the_published_edges_of_a_compound_free_poisson_law():
    # Of X X'/p, ten times as many columns as rows, with squared scales 2 and 5.5.
    law = batch_spectrum(10.0, 0.1, 1, row_scales=free.Discrete(np.sqrt([2.0, 5.5]), [0.75, 0.25]))
    edges = 1.0055181597, 3.1256892314, 4.1627237799, 7.5953545433
    assert np.ravel(law.support) == pytest.approx(edges, abs=1e-10)
    assert law.atoms == ((0.0, pytest.approx(0.9)),)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("aspect", "alpha", "batches", "eigenvalues"),
    [(0.5, 0.3, 2, (1.0,)), (1.5, 0.2, 3, (1.0,)), (0.5, 0.1, 4, (1.0, 4.0)), (1.5, 0.05, 1, (1.0, 4.0))],
)
def test_curves_are_those_of_finite_problems(aspect, alpha, batches, eigenvalues):
    n = 480
    p = round(aspect * n)
    covariance, epochs = np.repeat(eigenvalues, p // len(eigenvalues)), [1, 5, 20, 100]
    found = learning_curve(aspect, alpha, batches, covariance=eigenvalues, row_scales=LAW).risk(epochs)
    drawn = [
        finite_risk(finite_problem(n, p, batches, covariance, seed), batches, alpha, epochs)
        for seed in range(4)
    ]
    bias, variance = np.mean(drawn, axis=0)
    total = float(np.mean(eigenvalues))
    assert found.bias == pytest.approx(bias, abs=0.005 * total)
    assert found.variance == pytest.approx(variance, rel=0.02)


@pytest.mark.parametrize("aspect", [0.5, 1.5])
def test_the_critical_alpha_is_where_the_end_of_the_spectrum_is_two(aspect):
    alpha = asymptotics.critical_alpha(aspect, 3, row_scales=LAW)
    assert BatchLaw(aspect, alpha, 3, row_scales=LAW).ends[1] == pytest.approx(2.0, abs=1e-9)
    # Below that of rows that have the same mean square.
    assert alpha < asymptotics.critical_alpha(aspect, 3, covariance=float(SHARES @ SCALES**2))


def test_the_minimum_norm_solution_weighs_rows_by_their_inverse_squares():
    curve = learning_curve(3.0, 0.1, 3, row_scales=LAW)
    expected = float(SHARES @ SCALES**-2.0) / (3.0 - 1)
    assert curve.limit().variance == pytest.approx(expected, rel=1e-12)
    assert curve.risk(1e5).variance == pytest.approx(expected, rel=1e-9)
