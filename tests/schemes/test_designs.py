"""Every scheme with any recipe and average beside the enumeration of all sequences of orders, to 1e-12."""

import inspect
from collections import Counter
from dataclasses import replace
from itertools import islice, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle import schemes
from reshuffle.cli.options import SCHEMES
from tests.oracles.every_order import (
    Design,
    Enumeration,
    agree,
    cut,
    drawn_independently,
    drawn_samples,
    drawn_subsets,
    epochs_of_draws,
    epochs_of_shuffled_samples,
    epochs_reshuffled,
    epochs_with_replacement,
    in_order,
    radius,
)
from tests.problems import case
from tests.schemes.test_a_new_scheme import RandomRotation

THREE, TWO = cut(6, 3), cut(6, 2)
RAGGED = [[4, 0], [1, 2, 5], [3]]
ANYWHERE = [[5, 3, 1], [4, 2, 0]]


def single(scheme, n, epochs, **kind):
    return Design(n, scheme, [epochs], **kind)


def cut_by_size(kind, **arguments):
    """Five rows in batches of two, ragged or without the last, divided in both ways."""
    scheme = kind(batch_size=2, **arguments)
    parts = [[0, 1], [2, 3], [4]][: 2 if arguments.get("drop_last") else 3]
    equal = arguments.get("normalize") == "equal"
    divisors = [sum(map(len, parts)) / len(parts)] * 3 if equal else None
    ways = {rs.Cyclic: lambda *cut: [in_order(*cut)], rs.WithReplacement: epochs_with_replacement}
    return single(
        scheme, 5, ways.get(kind, epochs_reshuffled)(parts, divisors), fresh=kind is not rs.ShuffleOnce
    )


def shuffled(n, sizes, divisors=None, rows=1, **cut):
    """Samples, or groups of rows, that are shuffled and cut."""
    scheme = rs.SampleReshuffling(**cut) if rows == 1 else rs.GroupReshuffling(rows, **cut)
    scaled = None if divisors is None else [rows * each for each in divisors]
    return single(scheme, n, epochs_of_shuffled_samples(n, sizes, scaled, rows))


def there_and_back(n, size):
    parts = [list(range(first, min(first + size, n))) for first in range(0, n, size)]
    epochs = [in_order([*order, *order[::-1]]) for order in permutations(parts)]
    return single(rs.PairedReversal(batch_size=size), n, epochs)


def in_stages(n, *stages):
    """Of (length, scheme, equally likely epochs)."""
    scheme = [(length, scheme) for length, scheme, _ in stages[:-1]] + [(None, stages[-1][1])]
    return Design(n, rs.Stages(scheme), [epochs for length, _, epochs in stages for _ in range(length)])


RESHUFFLED_TWO = rs.RandomReshuffling(batches=2), epochs_reshuffled(TWO)
RESHUFFLED_THREE = rs.RandomReshuffling(batches=3), epochs_reshuffled(THREE)
SCATTERED = rs.RandomReshuffling(batches=ANYWHERE), epochs_reshuffled(ANYWHERE)
CYCLIC_THREE = rs.Cyclic(batches=3), [in_order(THREE)]
DROPPING = rs.Cyclic(batch_size=2, drop_last=True), [in_order([[0, 1], [2, 3]])]
WHOLE = rs.Cyclic(batches=1), [in_order([range(5)])]

