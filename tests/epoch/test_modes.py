"""Maps of an epoch, with modes and without, on features of any condition number: against exact arithmetic."""

import math

import numpy as np
import pytest
from flint import acb_mat, arb, arb_mat, ctx

import reshuffle as rs
from reshuffle.epoch import timeline
from tests.looped import for_all, pairwise
from tests.oracles.exact_runs import Scheme, floats, matrix, posed
from tests.problems import case


@for_all("size", [4, 40])
@for_all("step", [1e3, 1e6])
def test_slow_modes_beside_growing_ones_are_not_frozen(size, step):
    """Two batches: Z = (W_1 + W_2) / 2 - step / 4 (W_1 W_2 + W_2 W_1), in 600 bits."""
    rng = np.random.default_rng(3)
    singular = np.logspace(0, -10, size)
    turn, _ = np.linalg.qr(rng.standard_normal((size, size)))
    X = (turn * singular) @ np.linalg.qr(rng.standard_normal((size, size)))[0].T
    run = rs.descend(rs.LeastSquares(X, np.ones(size)), rs.RandomReshuffling(batches=2), step=step)
    assert run.frozen.dimension == 0
    assert (run.epoch.decay_rates < 0).any()
    with ctx.workprec(600):
        exact = arb_mat(size, size, X.ravel().tolist())
        tops, bottoms = range(size // 2), range(size // 2, size)
        first, second = (
            arb_mat(len(rows), size, [exact[i, j] for i in rows for j in range(size)])
            for rows in (tops, bottoms)
        )
        one, other = (rows.transpose() * rows * (arb(2) / size) for rows in (first, second))
        product = one * other
        lost = (one + other) * step - (product + product.transpose()) * (arb(step) ** 2 / 2)
        expected = sorted(float(x.real) for x in acb_mat(lost).eig(algorithm="approx"))
    # The smallest singular value, 1e-10, is known to six digits, and so is its square.
    np.testing.assert_allclose(run.epoch.decay_rates, expected, rtol=1e-6)


def test_a_null_space_inside_the_row_space_is_found():
    # W_1 = W_2 = I and step 2: the two visits cancel, Z = W - (step/4)(W_1 W_2 + W_2 W_1) = 0.
    X = np.sqrt(2) * np.vstack([np.eye(2), np.eye(2)])
    run = rs.descend(rs.LeastSquares(X, np.ones(4)), rs.RandomReshuffling(batches=2), step=2.0)
    assert run.frozen.dimension == 2
    np.testing.assert_allclose(run.iterate([0, 1, 7, np.inf]), 0, atol=1e-15)
    assert run.range_assumption.holds


@for_all("points, degree", [(16, 5), (16, 8), (16, 11), (30, 14)])
@for_all("batches", [1, 2, 3])
def test_the_limit_on_polynomial_features_is_as_accurate_as_least_squares(points, degree, batches):
    X = np.vander(np.linspace(0, 1, points), degree)
    truth = np.ones(degree)
    condition = np.linalg.cond(X)
    scheme = rs.RandomReshuffling(batches=batches)
    problem = rs.LeastSquares(X, X @ truth, beta_star=truth, noise=0.0)
    run = rs.descend(problem, scheme, 0.2 * rs.critical_step(problem, scheme, mean_square=False), start=truth)
    allowed = 1e-14 * condition * np.sqrt(degree)
    assert np.linalg.norm(run.limit().parameters - truth) < 20 * allowed
    assert run.compare_limit().distance < 20 * allowed
    assert run.limit().converges


def test_a_mode_that_grows_too_slowly_to_be_resolved_still_diverges():
    X = np.array([[0.43, 7e-12], [-1.18, -6.6e-12]])
    problem, scheme = rs.LeastSquares(X, [1.0, 2.0]), rs.RandomReshuffling(batches=2)
    critical = rs.critical_step(problem, scheme, mean_square=False)
    for factor in (1 + 1e-7, 1.5, 3):
        run = rs.descend(problem, scheme, factor * critical)
        assert not run.converges
        assert np.isinf(run.limit().parameters).any()
    assert rs.descend(problem, scheme, (1 - 1e-7) * critical).converges


def test_a_row_of_zeros_beside_rows_that_are_never_visited_is_no_direction():
    """It was left over by rounding, with a decay rate of 1e-30, and counted as learned in the limit."""
    rng = np.random.default_rng(12)
    X, y, start = rng.standard_normal((12, 20)), rng.standard_normal(12), rng.standard_normal(20)
    X[4], y[4] = 0.0, 0.0
    run = rs.descend(
        rs.LeastSquares(X, y), rs.RandomReshuffling(batch_size=7, drop_last=True), step=0.1, start=start
    )
    np.testing.assert_allclose(run.iterate(np.inf), run.iterate(10**6), atol=1e-10)
    assert run.frozen.dimension == 20 - 6


def test_a_small_violation_of_the_range_assumption_is_a_violation():
    # W_1 = 1, W_2 = w: Z vanishes at step (1 + w) / w, and Xtilde is smaller the nearer w is to 1.
    for gap in (1e-1, 1e-3, 1e-5):
        w = 1 + gap
        X = np.array([[1.0], [np.sqrt(w)]])
        run = rs.descend(rs.LeastSquares(X, [1.0, -1.0]), rs.RandomReshuffling(batches=2), step=(1 + w) / w)
        assert not run.range_assumption.holds
        assert run.range_assumption.violation == pytest.approx(gap / 2, rel=0.5)


BATCHES = [[0, 1], [2, 3], [4, 5, 6]]
RECIPES = [
    {"momentum": 0.6},
    {"penalty": 1e-11},
    {"momentum": 0.9, "penalty": 1e-7},
    {},
    {"momentum": 0.9, "nesterov": True, "penalty": 1e-7},
    {"penalty": 1e-3, "unpenalized": (2,)},
    {"momentum": 0.6, "penalty": 1e-9, "unpenalized": (0, 1)},
]
KINDS = ["Cyclic", "RandomReshuffling"]
EPOCHS = [1, 1000, 10**9, 10**15, math.inf]


def features(condition, rng):
    """Columns in units that are further and further apart: the answers are well determined all the same."""
    return rng.normal(size=(7, 3)) * condition ** -np.linspace(0, 1, 3)


@for_all(
    "kind, recipe, condition, step",
    pairwise(KINDS, RECIPES, [1.0, 1e4, 1e8, 1e12], [0.03, 0.03, [0.03, 1e-9, 0.02]]),
)
def test_all_digits_survive(kind, recipe, condition, step):
    """After powers of one epoch, and after epochs that are followed one by one."""
    rng = np.random.default_rng(3)
    X, y = features(condition, rng), rng.normal(size=7)
    true = posed(X, y, Scheme(kind, {"batches": BATCHES}), step, **recipe)
    run = rs.descend(rs.LeastSquares(X, y), getattr(rs, kind)(batches=BATCHES), step, **recipe)
    assert not run.recipe.is_constant or run.stability().converges
    epochs = EPOCHS if run.recipe.is_constant else [3]
    np.testing.assert_allclose(run.iterate(epochs), floats(true.iterates(epochs)), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("small", [1e-2, 1e-9, 1e-13])
@pytest.mark.parametrize(("scheme", "true"), [(rs.FullBatch(), 6.0), (rs.RandomReshuffling(batches=2), 2.0)])
def test_the_critical_step_does_not_depend_on_a_small_column(scheme, true, small):
    problem = rs.LeastSquares(np.diag([1.0, small]), [0.0, 0.0])
    assert rs.critical_step(problem, scheme, momentum=0.5, mean_square=False) == pytest.approx(true, rel=1e-8)


def test_visits_that_undo_each_other_leave_what_they_agree_on():
    scheme = rs.Cyclic(batches=2)
    agreed = rs.descend(rs.LeastSquares([[1.0], [1.0]], [1.0, 1.0]), scheme, 2.0)
    assert not agreed.stability().converges
    assert abs(agreed.iterate(math.inf)).max() < 1e-12
    torn = rs.descend(rs.LeastSquares([[1.0], [1.0]], [1.0, 2.0]), scheme, 2.0)
    assert torn.iterate(math.inf)[0] == math.inf
    np.testing.assert_allclose(torn.iterate([1, 2, 1000])[:, 0], [2, 4, 2000], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_the_expected_risk_of_the_limit_keeps_its_digits(condition, momentum):
    rng = np.random.default_rng(5)
    X, batches = rng.normal(size=(4, 2)) * [1, 1 / condition], [[0, 1], [2, 3]]
    problem = rs.LeastSquares(X, np.zeros(4), beta_star=[0.0, 0.0], noise=1.0)
    run = rs.descend(problem, rs.RandomReshuffling(batches=batches), 0.1, momentum=momentum)
    true = posed(
        X, np.zeros(4), Scheme("RandomReshuffling", {"batches": batches}), 0.1,
        momentum=momentum, beta_star=matrix(np.zeros((2, 1))), noise=1,
    )  # fmt: skip
    ((exact, _),) = floats(true.expected_risks([math.inf], False))
    assert float(run.expected_risk(math.inf).total) == pytest.approx(exact, rel=1e-11)
    assert run.mean_square_stability().converges


def test_a_defective_epoch():
    """At cos^2 = 4 (step - 1) / step^2 the two eigenvalues of two unit samples coincide: there is no eigenbasis."""
    step = 1.2
    cosine = math.sqrt(4 * (step - 1)) / step
    X = np.array([[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)]])
    run = rs.descend(rs.LeastSquares(X, [1.0, -2.0]), rs.Cyclic(batches=2), step)
    assert run.stability().rate == pytest.approx(0.2, abs=1e-7)
    epochs, exact = [1, 2, 5, 20], posed(X, [1.0, -2.0], Scheme("Cyclic", {"batches": 2}), step)
    np.testing.assert_allclose(run.iterate(epochs), floats(exact.iterates(epochs)), rtol=1e-13)


def test_a_penalty_may_diverge_outside_the_row_space_if_anything_starts_there():
    tiny = case(3, 5, 2, covariance="identity")
    for start in (np.zeros(5), tiny.start):
        run = rs.descend(tiny.problem, rs.Cyclic(batches=tiny.partition), 0.001, penalty=3000.0, start=start)
        assert not run.stability().converges
        assert np.isfinite(run.risk(1).total)
        assert np.isinf(run.risk(math.inf).total)
        assert (np.abs(run.frozen.project(tiny.start)) == 0).all()
        assert np.isfinite(run.iterate(1)).all()


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
