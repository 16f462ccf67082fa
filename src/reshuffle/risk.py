"""The test error of the mean iterate, as quadratic forms in its modes."""

from dataclasses import dataclass, fields

import numpy as np

from reshuffle.arrays import BoolArray, FloatArray
from reshuffle.covariance import Covariance
from reshuffle.row_space import RowSpace


@dataclass(frozen=True, eq=False)
class Risk:
    """R = frozen + bias + cross + variance (Theorem batch_generr_exact, with the cross term it lacks).

    Each part has the shape of `time`; a part that grows without bound is inf, and so is the total.

    Attributes
    ----------
    time :
        The epochs (or, for gradient flow, the times) asked for.
    frozen :
        e_0' P_0 Sigma P_0 e_0, of the components that are never learned.
    bias :
        e_0' P_Z A^k Sigma A^k P_Z e_0, of those not learned yet; A = I - B step Z.
    cross :
        2 e_0' P_0 Sigma A^k P_Z e_0; zero when Sigma is a multiple of the identity.
    variance :
        What the noise in the responses adds.
    """

    time: FloatArray
    frozen: FloatArray
    bias: FloatArray
    cross: FloatArray
    variance: FloatArray

    @property
    def total(self) -> FloatArray:
        """The sum of the parts."""
        infinite = np.isinf(self.bias) | np.isinf(self.variance)
        # The cross term grows like the root of the bias: where both are infinite it cannot turn the sign.
        cross = np.where(infinite, 0.0, self.cross)
        return self.frozen + self.bias + cross + self.variance

    def __repr__(self) -> str:
        if self.time.size == 0:
            return f"Risk(shape={self.time.shape})"
        if self.time.ndim:
            return (
                f"Risk(shape={self.time.shape}, total from {self.total.min():.6g} to {self.total.max():.6g})"
            )
        parts = ", ".join(f"{part.name}={float(getattr(self, part.name)):.6g}" for part in fields(self)[1:])
        return f"Risk(total={float(self.total):.6g}: {parts})"


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """a -> a' S a with S positive semidefinite, kept as its diagonal where it is diagonal."""

    matrix: FloatArray

    @property
    def diagonal(self) -> FloatArray:
        """The diagonal of S, zero for entries that S does not see."""
        return self.matrix if self.matrix.ndim == 1 else np.diagonal(self.matrix)

    def __call__(self, vectors: FloatArray) -> FloatArray:
        """Evaluate at each vector of (..., r); infinite entries give inf unless S does not see them."""
        if self.matrix.ndim == 1:
            return self._diagonal(vectors)
        grows = np.isinf(vectors)
        finite = np.where(grows, 0.0, vectors)
        # Dividing by the largest entry keeps the squares in range: no inf - inf in the sums.
        size = np.abs(finite).max(axis=-1, initial=0.0)
        unit = finite / np.where(size == 0, 1.0, size)[..., np.newaxis]
        value = np.maximum((unit * self.gradient(unit)).sum(axis=-1), 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            value = np.where(value == 0, 0.0, size * (size * value))
        return np.where((grows & (self.diagonal > 0)).any(axis=-1), np.inf, value)

    def _diagonal(self, vectors: FloatArray) -> FloatArray:
        seen = self.matrix > 0
        chosen = vectors if seen.all() else vectors[..., seen]
        with np.errstate(over="ignore", under="ignore"):
            weighted = chosen * np.sqrt(self.matrix[seen])
            return np.asarray(np.einsum("...i,...i->...", weighted, weighted))

    def gradient(self, vectors: FloatArray) -> FloatArray:
        """S a, half the gradient, at each finite vector of (..., r)."""
        return vectors * self.matrix if self.matrix.ndim == 1 else vectors @ self.matrix


def linear_form(weights: FloatArray, vectors: FloatArray) -> FloatArray:
    """A -> w'a at each vector of (..., r); infinite entries give an infinity of the sign of their sum."""
    if not weights.any():
        return np.zeros(vectors.shape[:-1])
    grows = np.isinf(vectors)
    finite = np.where(grows, 0.0, vectors)
    with np.errstate(over="ignore", invalid="ignore"):
        value = finite @ weights
        escaping = np.where(grows, np.sign(vectors), 0.0) @ weights
        value = np.where(np.isnan(value), np.inf, value)
        return np.where(escaping == 0, value, np.copysign(np.inf, escaping))


@dataclass(frozen=True, eq=False)
class RiskForms:
    """The risk as a function of decay and drift: frozen + bias(decay) + cross . decay + variance(drift).

    `bias` and `cross` speak of decay(t) alone and `variance` of drift(t) alone, both (..., r), so a whole
    learning curve costs one product with an (r, r) matrix, or none at all when Sigma is a multiple of I.
    """

    frozen: float
    bias: QuadraticForm
    cross: FloatArray
    variance: QuadraticForm

    @classmethod
    def of(
        cls,
        *,
        space: RowSpace,
        modes: FloatArray,
        frozen_modes: BoolArray,
        error: FloatArray,
        pull: FloatArray,
        covariance: Covariance,
        noise: float,
    ) -> "RiskForms":
        """Collect the forms, for an initial error (p,), the pull (r, rows) of the noise, and the truth.

        Parameters
        ----------
        space : RowSpace
        modes : (r, r)
            In row-space coordinates.
        frozen_modes : (r,)
            Those of the null space of Z.
        """
        inside = modes.T @ space.coordinates(error)
        moving = np.where(frozen_modes, 0.0, inside)
        stuck = space.outside(error) + space.lift(modes @ np.where(frozen_modes, inside, 0.0))
        noisy = noise * pull
        if covariance.is_isotropic:
            sigma = float(covariance.apply(np.ones(1))[0])
            with np.errstate(over="ignore", under="ignore"):
                bias, variance = sigma * moving**2, sigma * np.square(noisy).sum(axis=1)
            cross = np.zeros_like(moving)
        else:
            lifted = space.lift(modes)
            gram = covariance.gram(lifted)
            with np.errstate(over="ignore", under="ignore"):
                bias = gram * np.outer(moving, moving)
                variance = gram * (noisy @ noisy.T)
            cross = 2 * moving * (lifted.T @ covariance.apply(stuck))
        return cls(covariance.norm_squared(stuck), QuadraticForm(bias), cross, QuadraticForm(variance))

    def parts(self, decay: FloatArray, drift: FloatArray) -> FloatArray:
        """Frozen, bias, cross and variance, (4, times), at decay and drift of shape (times, r)."""
        return np.stack(
            [
                np.full(len(decay), self.frozen),
                self.bias(decay),
                linear_form(self.cross, decay),
                self.variance(drift),
            ]
        )
