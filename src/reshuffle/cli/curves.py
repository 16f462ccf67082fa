"""`reshuffle curve` and `reshuffle stability`: metrics of several schemes, on drawn or on one's own data."""

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from reshuffle.cli import console, options, render
from reshuffle.cli.options import ACCURACY, FLAG, RECIPE, WHOLE, also
from reshuffle.cli.problem import pose
from reshuffle.cli.render import Report, entry, number, uncertain
from reshuffle.cli.sketch import Series
from reshuffle.errors import ArgumentError

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle._arrays import FloatArray
    from reshuffle.grid.metrics import Answer as Found

_QUICK = 2e10
"""Operations that nobody has to ask for: a second or two."""
_QUICK_THRESHOLD = 1e8
"""Rows times the square of the rank times batches, up to which the largest step takes a second or two."""
_PARTS = ("frozen", "bias", "cross", "variance")
_METHODS = {"exact": "exact", "cavity": "cavity", "sampling": "sampled"}
_COLUMNS = {
    "scheme": "scheme",
    "batches": "batches",
    "epoch": "epochs",
    "risk": "risk.total",
    "risk_error": "risk.error",
    **{part: f"risk.{part}" for part in _PARTS},
    "run_risk": "run_risk.total",
    "run_risk_error": "run_risk.error",
    **{name: name for loss in ("training_loss", "held_out_loss") for name in (loss, f"{loss}_error")},
    "simulated_run_risk": "simulated_run_risk.mean",
    "simulated_run_risk_standard_error": "simulated_run_risk.standard_error",
    "simulated_risk": "simulated_risk.mean",
    "simulated_risk_standard_error": "simulated_risk.standard_error",
}
"""Columns of the CSV file of curves, and their paths in a record."""
_ERRORS = ("risk.error", "training_loss_error", "run_risk_at_best_epoch.error", "run_risk.error")


# ------------------------------------------------------------------------------------------------ learning curves


