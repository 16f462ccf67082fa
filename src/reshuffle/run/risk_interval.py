"""Bounds on the risk that need Z alone."""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray
from reshuffle.epoch.averaging.base import repeated_step
from reshuffle.epoch.epoch import Epoch
from reshuffle.epoch.select import climbs
from reshuffle.run.risk import Risk


@dataclass(frozen=True, eq=False)
class RiskInterval:
    """The risk lies between `lower` and `upper`, each of the shape of `epochs`, or epochs.shape + (t,)."""

    epochs: FloatArray
    lower: FloatArray
    upper: FloatArray


def two_batch_interval(epoch: Epoch, risk: Risk, drift: FloatArray) -> RiskInterval:
    """Bound the risk of two-batch descent without Xtilde'Xtilde (Proposition twobatch_generr_Zonly).

    The variance lies between (1 -+ step |W|) times noise^2 tr(G Sigma G Z^+) / n, with G = I - (I - 2 step Z)^k and
    W = (W_1 + W_2) / 2, provided step |W| <= 1. The cross term that the paper omits is part of both ends. With
    unequal batches Xtilde_b carries the weight n / (2 m_b), and the ends the smaller and the larger of the two.

    Parameters
    ----------
    epoch : Epoch
        Of RandomReshuffling with two batches.
    risk : Risk
        The exact risk, of which frozen, bias and cross are used.
    drift : (..., r)
        The geometric sums of the modes at the same epochs.
    """
    if not (climbs(epoch.scheme) and epoch.blocks.batches == 2):
        raise ValueError(
            f"risk_interval holds for RandomReshuffling with 2 batches, but the scheme is {epoch.scheme}; "
            "risk(epochs) is exact for every scheme."
        )
    reach = epoch.mean.stride / 2 * _norm(epoch)
    if reach > 1 + 1e-12:
        raise ValueError(
            f"risk_interval needs step <= 1 / |W| = {epoch.step / reach:.6g}, but step is {epoch.step:.6g}; "
            "risk(epochs) is exact for every step."
        )
    weights = epoch.problem.n / (2 * epoch.blocks.divisors)
    spread = _noise_through_inverse(epoch, drift)
    rest = risk.frozen + risk.bias + risk.cross
    return RiskInterval(
        epochs=risk.epochs,
        lower=rest + max(1 - reach, 0.0) * weights.min() * spread,
        upper=rest + (1 + reach) * weights.max() * spread,
    )


def _norm(epoch: Epoch) -> float:
    """|W| of the features divided by their scale."""
    factor = repeated_step(epoch.blocks, 1.0, 2).factor
    return float(scipy.linalg.svdvals(factor).max(initial=0.0)) ** 2


def _noise_through_inverse(epoch: Epoch, drift: FloatArray) -> FloatArray:
    """noise^2 tr(G Sigma G Z^+) / n."""
    problem = epoch.problem
    _, covariance, noise = problem.truth("risk_interval")
    lifted = problem.row_space.lift(epoch.modes.vectors)
    sizes = np.einsum("ij,ij->j", lifted, covariance.apply(lifted))
    # G^2 / z = stride^2 z drift^2 for an eigenvalue z of Z: no division, so frozen modes take care of themselves.
    moving = np.where(epoch.decay_rates == 0, 0.0, drift)
    with np.errstate(over="ignore", invalid="ignore"):
        amplitude = noise * epoch.mean.stride / problem.row_space.scale * moving
        weighed = np.where(moving == 0, 0.0, amplitude * np.sqrt(sizes * epoch.modes.values / problem.n))
        return np.asarray(np.square(weighed).sum(axis=-1))
