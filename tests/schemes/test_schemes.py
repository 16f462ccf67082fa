"""Schemes beside data loaders, the simulator and each other, groups of rows, and what they refuse."""

import math
from functools import partial

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.schemes import base, samples
from tests.looped import for_all
from tests.oracles.every_order import Design, Enumeration, epochs_of_shuffled_samples
from tests.problems import case, close

SIX, TEN, TWENTY = (rs.gaussian(n, 3, noise=0.5, seed=0) for n in (6, 10, 20))
WEIGHTS = np.arange(1, 21)


@given(st.integers(1, 40), st.integers(1, 40), st.booleans())
def test_batches_are_those_of_a_data_loader_or_of_equal_parts(one, other, drop_last):
    n, size = max(one, other), min(one, other)
    starts = range(0, n - size + 1 if drop_last else n, size)
    expected = [list(range(start, min(start + size, n))) for start in starts]
    scheme = rs.RandomReshuffling(batch_size=size, drop_last=drop_last)
    assert [rows.tolist() for rows in scheme.partition(n)] == expected
    assert scheme.sizes(n).tolist() == scheme.divisors(n).tolist() == [len(rows) for rows in expected]
    assert rs.descend(rs.gaussian(n, 2), scheme, alpha=0.3).step == pytest.approx(0.3 / len(expected))
    equal = [rows.tolist() for rows in rs.RandomReshuffling(batches=size).partition(n)]
    assert equal == [part.tolist() for part in np.array_split(np.arange(n), size)]


@for_all("kind", [rs.RandomReshuffling, rs.WithReplacement])
@for_all("n, p, rank", [(11, 20, 9), (11, 10, 9), (11, 6, 3)])
def test_rows_that_are_never_visited_teach_nothing(kind, n, p, rank):
    """All but the training loss is as without them, also where they alone have a direction."""
    tiny = case(n, p, 1, step=0.05, rank=rank if rank < 9 else None)
    X, y = np.vstack([tiny.problem.X[:9], np.random.default_rng(0).standard_normal((2, p))]), tiny.problem.y
    truth = {"beta_star": tiny.problem.beta_star, "covariance": tiny.covariance, "noise": 0.5}
    problem, kept = rs.LeastSquares(X, y, **truth), rs.LeastSquares(X[:9], y[:9], **truth)
    dropping, cut = kind(batch_size=3, drop_last=True), kind(batches=3)
    run = rs.descend(problem, dropping, tiny.step, start=tiny.start)
    same = rs.descend(kept, cut, tiny.step, start=tiny.start)
    epochs = [0, 1, 50, math.inf]
    close(run.iterate(epochs), same.iterate(epochs), 1e-10)
    close(run.risk(epochs).total, same.risk(epochs).total, 1e-9)
    close(run.frozen.project(run.iterate(math.inf)), run.frozen.project(tiny.start))
    assert run.frozen.dimension == same.frozen.dimension == p - rank
    assert run.range_assumption.holds
    assert run.stability().converges
    assert run.stability().rate == pytest.approx(same.stability().rate)
    steps = [rs.critical_step(*each, mean_square=False) for each in ((problem, dropping), (kept, cut))]
    assert steps[0] == pytest.approx(steps[1], rel=1e-8)
    loss = np.sum((y - X @ run.iterate(4)) ** 2) / (2 * n)
    assert run.training_loss(4) == pytest.approx(loss)


def test_samples_that_are_dropped_in_turn_are_all_learned_from():
    problem = case(7, 20, 1).problem
    run = rs.descend(problem, rs.SampleReshuffling(batch_size=3, drop_last=True), 0.05)
    assert run.frozen.dimension == 20 - 7
    np.testing.assert_allclose(problem.X @ run.iterate(math.inf), problem.y)


