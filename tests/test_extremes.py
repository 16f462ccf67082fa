"""The ends of what float64 can hold, and problems in which next to nothing happens: right by exact arithmetic."""

import math

import numpy as np
import pytest

import reshuffle as rs
from tests.fuzz.cases import Case
from tests.fuzz.questions import ask
from tests.looped import for_all, pairwise
from tests.oracles.exact_runs import Scheme

TALL = np.array([[1.0, 0.3], [0.2, 1.0], [0.4, 0.5]])
WIDE = np.array([[1.0, 0.2, 0.4, 0.1], [0.3, 1.0, 0.5, 0.7], [0.1, 0.4, 0.2, 1.0]])
FULL, *SCHEMES = [
    Scheme("FullBatch"),
    *(
        Scheme(name, {"batches": 2})
        for name in ("RandomReshuffling", "WithReplacement", "Cyclic", "ShuffleOnce")
    ),
    Scheme("SampleReshuffling", {"batches": 2}),
    Scheme("SampleWithReplacement", {"batch_size": 2}),
]
SCHEMES = [FULL, *SCHEMES]
RECIPES = [{}, {"momentum": 0.5}, {"penalty": 0.1}, {"momentum": 0.5, "penalty": 0.1}]
EPOCHS = [0, 1, 3, math.inf]
GIVEN = {"given_responses": True}


def about(X, y, scheme, recipe, *questions, beta_star=None, noise=None, sigma=None):
    """Questions, each with its epochs and other options, about a run; what is sampled need not be known well."""
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    known = [
        None if part is None else np.asarray(part, dtype=float).tolist() for part in (beta_star, noise, sigma)
    ]
    recipe = {"start": None, "penalty": 0.0, "momentum": 0.0, "method": "auto", "rtol": 10.0, **recipe}
    for question in questions:
        name, *asked = (question,) if isinstance(question, str) else question
        options = dict(zip(["epochs"], asked[:1], strict=False), **(asked[1] if asked[1:] else {}))
        yield Case(X.tolist(), y.tolist(), *known, scheme, recipe, name, options)


def of_size(X, features=1.0, responses=1.0):
    """A problem of which features and responses are multiples of ordinary ones."""
    n, p = X.shape
    truth = {"beta_star": np.linspace(1.0, 2.0, p) * responses / features, "noise": 0.5 * responses}
    return (features * X, responses * np.cos(np.arange(n))), truth


def in_any_unit():
    sizes = [(1e80, 1e95), (1.0, 1e-95), (1e-20, 1e95), (1e-150, 1e-60), (1e150, 1e60)]
    for X, scheme, momentum, (features, responses) in pairwise([TALL, WIDE], SCHEMES, [0.0, 0.5], sizes):
        asked = [("iterate", EPOCHS), "compare_limit"] + ([] if momentum else ["critical_step"])
        asked += [("risk", EPOCHS), ("expected_risk", [1, 3])] if responses / features > 1e-100 else []
        data, truth = of_size(X, features, responses)
        yield from about(
            *data, scheme, {"step": 0.1 / features / features, "momentum": momentum}, *asked, **truth
        )
    # The distance of limits is finite where the vector is.
    three = Scheme("RandomReshuffling", {"batches": 3})
    yield from about(TALL, [1e95, 2e95, -1e95], three, {"step": 0.5}, "compare_limit")


def huge_and_tiny_covariances():
    huge = [1e99, np.full(2, 1e99), 1e99 * np.array([[1.0, 0.5], [0.5, 1.0]])]
    asked = ("risk", [0, 3, math.inf]), ("expected_risk", [0, 3])
    for scheme, momentum, sigma, noise in pairwise(SCHEMES, [0.0, 0.5], huge, [0.5, 1e95]):
        # Errors of 1e-3: their squares bring the risk back into the range, unless the noise is far beyond.
        truth = {"beta_star": [1e-3, 1e-3], "noise": 1e-3 * noise, "sigma": sigma}
        yield from about(*of_size(TALL)[0], scheme, {"step": 0.1, "momentum": momentum}, *asked, **truth)
    for sigma in (1e-95, [1e-95, 3e-95], 1e-95 * np.array([[2.0, 1.0], [1.0, 2.0]])):
        truth = {"beta_star": [0.3, -0.2], "noise": 1e95, "sigma": sigma}
        for scheme in SCHEMES[:4]:
            yield from about(np.eye(2), np.zeros(2), scheme, {"step": 1e-11}, ("expected_risk", 0), **truth)
    # Responses of any size, which the expected risk depends on only where they are given.
    for scheme, recipe, sigma in pairwise(SCHEMES, RECIPES, [1.0, [1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]]]):
        known, recipe = {"beta_star": [0.3, -0.2], "noise": 2.6}, {"step": 0.1, **recipe}
        small, asked = 1e-95 * np.asarray(sigma), ("expected_risk", [0, 1, 3])
        yield from about(TALL, np.full(3, 1e95), scheme, recipe, asked, **known, sigma=small)
        data, truth = of_size(TALL, responses=1e95)
        yield from about(*data, scheme, recipe, (*asked, GIVEN), **truth, sigma=1e5 * small)


