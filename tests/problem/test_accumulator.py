"""Rows that come in pieces and are not kept: the same answers as from memory."""

from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.problem import row_space
from tests.looped import for_all

CLOSE = {"rtol": 1e-10, "atol": 1e-10}
WHEN = [0, 1, 7, 300]


class Data:
    """Rows with a batch for each, in memory and to be added."""

    def __init__(self, n, p, batches, *, seed=0, outputs=None, rank=None, weights=False, scale=1.0):
        rng = np.random.default_rng(seed)
        self.batches = batches
        self.labels = rng.permutation(
            np.concatenate([np.arange(batches), rng.integers(batches, size=n - batches)])
        )
        mixed = rng.standard_normal((n, rank or p)) @ rng.standard_normal((rank or p, p))
        self.X = scale * (rng.standard_normal((n, p)) if rank is None else mixed)
        shape = (p,) if outputs is None else (p, outputs)
        self.truth = {"beta_star": rng.standard_normal(shape) / scale, "noise": 0.5}
        self.y = self.X @ self.truth["beta_star"] + 0.5 * rng.standard_normal((n, *shape[1:]))
        self.weights = rng.uniform(0.5, 2.0, n) if weights else None
        self.step = 0.3 * batches / np.linalg.norm(self.X, 2) ** 2

    @property
    def in_memory(self):
        return rs.LeastSquares(self.X, self.y, sample_weight=self.weights, **self.truth)

    @property
    def members(self):
        return [np.flatnonzero(self.labels == batch) for batch in range(self.batches)]

    def add_to(self, data, rows):
        weights = None if self.weights is None else self.weights[rows]
        return data.add(self.X[rows], self.y[rows], self.labels[rows], sample_weight=weights)

    def accumulated(self, pieces=1):
        data = rs.Accumulator(batches=self.batches)
        for rows in np.array_split(np.arange(len(self.X)), pieces):
            self.add_to(data, rows)
        return data


def answers(run):
    when = WHEN if run.recipe.has_limit else WHEN[:3]
    yield run.iterate(when)
    yield run.training_loss(when)
    yield run.degrees_of_freedom(when)
    yield run.risk(when).total
    yield run.risk(when).variance
    yield run.expected_risk(when[:3]).total
    yield run.expected_risk(when[:3], given_responses=True).total
    yield run.covariance(3).matrix
    if run.recipe.has_limit:
        limit = run.limit()
        yield limit.parameters
        yield limit.training_loss
        yield run.stability().rate
        yield run.mallows_cp(WHEN)
        yield run.compare_limit().distance


def same_answers(kept, in_memory):
    for found, expected in zip(answers(kept), answers(in_memory), strict=True):
        np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    shape=st.sampled_from([(60, 4), (9, 5), (8, 12), (40, 20), (5, 1), (700, 3)]),
    rank=st.sampled_from([None, 2]),
    weights=st.booleans(),
    waits=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_any_cuts_orders_merges_and_files_give_the_answers_from_memory(
    shape, rank, weights, waits, seed, tmp_path_factory
):
    (n, p), rng = shape, np.random.default_rng(seed)
    data = Data(n, p, min(3, n), seed=seed, rank=rank if rank and rank < min(n, p) else None, weights=weights)
    file = tmp_path_factory.mktemp("factors") / "some.npz"
    order, cuts = rng.permutation(n), np.sort(rng.integers(0, n + 1, size=rng.integers(0, 8)))
    workers = [rs.Accumulator(batches=data.batches) for _ in range(3)]
    # Few rows are taken in at a time, so that small data are taken in many times; unless they wait for others.
    few = {} if waits else {"_FEW_ROWS": 1, "_MANY_ROWS": 16}
    with ExitStack() as stack:
        for name, value in few.items():
            stack.enter_context(patch.object(row_space, name, value))
        for rows in np.split(order, cuts):
            place = rng.integers(3)
            if len(rows):
                data.add_to(workers[place], rows)
            if rng.random() < 0.3:
                workers[place].save(file)
                workers[place] = rs.Accumulator.load(file)
        whole = workers[0].merge(workers[1]).merge(workers[2])

    assert whole.counts.tolist() == [len(rows) for rows in data.members]
    np.testing.assert_allclose(whole.coef(), _least_squares(data), **CLOSE)
    kept = rs.descend(whole.problem(**data.truth), rs.RandomReshuffling(batches=data.batches), data.step)
    same_answers(kept, rs.descend(data.in_memory, rs.RandomReshuffling(batches=data.members), data.step))