FULL = rs.FullBatch()
EQUAL = [
    (rs.PoissonSampling(1), FULL),
    (rs.PoissonSampling(1, normalize="own", steps=1), FULL),
    (rs.SampleSubsets(batch_size=6), FULL),
    (rs.SampleSubsets(batch_size=7), FULL),
    (rs.SampleReshuffling(batches=1), FULL),
    (rs.SampleSubsets(batch_size=1), rs.SampleWithReplacement(batch_size=1)),
    (rs.SampleWithReplacement(batch_size=7), rs.SampleWithReplacement(batch_size=6)),
    (rs.WeightedSampling([3.0] * 6, batch_size=3), rs.SampleWithReplacement(batch_size=3)),
    (rs.WeightedSampling(1 + 1e-13 * np.arange(6), batch_size=3), rs.SampleWithReplacement(batch_size=3)),
    (rs.WithReplacement(batch_size=1), rs.SampleWithReplacement(batch_size=1)),
    (rs.SampleReshuffling(batch_size=1), rs.RandomReshuffling(batch_size=1)),
    (rs.GroupReshuffling(1, batch_size=2), rs.SampleReshuffling(batch_size=2)),
    (rs.ShuffleOnce(batches=3, order=[2, 0, 1]), rs.Cyclic(batches=3, order=[2, 0, 1])),
    (rs.LocalDescent(clients=1, local_steps=1), FULL),
    *((kind(batch_size=7), FULL) for kind in (rs.RandomReshuffling, rs.WithReplacement, rs.Cyclic)),
    *((kind(batch_size=7), FULL) for kind in (rs.ShuffleOnce, rs.SampleReshuffling)),
    *((rs.Stages([(None, one)]), one) for one in (rs.RandomReshuffling(batches=2), rs.Cyclic(batches=3))),
    *((rs.Stages([(None, one)]), one) for one in (rs.WithReplacement(batches=3), FULL)),
]


@for_all("one, other", EQUAL)
def test_schemes_that_are_others_in_disguise(one, other):
    asked = [0, 1, 4, math.inf]
    for recipe in ({}, {"momentum": 0.2, "penalty": 0.1}):
        found, known = (rs.descend(SIX, scheme, 0.1, **recipe) for scheme in (one, other))
        assert found.method == known.method == "exact"
        close(found.iterate(asked), known.iterate(asked), 1e-11)
        close(found.expected_risk(asked).total, known.expected_risk(asked).total, 1e-9)
        close(found.covariance(4).matrix, known.covariance(4).matrix, 1e-9)
        if not recipe and one == rs.Stages([(None, FULL)]):
            close(found.best_epoch().risk, known.best_epoch().risk, 1e-9)
        assert found.stability().rate == pytest.approx(known.stability().rate, rel=1e-9)
        squares = [run.mean_square_stability() for run in (found, known)]
        assert squares[0].rate == pytest.approx(squares[1].rate, rel=1e-6)
        assert squares[0].converges == squares[1].converges


def test_weighted_sampling_and_clients_are_other_problems():
    base, weights = rs.gaussian(30, 4, seed=2), np.linspace(1, 3, 30)
    run = rs.descend(base, rs.WeightedSampling(weights, batch_size=5), 0.1)
    weighted = rs.LeastSquares(base.X, base.y, sample_weight=weights / weights.mean())
    asked = [1, 7, math.inf]
    same = rs.descend(weighted, rs.SampleWithReplacement(batch_size=5), 0.1)
    close(run.iterate(asked), same.iterate(asked))
    rounds = rs.descend(base, rs.LocalDescent(1, 5), 0.1)
    close(rounds.iterate(4), rs.descend(base, FULL, 0.1).iterate(20))
    for local_steps in (1, 7):
        ends = rs.descend(base, rs.LocalDescent(3, local_steps), 0.1).compare_limit()
        assert (ends.distance < 1e-10) == (local_steps == 1)


