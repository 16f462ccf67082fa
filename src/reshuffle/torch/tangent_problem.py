"""The least-squares problem of a network that is linear in its weights."""

from reshuffle._core import FloatArray
from reshuffle.problem import LeastSquares
from reshuffle.problem.kernel_features import KernelFeatures


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
