"""The largest singular value alone, against the whole decomposition, and the critical steps that rest on it."""

import math

import numpy as np
import scipy.linalg

import reshuffle as rs
from reshuffle.problem import row_space
from reshuffle.run import critical_steps
from reshuffle.run.critical_steps import largest_eigenvalue
from tests.looped import for_all, pairwise

RNG = np.random.default_rng(3)


def with_singular_values(n, p, values):
    left, _ = np.linalg.qr(RNG.standard_normal((n, len(values))))
    right, _ = np.linalg.qr(RNG.standard_normal((p, len(values))))
    return (left * values) @ right.T


MATRICES = {
    "gaussian": RNG.standard_normal((70, 90)),
    "tall": RNG.standard_normal((120, 60)),
    "rank one": np.outer(RNG.standard_normal(70), RNG.standard_normal(90)),
    "clustered": with_singular_values(80, 90, 1 + 1e-9 * RNG.random(60)),
    "all equal": with_singular_values(80, 90, np.ones(80)),
    "two at the top": with_singular_values(90, 80, np.r_[1.0, 1.0, 0.5 * RNG.random(60)]),
    "ill-conditioned": with_singular_values(80, 90, np.geomspace(1.0, 1e-15, 70)),
    "one large row": np.vstack([1e8 * np.ones(90), RNG.standard_normal((69, 90))]),
    "tiny": 1e-140 * RNG.standard_normal((70, 90)),
    "huge": 1e140 * RNG.standard_normal((70, 90)),
    "signs that cancel": np.outer(np.tile([1.0, -1.0], 40), np.tile([1.0, -1.0], 45)),
}


@for_all("name, small, equal", pairwise(list(MATRICES), [0, 1000], [True, False]))
def test_it_is_that_of_the_decomposition(monkeypatch, name, small, equal):
    monkeypatch.setattr(critical_steps, "_SMALL", small)
    X = MATRICES[name]
    weights = np.full(len(X), 0.25) if equal else 0.1 + RNG.random(len(X))
    scale = row_space.scale_of(X)
    expected = scipy.linalg.svdvals(np.sqrt(weights)[:, np.newaxis] * X / scale)[0] ** 2
    assert math.isclose(largest_eigenvalue(X, weights, scale), expected, rel_tol=1e-12)


def test_no_decomposition_is_made(monkeypatch):
    problem = rs.gaussian(500, 450, seed=0)

    def never(*arguments):
        raise AssertionError("the row space is not needed")

    monkeypatch.setattr(row_space, "reduce", never)
    norm = np.linalg.norm(problem.X, 2)
    assert math.isclose(rs.critical_step(problem, rs.FullBatch()), 2 * 500 / norm**2, rel_tol=1e-12)


@for_all("small", [0, 1000])
@for_all("shape", [(1, 1), (1, 50), (50, 1), (60, 50)])
def test_nothing_is_nothing(monkeypatch, small, shape):
    monkeypatch.setattr(critical_steps, "_SMALL", min(small, 1000) or (0 if min(shape) > 1 else 1))
    assert largest_eigenvalue(np.zeros(shape), np.ones(shape[0]), 1.0) == 0.0


def test_an_iteration_that_does_not_end_is_replaced(monkeypatch):
    monkeypatch.setattr(critical_steps, "_SMALL", 0)
    X, weights = MATRICES["gaussian"], np.ones(70)
    expected = largest_eigenvalue(X, weights, 1.0)

    def never(*arguments, **options):
        raise critical_steps.ArpackNoConvergence("none", np.zeros(0), np.zeros((0, 0)))

    monkeypatch.setattr(critical_steps, "eigsh", never)
    assert math.isclose(largest_eigenvalue(X, weights, 1.0), expected, rel_tol=1e-12)
