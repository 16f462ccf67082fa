"""The oracle is right, the judge sees what is wrong, and the random inputs of fixed seeds find nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest

from reshuffle import RandomReshuffling
from tests.fuzz.cases import Case, Problem, Recipe, case
from tests.fuzz.questions import FAILURES, answer, ask, compare
from tests.looped import for_all
from tests.oracles import every_order
from tests.oracles.every_order import (
    cut,
    epochs_of_shuffled_samples,
    epochs_reshuffled,
    epochs_with_replacement,
    in_order,
)
from tests.oracles.exact import moments
from tests.oracles.exact.oracle import Oracle
from tests.oracles.exact.setting import Scheme, moved

_SHORT = 300
"""Inputs of the short part."""
RAGGED = [[3, 0], [4, 1, 2]]


def _case(scheme, question="risk", epochs=(0, 1, 2), n=5, p=3, **recipe):
    rng = np.random.default_rng(7)
    X, beta_star = rng.standard_normal((n, p)), rng.standard_normal(p)
    sigma = rng.standard_normal((p, p))
    problem = Problem(
        X=X.tolist(),
        y=(X @ beta_star + rng.standard_normal(n)).tolist(),
        beta_star=beta_star.tolist(),
        noise=0.7,
        form="matrix",
        sigma=(sigma @ sigma.T).tolist(),
    )
    made = Recipe("step", 0.15, start=rng.standard_normal(p).tolist(), **recipe)
    return Case(problem, scheme, made, question, {"epochs": list(epochs)})


def _floats(values):
    return [float(value.mid()) for value in values]


@for_all("given_responses", [False, True])
@for_all("recipe", [{}, {"momentum": 0.5, "penalty": 0.2}])
@for_all(
    "scheme, epochs, fresh",
    [
        (Scheme("FullBatch"), [in_order([range(5)])], True),
        (Scheme("RandomReshuffling", {"batches": 3}), epochs_reshuffled(cut(5, 3)), True),
        (Scheme("WithReplacement", {"batches": RAGGED}), epochs_with_replacement(RAGGED), True),
        (Scheme("ShuffleOnce", {"batches": 2}), epochs_reshuffled(cut(5, 2)), False),
        (
            Scheme("SampleReshuffling", {"batch_size": 2, "normalize": "equal"}),
            epochs_of_shuffled_samples(5, [2, 2, 1], [5 / 3] * 3),
            True,
        ),
    ],
)
def test_the_oracle_has_the_means_and_expected_risks(scheme, epochs, fresh, recipe, given_responses):
    """By the enumeration of the other tests, which shares no code with it."""
    drawn = _case(scheme, **recipe)
    problem, oracle, count = drawn.problem, Oracle(drawn.setting()), 2
    X, y, start = np.array(problem.X), np.array(problem.y), np.array(drawn.recipe.start)
    training = every_order.Training(X, y, [0.15] * count, start, **recipe)
    runs = every_order.all_runs(training, epochs, fresh)
    truth = np.array(problem.beta_star), np.array(problem.sigma)
    if given_responses:
        right = every_order.expected_risk_given(training, runs, *truth)
    else:
        right = every_order.expected_risk(training, runs, *truth, problem.noise)
        assert _floats(oracle.risks([count])[0])[0] == pytest.approx(right[1], rel=1e-12)
    (found,) = moments.expected_risks(oracle, [count], given_responses)
    np.testing.assert_allclose(_floats(found), right, rtol=1e-12)
    mean = (runs @ np.concatenate([[1.0], y])).mean(axis=0)
    np.testing.assert_allclose(_floats(oracle.iterates([count])[0]), mean, rtol=1e-12)


def test_many_epochs_are_those_of_few():
    drawn = _case(Scheme("RandomReshuffling", {"batches": 2}), n=3, p=2)
    oracle = Oracle(drawn.setting())
    (one_by_one,) = moments.expected_risks(oracle, [10], False)
    squared, _ = moments.expected_risks(oracle, [10, 1000], False)
    np.testing.assert_allclose(_floats(squared), _floats(one_by_one), rtol=1e-12)


def test_the_limit_is_where_many_epochs_end():
    drawn = _case(Scheme("Cyclic", {"batches": 3}), momentum=0.5)
    oracle = Oracle(drawn.setting())
    late, end = oracle.risks([10**6, math.inf])
    np.testing.assert_allclose(_floats(late), _floats(end), rtol=1e-9, atol=1e-12)


def test_collinear_features_stay_collinear_when_they_move():
    drawn = _case(Scheme("FullBatch"))
    rows = [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 5.0], [1.0, 3.0, 8.0], [0.0, 0.0, 0.0]]
    exact = replace(drawn, problem=replace(drawn.problem, X=rows)).setting()
    assert moved(exact, 3).X != exact.X
    assert moved(exact, 3).X.rank() == exact.X.rank() == 2


FULL, THREE = Scheme("FullBatch"), Scheme("RandomReshuffling", {"batches": 3})
STABILITY = replace(_case(THREE, "stability"), options={})
WILD = replace(_case(FULL, epochs=[math.inf]), recipe=Recipe("step", 50.0))
BEST = replace(_case(FULL, "best_epoch", n=2), options={})
BEYOND = replace(
    BEST.problem,
    sigma=[[1e95 * entry for entry in row] for row in BEST.problem.sigma],
    beta_star=[1e99 * entry for entry in BEST.problem.beta_star],
)


def _off(risk):
    return replace(risk, variance=risk.variance * (1 + 1e-6))


@for_all(
    "drawn, change, kind",
    [
        (_case(THREE, epochs=[5]), _off, "wrong"),
        (_case(THREE, epochs=[5]), lambda risk: replace(_off(risk), error=1e-5 * risk.total), "right"),
        # A decision is open where the rate may be one.
        (STABILITY, lambda found: replace(found, converges=False), "wrong"),
        (STABILITY, lambda found: replace(found, converges=False, error=1e-3), "wrong"),
        (STABILITY, lambda found: replace(found, converges=False, error=math.inf), "right"),
        # A risk that is always beyond the range; infinity where nothing grows; a finite number where it diverges.
        (replace(BEST, problem=BEYOND), lambda best: replace(best, risk=1.0), "wrong"),
        (
            _case(Scheme("Cyclic", {"batches": 2}), "iterate", [3, math.inf]),
            lambda f: (f[0] * np.inf, f[1]),
            "wrong",
        ),
        (WILD, lambda risk: replace(risk, bias=np.ones(1), variance=np.ones(1)), "wrong"),
        (_case(FULL), lambda risk: replace(risk, bias=risk.bias * np.nan), "nan"),
    ],
)
def test_the_judge_sees_what_is_wrong_and_nothing_else(drawn, change, kind):
    found = answer(drawn)
    assert compare(drawn, found).kind == "right"
    assert compare(drawn, change(found)).kind == kind


def test_broken_schemes_crashes_and_clear_errors(monkeypatch):
    assert ask(_case(Scheme("RandomReshuffling", {"batches": 9}))).kind == "clear error"
    with monkeypatch.context() as patch:
        halves = lambda self, n: [np.arange(n)[::2], np.arange(n)[1::2]]  # noqa: E731
        patch.setattr(RandomReshuffling, "partition", halves)
        assert ask(_case(Scheme("RandomReshuffling", {"batches": 2}))).kind == "wrong"
    monkeypatch.setattr("reshuffle.run.run.Run.risk", lambda run, epochs: [][0])
    assert ask(_case(FULL)).kind == "crash"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_inputs_of_fixed_seeds_find_nothing():
    failures = []
    for seed in range(_SHORT):
        verdict = ask(case(seed))
        # How long an answer takes is a matter of the machine and of what else it does: `make fuzz` counts that.
        if verdict.kind in FAILURES and verdict.kind != "hang":
            failures.append(f"seed {seed}, {verdict.kind}: {verdict.detail}")
    assert not failures, "\n".join(failures)


def test_the_inputs_are_of_many_kinds():
    drawn = [case(seed) for seed in range(200)]
    assert len({each.question for each in drawn}) == 14
    assert len({each.scheme.name for each in drawn}) == 8