SIMULATED = [
    (rs.RandomReshuffling(batch_size=7), {"average": rs.EMA(0.9, per="visit")}),
    (rs.RandomReshuffling(batch_size=6, drop_last=True, normalize="equal"), {}),
    (rs.WithReplacement(batches=5), {"average": rs.TailAverage(1, per="visit")}),
    (rs.ShuffleOnce(batches=4), {"average": rs.EMA(0.8)}),
    (rs.Cyclic(batches=4, order=[3, 1, 0, 2]), {"average": rs.TailAverage(1)}),
    (rs.SampleReshuffling(batches=3), {}),
    (rs.SampleReshuffling(batch_size=8, drop_last=True), {"average": rs.TailAverage(2)}),
    (rs.SampleWithReplacement(batch_size=9), {"average": rs.EMA(0.8)}),
    (rs.PoissonSampling(0.2, normalize="own"), {}),
    (rs.PoissonSampling(0.2, gradient_noise=0.3), {}),
    (rs.WeightedSampling(WEIGHTS, batch_size=4), {}),
    (rs.SampleSubsets(batch_size=8), {}),
    (rs.GroupReshuffling(2, batch_size=5), {}),
    (
        rs.Stages(
            [
                (3, rs.PoissonSampling(0.1, gradient_noise=0.5)),
                (None, rs.WeightedSampling(WEIGHTS, batch_size=8)),
            ]
        ),
        {},
    ),
    (rs.Stages([(2, rs.Cyclic(batches=3)), (1, FULL), (None, rs.RandomReshuffling(batches=2))]), {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "recipe"), SIMULATED, ids=repr)
@pytest.mark.parametrize("fresh_noise", [True, False])
def test_simulated_runs_agree_within_four_standard_errors(scheme, recipe, fresh_noise, monkeypatch):
    monkeypatch.setattr(samples, "_DRAWN_AT_ONCE", 1000)
    problem, start, epochs = rs.gaussian(20, 3, noise=0.7, seed=1), np.full(3, 0.2), [3, 6]
    recipe = {"momentum": 0.3, "penalty": 0.05, "start": start, **recipe}
    run = rs.descend(problem, scheme, 0.1, **recipe)
    exact = run.expected_risk(epochs, given_responses=not fresh_noise)
    found = rs.simulate(
        problem, scheme, 0.1, epochs=epochs, runs=2000, fresh_noise=fresh_noise, seed=3, **recipe
    )
    for estimate, value in (
        (found.expected_risk, exact.total),
        (found.risk, exact.mean),
        (found.spread, exact.spread),
    ):
        allowed = 4 * np.hypot(estimate.standard_error, exact.error / 3) + 1e-12 * (1 + np.abs(value))
        assert (np.abs(estimate.mean - value) <= allowed).all()
    if not fresh_noise:
        off = np.abs(found.iterate.mean - run.iterate(epochs))
        assert (off <= 4 * found.iterate.standard_error + run.iterate_error(epochs)[:, None] + 1e-12).all()


def test_runs_at_many_small_batches_are_trained_side_by_side(monkeypatch):
    """Ragged batches whose runs hardly meet: the same runs as if each batch were visited by itself."""
    problem, scheme = rs.gaussian(31, 3, seed=4), rs.RandomReshuffling(batches=7)
    assert not base.shares_visits(scheme, 31, 20)
    simulate = partial(rs.simulate, problem, scheme, 0.1, momentum=0.5, epochs=[1, 4], runs=20, seed=2)
    together = simulate()
    monkeypatch.setattr(base, "shares_visits", lambda *rest: True)
    alone = simulate()
    np.testing.assert_allclose(together.iterate.mean, alone.iterate.mean, rtol=1e-12)
    np.testing.assert_allclose(together.spread.mean, alone.spread.mean, rtol=1e-10)


@for_all("recipe", [{}, {"momentum": 0.5, "penalty": 0.1}, {"momentum": 0.6, "nesterov": True}])
def test_gradient_noise_adds_its_own_second_moment(recipe):
    """The spread that it adds solves a recursion of its own, since the noise is independent of all else."""
    problem, step, deviation = rs.gaussian(12, 3, noise=0.5, seed=3), 0.1, 0.7
    momentum, p, nesterov = recipe.get("momentum", 0.0), 3, recipe.get("nesterov", False)
    ahead, of_buffer = (1 + momentum, momentum**2) if nesterov else (1.0, momentum)

    def visit(rows):
        """G of (b, v), where v -> momentum v + g, b -> b - step (...)."""
        H = problem.X[rows].T @ problem.X[rows] / 6 + recipe.get("penalty", 0.0) * np.eye(p)
        return np.block(
            [[np.eye(p) - step * ahead * H, -step * of_buffer * np.eye(p)], [H, momentum * np.eye(p)]]
        )

    push = np.vstack([-step * ahead * np.eye(p), np.eye(p)]) * deviation
    maps = np.array([visit([row for row in range(12) if number >> row & 1]) for number in range(2**12)])
    second = np.zeros((2 * p, 2 * p))
    for _ in range(2 * 4):
        second = np.einsum("eij,jk,elk->il", maps, second, maps, optimize=True) / len(maps) + push @ push.T
    quiet, noisy = (
        rs.descend(problem, rs.PoissonSampling(0.5, gradient_noise=size), step, **recipe)
        for size in (0, deviation)
    )
    risks = quiet.expected_risk(4), noisy.expected_risk(4)
    close(risks[1].total - risks[0].total, np.trace(second[:p, :p]), tolerance=1e-11)
    close(risks[1].mean, risks[0].mean)
    added = noisy.covariance(4).matrix - quiet.covariance(4).matrix
    np.testing.assert_allclose(added, second[:p, :p], atol=1e-12)


def test_gradient_noise_of_the_full_batch_solves_a_lyapunov_equation():
    problem, step = rs.gaussian(30, 4, seed=1), 0.3
    run = rs.descend(problem, rs.PoissonSampling(1.0, gradient_noise=0.2), step)
    G = np.eye(4) - step * problem.X.T @ problem.X / 30
    V = scipy.linalg.solve_discrete_lyapunov(G, (step * 0.2) ** 2 * np.eye(4))
    close(run.expected_risk(math.inf).spread, np.trace(V))


def test_a_stage_that_diverges_and_one_that_settles():
    tiny = case(12, 3, 3)
    run = rs.descend(tiny.problem, rs.Stages([(4000, rs.Cyclic(batches=12)), (None, FULL)]), step=0.9)
    assert np.isinf(run.iterate([4000, 4001])).all()
    assert np.isinf(run.risk([4000, 4001]).total).all()
    close(run.iterate(math.inf), np.linalg.lstsq(tiny.problem.X, tiny.problem.y, rcond=None)[0], 1e-10)
    assert run.converges


@pytest.mark.slow
def test_best_epoch_looks_at_all_stages():
    problem = rs.gaussian(40, 20, noise=1.0, seed=2)
    small, large = rs.RandomReshuffling(batches=4), rs.RandomReshuffling(batches=2)
    there_and_back = [(3000, FULL), (40, rs.Cyclic(batches=8)), (None, FULL)]
    for stages, step, start, last in (
        ([(30, small), (None, large)], 0.1, None, 2000),
        ([(3, small), (60, large)], 0.1, None, 64),
        # The first stage settles where the last one ends, but there is something better in between.
        (there_and_back, 0.3, problem.beta_star, 3400),
    ):
        run = rs.descend(problem, rs.Stages(stages), step=step, start=start)
        risks, found = run.risk(np.arange(last)).total, run.best_epoch()
        assert found.epoch == risks.argmin()
        close(found.risk, risks.min())
        assert found.error == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stages", "method"),
    [
        ([(3, rs.RandomReshuffling(batches=4)), (None, rs.SampleReshuffling(batch_size=5))], "cavity"),
        ([(3, rs.SampleReshuffling(batch_size=5)), (None, rs.RandomReshuffling(batches=4))], "cavity"),
        ([(3, rs.RandomReshuffling(batches=8)), (None, rs.SampleReshuffling(batch_size=5))], "sampling"),
    ],
)
def test_errors_of_stages_that_are_not_exact(stages, method):
    problem, scheme = rs.gaussian(40, 5, noise=0.5, seed=4), rs.Stages(stages)
    options = {} if method == "cavity" else {"method": method}
    run = rs.descend(problem, scheme, 0.2, momentum=0.3, rtol=0.05, **options)
    real = rs.simulate(problem, scheme, 0.2, momentum=0.3, epochs=[5], runs=2000)
    assert run.method == method
    off = np.linalg.norm(run.iterate([5]) - real.iterate.mean)
    assert off <= run.iterate_error(5) + 4 * np.linalg.norm(real.iterate.standard_error)
    if stages[0][1] == rs.RandomReshuffling(batches=4):
        # Up to the end of an exact stage there is no error.
        assert run.iterate_error([3, 5])[0] == 0 < run.iterate_error([3, 5])[1]
    found = run.expected_risk(5)
    assert found.error > 0
    assert abs(found.total - found.mean - found.spread) <= 1e-12


