"""Shuffled samples against all n! orders, against the simulator, and against what they must agree with."""

import math
from itertools import pairwise, permutations

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.epoch.averaging.lattice import Walk
from tests.oracles import brute_force
from tests.oracles.every_scheme import check
from tests.problems import case, close

CUTS = [
    ({"batches": 1}, [6], [6]),
    ({"batches": 2}, [3, 3], [3, 3]),
    ({"batches": 3}, [2, 2, 2], [2, 2, 2]),
    ({"batches": 4}, [2, 2, 1, 1], [2, 2, 1, 1]),
    ({"batches": 4, "normalize": "equal"}, [2, 2, 1, 1], [1.5] * 4),
    ({"batch_size": 4}, [4, 2], [4, 2]),
    ({"batch_size": 4, "normalize": "equal"}, [4, 2], [3, 3]),
    ({"batch_size": 4, "drop_last": True}, [4], [4]),
    ({"batch_size": 2, "normalize": "equal"}, [2, 2, 2], [2, 2, 2]),
]


@pytest.mark.parametrize(("arguments", "sizes", "divisors"), CUTS)
@pytest.mark.parametrize("p", [4, 9])
def test_up_to_four_batches_equal_the_enumeration_of_all_orders(arguments, sizes, divisors, p):
    tiny = case(6, p, 1, step=0.1)
    problem = tiny.problem
    A, N = brute_force.sample_mean_map(problem.X, sizes, divisors, tiny.step)
    run = rs.descend(problem, rs.SampleReshuffling(**arguments), tiny.step, start=tiny.start)
    close(run.epoch.matrix, A)
    close(len(sizes) * tiny.step / problem.n * run.epoch.modified_features.T, N)
    assert run.epoch.method == "exact"
    assert run.epoch.error == 0
    for sample in (0, 5):
        close(run.epoch.modifier(sample) @ problem.X[sample], run.epoch.modified_features[sample])


def test_seven_samples_in_batches_of_two_with_and_without_the_last():
    tiny = case(7, 3, 1, step=0.1)
    for drop_last, sizes in ((False, [2, 2, 2, 1]), (True, [2, 2, 2])):
        A, N = brute_force.sample_mean_map(tiny.problem.X, sizes, sizes, tiny.step)
        run = rs.descend(tiny.problem, rs.SampleReshuffling(batch_size=2, drop_last=drop_last), tiny.step)
        close(run.epoch.matrix, A)
        close(len(sizes) * tiny.step / 7 * run.epoch.modified_features.T, N)


def test_five_batches_and_more_are_within_their_error():
    tiny = case(7, 3, 1, step=0.02)
    for sizes in ([2, 2, 1, 1, 1], [1] * 7):
        A, N = brute_force.sample_mean_map(tiny.problem.X, sizes, sizes, tiny.step)
        for method in ("cavity", "sampling"):
            run = rs.descend(
                tiny.problem,
                rs.SampleReshuffling(batches=len(sizes)),
                tiny.step,
                method=method,
                rtol=1e-15,
                budget=1e7,
            )
            epoch = run.epoch
            with pytest.warns(UserWarning, match=rf"relative error of .* by {method}, but rtol is 1e-15"):
                assert epoch.method == method
            H, true_H = np.eye(3) - epoch.matrix, np.eye(3) - A
            rates, true_rates = np.linalg.eigvalsh(H), np.linalg.eigvalsh(true_H)
            assert np.abs(rates / true_rates - 1).max() <= epoch.error < 0.3
            close(epoch.matrix, epoch.matrix.T)
            expected = A @ run.iterate(0) + N @ tiny.problem.y
            assert np.linalg.norm(run.iterate(1) - expected) <= run.iterate_error(1)


def test_batches_of_one_sample_are_random_reshuffling_of_single_rows():
    problem = case(4, 3, 1).problem
    shuffled = rs.descend(problem, rs.SampleReshuffling(batches=4), 0.1)
    close(shuffled.epoch.Z, rs.descend(problem, rs.RandomReshuffling(batches=4), 0.1).epoch.Z)


def test_one_batch_is_full_batch():
    problem = case(9, 4, 1).problem
    close(rs.descend(problem, rs.SampleReshuffling(batches=1), 0.1).epoch.Z, problem.X.T @ problem.X / 9)


