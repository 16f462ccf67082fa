"""Responses of several columns are the stack of those of one; rows with weights, against training by hand."""

import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all
from tests.training import cut, train

OUTPUTS = 3
SAMPLES = rs.SampleReshuffling(batch_size=4)
SCHEMES = {
    "full batch": rs.FullBatch(),
    "reshuffling": rs.RandomReshuffling(batches=3),
    "shuffled samples": SAMPLES,
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


def both(problem, scheme, **recipe):
    """The run of many outputs from starts of their own, and the runs of each, described for itself."""
    start = np.random.default_rng(5).standard_normal((problem.p, OUTPUTS))
    wishes = {"budget": 1e7, "rtol": 0.5, **recipe}
    singles = [rs.descend(alone(problem, j), scheme, start=start[:, j], **wishes) for j in range(OUTPUTS)]
    return rs.descend(problem, scheme, start=start, **wishes), singles


def same(many, singles, questions, tolerance=1e-9):
    """Each of the questions has the answers of the single problems, side by side."""
    for question in questions:
        found, expected = np.asarray(question(many)), np.stack([question(one) for one in singles], axis=-1)
        assert found.shape == expected.shape
        np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))
        finite = np.isfinite(expected)
        np.testing.assert_allclose(found[finite], expected[finite], rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("shape", [(12, 4), (5, 8)], ids=["tall", "wide"])
def test_means_and_risks_of_every_scheme_and_recipe(recipe, shape):
    names = SCHEMES if shape == (12, 4) else ["shuffled once", "stages"]
    for name in names:
        if name == "stages" and recipe in ("EMA", "tail"):
            continue  # There is no average through stages.
        run, singles = both(posed(*shape), SCHEMES[name], **RECIPES[recipe])
        epochs = [[2, 3], [3, 3]] if recipe == "schedule" else [[2, 3], [40, np.inf]]
        new = np.random.default_rng(1).standard_normal((2, run.problem.p))
        asked = [
            lambda run, epochs=epochs: run.iterate(epochs),
            lambda run, epochs=epochs: run.training_loss(epochs),
            lambda run, epochs=epochs: run.iterate_error(epochs),
            lambda run, epochs=epochs, new=new: run.predict(new, epochs[0]),
        ]
        if recipe != "diverging":
            parts = ("total", "bias", "variance", "error")
            asked += [lambda run, epochs=epochs, part=part: getattr(run.risk(epochs), part) for part in parts]
        same(run, singles, asked)
        same(run.output(1).iterate(epochs)[..., np.newaxis], [singles[1].iterate(epochs)], [np.asarray])
        assert run.training_loss([]).shape == (0, OUTPUTS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("scheme", "recipe"),
    [
        (rs.RandomReshuffling(batches=5), {"method": "cavity"}),
        (rs.RandomReshuffling(batches=5), {"method": "sampling"}),
        (rs.RandomReshuffling(batches=5), {"method": "sampling", "momentum": 0.5}),
        (SAMPLES, {"method": "cavity"}),
        (SAMPLES, {"method": "cavity", "momentum": 0.5}),
        (rs.ShuffleOnce(batches=8, draws=20), {"momentum": 0.5}),
        (rs.Stages([(1, SAMPLES), (None, rs.SampleReshuffling(batch_size=8))]), {"method": "sampling"}),
    ],
)
def test_the_errors_of_means_that_are_not_exact(scheme, recipe):
    run, singles = both(posed(12, 2), scheme, step=0.02, **recipe)
    epochs = [[1, 3], [5, np.inf]]
    names = ("iterate", "iterate_error", "training_loss_error")
    same(run, singles, [lambda run, name=name: getattr(run, name)(epochs) for name in names])
    same(run, singles, [lambda run: run.risk(epochs).error, lambda run: run.limit().error])
    assert run.iterate_error(3).min() > 0


SPREADS = [
    lambda run: run.expected_risk([1, 2]).total,
    lambda run: run.expected_risk([1, 2], given_responses=True).total,
    lambda run: run.excess_training_loss([1, 2], of_run=True),
    *(lambda run, part=part: getattr(run.covariance([1, 2]), part)
      for part in ("matrix", "trace", "standard_deviations", "error")),
    lambda run: run.covariance([1, 2]).deviation(np.eye(4)[:2]),
    lambda run: run.covariance([1, 2]).deviation_error(np.eye(4)[:2]),
    lambda run: run.predict(np.eye(4)[:2], [1, 2], return_std=True)[0],
    lambda run: run.predict(np.eye(4)[:2], [1, 2], return_std=True)[1],
    lambda run: run.limit().parameters, lambda run: run.limit().training_loss,
    lambda run: run.limit().risk.total, lambda run: run.compare_limit().difference,
    lambda run: run.compare_limit().distance, lambda run: run.best_epoch().epoch,
    lambda run: run.best_epoch().risk,
]  # fmt: skip


@for_all("scheme, recipe", [
        ("reshuffling", "plain"), ("cyclic", "momentum"), ("shuffled once", "penalty"), ("stages", "plain"),
        ("with replacement", "unpenalized"), ("reshuffling", "EMA"),
    ])  # fmt: skip
def test_spreads_limits_and_best_epochs(scheme, recipe):
    run, singles = both(posed(), SCHEMES[scheme], **RECIPES[recipe])
    same(run, singles, SPREADS)
    assert run.covariance(1).factor.shape[-1] == OUTPUTS
    assert run.stability().rate == pytest.approx(singles[0].stability().rate, rel=1e-10)
    assert run.mean_square_stability().converges == singles[0].mean_square_stability().converges
    assert "shape=(2, 4, 4, 3)" in str(run.covariance([1, 2]))
    for answer in (run.limit(), run.compare_limit(), run.best_epoch()):
        assert "outputs=3" in str(answer)


def test_other_questions():
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
    # A run goes to a problem with another number of outputs, and one start serves all of them.
    for recipe in ({}, {"momentum": 0.5}):
        run, one = (rs.descend(each, step=0.05, scheme=SAMPLES, **recipe) for each in (problem, singles[1]))
        same(one.on(problem), [rs.descend(each, SAMPLES, 0.05, **recipe) for each in singles], [
            lambda run: run.iterate([1, 5]),
        ])  # fmt: skip
        np.testing.assert_allclose(run.on(singles[1]).iterate([1, 5]), one.iterate([1, 5]), rtol=1e-9)
        start = np.arange(4.0)
        shared = rs.descend(problem, SAMPLES, 0.05, start=start, **recipe)
        np.testing.assert_allclose(
            shared.iterate(0), np.repeat(start[:, np.newaxis], OUTPUTS, axis=1), atol=1e-14
        )


def test_simulated_runs_train_all_outputs_in_the_same_orders():
    problem, setting = posed(), {"step": 0.1, "epochs": [1, 3], "runs": 40, "seed": 4}
    scheme = rs.RandomReshuffling(batches=3)
    found = rs.simulate(problem, scheme, **setting)
    singles = [rs.simulate(alone(problem, number), scheme, **setting) for number in range(OUTPUTS)]
    same(found, singles, [lambda one: one.iterate.mean, lambda one: one.expected_risk.standard_error])
    # A combination of outputs is one more output: only in the same orders is its iterate theirs.
    together = rs.simulate(rs.LeastSquares(problem.X, problem.y[:, 0] + problem.y[:, 1]), scheme, **setting)
    np.testing.assert_allclose(together.iterate.mean, found.iterate.mean[..., :2].sum(axis=-1), rtol=1e-12)
    off = np.abs(found.iterate.mean - rs.descend(problem, scheme, step=0.1).iterate([1, 3]))
    assert (off <= 4.5 * found.iterate.standard_error).all()


@pytest.mark.slow
def test_fresh_noise_is_that_of_each_output():
    problem, scheme = posed(), rs.RandomReshuffling(batches=3)
    found = rs.simulate(problem, scheme, step=0.1, epochs=3, runs=2000, fresh_noise=True, test_samples=3)
    exact = rs.descend(problem, scheme, step=0.1).expected_risk(3)
    assert (np.abs(found.expected_risk.mean - exact.total) <= 4.5 * found.expected_risk.standard_error).all()
    assert found.test_error.mean.shape == (OUTPUTS,)
    twins = rs.LeastSquares(problem.X, problem.y[:, [0, 0]], problem.beta_star[:, [0, 0]], noise=0.5)
    twice = rs.simulate(twins, scheme, step=0.1, epochs=3, runs=10, fresh_noise=True)
    assert (twice.iterate.mean[:, 0] != twice.iterate.mean[:, 1]).all()


def given(**arguments):
    return rs.LeastSquares(**{"X": [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], "y": np.ones((3, 2)), **arguments})


REFUSED = [
    (lambda: given(y=np.ones((2, 2))), r"y must have shape \(3,\) or \(3, outputs\)"),
    (lambda: given(y=np.ones((3, 0))), r"y must have shape .* but its shape is \(3, 0\)"),
    (lambda: given(y=np.ones((3, 2, 1))), r"y must have shape \(3,\), one entry per row of X"),
    (lambda: given(beta_star=np.ones(2)), r"beta_star must have shape \(2, 2\)"),
    (lambda: given(beta_star=np.ones((2, 3))), r"beta_star must have shape \(2, 2\)"),
    (lambda: given(noise=[1.0, 2.0, 3.0]), r"noise must have shape \(2,\), one entry per output"),
    (lambda: given(noise=[1.0, -2.0]), r"noise must be finite numbers >= 0, but noise\[1\] is -2.0"),
    (lambda: given(noise=-1.0), "noise must be a finite number >= 0, but it is -1.0"),
    (lambda: posed().output(3), "number must be a whole number between 0 and 2, but it is 3"),
    (lambda: posed().output(0).output(0), r"needs responses y of shape \(n, outputs\)"),
    (lambda: rs.descend(posed(), SAMPLES, 0.1, start=np.zeros((4, 2))), r"start must have shape \(4, 3\)"),
    (lambda: rs.descend(posed().output(0), SAMPLES, 0.1, start=np.zeros((4, 2))), r"start must have shape \(4,\)"),
    (lambda: rs.compare_schemes(posed(), [SAMPLES], step=0.1, epochs=1), "for one output, but y has 3"),
    (lambda: rs.descend(given(), SAMPLES, 0.1).risk(1), "risk needs beta_star and noise"),
]  # fmt: skip


@for_all("ask, message", REFUSED)
def test_what_is_refused(ask, message):
    with pytest.raises((ValueError, rs.MissingTruthError), match=message):
        ask()


def weighted_rows(n=12, p=3, outputs=None, seed=0):
    rng = np.random.default_rng(seed)
    X, weights = rng.standard_normal((n, p)), rng.integers(1, 5, n)
    y = rng.standard_normal(n if outputs is None else (n, outputs))
    return X, y, weights


@for_all("batch_size", [4, 5])
@for_all("momentum", [0.0, 0.5])
def test_training_in_a_fixed_order(batch_size, momentum):
    X, y, weights = weighted_rows()
    problem = rs.LeastSquares(X, y, sample_weight=weights)
    run = rs.descend(problem, rs.Cyclic(batch_size=batch_size), step=0.05, momentum=momentum, penalty=0.01)
    batches = 4 * cut(range(12), batch_size)
    end = train(X, y, batches, rate=0.05, momentum=momentum, decay=0.01, weights=weights)
    np.testing.assert_allclose(run.iterate(4), end, rtol=0, atol=1e-12)
    loss = (weights * (y - X @ end) ** 2).sum() / (2 * len(y))
    np.testing.assert_allclose(run.training_loss(4), loss, rtol=1e-12)


def test_noise_is_that_of_weight_one():
    """The risk is that of runs on responses whose noise is smaller where the weight is larger."""
    X, _, weights = weighted_rows()
    truth, noise, step = np.array([1.0, -2.0, 0.5]), 0.7, 0.05
    problem = rs.LeastSquares(X, X @ truth, beta_star=truth, noise=noise, sample_weight=weights)
    found = rs.descend(problem, rs.FullBatch(), step=step).risk(3)
    # b_3 is linear in the responses: its map, and hence its variance, by columns of unit vectors.
    units = rs.LeastSquares(X, np.eye(len(X)), sample_weight=weights)
    reply = rs.descend(units, rs.FullBatch(), step=step).iterate(3)
    np.testing.assert_allclose(found.variance, noise**2 * (np.square(reply) / weights).sum(), rtol=1e-10)


def test_simulated_runs_honour_weights():
    X, _, weights = weighted_rows()
    truth = np.array([1.0, -2.0, 0.5])
    problem = rs.LeastSquares(X, X @ truth, beta_star=truth, noise=0.7, sample_weight=weights)
    setting = {"step": 0.05, "start": np.ones(3)}
    found = rs.simulate(
        problem, rs.RandomReshuffling(batches=3), epochs=3, runs=2000, fresh_noise=True, **setting
    )
    run = rs.descend(problem, rs.RandomReshuffling(batches=3), **setting)
    off = np.abs(found.expected_risk.mean - run.expected_risk(3).total)
    assert off <= 4.5 * found.expected_risk.standard_error
    assert (np.abs(found.iterate.mean - run.iterate(3)) <= 4.5 * found.iterate.standard_error).all()


def test_weights_of_many_outputs_and_of_one():
    X, y, weights = weighted_rows(outputs=2)
    problem = rs.LeastSquares(X, y, sample_weight=weights)
    assert repr(problem) == "LeastSquares(n=12, p=3, outputs=2, weighted, truth unknown)"
    assert (problem.output(1).sample_weight == weights).all()
    run = rs.descend(problem, rs.Cyclic(batch_size=4), step=0.05)
    np.testing.assert_allclose(
        run.iterate(3)[:, 1],
        train(X, y[:, 1], 3 * cut(range(12), 4), rate=0.05, weights=weights),
        rtol=0,
        atol=1e-12,
    )
    plain, of_one = (rs.LeastSquares(X, y, **given) for given in ({}, {"sample_weight": np.ones(12)}))
    assert (plain.X == of_one.X).all()
    assert (plain.y == of_one.y).all()
    assert plain.sample_weight is None


@for_all(
    "weights, message",
    [
        ([1.0, 2.0], r"sample_weight must have shape \(3,\), one entry per row of X"),
        ([1.0, 0.0, 1.0], r"sample_weight must be positive, but sample_weight\[1\] is 0.0; drop rows"),
        ([1.0, 1.0, -1.0], r"sample_weight must be positive, but sample_weight\[2\] is -1.0"),
        ([1.0, np.inf, 1.0], r"sample_weight must be finite, but sample_weight\[1\] is inf"),
        ([np.nan, 1.0, 1.0], r"sample_weight must be finite, but sample_weight\[0\] is nan"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        rs.LeastSquares([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0], sample_weight=weights)