def test_equality_hashes_and_representations():
    made = [
        rs.FullBatch(), rs.RandomReshuffling(batches=3), rs.RandomReshuffling(batches=4, normalize="equal"),
        rs.Cyclic(batches=3), rs.ShuffleOnce(batches=3), rs.ShuffleOnce(batches=3, seed=1),
        rs.WithReplacement(batch_size=8), rs.SampleWithReplacement(batch_size=4), rs.SampleSubsets(batch_size=4),
        rs.SampleReshuffling(batches=3), rs.GroupReshuffling(2, batch_size=3), rs.GroupReshuffling(3, batch_size=3),
        rs.PoissonSampling(0.1), rs.PoissonSampling(0.1, gradient_noise=1),
        rs.WeightedSampling([1, 2], batch_size=1), rs.LocalDescent(3, 2), rs.LocalDescent(3, 1),
        rs.RandomReshuffling([[0, 1], [2]]), rs.RandomReshuffling([[0], [1, 2]]),
        rs.Stages([(2, rs.Cyclic(batches=3)), (None, rs.FullBatch())]),
        rs.Stages([(3, rs.Cyclic(batches=3)), (None, rs.FullBatch())]), "FullBatch()",
    ]  # fmt: skip
    assert all(sum(scheme == other for other in made) == 1 for scheme in made)
    for scheme in made[:5] + made[6:17]:
        same = eval(f"rs.{scheme!r}".replace("[1, 2, ...]", "[1, 2]"), {"rs": rs})
        assert (same, hash(same)) == (scheme, hash(scheme))
    assert rs.WeightedSampling([1, 2], batch_size=1) == rs.WeightedSampling([2, 4], batch_size=1)
    assert made[19] == rs.Stages(((2.0, rs.Cyclic(batches=3)), (math.inf, rs.FullBatch())))
    assert hash(made[19]) == hash(rs.Stages([(2, rs.Cyclic(batches=3)), (None, rs.FullBatch())]))
    assert repr(rs.Stages([(2, rs.Cyclic(batches=3))])) == "Stages([(2, Cyclic(batches=3))])"
    assert (
        repr(rs.LocalDescent([[0], [1]], 2))
        == "LocalDescent(an explicit partition, clients=2, local_steps=2)"
    )
    assert [made[place].is_random for place in (0, 1, 3, 4, 9)] == [False, True, False, True, True]
    assert rs.PoissonSampling(1 / 49).steps(10) == 49


