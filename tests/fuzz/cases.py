"""Random inputs: a problem, a scheme, a recipe and a question that belong together.

All draws go through a `random.Random`: of a seed in the suite, and one that hypothesis controls, and shrinks, in
tests/fuzz/random_questions.py.
"""

import math
import random
from dataclasses import dataclass, field
from math import comb, factorial, prod
from typing import Any

import numpy as np
from scipy.sparse.linalg import aslinearoperator

import reshuffle as rs
from tests.oracles.exact_runs import (
    MOST_SQUARED,
    Scheme,
    Setting,
    column,
    matrix,
    rational,
    sizes,
    visits_per_epoch,
)


@dataclass(frozen=True)
class Falling:
    """A step that falls with the epochs."""

    step: float

    def __call__(self, epoch):
        return self.step / (1 + epoch)


@dataclass(frozen=True)
class Case:
    """What is asked, of which run: `recipe` has the keywords of `descend`, `options` those of the question."""

    X: list
    y: list
    beta_star: list | None
    noise: float | None
    sigma: Any
    scheme: Scheme
    recipe: dict[str, Any]
    question: str
    options: dict[str, Any] = field(default_factory=dict)
    is_operator: bool = False

    @property
    def n(self):
        return len(self.X)

    @property
    def p(self):
        return len(self.X[0])

    @property
    def schedule(self):
        return self.recipe["step"] if "step" in self.recipe else self.recipe["alpha"]

    @property
    def is_constant(self):
        """True if all epochs are alike."""
        return isinstance(self.schedule, float)

    @property
    def is_plain(self):
        """True if the mean of an epoch is a symmetric map."""
        fixed = self.scheme.name in ("Cyclic", "ShuffleOnce")
        return not (fixed or self.recipe["penalty"] or self.recipe["momentum"]) and self.is_constant

    @property
    def dense_sigma(self):
        sigma = np.asarray(1.0 if self.sigma is None else self.sigma, dtype=float)
        return sigma if sigma.ndim == 2 else np.diag(np.broadcast_to(sigma, self.p))

    def problem(self):
        """The problem as the library knows it."""
        sigma = np.array(self.sigma) if isinstance(self.sigma, list) else self.sigma
        sigma = aslinearoperator(sigma) if self.is_operator else sigma
        return rs.LeastSquares(
            np.array(self.X), self.y, beta_star=self.beta_star, covariance=sigma, noise=self.noise
        )

    def step(self, epoch):
        """The step of the epoch after `epoch` others, exactly."""
        found = self.schedule
        found = found(epoch) if callable(found) else found[epoch] if isinstance(found, list) else found
        return rational(found) / (visits_per_epoch(self.scheme, self.n) if "alpha" in self.recipe else 1)

    def setting(self):
        """The case without rounding."""
        return Setting(
            matrix(self.X),
            column(self.y),
            self.scheme,
            self.step,
            column(self.recipe["start"] or [0.0] * self.p),
            matrix(self.dense_sigma),
            None if self.beta_star is None else column(self.beta_star),
            None if self.noise is None else rational(self.noise),
            rational(self.recipe["penalty"]),
            rational(self.recipe["momentum"]),
            is_constant=self.is_constant,
        )


_QUESTIONS = {
    "iterate": 4, "training_loss": 2, "risk": 6, "expected_risk": 4, "limit": 3, "compare_limit": 1, "stability": 2,
    "mean_square_stability": 1, "best_epoch": 1, "critical_step": 2, "frozen": 1, "range_assumption": 1, "Z": 1,
    "simulate": 0.5,
}  # fmt: skip
OF_EPOCHS = ("iterate", "training_loss", "risk", "expected_risk")
_EPOCHS = [0, 1, 2, 3, 5, 10, 1000, 10**9, 10**15, math.inf]


def case(seed):
    """The input of a seed."""
    rng = random.Random(seed)
    found = drawn(rng)
    return found if makes_sense(found) else case(rng.getrandbits(48))


def drawn(rng):
    """An input, which may not make sense."""
    question = rng.choices(list(_QUESTIONS), list(_QUESTIONS.values()))[0]
    squares = question == "mean_square_stability" or (question == "critical_step" and rng.random() < 0.3)
    long = question == "expected_risk" and rng.random() < 0.4
    problem = _problem(rng, 3 if squares or long else 4 if question == "critical_step" else 8)
    scheme = _scheme(rng, len(problem["X"]))
    found = Case(**problem, scheme=scheme, recipe=_recipe(rng, problem, scheme), question=question)
    options = found.options
    if question in OF_EPOCHS[:3]:
        options["epochs"] = _epochs(rng, _EPOCHS if found.is_constant else _EPOCHS[:4])
    elif question == "expected_risk":
        d = found.p * (2 if found.recipe["momentum"] else 1) + 1
        long = long and found.is_constant and d * (d + 1) // 2 <= MOST_SQUARED
        options["epochs"] = _epochs(rng, _EPOCHS if long else _EPOCHS[: 6 if found.is_constant else 4])
        if rng.random() < 0.4:
            options["given_responses"] = True
    elif question == "critical_step" and squares:
        options["mean_square"] = True
    elif question == "simulate":
        options |= {"epochs": [0, 1, 2], "runs": 400, "seed": rng.randint(0, 9)}
    return found


