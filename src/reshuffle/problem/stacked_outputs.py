"""Answers about many outputs: those of each output beside each other, the outputs last."""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, cast

import numpy as np

from reshuffle._core import FloatArray
from reshuffle._core.numerics import norms
from reshuffle.problem.least_squares import LeastSquares

_SHARED = ("epochs", "error_kind", "runs")
"""What all outputs have in common."""


class HasOutputs(Protocol):
    """A run, or gradient flow."""

    problem: LeastSquares

    def output(self, number: int) -> Self:
        """The same of one output alone."""


Asked = TypeVar("Asked", bound=HasOutputs)
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def per_output(
    method: Callable[Concatenate[Asked, Given], Answer],
) -> Callable[Concatenate[Asked, Given], Answer]:
    """Let a question about one output be answered for many, one after the other."""

    @wraps(method)
    def asked(run: Asked, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        if run.problem.outputs is None:
            return method(run, *args, **kwargs)
        return stacked([method(run.output(number), *args, **kwargs) for number in range(run.problem.outputs)])

    return cast(Callable[Concatenate[Asked, Given], Answer], asked)


def stacked(answers: Sequence[Answer]) -> Answer:
    """Dataclasses field by field, arrays with the outputs as their last axis, numbers as an array (t,).

    >>> stacked([np.zeros((3, 2)), np.ones((3, 2))]).shape
    (3, 2, 2)
    >>> stacked([1.5, 2.0])
    array([1.5, 2. ])
    """
    first: Any = answers[0]
    if first is None or isinstance(first, str):
        return cast(Answer, first)
    if not is_dataclass(first):
        return cast(Answer, np.stack([np.asarray(answer) for answer in answers], axis=-1))
    own = [field.name for field in fields(first) if field.name not in _SHARED]
    parts = {name: stacked([getattr(answer, name) for answer in answers]) for name in own}
    return cast(Answer, replace(cast(Any, first), **parts))


def lengths(vectors: FloatArray, outputs: int | None) -> FloatArray:
    """The Euclidean norms of parameters (..., p), or of those of each output, (..., p, t) to (..., t)."""
    return norms(vectors if outputs is None else vectors.swapaxes(-1, -2))