def test_a_number_without_a_name_warns_and_works_for_one_release():
    words = "write batches=3 for 3 batches or batch_size=3 for batches of 3 rows"
    for kind in (rs.RandomReshuffling, rs.SampleReshuffling, rs.WithReplacement, rs.Cyclic, rs.ShuffleOnce):
        with pytest.warns(DeprecationWarning, match=f"the number 3 of {kind.__name__} must have .*{words}"):
            assert kind(3) == kind(batches=3)
    with pytest.warns(DeprecationWarning, match="write batch_size=3 for batches of 3 rows"):
        assert rs.SampleSubsets(3) == rs.SampleSubsets(batch_size=3)
    with pytest.warns(DeprecationWarning, match="the number 4 of GroupReshuffling"):
        assert rs.GroupReshuffling(3, np.int64(4)) == rs.GroupReshuffling(3, batches=4)


def descend(scheme, step=0.1, problem=SIX, **recipe):
    return rs.descend(problem, scheme, step, **recipe)


def stages(*stages):
    return partial(rs.Stages, list(stages))


CYCLIC = rs.Cyclic(batches=2)
UNEVEN = rs.Stages([(2, rs.Cyclic(batches=3)), (None, CYCLIC)])
ENDS = rs.Stages([(2, rs.Cyclic(batches=3)), (3, CYCLIC)])
TWO_SUMS = rs.Accumulator().add(np.ones((5, 1)), np.ones(5)).problem()
KEPT = rs.Stages([(2, FULL), (None, rs.ShuffleOnce(batches=3))])
SOME = rs.Stages([(1, FULL), (None, rs.WithReplacement(batch_size=2, drop_last=True))])
REFUSED = [
    *((partial(rs.PoissonSampling, rate), ValueError, "rate must be") for rate in (0, 1.5, -1, "often", None)),
    (lambda: rs.PoissonSampling(0.5, normalize="drawn"), ValueError, "normalize must be"),
    (lambda: rs.PoissonSampling(0.5, gradient_noise=-1), ValueError, "gradient_noise must be"),
    *((partial(rs.SampleSubsets, batch_size=size), ValueError, "batch_size") for size in (0, None, 2.5)),
    *((partial(rs.WeightedSampling, weights, batch_size=2), ValueError, "weights must be")
      for weights in ([], [[1.0]], [1.0, 0.0], [1.0, -2.0])),
    (lambda: descend(rs.WeightedSampling([1, 2], batch_size=2)), ValueError, "weights must have .* 6, .* 2"),
    (lambda: descend(rs.WeightedSampling([1] * 5, batch_size=2), problem=TWO_SUMS),
     rs.UnsupportedError, "one by one"),
    (lambda: descend(rs.PoissonSampling(0.5, gradient_noise=0.1), problem=rs.gaussian(5, 8)).expected_risk(2),
     rs.UnsupportedError, "gradient_noise must be 0 .* rank is 5 of 8"),
    (lambda: descend(rs.PairedReversal(batches=7), problem=TWENTY).risk(1), rs.UnsupportedError, "at most 6"),
    (lambda: descend(rs.GroupReshuffling(4, batch_size=1)), ValueError, "rows must divide .* 6, .* 4"),
    (lambda: rs.GroupReshuffling(0, batch_size=1), ValueError, "rows must be a whole number"),
    (lambda: descend(rs.GroupReshuffling(2, batches=4), problem=TEN, method="exact").iterate(1),
     rs.BudgetError, "at most 3"),
    (lambda: descend(rs.SampleReshuffling(batches=5), method="exact").risk(1), rs.BudgetError,
     "batches is 5, but .* at most 4; .*method=\"auto\""),
    (lambda: rs.SampleReshuffling([[0, 1], [2]]), ValueError, "batches must be .* try RandomR"),
    (lambda: rs.SampleWithReplacement(batch_size=None), ValueError, "^batch_size must be .* is None"),
    (lambda: rs.RandomReshuffling(batches=2).order(4), TypeError, "no fixed order"),
    (lambda: rs.Cyclic(batches=2).orders(4), TypeError, "no list of orders"),
    *((lambda kind=kind, arguments=arguments: descend(kind(**arguments)), error, match)
      for kind in (rs.RandomReshuffling, rs.WithReplacement)
      for arguments, error, match in (
        ({}, ValueError, r"batches must be a whole number of at least 1, but it is None\. Or give batch_size"),
        ({"batches": 2, "batch_size": 3}, TypeError, "exactly one of batches and batch_size .* is 2 and .* is 3"),
        ({"batch_size": 0}, ValueError, "batch_size must be a whole number of at least 1, but it is 0"),
        ({"batch_size": 2.5}, ValueError, "batch_size must be a whole number of at least 1, but it is 2.5"),
        ({"batch_size": 7, "drop_last": True}, ValueError, "batch_size must be .* between 1 and 6, .* it is 7"),
        ({"batches": 2, "drop_last": True}, ValueError, "drop_last must come with batch_size"),
        ({"batch_size": 2, "drop_last": 1}, ValueError, "drop_last must be True or False, but it is 1"),
        ({"batches": 2, "normalize": "mean"}, ValueError, "normalize must be \"own\" or \"equal\", .* 'mean'"),
      )),
    *((partial(rs.LocalDescent, *arguments), ValueError, f"{name} must be a whole number") for arguments, name in (
        ((0, 2), "clients"), ((3, 0), "local_steps"), ((3, 1.5), "local_steps"), ((2.5, 1), "clients"))),
    (lambda: descend(rs.LocalDescent(clients=13, local_steps=2)), ValueError, "batches must"),
    (lambda: rs.LocalDescent(clients=3, local_steps=2).with_batch_size(2), rs.UnsupportedError, "has clients"),
    (lambda: rs.simulate(SIX, rs.LocalDescent(3, 2), 0.1, epochs=1, runs=4), rs.UnsupportedError, "averages over"),
    *((partial(rs.Stages, value), ValueError, "stages must be a list of pairs") for value in ([], None, CYCLIC)),
    (stages(CYCLIC), ValueError, r"stages\[0\] must be a pair"),
    (stages((1, CYCLIC, 3)), ValueError, r"stages\[0\] must be a pair"),
    *((stages((length, CYCLIC)), ValueError, r"epochs of stages\[0\] must be a whole number of at least 1")
      for length in (0, -1, 1.5, math.nan, -math.inf, "2")),
    *((stages((length, CYCLIC), (1, CYCLIC)), ValueError, r"stages\[0\] must be .* since others")
      for length in (None, math.inf)),
    (stages((1, ENDS)), ValueError, "must not have stages itself"),
    *((stages((1, CYCLIC), (None, value)), TypeError, r"scheme of stages\[1\] must be a scheme")
      for value in (32, None, rs.Cyclic, "cyclic")),
    *((lambda ask=ask: ask(UNEVEN, None, alpha=0.1), ValueError, "step must be given in place of alpha .* 3, 2")
      for ask in (descend, lambda scheme, step, **kw: rs.simulate(SIX, scheme, step, epochs=1, runs=4, **kw))),
    (lambda: descend(UNEVEN, average=rs.EMA(0.9)), rs.UnsupportedError, "average must be None"),
    (lambda: descend(rs.Stages([(1, rs.Cyclic(batches=7)), (None, CYCLIC)])), ValueError, "batches must"),
    *((lambda name=name, epochs=epochs: getattr(descend(ENDS), name)(epochs), ValueError, "must be at most 5")
      for name, epochs in (("iterate", 6), ("risk", [1, 7]), ("expected_risk", math.inf), ("covariance", 6))),
    (lambda: rs.simulate(SIX, ENDS, 0.1, epochs=6, runs=4), ValueError, "at most 5"),
    *((lambda name=name: getattr(descend(ENDS), name)(), rs.UnsupportedError, "needs a constant step, without end")
      for name in ("limit", "stability", "mean_square_stability")),
    (lambda: descend(UNEVEN, [0.1, 0.2, 0.3]).iterate(4), ValueError, "at most 3, the length of the step schedule"),
    (lambda: descend(UNEVEN, rs.PerVisit([0.1] * 9)).iterate(4), ValueError, "at most 3, .* of 9 visits through"),
    (lambda: descend(UNEVEN, lambda k: 0.1 - 0.1 * k).iterate(3), ValueError, r"step\(2\) must be a finite number"),
    (lambda: descend(UNEVEN, method="sampling"), ValueError, "method must be \"auto\" or \"exact\" for Cyclic"),
    (lambda: rs.critical_step(SIX, UNEVEN, mean_square=False), rs.UnsupportedError, "of a single stage"),
    (lambda: descend(UNEVEN).epoch, rs.UnsupportedError, "epoch"),
    (lambda: descend(UNEVEN).range_assumption, rs.UnsupportedError, "range_assumption"),
    (lambda: descend(KEPT), rs.UnsupportedError, r"simulate\(\.\.\.\)"),
    (lambda: descend(SOME, problem=rs.gaussian(5, 6, noise=0.5)).expected_risk(math.inf),
     rs.UnsupportedError, "last stage leaves out rows"),
]  # fmt: skip


