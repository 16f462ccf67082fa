"""What compute buys on power-law data: the best model size and training time for every budget."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ErrorKind
from reshuffle.asymptotics.named_spectra import PowerLaw, power_sums
from reshuffle.asymptotics.streaming.one_pass_curve import one_pass

_CELLS = 128
_SIZES_PER_DECADE = 8
_LARGEST = 1e15


@dataclass(frozen=True, eq=False)
class Frontier:
    """The least risk for each budget of compute, made by `compute_frontier`.

    Attributes
    ----------
    compute : (c,)
        Budgets, steps times batch size times model size.
    size, steps, risk : (c,)
        The best model size p, the steps of training it gets, and the risk, that of the features left out included.
    error : (c,)
        How far `risk` may be off: what grouped eigenvalues may do to it (a bound), plus what the grid of sizes and
        the parabola through its best three may (an estimate).
    error_kind : str
        "estimate".
    risk_exponent, size_exponent : float
        Slopes of log risk and log size against log compute over the upper half of the budgets, as fitted.
    theory : tuple of two floats
        The same two, as scaling theory has them for one pass without label noise.
    """

    compute: FloatArray
    size: FloatArray
    steps: FloatArray
    risk: FloatArray
    error: FloatArray
    error_kind: ErrorKind
    risk_exponent: float
    size_exponent: float
    theory: tuple[float, float]

    def __repr__(self) -> str:
        return (
            f"Frontier(risk ~ C^{self.risk_exponent:.3f} (theory {self.theory[0]:.3f}),"
            f" size ~ C^{self.size_exponent:.3f} (theory {self.theory[1]:.3f}))"
        )


def frontier_exponents(spectrum: float, source: float) -> tuple[float, float]:
    """The exponents of the least risk and of the best size in the compute, for j^-a and j^-b without label noise.

    With c = a + b - 1 a model of the first p features leaves p^-c, and its last feature is learned after p^a steps;
    to train longer buys logarithms, to train less leaves T^(-c/a) or more. So T = p^a, compute = p^(1 + a), up to
    logarithms where b > a and the noise of the gradients fades last.

    Parameters
    ----------
    spectrum, source : float
        The exponents a of the eigenvalues and b of the squared parameters.

    Returns
    -------
    (float, float)
        That of the risk, -c/(1 + a), and that of the size, 1/(1 + a).

    >>> frontier_exponents(1.5, 0.5)
    (-0.4, 0.4)
    """
    return -(spectrum + source - 1) / (1 + spectrum), 1 / (1 + spectrum)


def compute_frontier(
    spectrum: PowerLaw,
    source: PowerLaw,
    batch_size: int,
    step: float,
    compute: ArrayLike,
    *,
    noise: float = 0.0,
) -> Frontier:
    """The best size of a model and the best time to train it, for budgets of compute = steps batch_size size.

    The data have the eigenvalues `spectrum` and the parameters the squares `source`, both without end. A model of
    size p is trained on the first p eigenvectors in one pass over fresh samples, from zero. What the others explain
    of the response is independent of these and acts as label noise: the risk is that of `one_pass` with the noise
    noise^2 + A_p, plus A_p = sum_{j > p} lambda_j source_j.

    Parameters
    ----------
    spectrum, source : PowerLaw
        Of infinite size.
    batch_size : int >= 1
    step : float > 0
        A convergent one; with label noise the risk does not fall below its limit at this step.
    compute : (c,)
        At least two budgets, ascending, each at least 100 batch_size.
    noise : float >= 0
        The standard deviation of the label noise.

    Returns
    -------
    Frontier
        Size, steps and risk for each budget, fitted exponents and those of theory.

    >>> from reshuffle.asymptotics import PowerLaw
    >>> compute_frontier(PowerLaw(1.5), PowerLaw(0.3), 1, 0.2, np.geomspace(1e6, 1e10, 9))
    Frontier(risk ~ C^-0.319 (theory -0.320), size ~ C^0.400 (theory 0.400))
    """
    budgets = _budgets(compute, _arrays.whole_number("batch_size", batch_size, 1))
    step, noise = _arrays.positive("step", step), _arrays.nonnegative("noise", noise)
    _require_endless(spectrum, source)
    most = float(budgets[-1]) / batch_size
    sizes = np.unique(np.round(np.geomspace(1, most, 1 + round(_SIZES_PER_DECADE * math.log10(most)))))
    risks, errors = np.full((2, len(sizes), len(budgets)), np.inf)
    for row, size in enumerate(sizes):
        steps = np.floor(budgets / (batch_size * size))
        trained = steps >= 1
        left = _left_out(spectrum, source, size)
        found = one_pass(
            PowerLaw(spectrum.exponent, size, spectrum.scale),
            PowerLaw(source.exponent, size, source.scale),
            batch_size,
            step,
            steps[trained],
            noise=math.sqrt(noise**2 + left),
            cells=_CELLS,
        )
        if not found.converges:
            raise ValueError(
                f"step must be below the critical step, {found.stability.critical_step:.6g} for size {size:g}, but"
                f" it is {step:g}: {found.stability.diverges} diverges."
            )
        risks[row, trained], errors[row, trained] = found.risk + left, found.error
    return _best(
        budgets, sizes, risks, errors, batch_size, frontier_exponents(spectrum.exponent, source.exponent)
    )


def _best(
    budgets: FloatArray,
    sizes: FloatArray,
    risks: FloatArray,
    errors: FloatArray,
    batch_size: int,
    theory: tuple[float, float],
) -> Frontier:
    size, risk, error = np.empty((3, len(budgets)))
    for column in range(len(budgets)):
        best = int(np.argmin(risks[:, column]))
        size[column], risk[column] = _lowest(np.log(sizes), np.log(risks[:, column]), best)
        error[column] = errors[best, column] + abs(risks[best, column] - risk[column])
    upper = slice(len(budgets) // 2, None) if len(budgets) > 3 else slice(None)
    logarithm = np.log(budgets[upper])
    slopes = [float(np.polyfit(logarithm, np.log(values[upper]), 1)[0]) for values in (risk, size)]
    return Frontier(
        budgets, size, budgets / (batch_size * size), risk, error, "estimate", slopes[0], slopes[1], theory
    )


def _lowest(x: FloatArray, y: FloatArray, best: int) -> tuple[float, float]:
    """The lowest point of the parabola through the best of some points and its neighbours, out of logarithms."""
    if best == 0 or best == len(x) - 1 or not np.isfinite(y[best - 1 : best + 2]).all():
        return float(np.exp(x[best])), float(np.exp(y[best]))
    curve = np.polynomial.Polynomial.fit(x[best - 1 : best + 2], y[best - 1 : best + 2], 2)
    place = float(np.clip(curve.deriv().roots()[0].real, x[best - 1], x[best + 1]))
    return math.exp(place), math.exp(float(curve(place)))


def _left_out(spectrum: PowerLaw, source: PowerLaw, size: float) -> float:
    """A_p, the sum of lambda_j source_j beyond the features of a model."""
    tail = power_sums(spectrum.exponent + source.exponent, size + 1, math.inf)
    return spectrum.scale * source.scale * float(tail)


def _budgets(compute: ArrayLike, batch_size: int) -> FloatArray:
    budgets = _arrays.real_array("compute", compute)
    least = 100 * batch_size
    if budgets.ndim != 1 or len(budgets) < 2 or budgets[0] < least or not (np.diff(budgets) > 0).all():
        raise ValueError(
            f"compute must be at least two ascending budgets of at least 100 batch_size = {least}, but it is"
            f" {budgets}."
        )
    if budgets[-1] / batch_size > _LARGEST:
        raise ValueError(f"compute must be at most {_LARGEST:g} batch_size, but it is {budgets[-1]:g}.")
    return budgets


def _require_endless(spectrum: PowerLaw, source: PowerLaw) -> None:
    for name, law in (("spectrum", spectrum), ("source", source)):
        if not isinstance(law, PowerLaw) or math.isfinite(law.size):
            raise ValueError(
                f"{name} must be a PowerLaw of infinite size, PowerLaw(exponent), but it is {law!r}."
            )
    if spectrum.exponent <= 1 or spectrum.exponent + source.exponent <= 1:
        raise ValueError(
            "spectrum must have an exponent > 1, and with that of source add up to more than 1, or traces diverge,"
            f" but they are {spectrum.exponent:g} and {source.exponent:g}."
        )
