"""Schemes that change with the epoch, against the enumeration of all sequences of orders."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from tests.oracles import every_order
from tests.oracles.every_scheme import epochs_of_shuffled_samples
from tests.problems import case, close

RECIPES = {
    "plain": {},
    "penalty": {"penalty": 0.3},
    "momentum": {"momentum": 0.6},
    "both": {"momentum": 0.5, "nesterov": True, "penalty": 0.2},
    "unpenalized": {"momentum": 0.4, "penalty": 0.3, "unpenalized": (0,)},
}


def cut(n, batches, kept=None):
    """Batches in the order of the rows, and what divides their gradients."""
    parts = [part.tolist() for part in np.array_split(np.arange(n), batches)][:kept]
    return parts, [len(part) for part in parts]


def reshuffled(n, batches):
    return rs.RandomReshuffling(batches=batches), every_order.epochs_reshuffled(*cut(n, batches))


def cyclic(n, batches):
    return rs.Cyclic(batches=batches), [every_order.batches_in(range(batches), *cut(n, batches))]


def replaced(n, batches):
    return rs.WithReplacement(batches=batches), every_order.epochs_with_replacement(*cut(n, batches))


def scattered(n, batches):
    """Batches whose rows are not in the order of the problem."""
    parts = [list(range(n))[::-1][start::batches] for start in range(batches)]
    return rs.RandomReshuffling(batches=parts), every_order.epochs_reshuffled(
        parts, [len(part) for part in parts]
    )


def shuffled_samples(n, batches):
    sizes = [len(part) for part in cut(n, batches)[0]]
    return rs.SampleReshuffling(batches=batches), epochs_of_shuffled_samples(n, sizes)


def drawn_samples(n, batches):
    size = n // batches
    return rs.SampleWithReplacement(batch_size=size), every_order.epochs_of_drawn_samples(n, [size] * batches)


PAIRS = {
    "two then three": ((2, reshuffled, 2), (1, reshuffled, 3)),
    "three then two": ((1, reshuffled, 3), (2, reshuffled, 2)),
    "a fixed order": ((2, cyclic, 3), (1, cyclic, 2), (1, cyclic, 1)),
    "any order of rows": ((1, scattered, 3), (1, reshuffled, 2), (1, scattered, 2)),
    "with replacement": ((1, cyclic, 3), (1, replaced, 2), (1, scattered, 3)),
}


def stages_of(n, pairs, forever=True):
    """The scheme, and for each of its epochs the equally likely visits."""
    made = [(length, *kind(n, batches)) for length, kind, batches in pairs]
    scheme = [(length, scheme) for length, scheme, _ in made]
    if forever:
        scheme[-1] = (None, scheme[-1][1])
    return rs.Stages(scheme), [epochs for length, _, epochs in made for _ in range(length)]


def agree(tiny, scheme, epochs, steps, step, **recipe):
    """All finite answers after every epoch, to 1e-12."""
    problem = tiny.problem
    run = rs.descend(problem, scheme, step, start=tiny.start, **recipe)
    for count in range(1, len(epochs) + 1):
        training = every_order.Training(problem.X, problem.y, steps[:count], tiny.start, **recipe)
        runs = every_order.runs_through(training, epochs[:count])
        beta = every_order.mean_iterate(training, runs)
        close(run.iterate(count), beta)
        close(run.predict(np.eye(problem.p), count), beta)
        close(run.training_loss(count), np.square(problem.y - problem.X @ beta).sum() / (2 * problem.n))
        settings = problem.beta_star, tiny.covariance
        total, mean = every_order.expected_risk(training, runs, *settings, problem.noise)
        close(run.risk(count).total, mean)
        found = run.expected_risk(count)
        close([found.total, found.spread], [total, total - mean])
        total, mean = every_order.expected_risk_given(training, runs, *settings)
        found = run.expected_risk(count, given_responses=True)
        close([found.total, found.spread], [total, total - mean])
        ends = runs @ np.concatenate([[1.0], problem.y])
        close(run.covariance(count).matrix, np.cov(ends.T, bias=True).reshape(problem.p, problem.p))
    # All at once, in any order, is the same as one by one.
    asked = np.arange(len(epochs) + 1)[::-1]
    close(run.iterate(asked), [run.iterate(count) for count in asked])
    close(run.risk(asked).total, [run.risk(count).total for count in asked])
    close(run.expected_risk(asked).total, [run.expected_risk(count).total for count in asked])
    return run


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("pairs", PAIRS)
def test_every_sequence_of_orders(pairs, recipe):
    for n, p in ((6, 3), (5, 7)):
        tiny = case(n, p, 2, seed=n)
        scheme, epochs = stages_of(n, PAIRS[pairs])
        agree(tiny, scheme, epochs, [0.1] * len(epochs), 0.1, **RECIPES[recipe])


@pytest.mark.parametrize("recipe", ["plain", "both"])
def test_samples_that_are_shuffled_or_drawn(recipe):
    tiny = case(4, 3, 2)
    for pairs in (
        ((1, shuffled_samples, 2), (1, cyclic, 3), (1, shuffled_samples, 1)),
        ((1, reshuffled, 2), (1, drawn_samples, 2)),
        ((1, drawn_samples, 2), (1, scattered, 2)),
    ):
        scheme, epochs = stages_of(4, pairs)
        agree(tiny, scheme, epochs, [0.1] * len(epochs), 0.1, **RECIPES[recipe])


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.integers(3, 6), st.integers(1, 6), st.integers(0, 10**6),
    st.lists(st.tuples(st.integers(1, 2), st.sampled_from([cyclic, scattered, reshuffled]), st.integers(1, 3)),
             min_size=1, max_size=3),
    st.sampled_from([0.0, 0.3]), st.sampled_from([0.0, 0.8]),
)  # fmt: skip
def test_any_stages(n, p, seed, pairs, penalty, momentum):
    tiny = case(n, p, 2, seed=seed)
    scheme, epochs = stages_of(n, pairs)
    if math.prod(map(len, epochs)) <= 300:
        agree(tiny, scheme, epochs, [0.07] * len(epochs), 0.07, penalty=penalty, momentum=momentum)


def test_schedules_count_epochs_or_visits_through_the_stages():
    tiny = case(6, 3, 2)
    scheme, epochs = stages_of(6, PAIRS["two then three"])
    by_epoch = [0.1, 0.05, 0.2]
    agree(tiny, scheme, epochs, by_epoch, by_epoch, momentum=0.3, penalty=0.1)
    agree(tiny, scheme, epochs, by_epoch, lambda epoch: by_epoch[epoch], momentum=0.3)
    by_visit = [0.1, 0.02, 0.03, 0.14, 0.05, 0.16, 0.07]
    steps = [by_visit[:2], by_visit[2:4], by_visit[4:]]
    agree(tiny, scheme, epochs, steps, rs.PerVisit(by_visit), momentum=0.3, penalty=0.1)
    agree(tiny, scheme, epochs, steps, rs.PerVisit(lambda visit: by_visit[visit]))


def test_alpha_where_all_stages_have_as_many_steps():
    tiny = case(6, 3, 2)
    scheme, _ = stages_of(6, ((1, reshuffled, 2), (1, scattered, 2)))
    run = rs.descend(tiny.problem, scheme, alpha=0.2)
    close(run.iterate([1, 2]), rs.descend(tiny.problem, scheme, step=0.1).iterate([1, 2]))


def test_rows_that_a_stage_leaves_out():
    tiny, n = case(5, 6, 2), 5
    dropping = rs.Cyclic(batch_size=2, drop_last=True)
    visits = [([0, 1], 2), ([2, 3], 2)]
    whole = cyclic(n, 1)
    for order in ([dropping, whole[0]], [whole[0], dropping]):
        scheme = rs.Stages([(2, order[0]), (None, order[1])])
        epochs = [[visits] if each is dropping else whole[1] for each in (order[0], order[0], order[1])]
        run = agree(tiny, scheme, epochs, [0.1] * 3, 0.1)
        # What the last stage does not see stays as the first has left it.
        close(run.limit().parameters, run.iterate(10**6), 1e-9)
        assert run.limit().converges
    # A batch drawn with replacement from fewer rows than the other stages have.
    some = rs.WithReplacement(batch_size=2, drop_last=True)
    drawn = every_order.epochs_with_replacement([[0, 1], [2, 3]], [2, 2])
    scheme = rs.Stages([(1, some), (None, whole[0])])
    agree(tiny, scheme, [drawn, whole[1]], [0.1] * 2, 0.1)
    ends_with_some = rs.descend(tiny.problem, rs.Stages([(1, whole[0]), (None, some)]), step=0.1)
    with pytest.raises(rs.UnsupportedError, match="last stage leaves out rows"):
        ends_with_some.expected_risk(math.inf)
    assert np.isfinite(ends_with_some.expected_risk(50).total)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_one_stage_is_the_scheme_itself(recipe):
    tiny, asked = case(8, 3, 4, equal=False, seed=3), [0, 1, 7, math.inf]
    for scheme in (
        rs.RandomReshuffling(batches=tiny.partition),
        rs.Cyclic(batches=tiny.partition),
        rs.WithReplacement(batches=4),
        rs.FullBatch(),
    ):
        one, other = (
            rs.descend(tiny.problem, made, step=0.1, start=tiny.start, **RECIPES[recipe])
            for made in (scheme, rs.Stages([(None, scheme)]))
        )
        close(other.iterate(asked), one.iterate(asked), 1e-11)
        close(other.risk(asked).total, one.risk(asked).total, 1e-11)
        close(other.expected_risk(asked).total, one.expected_risk(asked).total, 1e-10)
        close(other.covariance(asked).matrix, one.covariance(asked).matrix, 1e-10)
        close(other.stability().rate, one.stability().rate, 1e-10)
        close(other.best_epoch().risk, one.best_epoch().risk, 1e-10)
        assert other.mean_square_stability().converges == one.mean_square_stability().converges


def test_the_limit_and_stability_are_those_of_the_last_stage():
    tiny = case(12, 4, 3)
    last = rs.RandomReshuffling(batches=3)
    scheme = rs.Stages([(5, rs.RandomReshuffling(batches=6)), (math.inf, last)])
    for recipe in RECIPES.values():
        one, other = (rs.descend(tiny.problem, made, step=0.1, **recipe) for made in (last, scheme))
        close(other.limit().parameters, one.limit().parameters, 1e-10)
        close(other.limit().risk.total, one.limit().risk.total, 1e-10)
        close(other.expected_risk(math.inf).total, one.expected_risk(math.inf).total, 1e-10)
        close(other.stability().rate, one.stability().rate, 1e-10)
        assert other.converges


def test_what_no_row_sees_fades_by_the_visits_of_each_stage():
    tiny = case(4, 6, 2, seed=1)
    scheme, _ = stages_of(4, ((3, cyclic, 4), (2, cyclic, 1)))
    run = rs.descend(tiny.problem, scheme, step=0.1, start=tiny.start, penalty=0.5)
    space = tiny.problem.row_space
    close(space.outside(run.iterate(5)), (1 - 0.05) ** (3 * 4 + 2) * space.outside(tiny.start))
    close(space.outside(run.iterate(math.inf)), 0.0)


def test_a_stage_that_diverges_and_one_that_settles():
    tiny = case(12, 3, 3)
    run = rs.descend(
        tiny.problem, rs.Stages([(4000, rs.Cyclic(batches=12)), (None, rs.FullBatch())]), step=0.9
    )
    assert np.isinf(run.iterate([4000, 4001])).all()
    assert np.isinf(run.risk([4000, 4001]).total).all()
    close(run.iterate(math.inf), np.linalg.lstsq(tiny.problem.X, tiny.problem.y, rcond=None)[0], 1e-10)
    assert run.converges


@pytest.mark.slow
def test_best_epoch_looks_at_all_stages():
    problem = rs.gaussian(40, 20, noise=1.0, seed=2)
    small, large = rs.RandomReshuffling(batches=4), rs.RandomReshuffling(batches=2)
    for lengths in ((30, None), (3, None), (3, 60)):
        scheme = rs.Stages(list(zip(lengths, (small, large), strict=True)))
        run = rs.descend(problem, scheme, step=0.1)
        risks = run.risk(np.arange(64)).total if lengths[1] is not None else run.risk(np.arange(2000)).total
        found = run.best_epoch()
        assert found.epoch == risks.argmin()
        close(found.risk, risks.min())
        assert found.error == 0
    # The first stage settles where the last one ends, but there is something better in between.
    there_and_back = [(3000, rs.FullBatch()), (40, rs.Cyclic(batches=8)), (None, rs.FullBatch())]
    run = rs.descend(problem, rs.Stages(there_and_back), step=0.3, start=problem.beta_star)
    risks = run.risk(np.arange(3400)).total
    assert run.best_epoch().epoch == risks.argmin()


def test_errors_of_stages_that_are_not_exact():
    problem = rs.gaussian(40, 5, noise=0.5, seed=4)
    exact, wild = rs.RandomReshuffling(batches=4), rs.SampleReshuffling(batch_size=5)
    runs = {
        name: rs.descend(problem, rs.Stages([(3, first), (None, second)]), step=0.2, momentum=0.3, **method)
        for name, first, second, method in (
            ("exact", exact, rs.RandomReshuffling(batches=2), {}),
            ("cavity", exact, wild, {"rtol": 0.05}),
            ("first", wild, exact, {"rtol": 0.05}),
            ("sampling", rs.RandomReshuffling(batches=8), wild, {"method": "sampling", "rtol": 0.05}),
        )
    }
    assert [run.method for run in runs.values()] == ["exact", "cavity", "cavity", "sampling"]
    assert runs["exact"].risk(5).error == 0
    # Up to the end of an exact stage there is no error.
    assert runs["cavity"].iterate_error([3, 5])[0] == 0 < runs["cavity"].iterate_error([3, 5])[1]
    for name in ("cavity", "first", "sampling"):
        run = runs[name]
        real = rs.simulate(problem, run.scheme, step=0.2, momentum=0.3, epochs=[5], runs=2000)
        off = np.linalg.norm(run.iterate([5]) - real.iterate.mean)
        assert off <= run.iterate_error(5) + 4 * np.linalg.norm(real.iterate.standard_error)
        found = run.expected_risk(5)
        assert found.error > 0
        assert abs(found.total - found.mean - found.spread) <= 1e-12


def test_simulation_goes_through_the_stages():
    tiny = case(6, 3, 2)
    scheme = rs.Stages([(2, rs.Cyclic(batches=3)), (1, rs.FullBatch()), (None, rs.Cyclic(batches=2))])
    steps = rs.PerVisit(lambda visit: 0.1 / (1 + visit))
    run = rs.descend(tiny.problem, scheme, steps, momentum=0.5, penalty=0.1)
    real = rs.simulate(tiny.problem, scheme, steps, momentum=0.5, penalty=0.1, epochs=[1, 2, 3, 5], runs=4)
    close(real.iterate.mean, run.iterate([1, 2, 3, 5]))
    # An order that is drawn once is drawn where its stage begins, and only simulated.
    kept = rs.Stages([(2, rs.FullBatch()), (None, rs.ShuffleOnce(batches=3))])
    assert np.isfinite(rs.simulate(tiny.problem, kept, step=0.1, epochs=4, runs=10).iterate.mean).all()
    with pytest.raises(rs.UnsupportedError, match=r"simulate\(\.\.\.\)"):
        rs.descend(tiny.problem, kept, step=0.1)


def test_schemes_are_equal_if_their_stages_are():
    one = rs.Stages([(2, rs.Cyclic(batches=3)), (None, rs.FullBatch())])
    assert one == rs.Stages([(2, rs.Cyclic(batches=3)), (math.inf, rs.FullBatch())])
    assert one != rs.Stages([(3, rs.Cyclic(batches=3)), (None, rs.FullBatch())])
    assert hash(one) == hash(rs.Stages(((2.0, rs.Cyclic(batches=3)), (None, rs.FullBatch()))))
    assert repr(rs.Stages([(2, rs.Cyclic(batches=3))])) == "Stages([(2, Cyclic(batches=3))])"


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "stages must be a list of pairs"),
        (None, "stages must be a list of pairs"),
        (rs.Cyclic(batches=2), "stages must be a list of pairs"),
        ([rs.Cyclic(batches=2)], r"stages\[0\] must be a pair"),
        ([(1, rs.Cyclic(batches=2), 3)], r"stages\[0\] must be a pair"),
        ([(0, rs.Cyclic(batches=2))], r"epochs of stages\[0\] must be a whole number of at least 1, but it is 0"),
        ([(-1, rs.Cyclic(batches=2))], "whole number of at least 1"),
        ([(1.5, rs.Cyclic(batches=2))], "whole number of at least 1"),
        ([(math.nan, rs.Cyclic(batches=2))], "whole number of at least 1"),
        ([(-math.inf, rs.Cyclic(batches=2))], "whole number of at least 1"),
        ([("2", rs.Cyclic(batches=2))], "whole number of at least 1"),
        ([(None, rs.Cyclic(batches=2)), (None, rs.Cyclic(batches=2))], r"stages\[0\] must be .* since others"),
        ([(math.inf, rs.Cyclic(batches=2)), (1, rs.Cyclic(batches=2))], r"stages\[0\] must be .* since others"),
        ([(1, rs.Stages([(None, rs.Cyclic(batches=2))]))], "must not have stages itself"),
        ([(1, rs.Stages([(1, rs.Cyclic(batches=2)), (2, rs.Cyclic(batches=2))]))], "must not have stages itself"),
    ],
)  # fmt: skip
def test_bad_stages(stages, message):
    with pytest.raises(ValueError, match=message):
        rs.Stages(stages)


@pytest.mark.parametrize("value", [32, None, rs.Cyclic, "cyclic"])
def test_what_is_no_scheme(value):
    with pytest.raises(TypeError, match=r"scheme of stages\[1\] must be a scheme"):
        rs.Stages([(1, rs.Cyclic(batches=2)), (None, value)])


def test_what_has_no_answer():
    problem = rs.gaussian(6, 2, seed=0)
    uneven = rs.Stages([(2, rs.Cyclic(batches=3)), (None, rs.Cyclic(batches=2))])
    ends = rs.Stages([(2, rs.Cyclic(batches=3)), (3, rs.Cyclic(batches=2))])
    for ask in (rs.descend, lambda *args, **kw: rs.simulate(*args, epochs=1, runs=4, **kw)):
        with pytest.raises(ValueError, match=r"step must be given in place of alpha .* 3, 2"):
            ask(problem, uneven, alpha=0.1)
        with pytest.raises(rs.UnsupportedError, match="average must be None"):
            ask(problem, uneven, step=0.1, average=rs.EMA(0.9))
        with pytest.raises(ValueError, match="batches must"):
            ask(problem, rs.Stages([(1, rs.Cyclic(batches=7)), (None, rs.Cyclic(batches=2))]), step=0.1)
    run = rs.descend(problem, ends, step=0.1)
    for epochs in (6, [1, 7], math.inf):
        for answer in (run.iterate, run.risk, run.expected_risk, run.covariance):
            with pytest.raises(ValueError, match="epochs must be at most 5, where the last stage ends"):
                answer(epochs)
    with pytest.raises(ValueError, match="at most 5"):
        rs.simulate(problem, ends, step=0.1, epochs=6, runs=4)
    for question in (run.limit, run.stability, run.mean_square_stability):
        with pytest.raises(rs.UnsupportedError, match="needs a constant step, without end in the last stage"):
            question()
    scheduled = rs.descend(problem, uneven, step=[0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="at most 3, the length of the step schedule"):
        scheduled.iterate(4)
    by_visits = rs.descend(problem, uneven, step=rs.PerVisit([0.1] * 9))
    assert by_visits.iterate(3).shape == (2,)
    with pytest.raises(ValueError, match=r"at most 3, .* of 9 visits through the stages"):
        by_visits.iterate(4)
    # A schedule that is over before the last stage begins.
    early = rs.descend(problem, uneven, step=[0.1])
    close(early.iterate(1), rs.descend(problem, rs.Cyclic(batches=3), step=0.1).iterate(1))
    with pytest.raises(ValueError, match="step\\(2\\) must be a finite number"):
        rs.descend(problem, uneven, step=lambda epoch: 0.1 - 0.1 * epoch).iterate(3)
    with pytest.raises(ValueError, match='method must be "auto" or "exact" for Cyclic'):
        rs.descend(problem, uneven, step=0.1, method="sampling")
    with pytest.raises(rs.UnsupportedError, match=r"critical step has no answer .* of a single stage"):
        rs.critical_step(problem, uneven, mean_square=False)
    for question in ("epoch", "range_assumption"):
        with pytest.raises(rs.UnsupportedError):
            getattr(rs.descend(problem, uneven, step=0.1), question)
