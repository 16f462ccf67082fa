"""Shuffled samples that are read in chunks: the mean is that of the samples in memory."""

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.problem import sources
from tests.looped import for_all

WHEN = [1, 5, 200]


@pytest.fixture
def streaming(monkeypatch):
    monkeypatch.setattr(sources, "IN_MEMORY", 0.0)
    monkeypatch.setattr("reshuffle.problem.sources.CHUNK", 1200)


def both(folder, n=900, p=4, *, outputs=None, weights=None, rank=None, seed=0):
    """The same data on disk and in memory; the first rows are larger, and one is far larger, than the others."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.linspace(1, 2, p)
    if rank is not None:
        X = X[:, :rank] @ rng.standard_normal((rank, p))
    X[: n // 3] *= 1.5
    X[-1] *= 4
    shape = (p,) if outputs is None else (p, outputs)
    truth = {"beta_star": rng.standard_normal(shape), "noise": 0.5}
    y = X @ truth["beta_star"] + rng.standard_normal((n, *shape[1:]))
    np.save(folder / "X.npy", X)
    given = {"sample_weight": weights, **truth}
    return rs.LeastSquares(folder / "X.npy", y, **given), rs.LeastSquares(X, y, **given)


def answers(run):
    yield run.iterate(WHEN)
    yield run.training_loss(WHEN)
    yield run.degrees_of_freedom(WHEN)
    yield run.risk(WHEN).total
    yield run.limit().parameters
    yield run.stability().rate
    yield run.with_step(0.4 * run.step).iterate(WHEN)


def same_answers(streamed, in_memory, scheme, step, rtol=1e-5, **recipe):
    found = rs.descend(streamed, scheme, step, **recipe)
    expected = rs.descend(in_memory, scheme, step, method="cavity", **recipe)
    assert found.method == "cavity"
    for here, there in zip(answers(found), answers(expected), strict=True):
        np.testing.assert_allclose(here, there, rtol=rtol, atol=rtol * np.abs(there).max())


@pytest.mark.parametrize(
    ("scheme", "recipe"),
    [
        (rs.SampleReshuffling(batch_size=50), {}),
        (rs.SampleReshuffling(batch_size=70), {}),
        (rs.SampleReshuffling(batch_size=70, normalize="equal"), {}),
        (rs.SampleReshuffling(batch_size=70, drop_last=True), {}),
        (rs.SampleReshuffling(batches=5), {"average": rs.TailAverage(0)}),
    ],
)
def test_the_mean_is_that_of_the_samples_in_memory(tmp_path, streaming, scheme, recipe):
    same_answers(*both(tmp_path), scheme, 0.05, **recipe)


def test_weights_outputs_and_a_row_space_that_is_not_everything(tmp_path, streaming):
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 900)
    same_answers(
        *both(tmp_path, outputs=2, weights=weights, rank=2), rs.SampleReshuffling(batch_size=60), 0.01
    )


def test_fewer_samples_than_stand_for_them(tmp_path, streaming):
    same_answers(*both(tmp_path, n=11, p=4), rs.SampleReshuffling(batches=5), 0.0005)


def test_the_exact_mean_of_a_few_batches_is_within_the_error(tmp_path, streaming):
    streamed, in_memory = both(tmp_path, n=200, p=3)
    for batches in (2, 3, 4):
        found = rs.descend(streamed, rs.SampleReshuffling(batches=batches), 0.1)
        exact = rs.descend(in_memory, rs.SampleReshuffling(batches=batches), 0.1, method="exact")
        off = np.linalg.norm(found.iterate(WHEN) - exact.iterate(WHEN), axis=1)
        assert (off <= found.iterate_error(WHEN) + 1e-12).all()
        assert (off < 1e-4).all()


def test_one_pass_per_round_and_nothing_per_sample(tmp_path, streaming):
    streamed, _ = both(tmp_path)
    run = rs.descend(streamed, rs.SampleReshuffling(batch_size=50), 0.05)
    run.iterate(3)
    passes = streamed.stream.passes
    assert 4 <= passes <= 12
    run.risk(WHEN)
    run.limit()
    run.stability()
    assert streamed.stream.passes == passes
    assert len(run._modes.epoch.blocks.rows) <= 3 * streamed.p + 1
    assert repr(run.computation.mean).startswith(
        f"the mean over orders (rows read {passes} times so far): cavity"
    )


def test_all_samples_in_one_batch_are_the_full_batch(tmp_path, streaming):
    streamed, in_memory = both(tmp_path)
    found = rs.descend(streamed, rs.SampleReshuffling(batches=1), 0.1)
    assert found.method == "exact"
    np.testing.assert_allclose(found.iterate(WHEN), rs.descend(in_memory, rs.FullBatch(), 0.1).iterate(WHEN))


@for_all(
    "ask, message",
    [
        (lambda run: run.expected_risk(3), "needs the rows one by one"),
        (lambda run: run.covariance(3), "needs the rows one by one"),
        (lambda run: run.epoch.modifier(0), "needs the rows one by one"),
        (lambda run: run.leave_one_out(3, of_run=True), "needs the rows one by one"),
        (lambda run: run.leave_one_out(0), "needs the rows one by one"),
        (
            lambda run: rs.descend(run.problem, run.scheme, 0.1, method="sampling").iterate(3),
            "method must be",
        ),
        (lambda run: run.with_step(100.0).iterate(3), "no solution at so large a step; try a smaller step"),
    ],
)
def test_what_needs_the_samples_themselves_says_so(tmp_path, streaming, ask, message):
    streamed, _ = both(tmp_path)
    with pytest.raises(rs.UnsupportedError, match=message):
        ask(rs.descend(streamed, rs.SampleReshuffling(batch_size=50), 0.05))


@pytest.mark.parametrize(
    "recipe",
    [
        {"momentum": 0.5},
        {"momentum": 0.8, "nesterov": True, "penalty": 0.05},
        {"penalty": 0.1, "average": rs.EMA(0.9)},
    ],
)
@pytest.mark.parametrize("outputs", [None, 2])
def test_momentum_and_a_penalty_within_the_error(tmp_path, streaming, recipe, outputs):
    """From two passes: steps as if samples were drawn independently; what that neglects is the error."""
    streamed, in_memory = both(tmp_path, outputs=outputs)
    scheme, step = rs.SampleReshuffling(batch_size=50), 0.05 * (1 - recipe.get("momentum", 0.0))
    found = rs.descend(streamed, scheme, step, rtol=0.1, **recipe)
    expected = rs.descend(in_memory, scheme, step, **recipe)
    assert found.method == "cavity"
    off = np.linalg.norm(found.iterate(WHEN) - expected.iterate(WHEN), axis=1)
    error = found.iterate_error(WHEN)
    assert np.all(off <= error)
    assert np.all(error < 0.1 * np.linalg.norm(found.iterate(WHEN), axis=1))
    loss = np.abs(found.training_loss(WHEN) - expected.training_loss(WHEN))
    assert np.all(loss <= found.training_loss_error(WHEN))
    assert streamed.stream.passes == 2
    np.testing.assert_allclose(
        rs.descend(streamed, rs.SampleWithReplacement(batch_size=50), step, **recipe).iterate(WHEN),
        rs.descend(in_memory, rs.SampleWithReplacement(batch_size=50), step, **recipe).iterate(WHEN),
        rtol=1e-9,
    )


def test_a_step_whose_shuffling_is_not_known_is_refused(tmp_path, streaming):
    run = rs.descend(both(tmp_path)[0], rs.SampleReshuffling(batch_size=5), 0.3, momentum=0.5)
    with pytest.raises(rs.UnsupportedError, match="smaller step, or RandomReshuffling"):
        run.iterate(3)
    with pytest.warns(rs.AccuracyWarning, match="relative error of 0.1"):
        run.with_step(0.01).iterate(3)


@pytest.mark.parametrize("mean_square", [False, True])
@pytest.mark.parametrize("dealt", [256, 10])
def test_the_critical_step_of_samples_dealt_into_batches(
    tmp_path, streaming, monkeypatch, mean_square, dealt
):
    """One pass deals the rows, or some of them, into batches; the answer in memory is within both errors."""
    monkeypatch.setattr("reshuffle.run.critical_steps._DEALT", dealt)
    streamed, in_memory = both(tmp_path)
    scheme = rs.SampleReshuffling(batch_size=30)
    found, expected = (
        rs.critical_step(problem, scheme, mean_square=mean_square) for problem in (streamed, in_memory)
    )
    assert abs(found - expected) <= found.error + expected.error
    assert found.error < 0.4 * found
    assert found.error_kind == "estimate"
    assert streamed.stream.passes == 1
