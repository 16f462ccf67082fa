"""The best step and stopping time of mini-batch descent in the proportional limit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ErrorKind
from reshuffle.asymptotics import spectra
from reshuffle.asymptotics.batch_law import batch_spectrum
from reshuffle.asymptotics.learning_curve import contour_curve
from reshuffle.asymptotics.optimum import BestRidge, BestTime, Flow, Setting, bayes_risk, best_ridge
from reshuffle.asymptotics.spectra import Covariance
from reshuffle.free.progress import working

_NODES = 20
"""Steps at which curves are computed."""
_FINE = 400
"""Steps at which their interpolants are evaluated."""
_AROUND, _FLAT = 3, 3.0
"""Neighbours on either side through which a spline goes, and how much larger their logarithms may be."""
_APART, _TRIED = 0.05, 3
"""Logarithmic distance of the steps that are refined, and their number."""
_NEARBY = 0.01
"""Relative distance of the steps by which the best one is judged."""
_ROUNDS = 4


class Found(NamedTuple):
    """The best step and number of epochs, the risk there, and by how much another could be better."""

    alpha: float
    epochs: float
    risk: float
    error: float


@dataclass(frozen=True, eq=False)
class FewEpochs:
    """All recipes of B batches with at most some number of epochs."""

    setting: Setting
    batches: int
    epochs: FloatArray

    def risks(self, alphas: FloatArray) -> FloatArray:
        """The risk (m, k) for each of the steps (m,), after each number of epochs."""
        setting = self.setting
        laws = [
            batch_spectrum(setting.aspect, float(alpha), self.batches, setting.population) for alpha in alphas
        ]
        found = [contour_curve(law).converging_parts(self.epochs) for law in laws]
        bias, variance = np.array(found).transpose(1, 0, 2)
        return np.asarray(setting.signal**2 * bias + setting.noise**2 * variance)

    def best(self, low: float, high: float) -> Found:
        """The best step between two, refined wherever the curves through the others have their minimum."""
        logarithms = (math.log(low) + math.log(high)) / 2 + (math.log(high) - math.log(low)) / 2 * _chebyshev
        promising = interpolated(logarithms, self.risks(np.exp(logarithms)))
        # Curves of different epochs may be equally low at steps far apart.
        alphas: list[float] = []
        for alpha, _ in promising:
            if all(abs(math.log(alpha / other)) > _APART for other in alphas):
                alphas.append(alpha)
        return min((self._confirmed(alpha) for alpha in alphas[:_TRIED]), key=lambda found: found.risk)

    def _confirmed(self, alpha: float) -> Found:
        """Parabolas through three steps in the logarithm, until they no longer move."""
        spread = _NEARBY
        for _ in range(_ROUNDS):
            near = alpha * np.exp(spread * np.array([-1.0, 0.0, 1.0]))
            risks = self.risks(near)
            column = int(np.unravel_index(risks.argmin(), risks.shape)[1])
            left, middle, right = risks[:, column]
            bend, slope = left - 2 * middle + right, (right - left) / 2
            move = -slope / bend if bend > 0 else -math.copysign(2.0, slope)
            if abs(move) < 0.1:
                break
            alpha *= math.exp(spread * min(max(move, -5.0), 5.0))
        best = int(risks[:, column].argmin())
        # What the parabola has to gain, and what its cubic neighbour could.
        gain = slope**2 / (2 * bend) + spread**2 * bend if bend > 0 else abs(slope)
        return Found(float(near[best]), float(self.epochs[column]), float(risks[best, column]), float(gain))


_chebyshev = -np.cos((np.arange(_NODES) + 0.5) * math.pi / _NODES)


def interpolated(logarithms: FloatArray, risks: FloatArray) -> list[tuple[float, float]]:
    """The best step of each number of epochs and the risk there, best first, from risks (m, k) at log alpha (m,).

    A large step explodes within few epochs, so that no polynomial goes through all of them: each curve is a
    spline around its smallest value, where it is flat.
    """
    with np.errstate(divide="ignore"):
        values = np.log(risks)
    found = []
    for curve in np.where(np.isfinite(values), values, np.inf).T:
        place = int(curve.argmin())
        near = slice(max(0, place - _AROUND), place + _AROUND + 1)
        usable = curve[near] <= curve[place] + _FLAT
        spline = CubicSpline(logarithms[near][usable], curve[near][usable])
        low, high = logarithms[[max(0, place - 1), min(place + 1, len(curve) - 1)]].tolist()
        fine = np.linspace(low, high, _FINE)
        fine = fine[(fine >= spline.x[0]) & (fine <= spline.x[-1])]
        best = int(spline(fine).argmin())
        found.append((math.exp(float(fine[best])), math.exp(float(spline(fine[best])))))
    return sorted(found, key=lambda pair: pair[1])


_FEW = 32
"""Epochs up to which large steps are tried where no number of epochs is given."""
_MANY = 64
"""Epochs up to which every number of them is tried; beyond, a grid of them."""
_RANGE = 4.0
"""The range of the search for steps, on both sides of the one that takes flow's best time."""