def what_grows():
    X = np.array([[1.0, -0.5, 0.3], [0.2, 0.9, 1.0], [-0.7, 0.4, 0.6], [0.5, 0.5, -0.8]])
    for scheme, recipe, small in pairwise(SCHEMES[:4], RECIPES[:2], [1e-6, 1e-12, 0.0]):
        # What grows takes along all parameters.
        recipe = {"step": 20.0, "start": [1.0, 2.0, 3.0], **recipe}
        yield from about(X * [1.0, 1.0, small], np.ones(4), scheme, recipe, ("iterate", [math.inf, 10_000]))
    for scheme, size in pairwise(SCHEMES, [1.0, 2.0**266]):
        # Parameters are numbers, 1e250 or so, where products with features are not.
        recipe = {"step": 8.0 / size / size, "momentum": 0.3}
        yield from about(size * TALL, size * np.ones(3), scheme, recipe, ("iterate", [10, 200]))
    sigma = 1e99 * (np.eye(4) + 0.5)
    for scheme, recipe, size in pairwise(SCHEMES, RECIPES, [1e110, 1e120]):
        # What is frozen alone is beyond the range from the start: 1e99 times the square of 1e110.
        recipe = {**recipe, "penalty": 1e-60 * recipe.get("penalty", 0.0), "step": 1e59}
        truth = {"beta_star": size * np.ones(4), "noise": 0.5, "sigma": sigma}
        asked = ("risk", EPOCHS), ("expected_risk", [0, 1, 3]), "best_epoch"
        yield from about(1e-30 * WIDE, np.ones(3), scheme, recipe, *asked, **truth)
    # A risk that sees nothing of what grows stays where it is.
    rng = np.random.default_rng(4)
    X = np.insert(rng.standard_normal((5, 3)), 1, 0.0, axis=1)
    truth = {"beta_star": [1.0, 0.8, 1.0, 1.0], "noise": 0.5, "sigma": [0.0, 0.3, 0.0, 0.0]}
    for recipe in ({}, {"penalty": 5.0}, {"momentum": 0.9}):
        whole = Scheme("RandomReshuffling", {"batch_size": 5})
        asked = ("risk", [3, 100, 10**9]), "stability"
        yield from about(X, np.ones(5), whole, {"alpha": 20.0, **recipe}, *asked, **truth)
    # The last finite numbers and the first infinite ones are where parts overflow that are to be added.
    single = [Scheme("Cyclic", {"batches": 1}), Scheme("RandomReshuffling", {"batches": 1}), FULL]
    asked = "best_epoch", ("risk", [0, 10, *range(320, 360, 3), 1000]), "stability"
    for scheme, recipe, noise, sigma in pairwise(single, RECIPES, [0.0, 0.5], [None, [1.0, 3.0]]):
        truth = {"beta_star": [1.0, 1.0], "noise": noise, "sigma": sigma}
        yield from about([[-0.6, 0.3]], np.ones(1), scheme, {"step": 30.0, **recipe}, *asked, **truth)
    for name in ("WithReplacement", "Cyclic", "ShuffleOnce"):
        scheme, recipe = Scheme(name, {"batches": 3}), {"step": 30.0, "momentum": 0.5}
        yield from about(TALL, np.ones(3), scheme, recipe, *asked, beta_star=[1.0, 1.0], noise=1e6)


