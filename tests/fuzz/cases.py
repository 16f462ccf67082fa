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
from tests.oracles.exact import arithmetic as exact
from tests.oracles.exact import epochs as visits
from tests.oracles.exact import moments
from tests.oracles.exact.setting import Scheme, Setting


@dataclass(frozen=True)
class Problem:
    """Data and truth. `form` is how Sigma is given: "none", "number", "vector", "matrix" or "operator"."""

    X: list[list[float]]
    y: list[float]
    beta_star: list[float] | None
    noise: float | None
    form: str
    sigma: Any

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.X)

    @property
    def p(self) -> int:
        """Columns."""
        return len(self.X[0])

    @property
    def dense_sigma(self) -> list[list[float]]:
        """Sigma (p, p)."""
        sigma = np.asarray(self.sigma, dtype=np.float64)
        return (sigma if sigma.ndim == 2 else np.diag(np.broadcast_to(sigma, self.p))).tolist()

    def built(self) -> rs.LeastSquares:
        """The problem as the library knows it."""
        sigma = None if self.form == "none" else self.sigma
        if self.form in ("matrix", "operator"):
            sigma = np.array(self.sigma) if self.form == "matrix" else aslinearoperator(np.array(self.sigma))
        return rs.LeastSquares(
            np.array(self.X), self.y, beta_star=self.beta_star, covariance=sigma, noise=self.noise
        )


@dataclass(frozen=True)
class Falling:
    """A step that falls with the epochs."""

    step: float

    def __call__(self, epoch: int) -> float:
        return self.step / (1 + epoch)


@dataclass(frozen=True)
class Recipe:
    """Step, penalty, momentum, start and method, of which `keyword` says whether `schedule` is step or alpha."""

    keyword: str
    schedule: float | list[float] | Falling
    penalty: float = 0.0
    momentum: float = 0.0
    start: list[float] | None = None
    method: str = "auto"
    budget: float | None = None

    @property
    def is_constant(self) -> bool:
        """Whether all epochs are alike."""
        return isinstance(self.schedule, float)

    def step_of(self, epoch: int) -> float:
        """The scheduled step of the epoch after `epoch` others."""
        if callable(self.schedule):
            return self.schedule(epoch)
        return self.schedule[epoch] if isinstance(self.schedule, list) else self.schedule

    def keywords(self) -> dict[str, Any]:
        """Those of `descend`."""
        words: dict[str, Any] = {self.keyword: self.schedule, "start": self.start, "method": self.method}
        words |= {"penalty": self.penalty, "momentum": self.momentum}
        return words if self.budget is None else words | {"budget": self.budget}


