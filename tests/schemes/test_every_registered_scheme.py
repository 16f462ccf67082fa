"""Every registered scheme beside the enumeration of what it draws: a new one is compared without a new test."""

import inspect
from itertools import islice

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import schemes
from reshuffle.cli.options import SCHEMES
from tests.oracles import every_order
from tests.problems import case, close

N, EPOCHS, RUNS = 4, 2, 10_000
# LocalDescent draws nothing: `test_local_descent.py` follows its rounds.
REGISTERED = [
    value
    for value in (getattr(schemes, name) for name in schemes.__all__)
    if issubclass(value, rs.Scheme) and not inspect.isabstract(value) and value is not rs.LocalDescent
]
MADE_OTHERWISE = {
    rs.FullBatch: lambda size: rs.FullBatch(),
    rs.GroupReshuffling: lambda size: rs.GroupReshuffling(2, batch_size=min(size, 2)),
    rs.PoissonSampling: lambda size: rs.PoissonSampling(0.5, steps=min(size, 2)),
    rs.WeightedSampling: lambda size: rs.WeightedSampling([1.0] * N, batch_size=size),
    rs.Stages: lambda size: rs.Stages(
        [(1, rs.RandomReshuffling(batch_size=size)), (None, rs.Cyclic(batch_size=size))]
    ),
}
"""How a scheme is made for batches of some size, where that is not `TheScheme(batch_size=size)`."""


def drawn_epochs(scheme):
    """What many runs do in each epoch, (runs, visits, N + 1): the rows of a visit, -1 for none, and its divisor."""
    for visits in islice(scheme.visits(N, np.random.default_rng(1), RUNS), EPOCHS):
        table, visited = np.full((RUNS, 2 * N, N + 1), -1.0), np.zeros(RUNS, dtype=int)
        for visit in visits:
            slot = visited[visit.runs]
            table[visit.runs, slot, : visit.rows.shape[-1]] = visit.rows
            table[visit.runs, slot, N] = visit.divisor
            visited[visit.runs] += 1
        yield table


def different_epochs(table):
    """The epochs that were drawn, each as a list of (rows, divisor), all of them equally likely."""
    found, counts = np.unique(table.reshape(RUNS, -1), axis=0, return_counts=True)
    expected = RUNS / len(found)
    assert expected > 30, "too many orders to see all of them: the scheme needs a smaller example"
    chi_square, freedom = np.square(counts - expected).sum() / expected, len(found) - 1
    assert chi_square <= freedom + 5 * np.sqrt(2 * freedom), "some orders are drawn more often than others"
    return [
        [
            (visit[:N][visit[:N] >= 0].astype(int), visit[N])
            for visit in epoch.reshape(2 * N, N + 1)
            if visit[N] > 0
        ]
        for epoch in found
    ]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("kind", REGISTERED, ids=lambda kind: kind.__name__)
def test_mean_and_spread_are_those_over_all_that_the_scheme_draws(kind, size):
    scheme = MADE_OTHERWISE.get(kind, lambda size: kind(batch_size=size))(size)
    tiny = case(N, 3, 2, step=0.2)
    problem, step = tiny.problem, tiny.step
    training = every_order.Training(problem.X, problem.y, [step] * EPOCHS, tiny.start)
    tables = list(drawn_epochs(scheme))
    if all(np.array_equal(tables[0], table) for table in tables):
        runs = every_order.all_runs(training, different_epochs(tables[0]), fresh=False)
    else:
        runs = every_order.runs_through(training, [different_epochs(table) for table in tables])
    run = rs.descend(problem, scheme, step, start=tiny.start)
    close(run.iterate(EPOCHS), every_order.mean_iterate(training, runs))
    total, mean = every_order.expected_risk(training, runs, problem.beta_star, tiny.covariance, problem.noise)
    close(run.risk(EPOCHS).total, mean)
    close(run.expected_risk(EPOCHS).total, total)


def test_what_is_registered_is_a_name_of_the_package_and_what_the_command_line_names_is_registered():
    assert all(getattr(rs, name) is getattr(schemes, name) for name in schemes.__all__)
    assert {getattr(schemes, name) for name in SCHEMES.values()} <= set(REGISTERED)
