"""Random schemes, small enough for all their orders to be enumerated."""

import random
from math import comb, factorial, prod
from typing import Any

from fuzz import visits
from fuzz.case import Scheme

_MOST_ALTERNATIVES = 130


def scheme(rng: random.Random, n: int) -> Scheme:
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