def curve(
    *,
    problem: options.ProblemOptions = options.NO_PROBLEM,
    alpha: options.Alpha = None,
    step: Annotated[float | None, RECIPE] = None,
    batches: Annotated[str | None, RECIPE, also("-b")] = None,
    scheme: options.Schemes = "reshuffling",
    recipe: options.RecipeOptions = options.PLAIN,
    epochs: options.Epochs = 300,
    mean_square: Annotated[bool, ACCURACY, FLAG] = False,
    rtol: Annotated[float | None, ACCURACY] = None,
    budget: Annotated[float | None, ACCURACY] = None,
    simulate: Annotated[int, ACCURACY, WHOLE] = 0,
    test: Annotated[str | None, ACCURACY] = None,
    outputs: options.OutputOptions = options.TERMINAL,
) -> None:
    """Learning curves: the risk of every epoch, when to stop, where it ends.

    Averaged over every order in which the batches can be visited: exactly,
    or with an error that is shown. With --data the truth is unknown: it shows
    the training loss, and the loss on held-out rows with --test. An npz file
    may hold beta_star, noise and covariance besides X and y; then the risk is
    known too.

    For example:
      reshuffle curve --n 200 --p 300 --noise 0.5 --alpha 0.2 --batches 1,2,4
      reshuffle curve --data mine.csv --intercept --step 0.01 --test other.csv

    :param step: The step of each visit, instead of --alpha.
    :param batches: Numbers of batches B, separated by commas; else 1,2,4.
    :param mean_square: Also the risk of one run at every epoch, and whether runs converge, not only their mean.
    :param rtol: Relative error allowed where orders cannot all be averaged; else 5e-3.
    :param budget: Operations allowed for the mean of an epoch; else 1e12, a minute or so.
    :param simulate: Also train this many real runs, an even number.
    :param test: Held-out data, with the columns of --data in any order: adds its loss.
    """
    render.check(outputs, data=problem.data, test=test, covariance=problem.covariance)
    options.one_of(needed=True, alpha=alpha, step=step)
    options.words("scheme", scheme, options.SCHEMES)
    options.batch_counts(batches, "1,2,4")
    when = options.epochs_up_to(epochs)
    posed = pose(problem)
    held_out = None if test is None else posed.held_out(test)
    visitings = options.visitings(scheme, batches, "1,2,4", recipe, posed.problem.n)
    import reshuffle as rs
    from reshuffle.grid import metrics

    settings: dict[str, Any] = {"alpha": alpha, "seed": problem.seed, "momentum": recipe.momentum}
    settings |= {name: value for name, value in (("rtol", rtol), ("budget", budget)) if value is not None}
    runs = [
        rs.descend(posed.problem, one.scheme, step, penalty=recipe.weight_decay, **settings)
        for one in visitings
    ]
    knows_truth = posed.problem.beta_star is not None and posed.problem.noise is not None
    wanted: list[Any] = ["training_loss", "limit", "limit_distance", "stability"]
    wanted += ["risk"] * knows_truth + ["mean_square_stability"] * mean_square
    wanted += ["expected_risk"] * (knows_truth and mean_square)
    wanted += [] if held_out is None else [metrics.held_out_loss(held_out)]
    wanted += [metrics.simulated(simulate, problem.seed, knows_truth=knows_truth)] if simulate else []
    answers = metrics.evaluate(runs, wanted, when)
    if knows_truth:
        answers = [
            found | _best(run, found, when, mean_square) for run, found in zip(runs, answers, strict=True)
        ]
    # Of a run that diverges nobody wants more digits.
    settled = [found for found in answers if found["converges"].value]
    said = {str(warning): warning for found in settled for one in found.values() for warning in one.warnings}
    for warning in said.values():
        console.warn(warning)
    needed = {"training_loss", "limit_training_loss", "rate", *(["risk"] if knows_truth else [])}
    for found in answers:
        for name, one in found.items():
            if one.refusal is not None and (name in needed or name.startswith("simulated")):
                raise one.refusal
    records = [_record(*parts, when) for parts in zip(visitings, runs, answers, strict=True)]
    diverging = [
        f"{_label(record)}: this step diverges; {_threshold_words(run, record)}."
        for record, run in zip(records, runs, strict=True)
        if not record["converges"]
    ]

    shown = next(name for name in ("risk", "held_out_loss", "training_loss") if name in records[0])
    labels = {"held_out_loss": "held-out loss of the mean iterate"}
    errors = [entry(record, path) for record in records for path in _ERRORS]
    is_exact = not any(error is not None and error.any() for error in errors)
    source = "" if problem.data is None else f"{problem.data}: "
    noise = "" if posed.problem.noise is None else f", noise {posed.problem.noise:g}"
    how = "exact, no training" if is_exact else "no training; ± where not exact"
    answer = Report(
        "curve",
        f"{source}n = {posed.problem.n}, p = {posed.problem.p}{noise}{_recipe_words(recipe)}: {how}",
        {
            "problem": posed.record(problem),
            "recipe": {"momentum": recipe.momentum, "weight_decay": recipe.weight_decay},
        },
        "curves",
        records,
        _curve_table(records),
        _COLUMNS,
        [_series(one, shown) for one in records],
        ylabel=labels.get(shown) or metrics.METRICS[shown].label,
        keys=2,
        remarks=[*posed.remarks, *posed.lacks, *diverging],
        notes=_curve_notes(records, simulate),
    )
    render.deliver(answer, outputs)


