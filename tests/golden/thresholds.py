"""Critical steps of every scheme, plain and with what a recipe adds, and plain simulation."""

from collections.abc import Iterator
from typing import Any

import reshuffle as rs
from tests.golden.record import Answer, Case
from tests.golden.runs import LONG, LONG_SCHEMES, PROBLEMS, SCHEMES

_RECIPES: dict[str, dict[str, Any]] = {
    "mean": {},
    "mean square": {"mean_square": True},
    "momentum": {"momentum": 0.5},
    "nesterov and penalty": {"momentum": 0.4, "nesterov": True, "penalty": 0.1},
    "mean square and penalty": {"mean_square": True, "penalty": 0.2},
}
_REFINED = 1e-5
"""Twice the relative width to which a critical step in mean square is bisected, generously."""


def _critical_step(problem: rs.LeastSquares, scheme: rs.Scheme, options: dict[str, Any]) -> Answer:
    found = rs.critical_step(problem, scheme, **{"mean_square": False, **options})
    bisected = _REFINED * float(found) if options.get("mean_square") else 1e-8 * float(found)
    return Answer(float(found), found.error + bisected, f"bisected, {found.error_kind}")


def _simulated(problem: rs.LeastSquares, scheme: rs.Scheme) -> Answer:
    found = rs.simulate(problem, scheme, step=0.05, epochs=[1, 4], runs=400, seed=1)
    errors = 4 * found.iterate.standard_error.max(axis=-1)
    return Answer(found.iterate.mean, errors, "four standard errors", vector=1)


def cases() -> Iterator[tuple[str, Case]]:
    """Every scheme with every recipe, problems in turns."""
    for i, (scheme, made) in enumerate(SCHEMES.items()):
        for j, (recipe, options) in enumerate(_RECIPES.items()):
            if scheme == "SampleReshuffling 2" and recipe not in ("mean", "mean square"):
                # Ten seconds each; the same search as of batches of two rows.
                continue
            problem = list(PROBLEMS)[(3 * i + j) % len(PROBLEMS)]
            yield (
                f"critical step | {problem} | {scheme} | {recipe}",
                lambda problem=problem, made=made, options=options: _critical_step(
                    PROBLEMS[problem](), made(), options
                ),
            )
        yield f"simulate | tall | {scheme}", lambda made=made: _simulated(PROBLEMS["tall"](), made())
    for scheme, made in LONG_SCHEMES.items():
        for recipe in ("mean", "mean square"):
            yield (
                f"critical step | 48 rows | {scheme} | {recipe}",
                lambda made=made, options=_RECIPES[recipe]: _critical_step(
                    LONG["48 rows"](), made(), options
                ),
            )
