"""Appendices D.2 and D.3: the risk of B = 1, 2, 4 batches over the epochs, exact, expected and simulated."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import reshuffle as rs
from reshuffle import asymptotics, plotting
from reshuffle._arrays import FloatArray
from reshuffle.paper.figure import CIRCLES, Claim, Columns, Figure, scheme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

BATCHES = (1, 2, 4)
CLAIMED_DIFFERENCE = 0.05
RUNS = {"runs": 1000, "test_samples": 1000, "seed": 0}
FEW_RUNS = {"runs": 200, "test_samples": 200}


@dataclass(frozen=True, eq=False)
class Curve:
    """One curve of the figure.

    Attributes
    ----------
    exact : Risk
        Of the mean iterate on this draw of X, over the noise.
    expected : Risk
        What data of this shape is expected to give: the proportional limit, computed from p/n alone.
    simulated : Simulation
        Of real runs, with fresh noise and orders, each measured on test samples of its own.
    """

    batches: int
    exact: rs.Risk
    expected: FloatArray
    simulated: rs.Simulation
    best: rs.BestEpoch
    limit: float
    expected_limit: float
    critical_alpha: float


@dataclass(frozen=True, eq=False)
class Numbers:
    """All curves, on one draw of the data."""

    n: int
    p: int
    noise: float
    alpha: float
    epochs: int
    last: int
    runs: int
    curves: tuple[Curve, ...]


def compute(
    n: int,
    p: int,
    noise: float,
    alpha: float,
    epochs: int,
    last: int,
    runs: int,
    test_samples: int,
    seed: int,
) -> Numbers:
    """Exact and expected curves at step alpha / B, and as many real runs as the caption says."""
    problem = rs.gaussian(n, p, noise=noise, seed=seed)
    when = np.arange(epochs + 1)
    curves = []
    for batches in BATCHES:
        visited = scheme("reshuffling", batches)
        run = rs.descend(problem, visited, alpha=alpha)
        limit = run.limit()
        assert limit.risk is not None
        in_the_limit = asymptotics.learning_curve(p / n, alpha, batches, noise=noise)
        curves.append(
            Curve(
                batches=batches,
                exact=run.risk(when),
                expected=np.asarray(in_the_limit.risk(when).total),
                simulated=rs.simulate(
                    problem,
                    visited,
                    step=alpha / batches,
                    epochs=when,
                    runs=runs,
                    seed=seed + 1,
                    fresh_noise=True,
                    test_samples=test_samples,
                ),
                best=run.best_epoch(),
                limit=float(limit.risk.total),
                expected_limit=float(in_the_limit.limit().total),
                critical_alpha=batches * rs.critical_step(problem, visited),
            )
        )
    return Numbers(n, p, noise, alpha, epochs, last, runs, tuple(curves))


def draw(numbers: Numbers) -> "Picture":
    """The whole trajectory, its last epochs, and what batching changes."""
    picture = plotting.figure(13.0, 4.2)
    whole, end, difference = picture.subplots(1, 3, width_ratios=(1.25, 1, 1.25))
    for curve in numbers.curves:
        _draw_curve(curve, whole)
        colour = plotting.scheme_colour("reshuffling", curve.batches)
        plotting.mark_best(curve.best.epoch, curve.best.risk, colour=colour, ax=whole)
        _draw_curve(curve, end)
    # Colours tell the batches, these tell the kind of curve.
    whole.plot([], [], color="grey", label="exact, on this X and β*")
    whole.plot([], [], color="grey", linestyle=":", label="from p/n alone, for any X and β*")
    whole.fill_between([], [], color="grey", alpha=0.25, label=f"{numbers.runs} runs: mean ± 2 s.e.")
    whole.set_title("the whole trajectory; dots: best stopping time", fontsize=10)
    whole.legend(frameon=False, fontsize=8)
    end.set_title(f"the last {numbers.last} epochs", fontsize=10)
    end.set_xlim(numbers.epochs - numbers.last, numbers.epochs)
    end.set_ylim(*_span(numbers))
    end.set_ylabel("")
    _draw_difference(numbers, difference)
    return picture


def _draw_difference(numbers: Numbers, ax: "Axes") -> None:
    """The risk above that of full batch: what X and beta_star have of their own cancels, and batching is left."""
    full, *others = numbers.curves
    few = np.unique(np.geomspace(1, numbers.epochs, 25).round().astype(int))
    assert full.simulated.risk is not None
    for curve in others:
        colour = plotting.scheme_colour("reshuffling", curve.batches)
        epochs, runs = curve.exact.epochs, curve.simulated.risk
        assert runs is not None
        gap = runs.mean - full.simulated.risk.mean
        ax.plot(epochs[few], gap[few], color=colour, **CIRCLES)
        plotting.curve(
            epochs[1:], (curve.expected - full.expected)[1:], label="", colour=colour, style=":", ax=ax
        )
        plotting.curve(
            epochs[1:],
            (curve.exact.total - full.exact.total)[1:],
            label=plotting.scheme_label("reshuffling", curve.batches),
            colour=colour,
            ax=ax,
        )
    ax.plot([], [], color="grey", label="the same runs, mean iterate", **CIRCLES)
    ax.axhline(0, color=plotting.scheme_colour("reshuffling", 1), linewidth=1.6)
    ax.set_xscale("log")
    ax.set_title("what batching changes", fontsize=10)
    ax.set_ylabel("risk − risk of full batch")
    ax.legend(frameon=False, fontsize=8)


def _draw_curve(curve: Curve, ax: "Axes") -> None:
    colour = plotting.scheme_colour("reshuffling", curve.batches)
    name = plotting.scheme_label("reshuffling", curve.batches)
    epochs = curve.exact.epochs
    test = curve.simulated.test_error
    assert test is not None
    plotting.simulated_band(epochs, test, label="", colour=colour, ax=ax)
    plotting.curve(epochs, curve.expected, label="", colour=colour, style=":", ax=ax)
    plotting.risk_curve(curve.exact, label=name, colour=colour, ax=ax)
    ax.set_ylabel("risk")


def _span(numbers: Numbers) -> tuple[float, float]:
    """Room for the exact and expected curves and the bands in the last epochs."""
    tails = []
    for curve in numbers.curves:
        test = curve.simulated.test_error
        assert test is not None
        mean, error = test.mean[-numbers.last :], test.standard_error[-numbers.last :]
        tails += [
            curve.exact.total[-numbers.last :],
            curve.expected[-numbers.last :],
            mean - 2 * error,
            mean + 2 * error,
        ]
    low, high = np.min(tails), np.max(tails)
    return float(low - 0.05 * (high - low)), float(high + 0.05 * (high - low))


def table(numbers: Numbers) -> Columns:
    """Every epoch of every curve."""
    columns: dict[str, list[FloatArray]] = {}
    for curve in numbers.curves:
        sim = curve.simulated
        assert sim.test_error is not None
        assert sim.risk is not None
        for name, values in {
            "batches": np.full(len(curve.expected), curve.batches),
            "epoch": curve.exact.epochs.astype(int),
            "exact": curve.exact.total,
            "expected": curve.expected,
            "simulated_test_error": sim.test_error.mean,
            "standard_error": sim.test_error.standard_error,
            "simulated_mean_iterate_risk": sim.risk.mean,
            "mean_iterate_standard_error": sim.risk.standard_error,
        }.items():
            columns.setdefault(name, []).append(np.asarray(values))
    return {name: np.concatenate(parts) for name, parts in columns.items()}


def deviation(curve: Curve, estimate: rs.Estimate | None) -> float:
    """How many standard errors an estimate is from the exact risk of the mean iterate, at most."""
    assert estimate is not None
    return float((np.abs(estimate.mean - curve.exact.total)[1:] / estimate.standard_error[1:]).max())


def _claims(numbers: Numbers) -> list[Claim]:
    """What both appendices say, and that theory and simulation agree."""
    worst = max(deviation(curve, curve.simulated.risk) for curve in numbers.curves)
    tested = max(deviation(curve, curve.simulated.test_error) for curve in numbers.curves)
    full = numbers.curves[0]
    gaps = [np.abs(curve.exact.total - full.exact.total) for curve in numbers.curves[1:]]
    largest = max(float(gap.max()) for gap in gaps)
    start = float(full.exact.total[0])
    at = [int(np.argmax(gap)) for gap in gaps]
    off = max(float(np.abs(c.expected / c.exact.total - 1).max()) for c in numbers.curves)
    return [
        Claim(
            "Theorem batch_generr_exact",
            "the formula is the risk of the mean iterate",
            f"at every epoch within {worst:.2f} standard errors of {numbers.runs} simulated runs, for B = 1, 2, 4; "
            f"their test error, of single runs and with their spread, within {tested:.2f}",
            worst < 4,
        ),
        Claim(
            "Appendix D, text",
            "on the scale of the figures, linear scaling matches full-batch and mini-batch dynamics closely",
            f"of {start:.3g} at the start, the risks differ by at most {largest:.4f}, at epochs {at[0]} (B = 2) "
            f"and {at[1]} (B = 4)",
            largest < 0.05 * start,
        ),
        Claim(
            "beyond the paper",
            "the proportional limit predicts the curve of one data set of this size",
            f"within {off:.1%} of the exact curve at every epoch; a draw of beta_star alone moves it by 1/sqrt(p), "
            f"{numbers.p**-0.5:.1%}",
            off < 3 / numbers.p**0.5,
        ),
    ]


def claims_over(numbers: Numbers) -> list[Claim]:
    """What both appendices share, and where the difference shows."""
    full, *others = numbers.curves
    shares = []
    for curve in others:
        gap = np.abs(curve.exact.total - full.exact.total)
        shares.append((gap.max(), int(np.argmax(gap)), gap[-1]))
    shown = "; ".join(
        f"B = {c.batches}: {top:.4f} at epoch {at}, {end:.1e} at epoch {numbers.epochs}"
        for c, (top, at, end) in zip(others, shares, strict=True)
    )
    return [
        *_claims(numbers),
        Claim(
            "Appendix D.2",
            "the difference is slight, but visually apparent during the middle of training",
            f"largest difference to full batch {shown}",
            all(0 < at < numbers.epochs and top > 3 * end for top, at, end in shares),
        ),
        Claim(
            "Section 3.1",
            "overparameterized, the limits of full batch and mini-batch are the same",
            f"limiting risks {', '.join(f'{c.limit:.9f}' for c in numbers.curves)} for B = 1, 2, 4",
            max(abs(c.limit - full.limit) for c in others) < 1e-6 * full.limit,
        ),
    ]


def claims_under(numbers: Numbers) -> list[Claim]:
    """What both appendices share, and the price of two batches in the limit."""
    full, two, _ = numbers.curves
    price, expected = two.limit - full.limit, two.expected_limit - full.expected_limit
    aspect = numbers.p / numbers.n
    formula = numbers.noise**2 * aspect**2 * numbers.alpha**2 / 16
    return [
        *_claims(numbers),
        Claim(
            "Appendix D.3",
            "the limiting risk of two-batch gradient descent is greater by about 0.05",
            f"{two.limit:.6f} - {full.limit:.6f} = {price:.6f} on this draw, {expected:.6f} in the proportional "
            f"limit; leading order noise^2 gamma^2 alpha^2 / 16 = {formula:.6f}",
            abs(price - CLAIMED_DIFFERENCE) < 0.5 * CLAIMED_DIFFERENCE,
            "greater, by about 0.0007",
        ),
        Claim(
            "Section 3.1",
            "underparameterized, the limits of full batch and mini-batch differ",
            f"limiting risks {', '.join(f'{c.limit:.6f}' for c in numbers.curves)} for B = 1, 2, 4",
            all(abs(c.limit - full.limit) > 1e-6 for c in numbers.curves[1:]),
        ),
    ]


FIGURES = {
    "risk-over": Figure(
        title="Appendix D.2: the risk of 1, 2 and 4 batches, overparameterized",
        caption="Step α/B. Solid: the exact risk of the mean iterate on this draw of X and β*. Dotted: the limit "
        "for data of this shape, from p/n alone; one draw of β* is off by about 1/√p, alike for all batches. "
        "Bands: the mean test error of real runs on this draw, two standard errors wide, each run on test samples "
        "of its own; of these, the sums are drawn that its errors are made of. Right: the risk above that of full "
        "batch, in which the draw cancels.",
        full={"n": 1000, "p": 1500, "noise": 0.5, "alpha": 0.2, "epochs": 300, "last": 50, **RUNS},
        quick={"n": 200, "p": 300, **FEW_RUNS},
        compute=compute,
        draw=draw,
        table=table,
        claims=claims_over,
    ),
    "risk-under": Figure(
        title="Appendix D.3: the risk of 1, 2 and 4 batches, underparameterized",
        caption="As in Appendix D.2, with more samples than parameters.",
        full={"n": 4000, "p": 1000, "noise": 1.0, "alpha": 0.4, "epochs": 100, "last": 10, **RUNS},
        quick={"n": 800, "p": 200, **FEW_RUNS},
        compute=compute,
        draw=draw,
        table=table,
        claims=claims_under,
    ),
}
