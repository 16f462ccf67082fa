"""The oracle is right, the judge sees what is wrong, and the random inputs of fixed seeds find nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest

from reshuffle import RandomReshuffling
from tests.fuzz.cases import Case, case
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
from tests.oracles.exact_runs import Oracle, Scheme, moved

_SHORT = 300
"""Inputs of the short part."""
RAGGED = [[3, 0], [4, 1, 2]]


def _case(scheme, question="risk", epochs=(0, 1, 2), n=5, p=3, **recipe):
    rng = np.random.default_rng(7)
    X, beta_star = rng.standard_normal((n, p)), rng.standard_normal(p)
    sigma = rng.standard_normal((p, p))
    y, start = X @ beta_star + rng.standard_normal(n), rng.standard_normal(p).tolist()
    recipe = {"step": 0.15, "start": start, "penalty": 0.0, "momentum": 0.0, **recipe}
    known = beta_star.tolist(), 0.7, (sigma @ sigma.T).tolist()
    return Case(X.tolist(), y.tolist(), *known, scheme, recipe, question, {"epochs": list(epochs)})


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
    """By the enumeration of the other tests, which shares no arithmetic with it."""
    drawn = _case(scheme, **recipe)
    oracle, count = Oracle(drawn.setting()), 2
    X, y, start = (np.array(part) for part in (drawn.X, drawn.y, drawn.recipe["start"]))
    training = every_order.Training(X, y, [0.15] * count, start, **recipe)
    runs = every_order.all_runs(training, epochs, fresh)
    truth = np.array(drawn.beta_star), np.array(drawn.sigma)
    if given_responses:
        right = every_order.expected_risk_given(training, runs, *truth)
    else:
        right = every_order.expected_risk(training, runs, *truth, drawn.noise)
        assert _floats(oracle.risks([count])[0])[0] == pytest.approx(right[1], rel=1e-12)
    (found,) = oracle.expected_risks([count], given_responses)
    np.testing.assert_allclose(_floats(found), right, rtol=1e-12)
    mean = (runs @ np.concatenate([[1.0], y])).mean(axis=0)
    np.testing.assert_allclose(_floats(oracle.iterates([count])[0]), mean, rtol=1e-12)


def test_many_epochs_are_those_of_few_and_the_limit_is_where_they_end():
    oracle = Oracle(_case(Scheme("RandomReshuffling", {"batches": 2}), n=3, p=2).setting())
    (one_by_one,), (squared, _) = (oracle.expected_risks(epochs, False) for epochs in ([10], [10, 1000]))
    np.testing.assert_allclose(_floats(squared), _floats(one_by_one), rtol=1e-12)
    late, end = Oracle(_case(Scheme("Cyclic", {"batches": 3}), momentum=0.5).setting()).risks(
        [10**6, math.inf]
    )
    np.testing.assert_allclose(_floats(late), _floats(end), rtol=1e-9, atol=1e-12)


def test_collinear_features_stay_collinear_when_they_move():
    rows = [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 5.0], [1.0, 3.0, 8.0], [0.0, 0.0, 0.0]]
    exact = replace(_case(Scheme("FullBatch")), X=rows).setting()
    assert moved(exact, 3).X != exact.X
    assert moved(exact, 3).X.rank() == exact.X.rank() == 2


FULL, THREE = Scheme("FullBatch"), Scheme("RandomReshuffling", {"batches": 3})
STABILITY = replace(_case(THREE, "stability"), options={})
WILD = _case(FULL, epochs=[math.inf], step=50.0, start=None)
BEST = replace(_case(FULL, "best_epoch", n=2), options={})
BEYOND = {
    "sigma": [[1e95 * entry for entry in row] for row in BEST.sigma],
    "beta_star": [1e99 * entry for entry in BEST.beta_star],
}


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
        (replace(BEST, **BEYOND), lambda best: replace(best, risk=1.0), "wrong"),
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
@pytest.mark.parametrize("first", range(0, _SHORT, 60))
def test_the_inputs_of_fixed_seeds_find_nothing(first):
    verdicts = {seed: ask(case(seed)) for seed in range(first, first + 60)}
    # How long an answer takes is a matter of the machine and of what else it does: `make fuzz` counts that.
    wrong = {
        seed: found for seed, found in verdicts.items() if found.kind in FAILURES and found.kind != "hang"
    }
    assert not wrong, "\n".join(f"seed {seed}: {found}" for seed, found in wrong.items())


def test_the_inputs_are_of_many_kinds():
    drawn = [case(seed) for seed in range(200)]
    assert len({each.question for each in drawn}) == 14
    assert len({each.scheme.name for each in drawn}) == 8
