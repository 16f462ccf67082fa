"""The cavity equation for shuffled samples: against all orders, against drawn ones, and its own pieces by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.epoch.averaging import cavity, cavity_maps
from reshuffle.epoch.averaging.cavity import SelfResponses, TimeNodes, Visiting
from reshuffle.epoch.averaging.samples import Whitened
from reshuffle.epoch.visits import Visits
from reshuffle.errors import UnsupportedError
from tests.problems import case, close


def visiting_of(rows, grades, steps, last=1.0):
    """An epoch with nothing but a step."""
    return Visiting(
        rows, grades[np.newaxis], np.zeros((1, 1, rows.shape[1])), np.ones(1), 1 / steps, last, steps
    )


RECIPES = [
    {},
    {"penalty": 0.3},
    {"momentum": 0.6},
    {"momentum": 0.6, "penalty": 0.3},
    {"momentum": 0.6, "nesterov": True, "penalty": 0.3},
]


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
@pytest.mark.parametrize(
    "scheme",
    [
        rs.SampleReshuffling(batches=2),
        rs.SampleReshuffling(batch_size=5),
        rs.SampleReshuffling(batch_size=5, normalize="equal"),
    ],
    ids=repr,
)
def test_two_batches_are_exact(scheme, recipe):
    """No two samples can meet crosswise in two visits: the closure leaves nothing out."""
    problem = case(8, 3, 1, noise=0.5).problem
    exact = rs.descend(problem, scheme, 0.3, method="exact", **recipe)
    cavity = rs.descend(problem, scheme, 0.3, method="cavity", **recipe)
    assert (exact.method, cavity.method) == ("exact", "cavity")
    for epochs in ([0, 1, 2, 7], math.inf):
        close(cavity.iterate(epochs), exact.iterate(epochs), 1e-6)
        close(cavity.risk(epochs).total, exact.risk(epochs).total, 1e-6)


@pytest.mark.parametrize("recipe", RECIPES[1:], ids=str)
@pytest.mark.parametrize("arguments", [{"batches": 3}, {"batch_size": 2, "normalize": "equal"}], ids=str)
def test_maps_with_momentum_and_penalty_are_those_of_all_cuts(arguments, recipe):
    """Kernel and entries against the walk over all sets of samples, a ragged last batch among them."""
    problem = case(7, 2, 1, noise=0.5).problem
    scheme = rs.SampleReshuffling(**arguments)
    run = rs.descend(problem, scheme, 0.2, method="exact", **recipe)
    timeline = run._affine.timeline
    exact, visits = timeline.map(0), Visits(timeline.blocks, timeline.visits(0).hyperparameters)
    shares = scheme.sizes(7) / scheme.step_divisors(7)
    found, *replicas = cavity_maps.cavity_maps(visits, visits.unit_force(timeline.truth), shares)
    close(found.entries[:, 0], exact.entries[:, 0], 1e-3)
    for name in ("kernel", "entries"):
        off = np.abs(getattr(found, name) - getattr(exact, name)).max()
        said = np.abs([getattr(replica, name) - getattr(found, name) for replica in replicas]).max()
        assert 0 < off < said


def test_what_is_neglected_falls_like_the_square_of_the_number_of_samples():
    errors = []
    for n in (40, 160, 640):
        problem = rs.gaussian(n, 3, noise=0.5, seed=1)
        run = rs.descend(problem, rs.SampleReshuffling(batches=4), alpha=1.0, method="cavity", rtol=0.1)
        exact = rs.descend(problem, rs.SampleReshuffling(batches=4), alpha=1.0, method="exact")
        errors.append(np.abs(run.epoch.Z - exact.epoch.Z).max())
    slope = np.polyfit(np.log([40, 160, 640]), np.log(errors), 1)[0]
    assert -2.6 < slope < -1.5


def heavy(seed):
    """A problem with outliers or heavy tails, a scheme whose mean is known exactly, and a step."""
    rng = np.random.default_rng(seed)
    n, batches = (
        (int(rng.integers(5, 11)), None) if seed % 2 else (int(rng.integers(10, 60)), 3 + seed % 4 // 2)
    )
    p = int(rng.integers(1, min(n // 2, 8) + 1))
    X = [
        rng.standard_normal((n, p)), rng.standard_t(3, (n, p)),
        rng.standard_normal((n, p)) * rng.standard_t(2, (n, 1)), rng.standard_normal((n, p)) + 2,
    ][seed % 7 % 4]  # fmt: skip
    if seed % 5 == 0:
        X[0] *= 10
    beta = rng.standard_normal(p)
    problem = rs.LeastSquares(X, X @ beta + 0.5 * rng.standard_normal(n), beta_star=beta, noise=0.5)
    fastest = 2 * n / np.linalg.norm(X, 2) ** 2
    if batches is None:
        step = min(rng.choice([0.1, 1.0]) * fastest / n, 1.5 / np.square(X).sum(axis=1).max())
        return problem, rs.RandomReshuffling(batch_size=1), float(step)
    return problem, rs.SampleReshuffling(batches=batches), float(rng.choice([0.03, 0.1, 0.3, 0.6]) * fastest)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the mean over orders is known too poorly")
@pytest.mark.filterwarnings("ignore:at step .* the mean iterate diverges")
def test_errors_cover_the_truth():
    """In 99 of 100 answers on heavy-tailed problems; benchmarks/cavity_coverage.py asks a thousand."""
    covered, epochs = [], np.array([1.0, 3.0, 10.0, 100.0])
    for seed in range(60):
        problem, scheme, step = heavy(seed)
        exact = rs.descend(problem, scheme, step, method="exact")
        cavity = rs.descend(problem, scheme, step, method="cavity", rtol=1.0)
        risk, loss = cavity.risk(epochs), cavity.training_loss(epochs)
        floor = 1e-12 * np.abs(loss).max()
        off = np.abs(loss - exact.training_loss(epochs))
        covered += (off <= cavity.training_loss_error(epochs) + floor).tolist()
        covered += (np.abs(risk.total - exact.risk(epochs).total) <= risk.error + floor).tolist()
    assert np.mean(covered) >= 0.99


def test_the_modifier_and_the_modified_features_agree():
    problem = case(30, 4, 1).problem
    run = rs.descend(problem, rs.SampleReshuffling(batch_size=4), alpha=0.5, method="cavity", rtol=0.1)
    for sample in (0, 17):
        close(run.epoch.modifier(sample) @ problem.X[sample], run.epoch.modified_features[sample], 1e-3)
    exact = rs.descend(problem, rs.SampleReshuffling(batches=3), alpha=0.5, method="exact")
    cavity = rs.descend(problem, rs.SampleReshuffling(batches=3), alpha=0.5, method="cavity", rtol=0.1)
    close(cavity.epoch.modifier(5), exact.epoch.modifier(5), 1e-3)


def test_many_batches_agree_with_drawn_orders():
    problem = rs.gaussian(120, 6, noise=0.5, seed=3)
    for recipe in ({}, {"momentum": 0.5}):
        scheme = rs.SampleReshuffling(batch_size=7)
        drawn = rs.descend(problem, scheme, alpha=1.0, method="sampling", rtol=2e-3, **recipe)
        cavity = rs.descend(problem, scheme, alpha=1.0, method="cavity", **recipe)
        epochs = np.array([1, 5, 50])
        one, other = drawn.risk(epochs), cavity.risk(epochs)
        assert (np.abs(one.total - other.total) <= one.error + other.error).all()
        assert (other.error < 0.05 * other.total).all()


@given(st.lists(st.floats(0.0, 0.99), min_size=1, max_size=6), st.integers(1, 40))
@settings(deadline=None, max_examples=40)
def test_functions_are_known_from_their_nodes(bases, steps):
    shapes = np.power(np.array(bases), np.arange(steps)[:, np.newaxis])
    nodes = TimeNodes.spanning(shapes, 1e-13)
    close(nodes.rule @ shapes[nodes.nodes], shapes, 1e-7)
    known = shapes[nodes.nodes]
    for t in range(steps + 1):
        direct = sum(shapes[t - 1 - u] * shapes[u] for u in range(t)) + np.zeros(len(bases))
        close(np.einsum("an,ab,bn->n", known, nodes.convolution_at(t), known), direct, 1e-6)


def one_after_the_other(influence, exclusion):
    """R = e (g + g * r), g = gamma + r * gamma, visit by visit."""
    found, met = np.zeros_like(influence), np.zeros_like(influence)
    for t in range(len(influence)):
        met[t] = influence[t] + sum(found[t - 1 - s] * influence[s] for s in range(t))
        found[t] = exclusion * (met[t] + sum(met[t - 1 - s] * found[s] for s in range(t)))
    return found


def test_self_responses_at_the_nodes_are_those_of_the_recursion():
    rng = np.random.default_rng(0)
    rows = np.linalg.qr(rng.standard_normal((40, 3)))[0]
    visiting = visiting_of(rows, np.array([0.3, 1.0, 4.0]), 25)
    nodes = visiting.nodes(1e-12)
    decays = (1 - visiting.grades[0] / 25) ** np.arange(25)[:, np.newaxis] * visiting.grades[0]
    influence = np.array([np.diag(row) for row in decays])
    found = SelfResponses(rows, 1, nodes, visiting.exclusion, 1e-12).of_influence(influence[nodes.nodes])
    direct = one_after_the_other(decays @ np.square(rows).T, visiting.exclusion)
    close(nodes.rule @ found, direct, 1e-8)


def test_what_is_neglected_without_pairs_is_more(monkeypatch):
    """Where pairs of samples are too many to look at, the estimate is wider."""
    rows = np.linalg.qr(np.random.default_rng(0).standard_normal((60, 5)))[0]
    visiting = visiting_of(rows, np.linspace(0.1, 2.0, 5), 12)
    entries = cavity.solve(visiting, 1e-8).entries
    with_pairs = cavity_maps.neglected(visiting, entries, 0.0)
    monkeypatch.setattr(cavity_maps, "_MOST_OPERATIONS", 0.0)
    without = cavity_maps.neglected(visiting, entries, 0.0)
    kernels = [np.linalg.norm(off.T @ rows, 2) for off in (with_pairs, without)]
    assert 0 < kernels[0] < kernels[1]


@pytest.mark.parametrize(
    "scheme", [rs.RandomReshuffling(batches=9), rs.RandomReshuffling(batch_size=4)], ids=repr
)
@pytest.mark.parametrize("alpha", [0.05, 0.5, 1.5])
def test_fixed_batches_are_those_of_all_orders_within_the_error(scheme, alpha):
    """Batches of several rows, a ragged last one among them: the error covers, and is not far too wide."""
    problem = case(38, 3, 1, noise=0.5).problem
    exact = rs.descend(problem, scheme, alpha=alpha, method="exact")
    cavity = rs.descend(problem, scheme, alpha=alpha, method="cavity", rtol=0.1)
    epochs = np.array([1, 3, 10, math.inf])
    found, truth = cavity.risk(epochs), exact.risk(epochs).total
    assert found.error_kind == "estimate"
    assert (np.abs(found.total - truth) <= found.error + 1e-12).all()
    apart = np.linalg.norm(cavity.iterate(epochs) - exact.iterate(epochs), axis=1)
    assert (apart <= cavity.iterate_error(epochs) + 1e-12).all()
    assert np.median(cavity.iterate_error(epochs)[:3] / apart[:3]) < 15
    close(cavity.epoch.modifier(2), exact.epoch.modifier(2), 1e-2)


def test_fixed_batches_with_momentum_have_no_cavity():
    problem = case(12, 3, 1).problem
    with pytest.raises(ValueError, match=r'method must be "auto", "exact" or "sampling" for Random'):
        rs.descend(problem, rs.RandomReshuffling(batches=6), 0.1, momentum=0.5, method="cavity")


def test_without_a_solution_the_cavity_says_so_and_auto_goes_on():
    problem = rs.LeastSquares(np.diag([1.0, 1.0, 30.0])[[0, 1, 2, 0, 1, 0]], np.ones(6))
    scheme = rs.SampleReshuffling(batch_size=1)
    with pytest.raises(UnsupportedError, match="no solution at so large a step"):
        rs.descend(problem, rs.SampleReshuffling(batches=5), 1e6, method="cavity").iterate(1)
    assert rs.descend(problem, scheme, 1e6).method in ("exact", "sampling")
    epoch = rs.descend(problem, rs.SampleReshuffling(batches=5), 1e6, rtol=1.0, budget=1e7).epoch
    assert epoch.method == "sampling"
    assert "cavity" in repr(epoch.choice)
    assert "its equation has no solution at so large a step" in repr(epoch.choice)


@pytest.mark.parametrize("alpha", [0.0, 1e-12, 1e-6])
@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.5}], ids=str)
def test_small_steps_pull_as_they_should(alpha, recipe):
    """Whatever the samples do to themselves is nothing then; what they are pulled by is not."""
    problem = case(12, 3, 1, noise=0.5).problem
    scheme = rs.SampleReshuffling(batches=4)
    cavity = rs.descend(problem, scheme, alpha=alpha, method="cavity", **recipe).iterate([1, 3])
    full = rs.descend(problem, rs.FullBatch(), alpha=alpha).iterate([1, 3])
    assert (np.abs(cavity[1]) >= np.abs(full[1]) * 0.5).all()
    if not recipe:
        np.testing.assert_allclose(cavity, full, rtol=1e-4)


@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.5}], ids=str)
def test_products_of_paths_by_their_diagonals_change_nothing(monkeypatch, recipe):
    """As of many modes, here of few: against the products of the matrices themselves."""
    problem = rs.gaussian(80, 12, noise=0.5, seed=3)
    found = []
    for few in (1, 1000):
        monkeypatch.setattr("reshuffle.epoch.averaging.cavity._MANY_MODES", few)
        run = rs.descend(
            problem, rs.SampleReshuffling(batch_size=10), 0.2, method="cavity", rtol=0.1, **recipe
        )
        found.append(run.iterate(3))
    close(found[0], found[1], 1e-5)


@pytest.mark.slow
def test_columns_that_are_orthogonal_are_decomposed_as_they_stand():
    rng = np.random.default_rng(0)
    columns = np.linalg.qr(rng.standard_normal((150, 110)))[0] * np.geomspace(1, 1e-3, 110)
    weights, offsets = np.full(150, 1 / 150), np.arange(151)
    quick = Whitened.of(columns, weights, 2.0, offsets)
    slow = Whitened.of(columns[:, ::-1] + 1e-11 * columns[:, :1], weights, 2.0, offsets)
    np.testing.assert_allclose(quick.decay_rates, slow.decay_rates, rtol=1e-7)
    close(quick.orthonormal.T @ quick.orthonormal, np.eye(110), 1e-12)
    close(quick.orthonormal @ quick.factor, columns / math.sqrt(150), 1e-14)
