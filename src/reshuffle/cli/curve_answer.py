"""What `reshuffle curve` found, as a table, JSON, columns and a picture."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reshuffle.cli import options
from reshuffle.cli.options import ProblemOptions
from reshuffle.cli.output import Answer, number
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    import reshuffle as rs
    from reshuffle.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Curve:
    """One scheme on one problem: what is shown of it."""

    name: str
    batches: int
    step: float
    run: "rs.Descent | rs.AffineDescent"
    epochs: "FloatArray"
    training_loss: "FloatArray"
    limit: "rs.Limit"
    risk: "rs.Risk | None"
    best: "rs.BestEpoch | None"
    held_out_loss: "FloatArray | None"
    simulation: "rs.Simulation | None"

    @property
    def shown(self) -> tuple[str, "FloatArray"]:
        """What the picture is of: the risk if it is known, else the loss on held-out rows, else in training."""
        if self.risk is not None:
            return "risk of the mean iterate", self.risk.total
        if self.held_out_loss is not None:
            return "held-out loss of the mean iterate", self.held_out_loss
        return "training loss of the mean iterate", self.training_loss


def answer(problem: "rs.LeastSquares", asked: ProblemOptions, curves: list[Curve]) -> Answer:
    """Everything that is shown of the curves of one problem."""
    from reshuffle import plotting

    ylabel = curves[0].shown[0]
    source = f"{asked.data}: " if asked.data is not None else ""
    noise = "" if problem.noise is None else f", noise {problem.noise:g}"
    headings, rows = _table(curves)
    return Answer(
        title=f"{source}n = {problem.n}, p = {problem.p}{noise}: exact, no training",
        headings=headings,
        rows=rows,
        data={
            "command": "curve",
            **_described(problem, asked),
            "curves": [_record(curve) for curve in curves],
        },
        columns=_columns(curves),
        draw=lambda: _picture(curves),
        series=[
            Series(
                plotting.scheme_label(curve.name, curve.batches),
                plotting.scheme_colour(curve.name, curve.batches),
                curve.epochs,
                curve.shown[1],
            )
            for curve in curves
        ],
        xlabel="epochs",
        ylabel=ylabel,
        notes=_notes(curves),
    )


def _described(problem: "rs.LeastSquares", asked: ProblemOptions) -> dict[str, Any]:
    import reshuffle as rs

    return {
        "version": rs.__version__,
        "problem": {
            "n": problem.n,
            "p": problem.p,
            "noise": problem.noise,
            "covariance": asked.covariance,
            "seed": asked.seed,
            "data": asked.data,
        },
    }


def _table(curves: list[Curve]) -> tuple[list[str], list[list[str]]]:
    import numpy as np

    headings = ["scheme", "batches", "step", "converges"]
    rows = [[c.name, str(c.batches), number(c.step), "yes" if c.limit.converges else "no"] for c in curves]
    if curves[0].risk is not None:
        headings += ["best epoch", "risk there", "limit"]
        for row, curve in zip(rows, curves, strict=True):
            assert curve.best is not None
            assert curve.limit.risk is not None
            row += [number(curve.best.epoch), number(curve.best.risk), number(float(curve.limit.risk.total))]
    if curves[0].held_out_loss is not None:
        headings += ["best epoch shown", "held-out loss there"]
        for row, curve in zip(rows, curves, strict=True):
            assert curve.held_out_loss is not None
            at = int(np.argmin(curve.held_out_loss))
            row += [number(float(curve.epochs[at])), number(float(curve.held_out_loss[at]))]
    if curves[0].risk is None:
        headings += ["training loss", "its limit", "|limit - min norm|"]
        for row, curve in zip(rows, curves, strict=True):
            distance = curve.run.compare_limit().distance if curve.limit.converges else float("inf")
            row += [
                number(float(curve.training_loss[-1])),
                number(curve.limit.training_loss),
                number(distance, 3),
            ]
    return headings, rows


def _notes(curves: list[Curve]) -> list[str]:
    if curves[0].risk is None and curves[0].held_out_loss is None:
        return [
            "The truth behind this data is unknown: no risk. Held-out rows (--test FILE) show the test loss."
        ]
    return []


def _record(curve: Curve) -> dict[str, Any]:
    risk, limit = curve.risk, curve.limit
    stability = curve.run.stability()
    record: dict[str, Any] = {
        "scheme": curve.name,
        "batches": curve.batches,
        "step": curve.step,
        "alpha": curve.step * curve.batches,
        "converges": limit.converges,
        "rate": stability.rate,
        "best_epoch": None if curve.best is None else vars(curve.best),
        "limit": {
            "training_loss": limit.training_loss,
            "risk": None if limit.risk is None else limit.risk.total,
            "distance_from_minimum_norm": curve.run.compare_limit().distance
            if limit.converges
            else float("inf"),
        },
        "epochs": curve.epochs,
        "training_loss": curve.training_loss,
    }
    if risk is not None:
        record["risk"] = {"total": risk.total} | {
            part: getattr(risk, part) for part in ("frozen", "bias", "cross", "variance")
        }
    if curve.held_out_loss is not None:
        record["held_out_loss"] = curve.held_out_loss
    for name, estimate in _estimates(curve).items():
        record[f"simulated_{name}"] = {"mean": estimate.mean, "standard_error": estimate.standard_error}
    return record


def _estimates(curve: Curve) -> dict[str, "rs.Estimate"]:
    """What was simulated and has an exact counterpart, or is of interest by itself."""
    simulation = curve.simulation
    if simulation is None or simulation.risk is None or simulation.mean_iterate_risk is None:
        return {}
    return {"run_risk": simulation.risk, "risk": simulation.mean_iterate_risk}


def _columns(curves: list[Curve]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    for curve in curves:
        count = len(curve.epochs)
        parts: dict[str, Any] = {
            "scheme": [curve.name] * count,
            "batches": [curve.batches] * count,
            "epoch": curve.epochs.astype("int64"),
        }
        if curve.risk is not None:
            parts["risk"] = curve.risk.total
            parts |= {part: getattr(curve.risk, part) for part in ("frozen", "bias", "cross", "variance")}
        parts["training_loss"] = curve.training_loss
        if curve.held_out_loss is not None:
            parts["held_out_loss"] = curve.held_out_loss
        for name, estimate in _estimates(curve).items():
            parts[f"simulated_{name}"] = estimate.mean
            parts[f"simulated_{name}_standard_error"] = estimate.standard_error
        for name, values in parts.items():
            columns.setdefault(name, []).extend(values)
    return columns


def _picture(curves: list[Curve]) -> "Picture":
    from reshuffle import plotting

    picture = plotting.figure(6.8, 4.2)
    ax = picture.add_subplot()
    for curve in curves:
        label = plotting.scheme_label(curve.name, curve.batches)
        colour = plotting.scheme_colour(curve.name, curve.batches)
        ylabel, values = curve.shown
        if "risk" in (estimates := _estimates(curve)):
            band = "simulated ± 2 s.e." if curve is curves[0] else ""
            plotting.simulated_band(curve.epochs, estimates["risk"], label=band, colour=colour, ax=ax)
        plotting.curve(curve.epochs, values, label=label, colour=colour, ylabel=ylabel, ax=ax)
        if curve.best is not None and curve.best.epoch <= curve.epochs[-1]:
            plotting.mark_best(curve.best.epoch, curve.best.risk, colour=colour, ax=ax)
    plotting.scale_values(ax)
    if curves[0].epochs[-1] > options.EVERY_EPOCH:
        ax.set_xscale("symlog")
    ax.legend(frameon=False, fontsize=9)
    return picture
