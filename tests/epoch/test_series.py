"""The series in coincidences: its terms against closed forms, its bound against the truth."""

import math
from itertools import permutations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.epoch.averaging import base, low_degrees, series
from tests.epoch.many import descents, pull_of, share_of_error, whitened
from tests.problems import case, close

LOOSE = {"rtol": 1e9}


@pytest.mark.parametrize("shape", [(1,), (2,), (3,), (4,)])
def test_homogeneous_sums_are_divided_differences_of_the_exponential(shape):
    """exp[0, -x_1, ..., -x_j] by its definition, in fifty digits, nodes far apart and nearly equal."""
    mpmath.mp.dps = 50
    coefficients = series.batch_coefficients()
    for nodes in ([0.3, 1.1, 2.0, 4.5], [0.5, 0.5 + 1e-9, 0.5 - 1e-9, 0.7], [1e-6, 2e-6, 11.0, 5.0]):
        rates = nodes[: shape[0]]
        points = [mpmath.mpf(0)] + [-mpmath.mpf(rate) for rate in rates]
        expected = sum(
            mpmath.exp(point) / mpmath.fprod(point - other for other in points if other != point)
            for point in points
        )
        arrays = [np.array([rate]) for rate in rates]
        computed = series._homogeneous_sum(coefficients[len(rates) :], *arrays)
        assert float(computed[0]) == pytest.approx(float(expected), rel=1e-11)


def test_one_parameter_is_a_closed_form():
    """For p = 1 all visits commute: Abar = prod (1 - w_b), and the series is exp(-S) (1 - sum w_b^2 / 2)."""
    problem = case(7, 1, 1).problem
    run, exact = descents(problem, rs.RandomReshuffling(7), 0.02, "series", **LOOSE)
    visits = 0.02 * problem.X[:, 0] ** 2
    assert exact.epoch.matrix[0, 0] == pytest.approx(np.prod(1 - visits), rel=1e-13)
    kept = math.exp(-visits.sum()) * (1 - np.sum(visits**2) / 2)
    assert run.epoch.matrix[0, 0] == pytest.approx(kept, rel=1e-13)


@pytest.mark.slow
@given(
    st.integers(5, 10), st.integers(1, 12), st.integers(2, 6), st.booleans(),
    st.sampled_from([1e-6, 1e-3, 0.01, 0.03]),
)  # fmt: skip
def test_the_bound_covers_what_is_left_out(n, p, batches, equal, step):
    tiny = case(n, p, min(n, batches), equal=equal, step=step, seed=n * p)
    run, exact = descents(tiny.problem, tiny.scheme("reshuffling"), step, "series", **LOOSE)
    if math.isinf(run.epoch.error):
        return
    assert share_of_error(run, exact) <= run.epoch.error + 1e-12
    in_pull = np.linalg.norm(pull_of(run) - pull_of(exact))
    assert in_pull <= run.epoch.mean.pull_error / tiny.problem.row_space.scale + 1e-14


@pytest.mark.parametrize("propagator", [0.0, 0.7])
def test_the_bound_counts_what_is_not_kept(propagator):
    """exp(u z + l(z)) / (1 - w z) less what is kept, against its Taylor coefficients in thirty digits."""
    mpmath.mp.dps = 30
    norms = [0.3, 0.1, 0.25]
    left_out = series._left_out(np.array(norms), propagator, 9)
    pairs = sum(norm**2 for norm in norms) / 2
    for atom, own in enumerate(norms):

        def everything(z, own=own):
            coincidences = mpmath.fprod(mpmath.exp(-norm * z) / (1 - norm * z) for norm in norms)
            kept = 1 + own * z + pairs * z**2
            return mpmath.exp(propagator * z) * (coincidences / (1 - own * z) - kept)

        expected = [float(value) for value in mpmath.taylor(everything, 0, 8)]
        np.testing.assert_allclose(left_out[:, atom], expected, atol=1e-13)


def test_shuffled_samples_have_no_contracting_propagator():
    problem = rs.gaussian(60, 4, seed=0)
    rows = whitened(problem, [[row] for row in range(60)], 1e-3)
    coefficients = series.sample_coefficients(np.ones(20), 60)
    careful, careless = (series.error(rows, coefficients, contracts=contracts) for contracts in (False, True))
    assert careful.share > 1.01 * careless.share
    scheme = rs.SampleReshuffling(20)
    run = rs.descend(problem, scheme, 3e-3, method="series")
    step = 3e-3 * problem.row_space.scale**2
    approximation = base.task(scheme, 60, run.epoch.blocks, step).approximation
    assert not approximation.contracts
    bound = series.error(approximation.whitened(), approximation.coefficients(), contracts=False)
    assert bound.share <= run.epoch.error <= 1.2 * bound.share


def test_the_bound_is_not_far_from_the_truth():
    problem = rs.gaussian(240, 12, seed=1)
    run, exact = descents(problem, rs.RandomReshuffling(12), 0.01, "series", **LOOSE)
    assert share_of_error(run, exact) <= run.epoch.error <= 30 * share_of_error(run, exact)


