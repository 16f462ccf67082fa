"""Appendix D.1: full batch diverges where two batches converge."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import reshuffle as rs
from reshuffle import asymptotics, plotting
from reshuffle._arrays import FloatArray
from reshuffle.paper.figure import CIRCLES, Claim, Columns, Figure, look, scheme

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

BATCHES = (1, 2)


@dataclass(frozen=True, eq=False)
class Path:
    """Where descent goes on this realisation of X, noise and beta_star.

    Attributes
    ----------
    exact : (epochs,)
        |mean iterate - beta_star|^2 / |beta_star|^2.
    simulated : Estimate
        The same of single runs, on average over their orders.
    rate : float
        The spectral radius of I - alpha Z on the range of Z.
    critical_alpha, expected_critical_alpha : float
        Up to which alpha it converges: on this X, and in the limit.
    """

    batches: int
    exact: FloatArray
    simulated: rs.Estimate
    rate: float
    critical_alpha: float
    expected_critical_alpha: float


@dataclass(frozen=True, eq=False)
class Numbers:
    """Both paths."""

    aspect: float
    alpha: float
    epochs: FloatArray
    paths: tuple[Path, ...]


def compute(n: int, p: int, alpha: float, epochs: int, runs: int, seed: int) -> Numbers:
    """One realisation: X, the noise and beta_star are standard Gaussian, and fixed."""
    rng = np.random.default_rng(seed)
    problem = rs.gaussian(n, p, noise=1.0, beta_star=rng.standard_normal(p), seed=rng)
    assert problem.beta_star is not None
    when, size = np.arange(epochs + 1), float(np.sum(problem.beta_star**2))
    paths = []
    for batches in BATCHES:
        visited = scheme("reshuffling", batches)
        run = rs.descend(problem, visited, alpha=alpha)
        simulation = rs.simulate(problem, visited, step=alpha / batches, epochs=when, runs=runs, seed=seed)
        runs_ = simulation.expected_risk
        assert runs_ is not None
        paths.append(
            Path(
                batches=batches,
                exact=np.square(run.iterate(when) - problem.beta_star).sum(axis=1) / size,
                simulated=rs.Estimate(runs_.mean / size, runs_.standard_error / size),
                rate=run.stability().rate,
                critical_alpha=batches * rs.critical_step(problem, visited),
                expected_critical_alpha=asymptotics.critical_alpha(p / n, batches),
            )
        )
    return Numbers(p / n, alpha, when.astype(np.float64), tuple(paths))


def draw(numbers: Numbers) -> "Picture":
    """Both errors, on a logarithmic scale."""
    picture = plotting.figure(6.8, 4.2)
    ax = picture.add_subplot()
    for path in numbers.paths:
        style = look("reshuffling", path.batches)
        label = f"{style['label']} (converges up to α = {path.critical_alpha:.3f})"
        plotting.curve(numbers.epochs, path.exact, label=label, colour=style["color"], ax=ax)
        few = slice(None, None, max(1, len(numbers.epochs) // 25))
        ax.plot(numbers.epochs[few], path.simulated.mean[few], color=style["color"], **CIRCLES)
    ax.plot([], [], color="grey", label="simulated runs, mean", **CIRCLES)
    ax.set(yscale="log", ylabel="|β − β*|² / |β*|²")
    ax.set_title(f"step α/B with α = {numbers.alpha:g}: lines exact", fontsize=10)
    ax.legend(frameon=False, fontsize=9)
    return picture


def table(numbers: Numbers) -> Columns:
    """Every epoch of both paths."""
    return {
        "batches": np.repeat(BATCHES, len(numbers.epochs)),
        "epoch": np.tile(numbers.epochs.astype(int), len(numbers.paths)),
        "exact": np.concatenate([path.exact for path in numbers.paths]),
        "simulated": np.concatenate([path.simulated.mean for path in numbers.paths]),
        "standard_error": np.concatenate([path.simulated.standard_error for path in numbers.paths]),
    }


def claims(numbers: Numbers) -> list[Claim]:
    """What Appendix D.1 and Remark gd_diverge say."""
    full, two = numbers.paths
    threshold = 2 / (1 + numbers.aspect**0.5) ** 2
    return [
        Claim(
            "Remark gd_diverge, Appendix D.1",
            "full-batch descent can diverge while two-batch descent still converges",
            f"at alpha = {numbers.alpha:g} an epoch multiplies the slowest mode by {full.rate:.4f} (full batch) "
            f"and {two.rate:.6f} (two batches); they converge up to alpha = {full.critical_alpha:.4f} "
            f"and {two.critical_alpha:.4f}",
            full.rate > 1 > two.rate,
        ),
        Claim(
            "Appendix D.1",
            'the two-batch iterate converges, i.e. "|I - alpha Z| > 1"',
            f"the spectral radius on the range of Z is {two.rate:.6f}",
            two.rate > 1,
            "< 1, on the range of Z",
        ),
        Claim(
            "footnote of Appendix D.1",
            "alpha = 0.5 is slightly larger than 2 / (1 + sqrt(p/n))^2",
            f"that is {threshold:.4f}; the largest alpha of full batch on this X is {full.critical_alpha:.4f}, "
            f"limits {full.expected_critical_alpha:.4f} and {two.expected_critical_alpha:.4f} for two batches",
            numbers.alpha > threshold and abs(full.expected_critical_alpha - threshold) < 1e-6,
        ),
    ]


FIGURES = {
    "divergence": Figure(
        title="Appendix D.1: full batch diverges, two batches converge",
        caption="X, the noise and β* are one realisation of standard Gaussians. Lines: the exact mean iterate. "
        "Circles: the mean of simulated runs over their orders.",
        full={"n": 1000, "p": 1500, "alpha": 0.5, "epochs": 100, "runs": 20, "seed": 0},
        quick={"n": 300, "p": 450, "epochs": 60},
        compute=compute,
        draw=draw,
        table=table,
        claims=claims,
    ),
}
