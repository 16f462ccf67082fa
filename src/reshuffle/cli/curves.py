"""`reshuffle curve` and `reshuffle stability`: metrics of several schemes, on drawn or on one's own data."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from reshuffle.cli import console, options, render
from reshuffle.cli.console import InputError
from reshuffle.cli.options import (
    ACCURACY,
    FLAG,
    NO_PROBLEM,
    PLAIN,
    RECIPE,
    SCHEMES,
    TERMINAL,
    WHOLE,
    Alpha,
    Epochs,
    OutputOptions,
    ProblemOptions,
    RecipeOptions,
    Schemes,
    Step,
    Visiting,
    option,
    words,
)
from reshuffle.cli.problem import Posed, pose
from reshuffle.cli.render import Answer, number, tidy
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle._arrays import FloatArray
    from reshuffle.grid.metrics import Answer as Found

_QUICK = 2e10
"""Operations that nobody has to ask for: a second or two."""
_PARTS = ("frozen", "bias", "cross", "variance")
_METHODS = {"exact": "exact", "cavity": "cavity", "sampling": "sampled"}


# ------------------------------------------------------------------------------------------------ learning curves


def curve(
    *,
    problem: ProblemOptions = NO_PROBLEM,
    alpha: Alpha = None,
    step: Step = None,
    batches: Annotated[
        str | None, option("Numbers of batches B, separated by commas; else 1,2,4.", RECIPE, "-b")
    ] = None,
    scheme: Schemes = "reshuffling",
    recipe: RecipeOptions = PLAIN,
    epochs: Epochs = 300,
    mean_square: Annotated[
        bool,
        option(
            "Also give the risk of one run at every epoch, and whether runs converge, not only their mean.",
            ACCURACY,
            **FLAG,
        ),
    ] = False,
    rtol: Annotated[
        float | None,
        option("Relative error allowed where orders cannot all be averaged; else 1e-4.", ACCURACY),
    ] = None,
    budget: Annotated[
        float | None,
        option("Operations allowed for the mean of an epoch; else 1e12, a minute or so.", ACCURACY),
    ] = None,
    simulate: Annotated[
        int, option("Also train this many real runs, an even number.", ACCURACY, **WHOLE)
    ] = 0,
    test: Annotated[
        str | None, option("Held-out data, with the columns of --data in any order: adds its loss.", ACCURACY)
    ] = None,
    outputs: OutputOptions = TERMINAL,
) -> None:
    """Learning curves: the risk of every epoch, when to stop, where it ends.

    Averaged over every order in which the batches can be visited: exactly,
    or with an error that is shown. With --data the truth is unknown: it shows
    the training loss, and the loss on held-out rows with --test. An npz file
    may hold beta_star, noise and covariance beside X and y; then the risk is
    known too.

    For example:
      reshuffle curve --n 200 --p 300 --noise 0.5 --alpha 0.2 --batches 1,2,4
      reshuffle curve --data mine.csv --intercept --step 0.01 --test other.csv
    """
    render.check(outputs, data=problem.data, test=test, covariance=problem.covariance)
    if (alpha is None) == (step is None):
        given = "neither is" if alpha is None else "both are"
        raise InputError(f"exactly one of {{alpha}} and {{step}} must be given, but {given}.")
    words("scheme", scheme, SCHEMES)
    options.batch_counts(batches, "1,2,4")
    when = options.epochs_up_to(epochs)
    posed = pose(problem)
    held_out = None if test is None else posed.held_out(test)
    visitings = options.visitings(scheme, batches, "1,2,4", recipe, posed.problem.n)
    import reshuffle as rs
    from reshuffle.grid import metrics

    accuracy: dict[str, Any] = {
        name: value for name, value in (("rtol", rtol), ("budget", budget)) if value is not None
    }
    runs = [
        rs.descend(
            posed.problem, one.scheme, step, alpha=alpha, seed=problem.seed, momentum=recipe.momentum,
            penalty=recipe.weight_decay, **accuracy,
        )
        for one in visitings
    ]  # fmt: skip
    knows_truth = posed.problem.beta_star is not None and posed.problem.noise is not None
    asked: list[Any] = ["training_loss", "limit", "limit_distance", "stability"]
    asked += ["risk"] * knows_truth + ["mean_square_stability"] * mean_square
    asked += ["expected_risk"] * (knows_truth and mean_square)
    asked += [] if held_out is None else [metrics.held_out_loss(held_out)]
    asked += [metrics.simulated(simulate, problem.seed, knows_truth=knows_truth)] if simulate else []
    found = metrics.evaluate(runs, asked, when)
    curves = [
        Curve(visiting, run, when, answers | (_best(run, answers, when, mean_square) if knows_truth else {}))
        for visiting, run, answers in zip(visitings, runs, found, strict=True)
    ]
    for warning in dict.fromkeys(
        warning.worded(console.words())
        for one in curves
        for answer in one.found.values()
        for warning in answer.warnings
    ):
        console.warn(warning)
    for one in curves:
        one.require("training_loss", "limit_training_loss", "rate", *(["risk"] if knows_truth else []))
        one.require(*(name for name in one.found if name.startswith("simulated")))
    render.deliver(_curves_answer(posed, problem, recipe, simulate, curves), outputs)


@dataclass(frozen=True, eq=False)
class Curve:
    """One scheme on one problem, with its answers by the names of quantities."""

    visiting: Visiting
    run: "rs.Run"
    epochs: "FloatArray"
    found: "dict[str, Found]"

    def __getitem__(self, name: str) -> "FloatArray":
        return self.found[name].value

    def pair(self, name: str, place: int | None = None) -> tuple[float, float]:
        """A value and its error."""
        answer = self.found[name]
        where = () if place is None else (place,)
        return float(answer.value[where]), float(answer.error[where])

    def has(self, name: str) -> bool:
        """True if there is such an answer."""
        return name in self.found and self.found[name].refusal is None

    def require(self, *names: str) -> None:
        """Raise what speaks against one of these answers."""
        for name in names:
            if (refusal := self.found[name].refusal) is not None:
                raise refusal

    @property
    def step(self) -> float:
        """The step of a visit."""
        return float(self.run.step)  # type: ignore[arg-type]

    @property
    def label(self) -> str:
        """What the curve is called."""
        from reshuffle import plotting

        name, batches = self.visiting.name, self.visiting.batches
        if batches == 1 and name != "full-batch":
            # One batch that is drawn anew is not the full batch.
            return f"1 batch, {name.replace('-', ' ')}"
        return plotting.scheme_label(name, batches)

    @property
    def shown(self) -> str:
        """The quantity that is drawn: the risk if it is known, else the loss on held-out rows, else in training."""
        return next(name for name in ("risk", "held_out_loss", "training_loss") if name in self.found)

    @property
    def distance(self) -> tuple[float, float]:
        """The distance of the limit from the minimum-norm solution."""
        return (
            self.pair("limit_distance")
            if self["converges"] and self.has("limit_distance")
            else (math.inf, 0.0)
        )

    @property
    def unanswered(self) -> str:
        """Why there is no risk of a run, or no word on its convergence."""
        for name in ("run_risk_there", "expected_risk", "mean_square_rate"):
            if name in self.found and (refusal := self.found[name].refusal) is not None:
                return console.reason_of(refusal)
        return ""


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
        epochs = np.append(when, np.inf)
        totals = np.append(answers["risk"].value, answers["limit_risk"].value)
        errors = np.append(answers["risk"].error, answers["limit_risk"].error)
        at = int(np.argmin(totals))
        values = {
            "best_epoch": epochs,
            "best_epoch_risk": totals,
            "best_epoch_gap": np.full(len(epochs), np.nan),
        }
        best = {
            name: metrics.Answer(
                np.asarray(value[at]), np.asarray(errors[at] if name == "best_epoch_risk" else 0.0)
            )
            for name, value in values.items()
        }
    limit = math.inf if mean_square else _QUICK
    (there,) = metrics.evaluate([run], ["expected_risk"], best["best_epoch"].value, operations=limit)
    return best | {
        "run_risk_there": there["expected_risk"],
        "run_spread_there": there["expected_risk_spread"],
    }


def _curves_answer(
    posed: Posed, asked: ProblemOptions, recipe: RecipeOptions, runs: int, curves: list[Curve]
) -> Answer:
    from reshuffle import plotting
    from reshuffle.grid.metrics import METRICS

    problem, first = posed.problem, curves[0]
    source = f"{asked.data}: " if asked.data is not None else ""
    noise = "" if problem.noise is None else f", noise {problem.noise:g}"
    is_exact = not any(answer.error.any() for one in curves for name, answer in one.found.items() if name in
                       ("risk", "training_loss", "run_risk_there", "expected_risk"))  # fmt: skip
    how = "exact, no training" if is_exact else "no training; ± where not exact"
    records = [_curve_record(one) for one in curves]
    series = [
        Series(
            one.label,
            one.epochs,
            one[one.shown],
            colour=plotting.scheme_colour(one.visiting.name, one.visiting.batches),
            best=(float(one["best_epoch"]), float(one["best_epoch_risk"])) if one.has("best_epoch") else None,
            band=(one["simulated_risk"], one.found["simulated_risk"].error)
            if one.has("simulated_risk")
            else None,
        )
        for one in curves
    ]
    return Answer(
        "curve",
        f"{source}n = {problem.n}, p = {problem.p}{noise}{_recipe_words(recipe)}: {how}",
        _curve_rows(curves),
        lambda: {
            "problem": posed.record(asked),
            "recipe": {"momentum": recipe.momentum, "weight_decay": recipe.weight_decay},
            "curves": records,
        },
        lambda: tidy(records, _curve_columns(first, any(one.has("expected_risk") for one in curves))),
        series,
        ylabel={"held_out_loss": "held-out loss of the mean iterate"}.get(first.shown)
        or METRICS[first.shown].label,
        keys=2,
        remarks=posed.remarks,
        notes=_curve_notes(curves, runs),
    )


def _recipe_words(recipe: RecipeOptions) -> str:
    parts = {"momentum": recipe.momentum, "weight decay": recipe.weight_decay}
    return "".join(f", {name} {value:g}" for name, value in parts.items() if value)


def _curve_rows(curves: list[Curve]) -> list[dict[str, Any]]:
    """Columns that say something: of methods, of runs, of a simulation only where there are such."""
    import numpy as np

    with_methods = any(one.run.error_kind != "exact" for one in curves)
    rows = []
    for one in curves:
        row: dict[str, Any] = {"scheme": one.visiting.name, "batches": one.visiting.batches, "step": one.step}
        if with_methods:
            row["method"] = _METHODS[one.run.method]
        row["converges"] = bool(one["converges"])
        if "mean_square_rate" in one.found:
            row["runs converge"] = bool(one["mean_square_converges"]) if one.has("mean_square_rate") else "-"
        if one.has("risk"):
            row["best epoch"] = float(one["best_epoch"])
            row["risk there"] = one.pair("best_epoch_risk")
            row["risk of one run"] = one.pair("run_risk_there") if one.has("run_risk_there") else "-"
            row["limit"] = one.pair("limit_risk")
            best = float(one["best_epoch"])
            at = int(np.argmin(np.abs(one.epochs - min(best, one.epochs[-1]))))
            where = "" if one.epochs[at] == best else f"\n(epoch {one.epochs[at]:g})"
            for heading, name in (
                ("simulated risk", "simulated_risk"),
                ("simulated run", "simulated_expected_risk"),
            ):
                if one.has(name):
                    row[heading] = render.uncertain(*one.pair(name, at)) + where
        if one.has("held_out_loss"):
            at = int(np.argmin(one["held_out_loss"]))
            row["best epoch shown"] = float(one.epochs[at])
            row["held-out loss there"] = one.pair("held_out_loss", at)
        if not one.has("risk"):
            row["training loss"] = one.pair("training_loss", -1)
            if one.has("simulated_training_loss"):
                row["simulated loss"] = one.pair("simulated_training_loss", -1)
            row["its limit"] = one.pair("limit_training_loss")
            value, error = one.distance
            row["limit to min-norm"] = (value, error) if error else number(value, 3)
        rows.append(row)
    return rows


def _curve_notes(curves: list[Curve], runs: int) -> list[str]:
    first, notes = curves[0], []
    if not first.has("risk") and not first.has("held_out_loss"):
        notes.append(
            "The truth behind this data is unknown: no risk. Held-out rows (--test FILE) show the test loss."
        )
    if not first.has("risk"):
        notes.append(
            f"Losses are |y - X b|^2 / (2 rows); the training loss is that of epoch {first.epochs[-1]:g}."
        )
    reasons: dict[str, list[str]] = {}
    for one in curves:
        reasons.setdefault(one.unanswered, []).append(one.label)
    notes += [f"{', '.join(labels)}: {reason}." for reason, labels in reasons.items() if reason]
    of_few = [one.label for one in curves if one.has("best_epoch_gap") and math.isnan(one["best_epoch_gap"])]
    if of_few:
        notes.append(f"{', '.join(of_few)}: the best epoch is that of the epochs shown and the limit.")
    notes += [
        f"{one.label}: the search for the best epoch ended early; the risk may be smaller by up to "
        f"{number(float(one['best_epoch_gap']), 2)} elsewhere."
        for one in curves
        if one.has("best_epoch_gap") and one["best_epoch_gap"] > 1e-9 * one["best_epoch_risk"]
    ]
    if any(one.run.error_kind == "confidence 99%" for one in curves):
        notes.append(
            "Sampled: the mean over orders is that of drawn orders; ± covers it for 99 of 100 seeds."
        )
    if runs:
        notes.append(f"Simulated: {runs} real runs; ± is two standard errors.")
    return notes


def _curve_record(one: Curve) -> dict[str, Any]:
    distance, error = one.distance
    record: dict[str, Any] = {
        "scheme": one.visiting.name,
        "batches": one.visiting.batches,
        "step": one.step,
        "learning_rate": one.step,
        "alpha": one.step * one.visiting.batches,
        "method": one.run.method,
        "converges": bool(one["converges"]),
        "rate": one["rate"],
        "mean_square": None,
        "unanswered": one.unanswered or None,
        "best_epoch": None,
        "limit": {
            "training_loss": one["limit_training_loss"],
            "risk": one["limit_risk"] if one.has("risk") else None,
            "risk_error": one.found["limit_risk"].error if one.has("risk") else None,
            "distance_from_minimum_norm": distance,
            "error": error,
        },
        "epochs": one.epochs,
        "training_loss": one["training_loss"],
        "training_loss_error": one.found["training_loss"].error,
    }
    if one.has("mean_square_rate"):
        rate, error = one.pair("mean_square_rate")
        record["mean_square"] = {
            "converges": bool(one["mean_square_converges"]),
            "rate": rate,
            "error": error,
        }
    if one.has("risk"):
        epoch, risk, gap = (float(one[f"best_epoch{name}"]) for name in ("", "_risk", "_gap"))
        record["best_epoch"] = {
            "epoch": epoch,
            "risk": risk,
            "error": gap,
            "risk_error": one.pair("best_epoch_risk")[1],
        }
        record["risk"] = {"total": one["risk"], "error": one.found["risk"].error}
        record["risk"] |= {part: one[f"risk_{part}"] for part in _PARTS}
        there = ("run_risk_there", "run_spread_there")
        at_every_epoch = ("expected_risk", "expected_risk_spread")
        for name, (total, spread) in (("run_risk_at_best_epoch", there), ("run_risk", at_every_epoch)):
            record[name] = (
                {"total": one[total], "spread": one[spread], "error": one.found[total].error}
                if one.has(total)
                else None
            )
    if one.has("held_out_loss"):
        record["held_out_loss"] = one["held_out_loss"]
        record["held_out_loss_error"] = one.found["held_out_loss"].error
    for name, quantity in (("run_risk", "simulated_expected_risk"), ("risk", "simulated_risk")):
        if one.has(quantity):
            estimate = {"mean": one[quantity], "standard_error": one.found[quantity].error / 2}
            record[f"simulated_{name}"] = estimate
    if one.has("simulated_training_loss"):
        loss, error = one.pair("simulated_training_loss", -1)
        record["simulated_training_loss"] = {"epoch": one.epochs[-1], "mean": loss, "error": error}
    return record


def _curve_columns(first: Curve, with_runs: bool) -> dict[str, str]:
    """Names of the columns of the tidy table, and where they are in a record."""
    paths = {"scheme": "scheme", "batches": "batches", "epoch": "epochs"}
    if first.has("risk"):
        paths |= {"risk": "risk.total", "risk_error": "risk.error"} | {
            part: f"risk.{part}" for part in _PARTS
        }
    if with_runs:
        paths |= {"run_risk": "run_risk.total", "run_risk_error": "run_risk.error"}
    paths |= {name: name for name in ("training_loss", "training_loss_error")}
    if first.has("held_out_loss"):
        paths |= {name: name for name in ("held_out_loss", "held_out_loss_error")}
    if first.has("simulated_risk"):
        for name in ("simulated_run_risk", "simulated_risk"):
            paths |= {name: f"{name}.mean", f"{name}_standard_error": f"{name}.standard_error"}
    return paths


# ----------------------------------------------------------------------------------------------- largest steps


def stability(
    *,
    problem: ProblemOptions = NO_PROBLEM,
    aspect: Annotated[
        float | None, option("p / n of ever larger data, instead of a problem.", options.DATA)
    ] = None,
    batches: Annotated[
        str | None, option("Numbers of batches B, separated by commas; else 1,2,4,8.", RECIPE, "-b")
    ] = None,
    scheme: Schemes = "reshuffling",
    recipe: RecipeOptions = PLAIN,
    mean_square: Annotated[
        bool, option("Up to which step runs converge in mean square, not only their mean.", ACCURACY, **FLAG)
    ] = False,
    outputs: OutputOptions = TERMINAL,
) -> None:
    """The largest step up to which the mean iterate converges.

    For each scheme and number of batches, on a problem or in the limit.
    alpha is B times the step of a visit: the full-batch step that it stands
    for under linear scaling.

    For example:
      reshuffle stability --n 200 --p 300 --scheme reshuffling,with-replacement
      reshuffle stability --aspect 1.5 --batches 1,2,3,4
    """
    render.check(outputs, data=problem.data, covariance=problem.covariance)
    names, counts = words("scheme", scheme, SCHEMES), options.batch_counts(batches, "1,2,4,8")
    if aspect is not None:
        if problem != NO_PROBLEM or recipe != PLAIN or mean_square:
            raise InputError(
                "{aspect} describes ever larger data; leave out the options of a problem and of a recipe."
            )
        records = _in_the_limit(aspect, names, counts)
        answer = _stability_answer(
            f"p / n = {aspect:g}, in the proportional limit", {"aspect": aspect}, records
        )
        render.deliver(answer, outputs)
        return
    posed = pose(problem)
    visitings = options.visitings(scheme, batches, "1,2,4,8", recipe, posed.problem.n)
    records = _on_data(posed.problem, visitings, recipe, mean_square)
    described = {**posed.record(problem), "momentum": recipe.momentum, "weight_decay": recipe.weight_decay}
    where = f"n = {posed.problem.n}, p = {posed.problem.p}{_recipe_words(recipe)}"
    described["mean_square"] = mean_square
    render.deliver(_stability_answer(where, described, records, posed.remarks[:1]), outputs)


def _threshold(
    name: str, batches: int, step: float | None, error: float = 0.0, reason: str = ""
) -> dict[str, Any]:
    return {
        "name": name,
        "scheme": name,
        "batches": batches,
        "step": step,
        "learning_rate": step,
        "alpha": None if step is None else batches * step,
        "error": error,
        "reason": reason,
    }


def _on_data(
    problem: "rs.LeastSquares", visitings: list[Visiting], recipe: RecipeOptions, mean_square: bool
) -> list[dict[str, Any]]:
    """One scheme after the other: what cannot be answered says why, unless nothing can."""
    import reshuffle as rs
    from reshuffle.grid import metrics

    name = "mean_square_critical_step" if mean_square else "critical_step"
    # The step of a run is of no matter here; zero is allowed for all data.
    runs = [
        rs.descend(problem, one.scheme, 0.0, momentum=recipe.momentum, penalty=recipe.weight_decay)
        for one in visitings
    ]
    records, refusals = [], []
    for one, found in zip(visitings, metrics.evaluate(runs, [name]), strict=True):
        answer = found[name]
        if answer.refusal is None:
            records.append(_threshold(one.name, one.batches, float(answer.value), float(answer.error)))
        else:
            refusals.append(answer.refusal)
            records.append(_threshold(one.name, one.batches, None, 0.0, console.reason_of(answer.refusal)))
        for warning in answer.warnings:
            console.warn(warning.worded(console.words()))
    if refusals and len(refusals) == len(records):
        raise refusals[0]
    return records


def _in_the_limit(aspect: float, names: list[str], counts: list[int]) -> list[dict[str, Any]]:
    from reshuffle import asymptotics

    for name in names:
        if name not in ("reshuffling", "full-batch"):
            raise InputError(
                f"{{scheme}} must be reshuffling or full-batch with {{aspect}}, but it is {name!r}."
            )
    wanted = dict.fromkeys(
        ("full-batch", 1) if name == "full-batch" or count == 1 else (name, count)
        for name in names
        for count in counts
    )
    return [
        _threshold(name, count, asymptotics.critical_alpha(aspect, count) / count) for name, count in wanted
    ]


def _stability_answer(
    where: str, described: dict[str, Any], records: list[dict[str, Any]], remarks: list[str] | None = None
) -> Answer:
    import numpy as np

    from reshuffle import plotting

    known = [record for record in records if record["step"] is not None]
    families: dict[str, list[tuple[int, float]]] = {}
    for record in known:
        families.setdefault(record["name"], []).append((record["batches"], record["alpha"]))
    curves = {name: np.array(sorted(points), dtype=np.float64).T for name, points in families.items()}
    rows = []
    for record in records:
        pairs = {name: (record[name], record["error"] * factor) for name, factor in
                 (("step", 1), ("alpha", record["batches"]))}  # fmt: skip
        cells = {name: "-" if record["step"] is None else pair for name, pair in pairs.items()}
        rows.append(
            {
                "scheme": record["name"],
                "batches": record["batches"],
                "step": cells["step"],
                "alpha = B step": cells["alpha"],
            }
        )
    what = "the mean square of a run" if described.get("mean_square") else "the mean iterate"
    tried = any(described.get(name) for name in ("momentum", "weight_decay", "mean_square"))
    notes = [f"{one['name']}, {one['batches']} batches: {one['reason']}." for one in records if one["reason"]]
    if tried or any(record["name"] in ("cyclic", "shuffle-once") for record in known):
        notes.append(
            "Steps were tried 2% apart, and the first that fails refined: a gap of instability narrower than that "
            "would be missed."
        )
    return Answer(
        "stability",
        f"{where}: {what} converges up to",
        rows,
        lambda: {**described, "thresholds": records},
        lambda: tidy(
            records, {name: name for name in ("scheme", "batches", "step", "alpha", "error", "reason")}
        ),
        [
            Series(name, batches, alphas, plotting.SCHEME_COLOURS.get(name, ""))
            for name, (batches, alphas) in curves.items()
            if name != "full-batch" or len(curves) == 1
        ],
        xlabel="batches",
        ylabel="largest alpha",
        keys=2,
        levels={"full batch": families["full-batch"][0][1]}
        if len(families) > 1 and "full-batch" in families
        else {},
        from_zero=True,
        remarks=remarks or [],
        notes=notes,
    )
