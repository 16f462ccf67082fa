"""Every scheme with any recipe beside the enumeration of all sequences of orders."""

from itertools import permutations

import numpy as np
from hypothesis import strategies as st

import reshuffle as rs
from tests.oracles import every_order
from tests.problems import case, close

RECIPES = {
    "plain": {},
    "penalty": {"penalty": 0.3},
    "momentum": {"momentum": 0.6},
    "schedule": {"step": [0.1, 0.02]},
    "everything": {"step": lambda epoch: 0.1 / (1 + epoch), "penalty": 0.2, "momentum": 0.5},
}

SHAPES = [(6, 3, 3, True), (4, 6, 2, False), (4, 3, 2, True), (5, 5, 3, False)]
"""Rows, parameters, batches, and whether these are equal."""


@st.composite
def tiny_runs(draw, steps):
    """A case of any shape with one of the steps, and a recipe for it."""
    n, p = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    rank = max(1, min(n, p) - 1) if draw(st.booleans()) else None
    tiny = case(
        n, p, min(draw(st.integers(1, 3)), n),
        seed=draw(st.integers(0, 10**6)), step=draw(st.sampled_from(steps)), equal=False, rank=rank,
    )  # fmt: skip
    recipe = {"penalty": draw(st.sampled_from([0.0, 0.3])), "momentum": draw(st.sampled_from([0.0, 0.7]))}
    return tiny, recipe


def epochs_of_shuffled_samples(n, sizes):
    """All ways to cut the rows into batches of these sizes, one after the other."""
    ends = np.cumsum(sizes)
    starts = ends - sizes
    orders = permutations(range(n))
    return [
        [(list(order[a:b]), b - a) for a, b in zip(starts, ends, strict=True)] for order in map(list, orders)
    ]


def schemes(tiny):
    """Each scheme, the equally likely epochs it has, and whether every epoch draws anew."""
    parts, n = tiny.partition, tiny.problem.n
    lengths = [len(rows) for rows in parts]
    sizes = [2] * (n // 2) + [1] * (n % 2)
    last_first = [int(batch) for batch in np.roll(np.arange(len(parts)), 1)]
    reshuffled = every_order.epochs_reshuffled(parts, lengths)
    yield rs.RandomReshuffling(batches=parts), reshuffled, True
    yield rs.Cyclic(batches=parts), [every_order.batches_in(range(len(parts)), parts, lengths)], True
    yield (
        rs.Cyclic(batches=parts, order=last_first),
        [every_order.batches_in(last_first, parts, lengths)],
        True,
    )
    yield rs.WithReplacement(batches=parts), every_order.epochs_with_replacement(parts, lengths), True
    yield rs.ShuffleOnce(batches=parts), reshuffled, False
    yield (
        rs.ShuffleOnce(batches=parts, order=last_first),
        [every_order.batches_in(last_first, parts, lengths)],
        True,
    )
    if n <= 4:
        yield rs.SampleReshuffling(batch_size=2), epochs_of_shuffled_samples(n, sizes), True
        drawn = every_order.epochs_of_drawn_samples(n, sizes)
        yield rs.SampleWithReplacement(batch_size=2), drawn, True


def trained(tiny, recipe, count):
    """What the oracle trains for so many epochs; the recipe may bring a step, a list or a function of its own."""
    recipe = dict(recipe)
    step = recipe.pop("step", tiny.step)
    steps = [step(k) if callable(step) else step[k] if isinstance(step, list) else step for k in range(count)]
    return every_order.Training(tiny.problem.X, tiny.problem.y, steps, tiny.start, **recipe)


def check(tiny, scheme, epochs, fresh, recipe, count):
    """Iterate, risk and expected risk after so many epochs, to 1e-12."""
    arguments = {"step": tiny.step, **recipe}
    return agree(tiny, scheme, epochs, fresh, trained(tiny, recipe, count).steps, **arguments)


def agree(tiny, scheme, epochs, fresh, steps, step, **recipe):
    """Iterate, risk and expected risk after as many epochs as there are `steps`, to 1e-12.

    `steps` are those of the oracle, per epoch a number or one for each visit; `step` is the argument of `descend`.
    """
    problem, count = tiny.problem, len(steps)
    training = every_order.Training(problem.X, problem.y, steps, tiny.start, **recipe)
    runs = every_order.all_runs(training, epochs, fresh)
    made = rs.descend(problem, scheme, step, start=tiny.start, **recipe)
    close(made.iterate(count), every_order.mean_iterate(training, runs))
    total, mean = every_order.expected_risk(training, runs, problem.beta_star, tiny.covariance, problem.noise)
    close(made.risk(count).total, mean)
    found = made.expected_risk(count)
    close([found.total, found.mean, found.spread], [total, mean, total - mean])
    total, mean = every_order.expected_risk_given(training, runs, problem.beta_star, tiny.covariance)
    found = made.expected_risk(count, given_responses=True)
    close([found.total, found.mean, found.spread], [total, mean, total - mean])
    return made


def state_maps(training, epochs):
    """A (2p, 2p) of every epoch, which multiplies the parameters and the momentum buffer."""
    p = training.X.shape[1]
    identity = np.eye(2 * p)
    beta, buffer = identity[:p], identity[p:]
    maps = []
    for visits in epochs:
        ends = every_order.advance_homogeneous(training, training.steps[0], visits, beta, buffer)
        maps.append(np.vstack(ends))
    return maps
