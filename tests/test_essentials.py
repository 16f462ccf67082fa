"""Every command and every kind of question once, with nothing but what the package cannot do without.

`make test-lowest` runs this beside the lowest versions of that. Answers are compared with plain training.
"""

import json

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import asymptotics, free
from tests.cli.terminal import run
from tests.looped import for_all
from tests.lowest import lowest
from tests.training import train

X = np.random.default_rng(0).standard_normal((24, 3)) @ np.diag([1.0, 2.0, 0.5])
Y = X @ np.array([1.0, -0.5, 2.0]) + np.random.default_rng(1).standard_normal(24)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "mine.csv"
    rows = "\n".join(",".join(map(repr, row)) for row in np.column_stack([X, Y]).tolist())
    path.write_text(f"a,b,c,price\n{rows}\n")
    return str(path)


def test_every_requirement_has_a_lowest_version():
    assert [line.partition("==")[0] for line in lowest([])] == [
        "numpy",
        "scipy",
        "rich",
        "cyclopts",
        "pandas",
        "threadpoolctl",
    ]
    assert "shiny" in lowest(["page"])[-1]


@for_all("recipe, outside_decay", [({}, 0.0), ({"momentum": 0.5}, 0.0), ({"penalty": 0.2}, 0.2)])
def test_a_run_is_what_training_gives(recipe, outside_decay):
    """In order, so that there is nothing to be averaged."""
    run = rs.descend(rs.LeastSquares(X, Y), rs.Cyclic(batch_size=8), step=0.05, **recipe)
    momentum, visited = recipe.get("momentum", 0.0), np.split(np.arange(24), 3) * 3
    beta = train(X, Y, visited, rate=0.05, momentum=momentum, decay=outside_decay)
    np.testing.assert_allclose(run.iterate(3), beta, rtol=1e-10)
    assert float(run.training_loss(3)) == pytest.approx(np.square(Y - X @ beta).mean() / 2)


@for_all(
    "scheme",
    [
        rs.FullBatch(),
        rs.RandomReshuffling(batches=3),
        rs.ShuffleOnce(batches=3),
        rs.SampleReshuffling(batch_size=4),
        rs.WithReplacement(batches=3),
        rs.SampleWithReplacement(batch_size=4),
        rs.SampleSubsets(batch_size=4),
    ],
)
def test_every_question_has_an_answer(scheme):
    problem = rs.gaussian(12, 3, noise=0.5, seed=0)
    run = rs.descend(problem, scheme, step=0.05)
    risk, single = run.risk(4), run.expected_risk(4)
    simulated = rs.simulate(problem, scheme, step=0.05, epochs=[4], runs=200, fresh_noise=True, seed=1)
    off = 4 * simulated.expected_risk.standard_error[0] + single.error
    assert abs(simulated.expected_risk.mean[0] - single.total) <= off
    assert risk.total <= (1 + 1e-12) * single.total + risk.error
    assert run.limit().converges
    assert run.stability().converges
    assert run.best_epoch().risk <= risk.total + risk.error
    assert run.leave_one_out(4).mean_square > 0
    given = run.expected_risk(4, given_responses=True)
    assert run.covariance(4).trace == pytest.approx(
        given.spread, abs=0.1 * given.spread + 4 * given.error + 1e-12
    )
    assert rs.critical_step(problem, scheme, mean_square=False) > 0.05


def test_outputs_are_trained_in_the_same_orders():
    setting = {"scheme": rs.RandomReshuffling(batches=3), "step": 0.1, "epochs": [2], "runs": 20, "seed": 4}
    both = rs.simulate(rs.LeastSquares(X, np.column_stack([Y, Y**2])), **setting).iterate.mean
    for number, response in enumerate((Y, Y**2)):
        alone = rs.simulate(rs.LeastSquares(X, response), **setting).iterate.mean
        np.testing.assert_allclose(both[..., number], alone, rtol=1e-12)


def test_a_plan_is_for_the_least_error():
    plan = rs.plan(X, Y, batch_sizes=[8, 24], epochs=100)
    assert plan.test_error <= 1.01 * float(np.var(Y))
    assert "expected test error" in repr(plan)


def test_limits_and_spectra():
    assert float(asymptotics.critical_alpha(0.5, 2)) > 0
    x, y = free.variables(free.Semicircle(1.0), free.Semicircle(1.0))
    (low, high), *_ = free.spectrum(x + y).support
    assert high == pytest.approx(2 * 2**0.5, rel=1e-9)
    assert low == pytest.approx(-high)


@for_all(
    "arguments",
    [
        "advise --data {table} --target price --epochs 50",
        "curve --data {table} --target price --standardize --intercept --batches 1,3 --step 0.05 --epochs 10",
        "curve --n 20 --p 4 --noise 0.5 --batches 2 --alpha 0.5 --epochs 10 --simulate 20",
        "stability --data {table} --target price --batches 1,2",
        "stability --aspect 0.5 --batches 1,2",
        "limits --aspect 0.5 --batches 2 --alpha 0.5 --epochs 5",
        "spectrum --expression x+y --law x=semicircle(1) --law y=semicircle(1)",
    ],
)
def test_every_command(capsys, table, arguments):
    outcome = run(capsys, *arguments.format(table=table).split(), "--json", "-")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["command"] == arguments.split()[0]


@for_all("command", ["sweep", "reproduce", "explore"])
def test_what_needs_more_explains_itself(capsys, command):
    assert run(capsys, command, "--help").code == 0
