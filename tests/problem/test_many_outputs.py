"""Responses of several columns: every answer is the stack of those about one column each."""

import warnings

import numpy as np
import pytest

import reshuffle as rs

SCHEMES = {
    "full batch": rs.FullBatch(),
    "reshuffling": rs.RandomReshuffling(3),
    "shuffled samples": rs.SampleReshuffling(batch_size=4),
    "with replacement": rs.WithReplacement(3),
    "samples with replacement": rs.SampleWithReplacement(batch_size=4),
    "subsets": rs.SampleSubsets(batch_size=4),
    "cyclic": rs.Cyclic(3),
    "shuffled once": rs.ShuffleOnce(3),
    "stages": rs.Stages([(2, rs.Cyclic(3)), (None, rs.RandomReshuffling(2))]),
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
    for scheme in ("full batch", "reshuffling", "cyclic", "stages")
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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("scheme", "recipe", "shape"), CASES)
def test_the_mean_iterate_of_every_scheme_and_recipe(scheme, recipe, shape):
    run, singles = both(scheme, recipe, shape)
    epochs = [[0, 1], [2, 3]] if recipe == "schedule" else [[2, 3], [40, np.inf]]
    agree(run.iterate(epochs), [single.iterate(epochs) for single in singles])
    agree(run.training_loss(epochs), [single.training_loss(epochs) for single in singles])
    agree(run.iterate_error(epochs), [single.iterate_error(epochs) for single in singles], 1e-8)
    new = np.random.default_rng(1).standard_normal((2, run.problem.p))
    agree(run.predict(new, epochs[0]), [single.predict(new, epochs[0]) for single in singles])
    for number, single in enumerate(singles):
        agree(run.output(number).iterate(epochs)[..., np.newaxis], [single.iterate(epochs)])