@dataclass(frozen=True, eq=False)
class BestRecipe:
    """The recipe with the smallest limiting risk for a number of batches, with the optima of other estimators.

    Attributes
    ----------
    batches : int
    alpha, epochs : float
        The full-batch step and the number of epochs. Where smaller steps and more epochs are better for ever they
        are 0 and inf: the infimum is that of gradient flow, which no recipe reaches.
    risk : float
        The limiting risk, or its infimum.
    error : float
        The most by which the risk of another step could be smaller, estimated by a parabola through neighbours.
    time : float
        alpha times epochs; of an infimum, the best time of flow.
    slope : float
        The cost of a small step at its best epoch: the risk is that of flow + slope alpha + O(alpha^2). It is
        c_1/B, the same c_1 for every number of batches. nan where flow has no best time.
    flow, averaged_flow : BestTime
        Gradient flow and its mean over time, stopped when they are best.
    ridge : BestRidge
        Ridge with the best penalty.
    bayes : float
        The smallest risk of any estimator for a Gaussian signal. For one without a direction it is that of `ridge`.
    error_kind : str
        The meaning of the error.
    """

    batches: int
    alpha: float
    epochs: float
    risk: float
    error: float
    time: float
    slope: float
    flow: BestTime
    averaged_flow: BestTime
    ridge: BestRidge
    bayes: float
    error_kind: ErrorKind = "estimate"

    @property
    def is_attained(self) -> bool:
        """True if a recipe attains the risk; otherwise it is an infimum, approached by ever smaller steps."""
        return self.alpha > 0

    def __repr__(self) -> str:
        what = f"alpha={self.alpha:.6g}, epochs={self.epochs:g}, risk={self.risk:.6g}"
        if not self.is_attained:
            what = f"alpha -> 0, alpha epochs -> {self.time:.6g}, risk -> {self.risk:.6g}"
        return (
            f"BestRecipe(batches={self.batches}, {what}; flow {self.flow.risk:.6g}, averaged flow"
            f" {self.averaged_flow.risk:.6g}, best ridge {self.ridge.risk:.6g}, Bayes {self.bayes:.6g})"
        )


class BestRecipes(tuple[BestRecipe, ...]):
    """The best recipe of each of several numbers of batches, in the order requested: a tuple of an iterable."""

    __slots__ = ()

    def _column(self, name: str) -> FloatArray:
        return np.array([getattr(recipe, name) for recipe in self], dtype=float)

    @property
    def batches(self) -> FloatArray:
        """The number of batches of each recipe."""
        return self._column("batches")

    @property
    def alpha(self) -> FloatArray:
        """The full-batch step of each recipe."""
        return self._column("alpha")

    @property
    def epochs(self) -> FloatArray:
        """The number of epochs of each recipe."""
        return self._column("epochs")

    @property
    def risk(self) -> FloatArray:
        """The limiting risk of each recipe, or its infimum."""
        return self._column("risk")

    @property
    def error(self) -> FloatArray:
        """The error of each risk."""
        return self._column("error")

    def __repr__(self) -> str:
        lines = ["BestRecipes(", "  batches      alpha   epochs        risk"]
        lines += [f"  {r.batches:7d} {r.alpha:10.5g} {r.epochs:8g} {r.risk:11.6g}" for r in self]
        one = self[0]
        rest = f"  flow {one.flow.risk:.6g}, averaged flow {one.averaged_flow.risk:.6g}"
        return "\n".join([*lines, f"{rest}, best ridge {one.ridge.risk:.6g}, Bayes {one.bayes:.6g})"])