def beyond_the_range():
    asked = ("iterate", math.inf), ("risk", math.inf), ("expected_risk", 3)
    later, column = ("expected_risk", [0, 500, 10**15]), [[1.0], [2.0], [3.0]]
    for scheme, momentum, step in pairwise(SCHEMES, [0.0, 0.5], [1e6, 1e10]):
        recipe, truth = {"step": 1e299, "momentum": momentum}, {"beta_star": [1.0, 1.0], "noise": 1e95}
        yield from about(1e-150 * TALL, [1e95, -1e95, 1e95], scheme, recipe, *asked, **truth)
        # Second moments leave the range, too.
        recipe = {"step": step, "momentum": 0.9, "start": [1e-3]}
        yield from about(column, [-1.0, 0.3, -4.0], scheme, recipe, later, beta_star=[-0.8], noise=3.0)
    # A limit is infinite as a whole where anything grows.
    rows = np.vstack([np.diag([1.0, 0.11, 0.013, 0.0015]), np.zeros((4, 4))])
    y = [-0.9, -0.38, -0.0056, -0.0004, 0.0, 0.0, 0.0, 0.0]
    for scheme in SCHEMES[1:4]:
        recipe = {"alpha": 1e6, "penalty": 1e-9, "start": [1.0] * 4}
        yield from about(rows, y, scheme, recipe, ("iterate", math.inf))
    # A run that has grown to 1e173 under Sigma = 1e-95: the mean iterate has a risk, the second moment is none.
    for scheme in SCHEMES[:4]:
        truth = {"beta_star": [0.3, -0.2], "sigma": 1e-95, "noise": 0.5}
        both = ("risk", [1, 17]), ("expected_risk", [1, 17])
        yield from about(np.eye(2), np.zeros(2), scheme, {"step": 2e10}, *both, **truth)


def where_nothing_moves():
    truth = {"beta_star": [2025.0, 1416.0], "sigma": [1.0, 3.0], "noise": 0.0}
    for scheme, recipe, step in pairwise(SCHEMES, RECIPES, [0.0, 2e-12, 1e4, 2e11]):
        asked = ("iterate", [0, 1, 5]), ("expected_risk", [5, 10], GIVEN)
        yield from about(TALL, np.zeros(3), scheme, {"step": step, **recipe}, *asked, **truth)
        yield from about(TALL, np.ones(3), scheme, {"step": step, "start": [1.0, 2.0]}, ("iterate", 0))
    # The loss does not see what a penalty does to columns of zeros; nothing enters from responses of zero.
    recipe = {"step": 2.5, "penalty": 1.0, "start": [1.0, 2.0]}
    one = Scheme("RandomReshuffling", {"batches": 1})
    asked = ("iterate", math.inf), ("training_loss", [0, 3, 10_000, math.inf])
    yield from about(np.zeros((3, 2)), [1.0, 2.0, 2.0], one, recipe, *asked)
    still = [[0.0, 0.01, 0.2], [0.0, 2.5, 1.1], [0.0, 0.0, 0.0]]
    equal = {"batches": [[1], [0], [2]], "normalize": "equal"}
    for scheme in (
        Scheme("Cyclic", equal),
        *(Scheme(name, {"batches": 3}) for name in ("ShuffleOnce", "Cyclic")),
    ):
        yield from about(still, np.zeros(3), scheme, {"alpha": 1e10}, ("iterate", EPOCHS), "compare_limit")
    still, cavity = np.zeros((5, 2)), {"step": 1.5, "method": "cavity"}
    yield from about(still, np.ones(5), SCHEMES[1], cavity, "range_assumption")
    # All batches commute, and the responses have no noise: nothing is spread, whichever epochs are asked for.
    truth = {"beta_star": [1.7873212246572856, -0.06], "sigma": 1e30 * np.array([[0.5, 1.1], [1.1, 5.5]])}
    X, y = [[1.0, 0.0], [3.0, 0.0], [1.0, 0.0]], [1.7873212246572856, 5.361963673971857, 1.7873212246572856]
    recipe = {"step": 0.11568658240732223, "start": [-288.2, -343.1]}
    asked = ("expected_risk", [1000, 3, 10**15, math.inf], GIVEN)
    yield from about(X, y, Scheme("RandomReshuffling", {"batches": 3}), recipe, asked, **truth, noise=0.0)


def what_turns_around_every_epoch():
    """Step (w + penalty) = 2, where w = penalty: each epoch multiplies by -1, give or take the last digit."""
    truth = {"beta_star": [0.0, 0.0], "sigma": [0.1, 1.0], "noise": 0.5}
    recipe = {"alpha": 1.6053195840378884, "penalty": 0.6229289232768733}
    for name in ("Cyclic", "ShuffleOnce", "RandomReshuffling"):
        for early in (2, 3):
            asked = ("risk", [early, 10**15]), ("risk", 10**15)
            X, scheme = [[-0.5735011518884231, 0.5422410460851568]], Scheme(name, {"batches": 1})
            yield from about(X, [-0.9], scheme, recipe, *asked, **truth)


