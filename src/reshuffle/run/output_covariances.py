"""The spread of single runs of several outputs: that of each."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ErrorKind
from reshuffle.problem.outputs import stacked
from reshuffle.run.parameter_covariance import ParameterCovariance


@dataclass(frozen=True, eq=False)
class OutputCovariances:
    """`ParameterCovariance` of each of t outputs, for the same epochs: the outputs are the last axis of all arrays.

    Attributes
    ----------
    outputs : list of ParameterCovariance
        That of each output by itself.

    >>> import reshuffle as rs
    >>> problem = rs.LeastSquares([[1.0], [2.0]], [[1.0, 2.0], [0.0, 0.0]])
    >>> found = rs.descend(problem, rs.RandomReshuffling(2), step=0.1).covariance([1, 2])
    >>> found.matrix.shape, found.trace.round(6).tolist()
    ((2, 1, 1, 2), [[0.0004, 0.0016], [0.000517, 0.002067]])
    """

    outputs: list[ParameterCovariance]

    def __repr__(self) -> str:
        p = self.outputs[0]._space.p
        return f"OutputCovariances(shape={(*self.epochs.shape, p, p, len(self.outputs))})"

    @property
    def epochs(self) -> FloatArray:
        """As asked for."""
        return self.outputs[0].epochs

    @property
    def error(self) -> FloatArray:
        """How far each matrix may be off in the Frobenius norm, epochs.shape + (t,)."""
        return stacked([one.error for one in self.outputs])

    @property
    def error_kind(self) -> ErrorKind:
        """In which sense."""
        return next((one.error_kind for one in self.outputs if one.error.any()), self.outputs[0].error_kind)

    @property
    def factor(self) -> FloatArray:
        """F of shape epochs.shape + (p, r, t)."""
        return stacked([one.factor for one in self.outputs])

    @property
    def matrix(self) -> FloatArray:
        """The covariances themselves, epochs.shape + (p, p, t)."""
        return stacked([one.matrix for one in self.outputs])

    @property
    def trace(self) -> FloatArray:
        """E |beta_k - E beta_k|^2, epochs.shape + (t,)."""
        return stacked([one.trace for one in self.outputs])

    @property
    def standard_deviations(self) -> FloatArray:
        """Of each parameter, epochs.shape + (p, t)."""
        return stacked([one.standard_deviations for one in self.outputs])

    def deviation(self, X_new: ArrayLike) -> FloatArray:
        """The standard deviations of what single runs say of new rows X_new (m, p), epochs.shape + (m, t)."""
        return stacked([one.deviation(X_new) for one in self.outputs])

    def deviation_error(self, X_new: ArrayLike) -> FloatArray:
        """How far `deviation(X_new)` may be off, epochs.shape + (m, t), in the sense of `error_kind`."""
        return stacked([one.deviation_error(X_new) for one in self.outputs])
