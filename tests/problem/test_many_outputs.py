"""Responses of several columns: every answer is the stack of those about one column each."""

import warnings

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.epoch import epoch_map, select, timeline
from reshuffle.problem import row_space

SCHEMES = {
    "full batch": rs.FullBatch(),
    "reshuffling": rs.RandomReshuffling(batches=3),
    "shuffled samples": rs.SampleReshuffling(batch_size=4),
    "with replacement": rs.WithReplacement(batches=3),
    "samples with replacement": rs.SampleWithReplacement(batch_size=4),
    "subsets": rs.SampleSubsets(batch_size=4),
    "cyclic": rs.Cyclic(batches=3),
    "shuffled once": rs.ShuffleOnce(batches=3),
    "stages": rs.Stages([(2, rs.Cyclic(batches=3)), (None, rs.RandomReshuffling(batches=2))]),
}
RECIPES = {
    "plain": {"step": 0.05},
    "momentum": {"step": 0.05, "momentum": 0.5},
    "penalty": {"step": 0.05, "penalty": 0.1},
    "unpenalized": {"step": 0.05, "penalty": 0.1, "unpenalized": [-1]},
    "schedule": {"step": [0.1, 0.05, 0.02]},
    "EMA": {"step": 0.05, "average": rs.EMA(0.5)},
    "tail": {"step": 0.05, "average": rs.TailAverage(1)},
    "diverging": {"step": 3.0},
}
OUTPUTS = 3
SAMPLES = rs.SampleReshuffling(batch_size=4)
TALL, WIDE, TALLER = (12, 4), (5, 8), (30, 2)
PAIRS = [
    (scheme, recipe)
    for scheme in SCHEMES
    for recipe in RECIPES
    if scheme != "stages" or recipe not in ("EMA", "tail")
]
"""There is no average through stages."""
CASES = [(*pair, TALL) for pair in PAIRS] + [
    (scheme, recipe, shape)
    for scheme in ("shuffled once", "stages")
    for recipe in ("plain", "momentum", "unpenalized")
    for shape in (WIDE, TALLER)
]


def posed(n=12, p=4, seed=0, outputs=OUTPUTS):
    rng = np.random.default_rng(seed)
    X, truth = rng.standard_normal((n, p)), rng.standard_normal((p, outputs))
    noise = np.linspace(0.5, 1.0, outputs)
    y = X @ truth + noise * rng.standard_normal((n, outputs))
    return rs.LeastSquares(X, y, beta_star=truth, noise=noise, covariance=np.linspace(1, 2, p))


def alone(problem, number):
    """One output as a problem that knows nothing of the others."""
    return rs.LeastSquares(
        problem.X,
        problem.y[:, number],
        beta_star=problem.beta_star[:, number],
        covariance=problem.covariance.value,
        noise=problem.noise[number],
    )