DESIGNS = {
    "full batch": single(rs.FullBatch(), 5, [in_order([range(5)])]),
    "reshuffled": single(rs.RandomReshuffling(batches=RAGGED), 6, epochs_reshuffled(RAGGED)),
    "four batches": single(rs.RandomReshuffling(batches=4), 6, epochs_reshuffled(cut(6, 4))),
    "cyclic": single(rs.Cyclic(batches=RAGGED), 6, [in_order(RAGGED)]),
    "in another order": single(
        rs.Cyclic(batches=RAGGED, order=[2, 0, 1]), 6, [in_order([RAGGED[b] for b in (2, 0, 1)])]
    ),
    "shuffled once": single(rs.ShuffleOnce(batches=RAGGED), 6, epochs_reshuffled(RAGGED), fresh=False),
    "shuffled once, as given": single(
        rs.ShuffleOnce(batches=RAGGED, order=[2, 0, 1]), 6, [in_order([RAGGED[b] for b in (2, 0, 1)])]
    ),
    "with replacement": single(rs.WithReplacement(batches=RAGGED), 6, epochs_with_replacement(RAGGED)),
    "rotated": single(
        RandomRotation(batches=3), 6, [in_order([THREE[(b + k) % 3] for b in range(3)]) for k in range(3)]
    ),
    "there and back": there_and_back(5, 2),
    "one row there and back": there_and_back(3, 1),
    "one batch of samples": shuffled(4, [4], batches=1),
    "samples in two": shuffled(5, [3, 2], batches=2),
    "samples in three": shuffled(6, [2, 2, 2], batches=3),
    "samples in four": shuffled(6, [2, 2, 1, 1], batches=4),
    "samples in four, equal": shuffled(6, [2, 2, 1, 1], [1.5] * 4, batches=4, normalize="equal"),
    "samples, ragged": shuffled(6, [4, 2], batch_size=4),
    "samples, equal": shuffled(6, [4, 2], [3, 3], batch_size=4, normalize="equal"),
    "samples, dropped": shuffled(5, [2, 2], batch_size=2, drop_last=True),
    "single samples": shuffled(4, [1] * 4, batch_size=1),
    "groups in two": shuffled(8, [2, 2], rows=2, batches=2),
    "groups in three": shuffled(8, [2, 1, 1], rows=2, batches=3),
    "groups, equal": shuffled(8, [3, 1], [2, 2], rows=2, batch_size=3, normalize="equal"),
    "groups, dropped": shuffled(9, [2], rows=3, batch_size=2, drop_last=True),
    "samples drawn": single(
        rs.SampleWithReplacement(batch_size=2), 3, epochs_of_draws(drawn_samples(3, 2), drawn_samples(3, 1))
    ),
    "subsets": single(
        rs.SampleSubsets(batch_size=3), 5, epochs_of_draws(drawn_subsets(5, 3), drawn_subsets(5, 2))
    ),
    "subsets, last of one": single(
        rs.SampleSubsets(batch_size=2), 3, epochs_of_draws(drawn_subsets(3, 2), drawn_subsets(3, 1))
    ),
    "subsets, dropped": single(
        rs.SampleSubsets(batch_size=3, drop_last=True), 5, epochs_of_draws(drawn_subsets(5, 3))
    ),
    "drawn rarely": single(
        rs.PoissonSampling(1 / 3, steps=2), 3, epochs_of_draws(*[drawn_independently(3, 1, "equal")] * 2)
    ),
    "drawn often, own": single(
        rs.PoissonSampling(2 / 3, steps=2, normalize="own"),
        3,
        epochs_of_draws(*[drawn_independently(3, 2, "own")] * 2),
    ),
    "drawn rarely, own": single(
        rs.PoissonSampling(1 / 3, steps=1, normalize="own"),
        4,
        epochs_of_draws(drawn_independently(4, 1, "own")),
    ),
    "weighted": single(
        rs.WeightedSampling([1, 3, 1], batch_size=2),
        3,
        epochs_of_draws(drawn_samples(3, 2, [1, 3, 1]), drawn_samples(3, 1, [1, 3, 1])),
    ),
    "weighted, dropped": single(
        rs.WeightedSampling([1, 1, 2, 1, 1], batch_size=3, drop_last=True),
        5,
        epochs_of_draws(drawn_samples(5, 3, [1, 1, 2, 1, 1])),
    ),
    "clients": single(
        rs.LocalDescent(RAGGED, 3), 6, [3 * in_order([rows]) for rows in RAGGED], averaged=True
    ),
    "two, then three": in_stages(6, (1, *RESHUFFLED_TWO), (1, *RESHUFFLED_THREE)),
    "three, then rows anywhere": in_stages(6, (1, *RESHUFFLED_THREE), (1, *SCATTERED)),
    "in order, then drawn": in_stages(
        6, (1, *CYCLIC_THREE), (1, rs.WithReplacement(batches=2), epochs_with_replacement(TWO))
    ),
    "rows that come later": in_stages(5, (1, *DROPPING), (1, *WHOLE)),
    "rows that are left": in_stages(5, (1, *WHOLE), (1, *DROPPING)),
    "samples, then subsets": in_stages(
        4,
        (1, rs.SampleReshuffling(batches=2), epochs_of_shuffled_samples(4, [2, 2])),
        (1, rs.SampleSubsets(batch_size=2), epochs_of_draws(*[drawn_subsets(4, 2)] * 2)),
    ),
    **{
        f"{kind.__name__}, dropped {dropped}, {divided}": cut_by_size(
            kind, drop_last=dropped, normalize=divided
        )
        for kind in (rs.RandomReshuffling, rs.Cyclic, rs.ShuffleOnce, rs.WithReplacement)
        for dropped, divided in ((False, "own"), (False, "equal"), (True, "own"), (True, "equal"))
    },
}
RECIPES = {
    "plain": {},
    "penalty": {"penalty": 0.3},
    "momentum": {"momentum": 0.6},
    "all": {"momentum": 0.5, "nesterov": True, "penalty": 0.2, "unpenalized": (0,)},
    "schedule": {"step": [0.1, 0.02, 0.05], "momentum": 0.3},
    "function": {"step": lambda epoch: 0.1 / (1 + epoch), "penalty": 0.2, "momentum": 0.5},
    "per visit": {"step": rs.PerVisit(lambda visit: 0.1 / (1 + visit)), "momentum": 0.3, "penalty": 0.1},
}
AVERAGES = [
    None,
    rs.EMA(0.6),
    None,
    rs.EMA(0.7, per="visit"),
    rs.TailAverage(),
    rs.TailAverage(start=1),
    None,
    rs.TailAverage(start=1, per="visit"),
    rs.TailAverage(per="visit"),
]
SHAPES = [{"p": 3}, {"p": 2}, {"p": 7}, {"p": 3, "rank": 2}]


