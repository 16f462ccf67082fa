"""What tells a problem, a recipe or a question from every other: a hash of all that enters its answers."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.schemes.base import Scheme
from reshuffle.sweeps.asked import Question
from reshuffle.sweeps.grid import Point

FORMAT = 1
"""Of what is kept of answers: another one makes other names."""


class UnknownContentError(TypeError):
    """Something whose content cannot be told, such as a function."""


def of_problem(problem: LeastSquares) -> str:
    """Of the rows or what stands for them, the responses, weights and the truth, to the last bit."""
    if problem.stream is not None:
        raise UnknownContentError(
            "cache must tell every data set from others, but these rows are read in chunks, and must be read once "
            "more for that; put them into an Accumulator first, or leave cache out."
        )
    parts = {name: getattr(problem, name) for name in ("sample_weight", "beta_star", "noise")}
    return of({**parts, "covariance": problem.covariance.value, "rows": problem.compressed})


def of(content: Any) -> str:
    """The hash of anything that is made of numbers, words, arrays, schemes and averages, 64 letters.

    >>> of([1, 2.0]) == of([1, 2.0]), of([1, 2.0]) == of([1, 2.5])
    (True, False)
    """
    return hashlib.sha256(json.dumps(_plain(content), sort_keys=True).encode()).hexdigest()


def _plain(content: Any) -> Any:
    """The same in the few types that are written alike everywhere; floats to the last bit."""
    if content is None or isinstance(content, (bool, int, str)):
        return content
    if isinstance(content, (float, np.floating)):
        return ["float", float(content).hex()]
    if isinstance(content, (np.bool_, np.integer)):
        return content.item()
    if isinstance(content, np.ndarray) and content.dtype.kind in "biuf":
        dense = np.ascontiguousarray(content)
        return ["array", dense.dtype.str, list(dense.shape), hashlib.sha256(dense.data).hexdigest()]
    if isinstance(content, Mapping):
        return {str(name): _plain(value) for name, value in content.items()}
    if isinstance(content, (tuple, list)):
        return [_plain(value) for value in content]
    if isinstance(content, Scheme):
        return [_name(content), _plain(content.settings)]
    if is_dataclass(content):
        return [_name(content), {each.name: _plain(getattr(content, each.name)) for each in fields(content)}]
    raise UnknownContentError(
        f"cache must tell every recipe and data set from others, but {content!r} does not show what is in it; "
        "give numbers or arrays in its place, or leave cache out."
    )


def _name(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


@dataclass
class AnswerNames:
    """The hashes by which answers are known, and the data behind them."""

    problems: Sequence[LeastSquares]
    epochs: FloatArray
    exact: bool
    data: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.data = [self._hash(of_problem, problem) for problem in self.problems]

    def _hash(self, function: Callable[[Any], str], content: Any) -> str:
        try:
            return function(content)
        except UnknownContentError:
            if self.exact:
                raise
            return ""

    def of(self, number: int, point: Point, question: Question) -> str:
        """That of a question at a point; where its content cannot be told, its place in this grid."""
        from reshuffle import __version__

        run = point.run(self.problems[point.problem])
        recipe = run.recipe
        if recipe.is_constant:
            known = recipe.at(0).step if question.knows_step else 0.0
            recipe = replace(recipe, schedule=known, divisor=1)
        content = {
            "format": FORMAT,
            "version": __version__,
            "data": self.data[point.problem],
            "scheme": run.scheme,
            "recipe": recipe,
            "start": run.start,
            "accuracy": run.accuracy,
            "question": question.name,
            "epochs": self.epochs if question.is_curve else None,
        }
        found = self._hash(of, content)
        return found if found and self.data[point.problem] else f"{number} {question.name}"
