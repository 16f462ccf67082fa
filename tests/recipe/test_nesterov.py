"""Nesterov's momentum against the enumeration of orders: everything that follows from a visit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from tests.oracles import every_order
from tests.oracles.every_scheme import agree, schemes, state_maps
from tests.problems import case, close


@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.parametrize(("n", "p", "batches", "equal"), [(6, 3, 3, True), (4, 6, 2, False), (4, 3, 2, True)])
def test_all_schemes(n, p, batches, equal, penalty):
    tiny = case(n, p, batches, equal=equal, step=0.08, seed=n + p)
    for scheme, epochs, fresh in schemes(tiny):
        count = 2 if len(epochs) < 100 else 1
        agree(tiny, scheme, epochs, fresh, [0.08] * count, 0.08, momentum=0.6, nesterov=True, penalty=penalty)


def test_with_a_schedule():
    tiny = case(6, 3, 3, step=0.08)
    for scheme, epochs, fresh in schemes(tiny):
        agree(tiny, scheme, epochs, fresh, [0.1, 0.02], [0.1, 0.02], momentum=0.5, nesterov=True, penalty=0.2)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 5), st.integers(0, 10**6),
    st.sampled_from([0.0, 1e-6, 0.1, 0.4]), st.sampled_from([0.0, 0.3]), st.sampled_from([1e-6, 0.5, 0.95]),
)  # fmt: skip
def test_any_shape(n, p, seed, step, penalty, momentum):
    tiny = case(n, p, min(2, n), seed=seed, step=step, equal=False)
    for scheme, epochs, fresh in schemes(tiny):
        if len(epochs) <= 24:
            agree(
                tiny,
                scheme,
                epochs,
                fresh,
                [step] * 2,
                step,
                momentum=momentum,
                nesterov=True,
                penalty=penalty,
            )


@pytest.mark.parametrize("step", [0.05, 1.5])
@pytest.mark.parametrize(("p", "penalty"), [(3, 0.0), (3, 0.2), (7, 0.2)])
def test_stability_of_mean_and_mean_square(p, penalty, step):
    tiny = case(6, p, 3, step=step)
    training = every_order.Training(
        tiny.problem.X, tiny.problem.y, [step], tiny.start, penalty, momentum=0.5, nesterov=True
    )
    scheme, epochs, _ = next(schemes(tiny))
    maps = state_maps(training, epochs)
    mean, square = np.mean(maps, axis=0), np.mean([np.kron(A, A) for A in maps], axis=0)
    run = rs.descend(tiny.problem, scheme, step, penalty=penalty, momentum=0.5, nesterov=True)
    rate = np.abs(np.linalg.eigvals(mean)).max()
    assert run.stability().rate == pytest.approx(rate, rel=1e-8)
    assert run.stability().converges == (rate < 1)
    rate = np.abs(np.linalg.eigvals(square)).max()
    found = run.mean_square_stability()
    assert found.rate == pytest.approx(rate, rel=1e-6)
    assert found.converges == (rate < 1)


def test_limits_are_where_many_epochs_end():
    tiny = case(6, 3, 3, step=0.1)
    for scheme, epochs, fresh in schemes(tiny):
        run = rs.descend(tiny.problem, scheme, 0.1, momentum=0.5, nesterov=True, penalty=0.1)
        close(run.limit().parameters, run.iterate(400))
        if len(epochs) > 1 and fresh:
            close(run.expected_risk(np.inf).total, run.expected_risk(400).total, 1e-10)


def test_what_is_outside_the_row_space_fades_alike():
    tiny = case(2, 5, 2)
    training = every_order.Training(
        tiny.problem.X, tiny.problem.y, [0.1] * 3, tiny.start, 0.4, momentum=0.7, nesterov=True
    )
    order = [every_order.batches_in([0, 1], tiny.partition, [1, 1])]
    run = rs.descend(
        tiny.problem,
        rs.Cyclic(batches=tiny.partition),
        0.1,
        start=tiny.start,
        penalty=0.4,
        momentum=0.7,
        nesterov=True,
    )
    ends = every_order.mean_iterate(training, every_order.all_runs(training, order))
    outside = tiny.problem.row_space.outside
    close(outside(run.iterate(3)), outside(ends))


def test_drawn_orders_are_the_exact_ones_on_average():
    problem = rs.gaussian(24, 4, noise=0.5, seed=1)
    recipe = {"momentum": 0.6, "nesterov": True, "penalty": 0.1}
    exact = rs.descend(problem, rs.RandomReshuffling(batches=6), 0.1, **recipe)
    drawn = rs.descend(problem, rs.RandomReshuffling(batches=6), 0.1, method="sampling", rtol=1e-3, **recipe)
    when = [1, 3, 20]
    error = drawn.iterate_error(when)
    assert (error > 0).all()
    assert (np.linalg.norm(drawn.iterate(when) - exact.iterate(when), axis=1) <= error).all()
    assert (np.abs(drawn.risk(when).total - exact.risk(when).total) <= drawn.risk(when).error).all()
    # That tells Nesterov's momentum from the other.
    other = rs.descend(problem, rs.RandomReshuffling(batches=6), 0.1, momentum=0.6, penalty=0.1)
    assert (np.linalg.norm(other.iterate(when) - exact.iterate(when), axis=1) > 2 * error).all()


def test_simulated_runs_of_a_fixed_order_are_exact():
    tiny = case(6, 4, 3, step=0.1)
    recipe = {"momentum": 0.6, "nesterov": True, "penalty": 0.1, "start": tiny.start}
    simulated = rs.simulate(
        tiny.problem, rs.Cyclic(batches=tiny.partition), 0.1, epochs=[1, 4], runs=4, **recipe
    )
    close(
        simulated.iterate.mean,
        rs.descend(tiny.problem, rs.Cyclic(batches=tiny.partition), 0.1, **recipe).iterate([1, 4]),
    )


@pytest.mark.slow
def test_the_spread_of_too_many_batches_is_that_of_nesterovs_runs():
    problem = rs.gaussian(40, 3, noise=0.5, seed=2)
    recipe = {"momentum": 0.7, "nesterov": True}
    exact = rs.descend(problem, rs.RandomReshuffling(batches=10), 0.1, **recipe).expected_risk(2)
    few = rs.descend(problem, rs.RandomReshuffling(batches=10), 0.1, method="sampling", rtol=1e-2, **recipe)
    drawn = few.expected_risk(2)
    assert drawn.error > 0
    assert abs(drawn.total - exact.total) <= drawn.error


@pytest.mark.parametrize("mean_square", [False, True])
def test_the_critical_step_of_one_parameter(mean_square):
    """One row x = 1: a visit multiplies parameter and buffer by [[1 - (1 + m) s, -m^2 s], [1, m]]."""
    problem = rs.LeastSquares([[1.0]], [1.0])
    for momentum in (0.3, 0.9):
        found = rs.critical_step(
            problem, rs.FullBatch(), momentum=momentum, nesterov=True, mean_square=mean_square
        )
        # Its trace is 1 + m - (1 + m) s, its determinant m - m s; an eigenvalue is -1 where 1 + both is zero.
        assert found == pytest.approx((2 + 2 * momentum) / (1 + 2 * momentum), rel=1e-8)


def test_it_needs_momentum():
    problem = rs.gaussian(6, 2, seed=0)
    asks = (
        lambda **given: rs.descend(problem, rs.FullBatch(), 0.1, **given),
        lambda **given: rs.simulate(problem, rs.FullBatch(), 0.1, epochs=1, runs=4, **given),
        lambda **given: rs.critical_step(problem, rs.FullBatch(), **given),
    )
    for ask in asks:
        with pytest.raises(
            ValueError, match=r"momentum must be above 0 with nesterov=True, .* but it is 0.0"
        ):
            ask(nesterov=True)
        with pytest.raises(ValueError, match="nesterov must be True or False, but it is 1"):
            ask(nesterov=1, momentum=0.5)
    assert "nesterov=True" in repr(rs.descend(problem, rs.FullBatch(), 0.1, momentum=0.5, nesterov=True))