@working("the best recipe")
def best_recipe(
    aspect: float,
    noise: float = 1.0,
    signal: float = 1.0,
    batches: int | Sequence[int] = 1,
    epochs: int | None = None,
    covariance: Covariance = None,
    source: ArrayLike | None = None,
) -> "BestRecipe | BestRecipes":
    r"""The step alpha and the number of epochs with the smallest limiting risk, p/n -> aspect.

    Without a budget of epochs, and with a signal that has no direction, every number of batches has the infimum of
    gradient flow and reaches it as alpha -> 0: with c_1 > 0 the same for all,

    .. math:: \min_k R_k = \text{risk of flow} + \frac{\alpha}{B} c_1 + O(\alpha^2)

    (docs/price_of_batches.md). Mini-batches win when epochs are few.

    Parameters
    ----------
    aspect, noise, signal, covariance, source
        As in `learning_curve`.
    batches : int >= 1, or several
    epochs : int >= 1, optional
        The largest number of epochs that may be run; any number by default.

    Returns
    -------
    BestRecipe, or BestRecipes for several numbers of batches
        With the optima of gradient flow, its average, ridge, and Bayes.

    >>> found = best_recipe(0.5, noise=0.5, batches=2, epochs=1)
    >>> round(found.alpha, 2), found.epochs, round(found.risk, 6), round(found.flow.risk, 6)
    (1.0, 1.0, 0.296875, 0.182161)
    >>> endless = best_recipe(0.5, noise=0.5, batches=2)
    >>> endless.alpha, endless.epochs, round(endless.time, 4), round(endless.risk, 6)
    (0.0, inf, 4.0044, 0.182161)
    """
    setting = Setting(
        spectra.aspect(aspect),
        spectra.population(covariance, source),
        _arrays.nonnegative("noise", noise),
        _arrays.nonnegative("signal", signal),
    )
    budget = None if epochs is None else _arrays.whole_number("epochs", epochs, 1)
    several = isinstance(batches, Sequence | np.ndarray)
    counts = [spectra.batches(count) for count in np.ravel(np.asarray(batches, dtype=object))]
    if not counts:
        raise ValueError("batches must be a whole number >= 1, or several, but there is none.")
    flow = Flow(setting)
    others = best_ridge(setting), bayes_risk(setting)
    recipes = tuple(_recipe(flow, count, budget, *others) for count in counts)
    return BestRecipes(recipes) if several else recipes[0]


def _recipe(flow: Flow, batches: int, budget: int | None, ridge: BestRidge, bayes: float) -> BestRecipe:
    """The best of all recipes with few enough epochs, of flow if there is no budget, and of no step at all."""
    setting, best_flow = flow.setting, flow.best
    untouched = Found(0.0, 0.0, setting.signal**2 * setting.population.signal, 0.0)
    found, most = untouched, _FEW if budget is None else budget
    if best_flow.time:
        epochs = np.arange(1.0, most + 1)
        if most > _MANY:
            epochs = np.unique(np.round(np.append(np.geomspace(1, most, _MANY), most)))
        # B batches converge up to B times the step of full batch at most, and the best step is hardly beyond.
        full, each = 2 * setting.alpha / setting.full_batch.ends[1], best_flow.time / most
        high = min(_RANGE * each, 1.2 * batches * full)
        found = FewEpochs(setting, batches, epochs).best(min(each, full) / _RANGE, high)
    if budget is None and best_flow.risk <= found.risk:
        found = Found(0.0, math.inf, best_flow.risk, 0.0)
    found = min(untouched, found, key=lambda one: one.risk)
    time = best_flow.time if math.isinf(found.epochs) else found.alpha * found.epochs
    return BestRecipe(batches, *found, time, flow.slope / batches, best_flow, flow.best_average, ridge, bayes)
