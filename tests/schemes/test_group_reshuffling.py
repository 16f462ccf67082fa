"""Groups of rows that are shuffled together: estimates beside all orders and real runs."""

import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all
from tests.oracles.every_order import Design, Enumeration, epochs_of_shuffled_samples
from tests.problems import case


def enumerated(tiny, rows, sizes, step, **recipe):
    epochs = epochs_of_shuffled_samples(tiny.problem.n, sizes, None, rows)
    return Enumeration(tiny, Design(tiny.problem.n, None, [epochs]), {"step": step, **recipe})


@for_all(
    "rows, sizes, method, recipe",
    [
        (2, [2, 2, 1, 1], "auto", {}),
        (4, [2, 2, 1, 1], "auto", {}),
        (4, [2, 2, 2], "sampling", {}),
        (2, [1] * 5, "cavity", {"step": 0.1}),
        (2, [1] * 5, "sampling", {"step": 0.1}),
        (2, [2, 2, 1], "cavity", {"momentum": 0.5, "penalty": 0.2}),
    ],
)
def test_estimates_are_within_their_error(rows, sizes, method, recipe):
    tiny, recipe = case(rows * sum(sizes), 3, 1), {"step": 0.25, **recipe}
    run = rs.descend(
        tiny.problem, rs.GroupReshuffling(rows, batches=len(sizes)), start=tiny.start, method=method, rtol=0.1,
        **recipe,
    )  # fmt: skip
    off = np.linalg.norm(run.iterate(1) - enumerated(tiny, rows, sizes, **recipe).mean(1))
    assert 0 < off <= run.iterate_error(1) < 0.2 * np.linalg.norm(run.iterate(1))


def test_the_cavity_equation_of_three_batches_is_off_by_what_it_says():
    found = []
    for samples in (10, 40):
        problem = rs.gaussian(3 * samples, 5, noise=0.5, seed=2)
        exact, cavity = (
            rs.descend(problem, rs.GroupReshuffling(3, batches=3), alpha=1.0, method=way, rtol=0.1)
            for way in ("exact", "cavity")
        )
        assert np.linalg.norm(cavity.iterate(5) - exact.iterate(5)) <= cavity.iterate_error(5)
        independent = np.linalg.matrix_power(np.eye(5) - problem.X.T @ problem.X / problem.n / 3, 3)
        found.append(np.abs(cavity.epoch.matrix - exact.epoch.matrix).max())
        assert found[-1] < 0.1 * np.abs(independent - exact.epoch.matrix).max()
    # Four times as many samples: about a sixteenth.
    assert found[1] < found[0] / 8


@for_all(
    "rows, sizes, momentum",
    [(2, [2, 2], 0.0), (4, [3], 0.0), (4, [1, 1, 1], 0.0), (4, [1, 1, 1], 0.5), (4, [3], 0.5)],
)
def test_leaving_out_a_sample_leaves_out_all_of_its_rows(rows, sizes, momentum):
    n, chosen = rows * sum(sizes), [5, 4, 0]
    tiny = case(n, 2, 1, step=0.4)
    scheme = rs.GroupReshuffling(rows, batches=len(sizes))
    run = rs.descend(tiny.problem, scheme, 0.4, momentum=momentum, start=tiny.start)
    found = run.leave_one_out([1, 3], rows=chosen)
    oracle = enumerated(tiny, rows, sizes, 0.4, momentum=momentum)
    for place, row in enumerate(chosen):
        members = np.arange(row // rows * rows, row // rows * rows + rows)
        for when, epoch in enumerate((1, 3)):
            want = tiny.problem.y[row] - tiny.problem.X[row] @ oracle.without(members).mean(epoch)
            assert found.residuals[when, place] == pytest.approx(want, abs=1e-11)


def test_too_few_samples_and_many():
    with pytest.raises(ValueError, match="at least 2 samples"):
        rs.descend(rs.gaussian(8, 2), rs.GroupReshuffling(8, batch_size=1), 0.1).leave_one_out(1)
    many = rs.descend(rs.gaussian(60, 2, seed=0), rs.GroupReshuffling(2, batch_size=4), 0.1, method="cavity")
    assert many.leave_one_out(1).method == "cavity"