def test_what_is_left_out_is_of_third_degree():
    """Degrees one and two of the map are complete, so halving the step leaves an eighth of the error."""
    problem = case(12, 5, 1).problem
    errors = []
    for step in (0.008, 0.004, 0.002):
        run, exact = descents(problem, rs.RandomReshuffling(6), step, "series", **LOOSE)
        errors.append(np.linalg.norm(run.epoch.matrix - exact.epoch.matrix))
    assert errors[0] / errors[1] == pytest.approx(8, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(8, rel=0.05)


def test_many_batches_leave_less_and_less_out():
    """At a fixed alpha the error falls like the square of the number of batches."""
    problem = rs.gaussian(4000, 3, seed=0)
    schemes = [rs.RandomReshuffling(batches) for batches in (50, 200, 800)]
    errors = [
        rs.descend(problem, scheme, alpha=0.3, method="series", **LOOSE).epoch.error for scheme in schemes
    ]
    assert errors[0] / errors[1] > 6
    assert errors[1] / errors[2] > 3


def test_ten_thousand_batches():
    """With p = 1, where the truth is a product."""
    problem = rs.gaussian(10_000, 1, noise=0.5, seed=0)
    run = rs.descend(problem, rs.RandomReshuffling(10_000), alpha=0.5)
    truth = float(np.prod(1 - 0.5 / 10_000 * problem.X[:, 0] ** 2))
    assert run.epoch.method == "series"
    assert abs(run.epoch.matrix[0, 0] - truth) <= run.epoch.error * (1 - truth)
    assert run.epoch.error < 1e-5


def test_the_modifier_and_the_modified_features_agree():
    problem = case(12, 5, 1).problem
    run, exact = descents(problem, rs.RandomReshuffling(6), 0.01, "series", **LOOSE)
    for batch in range(6):
        rows = [2 * batch, 2 * batch + 1]
        close(problem.X[rows] @ run.epoch.modifier(batch), run.epoch.modified_features[rows])
        assert np.linalg.norm(run.epoch.modifier(batch) - exact.epoch.modifier(batch)) < 0.02


def test_the_modified_features_of_compressed_batches():
    problem = case(60, 3, 1).problem
    run, exact = descents(problem, rs.RandomReshuffling(5), 0.002, "series", **LOOSE)
    assert len(run.epoch.blocks.rows) == 5 * 4
    close(run.epoch.modified_features.T @ problem.X / 60, run.epoch.Z, 1e-11)
    close(run.epoch.modified_features, exact.epoch.modified_features, 1e-4)


def test_step_zero_and_steps_too_large():
    problem = case(8, 3, 1).problem
    run = rs.descend(problem, rs.RandomReshuffling(4), 0.0, method="series")
    close(run.iterate([0, 5]), np.zeros((2, 3)))
    assert run.epoch.error == 0
    wild = rs.descend(problem, rs.RandomReshuffling(4), 1.0, method="series")
    with pytest.warns(UserWarning, match=r"relative error of inf by series, but rtol is 0.005"):
        assert wild.epoch.error == math.inf
    assert wild.iterate_error([0, 1, 5]).tolist() == [0, math.inf, math.inf]
    assert wild.risk([0, 1]).error.tolist() == [0, math.inf]


def test_low_degrees_are_sums_over_distinct_words():
    """Against a loop over all words, for ragged batches and for single samples."""
    problem = case(7, 4, 1).problem
    for partition in ([[0, 3, 5], [1], [2, 6], [4]], [[row] for row in range(7)]):
        rows = whitened(problem, partition, 0.1)
        words = [rows.of_atom(atom).T @ rows.of_atom(atom) * rows.paces for atom in range(rows.atoms)]
        degrees = [low_degrees.degree_one, low_degrees.degree_two]
        if rows.atoms == 7:
            degrees.append(low_degrees.degree_three_of_samples)
        for length, degree in enumerate(degrees, start=1):
            computed = degree(rows)
            for atom in range(rows.atoms):
                others = [other for other in range(rows.atoms) if other != atom]
                total = np.zeros((4, 4))
                for word in permutations(others, length):
                    product = np.eye(4)
                    for letter in word:
                        product = product @ words[letter]
                    total += product
                place = slice(rows.offsets[atom], rows.offsets[atom + 1])
                close(computed[place], rows.of_atom(atom) @ total.T)


def test_the_low_degrees_of_the_series_are_the_exact_ones():
    """Up to the first degree of the pull nothing is left out: compare Taylor coefficients at small steps."""
    problem = case(10, 4, 1).problem
    rows = whitened(problem, np.split(np.arange(10), 5), 1e-5)
    coefficients = series.batch_coefficients()
    exact = low_degrees.up_to_two(rows, coefficients)
    assert np.abs(series.pull(rows, coefficients).T - exact).max() < 10 * np.square(rows.norms.sum())


@given(st.integers(1, 30), st.integers(0, 20))
def test_sample_coefficients_are_those_of_drawing_without_replacement(batches, more):
    n = batches + more
    expected = [math.comb(batches, i) / math.perm(n, i) * (n / batches) ** i for i in range(batches + 1)]
    np.testing.assert_allclose(series.sample_coefficients(np.ones(batches), n), expected, rtol=1e-12)
