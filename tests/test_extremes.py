"""The ends of what float64 can hold, and problems in which next to nothing happens: an answer, and no warning."""

import math

import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all, pairwise
from tests.problems import close

TALL = np.array([[1.0, 0.3], [0.2, 1.0], [0.4, 0.5]])
WIDE = np.array([[1.0, 0.2, 0.4, 0.1], [0.3, 1.0, 0.5, 0.7], [0.1, 0.4, 0.2, 1.0]])
SCHEMES = [
    rs.FullBatch(),
    rs.RandomReshuffling(batches=2),
    rs.WithReplacement(batches=2),
    rs.Cyclic(batches=2),
    rs.ShuffleOnce(batches=2),
    rs.SampleReshuffling(batches=2),
    rs.SampleWithReplacement(batch_size=2),
]
RECIPES = [{}, {"momentum": 0.5}, {"penalty": 0.1}, {"momentum": 0.5, "penalty": 0.1}]
EPOCHS = [0, 1, 3, math.inf]
SIZES = [(1e80, 1e95), (1.0, 1e-95), (1e-20, 1e95), (1e-150, 1e-60), (1e150, 1e60)]
"""Of features and responses."""
FEW_DRAWS = {"rtol": 10.0}
"""What is sampled need not be known well: the same draws are compared."""


HUGE = [1e99, np.full(2, 1e99), 1e99 * np.array([[1.0, 0.5], [0.5, 1.0]])]
"""Covariances."""


def sized(X, features=1.0, responses=1.0, **changes):
    """A problem of which features and responses are multiples of ordinary ones, so that all answers are known."""
    n, p = X.shape
    known = {
        "beta_star": np.linspace(1.0, 2.0, p) * responses / features,
        "noise": 0.5 * responses,
        "covariance": None,
    }
    return rs.LeastSquares(features * X, responses * np.cos(np.arange(n)), **{**known, **changes})


@for_all("X, scheme, momentum, sizes", pairwise([TALL, WIDE], SCHEMES, [0.0, 0.5], SIZES))
def test_answers_are_those_of_ordinary_units(X, scheme, momentum, sizes):
    features, responses = sizes
    ordinary, extreme = (
        rs.descend(problem, scheme, 0.1 / size / size, momentum=momentum, **FEW_DRAWS)
        for problem, size in ((sized(X), 1.0), (sized(X, features, responses), features))
    )
    beta = responses / features
    close(extreme.iterate(EPOCHS) / beta, ordinary.iterate(EPOCHS), 1e-9)
    if not momentum:
        here, there = (
            rs.critical_step(run.problem, scheme, mean_square=False) for run in (ordinary, extreme)
        )
        assert there * features * features == pytest.approx(float(here), rel=2e-9)
    one, other = ordinary.compare_limit(), extreme.compare_limit()
    close(other.distance / beta, one.distance, 1e-9)
    close(other.difference / beta, one.difference, 1e-9)
    if beta > 1e-100:
        close(extreme.risk(EPOCHS).total / beta / beta, ordinary.risk(EPOCHS).total, 1e-9)
        close(
            extreme.expected_risk([1, 3]).total / beta / beta,
            ordinary.expected_risk([1, 3]).total,
            1e-9,
        )


def test_the_distance_of_limits_is_finite_where_the_vector_is():
    run = rs.descend(rs.LeastSquares(TALL, [1e95, 2e95, -1e95]), rs.RandomReshuffling(batches=3), 0.5)
    found = run.compare_limit()
    assert math.isclose(found.distance, math.hypot(*found.difference), rel_tol=1e-12)
    assert 1e85 < found.distance < 1e96


@for_all("scheme, momentum, covariance, noise", pairwise(SCHEMES, [0.0, 0.5], HUGE, [0.5, 1e95]))
def test_a_covariance_at_the_end_of_the_range(scheme, momentum, covariance, noise):
    # Errors of 1e-3: their squares bring the risk back into the range, unless the noise is far beyond.
    size = 1e-3
    unit = covariance / 1e99
    small = {"beta_star": [size, size], "noise": size * noise}
    runs = [
        rs.descend(sized(TALL, covariance=sigma, **small), scheme, 0.1, momentum=momentum, **FEW_DRAWS)
        for sigma in (unit, covariance)
    ]
    ordinary, extreme = (run.risk([0, 3, math.inf]).total for run in runs)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(extreme, ordinary * 1e99, rtol=1e-9)
        mean, expected = (run.expected_risk([0, 3]).total for run in runs)
        np.testing.assert_allclose(expected, mean * 1e99, rtol=1e-9)


