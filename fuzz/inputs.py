"""From a seed to an input: a problem, a scheme, a recipe and a question that belong together."""

import math
import random
from typing import Any

from fuzz import moments, problems, recipes, schemes, visits
from fuzz.case import Case

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
    question = rng.choices(list(_QUESTIONS), list(_QUESTIONS.values()))[0]
    squares = question == "mean_square_stability" or (question == "critical_step" and rng.random() < 0.3)
    long = question == "expected_risk" and rng.random() < 0.4
    largest = _LARGEST_SQUARED if squares or long else 4 if question == "critical_step" else 8
    problem = problems.problem(rng, largest)
    scheme = schemes.scheme(rng, problem.n)
    recipe = recipes.recipe(rng, problem, scheme)
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
    drawn = Case(seed, problem, scheme, recipe, question, options)
    return drawn if _makes_sense(drawn) else case(rng.getrandbits(48))


def _epochs(rng: random.Random, known: list[float]) -> Any:
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(known)
    if kind < 0.43:
        return []
    chosen = [rng.choice(known) for _ in range(rng.randint(1, 4))]
    return chosen if kind < 0.9 else [[epoch] for epoch in chosen]


def _makes_sense(drawn: Case) -> bool:
    """Whether the question is one about a single, moderate number that the oracle knows."""
    recipe = drawn.recipe
    if drawn.question in ("Z", "range_assumption"):
        return drawn.is_plain and recipe.schedule != 0.0
    if drawn.question in ("mean_square_stability", "critical_step", "frozen"):
        d = drawn.problem.p * (2 if recipe.momentum else 1)
        small = d * (d + 1) // 2 <= 21 or not (drawn.question != "frozen" and _is_square(drawn))
        return recipe.is_constant and recipe.schedule != 0.0 and small
    if drawn.question == "simulate":
        largest = max(abs(entry) for row in drawn.problem.X for entry in row)
        step = recipe.step_of(0) / (
            1 if recipe.keyword == "step" else visits.count(drawn.scheme, drawn.problem.n)
        )
        return (
            recipe.keyword == "step"
            and recipe.is_constant
            and step * largest**2 < 0.1
            and recipe.method is None
            and recipe.budget is None
        )
    return recipe.is_constant or drawn.question in ("iterate", "training_loss", "risk", "expected_risk")


def _is_square(drawn: Case) -> bool:
    return drawn.question == "mean_square_stability" or bool(drawn.options.get("mean_square"))
