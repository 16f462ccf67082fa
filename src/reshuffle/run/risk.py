"""Test error of the mean iterate, as quadratic forms in its modes, and bounds on it that need Z alone."""

from dataclasses import dataclass, field, fields

import numpy as np
import scipy.linalg

from reshuffle._arrays import BoolArray, FloatArray
from reshuffle._display import Displayed
from reshuffle._linalg import few_threads, row_norms
from reshuffle._uncertainty import ErrorKind, significant, with_error
from reshuffle.epoch.averaging.lattice import climbs
from reshuffle.epoch.averaging.samples import repeated_step
from reshuffle.epoch.epoch import Epoch
from reshuffle.problem.least_squares import Covariance, LeastSquares
from reshuffle.problem.row_space import RowSpace

_UNSEEN = 1e-14
"""Weight of a coordinate, relative to the largest, that is mere rounding."""


@dataclass(frozen=True, eq=False)
class Risk(Displayed):
    """R = frozen + bias + cross + variance (Theorem batch_generr_exact, with the cross term it lacks).

    Each part has the shape of `epochs`, or epochs.shape + (t,) of t outputs; a part that grows without bound is
    inf, and so is the total.

    Attributes
    ----------
    epochs : array
        The epochs (or, for gradient flow, the times) asked for.
    frozen : array
        e_0' P_0 Sigma P_0 e_0, of the components that are never learned.
    bias : array
        e_0' P_Z A^k Sigma A^k P_Z e_0, of those not learned yet; A = I - B step Z.
    cross : array
        2 e_0' P_0 Sigma A^k P_Z e_0; zero when Sigma is a multiple of the identity.
    variance : array
        What the noise in the responses adds.
    error : array
        How far the total may be off because the mean over orders is not exact: 0 where it is, an estimate for
        the cavity equation, and for sampling so much that at least 99 of 100 seeds are within.
    error_kind : str
        In which sense it is meant: "exact", "bound", "confidence 99%" or "estimate".
    """

    _shown = ("epochs", "total", "frozen", "bias", "cross", "variance", "error", "error_kind")

    epochs: FloatArray
    frozen: FloatArray
    bias: FloatArray
    cross: FloatArray
    variance: FloatArray
    error: FloatArray = field(default_factory=lambda: np.zeros(()))
    error_kind: ErrorKind = "exact"

    @property
    def total(self) -> FloatArray:
        """The sum of the parts."""
        infinite = np.isinf(self.frozen) | np.isinf(self.bias) | np.isinf(self.variance)
        # The cross term grows like the root of the bias: where both are infinite it cannot turn the sign.
        cross = np.where(infinite, 0.0, self.cross)
        with np.errstate(over="ignore"):
            total = self.frozen + self.bias + cross + self.variance
        # The parts of a risk of zero may cancel to just below it.
        return np.maximum(total, 0.0)

    def __repr__(self) -> str:
        shape = self.total.shape
        if self.epochs.size == 0:
            return f"Risk(shape={shape})"
        if len(shape):
            largest = float(self.error.max(initial=0.0))
            off = f" +- {significant(largest, 2)} at most ({self.error_kind})" if largest else ""
            span = f"total from {self.total.min():.6g} to {self.total.max():.6g}"
            return f"Risk(shape={shape}, {span}{off})"
        parts = ", ".join(f"{part.name}={float(getattr(self, part.name)):.6g}" for part in fields(Risk)[1:5])
        return f"Risk(total={with_error(self.total, self.error, self.error_kind)}: {parts})"


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """a -> (d a)' S (d a), with amplitudes d (r,) >= 0 and S positive semidefinite, or the identity if None.

    Amplitudes are kept apart from S: their squares, which may overflow, are taken together with what they multiply.
    """

    amplitude: FloatArray
    matrix: FloatArray | None = None

    @property
    def sees(self) -> BoolArray:
        """True for the entries of `a` that the form depends on."""
        seen = self.amplitude > 0
        return seen if self.matrix is None else seen & (np.diagonal(self.matrix) > 0)

    def __call__(self, vectors: FloatArray) -> FloatArray:
        """Evaluate at each vector of (..., r); infinite entries give inf unless the form does not see them."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            # An amplitude beyond the range of numbers makes nothing of nothing.
            weighted = np.where(self.sees & (vectors != 0), vectors * self.amplitude, 0.0)
            across = weighted if self.matrix is None else weighted @ self.matrix
            value = np.einsum("...i,...i->...", across, weighted)
        return np.where(np.isfinite(value), np.maximum(value, 0.0), np.inf)

    def gradient(self, vectors: FloatArray) -> FloatArray:
        """Half the gradient, d S (d a), at each finite vector of (..., r)."""
        weighted = vectors * self.amplitude
        return (weighted if self.matrix is None else weighted @ self.matrix) * self.amplitude


def linear_form(weights: FloatArray, vectors: FloatArray) -> FloatArray:
    """The form a -> w'a at each vector of (..., r), infinite where an entry that counts is."""
    if not weights.any():
        return np.zeros(vectors.shape[:-1])
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.where(weights == 0, 0.0, vectors * weights).sum(axis=-1)
    return np.where(np.isnan(value), np.inf, value)


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
        input_map: FloatArray,
        covariance: Covariance,
        noise: float,
    ) -> "RiskForms":
        """Collect the forms, for an initial error (p,), the input map (r, rows) of the noise, and the truth.

        Modes (r, r) are in row-space coordinates; `frozen_modes` (r,) are those of the null space of Z.
        """
        inside = modes.T @ space.coordinates(error)
        moving = np.where(frozen_modes, 0.0, inside)
        stuck = space.outside(error) + space.lift(modes @ np.where(frozen_modes, inside, 0.0))
        with np.errstate(over="ignore"):
            norms = noise * row_norms(input_map)
        frozen = covariance.norm_squared(stuck)
        if covariance.is_isotropic:
            root = float(np.sqrt(covariance.apply(np.ones(1))[0]))
            with np.errstate(over="ignore"):
                bias, variance = QuadraticForm(root * np.abs(moving)), QuadraticForm(root * norms)
            return cls(frozen, bias, np.zeros_like(moving), variance)
        lifted = space.lift(modes)
        gram = covariance.gram(lifted)
        signs = np.sign(moving)
        units = noise * input_map / np.where(norms == 0, 1.0, norms)[:, np.newaxis]
        with np.errstate(over="ignore", invalid="ignore"):
            # Beyond the range of numbers any large one does: what is frozen is infinite there, or the bias.
            cross = np.nan_to_num(2 * moving * (lifted.T @ covariance.apply(stuck)))
        return cls(
            frozen=frozen,
            bias=QuadraticForm(np.abs(moving), gram * np.outer(signs, signs)),
            cross=cross,
            variance=QuadraticForm(norms, gram * (units @ units.T)),
        )

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


