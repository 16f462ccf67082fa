"""Section 3.3 and Appendices B.3 and C: asymptotics, fixed dimension and proportional."""

import math
from itertools import permutations

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import asymptotics, free
from tests.looped import for_all


def test_proposition_fixedp_Z_limit():
    sigma = np.array([0.5, 1.0, 2.0])
    problem = rs.gaussian(200_000, 3, covariance=sigma, seed=0)
    for batches in (2, 4, 6):
        Z = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=1.2).epoch.Z
        assert pytest.approx(np.diag(asymptotics.shrinkage(batches, 1.2)(sigma)), abs=0.03) == Z


def test_proposition_fixedp_Z_limit_is_printed_with_a_coefficient_that_holds_up_to_three_batches_only():
    for batches in (2, 3, 4, 5):
        step = 0.9 / batches
        printed = [
            math.factorial(batches - 1) * math.factorial(batches - 1 - i) / math.factorial(i + 1)
            for i in range(1, batches)
        ]
        correct = asymptotics.shrinkage(batches, 0.9).coefficients[1:] / [
            (-step) ** i for i in range(1, batches)
        ]
        agree = printed == pytest.approx(correct)
        assert agree == (batches <= 3)


def test_the_proof_of_fixedp_Z_limit_counts_the_words_of_distinct_batches():
    batches, step, value = 4, 0.3, 0.8
    # With every W_b equal to a number, the mean over orders is the polynomial.
    mean = np.mean([np.prod([1 - step * value for _ in order]) for order in permutations(range(batches))])
    found = asymptotics.shrinkage(batches, batches * step).coefficients @ value ** np.arange(1, batches + 1)
    assert found == pytest.approx((1 - mean) / (batches * step), rel=1e-14)


def test_the_examples_of_two_and_three_batches():
    two, three = asymptotics.shrinkage(2, 0.8).coefficients, asymptotics.shrinkage(3, 0.8).coefficients
    assert two == pytest.approx([1, -0.8 / 4])
    assert three == pytest.approx([1, -0.8 / 3, 0.8**2 / 27])


def test_batching_shrinks_Z_and_not_W():
    eigenvalues = np.linspace(0.01, 1, 50)
    for batches in (2, 3, 8):
        assert (asymptotics.shrinkage(batches, 1.0)(eigenvalues) < eigenvalues).all()


def test_Z_is_not_a_consistent_estimator_of_Sigma():
    problem = rs.gaussian(100_000, 2, seed=1)
    Z = rs.descend(problem, rs.RandomReshuffling(batches=2), alpha=1.0).epoch.Z
    assert pytest.approx(0.75 * np.eye(2), abs=0.02) == Z


def _repeated(batches: int, noise: float, seed: int) -> rs.LeastSquares:
    """One block of rows, repeated: then Pi_b = I - p(W) for every b, and the limit is exact."""
    rng = np.random.default_rng(seed)
    X, truth = np.tile(rng.standard_normal((20, 3)), (batches, 1)), rng.standard_normal(3)
    y = X @ truth + noise * rng.standard_normal(len(X))
    return rs.LeastSquares(X, y, beta_star=truth, noise=noise)


@pytest.mark.parametrize("batches", [1, 3])
def test_proposition_fixedp_error_limit_first_display(batches):
    problem = _repeated(batches, 1.0, 5)
    run = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=0.9)
    left, singular, right = np.linalg.svd(problem.X, full_matrices=False)
    eigenvalues = singular**2 / problem.n
    noise = problem.y - problem.X @ problem.beta_star
    for k in (1, 4):
        factor = (1 - 0.9 * asymptotics.shrinkage(batches, 0.9)(eigenvalues)) ** k
        error = right @ (run.iterate(k) - problem.beta_star)
        expected = factor * (right @ -problem.beta_star) + (1 - factor) * (left.T @ noise) / singular
        assert error == pytest.approx(expected, rel=1e-11)
        printed = factor * (right @ -problem.beta_star) + (1 - factor) * (left.T @ noise) / eigenvalues
        assert not np.allclose(error, printed, rtol=0.1)


@pytest.mark.parametrize("batches", [1, 4])
def test_proposition_fixedp_error_limit_second_display(batches):
    problem = _repeated(batches, 0.6, 8)
    run = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=1.1)
    eigenvalues, vectors = np.linalg.eigh(problem.X.T @ problem.X / problem.n)
    start = vectors.T @ -problem.beta_star
    for k in (1, 4):
        factor = (1 - 1.1 * asymptotics.shrinkage(batches, 1.1)(eigenvalues)) ** k
        variance = 0.36 / problem.n * np.sum((1 - factor) ** 2 / eigenvalues)
        assert run.risk(k).total == pytest.approx(np.sum(factor**2 * start**2) + variance, rel=1e-11)
        assert run.risk(k).bias != pytest.approx(np.sum(factor**2 * start), rel=0.1)


def test_mini_batches_have_another_stopping_time_and_a_lower_early_stopped_risk():
    full, two = (asymptotics.learning_curve(0.25, 0.4, batches).best_epoch() for batches in (1, 2))
    four = asymptotics.learning_curve(0.25, 0.4, 4).best_epoch()
    assert four.epoch > full.epoch
    assert four.risk < two.risk < full.risk