@for_all("ask, error, match", REFUSED)
def test_what_is_refused(ask, error, match):
    with pytest.raises(error, match=match):
        ask()


def test_schedules_and_orders_that_end_before_the_stages():
    early = descend(UNEVEN, [0.1])
    close(early.iterate(1), descend(rs.Cyclic(batches=3)).iterate(1))
    assert descend(UNEVEN, rs.PerVisit([0.1] * 9)).iterate(3).shape == (3,)
    even = rs.Stages([(1, rs.RandomReshuffling(batches=2)), (None, CYCLIC)])
    close(descend(even, None, alpha=0.2).iterate(2), descend(even, 0.1).iterate(2))
    # An order that is drawn once is drawn where its stage begins, and only simulated.
    assert np.isfinite(rs.simulate(SIX, KEPT, 0.1, epochs=4, runs=10).iterate.mean).all()


def enumerated(tiny, rows, sizes, step, **recipe):
    epochs = epochs_of_shuffled_samples(tiny.problem.n, sizes, None, rows)
    return Enumeration(tiny, Design(tiny.problem.n, None, [epochs]), {"step": step, **recipe})


@for_all(
    "rows, sizes, method, recipe",
    [
        (2, [2, 2, 1, 1], "auto", {}),
        (4, [2, 2, 1, 1], "auto", {}),
        (4, [2, 2, 2], "sampling", {}),
        (2, [1] * 5, "cavity", {"step": 0.1}),
        (2, [1] * 5, "sampling", {"step": 0.1}),
        (2, [2, 2, 1], "cavity", {"momentum": 0.5, "penalty": 0.2}),
    ],
)
def test_estimates_are_within_their_error(rows, sizes, method, recipe):
    tiny, recipe = case(rows * sum(sizes), 3, 1), {"step": 0.25, **recipe}
    run = rs.descend(
        tiny.problem, rs.GroupReshuffling(rows, batches=len(sizes)), start=tiny.start, method=method, rtol=0.1,
        **recipe,
    )  # fmt: skip
    off = np.linalg.norm(run.iterate(1) - enumerated(tiny, rows, sizes, **recipe).mean(1))
    assert 0 < off <= run.iterate_error(1) < 0.2 * np.linalg.norm(run.iterate(1))