@dataclass(frozen=True, eq=False)
class RiskInterval(Displayed):
    """The risk lies between `lower` and `upper`, each of the shape of `epochs`, or epochs.shape + (t,)."""

    _shown = ("epochs", "lower", "upper")

    epochs: FloatArray
    lower: FloatArray
    upper: FloatArray


def two_batch_interval(epoch: Epoch, problem: LeastSquares, risk: Risk, drift: FloatArray) -> RiskInterval:
    """Bound the risk of two-batch descent without Xtilde'Xtilde (Proposition twobatch_generr_Zonly).

    The variance lies between (1 -+ step |W|) times noise^2 tr(G Sigma G Z^+) / n, with G = I - (I - 2 step Z)^k and
    W = (W_1 + W_2) / 2, provided step |W| <= 1. The cross term that the paper omits is part of both ends. With
    unequal batches Xtilde_b carries the weight n / (2 m_b), and the ends the smaller and the larger of the two.
    `risk` is exact, and its frozen, bias and cross are used; `drift` (..., r) are the geometric sums of the modes.
    """
    if not (climbs(epoch.scheme) and epoch.blocks.batches == 2):
        raise ValueError(
            f"risk_interval holds for RandomReshuffling with 2 batches, but the scheme is {epoch.scheme}; "
            "risk(epochs) is exact for every scheme."
        )
    # |W| of the features divided by their scale.
    norm = float(scipy.linalg.svdvals(repeated_step(epoch.blocks, 1.0, 2).factor).max(initial=0.0)) ** 2
    reach = epoch.mean.stride / 2 * norm
    if reach > 1 + 1e-12:
        raise ValueError(
            f"risk_interval needs step <= 1 / |W| = {epoch.step / reach:.6g}, but step is {epoch.step:.6g}; "
            "risk(epochs) is exact for every step."
        )
    _, covariance, noise = problem.truth("risk_interval")
    lifted = problem.row_space.lift(epoch.modes.vectors)
    sizes = np.einsum("ij,ij->j", lifted, covariance.apply(lifted))
    # G^2 / z = stride^2 z drift^2 for an eigenvalue z of Z: no division, so frozen modes take care of themselves.
    moving = np.where(epoch.decay_rates == 0, 0.0, drift)
    with np.errstate(over="ignore", invalid="ignore"):
        amplitude = noise * epoch.mean.stride / problem.row_space.scale * moving
        weighted = np.where(moving == 0, 0.0, amplitude * np.sqrt(sizes * epoch.modes.values / problem.n))
        spread = np.square(weighted).sum(axis=-1)
    weights = problem.n / (2 * epoch.blocks.divisors)
    rest = risk.frozen + risk.bias + risk.cross
    lower = rest + max(1 - reach, 0.0) * weights.min() * spread
    return RiskInterval(risk.epochs, lower, rest + (1 + reach) * weights.max() * spread)


