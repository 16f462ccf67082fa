"""The tab for one's own data: a plan for training, the test error it expects, and programs that do it."""

import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import reshuffle as rs
from reshuffle.cli import advise, reader
from reshuffle.errors import ArgumentError
from reshuffle.page.answers import Axis, Chart, ChartSeries, TabAnswer, TabTable, refusal
from reshuffle.page.charts import framed, line, number
from reshuffle.page.tabs import DRAWN, LINES, SETS

MOST_CELLS, MOST_COLUMNS, MOST_ROWS = 1_000_000, 1000, 100_000
_QUICK_BYTES = 600_000
"""Size of a file that is screened without being verified first: larger ones take too long for a first answer."""
_WORDS = {
    "target": "the target",
    "drop": "the list Leave out:",
    "one_hot": "the list Columns of categories:",
    "fill": "reshuffle advise with fill",
}
"""Options of the reader in the words of the page."""


def answer(values: Mapping[str, Any], stage: int, upload: str | None = None) -> TabAnswer:
    """Return a plan: at stage 0 screened, for small data; then verified by the leave-one-out of the run itself."""
    offers: dict[str, list[str]] = {}
    chosen: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = _source(values["source"], upload, Path(folder))
            if not stage and path.stat().st_size > _QUICK_BYTES:
                return TabAnswer("Reading the table ...", is_final=False)
            names = reader.read_table(str(path)).names
            usual = SETS.get(values["source"], ("", "", ""))[2]
            target = values["target"] or (usual if usual in names else names[-1])
            others = [name for name in names if name != target]
            # A column that was left out and is the target now is meant to be the target.
            leave_out = [name for name in values["leave_out"] if name != target]
            categories = [name for name in values["categories"] if name not in (target, *leave_out)]
            offers = {"target": names, "leave_out": others, "categories": others}
            chosen = {"target": target}
            data = advise.read_for_advice(str(path), [target], leave_out, categories)
            settings = {
                "epochs": values["epochs"],
                "standardize": values["standardize"],
                "verify": bool(stage),
            }
            made = _planned(advise.Advice.of(replace(data, path=path.name), settings), values, bool(stage))
            return replace(made, offers=offers, chosen=chosen)
        except ArgumentError as error:
            # The folder of the file is no part of its name.
            text = error.worded(_WORDS).replace(f"{Path(upload or folder).parent}/", "")
            return refusal(text.replace(f"{folder}/", ""), offers=offers, chosen=chosen)


def _source(name: str, upload: str | None, folder: Path) -> Path:
    """Return the path of the file that was sent, or of a bundled set as a file."""
    if name == "upload":
        if upload is None or not Path(upload).exists():
            hint = "Send a CSV file first: an address does not bring files back"
            raise ArgumentError("Your file", "", "is not here", hint)
        require_modest_text(Path(upload))
        return Path(upload)

    if name == DRAWN:
        problem = rs.gaussian(200, 20, noise=1.0, seed=0)
        table = pd.DataFrame(problem.X, columns=[f"x{k}" for k in range(1, 21)]).assign(y=problem.y)
    else:
        table = getattr(import_module("sklearn.datasets"), SETS[name][1])(as_frame=True).frame
    table.to_csv(folder / f"{name}.csv", index=False)
    return folder / f"{name}.csv"


def require_modest_text(path: Path) -> None:
    """Refuse what is no text, or has more cells than are planned for here, before it is parsed."""
    data = path.read_bytes()
    if b"\0" in data:
        raise ArgumentError(path.name, "be a CSV file, which is text", "it holds bytes that are no text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ArgumentError(
            path.name, "be text in UTF-8", "it is in another encoding", "save it again as CSV UTF-8"
        ) from None
    lines = text.count("\n") + 1
    columns = 1 + max(text.partition("\n")[0].count(sign) for sign in ",;\t")
    found = {
        "rows": (lines - 1, MOST_ROWS),
        "columns": (columns, MOST_COLUMNS),
        "cells": (lines * columns, MOST_CELLS),
    }
    for what, (size, most) in found.items():
        if size > most:
            raise ArgumentError(path.name, f"have at most {most:,} {what}", f"it has about {size:,}")


