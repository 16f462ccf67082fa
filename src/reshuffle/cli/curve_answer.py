"""What `reshuffle curve` found, as a table, JSON, columns and a picture."""

import math
from typing import TYPE_CHECKING, Any

from reshuffle.cli import options
from reshuffle.cli.curve_run import Curve, Question, loss_error
from reshuffle.cli.data import Posed
from reshuffle.cli.options import ProblemOptions
from reshuffle.cli.output import Answer, number, uncertain
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    import reshuffle as rs

_PARTS = ("frozen", "bias", "cross", "variance")
_METHODS = {"exact": "exact", "cavity": "cavity", "sampling": "sampled"}


def answer(posed: Posed, asked: ProblemOptions, question: Question, curves: list[Curve]) -> Answer:
    """Everything that is shown of the curves of one problem."""
    problem = posed.problem
    source = f"{asked.data}: " if asked.data is not None else ""
    noise = "" if problem.noise is None else f", noise {problem.noise:g}"
    how = (
        "exact, no training" if all(curve.is_exact for curve in curves) else "no training; ± where not exact"
    )
    headings, rows = _table(curves)
    return Answer(
        title=f"{source}n = {problem.n}, p = {problem.p}{noise}{_recipe(question)}: {how}",
        remarks=posed.remarks,
        headings=headings,
        rows=rows,
        keys=2,
        data={
            "command": "curve",
            **_described(posed, asked, question),
            "curves": [_record(curve) for curve in curves],
        },
        columns=_columns(curves),
        draw=lambda: _picture(curves),
        series=[Series(_label(curve), curve.epochs, curve.shown[1]) for curve in curves],
        xlabel="epochs",
        ylabel=curves[0].shown[0],
        notes=_notes(curves),
        far=bool(curves[0].epochs[-1] > options.EVERY_EPOCH),
    )


def _label(curve: Curve) -> str:
    from reshuffle import plotting

    name, batches = curve.visiting.name, curve.visiting.batches
    if batches == 1 and name != "full-batch":
        # One batch that is drawn anew is not the full batch.
        return f"1 batch, {name.replace('-', ' ')}"
    return plotting.scheme_label(name, batches)


def _recipe(question: Question) -> str:
    return "".join(f", {name} {value:g}" for name, value in question.recipe.items() if value)


def _described(posed: Posed, asked: ProblemOptions, question: Question) -> dict[str, Any]:
    import reshuffle as rs

    return {
        "version": rs.__version__,
        "problem": {
            "n": posed.problem.n,
            "p": posed.problem.p,
            "noise": posed.problem.noise,
            "covariance": asked.covariance,
            "seed": asked.seed,
            "data": asked.data,
            **posed.record(),
        },
        "recipe": question.recipe,
    }


def _table(curves: list[Curve]) -> tuple[list[str], list[list[str]]]:
    """Columns that say something: of one method, of runs, of a simulation only where there are such."""
    columns: dict[str, list[str]] = {
        "scheme": [curve.visiting.name for curve in curves],
        "batches": [str(curve.visiting.batches) for curve in curves],
        "step": [number(curve.step) for curve in curves],
    }
    if any(curve.run.error_kind != "exact" for curve in curves):
        columns["method"] = [_METHODS[curve.run.method] for curve in curves]
    columns["converges"] = ["yes" if curve.limit.converges else "no" for curve in curves]
    if any(curve.mean_square is not None for curve in curves):
        columns["runs converge"] = [
            "-" if curve.mean_square is None else "yes" if curve.mean_square.converges else "no"
            for curve in curves
        ]
    columns |= _losses(curves) if curves[0].risk is None else _risks(curves)
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _risks(curves: list[Curve]) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {"best epoch": [], "risk there": [], "risk of one run": [], "limit": []}
    simulated: dict[str, list[str]] = {"simulated risk": [], "simulated run": []}
    for curve in curves:
        assert curve.best is not None
        assert curve.limit.risk is not None
        run, end = curve.run_there, curve.limit.risk
        columns["best epoch"].append(number(curve.best.epoch))
        columns["risk there"].append(uncertain(curve.best.risk, curve.best_error))
        columns["risk of one run"].append(
            "-" if run is None else uncertain(float(run.total), float(run.error))
        )
        columns["limit"].append(uncertain(float(end.total), float(end.error)))
        for heading, name in (("simulated risk", "risk"), ("simulated run", "run_risk")):
            if name in (estimates := _estimates(curve)):
                simulated[heading].append(_there(curve, estimates[name]))
    if curves[0].simulation is not None:
        columns |= simulated
    if curves[0].held_out_loss is not None:
        columns |= _held_out(curves)
    return columns


