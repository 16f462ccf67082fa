"""Random recipes: steps from nothing to far beyond stability, momentum, penalties, schedules, starts."""

import math
import random

import numpy as np

from fuzz.case import Problem, Recipe, Scheme

_BUDGET = 1e8


def recipe(rng: random.Random, problem: Problem, scheme: Scheme) -> Recipe:
    """Draw a recipe whose step has something to do with the problem."""
    largest = max(sum(entry * entry for entry in row) for row in problem.X) or 1.0
    keyword = rng.choice(["step", "alpha"])
    schedule: float | list[float] | str = _step(rng, largest)
    kind = rng.random()
    if kind < 0.05:
        schedule = [_step(rng, largest) for _ in range(rng.randint(1, 6))]
    elif kind < 0.1:
        schedule = f"lambda epoch: {_step(rng, largest)!r} / (1 + epoch)"
    draw = np.random.default_rng(rng.getrandbits(64))
    size = rng.choice([1.0, 1.0, 1e-3, 1e3, 1 / math.sqrt(largest)])
    start = (draw.standard_normal(problem.p) * size).tolist() if rng.random() < 0.4 else None
    penalty = 0.0 if rng.random() < 0.75 else largest * rng.choice([1e-9, 1e-3, 0.1, 1.0])
    momentum = 0.0 if rng.random() < 0.7 else rng.choice([0.1, 0.5, 0.9, 0.99, rng.random()])
    method = None
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
