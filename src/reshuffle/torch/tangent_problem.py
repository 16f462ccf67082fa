"""The least-squares problem of a network that is linear in its weights, and its kernel J J'."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._progress import track
from reshuffle.problem import LeastSquares
from reshuffle.problem.kernel import KernelFeatures
from reshuffle.torch.layer_signals import layer_signals
from reshuffle.torch.tangents import Tangents


class TangentProblem(LeastSquares):
    """Learn y - f(x) by a change of the weights: a row per sample and output, those of a sample together.

    The outputs of a network share its parameters, so that there are n t rows and one vector of parameters: row
    t i + o is the gradient of output o at sample i.

    Parameters
    ----------
    X : (n t, p)
        Tangent features.
    y : (n, t)
        What the targets are beyond what the network says.

    Attributes
    ----------
    outputs_per_sample : int
        t.

    >>> import numpy as np
    >>> TangentProblem(np.ones((4, 3)), np.zeros((2, 2)))
    LeastSquares(n=4, p=3, truth unknown)
    """

    outputs_per_sample: int

    def __init__(self, X: FloatArray, y: FloatArray):
        super().__init__(X, y.ravel())
        self.outputs_per_sample = y.shape[1]

    @classmethod
    def of_kernel(cls, features: KernelFeatures, y: FloatArray) -> "TangentProblem":
        """The same by the features of the tangent kernel (n t, n t)."""
        made = cls(features.rows, y)
        made.reduction = features.reduction(made.y)
        return made


def tangent_kernel(tangents: Tangents, inputs: Any, outputs: int, others: Any = None) -> FloatArray:
    """K = J(x) J(x')', (n t, m t), between inputs and others, or among themselves.

    Parameters
    ----------
    tangents : Tangents
    inputs : (n, ...)
    outputs : int
        t.
    others : (m, ...), optional

    >>> import torch
    >>> model = torch.nn.Linear(1, 1, dtype=torch.float64)
    >>> tangent_kernel(Tangents(model), torch.tensor([[0.0], [2.0]], dtype=torch.float64), 1).tolist()
    [[1.0, 1.0], [1.0, 5.0]]
    """
    signals = layer_signals(tangents, inputs)
    seen = signals if others is None or signals is None else layer_signals(tangents, others)
    if signals is not None and seen is not None:
        kernel = signals[0].between(seen[0])
        for layer, other in zip(signals[1:], seen[1:], strict=True):
            kernel += layer.between(other)
        return kernel
    return _by_blocks(tangents, inputs, outputs, others)


def _by_blocks(tangents: Tangents, inputs: Any, outputs: int, others: Any) -> FloatArray:
    """The same from gradients, of two blocks of samples at a time."""
    against, is_own = (inputs, True) if others is None else (others, False)
    height = tangents.height(2 * outputs)
    kernel = np.empty((outputs * len(inputs), outputs * len(against)))
    for down in track(_blocks(len(inputs), height), None, "computing the tangent kernel"):
        rows = tangents.rows(inputs[down])
        place = slice(outputs * down.start, outputs * down.stop)
        for across in _blocks(len(against), height):
            if is_own and across.start < down.start:
                continue
            same = is_own and across == down
            columns = rows if same else tangents.rows(against[across])
            beside = slice(outputs * across.start, outputs * across.stop)
            kernel[place, beside] = rows @ columns.T
            if is_own and not same:
                kernel[beside, place] = kernel[place, beside].T
    return kernel


def _blocks(samples: int, height: int) -> Iterator[slice]:
    for start in range(0, samples, height):
        yield slice(start, min(start + height, samples))