def _there(curve: Curve, estimate: "rs.Estimate") -> str:
    """A simulated mean and two standard errors at the best epoch, or at the one nearest to it."""
    import numpy as np

    assert curve.best is not None
    at = int(np.argmin(np.abs(curve.epochs - min(curve.best.epoch, curve.epochs[-1]))))
    text = uncertain(float(estimate.mean[at]), 2 * float(estimate.standard_error[at]))
    return text if curve.epochs[at] == curve.best.epoch else f"{text}\n(epoch {curve.epochs[at]:g})"


def _held_out(curves: list[Curve]) -> dict[str, list[str]]:
    import numpy as np

    columns: dict[str, list[str]] = {"best epoch shown": [], "held-out loss there": []}
    for curve in curves:
        assert curve.held_out_loss is not None
        assert curve.held_out_error is not None
        at = int(np.argmin(curve.held_out_loss))
        columns["best epoch shown"].append(number(float(curve.epochs[at])))
        columns["held-out loss there"].append(
            uncertain(float(curve.held_out_loss[at]), float(curve.held_out_error[at]))
        )
    return columns


def _losses(curves: list[Curve]) -> dict[str, list[str]]:
    columns = _held_out(curves) if curves[0].held_out_loss is not None else {}
    training, ends, distances, simulated = [], [], [], []
    for curve in curves:
        limit = curve.limit
        training.append(uncertain(float(curve.training_loss[-1]), float(curve.training_error[-1])))
        off = loss_error(curve.run.problem, limit.training_loss, limit.error)
        ends.append(uncertain(limit.training_loss, float(off)))
        distance = _distance(curve)
        distances.append(uncertain(distance, limit.error) if limit.error else number(distance, 3))
        if curve.simulated_loss is not None:
            simulated.append(uncertain(*curve.simulated_loss))
    columns |= {"training loss": training}
    if simulated:
        columns["simulated loss"] = simulated
    return columns | {"its limit": ends, "limit to min-norm": distances}


def _distance(curve: Curve) -> float:
    return curve.run.compare_limit().distance if curve.limit.converges else math.inf


def _notes(curves: list[Curve]) -> list[str]:
    notes = []
    if curves[0].risk is None and curves[0].held_out_loss is None:
        notes.append(
            "The truth behind this data is unknown: no risk. Held-out rows (--test FILE) show the test loss."
        )
    if curves[0].risk is None:
        notes.append(
            f"Losses are |y - X b|^2 / (2 rows); the training loss is that of epoch {curves[0].epochs[-1]:g}."
        )
    reasons: dict[str, list[str]] = {}
    for curve in curves:
        reasons.setdefault(curve.unanswered, []).append(_label(curve))
    notes += [f"{', '.join(labels)}: {reason}." for reason, labels in reasons.items() if reason]
    of_few = [_label(curve) for curve in curves if curve.best is not None and math.isnan(curve.best.error)]
    if of_few:
        notes.append(f"{', '.join(of_few)}: the best epoch is that of the epochs shown and the limit.")
    open_ = [
        curve for curve in curves if curve.best is not None and curve.best.error > 1e-9 * curve.best.risk
    ]
    notes += [
        f"{_label(curve)}: the search for the best epoch ended early; the risk may be smaller by up to "
        f"{number(curve.best.error, 2)} elsewhere."
        for curve in open_
        if curve.best is not None
    ]
    if any(curve.run.error_kind == "confidence 99%" for curve in curves):
        notes.append(
            "Sampled: the mean over orders is that of drawn orders; ± covers it for 99 of 100 seeds."
        )
    if any(curve.run.error_kind == "bound" for curve in curves):
        notes.append("Series: the mean over orders is summed up to a bound that is proven; ± is that bound.")
    if curves[0].simulation is not None:
        notes.append(f"Simulated: {curves[0].simulation.runs} real runs; ± is two standard errors.")
    return notes