def averaged(design, average):
    """Stages and clients have no averages."""
    return None if design.scheme.has_stages or design.averaged else average


def epochs_of(design):
    """Two, unless these are too many runs."""
    return 2 if len(design.epochs[-1]) <= 90 or len(design.epochs) > 1 else 1


@pytest.mark.parametrize("name", DESIGNS)
def test_every_answer_is_that_of_all_runs(name):
    design, place = DESIGNS[name], list(DESIGNS).index(name)
    for number, recipe in enumerate(RECIPES.values(), 7 * place):
        count, average = epochs_of(design), averaged(design, AVERAGES[number % 9])
        if count == 1 and isinstance(average, rs.TailAverage):
            average = rs.EMA(0.6)
        shape = SHAPES[number % 4]
        tiny = case(design.n, batches=1, step=0.08, seed=design.n + shape["p"], **shape)
        agree(
            Enumeration(tiny, design, recipe, average),
            count,
            rows_left_out=len(design.epochs[-1]) <= 30 and design.scheme.rows_per_unit == 1,
        )


KINDS = {
    "reshuffled": (rs.RandomReshuffling, epochs_reshuffled, True),
    "cyclic": (rs.Cyclic, lambda parts: [in_order(parts)], True),
    "once": (rs.ShuffleOnce, epochs_reshuffled, False),
    "replaced": (rs.WithReplacement, epochs_with_replacement, True),
}


@settings(max_examples=40)
@given(
    shape=st.tuples(st.integers(2, 5), st.integers(1, 6), st.booleans(), st.integers(0, 10**6)),
    kinds=st.lists(st.tuples(st.sampled_from(list(KINDS)), st.integers(1, 3)), min_size=1, max_size=2),
    step=st.sampled_from([0.0, 1e-6, 0.1, 0.4, 1.5]),
    recipe=st.sampled_from([{}, {"penalty": 0.3}, {"momentum": 0.7}, {"momentum": 0.8, "penalty": 0.3}]),
)
def test_any_shape_step_and_stages(shape, kinds, step, recipe):
    n, p, deficient, seed = shape
    tiny = case(n, p, 1, seed=seed, step=step, rank=max(1, min(n, p) - 1) if deficient else None)
    rows, stages = np.random.default_rng(seed).permutation(n), []
    for name, batches in kinds:
        kind, epochs, fresh = KINDS["reshuffled" if len(kinds) > 1 and name == "once" else name]
        parts = [part.tolist() for part in np.array_split(rows, min(batches, n))]
        stages.append((1, kind(batches=parts), epochs(parts)))
    design = in_stages(n, *stages) if len(kinds) > 1 else Design(n, stages[0][1], [stages[0][2]], fresh)
    agree(Enumeration(tiny, design, recipe), 2, rows_left_out=False)