def described(problem, scheme, recipe, start=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rs.descend(problem, SCHEMES[scheme], start=start, budget=1e7, rtol=0.5, **RECIPES[recipe])


def both(scheme, recipe, shape=TALL):
    """The run of many outputs from starts of their own, and the runs of each, described for itself."""
    problem = posed(*shape)
    start = np.random.default_rng(5).standard_normal((problem.p, OUTPUTS))
    runs = [described(alone(problem, j), scheme, recipe, start[:, j]) for j in range(OUTPUTS)]
    return described(problem, scheme, recipe, start), runs


def agree(many, singles, tolerance=1e-10):
    expected = np.stack(singles, axis=-1)
    assert many.shape == expected.shape
    np.testing.assert_array_equal(np.isinf(many), np.isinf(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(many[finite], expected[finite], rtol=tolerance, atol=tolerance)


def same(run, singles, questions, tolerance=1e-10):
    """Each of the questions has the answers of the single runs, side by side."""
    for question in questions:
        agree(np.asarray(question(run)), [question(single) for single in singles], tolerance)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("scheme", "recipe", "shape"), CASES)
def test_means_and_risks_of_every_scheme_and_recipe(scheme, recipe, shape):
    run, singles = both(scheme, recipe, shape)
    epochs = [[0, 1], [2, 3]] if recipe == "schedule" else [[2, 3], [40, np.inf]]
    new = np.random.default_rng(1).standard_normal((2, run.problem.p))
    assert run.training_loss([]).shape == (0, OUTPUTS)
    same(run, singles, [
        lambda run: run.iterate(epochs),
        lambda run: run.training_loss(epochs),
        lambda run: run.predict(new, epochs[0]),
    ])  # fmt: skip
    same(run, singles, [lambda run: run.iterate_error(epochs)], 1e-8)
    for number, single in enumerate(singles):
        agree(run.output(number).iterate(epochs)[..., np.newaxis], [single.iterate(epochs)])
    if recipe != "diverging":
        after = [[2, 3], [3, 3]] if recipe == "schedule" else epochs
        parts = ("total", "bias", "variance", "error")
        same(run, singles, [lambda run, part=part: getattr(run.risk(after), part) for part in parts], 1e-9)
        assert str(run.risk([2, 3])).startswith("Risk(shape=(2, 3), total from ")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("scheme", "method", "recipe"),
    [
        (rs.RandomReshuffling(batches=5), "cavity", {}),
        (rs.RandomReshuffling(batches=5), "sampling", {}),
        (rs.RandomReshuffling(batches=5), "sampling", {"momentum": 0.5}),
        (SAMPLES, "cavity", {}),
        (SAMPLES, "cavity", {"momentum": 0.5}),
        (rs.ShuffleOnce(batches=8, draws=20), "auto", {"momentum": 0.5}),
        (rs.Stages([(1, SAMPLES), (None, rs.SampleReshuffling(batch_size=8))]), "sampling", {}),
    ],
)
def test_the_errors_of_means_that_are_not_exact(scheme, method, recipe):
    problem, start = posed(12, 2), np.random.default_rng(5).standard_normal((2, OUTPUTS))
    setting = {"step": 0.02, "method": method, "rtol": 0.5, "budget": 1e7, **recipe}
    run = rs.descend(problem, scheme, start=start, **setting)
    singles = [rs.descend(alone(problem, j), scheme, start=start[:, j], **setting) for j in range(OUTPUTS)]
    epochs = [[1, 3], [5, np.inf]]
    asked = ("iterate", "iterate_error", "training_loss_error")
    same(run, singles, [lambda run, name=name: getattr(run, name)(epochs) for name in asked], 1e-9)
    same(run, singles, [lambda run: run.risk(epochs).error], 1e-9)
    assert run.iterate_error(3).min() > 0
    assert run.limit().error.shape == (OUTPUTS,)


@pytest.mark.parametrize(
    ("scheme", "recipe"),
    [
        ("reshuffling", "plain"), ("cyclic", "momentum"), ("shuffled once", "penalty"), ("stages", "plain"),
        ("with replacement", "unpenalized"), ("reshuffling", "EMA"),
    ],
)  # fmt: skip
def test_spreads_limits_and_best_epochs(scheme, recipe):
    run, singles = both(scheme, recipe)
    new, when = np.eye(run.problem.p)[:2], [1, 2]
    same(run, singles, [
        lambda run: run.expected_risk(when).total,
        lambda run: run.expected_risk(when, given_responses=True).total,
        lambda run: run.covariance(when).matrix,
        lambda run: run.covariance(when).trace,
        lambda run: run.covariance(when).standard_deviations,
        lambda run: run.covariance(when).error,
        lambda run: run.covariance(when).deviation(new),
        lambda run: run.covariance(when).deviation_error(new),
        lambda run: run.predict(new, when, return_std=True)[0],
        lambda run: run.predict(new, when, return_std=True)[1],
        lambda run: run.limit().parameters,
        lambda run: run.limit().training_loss,
        lambda run: run.limit().risk.total,
        lambda run: run.compare_limit().difference,
        lambda run: run.compare_limit().distance,
        lambda run: run.best_epoch().epoch,
        lambda run: run.best_epoch().risk,
    ])  # fmt: skip
    assert run.covariance(when).factor.shape[-1] == OUTPUTS
    assert run.stability().rate == pytest.approx(singles[0].stability().rate, rel=1e-10)
    assert run.mean_square_stability().converges == singles[0].mean_square_stability().converges
    words = {
        "ParameterCovariance(shape=(2, 4, 4, 3)": run.covariance(when),
        "Limit(converges=True, outputs=3)": run.limit(),
        "LimitComparison(outputs=3": run.compare_limit(),
        "BestEpoch(outputs=3": run.best_epoch(),
    }
    assert all(word.partition("(")[2] in str(answer) for word, answer in words.items())


def test_the_interval_of_two_batches_and_gradient_flow():
    problem = posed()
    singles = [alone(problem, number) for number in range(OUTPUTS)]
    two = {"scheme": rs.RandomReshuffling(batches=2), "step": 0.1}
    same(problem, singles, [
        lambda problem: rs.descend(problem, **two).risk_interval([1, 5]).upper,
        lambda problem: rs.gradient_flow(problem).iterate([0.5, np.inf]),
        lambda problem: rs.gradient_flow(problem).training_loss(0.5),
        lambda problem: rs.gradient_flow(problem).risk(0.5).total,
        lambda problem: rs.gradient_flow(problem).limit().parameters,
    ])  # fmt: skip


def test_simulated_runs_train_all_outputs_in_the_same_orders():
    problem, setting = posed(), {"step": 0.1, "epochs": [1, 3], "runs": 40, "seed": 4}
    scheme = rs.RandomReshuffling(batches=3)
    found = rs.simulate(problem, scheme, **setting)
    singles = [rs.simulate(alone(problem, number), scheme, **setting) for number in range(OUTPUTS)]
    agree(found.iterate.mean, [one.iterate.mean for one in singles])
    agree(found.expected_risk.standard_error, [one.expected_risk.standard_error for one in singles])
    # A combination of outputs is one more output: only in the same orders is its iterate theirs.
    both = rs.LeastSquares(problem.X, problem.y[:, 0] + problem.y[:, 1])
    together = rs.simulate(both, scheme, **setting)
    np.testing.assert_allclose(
        together.iterate.mean, found.iterate.mean[..., 0] + found.iterate.mean[..., 1], rtol=1e-12
    )
    exact = rs.descend(problem, scheme, step=0.1)
    off = np.abs(found.iterate.mean - exact.iterate([1, 3]))
    assert (off <= 4.5 * found.iterate.standard_error).all()


@pytest.mark.slow
def test_fresh_noise_is_that_of_each_output():
    problem, scheme = posed(), rs.RandomReshuffling(batches=3)
    found = rs.simulate(problem, scheme, step=0.1, epochs=3, runs=2000, fresh_noise=True, test_samples=3)
    exact = rs.descend(problem, scheme, step=0.1).expected_risk(3)
    assert (np.abs(found.expected_risk.mean - exact.total) <= 4.5 * found.expected_risk.standard_error).all()
    assert found.test_error.mean.shape == (OUTPUTS,)
    same = rs.LeastSquares(problem.X, problem.y[:, [0, 0]], beta_star=problem.beta_star[:, [0, 0]], noise=0.5)
    twice = rs.simulate(same, scheme, step=0.1, epochs=3, runs=10, fresh_noise=True)
    assert (twice.iterate.mean[:, 0] != twice.iterate.mean[:, 1]).all()


def test_one_start_serves_all_outputs():
    problem, start = posed(), np.arange(4.0)
    for recipe in ("plain", "momentum"):
        run = described(problem, "reshuffling", recipe, start)
        many = described(problem, "reshuffling", recipe, np.repeat(start[:, np.newaxis], OUTPUTS, axis=1))
        agree(run.iterate([0, 2, np.inf]), [many.iterate([0, 2, np.inf])[..., j] for j in range(OUTPUTS)])
        assert (run.output(1).start == start).all()


def test_columns_of_zero_features_and_of_zero_responses():
    """What moves nothing stays where it starts, outputs without an answer beside others that have one."""
    problem = rs.LeastSquares(np.zeros((3, 2)), np.ones((3, 2)))
    run = rs.descend(problem, rs.Cyclic(batches=3), step=0.1, start=[1.0, 2.0])
    assert run.iterate([1, np.inf]).tolist() == [[[1.0, 1.0], [2.0, 2.0]]] * 2
    assert run.compare_limit().distance.tolist() == [0.0, 0.0]
    beside = rs.LeastSquares([[1.0], [1.0]], [[0.0, 1.0], [0.0, 1.0]])
    assert rs.descend(beside, rs.Cyclic(batches=2), step=5.0).iterate([np.inf]).tolist() == [[[0.0, np.inf]]]


def counted(monkeypatch, module, name):
    """How often a function of a module is called, and with which arrays."""
    calls, original = [], getattr(module, name)

    def wrapper(*arguments, **named):
        calls.append(arguments)
        return original(*arguments, **named)

    monkeypatch.setattr(module, name, wrapper)
    return calls


def test_a_thousand_outputs_share_all_that_costs(monkeypatch):
    problem = posed(40, 6, outputs=1000)
    factors = counted(monkeypatch, row_space.BatchFactor, "_factorize")
    means, maps = counted(monkeypatch, select, "mean_map"), counted(monkeypatch, timeline, "mean_map")
    decompositions = counted(monkeypatch, epoch_map, "modes")
    for recipe in ({}, {"momentum": 0.5}):
        run = rs.descend(problem, rs.RandomReshuffling(batches=2), step=0.05, **recipe)
        assert run.iterate([1, 10, np.inf]).shape == (3, 6, 1000)
        assert run.training_loss([1, 10]).shape == (2, 1000)
        for number in (0, 500, 999):
            run.output(number).risk([1, 10])
            run.output(number).iterate(3)
    assert (len(means), len(decompositions), len(maps)) == (1, 1, 1)
    # Features alone are triangularised: those of the problem, and of each batch of each of the two engines.
    assert {table.shape[1] for (_, table, _) in factors} == {6}
    assert len(factors) <= 1 + 2 * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": np.ones((2, 2))}, r"y must have shape \(3,\) or \(3, outputs\), one row per row of X"),
        ({"y": np.ones((3, 0))}, r"y must have shape .* but its shape is \(3, 0\)"),
        ({"y": np.ones((3, 2, 1))}, r"y must have shape \(3,\), one entry per row of X, but its shape is"),
        (
            {"beta_star": np.ones(2)},
            r"beta_star must have shape \(2, 2\), one entry per column of X and one col",
        ),
        ({"beta_star": np.ones((2, 3))}, r"beta_star must have shape \(2, 2\)"),
        ({"noise": [1.0, 2.0, 3.0]}, r"noise must have shape \(2,\), one entry per output"),
        ({"noise": [1.0, -2.0]}, r"noise must be finite numbers >= 0, but noise\[1\] is -2.0"),
        ({"noise": -1.0}, r"noise must be a finite number >= 0, but it is -1.0"),
    ],
)
def test_bad_outputs(arguments, message):
    given = {"X": [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], "y": np.ones((3, 2)), **arguments}
    with pytest.raises(ValueError, match=message):
        rs.LeastSquares(**given)