def _record(curve: Curve) -> dict[str, Any]:
    risk, limit = curve.risk, curve.limit
    record: dict[str, Any] = {
        "scheme": curve.visiting.name,
        "batches": curve.visiting.batches,
        "step": curve.step,
        "alpha": curve.step * curve.visiting.batches,
        "method": curve.run.method,
        "converges": limit.converges,
        "rate": curve.run.stability().rate,
        "mean_square": None if curve.mean_square is None else vars(curve.mean_square),
        "unanswered": curve.unanswered or None,
        "best_epoch": None if curve.best is None else vars(curve.best),
        "limit": {
            "training_loss": limit.training_loss,
            "risk": None if limit.risk is None else limit.risk.total,
            "risk_error": None if limit.risk is None else limit.risk.error,
            "distance_from_minimum_norm": _distance(curve),
            "error": limit.error,
        },
        "epochs": curve.epochs,
        "training_loss": curve.training_loss,
        "training_loss_error": curve.training_error,
    }
    if risk is not None:
        record["risk"] = {name: getattr(risk, name) for name in ("total", "error", *_PARTS)}
        record["run_risk_at_best_epoch"] = _run_record(curve.run_there)
        record["run_risk"] = _run_record(curve.run_risk)
    if curve.held_out_loss is not None:
        record["held_out_loss"] = curve.held_out_loss
        record["held_out_loss_error"] = curve.held_out_error
    for name, estimate in _estimates(curve).items():
        record[f"simulated_{name}"] = {"mean": estimate.mean, "standard_error": estimate.standard_error}
    if curve.simulated_loss is not None:
        loss, error = curve.simulated_loss
        record["simulated_training_loss"] = {"epoch": curve.epochs[-1], "mean": loss, "error": error}
    return record


def _run_record(risk: "rs.ExpectedRisk | None") -> dict[str, Any] | None:
    return None if risk is None else {name: getattr(risk, name) for name in ("total", "spread", "error")}


def _estimates(curve: Curve) -> dict[str, "rs.Estimate"]:
    """What was simulated and has an exact counterpart, or is of interest by itself."""
    simulation = curve.simulation
    if simulation is None or simulation.expected_risk is None or simulation.risk is None:
        return {}
    return {"run_risk": simulation.expected_risk, "risk": simulation.risk}


def _columns(curves: list[Curve]) -> dict[str, list[Any]]:
    with_runs = any(curve.run_risk is not None for curve in curves)
    columns: dict[str, list[Any]] = {}
    for curve in curves:
        count = len(curve.epochs)
        parts: dict[str, Any] = {
            "scheme": [curve.visiting.name] * count,
            "batches": [curve.visiting.batches] * count,
            "epoch": curve.epochs.astype("int64"),
        }
        if curve.risk is not None:
            parts |= {"risk": curve.risk.total, "risk_error": curve.risk.error}
            parts |= {part: getattr(curve.risk, part) for part in _PARTS}
        if with_runs:
            run = curve.run_risk
            parts["run_risk"] = [None] * count if run is None else run.total
            parts["run_risk_error"] = [None] * count if run is None else run.error
        parts |= {"training_loss": curve.training_loss, "training_loss_error": curve.training_error}
        if curve.held_out_loss is not None:
            parts |= {"held_out_loss": curve.held_out_loss, "held_out_loss_error": curve.held_out_error}
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
        label = _label(curve)
        colour = plotting.scheme_colour(curve.visiting.name, curve.visiting.batches)
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
