"""The tab for data of one's own: a plan for training, what it promises, and programs that do it."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reshuffle.cli import render
from reshuffle.cli.advise import against
from reshuffle.cli.console import InputError
from reshuffle.page import uploads
from reshuffle.page.fields import Choice, Column, Columns, Switch, Upload, Whole
from reshuffle.page.tab import Refused, Shown, Stage, Tab, Table, complaint
from reshuffle.page.tabs.bundled_sets import SETS, write
from reshuffle.page.tabs.data_pictures import choices_picture, leave_one_out_picture

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle.cli.reader import Data

_UPLOAD = "upload"
TAB = Tab(
    name="data",
    title="My data",
    question="How should I train on my data?",
    lead="Every row is left out in turn, for every batch size, learning rate and number of epochs at once, and "
    "without training: that tells what a recipe does on rows it has not seen.",
    module="own_data",
    fields=(
        Choice("source", "Data", {name: one.words for name, one in SETS.items()} | {_UPLOAD: "The file I sent"},
               next(iter(SETS))),
        Upload("file", "Send a CSV file", f"With a line of names, at most {uploads.LARGEST >> 20} MB. It stays on "
               "this machine, and is forgotten with this page."),
        Column("target", "Target", "The column to be predicted."),
        Columns("leave_out", "Leave out"),
        Columns("categories", "Columns of categories", "Each category becomes a column of 0 and 1."),
        Switch("standardize", "Standardise the columns", True, "Divide each by its standard deviation."),
        Whole("epochs", "Longest training, epochs", 1, 10_000, 1000, is_typed=True),
    ),
    stages=(Stage("quick", True), Stage("thorough", False)),
    advice="send fewer rows, or leave out columns",
)  # fmt: skip
_QUICK_CELLS = 30_000
"""Rows times columns of data for which a first look takes no time."""


def quick(values: Mapping[str, Any], upload: str | None = None) -> Shown | Refused | None:
    """A first look, not verified, where the data are small."""
    return _answer(values, upload, verify=False)


def thorough(values: Mapping[str, Any], upload: str | None = None) -> Shown | Refused | None:
    """The plan, its best recipes verified by the leave-one-out of the run itself."""
    return _answer(values, upload, verify=True)


@dataclass(frozen=True)
class _Source:
    """A file to read, what it is called, and which column is the target if none is named."""

    path: Path
    target: str
    bundled: str


def _answer(values: Mapping[str, Any], upload: str | None, *, verify: bool) -> Shown | Refused | None:
    with tempfile.TemporaryDirectory(prefix="reshuffle-page-") as folder:
        source = _source(values["source"], upload, Path(folder))
        if not verify and source.path.stat().st_size > 20 * _QUICK_CELLS:
            return None
        return _of_source(source, values, verify)


def _source(name: str, upload: str | None, folder: Path) -> _Source:
    if name != _UPLOAD:
        return _Source(write(name, folder), SETS[name].target, name)
    if upload is None or not Path(upload).exists():
        raise InputError("Send a CSV file first: an address does not bring files back.")
    uploads.require_modest_text(Path(upload))
    return _Source(Path(upload), "", "")


def _of_source(source: _Source, values: Mapping[str, Any], verify: bool) -> Shown | Refused:
    from reshuffle.cli import reader
    from reshuffle.cli.advise import read_for_advice

    offers: dict[str, list[str]] = {}
    chosen: dict[str, str] = {}
    try:
        names = reader.read_table(str(source.path)).names
        target = values["target"] or (source.target if source.target in names else names[-1])
        others = [name for name in names if name != target]
        # A column that was left out and is the target now is meant to be the target.
        leave_out = [name for name in values["leave_out"] if name != target]
        categories = [name for name in values["categories"] if name not in (target, *leave_out)]
        offers, chosen = {"target": names, "leave_out": others, "categories": others}, {"target": target}
        data = read_for_advice(str(source.path), [target], leave_out, categories)
        data = replace(data, path=source.path.name)
        return replace(_of_data(data, source, values, verify), offers=offers, chosen=chosen)
    except InputError as error:
        return Refused(complaint(error).replace(f"{source.path.parent}/", ""), offers, chosen)


def _of_data(data: "Data", source: _Source, values: Mapping[str, Any], verify: bool) -> Shown:
    import numpy as np

    import reshuffle as rs
    from reshuffle.cli.advise import Advice, answer

    plan = rs.plan(
        data.X, data.y[:, 0], epochs=values["epochs"], standardize=values["standardize"], verify=verify
    )
    advice = Advice(data, plan, np.ones(1), data.y.std(axis=0), None, None)
    told = answer(advice)
    _, recommended, *remarks = [told.title, *told.remarks]
    sentence, _, expected = recommended.partition("; ")
    return Shown(
        sentence=f"{sentence}.",
        setting=told.title,
        facts=_facts(plan),
        remarks=[f"{expected[0].upper()}{expected[1:]}", *remarks, _gains(plan)],
        pictures=[leave_one_out_picture(advice), choices_picture(plan)],
        tables=[Table("The recommendation, and what other choices would do", told.headings, told.cells)],
        programs=_programs(data, plan, source),
        python=_python(data, source, values, verify),
        note="" if verify else "A first look; the best recipes are being looked at closely.",
    )


def _facts(plan: "rs.Plan") -> dict[str, str]:
    best = plan.best
    visits = -(-plan.run.problem.n // best.batch_size)
    return {
        "Batch size": str(best.batch_size),
        "Learning rate": render.number(best.step, 3),
        "Epochs": str(best.epochs),
        "Steps in all": f"{visits * best.epochs:,}",
        "Test error (mean square)": render.number(best.test_error, 4),
    }


def _gains(plan: "rs.Plan") -> str:
    """What the recommended recipe costs, and what it gains."""
    best, n = plan.best, plan.run.problem.n
    visits = -(-n // best.batch_size)
    cost = f"{best.epochs} epoch{'s' * (best.epochs != 1)} of {visits} step{'s' * (visits != 1)} each"
    gained = against(plan.least_squares.mean_square, best.test_error)
    told = {"the same": "the same test error as", "worse": "another test error than"}.get(gained)
    if told is None:
        return f"It costs {cost}. Least squares, to which training leads in the end, has a test error of {gained}."
    return f"It costs {cost}, and has {told} least squares, to which training leads in the end."


def _programs(data: "Data", plan: "rs.Plan", source: _Source) -> dict[str, str]:
    from reshuffle.cli.programs import of_plan

    made = of_plan(data, plan, None)
    return {
        "Train like this in torch": _reading(made["torch"], source),
        "Train like this in scikit-learn": _reading(made["scikit_learn"], source),
    }


def _reading(program: str, source: _Source) -> str:
    """A program that reads bundled data from where they are, not from a file."""
    if not source.bundled:
        return program
    found = SETS[source.bundled]
    if found.imports not in program:
        program = program.replace("import pandas as pd\n", f"import pandas as pd\n{found.imports}\n", 1)
    return program.replace(f'table = pd.read_csv("{source.path.name}")', found.lines, 1)


def _python(data: "Data", source: _Source, values: Mapping[str, Any], verify: bool) -> str:
    from reshuffle.cli.programs import reading

    settings = [
        *["standardize=False"] * (not values["standardize"]),
        *[f"epochs={values['epochs']}"] * (values["epochs"] != 1000),
        *["verify=False"] * (not verify),
    ]
    lines = [
        "import pandas as pd",
        "import reshuffle as rs",
        "",
        *reading(data),
        f"plan = rs.plan({', '.join(['X', 'y.iloc[:, 0]', *settings])})",
        "print(plan)",
        "curves = plan.mean_squares[0] + plan.spreads[0]  # leave-one-out: (batch sizes, steps, epochs)",
        "left_out = plan.run.leave_one_out(plan.best.epochs)  # row by row",
    ]
    return _reading("\n".join(lines) + "\n", source)