def test_the_marchenko_pastur_law_of_alpha_W():
    aspect, alpha = 1.5, 0.2
    law = asymptotics.batch_spectrum(aspect, alpha, 1)
    low, high = alpha * (1 - math.sqrt(aspect)) ** 2, alpha * (1 + math.sqrt(aspect)) ** 2
    x = np.linspace(low, high, 30)[1:-1]
    printed = np.sqrt((high - x) * (x - low)) / (2 * np.pi * alpha * aspect * x)
    assert law.density(x) == pytest.approx(printed, rel=1e-12)


def test_caption_of_the_overparameterized_spectrum_has_the_point_mass_one_minus_one_over_gamma():
    for batches in (1, 2):
        (place, mass) = asymptotics.batch_spectrum(1.5, 0.2, batches).atoms[0]
        assert (place, mass) == (0.0, pytest.approx(1 / 3))
        assert mass != pytest.approx(1 / (1 - 1.5))
    rates = rs.descend(rs.gaussian(200, 300, seed=0), rs.RandomReshuffling(batches=2), alpha=0.2)
    assert rates.frozen.dimension == 100


def test_equation_Z_noncomm_poly():
    problem = rs.gaussian(40, 10, seed=2)
    W1, W2 = (part.T @ part / 20 for part in (problem.X[:20], problem.X[20:]))
    Z = rs.descend(problem, rs.RandomReshuffling(batches=2), alpha=0.3).epoch.Z
    correct = 0.15 * (W1 + W2) - 0.09 / 8 * (W2 @ W1 + W1 @ W2)
    printed = 0.15 * (W1 + W2) - 0.09 / 8 * (W2 @ W1 + W2 @ W1)
    assert pytest.approx(correct, abs=1e-14) == 0.3 * Z
    assert pytest.approx(printed, abs=1e-6) != 0.3 * Z


def test_the_two_batch_law_has_a_closed_form():
    for aspect, alpha in ((0.25, 0.4), (1.5, 0.2)):
        x, y = free.variables(*[free.MarchenkoPastur(2 * aspect, alpha / 2)] * 2)
        numerical = free.spectrum(x + y - (x * y + y * x) / 2)
        closed = asymptotics.TwoBatchLaw(aspect, alpha)
        t = np.linspace(*closed.support[0], 50)[1:-1]
        assert closed.density(t) == pytest.approx(numerical.density(t), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("aspect", "alpha", "n"), [(0.25, 0.4, 2000), (1.5, 0.2, 600)])
def test_figure_spectra_comp_a_single_matrix_follows_both_laws(aspect, alpha, n):
    problem = rs.gaussian(n, round(aspect * n), seed=0)
    for batches in (1, 2):
        law = asymptotics.batch_spectrum(aspect, alpha, batches)
        run = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=alpha)
        moving = np.sort(run.epoch.decay_rates[~run.epoch.modes.frozen])
        levels = (law.cdf(moving) - law.frozen[0]) / (1 - law.frozen[0])
        assert np.abs(levels - (np.arange(len(levels)) + 0.5) / len(levels)).max() < 0.01


def test_batching_shrinks_the_spectrum_of_alpha_W_and_large_eigenvalues_most():
    ratios = []
    for aspect, alpha in ((0.25, 0.4), (1.5, 0.2)):
        laws = [asymptotics.batch_spectrum(aspect, alpha, batches) for batches in (1, 2)]
        frozen = laws[0].frozen[0]
        full, two = (law.quantile(frozen + (1 - frozen) * np.arange(1, 100) / 100) for law in laws)
        ratios.append(two / full)
    under, over = ratios
    assert (np.diff(ratios) < 0).all()
    assert (under < 1).all()
    # Overparameterized, only the upper part shrinks; the smaller of the moving eigenvalues grow a little.
    assert over[0] > 1 > over[-1]


def test_appendix_C_a_smaller_linearization_gives_the_same_law():
    x, y = free.variables(*[free.MarchenkoPastur(0.5, 0.2)] * 2)
    pencil = free.linearize(x + y - (x * y + y * x) / 2)
    assert pencil.size == 3
    X = np.random.default_rng(0).standard_normal((2, 5, 5))
    matrices = [part @ part.T for part in X]
    direct = matrices[0] + matrices[1] - (matrices[0] @ matrices[1] + matrices[1] @ matrices[0]) / 2
    assert pencil.schur(matrices) == pytest.approx(direct)


@for_all("batches", [2, 3, 4])
def test_theorem_price_of_batches(batches):
    for aspect in (0.25, 0.6):
        prices = [
            (asymptotics.learning_curve(aspect, alpha, batches).limit().total - aspect / (1 - aspect))
            / alpha**2
            for alpha in (0.02, 0.01)
        ]
        extrapolated = 2 * prices[1] - prices[0]
        assert extrapolated == pytest.approx((batches - 1) / (4 * batches**2) * aspect**2, rel=2e-4)