def _least_squares(data):
    roots = 1 if data.weights is None else np.sqrt(data.weights)
    return np.linalg.lstsq((data.X.T * roots).T, (data.y.T * roots).T, rcond=None)[0]


SCHEMES = {
    "full batch": lambda batches: rs.FullBatch(),
    "cyclic": lambda batches: rs.Cyclic(batches=batches, order=[2, 0, 1]),
    "shuffled once": rs.ShuffleOnce,
    "drawn": rs.WithReplacement,
    "reshuffled": rs.RandomReshuffling,
    "alike": lambda batches: rs.RandomReshuffling(batches=batches, normalize="equal"),
    "stages": lambda batches: rs.Stages(
        [(4, rs.RandomReshuffling(batches=batches)), (None, rs.Cyclic(batches=batches))]
    ),
}


RECIPES = [
    {"momentum": 0.5},
    {"penalty": 0.3, "unpenalized": [0]},
    {"step": lambda epoch: 0.01 * 0.9**epoch},
    {"average": rs.EMA(0.8, per="visit")},
]


@for_all(
    "name, recipe, outputs",
    [
        *((name, {}, None) for name in SCHEMES),
        *(("reshuffled", recipe, None) for recipe in RECIPES),
        ("reshuffled", {}, 7),
    ],
)
def test_every_scheme_and_recipe_is_followed_on_what_was_kept(name, recipe, outputs):
    data = Data(80, 6, 3, seed=1, outputs=outputs)
    recipe, batches = {"step": data.step, **recipe}, 3 if name == "full batch" else data.members
    kept = rs.descend(data.accumulated(5).problem(**data.truth), SCHEMES[name](batches=3), **recipe)
    same_answers(kept, rs.descend(data.in_memory, SCHEMES[name](batches=batches), **recipe))


@for_all("scale", [1e-150, 1e-60, 1e60, 1e150])
def test_very_small_and_very_large_features(scale):
    data = Data(700, 3, 2, seed=5, scale=scale)
    ordinary = Data(700, 3, 2, seed=5)
    np.testing.assert_allclose(data.accumulated(3).coef() * scale, ordinary.accumulated().coef(), rtol=1e-10)
    kept = rs.descend(data.accumulated(3).problem(), rs.RandomReshuffling(batches=2), data.step).iterate(9)
    whole = rs.descend(
        ordinary.in_memory, rs.RandomReshuffling(batches=ordinary.members), ordinary.step
    ).iterate(9)
    np.testing.assert_allclose(kept * scale, whole, rtol=1e-10)


def test_pieces_of_very_different_size_share_a_unit():
    X = np.concatenate([np.full((600, 1), 1e-140), np.full((600, 1), 1e140), np.full((600, 1), 1.0)])
    y = np.concatenate([np.full(600, 1e-160), np.full(600, 1e160), np.full(600, 1.0)])
    for order in ([0, 1, 2], [1, 2, 0], [2, 0, 1]):
        data = rs.Accumulator()
        for piece in order:
            rows = slice(600 * piece, 600 * piece + 600)
            data.add(X[rows], y[rows])
        assert data.coef() == pytest.approx([1e20], rel=1e-12)


def test_ill_conditioned_rows_keep_the_digits_that_normal_equations_lose():
    rng = np.random.default_rng(6)
    left, _ = np.linalg.qr(rng.standard_normal((2000, 6)))
    right, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    X = left * np.geomspace(1, 1e-8, 6) @ right
    truth = rng.standard_normal(6)
    data = rs.Accumulator()
    for rows in np.array_split(np.arange(2000), 17):
        data.add(X[rows], X[rows] @ truth)
    with np.errstate(all="ignore"):
        squared = np.linalg.pinv(X.T @ X) @ (X.T @ (X @ truth))
    assert np.abs(data.coef() - truth).max() < 1e-6
    assert np.abs(squared - truth).max() > 1e-3


def test_merging_leaves_the_other_as_it_was_even_where_it_is_itself():
    data = Data(40, 3, 2, seed=8)
    whole, other = data.accumulated(), data.accumulated()
    doubled = whole.merge(other).merge(whole)
    assert (other.n, doubled.n) == (40, 160)
    np.testing.assert_allclose(doubled.coef(), other.coef(), **CLOSE)
    assert rs.Accumulator(batches=2).merge(rs.Accumulator(batches=2)).n == 0