def degenerate():
    """Features that are all zero, that are one row or one column, of rank one, or of equal rows."""
    line = np.array([1.0, -2.0, 0.5])
    yield from (np.zeros(shape) for shape in ((4, 3), (3, 5), (1, 1)))
    yield from (
        line[np.newaxis],
        line[:, np.newaxis],
        np.tile(line, (4, 1)),
        np.outer([1.0, 2.0, -1.0], line),
    )
    yield np.vstack([np.zeros((2, 3)), line])
    yield np.column_stack([line, np.zeros(3)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "X", list(degenerate()), ids=lambda X: f"{X.shape[0]}x{X.shape[1]}-{np.abs(X).sum():g}"
)
@pytest.mark.parametrize(
    ("kind", "recipe"), list(zip(["I", "vector", "matrix", "matrix"], RECIPES, strict=True))
)
def test_next_to_nothing_happens_in_every_scheme_and_question(X, kind, recipe):
    n, p = X.shape
    sigma = np.linspace(1.0, 2.0, p)
    covariance = {"I": None, "vector": sigma, "matrix": np.diag(sigma)}[kind]
    problem = rs.LeastSquares(X, np.cos(np.arange(n)), beta_star=np.ones(p), covariance=covariance, noise=0.5)
    batches = min(2, n)
    schemes = [
        rs.FullBatch(), rs.SampleReshuffling(batch_size=2), rs.SampleWithReplacement(batch_size=2),
        *(kind(batches=count) for count in {batches, n}
          for kind in (rs.RandomReshuffling, rs.WithReplacement, rs.Cyclic, rs.ShuffleOnce)),
    ]  # fmt: skip
    for scheme in schemes:
        run = rs.descend(problem, scheme, 0.02, **recipe, **FEW_DRAWS)
        start = float(run.risk(0).total)
        close(start, sigma.sum() if kind != "I" else p)
        answers = [
            run.iterate(EPOCHS), run.training_loss(EPOCHS), run.risk(EPOCHS).total, run.risk(EPOCHS).error,
            run.expected_risk([0, 2]).total, run.limit().parameters, run.compare_limit().distance,
        ]  # fmt: skip
        if not isinstance(scheme, rs.SampleReshuffling):
            answers += [run.mean_square_stability().rate, run.expected_risk(math.inf).total]
        assert all(np.isfinite(answer).all() for answer in answers)
        if not X.any() and "penalty" not in recipe:
            close(run.risk(EPOCHS).total, np.full(4, start))
            assert not run.iterate(EPOCHS).any()
        assert (rs.critical_step(problem, rs.FullBatch()) == math.inf) == (not X.any())


REFUSED = r"must be 0, or between .* for features whose largest entry is about .*, but it is .*critical_step"


@for_all(
    "scheme, size, step",
    pairwise(SCHEMES, [1e-100, 1.0, 1e30], [1e-14, 1e13, 1e100, [0.1, 1e13], rs.PerVisit([0.1, 1e-14])]),
)
def test_steps_far_from_the_size_of_the_features_are_refused(scheme, size, step):
    problem = rs.LeastSquares(size * TALL, np.ones(3))
    given = np.asarray(step.steps if isinstance(step, rs.PerVisit) else step) / size / size
    step = rs.PerVisit(given) if isinstance(step, rs.PerVisit) else given
    with pytest.raises(ValueError, match=f"step {REFUSED}"):
        rs.descend(problem, scheme, step)
    with pytest.raises(ValueError, match=f"step {REFUSED}"):
        rs.simulate(problem, scheme, step, epochs=1, runs=4)
    if not isinstance(step, rs.PerVisit):
        with pytest.raises(ValueError, match=f"(alpha|step) {REFUSED}"):
            rs.descend(problem, scheme, alpha=step * scheme.steps(3))


@for_all("scheme, recipe, small", pairwise(SCHEMES[:4], RECIPES[:2], [1e-6, 1e-12, 0.0]))
def test_what_grows_takes_along_all_parameters(scheme, recipe, small):
    X = np.array([[1.0, -0.5, 0.3], [0.2, 0.9, 1.0], [-0.7, 0.4, 0.6], [0.5, 0.5, -0.8]]) * [1.0, 1.0, small]
    run = rs.descend(rs.LeastSquares(X, np.ones(4)), scheme, 20.0, start=[1.0, 2.0, 3.0], **recipe)
    assert np.isinf(run.iterate([math.inf, 10_000])).all()


@for_all("scheme, recipe, size", pairwise(SCHEMES, RECIPES, [1e110, 1e120]))
def test_a_risk_that_is_beyond_the_range_from_the_start_is_so_in_silence(scheme, recipe, size):
    """What is frozen alone is: 1e99 times the square of 1e110."""
    sigma, recipe = 1e99 * (np.eye(4) + 0.5), {**recipe, "penalty": 1e-60 * recipe.get("penalty", 0.0)}
    problem = rs.LeastSquares(
        1e-30 * WIDE, np.ones(3), beta_star=size * np.ones(4), covariance=sigma, noise=0.5
    )
    run = rs.descend(problem, scheme, 1e59, **recipe, **FEW_DRAWS)
    assert np.isinf(run.risk([0, 1, 3, math.inf]).total).all()
    assert np.isinf(run.expected_risk([0, 1, 3]).total).all()
    assert run.best_epoch().risk == math.inf


@for_all("scheme", SCHEMES)
def test_parameters_are_numbers_where_products_with_features_are_not(scheme):
    """After k epochs of divergence the parameters are 1e250 or so; times the features, 1e80, they are beyond."""
    runs = [
        rs.descend(
            rs.LeastSquares(size * TALL, size * np.ones(3)),
            scheme,
            8.0 / size / size,
            momentum=0.3,
            **FEW_DRAWS,
        )
        for size in (1.0, 2.0**266)
    ]
    ordinary, extreme = (run.iterate([10, 200]) for run in runs)
    assert 1e100 < np.abs(ordinary[1]).max() < np.inf
    np.testing.assert_allclose(extreme, ordinary, rtol=1e-9)


def test_means_beside_squares_are_not_lost_in_the_rounding_of_what_enters():
    """All batches commute, and the responses have no noise: nothing is spread, whichever epochs are asked for."""
    X, truth = np.array([[1.0, 0.0], [3.0, 0.0], [1.0, 0.0]]), np.array([1.7873212246572856, -0.06])
    sigma = 1e30 * np.array([[0.5, 1.1], [1.1, 5.5]])
    y = [1.7873212246572856, 5.361963673971857, 1.7873212246572856]
    problem = rs.LeastSquares(X, y, beta_star=truth, covariance=sigma, noise=0.0)
    run = rs.descend(
        problem, rs.RandomReshuffling(batches=3), step=0.11568658240732223, start=[-288.2, -343.1]
    )
    found = run.expected_risk([1000, 3, 10**15, math.inf], given_responses=True)
    np.testing.assert_allclose(found.total, found.mean, rtol=1e-10)


@for_all("covariance", [1e-95, [1e-95, 3e-95], 1e-95 * np.array([[2.0, 1.0], [1.0, 2.0]])])
def test_a_tiny_covariance_beside_huge_noise_keeps_its_digits(covariance):
    problem = rs.LeastSquares(
        np.eye(2), np.zeros(2), beta_star=[0.3, -0.2], covariance=covariance, noise=1e95
    )
    for scheme in (rs.FullBatch(), rs.RandomReshuffling(batches=2), rs.Cyclic(batches=2)):
        run = rs.descend(problem, scheme, step=1e-11)
        assert run.expected_risk(0).total == pytest.approx(float(run.risk(0).total), rel=1e-12)


@for_all("recipe", [{}, {"penalty": 5.0}, {"momentum": 0.9}])
def test_a_risk_that_sees_nothing_of_what_grows_stays_where_it_is(recipe):
    rng = np.random.default_rng(4)
    X = np.insert(rng.standard_normal((5, 3)), 1, 0.0, axis=1)
    problem = rs.LeastSquares(
        X, np.ones(5), beta_star=[1.0, 0.8, 1.0, 1.0], covariance=[0.0, 0.3, 0.0, 0.0], noise=0.5
    )
    run = rs.descend(problem, rs.RandomReshuffling(batch_size=5), alpha=20.0, **recipe)
    assert not run.stability().converges
    for epochs in (3, 100, 10**9):
        assert run.risk(epochs).total == pytest.approx(0.3 * 0.8**2, rel=1e-12)


@for_all("size", [1e-101, 1e101])
@for_all("name", ["y", "noise", "beta_star", "start", "covariance"])
def test_sizes_whose_squares_are_no_numbers_are_refused(name, size):
    known = {
        "y": np.zeros(3),
        "noise": 0.0,
        "beta_star": np.zeros(2),
        "start": np.zeros(2),
        "covariance": 1.0,
    }
    known[name] = size * np.ones(np.shape(known[name]))
    X, start = TALL / np.abs(TALL).max(), known.pop("start")
    with pytest.raises(ValueError, match=rf"{name} must have its largest entry.* between 1e-100 and 1e100"):
        rs.descend(rs.LeastSquares(X, **known), rs.FullBatch(), 0.1, start=start)


ONE_ROW, COLUMN = np.array([[-0.6, 0.3]]), np.array([[1.0], [2.0], [3.0]])
SMALL_ROWS = np.vstack([np.diag([1.0, 0.11, 0.013, 0.0015]), np.zeros((4, 4))])
LONG_TIME = np.append(np.arange(360), 1000)


@for_all(
    "scheme, recipe, noise, covariance",
    [
        *pairwise(
            [rs.Cyclic(batches=1), rs.RandomReshuffling(batches=1), rs.FullBatch()],
            RECIPES,
            [0.0, 0.5],
            [None, [1.0, 3.0]],
        ),
        *(
            (kind(batches=3), {"momentum": 0.5}, 1e6, None)
            for kind in (rs.WithReplacement, rs.Cyclic, rs.ShuffleOnce)
        ),
    ],
)
def test_a_run_that_diverges_says_so_in_silence(scheme, recipe, noise, covariance):
    truth = {"beta_star": [1.0, 1.0], "noise": noise, "covariance": covariance}
    X = TALL if noise == 1e6 else ONE_ROW
    run = rs.descend(rs.LeastSquares(X, np.ones(len(X)), **truth), scheme, 30.0, **recipe)
    assert run.best_epoch().epoch == 0
    # The last finite numbers and the first infinite ones are where parts overflow that are to be added.
    risks = run.risk(LONG_TIME).total
    assert (risks[340:] == math.inf).all()
    assert not np.isnan(risks).any()
    assert not run.stability().converges


@for_all("scheme, momentum, step", pairwise(SCHEMES, [0.0, 0.5], [1e6, 1e10]))
def test_beyond_the_range_of_numbers_is_infinite(scheme, momentum, step):
    problem = rs.LeastSquares(1e-150 * TALL, [1e95, -1e95, 1e95], beta_star=[1.0, 1.0], noise=1e95)
    run = rs.descend(problem, scheme, 1e299, momentum=momentum, **FEW_DRAWS)
    assert (np.abs(run.iterate(math.inf)) > 1e240).all()
    assert run.risk(math.inf).total == math.inf
    assert run.expected_risk(3).total == math.inf
    # Second moments leave the range, too.
    problem = rs.LeastSquares(COLUMN, [-1.0, 0.3, -4.0], beta_star=[-0.8], noise=3.0)
    run = rs.descend(problem, scheme, step, momentum=0.9, start=[1e-3], **FEW_DRAWS)
    found = run.expected_risk([0, 500, 1e15]).total
    assert np.isfinite(found[0])
    assert np.isinf(found[1:]).all()
    # A limit is infinite as a whole where anything grows.
    y = np.array([-0.9, -0.38, -0.0056, -0.0004, 0.0, 0.0, 0.0, 0.0])
    if scheme in SCHEMES[1:4]:
        run = rs.descend(rs.LeastSquares(SMALL_ROWS, y), scheme, alpha=1e6, penalty=1e-9, start=np.ones(4))
        assert np.isinf(run.iterate(math.inf)).all()


@for_all("scheme", [rs.FullBatch(), rs.RandomReshuffling(batches=2), rs.Cyclic(batches=2)])
def test_a_diverging_run_whose_squares_are_no_numbers_has_a_finite_mean_or_is_infinite(scheme):
    """A run that has grown to 1e173 under Sigma = 1e-95: the mean iterate has a risk, the second moment is none."""
    problem = rs.LeastSquares(np.eye(2), np.zeros(2), beta_star=[0.3, -0.2], covariance=1e-95, noise=0.5)
    run = rs.descend(problem, scheme, step=2e10)
    assert np.isfinite(run.risk([1, 17]).total).all()
    assert (run.expected_risk([1, 17]).total >= run.risk([1, 17]).total * (1 - 1e-9)).all()


@for_all("scheme, recipe, sigma", pairwise(SCHEMES, RECIPES, [1.0, [1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]]]))
def test_responses_of_any_size_beside_covariances_of_any_size(scheme, recipe, sigma):
    sigma, known = np.asarray(sigma), {"beta_star": [0.3, -0.2], "noise": 2.6}
    # With noise of its own the expected risk depends on no response: not even on one of 1e95.
    ordinary, extreme = (
        rs.descend(
            rs.LeastSquares(TALL, size * np.ones(3), covariance=covariance, **known), scheme, 0.1, **recipe
        ).expected_risk([0, 1, 3])
        for size, covariance in ((1.0, sigma), (1e95, 1e-95 * sigma))
    )
    np.testing.assert_allclose(extreme.total, 1e-95 * ordinary.total, rtol=1e-9)
    ordinary, extreme = (
        rs.descend(sized(TALL, responses=size, covariance=covariance), scheme, 0.1, **recipe)
        .expected_risk([0, 1, 3], given_responses=True)
        .total
        for size, covariance in ((1.0, sigma), (1e95, 1e-90 * sigma))
    )
    np.testing.assert_allclose(extreme, 1e100 * ordinary, rtol=1e-9)