def _best(
    run: "rs.Run", answers: "dict[str, Found]", when: "FloatArray", mean_square: bool
) -> "dict[str, Found]":
    """The best epoch, and the risk of one run there.

    Where epochs would be tried one by one at length, it is the best of those shown and of the limit, with an
    unknown gap to the others.
    """
    import numpy as np

    from reshuffle.grid import metrics

    (best,) = metrics.evaluate([run], ["best_epoch"], operations=_QUICK)
    if best["best_epoch"].refusal is not None:
        totals, errors = (
            np.append(getattr(answers["risk"], name), getattr(answers["limit_risk"], name))
            for name in ("value", "error")
        )
        at = int(np.argmin(totals))
        epoch = np.append(when, np.inf)[at]
        values = {"best_epoch": epoch, "best_epoch_risk": totals[at], "best_epoch_gap": np.nan}
        best = {name: metrics.Answer(np.asarray(value)) for name, value in values.items()}
        best["best_epoch_risk"] = metrics.Answer(np.asarray(totals[at]), np.asarray(errors[at]))
    limit = math.inf if mean_square else _QUICK
    (there,) = metrics.evaluate([run], ["expected_risk"], best["best_epoch"].value, operations=limit)
    return best | {
        "run_risk_there": there["expected_risk"],
        "run_spread_there": there["expected_risk_spread"],
    }


def _threshold_words(run: "rs.Run", record: dict[str, Any]) -> str:
    """The largest step at which the mean iterate converges, where it is known in a second or two."""
    from reshuffle.grid import metrics

    problem, elsewhere = run.problem, "reshuffle stability prints the largest step that converges"
    price = problem.n * problem.rank**2 * run.scheme.steps(problem.n)
    if record["method"] != "exact" or run.recipe.momentum or price > _QUICK_THRESHOLD:
        return elsewhere
    (found,) = metrics.evaluate([run], ["critical_step"])
    return elsewhere if found["critical_step"].refusal else f"stay below {found['critical_step'].text()}"


def _recipe_words(recipe: options.RecipeOptions) -> str:
    parts = {"momentum": recipe.momentum, "weight decay": recipe.weight_decay}
    return "".join(f", {name} {value:g}" for name, value in parts.items() if value)


def _label(record: dict[str, Any]) -> str:
    """The name of a curve for people."""
    from reshuffle import plotting

    name, batches = record["scheme"], record["batches"]
    if batches == 1 and name != "full-batch":
        # One batch that is drawn anew is not the full batch.
        return f"1 batch, {name.replace('-', ' ')}"
    return plotting.scheme_label(name, batches)


def _record(
    visiting: options.NamedScheme, run: "rs.Run", found: "dict[str, Found]", when: "FloatArray"
) -> dict[str, Any]:
    """Everything that is known of one scheme, as JSON has it."""
    value = {name: answer.value for name, answer in found.items() if answer.refusal is None}
    error = {name: answer.error for name, answer in found.items()}
    step, settled = float(run.step), value["converges"] and "limit_distance" in value  # type: ignore[arg-type]
    unknown = ("run_risk_there", "expected_risk", "mean_square_rate")
    reasons = [found[name].refusal for name in unknown if name in found]
    refusals = [reason for reason in reasons if reason is not None]
    with warnings.catch_warnings():
        # The mean of a run that diverges may be known to few digits.
        warnings.simplefilter("ignore")
        method = (run if value["converges"] else run.relaxed).method
    record: dict[str, Any] = {
        "scheme": visiting.name,
        "batches": visiting.batches,
        "step": step,
        "learning_rate": step,
        "alpha": step * visiting.batches,
        "method": method,
        "converges": bool(value["converges"]),
        "rate": value["rate"],
        "mean_square": None,
        "unanswered": console.reason_of(refusals[0]) if refusals else None,
        "best_epoch": None,
        "limit": {
            "training_loss": value["limit_training_loss"],
            "training_loss_error": error["limit_training_loss"],
            "risk": value["limit_risk"] if "risk" in value else None,
            "risk_error": error["limit_risk"] if "risk" in value else None,
            "distance_from_minimum_norm": value["limit_distance"] if settled else math.inf,
            "error": error["limit_distance"] if settled else 0.0,
        },
        "epochs": when,
    }
    if "mean_square_rate" in value:
        converges, name = bool(value["mean_square_converges"]), "mean_square_rate"
        record["mean_square"] = {"converges": converges, "rate": value[name], "error": error[name]}
    if "risk" in value:
        record["best_epoch"] = {
            "epoch": float(value["best_epoch"]),
            "risk": float(value["best_epoch_risk"]),
            "error": float(value["best_epoch_gap"]),
            "risk_error": error["best_epoch_risk"],
        }
        parts = {part: value[f"risk_{part}"] for part in _PARTS}
        record["risk"] = {"total": value["risk"], "error": error["risk"], **parts}
        for name, total, spread in (
            ("run_risk_at_best_epoch", "run_risk_there", "run_spread_there"),
            ("run_risk", "expected_risk", "expected_risk_spread"),
        ):
            record[name] = None
            if total in value:
                record[name] = {"total": value[total], "spread": value[spread], "error": error[total]}
    for name in ("training_loss", "held_out_loss"):
        if name in value:
            record |= {name: value[name], f"{name}_error": error[name]}
    for name, quantity in (("run_risk", "simulated_expected_risk"), ("risk", "simulated_risk")):
        if quantity in value:
            estimate = {"mean": value[quantity], "standard_error": error[quantity] / 2}
            record[f"simulated_{name}"] = estimate
    if "simulated_training_loss" in value:
        mean, twice = (one["simulated_training_loss"][-1] for one in (value, error))
        record["simulated_training_loss"] = {"epoch": when[-1], "mean": mean, "error": twice}
    return record