def filled(batches=2, **kwargs):
    rows = np.arange(6.0).reshape(3, 2)
    return rs.Accumulator(batches=batches).add(rows, np.arange(3.0), np.arange(3) % batches, **kwargs)


@for_all(
    "wrong, message",
    [
        (lambda: rs.Accumulator(batches=0), "batches must be a whole number of at least 1"),
        (lambda: filled().add(np.ones((1, 3)), [1.0], 0), "X must have 2 columns, as the rows before"),
        (lambda: filled().add(np.ones((1, 2)), [[1.0]], 0), "y must be a vector, as before"),
        (lambda: filled().add(np.ones((2, 2)), [1.0], 0), r"y must have shape \(2,\)"),
        (lambda: filled().add(np.ones((1, 2)), [1.0]), "batch must be given, a whole number between 0 and 1"),
        (lambda: filled().add(np.ones((1, 2)), [1.0], -1), "batch must be a whole number between 0 and 1"),
        (lambda: filled().add(np.ones((2, 2)), [1.0, 1.0], [0, 2]), r"but batch\[1\] is 2"),
        (lambda: filled().add(np.ones((2, 2)), [1.0, 1.0], [0]), r"one per row, of shape \(2,\)"),
        (lambda: filled().add(np.ones((2, 2)), [1.0, 1.0], [0.0, 1.0]), "its dtype float64"),
        (lambda: filled().add([[1.0, np.nan]], [1.0], 0), r"X\[0, 1\] is nan"),
        (lambda: filled().add(np.zeros((0, 2)), [], 0), "at least one row"),
        (lambda: filled().add(np.ones((1, 2)), [1.0], 0, sample_weight=[1.0]), "for all rows or for none"),
        (lambda: filled(sample_weight=[1, 0, 1]), "sample_weight must be positive"),
        (lambda: filled().merge(filled(3)), "other must have 2 batches as this one, but it has 3"),
        (lambda: filled().merge(rs.Accumulator(batches=2).add([[1.0]], [1.0], 0)), "X must have 2 columns"),
        (lambda: filled().merge(filled(sample_weight=np.ones(3))), "sample_weight must be given for all rows"),
        (lambda: rs.Accumulator().problem(), "none were added"),
        (lambda: rs.Accumulator().coef(), "none were added"),
        (lambda: rs.Accumulator(batches=4).add([[1.0]], [1.0], 2).problem(), "batch 0 of 4 has none"),
        (lambda: rs.descend(filled().problem(), rs.RandomReshuffling(batches=3), 0.1), "batches must be 2"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()


def test_nothing_is_taken_of_what_is_refused():
    data = rs.Accumulator()
    with pytest.raises(ValueError, match="positive"):
        data.add([[1.0]], [1.0], sample_weight=[0.0])
    assert repr(data) == "Accumulator(batches=1, empty)"
    with pytest.raises(TypeError, match="other must be an Accumulator"):
        data.merge([1])


_REFUSALS = r"one by one|batches that were filled|must ask for batches=2|rows were"


@for_all(
    "ask",
    [
        lambda problem: rs.descend(problem, rs.SampleReshuffling(batches=2), 0.1),
        lambda problem: rs.descend(problem, rs.RandomReshuffling(batch_size=2), 0.1),
        lambda problem: rs.descend(problem, rs.RandomReshuffling([[0, 2], [1]]), 0.1),
        lambda problem: rs.descend(problem, rs.RandomReshuffling(batches=2), 0.1).leave_one_out(3),
        lambda problem: rs.descend(problem, rs.RandomReshuffling(batches=2), 0.1).cross_validate(3),
        lambda problem: rs.descend(problem, rs.RandomReshuffling(batches=2), 0.1).epoch.modified_features,
        lambda problem: rs.descend(
            problem, rs.SampleWithReplacement(batch_size=2), 0.1, momentum=0.5
        ).iterate(3),
        lambda problem: rs.descend(problem, rs.SampleWithReplacement(batch_size=2), 0.1).covariance(3),
        lambda problem: rs.simulate(problem, rs.RandomReshuffling(batches=2), 0.1, epochs=3, runs=2),
        lambda problem: rs.match(rs.descend(problem, rs.RandomReshuffling(batches=2), 0.1), batch_size=1),
        lambda problem: problem.X,
        lambda problem: problem.leverages,
        lambda problem: problem.of_rows(np.array([0])),
    ],
)
def test_what_needs_single_rows_says_so(ask):
    problem = Data(50, 2, 2, seed=9).accumulated().problem(np.zeros(2), noise=1.0)
    with pytest.raises(rs.UnsupportedError, match=_REFUSALS):
        ask(problem)


def test_files_that_are_truncated_or_of_others_are_refused(tmp_path):
    whole = tmp_path / "factors"
    filled().save(whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["factors"]
    assert rs.Accumulator.load(whole).n == 3
    rs.Accumulator(batches=5).save(tmp_path / "empty")
    assert repr(rs.Accumulator.load(tmp_path / "empty")) == "Accumulator(batches=5, empty)"

    stored = whole.read_bytes()
    for length in (0, 1, 100, len(stored) // 2, len(stored) - 1):
        (tmp_path / "part").write_bytes(stored[:length])
        with pytest.raises(ValueError, match="a whole file"):
            rs.Accumulator.load(tmp_path / "part")
    flipped = bytearray(stored)
    flipped[stored.index(np.arange(6.0)[2:3].tobytes())] ^= 1
    (tmp_path / "flipped").write_bytes(bytes(flipped))
    with pytest.raises(ValueError, match="a whole file"):
        rs.Accumulator.load(tmp_path / "flipped")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    np.save(tmp_path / "array.npy", np.ones(3))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    for other in ("other.npz", "array.npy", "objects.npy"):
        with pytest.raises(ValueError, match="a whole file"):
            rs.Accumulator.load(tmp_path / other)
    with pytest.raises(FileNotFoundError):
        rs.Accumulator.load(tmp_path / "nowhere")


@for_all(
    "name, value",
    [
        ("format", np.array("reshuffle accumulator 0")),
        ("counts", np.array([1, 0])),
        ("offsets", np.array([0, 1, 2])),
        ("X", np.full((3, 2), np.nan)),
        ("y", np.ones(2)),
        ("sizes", np.ones(3)),
        ("batches", np.array("two")),
    ],
)
def test_files_whose_arrays_do_not_fit_are_refused(tmp_path, name, value):
    filled().save(tmp_path / "whole.npz")
    with np.load(tmp_path / "whole.npz") as file:
        stored = dict(file)
    np.savez(tmp_path / "wrong.npz", **{**stored, name: value})
    with pytest.raises(ValueError, match="a whole file"):
        rs.Accumulator.load(tmp_path / "wrong.npz")


def test_other_questions_about_what_was_kept():
    data = Data(90, 5, 3, seed=3)
    kept, whole, visits = data.accumulated().problem(**data.truth), data.in_memory, rs.RandomReshuffling
    steps = (
        rs.critical_step(kept, visits(batches=3), mean_square=False),
        rs.critical_step(whole, visits(batches=data.members), mean_square=False),
    )
    assert steps[0] == pytest.approx(steps[1], rel=1e-8)
    assert rs.critical_step(kept, rs.FullBatch()) == pytest.approx(rs.critical_step(whole, rs.FullBatch()))
    flows = rs.gradient_flow(kept).risk([1.0, 9.0]).total, rs.gradient_flow(whole).risk([1.0, 9.0]).total
    np.testing.assert_allclose(*flows, **CLOSE)
    runs = (
        rs.descend(kept, visits(batches=3), data.step),
        rs.descend(whole, visits(batches=data.members), data.step),
    )
    assert runs[0].best_epoch().epoch == runs[1].best_epoch().epoch
    assert runs[0].ridge_equivalent(5).penalty == pytest.approx(runs[1].ridge_equivalent(5).penalty)
    drawn = [
        rs.descend(each, rs.SampleWithReplacement(batch_size=9), data.step).iterate(3)
        for each in (kept, whole)
    ]
    np.testing.assert_allclose(*drawn, **CLOSE)


def test_printing():
    assert repr(rs.Accumulator(batches=3)) == "Accumulator(batches=3, empty)"
    data = rs.Accumulator(batches=9).add(
        np.ones((9, 2)), np.ones((9, 1)), np.arange(9), sample_weight=np.ones(9)
    )
    assert repr(data) == (
        "Accumulator(batches=9, n=9, p=2, outputs=1, weighted, counts=[1, 1, 1, 1, 1, 1, 1, 1, ...])"
    )
    assert repr(data.problem()) == "LeastSquares(n=9, p=2, outputs=1, weighted, truth unknown)"