@dataclass(frozen=True)
class Case:
    """What is asked, of which run. `options` are those of the question: epochs, flags."""

    problem: Problem
    scheme: Scheme
    recipe: Recipe
    question: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether the mean of an epoch is a symmetric map."""
        fixed = self.scheme.name in ("Cyclic", "ShuffleOnce")
        return not (fixed or self.recipe.penalty or self.recipe.momentum) and self.recipe.is_constant

    def setting(self) -> Setting:
        """The case without rounding."""
        problem, recipe = self.problem, self.recipe
        divisor = visits.count(self.scheme, problem.n) if recipe.keyword == "alpha" else 1
        return Setting(
            X=exact.matrix(problem.X),
            y=exact.column(problem.y),
            beta_star=None if problem.beta_star is None else exact.column(problem.beta_star),
            noise=None if problem.noise is None else exact.rational(problem.noise),
            sigma=exact.matrix(problem.dense_sigma),
            scheme=self.scheme,
            step=lambda epoch: exact.rational(recipe.step_of(epoch)) / divisor,
            is_constant=recipe.is_constant,
            penalty=exact.rational(recipe.penalty),
            momentum=exact.rational(recipe.momentum),
            start=exact.column(recipe.start or [0.0] * problem.p),
        )


_QUESTIONS = {
    "iterate": 4,
    "training_loss": 2,
    "risk": 6,
    "expected_risk": 4,
    "limit": 3,
    "compare_limit": 1,
    "stability": 2,
    "mean_square_stability": 1,
    "best_epoch": 1,
    "critical_step": 2,
    "frozen": 1,
    "range_assumption": 1,
    "Z": 1,
    "simulate": 0.5,
}
_EPOCHS: list[float] = [0, 1, 2, 3, 5, 10, 1000, 10**9, 10**15, math.inf]
_LARGEST_SQUARED = 3


def case(seed: int) -> Case:
    """The input of a seed."""
    rng = random.Random(seed)
    found = drawn(rng)
    return found if makes_sense(found) else case(rng.getrandbits(48))


def drawn(rng: random.Random) -> Case:
    """An input, which may not make sense."""
    question = rng.choices(list(_QUESTIONS), list(_QUESTIONS.values()))[0]
    squares = question == "mean_square_stability" or (question == "critical_step" and rng.random() < 0.3)
    long = question == "expected_risk" and rng.random() < 0.4
    largest = _LARGEST_SQUARED if squares or long else 4 if question == "critical_step" else 8
    problem = _problem(rng, largest)
    scheme = _scheme(rng, problem.n)
    recipe = _recipe(rng, problem, scheme)
    options: dict[str, Any] = {}
    if question in ("iterate", "training_loss", "risk"):
        options["epochs"] = _epochs(rng, _EPOCHS if recipe.is_constant else _EPOCHS[:4])
    elif question == "expected_risk":
        d = problem.p * (2 if recipe.momentum else 1) + 1
        long = long and recipe.is_constant and d * (d + 1) // 2 <= moments.MOST_SQUARED
        options["epochs"] = _epochs(rng, _EPOCHS if long else _EPOCHS[: 6 if recipe.is_constant else 4])
        if rng.random() < 0.4:
            options["given_responses"] = True
    elif question == "critical_step" and squares:
        options["mean_square"] = True
    elif question == "simulate":
        options |= {"epochs": [0, 1, 2], "runs": 400, "seed": rng.randint(0, 9)}
    return Case(problem, scheme, recipe, question, options)


def _epochs(rng: random.Random, known: list[float]) -> Any:
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(known)
    if kind < 0.43:
        return []
    chosen = [rng.choice(known) for _ in range(rng.randint(1, 4))]
    return chosen if kind < 0.9 else [[epoch] for epoch in chosen]


def makes_sense(found: Case) -> bool:
    """Whether the question is one about a single, moderate number that the oracle knows."""
    recipe = found.recipe
    if found.question in ("Z", "range_assumption"):
        return found.is_plain and recipe.schedule != 0.0
    if found.question in ("mean_square_stability", "critical_step", "frozen"):
        d = found.problem.p * (2 if recipe.momentum else 1)
        small = d * (d + 1) // 2 <= 21 or not (found.question != "frozen" and _is_square(found))
        return recipe.is_constant and recipe.schedule != 0.0 and small
    if found.question == "simulate":
        largest = max(abs(entry) for row in found.problem.X for entry in row)
        step = recipe.step_of(0) / (
            1 if recipe.keyword == "step" else visits.count(found.scheme, found.problem.n)
        )
        return (
            recipe.keyword == "step"
            and recipe.is_constant
            and step * largest**2 < 0.1
            and recipe.method == "auto"
            and recipe.budget is None
        )
    return recipe.is_constant or found.question in ("iterate", "training_loss", "risk", "expected_risk")


def _is_square(found: Case) -> bool:
    return found.question == "mean_square_stability" or bool(found.options.get("mean_square"))


_KINDS = (
    "gaussian", "gaussian", "integer", "integer", "collinear", "zeros", "copies", "columns", "rows",
    "spectrum", "spectrum", "diagonal", "size", "nothing",
)  # fmt: skip


def _problem(rng: random.Random, largest: int = 8) -> Problem:
    """Draw a problem with at most `largest` rows and columns."""
    draw = np.random.default_rng(rng.getrandbits(64))
    n, p = (_length(rng, largest) for _ in range(2))
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
    return Problem(
        X=X.tolist(),
        y=y.tolist(),
        beta_star=None if rng.random() < 0.02 else beta.tolist(),
        noise=None if rng.random() < 0.02 else float(noise),
        form=form,
        sigma=sigma,
    )


def _length(rng: random.Random, largest: int) -> int:
    return min(largest, rng.choice([1, 2, 2, 3, 3, 4, 4, 5, 6, 8]))


def _features(rng: random.Random, draw: np.random.Generator, n: int, p: int) -> np.ndarray:
    kind = rng.choice(_KINDS)
    gaussian = draw.standard_normal((n, p))
    integer = draw.integers(-3, 4, (n, p)).astype(float)
    span = 10.0 ** -rng.uniform(0, 12)
    if kind == "integer":
        return integer
    if kind == "collinear":
        rank = rng.randint(1, max(1, min(n, p) - 1))
        return _product(draw.integers(-3, 4, (n, rank)), draw.integers(-2, 3, (rank, p)))
    if kind == "zeros":
        gaussian[draw.random(n) < 0.4] = 0.0
        gaussian[:, draw.random(p) < 0.4] = 0.0
        return gaussian
    if kind == "copies":
        return gaussian[draw.integers(0, n, n)]
    if kind == "columns":
        return gaussian * np.geomspace(1, span, p)
    if kind == "rows":
        return gaussian * np.geomspace(1, span, n)[:, np.newaxis]
    if kind == "spectrum":
        rank = min(n, p)
        left, _ = np.linalg.qr(draw.standard_normal((n, rank)))
        right, _ = np.linalg.qr(draw.standard_normal((p, rank)))
        return _product(left * np.geomspace(1, span, rank), right.T)
    if kind == "diagonal":
        diagonal = np.zeros((n, p))
        np.fill_diagonal(diagonal, np.geomspace(1, span, min(n, p)))
        return diagonal
    if kind == "size":
        return gaussian * float(10.0 ** rng.uniform(-85, 85))
    return np.zeros((n, p)) if kind == "nothing" and rng.random() < 0.5 else gaussian


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.asarray(left @ right, dtype=np.float64)


def _sigma(rng: random.Random, draw: np.random.Generator, p: int) -> tuple[str, object]:
    form = rng.choice(["none", "none", "number", "vector", "matrix", "matrix", "operator"])
    size = rng.choice([1.0, 1.0, 1.0, 1e-95, 1e-30, 1e30, 1e95, 1e-3])
    if form == "none":
        return form, 1.0
    if form == "number":
        return form, rng.choice([0.0, 2.0, size])
    if form == "vector":
        diagonal = draw.random(p) * size
        diagonal[draw.random(p) < 0.2] = 0.0
        return form, diagonal.tolist()
    factor = draw.standard_normal((p, rng.choice([p, p, 1])))
    dense = factor @ factor.T
    dense = (dense + dense.T) / 2 * size
    if rng.random() < 0.1:
        dense = np.zeros((p, p))
    return form, dense.tolist()


_BUDGET = 1e8


def _recipe(rng: random.Random, problem: Problem, scheme: Scheme) -> Recipe:
    """Draw a recipe whose step has something to do with the problem."""
    largest = max(sum(entry * entry for entry in row) for row in problem.X) or 1.0
    keyword = rng.choice(["step", "alpha"])
    schedule: float | list[float] | Falling = _step(rng, largest)
    kind = rng.random()
    if kind < 0.05:
        schedule = [_step(rng, largest) for _ in range(rng.randint(1, 6))]
    elif kind < 0.1:
        schedule = Falling(_step(rng, largest))
    draw = np.random.default_rng(rng.getrandbits(64))
    size = rng.choice([1.0, 1.0, 1e-3, 1e3, 1 / math.sqrt(largest)])
    start = (draw.standard_normal(problem.p) * size).tolist() if rng.random() < 0.4 else None
    penalty = 0.0 if rng.random() < 0.75 else largest * rng.choice([1e-9, 1e-3, 0.1, 1.0])
    momentum = 0.0 if rng.random() < 0.7 else rng.choice([0.1, 0.5, 0.9, 0.99, rng.random()])
    method = "auto"
    if not (penalty or momentum) and rng.random() < 0.05:
        method = rng.choice(["exact", "cavity", "sampling"])
    # Orders are drawn there until the budget is spent: that of the default takes a minute.
    draws = method == "sampling" or scheme.name == "SampleReshuffling"
    return Recipe(keyword, schedule, penalty, momentum, start, method, _BUDGET if draws else None)


def _step(rng: random.Random, largest: float) -> float:
    """Relative to 1 / max |x|^2, below which every visit shrinks what it sees."""
    relative = rng.choice(
        [0.0, 1e-10, 1e-6, 1e-3, 0.1, 0.3, 0.5, 0.7, 1.0, 1.0, 1.5, 2.0, 3.0, 5.0, 50.0, 1e6]
        + [rng.uniform(0, 2)] * 6
        + ([1e9] if rng.random() < 0.2 else [])
    )
    step = relative / largest
    return step if math.isfinite(step) else 1.0


_MOST_ALTERNATIVES = 130


def _scheme(rng: random.Random, n: int) -> Scheme:
    """Draw a scheme for n rows."""
    names = ["FullBatch", "RandomReshuffling", "RandomReshuffling", "SampleReshuffling", "Cyclic"]
    names += ["ShuffleOnce", "WithReplacement", "SampleWithReplacement", "SampleSubsets"]
    while True:
        drawn = _draw(rng, rng.choice(names), n)
        if _alternatives(drawn, n) <= _MOST_ALTERNATIVES:
            return drawn


def _draw(rng: random.Random, name: str, n: int) -> Scheme:
    if name == "FullBatch":
        return Scheme(name)
    if name in ("SampleWithReplacement", "SampleSubsets"):
        return Scheme(name, _cut_by_size(rng, n))
    arguments = _cut(rng, n, explicit=name != "SampleReshuffling")
    if rng.random() < 0.15:
        arguments["normalize"] = "equal"
    if name in ("Cyclic", "ShuffleOnce") and rng.random() < 0.3:
        order = list(range(len(visits.sizes(n, arguments))))
        rng.shuffle(order)
        arguments["order"] = order
    return Scheme(name, arguments)


def _cut(rng: random.Random, n: int, explicit: bool) -> dict[str, Any]:
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


def _cut_by_size(rng: random.Random, n: int) -> dict[str, Any]:
    arguments: dict[str, Any] = {"batch_size": rng.randint(1, n)}
    if rng.random() < 0.4:
        arguments["drop_last"] = True
    return arguments


def _alternatives(drawn: Scheme, n: int) -> int:
    """How many sequences of visits there are to be enumerated."""
    if drawn.name in ("FullBatch", "Cyclic"):
        return 1
    each = visits.sizes(n, drawn.arguments)
    if drawn.name == "SampleWithReplacement":
        return n ** max(each) if len(each) <= 4 else _MOST_ALTERNATIVES + 1
    if drawn.name == "SampleSubsets":
        return comb(n, max(each)) if len(each) <= 4 else _MOST_ALTERNATIVES + 1
    if drawn.name == "SampleReshuffling":
        rest = n - sum(each)
        return factorial(n) // (prod(map(factorial, each)) * factorial(rest))
    return factorial(len(each)) if drawn.name != "WithReplacement" else len(each) ** 2