def test_numbers_of_outputs_that_there_are_not():
    problem = posed()
    with pytest.raises(ValueError, match=r"number must be a whole number between 0 and 2, but it is 3"):
        problem.output(3)
    with pytest.raises(ValueError, match=r"output\(number\) needs responses y of shape \(n, outputs\)"):
        problem.output(0).output(0)
    with pytest.raises(ValueError, match=r"start must have shape \(4, 3\), one entry per parameter"):
        rs.descend(problem, rs.FullBatch(), step=0.1, start=np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"start must have shape \(4,\)"):
        rs.descend(problem.output(0), rs.FullBatch(), step=0.1, start=np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"compare_schemes compares schemes for one output, but y has 3"):
        rs.compare_schemes(problem, [rs.Cyclic(batches=2)], step=0.1, epochs=1)
    with pytest.raises(rs.MissingTruthError, match="the risk needs beta_star and noise"):
        rs.descend(rs.LeastSquares(problem.X, problem.y), rs.FullBatch(), step=0.1).risk(1)


@pytest.mark.parametrize(
    ("n", "p", "rank"), [(4, 4, 4), (5, 4, 4), (6, 9, 2), (12, 4, 2), (4, 4, 3), (3, 1, 1)]
)
def test_features_of_any_shape_and_rank(n, p, rank):
    rng, when = np.random.default_rng(n * p), [1, 7, np.inf]
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    Y = np.column_stack([rng.standard_normal(n), X[:, 0], np.zeros(n)])
    for scheme in (rs.FullBatch(), rs.RandomReshuffling(batches=2), rs.Cyclic(batches=2)):
        for recipe in ({}, {"penalty": 0.1, "unpenalized": [0]}):
            runs = [rs.descend(rs.LeastSquares(X, y), scheme, step=0.02, **recipe) for y in (Y, *Y.T)]
            same(runs[0], runs[1:], [
                lambda run: run.iterate(when),
                lambda run: run.training_loss(when),
                lambda run: run.compare_limit().difference,
            ], 1e-9)  # fmt: skip


