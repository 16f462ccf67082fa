"""Coefficients of expressions: numbers, or square matrices beside which a number is a multiple of the identity."""

from typing import Any

import numpy as np

Coefficient = Any
"""A number, or a square matrix of numbers."""


def is_nonzero(value: Coefficient) -> bool:
    """Whether anything is left of a term."""
    return bool(np.any(value)) if is_matrix(value) else value != 0


def added(left: Coefficient, right: Coefficient) -> Coefficient:
    """Their sum; a number stands for so many times the identity."""
    if is_matrix(left) == is_matrix(right):
        return left + right
    if is_matrix(left):
        return left + right * np.eye(len(left))
    return left * np.eye(len(right)) + right


def multiplied(left: Coefficient, right: Coefficient) -> Coefficient:
    """Their product, in this order."""
    return left @ right if is_matrix(left) and is_matrix(right) else left * right


def key_of(value: Coefficient) -> Any:
    """What tells a coefficient from others, to be hashed."""
    return (value.shape, np.asarray(value, dtype=complex).tobytes()) if np.ndim(value) else value


def is_matrix(value: Coefficient) -> bool:
    """Whether it is no number."""
    # np.ndim would make an array of every number.
    return isinstance(value, np.ndarray) and value.ndim > 0
