"""Why a fit is not least squares, against affine maps over listed orders and real training."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.errors import UnsupportedError
from tests.looped import for_all
from tests.oracles.every_order import Design, Enumeration, epochs_reshuffled
from tests.problems import Case
from tests.training import train

PROBLEM = rs.gaussian(12, 3, noise=1.0, seed=8)
X, Y = PROBLEM.X, PROBLEM.y
START = np.array([0.5, 0.0, -1.0])
OLS = np.linalg.lstsq(X, Y, rcond=None)[0]
PARTS = np.split(np.arange(12), 3)
SHUFFLED = rs.RandomReshuffling(batches=3)
WILD = rs.descend(PROBLEM, SHUFFLED, 3.0)
PAIR = rs.descend(rs.LeastSquares(X, np.column_stack([Y, 2 * Y])), SHUFFLED, 0.1)


def listed_map(step, penalty=0.0):
    """The mean of one epoch over all orders of three batches, beta -> A beta + g."""
    design = Design(12, rs.FullBatch(), [epochs_reshuffled(PARTS)])
    A, G = Enumeration(Case(PROBLEM, None, step, START, None), design, {"penalty": penalty}).state_maps
    return A.mean(axis=0)[:3, :3], G.mean(axis=0)[:3] @ np.concatenate([[1.0], Y])


def after(A, g, epochs):
    beta = START
    for _ in range(epochs):
        beta = A @ beta + g
    return beta


def share(part, whole):
    return (X @ part) @ (X @ whole) / ((X @ whole) @ (X @ whole))


def trained(epochs, batches, step, seed, data):
    """Real training on contiguous batches in a fresh random order."""
    rng, parts = np.random.default_rng(seed), np.split(np.arange(data.n), batches)
    visited = [parts[batch] for _ in range(epochs) for batch in rng.permutation(batches)]
    return train(data.X, data.y, visited, rate=step)


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_the_parts_are_those_of_listed_orders(penalty):
    step, epochs, coef = 0.1, 3, np.array([0.2, -0.1, 0.4])
    run = rs.descend(PROBLEM, SHUFFLED, step, start=START, penalty=penalty)
    found = rs.explain(X, Y, coef, run, epochs=epochs)
    A, g = listed_map(step, penalty)
    here, end = after(A, g, epochs), np.linalg.solve(np.eye(3) - A, g)
    ridge = np.linalg.solve(X.T @ X / 12 + penalty * np.eye(3), X.T @ Y / 12)
    expected = {"unconverged": here - end, "batching": end - ridge, "noise": coef - here}
    if penalty:
        expected["penalty"] = ridge - OLS
    assert {part.name for part in found.parts} == set(expected)
    for name, vector in expected.items():
        part = found[name]
        np.testing.assert_allclose(part.vector, vector, rtol=1e-9, atol=1e-12)
        assert part.share == pytest.approx(share(vector, coef - OLS), rel=1e-8, abs=1e-11)
        assert part.size == pytest.approx(np.linalg.norm(X @ vector) / math.sqrt(12), rel=1e-9)
    np.testing.assert_allclose(found.difference, coef - OLS, rtol=1e-10)
    assert found.size == pytest.approx(np.linalg.norm(X @ (coef - OLS)) / math.sqrt(12), rel=1e-10)


@given(
    coef=st.lists(st.floats(-3, 3), min_size=3, max_size=3),
    epochs=st.sampled_from([0, 1, 10, 1000, math.inf]),
    momentum=st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=25, deadline=None)
def test_shares_add_up_to_the_whole(coef, epochs, momentum):
    run = rs.descend(PROBLEM, SHUFFLED, 0.1, start=START, momentum=momentum)
    found = rs.explain(X, Y, coef, run, epochs=epochs)
    assert sum(part.share for part in found.parts) == pytest.approx(1.0, abs=1e-8)
    np.testing.assert_allclose(sum(part.vector for part in found.parts), found.difference, atol=1e-10)
    np.testing.assert_allclose(found.products.sum(axis=1), [part.share for part in found.parts], atol=1e-8)
    if found.modes:
        of_modes = sum(mode.share for mode in found.modes)
        assert of_modes == pytest.approx(found["unconverged"].share, abs=1e-8)


def test_modes_are_those_of_the_listed_map():
    run = rs.descend(PROBLEM, SHUFFLED, 0.1, start=START)
    found = rs.explain(X, Y, np.zeros(3), run, epochs=5)
    A, g = listed_map(0.1)
    rates, vectors = np.linalg.eigh(A)
    left = after(A, g, 5) - np.linalg.solve(np.eye(3) - A, g)
    for mode, rate, vector in zip(found.modes, rates[::-1], vectors.T[::-1], strict=True):
        assert mode.rate == pytest.approx(rate, rel=1e-10)
        assert mode.left == pytest.approx(rate**5, rel=1e-9)
        epochs = next(k for k in range(10_000) if rate**k <= 0.01)
        assert mode.epochs_left == max(epochs - 5, 0)
        assert mode.share == pytest.approx(share(vector * (vector @ left), -OLS), rel=1e-7, abs=1e-12)
    assert len(str(found.table()).splitlines()) == 4


@pytest.mark.slow
def test_real_runs_are_plausible_and_their_probabilities_uniform():
    data = rs.gaussian(40, 4, noise=1.0, seed=2)
    run = rs.descend(data, rs.RandomReshuffling(batches=8), 0.2)
    fits = np.array([trained(4, 8, 0.2, seed, data) for seed in range(300)])
    distances = np.linalg.norm((fits - run.iterate(4)) @ data.X.T, axis=1) / math.sqrt(40)
    first = rs.explain(data.X, data.y, fits[0], run, epochs=4).spread
    assert first.distance == pytest.approx(distances[0], rel=1e-9)
    chances = np.array([rs.explain(data.X, data.y, fit, run, epochs=4).spread.probability for fit in fits])
    assert abs(chances.mean() - 0.5) < 4 / math.sqrt(12 * len(fits))
    assert (chances < 0.01).sum() <= 3 + 4 * math.sqrt(3)
    ratios = (first.deviations * distances / first.distance) ** 2
    assert ratios.mean() == pytest.approx(1.0, abs=4 * ratios.std() / math.sqrt(300))
    other = rs.explain(data.X, data.y, trained(4, 1, 0.2, 0, data), run, epochs=4)
    assert not other.is_plausible
    assert "trained differently" in repr(other)


def test_the_chi_square_is_that_of_the_eigenvalues():
    run = rs.descend(PROBLEM, SHUFFLED, 0.2)
    coef = run.iterate(4) + np.array([0.01, 0.02, -0.03])
    test = rs.explain(X, Y, coef, run, epochs=4).spread
    values = np.linalg.eigvalsh(X @ run.covariance(4).matrix @ X.T / 12)
    distance = np.linalg.norm(X @ [0.01, 0.02, -0.03]) / math.sqrt(12)
    assert test.distance == pytest.approx(distance, rel=1e-8)
    assert float(test.expected.value) == pytest.approx(math.sqrt(values.sum()), rel=1e-8)
    assert test.chi_square == pytest.approx(distance**2 * values.sum() / (values**2).sum(), rel=1e-8)
    assert test.degrees_of_freedom == pytest.approx(values.sum() ** 2 / (values**2).sum(), rel=1e-8)


@for_all("spread", [1e-3, 0.1, 1.0])
def test_the_probability_is_that_of_normal_runs(spread):
    """Against draws of sum l_i z_i^2, from near the mean to far out."""
    data = rs.LeastSquares(X * np.array([1.0, spread, spread]), Y)
    run = rs.descend(data, rs.RandomReshuffling(batches=3), 0.2)
    values = np.linalg.eigvalsh(data.X @ run.covariance(4).matrix @ data.X.T / 12)[-3:]
    drawn = np.square(np.random.default_rng(0).standard_normal((400_000, 3))) @ values
    direction = np.array([1.0, 0.5, -1.0])
    unit = np.linalg.norm(data.X @ direction) / math.sqrt(12)
    for size in (0.3, 0.999, 1.0, 1.001, 2.0, 4.0, 8.0):
        far = math.sqrt(size * values.sum())
        told = rs.explain(data.X, Y, run.iterate(4) + far / unit * direction, run, epochs=4)
        found = told.spread
        shown = f"{found.probability:.0%}" if found.probability >= 0.01 else f"{found.probability:.2g}"
        assert f"; {shown} of such runs have more" in repr(told)
        chance = (drawn > found.distance**2).mean()
        assert found.probability == pytest.approx(chance, rel=0.06, abs=4 * math.sqrt(chance / 400_000))


@for_all("size", [0.5, 1.0, 2.0, 3.0])
def test_a_drawn_spread_is_as_uncertain_as_it_says(size):
    """In one column the squared distance over its estimated mean has the distribution F."""
    data = rs.gaussian(60, 1, noise=1.0, seed=0)
    run = rs.descend(data, rs.SampleReshuffling(batch_size=6), 0.1, momentum=0.5)
    usual = rs.explain(data.X, data.y, run.iterate(3), run, epochs=3).spread.expected
    off = float(usual.error / usual.value) / 2.6
    assert 0.01 < off < 0.2
    far = size * float(usual.value) * math.sqrt(60) / np.linalg.norm(data.X)
    found = rs.explain(data.X, data.y, run.iterate(3) + far, run, epochs=3).spread
    assert found.probability == pytest.approx(scipy.stats.f.sf(size**2, 1, 0.5 / off**2), rel=0.07)


def test_epochs_are_found_if_they_are_not_told():
    run = rs.descend(PROBLEM, rs.RandomReshuffling(batches=3), 0.01, start=START)
    for epochs in (0, 3, 40, 137):
        found = rs.explain(X, Y, run.iterate(epochs), run)
        assert found.epochs == epochs
        assert not found.epochs_were_given
        assert found["noise"].size < 1e-10
    # The limit is reached to rounding after finitely many epochs: any of them explains it.
    ended = rs.explain(X, Y, run.limit().parameters, run)
    assert ended["noise"].size < 1e-10
    assert run.iterate(ended.epochs) == pytest.approx(run.limit().parameters, rel=1e-10)


def test_a_dict_of_arguments_and_an_output_stand_for_a_run():
    recipe = {"scheme": SHUFFLED, "step": 0.1, "start": START}
    here, there = (
        rs.explain(X, Y, np.ones(3), how, epochs=4) for how in (rs.descend(PROBLEM, **recipe), recipe)
    )
    assert [part.share for part in here.parts] == [part.share for part in there.parts]
    alone = rs.explain(X, 2 * Y, np.ones(3), PAIR.output(1), epochs=3)
    assert alone.difference == pytest.approx(np.ones(3) - 2 * OLS)


def test_the_least_squares_solution_needs_no_reasons():
    found = rs.explain(X, Y, OLS, {"scheme": rs.FullBatch(), "step": 0.1}, epochs=10_000)
    assert repr(found) == "the fit is the least-squares solution"
    assert found.is_plausible
    assert found.size == 0
    assert all(part.share == 0 for part in found.parts)


def test_a_run_without_randomness_has_no_noise_to_spare():
    run = rs.descend(PROBLEM, rs.FullBatch(), 0.1)
    exact = rs.explain(X, Y, run.iterate(6), run, epochs=6)
    single = rs.explain(X, Y, run.iterate(6).astype(np.float32), run, epochs=6)
    assert exact.is_plausible
    assert single.is_plausible
    assert exact["batching"].share == pytest.approx(0.0, abs=1e-9)
    off = rs.explain(X, Y, run.iterate(6) + 0.01, run, epochs=6)
    assert not off.is_plausible
    assert off.spread.deviations == math.inf
    assert "not trained this way" in repr(off)


def test_what_no_row_sees_is_told_apart():
    wide = rs.gaussian(4, 6, noise=1.0, seed=3)
    run = rs.descend(wide, rs.RandomReshuffling(batches=2), 0.05, start=np.ones(6))
    unseen = np.linalg.svd(wide.X)[2][-1]
    found = rs.explain(wide.X, wide.y, run.iterate(5) + 3 * unseen, run, epochs=5)
    assert found.unseen == pytest.approx(3.0)
    assert "no row of X sees" in repr(found)
    assert found["noise"].size < 1e-9


def test_a_diverging_run_is_explained_while_it_is_finite():
    assert not WILD.converges
    found = rs.explain(X, Y, WILD.iterate(3), WILD, epochs=3)
    assert not found.converges
    assert "does not converge" in repr(found)
    assert found["unconverged"].share == pytest.approx(1.0)


@for_all(
    "arguments, error, words",
    [
        ({"coef": np.ones(4)}, ValueError, "coef must have shape"),
        ({"coef": [1.0, math.nan, 0.0]}, ValueError, "coef must be finite"),
        ({"recipe": 0.1}, TypeError, "recipe must be a Run, or a dict"),
        ({"X": X + 1}, ValueError, "one on others"),
        ({"y": Y[:5]}, ValueError, "y must have shape"),
        ({"epochs": [1, 2]}, ValueError, "single number"),
        ({"epochs": -1}, ValueError, "epochs must be whole"),
        (
            {"recipe": {"scheme": rs.FullBatch(), "step": [0.1]}, "epochs": 1},
            UnsupportedError,
            "constant step",
        ),
        ({"recipe": WILD, "epochs": math.inf}, ValueError, "grown without bound"),
        (
            {"recipe": PAIR, "y": PAIR.problem.y, "coef": np.ones((3, 2))},
            UnsupportedError,
            r"run\.output\(j\)",
        ),
    ],
)
def test_bad_arguments(arguments, error, words):
    run = rs.descend(PROBLEM, SHUFFLED, 0.1)
    with pytest.raises(error, match=words):
        rs.explain(**{"X": X, "y": Y, "coef": OLS, "recipe": run, **arguments})


def test_weights_of_the_run_are_those_of_the_rows():
    weights = np.linspace(0.5, 2.0, 12)
    run = rs.descend(rs.LeastSquares(X, Y, sample_weight=weights), SHUFFLED, 0.1)
    found = rs.explain(X, Y, np.ones(3), run, epochs=3)
    roots = np.sqrt(weights)
    best = np.linalg.lstsq(X * roots[:, np.newaxis], Y * roots, rcond=None)[0]
    np.testing.assert_allclose(found.difference, np.ones(3) - best, rtol=1e-9)
    assert found.size == pytest.approx(math.sqrt(weights @ np.square(X @ (np.ones(3) - best)) / 12), rel=1e-9)