def _planned(advice: advise.Advice, values: Mapping[str, Any], verify: bool) -> TabAnswer:
    plan, best, n, target = advice.plan, advice.plan.best, advice.plan.problem.n, advice.data.targets[0]
    shown = advise.answer(advice)
    (recommended, *remarks), visits = shown.remarks, -(-n // best.batch_size)
    sentence, _, expected = recommended.partition("; expect ")
    # The mean of the other rows predicts a row left out with this mean square.
    of_mean = float(advice.deviations[0]) ** 2 * (n / (n - 1)) ** 2
    # A gain has a standard error of about 2 sqrt(gain test_error / n), twice which is what chance may bring about.
    if advice.data.labels is None and of_mean - best.test_error <= 16 * best.test_error / n:
        sentence = (
            f"Training gains nothing that is sure: the mean of {target} predicts new rows about as well "
            f"(RMSE {number(math.sqrt(of_mean))}, trained {number(math.sqrt(best.test_error))})"
        )
    facts = {
        "Batch size": str(best.batch_size),
        "Learning rate": number(best.step, 3),
        "Epochs": str(best.epochs),
        "Steps in all": f"{best.epochs:,} × {visits:,} = {visits * best.epochs:,}",
        "Test error (mean square)": number(plan.test_error),
    }
    if advice.classification is not None:
        facts["Accuracy"] = number(float(advice.classification.accuracy), 3)
    title = "The recommendation, and what other choices would do"
    headings, *rows = shown.cells
    return TabAnswer(
        f"{sentence}.",
        shown.title.removesuffix("."),
        "" if verify else "A first look; the best recipes are being verified.",
        facts,
        [f"Expect {expected}", *remarks],
        [_curves_chart(advice), _choices_chart(plan)],
        [TabTable(title, headings, rows)],
        _programs(advice, values, verify),
        is_final=verify,
    )


def _curves_chart(advice: advise.Advice) -> Chart:
    """Return the root mean square error on rows left out along the epochs, for some recipes."""
    best, given = advice.plan.best, advise.curves(advice)
    simple, least = math.sqrt(advice.plan.least_squares.mean_square), math.sqrt(best.test_error)
    colours = ("first", "second", "third", "fourth")
    # Short: on a phone the legend stays in sight with its chart.
    labels = [one.label.partition(":")[0].replace("learning rate", "rate") for one in given]
    series = [
        line(label, one.x, one.y, colour) for label, one, colour in zip(labels, given, colours, strict=False)
    ]
    level = [simple] * len(given[0].x)
    series.append(line("least squares", given[0].x, level, "grey", dash="1 4"))
    series.append(ChartSeries("", "", [best.epochs], [least], "first", "dots", width=5))
    # The recommended curve is in sight, and what starts or ends far above it leaves through the top.
    room = min(max(float(given[0].y.max()), simple), 1.5 * least) - least or 0.1 * least
    words = (
        f"Root mean square error of {advice.data.targets[0]} on rows that are left out, along the epochs: with the "
        f"recommended recipe smallest after {best.epochs} epochs, at {number(least)}; least squares has "
        f"{number(simple)}."
    )
    y = Axis("error on rows left out (RMSE)", "rmse", False, least - 0.08 * room, least + 1.7 * room)
    return Chart(
        "leave-one-out", "Leave-one-out along the epochs", words, Axis("epochs", "epoch", True), y, series
    )


def _choices_chart(plan: rs.Plan) -> Chart:
    """Return the least error of every batch size and learning rate."""
    roots, steps = np.sqrt(plan.errors.min(axis=-1)), plan.safe_steps[plan.best.place[0]]
    colours, series = ("first", "second", "third", "fourth", "fifth", "grey"), []
    for place, (size, row) in enumerate(zip(plan.batch_sizes, roots, strict=True)):
        label = "all rows" if size == plan.problem.n else f"batches of {size:g}"
        dash, colour = "" if place < len(colours) else "7 4", colours[place % len(colours)]
        series.append(line(label, plan.shares * steps[place], row, colour, key="", dash=dash))
    best, low = plan.best, float(roots.min())
    words = (
        "Least root mean square error of every batch size and learning rate, each stopped when it is best: "
        f"{number(low)} at least, {number(math.sqrt(best.test_error))} for batches of {best.batch_size} with "
        f"learning rate {number(best.step, 3)}; the largest of those shown is "
        f"{number(float(roots[np.isfinite(roots)].max()))}."
    )
    x = Axis("learning rate", "learning_rate", True)
    y = framed("error, stopped in time (RMSE)", "rmse", roots, 0.05, 1.5 * low)
    return Chart("choices", "What other choices cost", words, x, y, series)


def _programs(advice: advise.Advice, values: Mapping[str, Any], verify: bool) -> dict[str, str]:
    """Return programs that train as recommended, and the lines that compute the plan; all of them read the data."""
    first, *others = advise.reading_lines(advice.data)
    if values["source"] == DRAWN:
        first = (
            "import reshuffle as rs\n\nproblem = rs.gaussian(200, 20, noise=1.0, seed=0)\n"
            'table = pd.DataFrame(problem.X, columns=[f"x{k}" for k in range(1, 21)]).assign(y=problem.y)'
        )
    elif values["source"] != "upload":
        loader = SETS[values["source"]][1]
        first = f"from sklearn.datasets import {loader}\n\ntable = {loader}(as_frame=True).frame"
    reading = "\n".join([first, *others])
    settings = [
        "X",
        "y.iloc[:, 0]" if advice.data.labels is None else "y",
        *["standardize=False"] * (not values["standardize"]),
        *[f"epochs={values['epochs']}"] * (values["epochs"] != 1000),
        *["verify=False"] * (not verify),
    ]
    return {
        "Train like this in torch": advice.plan.to_torch(reading),
        "Train like this in scikit-learn": advice.plan.to_sklearn(reading),
        LINES: _PROGRAM.format(reading=reading, settings=", ".join(settings)),
    }


_PROGRAM = """\
import pandas as pd
import reshuffle as rs

{reading}
plan = rs.plan({settings})
print(plan)
curves = plan.errors                                 # leave-one-out: (batch sizes, steps, epochs)
left_out = plan.run.leave_one_out(plan.best.epochs)  # row by row
"""