def _curve_table(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns of the readable table; empty ones are left out."""
    import numpy as np

    def simulated(name: str) -> Any:
        def at_the_best_epoch(record: dict[str, Any]) -> str | None:
            if name not in record:
                return None
            when, best, found = record["epochs"], record["best_epoch"]["epoch"], record[name]
            at = int(np.argmin(np.abs(when - min(best, when[-1]))))
            where = "" if when[at] == best else f"\n(epoch {when[at]:g})"
            return uncertain(found["mean"][at], 2 * found["standard_error"][at]) + where

        return at_the_best_epoch

    def held_out(record: dict[str, Any], *names: str) -> Any:
        loss = record.get("held_out_loss")
        return None if loss is None else tuple(record[name][int(np.argmin(loss))] for name in names)

    def distance(record: dict[str, Any]) -> Any:
        value, error = record["limit"]["distance_from_minimum_norm"], record["limit"]["error"]
        return (value, error) if error else number(float(value), 3)

    table: dict[str, Any] = {"scheme": "scheme", "batches": "batches", "step": "step"}
    if any(record["method"] != "exact" for record in records):
        table["method"] = lambda record: _METHODS[record["method"]]
    table |= {
        "converges": "converges",
        "runs converge": "mean_square.converges",
        "best epoch": "best_epoch.epoch",
        "risk there": "best_epoch.risk ± best_epoch.risk_error",
        "risk of one run": "run_risk_at_best_epoch.total ± run_risk_at_best_epoch.error",
        "limit": "limit.risk ± limit.risk_error",
        "simulated risk": simulated("simulated_risk"),
        "simulated run": simulated("simulated_run_risk"),
        "best epoch shown": lambda record: (held_out(record, "epochs") or [None])[0],
        "held-out loss there": lambda record: held_out(record, "held_out_loss", "held_out_loss_error"),
    }
    if "risk" not in records[0]:
        table |= {
            "training loss": "training_loss.-1 ± training_loss_error.-1",
            "simulated loss": "simulated_training_loss.mean ± simulated_training_loss.error",
            "its limit": "limit.training_loss ± limit.training_loss_error",
            "limit to min-norm": distance,
        }
    return table


def _series(record: dict[str, Any], shown: str) -> Series:
    """The curve of the quantity that is shown."""
    from reshuffle import plotting

    values = record["risk"]["total"] if shown == "risk" else record[shown]
    best, simulated = record["best_epoch"], record.get("simulated_risk")
    return Series(
        _label(record),
        record["epochs"],
        values,
        colour=plotting.scheme_colour(record["scheme"], record["batches"]),
        best=None if best is None else (best["epoch"], best["risk"]),
        band=None if simulated is None else (simulated["mean"], 2 * simulated["standard_error"]),
    )


def _curve_notes(records: list[dict[str, Any]], runs: int) -> list[str]:
    first, notes = records[0], []
    if "risk" not in first and "held_out_loss" not in first:
        notes.append(
            "The truth behind this data is unknown: no risk. Held-out rows (--test FILE) show the test loss."
        )
    if "risk" not in first:
        last = first["epochs"][-1]
        notes.append(f"Losses are |y - X b|^2 / (2 rows); the training loss is that of epoch {last:g}.")
    reasons: dict[str, list[str]] = {}
    for record in records:
        gap = entry(record, "best_epoch.error")
        few = "the best epoch is that of the epochs shown and the limit"
        for reason in (record["unanswered"], few if gap is not None and math.isnan(gap) else None):
            if reason:
                reasons.setdefault(reason, []).append(_label(record))
    notes += [f"{', '.join(labels)}: {reason}." for reason, labels in reasons.items()]
    notes += [
        f"{_label(record)}: the search for the best epoch ended early; the risk may be smaller by up to "
        f"{number(record['best_epoch']['error'], 2)} elsewhere."
        for record in records
        if record["best_epoch"] and record["best_epoch"]["error"] > 1e-9 * record["best_epoch"]["risk"]
    ]
    if any(record["method"] == "sampling" for record in records):
        notes.append(
            "Sampled: the mean over orders is that of drawn orders; ± covers it for 99 of 100 seeds."
        )
    if runs:
        notes.append(f"Simulated: {runs} real runs; ± is two standard errors.")
    return notes


# ----------------------------------------------------------------------------------------------- largest steps


def stability(
    *,
    problem: options.ProblemOptions = options.NO_PROBLEM,
    aspect: Annotated[float | None, options.DATA] = None,
    batches: Annotated[str | None, RECIPE, also("-b")] = None,
    scheme: options.Schemes = "reshuffling",
    recipe: options.RecipeOptions = options.PLAIN,
    mean_square: Annotated[bool | None, ACCURACY, Parameter(negative="--mean")] = None,
    outputs: options.OutputOptions = options.TERMINAL,
) -> None:
    """The largest step up to which runs converge.

    For each scheme and number of batches, on a problem: single runs, in mean
    square; with --mean the mean over all orders, which allows larger steps
    and is known sooner. With --aspect that mean, in the limit of large data.
    alpha is B times the step of a visit: the full-batch step to which it
    corresponds under linear scaling.

    For example:
      reshuffle stability --n 60 --p 90 --scheme reshuffling,with-replacement
      reshuffle stability --n 200 --p 300 --mean
      reshuffle stability --aspect 1.5 --batches 1,2,3,4

    :param aspect: p / n of ever larger data, instead of a problem.
    :param batches: Numbers of batches B, separated by commas; else 1,2,4,8.
    :param mean_square: Single runs in mean square (the default), or the mean over all orders.
    """
    import numpy as np

    from reshuffle import plotting

    render.check(outputs, data=problem.data, covariance=problem.covariance)
    names = options.words("scheme", scheme, options.SCHEMES)
    counts = options.batch_counts(batches, "1,2,4,8")
    of_runs = aspect is None and mean_square is not False
    remarks: Sequence[str] = ()
    if aspect is not None:
        if problem != options.NO_PROBLEM or recipe != options.PLAIN or mean_square:
            hint = "leave out {mean_square} and the options of a problem and of a recipe"
            given = "describes the mean over orders of ever larger data"
            raise ArgumentError("aspect", "", given, hint)
        for name in names:
            if name not in ("reshuffling", "full-batch"):
                raise ArgumentError("scheme", "be reshuffling or full-batch with {aspect}", f"it is {name!r}")
        from reshuffle.asymptotics import critical_alpha

        facts: dict[str, Any] = {"aspect": aspect}
        where = f"p / n = {aspect:g}, in the proportional limit"
        cuts = dict.fromkeys(
            ("full-batch", 1) if name == "full-batch" or count == 1 else (name, count)
            for name in names
            for count in counts
        )
        records = [_threshold(name, count, critical_alpha(aspect, count) / count) for name, count in cuts]
    else:
        posed = pose(problem)
        visitings = options.visitings(scheme, batches, "1,2,4,8", recipe, posed.problem.n)
        facts = {**posed.record(problem), "momentum": recipe.momentum, "weight_decay": recipe.weight_decay}
        where = f"n = {posed.problem.n}, p = {posed.problem.p}{_recipe_words(recipe)}"
        remarks, records = posed.remarks, _on_data(posed.problem, visitings, recipe, of_runs)
    facts["mean_square"] = of_runs
    known = [record for record in records if record["step"] is not None]
    notes = [f"{one['name']}, {one['batches']} batches: {one['reason']}." for one in records if one["reason"]]
    searched = recipe.momentum or recipe.weight_decay or of_runs
    if searched or any(record["name"] in ("cyclic", "shuffle-once") for record in known):
        notes.append(
            "Steps were tried 2% apart, and the first that fails refined: a gap of instability narrower than that "
            "would be missed."
        )
    families: dict[str, list[Any]] = {}
    for record in known:
        families.setdefault(record["name"], []).append((record["batches"], record["alpha"]))
    full = families.pop("full-batch", []) if len(families) > 1 else []
    curves = {name: np.array(sorted(points), dtype=np.float64).T for name, points in families.items()}
    what = "single runs converge in mean square" if of_runs else "the mean over all orders converges"
    answer = Report(
        "stability",
        f"{where}: the largest step at which {what}",
        facts,
        "thresholds",
        records,
        {
            "scheme": "name",
            "batches": "batches",
            "step": "step ± error",
            "alpha = B step": lambda one: one["alpha"] and (one["alpha"], one["batches"] * one["error"]),
        },
        {name: name for name in ("scheme", "batches", "step", "alpha", "error", "reason")},
        [Series(name, x, y, plotting.SCHEME_COLOURS.get(name, "")) for name, (x, y) in curves.items()],
        xlabel="batches",
        ylabel="largest alpha",
        keys=2,
        levels={"full batch": full[0][1]} if full else {},
        from_zero=True,
        remarks=remarks,
        notes=notes,
    )
    render.deliver(answer, outputs)


def _threshold(
    name: str, batches: int, step: float | None, error: float = 0.0, reason: str = ""
) -> dict[str, Any]:
    alpha = None if step is None else batches * step
    record = {"name": name, "scheme": name, "batches": batches, "step": step, "learning_rate": step}
    return record | {"alpha": alpha, "error": error, "reason": reason}


def _on_data(
    problem: "rs.LeastSquares",
    visitings: list[options.NamedScheme],
    recipe: options.RecipeOptions,
    mean_square: bool,
) -> list[dict[str, Any]]:
    """The thresholds, with the reason where there is none; refused if all are."""
    import reshuffle as rs
    from reshuffle.grid import metrics

    name = "mean_square_critical_step" if mean_square else "critical_step"
    # The step of a run is of no matter here; zero is allowed for all data.
    settings: dict[str, Any] = {"momentum": recipe.momentum, "penalty": recipe.weight_decay}
    runs = [rs.descend(problem, one.scheme, 0.0, **settings) for one in visitings]
    found = [one[name] for one in metrics.evaluate(runs, [name])]
    refusals = [one.refusal for one in found if one.refusal is not None]
    if refusals and len(refusals) == len(found):
        raise refusals[0]
    for warning in (warning for one in found for warning in one.warnings):
        console.warn(warning)
    return [
        _threshold(visiting.name, visiting.batches, float(one.value), float(one.error))
        if one.refusal is None
        else _threshold(visiting.name, visiting.batches, None, reason=console.reason_of(one.refusal))
        for visiting, one in zip(visitings, found, strict=True)
    ]