@pytest.mark.parametrize(
    "arguments", [{"batches": 3}, {"batch_size": 4}, {"batch_size": 4, "drop_last": True}]
)
def test_the_simulator_shuffles_samples(arguments):
    middle = case(14, 5, 1, step=0.08)
    scheme, epochs = rs.SampleReshuffling(**arguments), [1, 3, 12]
    result = rs.simulate(
        middle.problem, scheme, step=middle.step, epochs=epochs, runs=4000, start=middle.start
    )
    exact = rs.descend(middle.problem, scheme, middle.step, start=middle.start).iterate(epochs)
    assert (np.abs(result.iterate.mean - exact) <= 4 * result.iterate.standard_error).all()


def test_the_simulator_shares_noise_in_pairs_of_shuffled_samples():
    middle = case(14, 20, 1, step=0.05, noise=1.0)
    scheme, epochs = rs.SampleReshuffling(batch_size=5), [1, 5, 20]
    result = rs.simulate(
        middle.problem,
        scheme,
        step=middle.step,
        epochs=epochs,
        runs=6000,
        start=middle.start,
        fresh_noise=True,
    )
    exact = rs.descend(middle.problem, scheme, middle.step, start=middle.start).risk(epochs).total
    estimate = result.risk
    assert (np.abs(estimate.mean - exact) <= 4 * estimate.standard_error).all()


def test_the_critical_step_is_where_the_rate_is_one():
    problem = case(12, 4, 1).problem
    scheme = rs.SampleReshuffling(batches=3)
    critical = rs.critical_step(problem, scheme, mean_square=False)
    assert rs.descend(problem, scheme, 0.999 * critical).stability().converges
    assert not rs.descend(problem, scheme, 1.001 * critical).stability().converges


def test_samples_that_are_dropped_in_turn_are_all_learned_from():
    problem = case(7, 20, 1, step=0.05).problem
    run = rs.descend(problem, rs.SampleReshuffling(batch_size=3, drop_last=True), 0.05)
    assert run.frozen.dimension == 20 - 7
    np.testing.assert_allclose(problem.X @ run.iterate(math.inf), problem.y)


def test_batches_of_shuffled_samples_have_no_members():
    with pytest.raises(
        ValueError, match=r"batches must be a whole number .* list of index arrays; try RandomR"
    ):
        rs.SampleReshuffling([[0, 1], [2]])


def test_too_many_batches_for_the_exact_mean():
    problem = rs.gaussian(20, 3, seed=0)
    with pytest.raises(rs.BudgetError, match=r"batches is 5, but .* at most 4; .*method=\"auto\""):
        rs.descend(problem, rs.SampleReshuffling(batches=5), 0.01, method="exact").risk(1)


@pytest.mark.parametrize(
    "recipe", [{}, {"momentum": 0.5}, {"penalty": 0.3}, {"momentum": 0.4, "penalty": 0.2}], ids=repr
)
@pytest.mark.parametrize(("arguments", "sizes", "divisors"), CUTS[1:])
def test_few_samples_are_followed_through_all_cuts(arguments, sizes, divisors, recipe):
    ends = np.cumsum([0, *sizes])
    orders = [[sorted(order[low:high]) for low, high in pairwise(ends)] for order in permutations(range(6))]
    # Orders within a batch do not matter: each cut once.
    cuts = {str(cut): cut for cut in orders}.values()
    epochs = [list(zip(cut, divisors, strict=True)) for cut in cuts]
    run = check(case(6, 3, 1, step=0.2), rs.SampleReshuffling(**arguments), epochs, True, recipe, 2)
    assert run.expected_risk(2).error == 0


def test_more_ways_than_a_number_can_hold_are_not_enumerated():
    problem = rs.gaussian(2000, 2, noise=0.5, seed=0)
    for batches in (2, 200):
        scheme = rs.SampleReshuffling(batches=batches)
        assert Walk(scheme, 2000).visits == math.inf
        assert rs.descend(problem, scheme, 0.01, momentum=0.5).method == "cavity"
    assert Walk(rs.SampleReshuffling(batches=2), 4).visits == 6 + 6