@for_all(
    "rows, sizes, momentum",
    [(2, [2, 2], 0.0), (4, [3], 0.0), (4, [1, 1, 1], 0.0), (4, [1, 1, 1], 0.5), (4, [3], 0.5)],
)
def test_leaving_out_a_sample_leaves_out_all_of_its_rows(rows, sizes, momentum):
    n, chosen = rows * sum(sizes), [5, 4, 0]
    tiny = case(n, 2, 1, step=0.4)
    scheme = rs.GroupReshuffling(rows, batches=len(sizes))
    run = rs.descend(tiny.problem, scheme, 0.4, momentum=momentum, start=tiny.start)
    found = run.leave_one_out([1, 3], rows=chosen)
    oracle = enumerated(tiny, rows, sizes, 0.4, momentum=momentum)
    for place, row in enumerate(chosen):
        members = np.arange(row // rows * rows, row // rows * rows + rows)
        for when, epoch in enumerate((1, 3)):
            want = tiny.problem.y[row] - tiny.problem.X[row] @ oracle.without(members).mean(epoch)
            assert found.residuals[when, place] == pytest.approx(want, abs=1e-11)


def test_too_few_samples_and_many():
    with pytest.raises(ValueError, match="at least 2 samples"):
        rs.descend(rs.gaussian(8, 2), rs.GroupReshuffling(8, batch_size=1), 0.1).leave_one_out(1)
    many = rs.descend(rs.gaussian(60, 2, seed=0), rs.GroupReshuffling(2, batch_size=4), 0.1, method="cavity")
    assert many.leave_one_out(1).method == "cavity"