SEARCHED = {
    "five single samples": shuffled(5, [1] * 5, batch_size=1),
    "five single samples, equal": shuffled(5, [1] * 5, [1] * 5, batch_size=1, normalize="equal"),
    "six samples in five": shuffled(6, [2, 1, 1, 1, 1], batches=5),
    "six samples in five, equal": shuffled(6, [2, 1, 1, 1, 1], [1.2] * 5, batches=5, normalize="equal"),
}
"""Samples in more batches than their means are exact for, but not their critical steps."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "p", "recipe"),
    [
        *product(["full batch", "reshuffled", "cyclic", "with replacement", "samples, dropped"], [2],
                 [{}, {"penalty": 0.4}, {"momentum": 0.5}]),
        *product(["rotated", "there and back", "samples in three", "weighted", "samples in four, equal", "subsets",
                  "single samples", "groups in two", "drawn rarely, own", "clients"], [2], [{}]),
        *product(SEARCHED, [1, 2], [{}]),
    ],
)  # fmt: skip
def test_critical_steps_are_the_first_at_which_the_spectral_radius_is_one(name, p, recipe):
    design = {**DESIGNS, **SEARCHED}[name]
    tiny = case(design.n, p, 1, seed=1)
    if name in SEARCHED:
        # A row that dominates, and visits that overshoot long before the mean does.
        X = tiny.problem.X * np.random.default_rng(p).standard_t(2, (design.n, 1))
        tiny = replace(tiny, problem=rs.LeastSquares(X, tiny.problem.y))

    def rate(step, mean_square):
        oracle = Enumeration(tiny, design, {"step": step, **recipe})
        return radius(oracle.squared if mean_square else oracle.state_maps[0].mean(axis=0))

    for mean_square in (False, True)[: 1 if name in SEARCHED and p > 1 else 2]:
        found = rs.critical_step(tiny.problem, design.scheme, mean_square=mean_square, **recipe)
        assert (found.error, found.error_kind) == (0, "exact")
        assert rate(found * (1 - 1e-5), mean_square) < 1 < rate(found * (1 + 1e-5), mean_square)
        assert all(rate(share * found, mean_square) < 1 for share in np.geomspace(0.02, 0.99, 8))


def drawn_epochs(scheme, n, runs, epochs):
    """Rows and divisors of the visits of many runs, a list of (frozenset, divisor) per run and epoch."""
    for visits in islice(scheme.visits(n, np.random.default_rng(1), runs), epochs):
        found = [[] for _ in range(runs)]
        for visit in visits:
            rows = np.broadcast_to(visit.rows, (len(np.arange(runs)[visit.runs]), visit.rows.shape[-1]))
            divisors = np.broadcast_to(visit.divisor, len(rows))
            for run, members, divisor in zip(np.arange(runs)[visit.runs], rows, divisors, strict=True):
                found[run].append((tuple(sorted(members[members >= 0].tolist())), float(divisor)))
        yield found


@pytest.mark.parametrize("name", [name for name, design in DESIGNS.items() if not design.averaged])
def test_what_a_scheme_draws_is_what_was_enumerated(name):
    """Every epoch as often as it is likely, by a chi-square of at most five standard deviations."""
    design, runs = DESIGNS[name], 6000
    found = list(drawn_epochs(design.scheme, design.n, runs, 2))
    if not design.fresh:
        assert found[0] == found[1]
    for drawn, epochs in zip(found, design.during(2), strict=True):
        listed = [tuple((tuple(sorted(rows)), float(by)) for rows, by in epoch if rows) for epoch in epochs]
        likely, counts = Counter(listed), Counter(tuple(v for v in epoch if v[0]) for epoch in drawn)
        assert set(counts) <= set(likely)
        if len(likely) > 500:
            continue
        expected = {epoch: runs * times / len(listed) for epoch, times in likely.items()}
        off = sum((counts[epoch] - each) ** 2 / each for epoch, each in expected.items())
        freedom = len(likely) - 1
        assert off <= freedom + 5 * np.sqrt(2 * freedom)


def test_every_registered_scheme_is_among_them_and_has_a_name_in_the_package():
    known = {type(design.scheme) for design in DESIGNS.values()}
    for name in schemes.__all__:
        scheme = getattr(schemes, name)
        assert getattr(rs, name) is scheme
        if issubclass(scheme, rs.Scheme) and not inspect.isabstract(scheme):
            assert scheme in known
    assert {getattr(schemes, name) for name in SCHEMES.values()} <= known