def degenerate():
    """Features that are all zero, that are one row or one column, of rank one, or of equal rows: every question."""
    line = np.array([1.0, -2.0, 0.5])
    every = [
        *(np.zeros(shape) for shape in ((4, 3), (3, 5), (1, 1))),
        line[None],
        line[:, None],
        np.tile(line, (4, 1)),
    ]
    every += [
        np.outer([1.0, 2.0, -1.0], line),
        np.vstack([np.zeros((2, 3)), line]),
        np.column_stack([line, 0 * line]),
    ]
    sigmas = [lambda p: None, lambda p: np.linspace(1.0, 2.0, p), lambda p: np.diag(np.linspace(1.0, 2.0, p))]
    names = ("RandomReshuffling", "WithReplacement", "Cyclic", "ShuffleOnce")
    kinds = list(zip([*sigmas, sigmas[2]], RECIPES, strict=True))
    for X, (sigma, recipe) in [(X, kinds[(i + j) % 4]) for i, X in enumerate(every) for j in (0, 1)]:
        n, p = X.shape
        truth = {"beta_star": np.ones(p), "sigma": sigma(p), "noise": 0.5}
        exact = [
            FULL,
            SCHEMES[-1],
            *(Scheme(name, {"batches": count}) for name in names for count in {min(2, n), n}),
        ]
        asked = [("iterate", EPOCHS), ("training_loss", EPOCHS), ("risk", EPOCHS), ("expected_risk", [0, 2])]
        asked += ["limit", "compare_limit", "best_epoch", "frozen", "critical_step"]
        more = (
            ["mean_square_stability", ("expected_risk", math.inf)]
            if p == 1 or (p == 3 and "momentum" not in recipe)
            else []
        )
        for scheme in (*exact, Scheme("SampleReshuffling", {"batch_size": 2})):
            these = asked + (more if scheme in exact else [])
            yield from about(X, np.cos(np.arange(n)), scheme, {"step": 0.02, **recipe}, *these, **truth)


GROUPS = (
    in_any_unit, huge_and_tiny_covariances, what_grows, beyond_the_range, where_nothing_moves,
    what_turns_around_every_epoch, pytest.param(degenerate, marks=pytest.mark.slow),
)  # fmt: skip


@pytest.mark.parametrize("cases", GROUPS)
def test_answers_are_right_and_silent(cases):
    verdicts = [(case, ask(case)) for case in cases()]
    wrong = [f"{case}\n{found}" for case, found in verdicts if not found.kind.startswith("right")]
    assert verdicts
    assert not wrong, f"{len(wrong)} of {len(verdicts)}\n" + "\n".join(wrong[:8])


REFUSED = r"must be 0, or between .* for features whose largest entry is about .*, but it is .*critical_step"


@for_all(
    "scheme, size, step",
    pairwise(SCHEMES, [1e-100, 1.0, 1e30], [1e-14, 1e13, 1e100, [0.1, 1e13], rs.PerVisit([0.1, 1e-14])]),
)
def test_steps_far_from_the_size_of_the_features_are_refused(scheme, size, step):
    problem, scheme = rs.LeastSquares(size * TALL, np.ones(3)), getattr(rs, scheme.name)(**scheme.arguments)
    given = np.asarray(step.steps if isinstance(step, rs.PerVisit) else step) / size / size
    step = rs.PerVisit(given) if isinstance(step, rs.PerVisit) else given
    with pytest.raises(ValueError, match=f"step {REFUSED}"):
        rs.descend(problem, scheme, step)
    with pytest.raises(ValueError, match=f"step {REFUSED}"):
        rs.simulate(problem, scheme, step, epochs=1, runs=4)
    if not isinstance(step, rs.PerVisit):
        with pytest.raises(ValueError, match=f"(alpha|step) {REFUSED}"):
            rs.descend(problem, scheme, alpha=step * scheme.steps(3))


@for_all("size", [1e-101, 1e101])
@for_all("name", ["y", "noise", "beta_star", "start", "covariance"])
def test_sizes_whose_squares_are_no_numbers_are_refused(name, size):
    known = {
        "y": np.zeros(3),
        "noise": 0.0,
        "beta_star": np.zeros(2),
        "start": np.zeros(2),
        "covariance": 1.0,
    }
    known[name] = size * np.ones(np.shape(known[name]))
    X, start = TALL / np.abs(TALL).max(), known.pop("start")
    with pytest.raises(ValueError, match=rf"{name} must have its largest entry.* between 1e-100 and 1e100"):
        rs.descend(rs.LeastSquares(X, **known), rs.FullBatch(), 0.1, start=start)
