"""Several outputs: responses (n, t) in place of (n,), and answers with the outputs as their last axis.

Every output has its own responses, truth, noise and start; the features and the orders are those of all. So
whatever an epoch does to parameters is found once, and outputs are columns that it is applied to;
answers about many are those of each beside each other, the outputs last.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, cast

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._linalg import norms
from reshuffle.problem.row_space import RowSpace

if TYPE_CHECKING:
    from reshuffle.problem.least_squares import LeastSquares


def of_output(values: FloatArray, output: int) -> FloatArray:
    """The column (k,) of one output, from (k, t); a vector (k,) belongs to all outputs."""
    return values if values.ndim == 1 else np.ascontiguousarray(values[:, output])


def beside(inputs: FloatArray) -> FloatArray:
    """Inputs (z,) or (z, t) as columns (z, t)."""
    return inputs[:, np.newaxis] if inputs.ndim == 1 else inputs


def with_outputs(shape: tuple[int, ...], outputs: int | None) -> tuple[int, ...]:
    """The shape of what has a number per output."""
    return shape if outputs is None else (*shape, outputs)


def lifted_rows(space: RowSpace, inside: FloatArray) -> FloatArray:
    """Parameters (..., p) from coordinates (..., r) of the row space."""
    flat = inside.reshape(math.prod(inside.shape[:-1]), inside.shape[-1])
    return space.lift(flat.T).T.reshape(*inside.shape[:-1], space.p)


def outputs_last(parameters: FloatArray, shape: tuple[int, ...], outputs: int | None) -> FloatArray:
    """Parameters (times, p) as shape + (p,), or (times, t, p) as shape + (p, t)."""
    arranged = parameters.reshape(*shape, *parameters.shape[1:])
    return arranged if outputs is None else np.ascontiguousarray(arranged.swapaxes(-1, -2))


_SHARED = ("epochs", "error_kind", "runs")
"""What all outputs have in common."""


class HasOutputs(Protocol):
    """A run, or gradient flow."""

    problem: "LeastSquares"

    def output(self, number: int) -> Self:
        """The run of one output alone."""


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