class Readout:
    """|V u / scale + o|_Sigma^2 for the error u (r,) inside the row space and o (p,) outside.

    Outside, nothing but a penalty acts: o = decay start - beta_star, both without what X sees of them.
    """

    def __init__(self, space: RowSpace, covariance: Covariance, start: FloatArray, beta_star: FloatArray):
        self.space = space
        with few_threads(np.sqrt(space.p * space.dimension)):
            self.gram = covariance.gram(space.lift(np.eye(space.dimension)))
        sizes = np.abs(self.gram).max(axis=0, initial=0.0)
        self._unseen: BoolArray = sizes <= _UNSEEN * sizes.max(initial=0.0)
        ends = np.stack([space.outside(start), space.outside(beta_star)])
        with np.errstate(over="ignore", invalid="ignore"):
            weighted = covariance.apply(ends.T)
            self._outer, self._inner = ends @ weighted, space.coordinates(weighted)

    def outside(self, decay: float) -> float:
        """|o|_Sigma^2."""
        if np.isinf(decay) and self._outer[0, 0] > 0:
            return np.inf
        weights = self._weights(decay)
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(weights @ self._outer @ weights)
        return max(value, 0.0) if np.isfinite(value) else np.inf

    def _weights(self, decay: float) -> FloatArray:
        """Factors of start and beta_star in o; where nothing starts outside nothing can grow there."""
        return np.array([decay if np.isfinite(decay) else 0.0, -1.0])

    def between(self, mean: FloatArray, decay: float) -> float:
        """2 o'Sigma V u / scale, for the mean u of the errors."""
        seen = np.where(self._unseen, 0.0, mean)
        with np.errstate(over="ignore", invalid="ignore"):
            return 2 * float((self._inner @ self._weights(decay)) @ (seen / self.space.scale))

    def inside(self, second: FloatArray) -> float:
        """The trace of Sigma and the second moment V E[u u'] V' / scale^2."""
        seen = np.where(self._unseen | self._unseen[:, np.newaxis], 0.0, second)
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(np.vdot(self.gram, seen / self.space.scale / self.space.scale))
        return value if np.isfinite(value) else np.inf

    def size(self, second: FloatArray) -> float:
        """The sum of the sizes of the terms of `inside`, to which its rounding is relative."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.vdot(np.abs(self.gram), np.abs(second / self.space.scale / self.space.scale)))

    def inside_of(self, columns: FloatArray) -> float:
        """The sum of |V u / scale|_Sigma^2 over the columns u of (r, c)."""
        # What Sigma does not see may grow as it likes.
        seen = np.where(self._unseen[:, np.newaxis], 0.0, columns)
        with few_threads(len(self.gram)), np.errstate(over="ignore", invalid="ignore"):
            unit = seen / self.space.scale
            value = float(np.vdot(unit, self.gram @ unit))
        return max(value, 0.0) if np.isfinite(value) else np.inf

    def risks(self, states: FloatArray, decay: float, noise: float) -> FloatArray:
        """The risk of each of several states (k, r, 1 + rows): of the mean, and of the noise in each row."""
        used = states if noise else states[..., :1]
        with few_threads(len(self.gram)), np.errstate(over="ignore", invalid="ignore"):
            seen = np.where(self._unseen[:, np.newaxis], 0.0, used) / self.space.scale
            seen[..., 1:] *= noise
            squares = np.einsum("kij,kij->k", seen, self.gram @ seen)
            along = 2 * (seen[..., 0] @ (self._inner @ self._weights(decay)))
            totals = np.maximum(np.maximum(squares, 0.0) + along + self.outside(decay), 0.0)
        return np.where(np.isfinite(squares) & np.isfinite(totals), totals, np.inf)