def _epochs(rng, known):
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(known)
    if kind < 0.43:
        return []
    chosen = [rng.choice(known) for _ in range(rng.randint(1, 4))]
    return chosen if kind < 0.9 else [[epoch] for epoch in chosen]


def makes_sense(found):
    """True if the question is one about a single, moderate number that the oracle knows."""
    recipe, question = found.recipe, found.question
    if question in ("Z", "range_assumption"):
        return found.is_plain and found.schedule != 0.0
    if question in ("mean_square_stability", "critical_step", "frozen"):
        d = found.p * (2 if recipe["momentum"] else 1)
        squares = question == "mean_square_stability" or "mean_square" in found.options
        return found.is_constant and found.schedule != 0.0 and (d * (d + 1) // 2 <= 21 or not squares)
    if question == "simulate":
        plain = (
            "step" in recipe and found.is_constant and recipe["method"] == "auto" and "budget" not in recipe
        )
        return plain and found.schedule * np.abs(found.X).max() ** 2 < 0.1
    return found.is_constant or question in OF_EPOCHS


_KINDS = (
    "gaussian", "gaussian", "integer", "integer", "collinear", "zeros", "copies", "columns", "rows",
    "spectrum", "spectrum", "diagonal", "size", "nothing",
)  # fmt: skip


def _problem(rng, largest):
    """Draw a problem with at most `largest` rows and columns."""
    draw = np.random.default_rng(rng.getrandbits(64))
    n, p = (min(largest, rng.choice([1, 2, 2, 3, 3, 4, 4, 5, 6, 8])) for _ in range(2))
    X = _features(rng, draw, n, p)
    size = float(np.abs(X).max()) or 1.0
    beta = draw.standard_normal(p) * rng.choice([1, 1, 1, 1 / size, 1e-3, 1e3])
    noise = rng.choice([0.0, 0.5, 1.0, 1.0, 1e-6, 1e6, size])
    y = X @ beta + noise * draw.standard_normal(n)
    if rng.random() < 0.08:
        y = np.zeros(n)
    elif rng.random() < 0.02:
        y = 1e95 * draw.standard_normal(n)
    form, sigma = _sigma(rng, draw, p)
    if rng.random() < 0.03:
        beta = np.zeros(p)
    beta_star = None if rng.random() < 0.02 else beta.tolist()
    known = {"beta_star": beta_star, "noise": None if rng.random() < 0.02 else float(noise)}
    return {"X": X.tolist(), "y": y.tolist(), **known, "sigma": sigma, "is_operator": form == "operator"}


def _features(rng, draw, n, p):
    kind, gaussian = rng.choice(_KINDS), draw.standard_normal((n, p))
    integer, rank = draw.integers(-3, 4, (n, p)).astype(float), min(n, p)
    span = 10.0 ** -rng.uniform(0, 12)
    if kind == "integer":
        return integer
    if kind == "collinear":
        rank = rng.randint(1, max(1, rank - 1))
        return (draw.integers(-3, 4, (n, rank)) @ draw.integers(-2, 3, (rank, p))).astype(float)
    if kind == "zeros":
        gaussian[draw.random(n) < 0.4] = 0.0
        gaussian[:, draw.random(p) < 0.4] = 0.0
    elif kind == "copies":
        return gaussian[draw.integers(0, n, n)]
    elif kind == "columns":
        return gaussian * np.geomspace(1, span, p)
    elif kind == "rows":
        return gaussian * np.geomspace(1, span, n)[:, np.newaxis]
    elif kind == "spectrum":
        left, right = (np.linalg.qr(draw.standard_normal((length, rank)))[0] for length in (n, p))
        return (left * np.geomspace(1, span, rank)) @ right.T
    elif kind == "diagonal":
        diagonal = np.zeros((n, p))
        np.fill_diagonal(diagonal, np.geomspace(1, span, rank))
        return diagonal
    elif kind == "size":
        return gaussian * float(10.0 ** rng.uniform(-85, 85))
    return np.zeros((n, p)) if kind == "nothing" and rng.random() < 0.5 else gaussian


def _sigma(rng, draw, p):
    form = rng.choice(["none", "none", "number", "vector", "matrix", "matrix", "operator"])
    size = rng.choice([1.0, 1.0, 1.0, 1e-95, 1e-30, 1e30, 1e95, 1e-3])
    if form == "none":
        return form, None
    if form == "number":
        return form, rng.choice([0.0, 2.0, size])
    if form == "vector":
        diagonal = draw.random(p) * size
        diagonal[draw.random(p) < 0.2] = 0.0
        return form, diagonal.tolist()
    factor = draw.standard_normal((p, rng.choice([p, p, 1])))
    dense = (factor @ factor.T + (factor @ factor.T).T) / 2 * size
    return form, (np.zeros((p, p)) if rng.random() < 0.1 else dense).tolist()


_BUDGET = 1e8


def _recipe(rng, problem, scheme):
    """Draw a recipe whose step has something to do with the problem."""
    largest = max(sum(entry * entry for entry in row) for row in problem["X"]) or 1.0
    keyword, schedule, kind = rng.choice(["step", "alpha"]), _step(rng, largest), rng.random()
    if kind < 0.05:
        schedule = [_step(rng, largest) for _ in range(rng.randint(1, 6))]
    elif kind < 0.1:
        schedule = Falling(_step(rng, largest))
    draw = np.random.default_rng(rng.getrandbits(64))
    size = rng.choice([1.0, 1.0, 1e-3, 1e3, 1 / math.sqrt(largest)])
    start = (draw.standard_normal(len(problem["X"][0])) * size).tolist() if rng.random() < 0.4 else None
    penalty = 0.0 if rng.random() < 0.75 else largest * rng.choice([1e-9, 1e-3, 0.1, 1.0])
    momentum = 0.0 if rng.random() < 0.7 else rng.choice([0.1, 0.5, 0.9, 0.99, rng.random()])
    method = "auto"
    if not (penalty or momentum) and rng.random() < 0.05:
        method = rng.choice(["exact", "cavity", "sampling"])
    # Orders are drawn there until the budget is spent: that of the default takes a minute.
    draws = method == "sampling" or scheme.name == "SampleReshuffling"
    recipe = {keyword: schedule, "start": start, "method": method, "penalty": penalty, "momentum": momentum}
    return recipe | ({"budget": _BUDGET} if draws else {})


def _step(rng, largest):
    """Relative to 1 / max |x|^2, below which every visit shrinks what it sees."""
    relative = rng.choice(
        [0.0, 1e-10, 1e-6, 1e-3, 0.1, 0.3, 0.5, 0.7, 1.0, 1.0, 1.5, 2.0, 3.0, 5.0, 50.0, 1e6]
        + [rng.uniform(0, 2)] * 6
        + ([1e9] if rng.random() < 0.2 else [])
    )
    step = relative / largest
    return step if math.isfinite(step) else 1.0


_MOST_ALTERNATIVES = 130


def _scheme(rng, n):
    """Draw a scheme for n rows."""
    names = ["FullBatch", "RandomReshuffling", "RandomReshuffling", "SampleReshuffling", "Cyclic"]
    names += ["ShuffleOnce", "WithReplacement", "SampleWithReplacement", "SampleSubsets"]
    while True:
        drawn = _draw(rng, rng.choice(names), n)
        if _alternatives(drawn, n) <= _MOST_ALTERNATIVES:
            return drawn


def _draw(rng, name, n):
    if name == "FullBatch":
        return Scheme(name)
    if name in ("SampleWithReplacement", "SampleSubsets"):
        return Scheme(name, _cut_by_size(rng, n))
    arguments = _cut(rng, n, explicit=name != "SampleReshuffling")
    if rng.random() < 0.15:
        arguments["normalize"] = "equal"
    if name in ("Cyclic", "ShuffleOnce") and rng.random() < 0.3:
        order = list(range(len(sizes(n, arguments))))
        rng.shuffle(order)
        arguments["order"] = order
    return Scheme(name, arguments)


def _cut(rng, n, explicit):
    kind = rng.choice(["number", "number", "size", "list"] if explicit else ["number", "size"])
    if kind == "size":
        return _cut_by_size(rng, n)
    batches = rng.randint(1, min(n, 4))
    if kind == "number":
        return {"batches": batches}
    rows = list(range(n))
    rng.shuffle(rows)
    ends = sorted(rng.sample(range(1, n), batches - 1))
    return {"batches": [rows[a:b] for a, b in zip([0, *ends], [*ends, n], strict=True)]}


def _cut_by_size(rng, n):
    arguments = {"batch_size": rng.randint(1, n)}
    return arguments | ({"drop_last": True} if rng.random() < 0.4 else {})


def _alternatives(drawn, n):
    """How many sequences of visits there are to be enumerated."""
    if drawn.name in ("FullBatch", "Cyclic"):
        return 1
    each = sizes(n, drawn.arguments)
    if drawn.name in ("SampleWithReplacement", "SampleSubsets"):
        most = n ** max(each) if drawn.name == "SampleWithReplacement" else comb(n, max(each))
        return most if len(each) <= 4 else _MOST_ALTERNATIVES + 1
    if drawn.name == "SampleReshuffling":
        return factorial(n) // (prod(map(factorial, each)) * factorial(n - sum(each)))
    return factorial(len(each)) if drawn.name != "WithReplacement" else len(each) ** 2