@for_all("scheme, recipe, step", pairwise(SCHEMES, RECIPES, [0.0, 2e-12, 1e4, 2e11]))
def test_nothing_moves_from_zero_to_responses_of_zero(scheme, recipe, step):
    problem = rs.LeastSquares(TALL, np.zeros(3), beta_star=[2025.0, 1416.0], covariance=[1.0, 3.0])
    run = rs.descend(problem, scheme, step, **recipe, **FEW_DRAWS)
    assert not run.iterate([0, 1, 5]).any()
    risk = run.expected_risk([5, 10], given_responses=True)
    np.testing.assert_allclose(risk.total, 2025.0**2 + 3 * 1416.0**2, rtol=1e-12)
    np.testing.assert_array_equal(risk.spread, 0.0)
    close(
        rs.descend(rs.LeastSquares(TALL, np.ones(3)), scheme, step, start=[1.0, 2.0]).iterate(0), [1.0, 2.0]
    )


def test_features_of_zeros():
    still = rs.LeastSquares(np.zeros((5, 2)), np.ones(5))
    assert rs.descend(still, rs.RandomReshuffling(batches=2), 1.5, method="cavity").range_assumption.holds
    # The loss does not see what a penalty does to columns of zeros.
    still = rs.LeastSquares(np.zeros((3, 2)), [1.0, 2.0, 2.0])
    run = rs.descend(still, rs.RandomReshuffling(batches=1), 2.5, penalty=1.0, start=[1.0, 2.0])
    assert np.isinf(run.iterate(math.inf)).all()
    np.testing.assert_array_equal(run.training_loss([0, 3, 10_000, math.inf]), 1.5)
    # Nothing enters from responses of zero.
    still = rs.LeastSquares([[0.0, 0.01, 0.2], [0.0, 2.5, 1.1], [0.0, 0.0, 0.0]], np.zeros(3))
    equal = rs.Cyclic(batches=[[1], [0], [2]], normalize="equal")
    for scheme in (equal, rs.ShuffleOnce(batches=3), rs.Cyclic(batches=3)):
        run = rs.descend(still, scheme, alpha=1e10)
        assert not run.iterate([0, 1, 5, math.inf]).any()
        assert not run.compare_limit().difference.any()


@for_all("scheme", [rs.Cyclic(batches=1), rs.ShuffleOnce(batches=1), rs.RandomReshuffling(batches=1)])
def test_what_turns_around_every_epoch_counts_them_to_the_last(scheme):
    """Step (w + penalty) = 2, where w = penalty: each epoch multiplies by -1, give or take the last digit."""
    X = np.array([[-0.5735011518884231, 0.5422410460851568]])
    problem = rs.LeastSquares(X, [-0.9], beta_star=[0.0, 0.0], covariance=[0.1, 1.0], noise=0.5)
    run = rs.descend(problem, scheme, alpha=1.6053195840378884, penalty=0.6229289232768733)
    alone = run.risk(10**15).total
    for early in (2, 3):
        np.testing.assert_allclose(run.risk([early, 10**15]).total[1], alone, rtol=1e-9, atol=1e-20)
