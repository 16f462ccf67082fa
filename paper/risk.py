"""Section 3.2, Appendices D.2 and D.3, and early stopping: the risk over the epochs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import reshuffle as rs
from paper.figure import CIRCLES, Claim, Figure, Result, look, scheme
from reshuffle import asymptotics, plotting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Curve:
    """One curve of Appendices D.2 and D.3, at `epochs` 0, 1, ...; `look` has its colour and label.

    `exact` is the risk of the mean iterate on this draw of X, over the noise; `expected` its proportional limit;
    `single` the expected risk of a single run on this draw. `risk` and `test_error` are of real runs with fresh
    noise and orders: of their mean iterate, and of each on test samples of its own.
    """

    batches: int
    look: dict[str, str]
    epochs: FloatArray
    exact: FloatArray
    expected: FloatArray
    single: rs.ExpectedRisk
    risk: rs.Estimate
    test_error: rs.Estimate
    best: rs.BestEpoch
    limit: float
    expected_limit: float


def risk_curves(
    n: int, p: int, noise: float, alpha: float, epochs: int, last: int, seed: int, **protocol: Any
) -> Result:
    """Exact and expected curves at step alpha / B, B = 1, 2, 4, and as many real runs as the caption says."""
    problem = rs.gaussian(n, p, noise=noise, seed=seed)
    when, runs = np.arange(epochs + 1), protocol["runs"]
    protocol |= {"epochs": when, "seed": seed + 1, "fresh_noise": True}
    curves = []
    for batches in (1, 2, 4):
        visited = scheme("reshuffling", batches)
        run = rs.descend(problem, visited, alpha=alpha)
        in_the_limit = asymptotics.learning_curve(p / n, alpha, batches, noise=noise)
        simulated = rs.simulate(problem, visited, step=alpha / batches, **protocol)
        assert simulated.risk is not None
        assert simulated.test_error is not None
        curves.append(
            Curve(
                batches,
                look("reshuffling", batches),
                when.astype(np.float64),
                run.risk(when).total,
                np.asarray(in_the_limit.risk(when).total),
                run.expected_risk(when),
                simulated.risk,
                simulated.test_error,
                run.best_epoch(),
                float(run.risk(np.inf).total),
                float(in_the_limit.limit().total),
            )
        )
    picture = plotting.figure(13.0, 4.2)
    whole, end, difference = picture.subplots(1, 3, width_ratios=(1.25, 1, 1.25))
    _draw_risks(curves, runs, whole)
    _draw_last(curves, last, end)
    _draw_difference(curves, difference)
    table = {
        "batches": np.repeat([curve.batches for curve in curves], len(when)),
        "epoch": np.tile(when, len(curves)),
        "exact": np.concatenate([curve.exact for curve in curves]),
        "expected": np.concatenate([curve.expected for curve in curves]),
        "single_run": np.concatenate([curve.single.total for curve in curves]),
        "simulated_test_error": np.concatenate([curve.test_error.mean for curve in curves]),
        "standard_error": np.concatenate([curve.test_error.standard_error for curve in curves]),
        "simulated_mean_iterate_risk": np.concatenate([curve.risk.mean for curve in curves]),
        "mean_iterate_standard_error": np.concatenate([curve.risk.standard_error for curve in curves]),
    }
    full, two, four = curves
    gaps = [np.abs(curve.exact - full.exact) for curve in (two, four)]
    worst = max(float(_deviation(curve.exact, curve.risk).max()) for curve in curves)
    tested = max(float(_deviation(curve.single.total, curve.test_error).max()) for curve in curves)
    start, largest = float(full.exact[0]), max(float(gap.max()) for gap in gaps)
    off = max(float(np.abs(curve.expected / curve.exact - 1).max()) for curve in curves)
    claims = [
        Claim(
            "Theorem batch_generr_exact",
            "the formula is the risk of the mean iterate",
            f"at every epoch within {worst:.2f} standard errors of {runs} simulated runs, for B = 1, 2, 4; "
            f"their test error, of single runs, within {tested:.2f} of the expected risk of a run",
            worst < 4,
        ),
        Claim(
            "Appendix D, text",
            "on the scale of the figures, linear scaling matches full-batch and mini-batch dynamics closely",
            f"of {start:.3g} at the start, the risks differ by at most {largest:.4f}, at epochs "
            f"{gaps[0].argmax()} (B = 2) and {gaps[1].argmax()} (B = 4)",
            largest < 0.05 * start,
        ),
        Claim(
            "beyond the paper",
            "the proportional limit predicts the curve of one data set of this size",
            f"within {off:.1%} of the exact curve at every epoch; a draw of beta_star alone moves it by 1/sqrt(p), "
            f"{p**-0.5:.1%}",
            off < 3 / p**0.5,
        ),
    ]
    claims += _over(curves, gaps) if p > n else _under(curves, noise**2 * (p / n * alpha) ** 2 / 16)
    return Result(picture, table, claims)


def _draw_risk(curve: Curve, ax: "Axes") -> None:
    plotting.simulated_band(curve.epochs, curve.test_error, label="", colour=curve.look["color"], ax=ax)
    style: dict[str, Any] = {"colour": curve.look["color"], "ylabel": "risk", "ax": ax}
    plotting.curve(curve.epochs, curve.expected, label="", style=":", **style)
    plotting.curve(curve.epochs, curve.exact, label="", style="--", **style)
    plotting.curve(curve.epochs, curve.single.total, label=curve.look["label"], **style)


def _draw_risks(curves: list[Curve], runs: int, ax: "Axes") -> None:
    for curve in curves:
        _draw_risk(curve, ax)
        plotting.mark_best(curve.best.epoch, curve.best.risk, colour=curve.look["color"], ax=ax)
    # Colours tell the batches, these tell the kind of curve.
    ax.plot([], [], color="grey", label="single run, expected, on this X and β*")
    ax.plot([], [], color="grey", linestyle="--", label="mean iterate, exact")
    ax.plot([], [], color="grey", linestyle=":", label="from p/n alone, for any X and β*")
    ax.fill_between([], [], color="grey", alpha=0.25, label=f"{runs} runs: mean ± 2 s.e.")
    ax.set_title("the whole trajectory; dots: best stopping time", fontsize=10)
    ax.legend(frameon=False, fontsize=8)


def _draw_last(curves: list[Curve], last: int, ax: "Axes") -> None:
    """The last epochs, with room for the exact and expected curves and the bands."""
    tails = []
    for curve in curves:
        _draw_risk(curve, ax)
        mean, error = curve.test_error.mean, curve.test_error.standard_error
        lines = (curve.exact, curve.single.total, curve.expected, mean - 2 * error, mean + 2 * error)
        tails += [part[-last:] for part in lines]
    low, high = float(np.min(tails)), float(np.max(tails))
    ax.set_title(f"the last {last} epochs", fontsize=10)
    ax.set_xlim(curves[0].epochs[-1] - last, curves[0].epochs[-1])
    ax.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    ax.set_ylabel("")


def _draw_difference(curves: list[Curve], ax: "Axes") -> None:
    """The risk above that of full batch: what X and beta_star have of their own cancels, and batching is left."""
    full, *others = curves
    few = np.unique(np.geomspace(1, len(full.epochs) - 1, 25).round().astype(int))
    for curve in others:
        gap = curve.risk.mean - full.risk.mean
        ax.plot(curve.epochs[few], gap[few], color=curve.look["color"], **CIRCLES)
        for part, label, style in (("expected", "", ":"), ("exact", curve.look["label"], "-")):
            above = (getattr(curve, part) - getattr(full, part))[1:]
            plotting.curve(
                curve.epochs[1:], above, label=label, colour=curve.look["color"], style=style, ax=ax
            )
    ax.plot([], [], color="grey", label="the same runs, mean iterate", **CIRCLES)
    ax.axhline(0, color=full.look["color"], linewidth=1.6)
    ax.set_xscale("log")
    ax.set_title("what batching changes", fontsize=10)
    ax.set_ylabel("risk − risk of full batch")
    ax.legend(frameon=False, fontsize=8)


def _over(curves: list[Curve], gaps: list[FloatArray]) -> list[Claim]:
    """Where the difference shows, and that it ends."""
    full, *others = curves
    shown = "; ".join(
        f"B = {curve.batches}: {gap.max():.4f} at epoch {gap.argmax()}, {gap[-1]:.1e} at epoch {len(gap) - 1}"
        for curve, gap in zip(others, gaps, strict=True)
    )
    return [
        Claim(
            "Appendix D.2",
            "the difference is slight, but visually apparent during the middle of training",
            f"largest difference to full batch {shown}",
            all(0 < gap.argmax() < len(gap) - 1 and gap.max() > 3 * gap[-1] for gap in gaps),
        ),
        Claim(
            "Section 3.1",
            "overparameterized, the limits of full batch and mini-batch are the same",
            f"limiting risks {', '.join(f'{curve.limit:.9f}' for curve in curves)} for B = 1, 2, 4",
            max(abs(curve.limit - full.limit) for curve in others) < 1e-6 * full.limit,
        ),
    ]


def _under(curves: list[Curve], leading_order: float) -> list[Claim]:
    """The price of two batches in the limit."""
    full, two, _ = curves
    price, expected, claimed = two.limit - full.limit, two.expected_limit - full.expected_limit, 0.05
    spread, error = float(two.single.spread[-1]), float(two.single.error[-1])
    known = f" (known to {error:.1g})" if error else ""
    return [
        Claim(
            "Appendix D.3",
            "the limiting risk of two-batch gradient descent is greater by about 0.05",
            f"{price + spread:.5f} for single runs, which the figure shows: the mean iterate {two.limit:.6f} - "
            f"{full.limit:.6f} = {price:.6f}, and the spread of the runs {spread:.6f}{known}; the mean iterate "
            f"{expected:.6f} in the proportional limit, leading order noise^2 gamma^2 alpha^2 / 16 = "
            f"{leading_order:.6f}",
            abs(price + spread - claimed) < 0.5 * claimed,
            "greater, by about 0.0014 for single runs, 0.0007 of it for their mean",
        ),
        Claim(
            "Section 3.1",
            "underparameterized, the limits of full batch and mini-batch differ",
            f"limiting risks {', '.join(f'{curve.limit:.6f}' for curve in curves)} for B = 1, 2, 4",
            all(abs(curve.limit - full.limit) > 1e-6 for curve in curves[1:]),
        ),
    ]


def _deviation(values: FloatArray, estimate: rs.Estimate) -> FloatArray:
    """How many standard errors the values are from an estimate, at each epoch but the first."""
    off: FloatArray = np.abs(values - estimate.mean)[1:] / estimate.standard_error[1:]
    return off


def _simulated(
    problem: rs.LeastSquares, batches: int, share: float, epochs: int, runs: int, seed: int
) -> tuple[rs.Risk, rs.Estimate, rs.Estimate]:
    """The risk at a share of the largest step: exact, simulated of the mean iterate, and of single runs."""
    visited, when = rs.RandomReshuffling(batches=batches), np.arange(epochs + 1)
    step = share * rs.critical_step(problem, visited, mean_square=False)
    risk = rs.descend(problem, visited, step=step).risk(when)
    simulation = rs.simulate(problem, visited, step=step, epochs=when, runs=runs, seed=seed, fresh_noise=True)
    assert simulation.expected_risk is not None
    assert simulation.risk is not None
    return risk, simulation.risk, simulation.expected_risk


def cross_term(n: int, p: int, epochs: int, runs: int, seed: int) -> Result:
    """More parameters than samples and Sigma no multiple of I: the risk with and without the cross term."""
    rng = np.random.default_rng(seed)
    problem = rs.gaussian(
        n, p, covariance=4 / np.arange(1, p + 1), noise=0.2, beta_star=rng.standard_normal(p), seed=rng
    )
    risk, simulated, _ = _simulated(problem, 2, 0.1, epochs, runs, seed)
    when, exact, printed = np.arange(epochs + 1), risk.total, risk.frozen + risk.bias + risk.variance
    picture = plotting.figure(9.6, 3.9)
    risks, misses = picture.subplots(1, 2)
    colour = plotting.scheme_colour("reshuffling", 2)
    few = np.unique(np.geomspace(1, epochs, 20).round().astype(int))
    label = "simulated; errors are smaller than the circles"
    risks.plot(when[few], simulated.mean[few], color=colour, label=label, **CIRCLES)
    off = []
    for values, label, shade, style in (
        (exact, "with the cross term", colour, "-"),
        (printed, "as printed", plotting.GREY, "--"),
    ):
        off.append(_deviation(values, simulated))
        for ax, drawn in ((risks, values[1:]), (misses, off[-1])):
            plotting.curve(when[1:], drawn, label=label, colour=shade, style=style, ylabel="risk", ax=ax)
    misses.axhline(2, color="grey", linewidth=0.8, linestyle=":", label="2 standard errors")
    misses.set(ylabel="distance from simulation, in standard errors", yscale="log")
    for ax in (risks, misses):
        ax.set_xscale("log")
        ax.set_xlim(1, epochs)
        ax.legend(frameon=False, fontsize=9)
    table = {
        "epoch": when,
        "exact": exact,
        "as_printed": printed,
        "simulated": simulated.mean,
        "standard_error": simulated.standard_error,
    }
    claim = Claim(
        "Theorem batch_generr_exact, Lemma gd_generr",
        "the bias is a frozen plus a learnable term",
        f"at epoch 0 the risk is {exact[0]:.4f}, printed {printed[0]:.4f}; off from simulation by up to "
        f"{off[1].max():.0f} standard errors, with the cross term {off[0].max():.1f}",
        bool(off[1].max() < 4),
        "with p > rank and Sigma not a multiple of I add 2 e_0' P_0 Sigma (I - B step Z)^k P_Z e_0",
    )
    return Result(picture, table, [claim])


def run_risk(n: int, p: int, batches: int, share: float, epochs: int, runs: int, seed: int) -> Result:
    """What the risk of a run has above that of the mean iterate, at a step where shuffling shows."""
    problem = rs.gaussian(n, p, noise=0.5, seed=seed)
    risk, mean_iterate, single = _simulated(problem, batches, share, epochs, runs, seed)
    when, exact, spread = np.arange(epochs + 1), risk.total, single.mean - mean_iterate.mean
    picture = plotting.figure(6.4, 4.0)
    ax = picture.add_subplot()
    style: dict[str, Any] = {"colour": plotting.scheme_colour("reshuffling", 4), "ax": ax}
    plotting.simulated_band(when, single, label="single runs: mean ± 2 s.e.", **style)
    plotting.curve(when, exact, label="mean iterate, exact", ylabel="risk", **style)
    label = "mean iterate, exact + spread from pairs of runs"
    plotting.curve(when, exact + spread, label=label, style=":", ylabel="risk", **style)
    ax.legend(frameon=False, fontsize=9)
    table = {
        "epoch": when,
        "exact_mean_iterate": exact,
        "simulated_run": single.mean,
        "standard_error": single.standard_error,
        "spread": spread,
    }
    off, top = float(_deviation(exact + spread, single).max()), int(np.argmax(spread))
    claims = [
        Claim(
            "closing remark of Section 3.2",
            "the expected risk of a run is that of the mean iterate plus the variance over the orders",
            f"the two sides differ by at most {off:.2f} standard errors; the spread is at most "
            f"{spread[top]:.4f}, {spread[top] / exact[top]:.0%} of the risk, at epoch {top}",
            off < 4,
        ),
        Claim(
            "closing remark of Section 3.2",
            "so the risk of the mean iterate is a lower bound",
            f"the spread is between {spread[1:].min():.2e} and {spread.max():.2e}",
            bool((spread[1:] > 0).all()),
        ),
    ]
    return Result(picture, table, claims)


def early_stopping(n: int, p: int, noise: float, count: int, seed: int) -> Result:
    """The best epoch and the risk there, for every alpha up to where full batch diverges."""
    problem, numbers = rs.gaussian(n, p, noise=noise, seed=seed), (1, 2, 4, 8)
    alphas = np.linspace(0.1, 0.98, count) * rs.critical_step(problem, rs.FullBatch())
    epochs, risks = np.zeros((2, len(numbers), count))
    picture = plotting.figure(9.6, 3.9)
    left, right = picture.subplots(1, 2)
    for row, batches in enumerate(numbers):
        for column, alpha in enumerate(alphas):
            best = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=float(alpha)).best_epoch()
            epochs[row, column], risks[row, column] = best.epoch, best.risk
        left.plot(alphas, epochs[row], marker="o", markersize=3, **look("reshuffling", batches))
        right.plot(alphas, risks[row], marker="o", markersize=3, **look("reshuffling", batches))
    plotting.plain(left, "α (step α/B)", "best epoch").legend(frameon=False, fontsize=9)
    plotting.plain(right, "α (step α/B)", "risk at the best epoch")
    table = {
        "batches": np.repeat(numbers, count),
        "alpha": np.tile(alphas, len(numbers)),
        "best_epoch": epochs.ravel().astype(int),
        "risk": risks.ravel(),
    }
    moved, change = epochs[1:] - epochs[0], risks[1:] / risks[0] - 1
    claims = [
        Claim(
            "Section 3.3.1",
            "mini-batch descent may have a different optimal stopping time",
            f"in {(moved != 0).mean():.0%} of the settings (B = 2, 4, 8), by up to "
            f"{np.abs(moved).max():.0f} epochs",
            bool(moved.any()),
        ),
        Claim(
            "Section 3.3.1",
            "and a different early-stopped risk, possibly lower",
            f"lower in {(change < -1e-9).mean():.0%} of the settings; it changes by {change.min():+.2%} to "
            f"{change.max():+.2%}",
            bool((change < -1e-9).any()),
        ),
    ]
    return Result(picture, table, claims)


RUNS = {"runs": 1000, "test_samples": 1000, "seed": 0}
FEW_RUNS = {"runs": 200, "test_samples": 200}
FIGURES = {
    "risk-over": Figure(
        risk_curves,
        "Appendix D.2: the risk of 1, 2 and 4 batches, overparameterized",
        "Step α/B. Solid: the expected risk of a single run on this draw of X and β*. Dashed: the exact risk of "
        "the mean iterate. Dotted: its limit "
        "for data of this shape, from p/n alone; one draw of β* is off by about 1/√p, alike for all batches. "
        "Bands: the mean test error of real runs on this draw, two standard errors wide, each run on test samples "
        "of its own; of these, the sums are drawn that its errors are made of. Right: the risk above that of full "
        "batch, in which the draw cancels.",
        full={"n": 1000, "p": 1500, "noise": 0.5, "alpha": 0.2, "epochs": 300, "last": 50, **RUNS},
        quick={"n": 200, "p": 300, **FEW_RUNS},
        seconds=150.0,
    ),
    "risk-under": Figure(
        risk_curves,
        "Appendix D.3: the risk of 1, 2 and 4 batches, underparameterized",
        "As in Appendix D.2, with more samples than parameters.",
        full={"n": 4000, "p": 1000, "noise": 1.0, "alpha": 0.4, "epochs": 100, "last": 10, **RUNS},
        quick={"n": 800, "p": 200, **FEW_RUNS},
        seconds=80.0,
    ),
    "cross-term": Figure(
        cross_term,
        "Theorem batch_generr_exact: the cross term",
        "More parameters than samples and a covariance with a decaying spectrum: frozen and learnable "
        "errors overlap in the norm of Σ, and the formula as printed misses it.",
        full={"n": 40, "p": 60, "epochs": 200, "runs": 4000, "seed": 3},
        quick={"n": 20, "p": 30, "epochs": 100, "runs": 1000},
    ),
    "run-risk": Figure(
        run_risk,
        "Closing remark of Section 3.2: the risk of a run",
        "A run is worse than the mean of all runs, by the spread that shuffling causes.",
        full={"n": 200, "p": 150, "batches": 4, "share": 0.7, "epochs": 60, "runs": 4000, "seed": 1},
        quick={"n": 60, "p": 40, "runs": 1000},
    ),
    "early-stopping": Figure(
        early_stopping,
        "Section 3.3.1: early stopping",
        "The best stopping time and the risk there, exact and certified, against the step.",
        full={"n": 400, "p": 600, "noise": 0.5, "count": 12, "seed": 0},
        quick={"n": 80, "p": 120, "count": 7},
    ),
}