@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.5}], ids=str)
def test_a_run_on_a_problem_with_another_number_of_outputs(recipe):
    many = posed()
    one = alone(many, 1)
    runs = [rs.descend(problem, rs.RandomReshuffling(batches=3), 0.05, **recipe) for problem in (one, many)]
    agree(runs[0].on(many).iterate([1, 5])[..., 1:2], [runs[0].iterate([1, 5])])
    agree(runs[1].on(one).iterate([1, 5])[..., np.newaxis], [runs[0].iterate([1, 5])])


def test_features_in_chunks(monkeypatch):
    """A problem that is reduced a few rows at a time loses nothing of any output, nor of its loss."""
    whole, parts = posed(300, 3), posed(300, 3)
    expected = rs.descend(whole, rs.RandomReshuffling(batches=3), step=0.05)
    agree(expected.training_loss([0, 5]), [
        rs.descend(alone(whole, number), rs.RandomReshuffling(batches=3), step=0.05).training_loss([0, 5])
        for number in range(OUTPUTS)
    ])  # fmt: skip
    monkeypatch.setattr(row_space, "_MANY_ROWS", 16)
    monkeypatch.setattr(row_space, "_FEW_ROWS", 5)
    factors = counted(monkeypatch, row_space.BatchFactor, "_factorize")
    run = rs.descend(parts, rs.RandomReshuffling(batches=3), step=0.05)
    for question in ("iterate", "training_loss"):
        answer = getattr(expected, question)([0, 5])
        agree(getattr(run, question)([0, 5]), [answer[..., number] for number in range(OUTPUTS)])
    assert len(factors) > 300 / 16


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.5}, {"penalty": 0.1}], ids=str)
def test_thresholds_and_epochs_know_nothing_of_the_responses(recipe):
    problem, scheme = posed(6, 2), rs.Cyclic(batches=2) if recipe else rs.RandomReshuffling(batches=2)
    single = alone(problem, 1)
    for mean_square in (False, True):
        steps = [
            rs.critical_step(one, scheme, mean_square=mean_square, **recipe) for one in (problem, single)
        ]
        assert steps[0] == pytest.approx(steps[1], rel=1e-6)
    if not recipe:
        run, other = (rs.descend(one, scheme, step=0.1) for one in (problem, single))
        assert run.output(1).epoch.mean is run.epoch.mean
        np.testing.assert_allclose(run.epoch.Z, other.epoch.Z, atol=1e-14)
