"""One pass over fresh data: the expected risk of a run along its steps, for any number of features."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ErrorKind, with_error
from reshuffle.asymptotics.streaming import one_pass_arguments
from reshuffle.asymptotics.streaming.bracketed_risk import OnePassRecipe
from reshuffle.asymptotics.streaming.one_pass_arguments import Values
from reshuffle.asymptotics.streaming.settled_risk import OnePassStability

CELLS = 256
"""Cells that eigenvalues are sorted into, if there are more distinct ones."""


@dataclass(frozen=True, eq=False)
class OnePass:
    """The risk of one pass over fresh samples, made by `one_pass`.

    Attributes
    ----------
    steps : array of any shape
        The numbers of steps asked for; math.inf is the limit.
    risk : array of the same shape
        E |beta - beta_star|_Sigma^2 over runs; inf where a run that does not converge ends.
    mean_risk : array
        The risk of the mean over runs of the parameters. The rest is the spread of single runs.
    error, error_kind :
        How far `risk` may be off because eigenvalues share nodes: not at all ("exact"), never by more ("bound"), or
        by about that much ("estimate", with momentum or large steps that change).
    stability : OnePassStability
        Whether it converges, kappa, the critical step; of the last step where steps change.
    limit : float
        R_inf, where the risk settles.
    """

    steps: FloatArray
    risk: FloatArray
    mean_risk: FloatArray
    error: FloatArray
    error_kind: ErrorKind
    stability: OnePassStability
    limit: float

    @property
    def spread(self) -> FloatArray:
        """What single runs have on top of the mean iterate, of the shape of `steps`."""
        with np.errstate(invalid="ignore"):
            rest = np.maximum(self.risk - self.mean_risk, 0.0)
        return np.where(np.isinf(self.risk), np.inf, rest)

    @property
    def converges(self) -> bool:
        """Whether the risk has a limit."""
        return self.stability.converges

    def __repr__(self) -> str:
        last = with_error(self.risk.flat[-1], self.error.flat[-1], self.error_kind) if self.risk.size else "-"
        grows = f"; {self.stability.diverges} diverges" if self.stability.diverges else ""
        return (
            f"OnePass(risk={last}, limit={self.limit:.6g}, kappa={self.stability.kappa:.6g},"
            f" critical_step={self.stability.critical_step:.6g}{grows})"
        )


def one_pass(
    spectrum: Values,
    source: Values,
    batch_size: int,
    step: ArrayLike,
    steps: ArrayLike,
    *,
    noise: float = 1.0,
    momentum: float = 0.0,
    cells: int = CELLS,
) -> OnePass:
    """The expected risk of descent that draws m fresh Gaussian samples for every step.

    The diagonal d of the mean square error, in the eigenbasis of Sigma, closes:

        d' = (1 - 2 s lambda + s^2 (1 + 1/m) lambda^2) d + (s^2/m) lambda (R + noise^2),    R = lambda . d,

    and settles at R_inf = noise^2 kappa/(1 - kappa), kappa = (s/m) sum lambda/(2 - s (1 + 1/m) lambda), if
    kappa < 1 and s (1 + 1/m) lambda_max < 2. docs/one_pass.md derives it, with momentum.

    Parameters
    ----------
    spectrum : (p,) or PowerLaw
        The eigenvalues of Sigma.
    source : (p,) or PowerLaw
        The squares of beta_0 - beta_star along the eigenvectors of Sigma, in the order of `spectrum`.
    batch_size : int >= 1
        m, the samples of one step.
    step : float > 0, or (t,)
        s; or one for every step.
    steps : whole numbers of any shape, or math.inf
        After how many steps the risk is asked for.
    noise : float >= 0
        The standard deviation of the label noise.
    momentum : float
        In [0, 1), torch's.
    cells : int
        Where there are more distinct eigenvalues, those of a cell share two nodes.

    Returns
    -------
    OnePass
        Risk, risk of the mean iterate and error of the shape of `steps`; stability, kappa, limit.

    >>> import math
    >>> from reshuffle.asymptotics import PowerLaw
    >>> found = one_pass(PowerLaw(1.5, 10**6), PowerLaw(0.5, 10**6), 8, 0.3, [0, 10, 1000, math.inf])
    >>> found.risk.round(4)
    array([1.6449, 0.3166, 0.0655, 0.0564])
    >>> found.converges, found.error_kind, bool((found.error < 1e-3 * found.risk).all())
    (True, 'bound', True)
    """
    groups = one_pass_arguments.grouped(spectrum, source, cells)
    clock = one_pass_arguments.clock(steps)
    momentum = one_pass_arguments.momentum(momentum)
    recipe = OnePassRecipe(
        batch_size=_arrays.whole_number("batch_size", batch_size, 1),
        schedule=one_pass_arguments.schedule(step, clock, momentum),
        momentum=momentum,
        noise=_arrays.nonnegative("noise", noise),
    )
    forever = np.isinf(clock)
    walked = clock[~forever]
    limit, limit_error = recipe.limit(groups)
    risk, error = np.full(clock.shape, limit), np.full(clock.shape, limit_error)
    risk[~forever], error[~forever] = recipe.bracketed(groups, walked)
    mean_risk = np.full(clock.shape, recipe.mean_limit(groups))
    mean_risk[~forever] = recipe.mean_risk(groups.closest(), walked)
    stability = recipe.fixed_point(groups).stability(recipe.last_step)
    return OnePass(clock, risk, mean_risk, error, recipe.error_kind(groups), stability, limit)
