"""The tab for one's own data: a plan for training, the test error it expects, and programs that do it."""

import csv
import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reshuffle.cli.console import InputError
from reshuffle.page.answers import Answer, Axis, Chart, Series, Tab, Table, number, numbers, refusal
from reshuffle.page.guard import LARGEST_FILE
from reshuffle.page.inputs import Choice, Column, Columns, Number, Switch, Upload

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle.cli.reader import Data
    from reshuffle.planning.search import PlannedRecipe

_DRAWN = "drawn"
_SCIKIT_LEARN = {
    "diabetes": ("Diabetes: 442 patients, progression after a year", "load_diabetes", "target"),
    "breast-cancer": ("Breast cancer: 569 samples, benign or not", "load_breast_cancer", "target"),
    "wine": ("Wine: 178 bottles, which of three growers", "load_wine", "target"),
    "linnerud": ("Linnerud: 20 people, exercise and weight", "load_linnerud", "Weight"),
}
SETS = (_SCIKIT_LEARN if find_spec("sklearn") else {}) | {_DRAWN: ("Drawn: 200 rows, 20 columns", "", "y")}
"""Data that need no file, by name: words, the function of scikit-learn that has them, and the usual target."""
TAB = Tab(
    name="data",
    title="My data",
    question="How should I train on my data?",
    lead="Every row is left out in turn, for every batch size, learning rate and number of epochs at once, and "
    "without training: that estimates the test error of each recipe on rows it has not seen.",
    module="own_data",
    inputs=(
        Choice("source", "Data", next(iter(SETS)),
               {name: words for name, (words, *_) in SETS.items()} | {"upload": "The file I sent"}),
        Upload("file", "Send a CSV file", help=f"With a line of names, at most {LARGEST_FILE >> 20} MB. It stays "
               "on this machine, and is deleted with this page."),
        Column("target", "Target", help="The column to be predicted."),
        Columns("leave_out", "Leave out"),
        Columns("categories", "Columns of categories", help="Each category becomes a column of 0 and 1."),
        Switch("standardize", "Standardise the columns", True, help="Divide each by its standard deviation."),
        Number("epochs", "Longest training, epochs", 1000, 1, 10_000, is_typed=True),
    ),
    stages=("screened", "verified"),
    advice="send fewer rows, or leave out columns",
    examples={words.partition(":")[0].lower(): {"source": name} for name, (words, *_) in SETS.items()},
)  # fmt: skip
MOST_CELLS, MOST_COLUMNS, MOST_ROWS = 1_000_000, 1000, 100_000
_QUICK_BYTES = 600_000
"""Size of a file that is screened without being verified first: larger ones take too long for a first answer."""
_RUNNERS_UP = 3
_WORDS = {
    "target": "the target",
    "drop": "the list Leave out:",
    "one_hot": "the list Columns of categories:",
    "fill": "reshuffle advise with fill",
}
"""Options of the reader in the words of the page."""


def screened(values: Mapping[str, Any], upload: str | None = None) -> Answer:
    """Return a first plan, not verified, where the data are small."""
    return _answer(values, upload, verify=False)


def verified(values: Mapping[str, Any], upload: str | None = None) -> Answer:
    """Return the plan, its best recipes verified by the leave-one-out of the run itself."""
    return _answer(values, upload, verify=True)


def _answer(values: Mapping[str, Any], upload: str | None, *, verify: bool) -> Answer:
    from reshuffle.cli import reader
    from reshuffle.cli.advise import read_for_advice

    offers: dict[str, list[str]] = {}
    chosen: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = _source(values["source"], upload, Path(folder))
            if not verify and path.stat().st_size > _QUICK_BYTES:
                return Answer("Reading the table ...", is_final=False)
            names = reader.read_table(str(path)).names
            usual = SETS.get(values["source"], ("", "", ""))[2]
            target = values["target"] or (usual if usual in names else names[-1])
            others = [name for name in names if name != target]
            # A column that was left out and is the target now is meant to be the target.
            leave_out = [name for name in values["leave_out"] if name != target]
            categories = [name for name in values["categories"] if name not in (target, *leave_out)]
            offers = {"target": names, "leave_out": others, "categories": others}
            chosen = {"target": target}
            data = read_for_advice(str(path), [target], leave_out, categories)
            found = _planned(replace(data, path=path.name), values, verify)
            return replace(found, offers=offers, chosen=chosen)
        except InputError as error:
            # The folder of the file is no part of its name.
            text = error.worded(_WORDS).replace(f"{Path(upload or folder).parent}/", "")
            return refusal(text.replace(f"{folder}/", ""), offers=offers, chosen=chosen)


def _source(name: str, upload: str | None, folder: Path) -> Path:
    """Return the path of the file that was sent, or of a bundled set as a file."""
    if name == "upload":
        if upload is None or not Path(upload).exists():
            raise InputError("Send a CSV file first: an address does not bring files back.")
        require_modest_text(Path(upload))
        return Path(upload)
    names, rows = _bundled(name)
    path = folder / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([repr(float(value)) for value in row] for row in rows)
    return path


def _bundled(name: str) -> tuple[list[str], Any]:
    import numpy as np

    if name == _DRAWN:
        import reshuffle as rs

        problem = rs.gaussian(200, 20, noise=1.0, seed=0)
        return [*(f"x{k}" for k in range(1, 21)), "y"], np.column_stack([problem.X, problem.y])
    from sklearn import datasets

    found = getattr(datasets, SETS[name][1])()
    targets = np.reshape(found.target, (len(found.data), -1))
    names = list(found.target_names) if targets.shape[1] > 1 else ["target"]
    return [*map(str, found.feature_names), *map(str, names)], np.column_stack([found.data, targets])


def require_modest_text(path: Path) -> None:
    """Refuse what is no text, or has more cells than are planned for here, before it is parsed."""
    data = path.read_bytes()
    if b"\0" in data:
        raise InputError(
            f"{path.name} must be a CSV file, which is text, but it holds bytes that are no text."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            f"{path.name} must be text in UTF-8, but it is in another encoding; save it again as CSV UTF-8."
        ) from None
    lines = text.count("\n") + 1
    columns = 1 + max(text.partition("\n")[0].count(sign) for sign in ",;\t")
    for what, count, most in (
        ("rows", lines - 1, MOST_ROWS),
        ("columns", columns, MOST_COLUMNS),
        ("cells", lines * columns, MOST_CELLS),
    ):
        if count > most:
            raise InputError(f"{path.name} must have at most {most:,} {what}, but it has about {count:,}.")


def _planned(data: "Data", values: Mapping[str, Any], verify: bool) -> Answer:
    import reshuffle as rs

    y = data.y[:, 0]
    plan = rs.plan(data.X, y, epochs=values["epochs"], standardize=values["standardize"], verify=verify)
    best, n, target = plan.best, len(y), data.targets[0]
    root, deviation = math.sqrt(best.test_error), float(y.std())
    visits = -(-n // best.batch_size)
    batches = "all rows at once" if best.batch_size == n else f"batches of {best.batch_size}"
    recipe = f"{batches}, learning rate {number(best.step, 3)}, for {_count(best.epochs, 'epoch')}"
    # The mean of the other rows predicts a row left out with this mean square.
    of_mean = deviation**2 * (n / (n - 1)) ** 2
    gain = of_mean - best.test_error
    # A gain has a standard error of about 2 sqrt(gain test_error / n), twice which is what chance may bring about.
    if gain <= 16 * best.test_error / n:
        sentence = (
            f"Training gains nothing that is sure: the mean of {target} predicts new rows about as well "
            f"(RMSE {number(math.sqrt(of_mean))}, trained {number(root)})."
        )
    else:
        sentence = f"Train with {recipe}."
    remarks = [
        f"Expect a test error of {number(root)} (RMSE) on new rows; {target} has a standard deviation of "
        f"{number(deviation)}. It costs {_count(best.epochs, 'epoch')} of {_count(visits, 'step')} each.",
        f"Least squares, to which training leads in the end, has {_against(plan.least_squares.mean_square, best)}; "
        f"ridge with the best penalty has {_against(plan.ridge.mean_square, best)}.",
        *(f"{note[0].upper()}{note[1:]}{'' if note.endswith('.') else '.'}" for note in plan.notes),
    ]
    return Answer(
        sentence,
        _described(data),
        "" if verify else "A first look; the best recipes are being verified.",
        {
            "Batch size": str(best.batch_size),
            "Learning rate": number(best.step, 3),
            "Epochs": str(best.epochs),
            "Steps in all": f"{visits * best.epochs:,}",
            "Test error (mean square)": number(best.test_error),
        },
        remarks,
        [_curves_chart(plan, target), _choices_chart(plan)],
        [_table(plan)],
        _programs(data, plan, values, verify),
        is_final=verify,
    )


def _described(data: "Data") -> str:
    n, p = data.X.shape
    parts = [f"{data.path}: {_count(n, 'row')}, {_count(p, 'feature')}", f"target {data.targets[0]}"]
    parts += [f"encoded {name} ({len(words)} categories)" for name, words in data.encoded.items()]
    for what, names in (("left out", data.dropped), ("left out as constant", data.constant)):
        parts += [f"{what} {', '.join(names)}"] * bool(names)
    return "; ".join(parts)


def _count(value: int, what: str) -> str:
    return f"{value} {what}{'s' * (value != 1)}"


def _against(value: float, best: "PlannedRecipe") -> str:
    """Say how a test error compares with that of the recommended recipe."""
    share = value / best.test_error - 1 if best.test_error > 0 else math.inf
    if abs(share) <= 1e-3:
        return "the same test error"
    if share > 10:
        return f"a test error {number(1 + share, 3)} times as high"
    return f"a test error {100 * abs(share):.1f}% {'higher' if share > 0 else 'lower'}"


def _errors(plan: "rs.Plan") -> Any:
    """Return root mean squares (batch sizes, steps, epochs) under the chosen penalty."""
    import numpy as np

    place = plan.best.place[0]
    return np.sqrt(plan.mean_squares[place] + plan.spreads[place]), plan.safe_steps[place]


def _curves_chart(plan: "rs.Plan", target: str) -> Chart:
    """Return the root mean square error on rows left out along the epochs, for some recipes."""
    import numpy as np

    best, n = plan.best, plan.run.problem.n
    errors, _ = _errors(plan)
    _, size, share, _ = best.place
    wanted = {(size, share): "recommended"}
    for other, word in ((len(plan.shares) - 1, "larger"), (max(share - 3, 0), "smaller")):
        factor = float(plan.shares[other]) / best.share
        wanted.setdefault((size, other), f"rate {number(max(factor, 1 / factor), 3)} times {word}")
    largest = len(plan.batch_sizes) - 1
    if largest != size:
        rows = "all rows" if plan.batch_sizes[largest] == n else f"batches of {plan.batch_sizes[largest]:g}"
        wanted[largest, int(np.argmin(errors[largest].min(axis=-1)))] = f"{rows}, best rate"
    simple, least = math.sqrt(plan.least_squares.mean_square), math.sqrt(best.test_error)
    styles = zip(("first", "second", "third", "fourth"), ("", "7 4", "8 3 2 3", "2 3"), strict=True)
    series = [
        Series(
            label.replace(" ", "_"), label, numbers(plan.epochs), numbers(errors[place]), colour, dash=dash
        )
        for (place, label), (colour, dash) in zip(wanted.items(), styles, strict=False)
    ]
    ends = numbers(plan.epochs)
    series.append(Series("least_squares", "least squares", ends, [simple] * len(ends), "grey", dash="1 4"))
    series.append(Series("", "", [best.epochs], [least], "first", "dots", width=5))
    # The recommended curve is in sight, and what starts or ends far above it leaves through the top.
    room = min(max(float(errors[size, share].max()), simple), 1.5 * least) - least or 0.1 * least
    words = (
        f"Root mean square error of {target} on rows that are left out, along the epochs: with the recommended "
        f"recipe smallest after {best.epochs} epochs, at {number(least)}; least squares has {number(simple)}."
    )
    x, y = Axis("epochs", "epoch", True), Axis("error on rows left out (RMSE)", "rmse", False, least - 0.08 * room,
                                               least + 1.7 * room)  # fmt: skip
    return Chart("leave-one-out", "Leave-one-out along the epochs", words, x, y, series)


def _choices_chart(plan: "rs.Plan") -> Chart:
    """Return the least error of every batch size and learning rate."""
    import numpy as np

    errors, safe_steps = _errors(plan)
    roots = errors.min(axis=-1)
    n, colours = plan.run.problem.n, ("first", "second", "third", "fourth", "fifth", "grey")
    series = []
    for place, (size, row) in enumerate(zip(plan.batch_sizes, roots, strict=True)):
        label = "all rows" if size == n else f"batches of {size:g}"
        steps = numbers(plan.shares * safe_steps[place])
        dash = "" if place < len(colours) else "7 4"
        series.append(Series("", label, steps, numbers(row), colours[place % len(colours)], dash=dash))
    low, high = float(roots.min()), float(roots[np.isfinite(roots)].max())
    room = min(high, 1.5 * low) - low or 0.1 * low
    best = plan.best
    words = (
        "Least root mean square error of every batch size and learning rate, each stopped when it is best: "
        f"{number(low)} at least, {number(math.sqrt(best.test_error))} for batches of {best.batch_size} with "
        f"learning rate {number(best.step, 3)}; the largest of those shown is {number(high)}."
    )
    y = Axis("error, stopped in time (RMSE)", "rmse", False, low - 0.05 * room, low + 1.05 * room)
    x = Axis("learning rate", "learning_rate", True)
    return Chart("choices", "What other choices cost", words, x, y, series)


def _table(plan: "rs.Plan") -> Table:
    best = plan.best
    recipes = [("recommended", best), *(("runner-up", one) for one in plan.runners_up[:_RUNNERS_UP])]
    rows = [
        [name, str(one.batch_size), number(one.step, 3), str(one.epochs), number(one.test_error),
         number(math.sqrt(one.test_error)), "" if one is best else _share(one.test_error, best.test_error)]
        for name, one in recipes
    ]  # fmt: skip
    for fit in (plan.least_squares, plan.ridge):
        error = fit.mean_square
        rows.append(
            [fit.name, "", "", "", number(error), number(math.sqrt(error)), _share(error, best.test_error)]
        )
    headings = ["choice", "batch size", "learning rate", "epochs", "test error", "RMSE", "against it"]
    return Table("The recommendation, and what other choices would do", headings, rows)


def _share(value: float, base: float) -> str:
    return f"{100 * (value / base - 1):+.2f}%" if base > 0 and value < 10 * base else "far more"


def _programs(data: "Data", plan: "rs.Plan", values: Mapping[str, Any], verify: bool) -> dict[str, str]:
    """Return programs that train as recommended, and the lines that compute the plan."""
    from reshuffle.cli.advise import reading_lines, training_programs

    made = training_programs(data, plan, None)
    settings = [
        *["standardize=False"] * (not values["standardize"]),
        *[f"epochs={values['epochs']}"] * (values["epochs"] != 1000),
        *["verify=False"] * (not verify),
    ]
    lines = [
        "import pandas as pd",
        "import reshuffle as rs",
        "",
        *reading_lines(data),
        f"plan = rs.plan({', '.join(['X', 'y.iloc[:, 0]', *settings])})",
        "print(plan)",
        "curves = plan.mean_squares[0] + plan.spreads[0]  # leave-one-out: (batch sizes, steps, epochs)",
        "left_out = plan.run.leave_one_out(plan.best.epochs)  # row by row",
    ]
    programs = {
        "Train like this in torch": made["torch"],
        "Train like this in scikit-learn": made["scikit_learn"],
        "The Python lines that compute this": "\n".join(lines) + "\n",
    }
    return {title: _reading(text, values["source"]) for title, text in programs.items()}


def _reading(program: str, source: str) -> str:
    """Return a program that reads bundled data from where they are, not from a file."""
    if source == "upload":
        return program
    loader = SETS[source][1]
    imports, lines = "import reshuffle as rs", (
        "problem = rs.gaussian(200, 20, noise=1.0, seed=0)\n"
        'table = pd.DataFrame(problem.X, columns=[f"x{k}" for k in range(1, 21)]).assign(y=problem.y)'
    )  # fmt: skip
    if loader:
        imports, lines = f"from sklearn.datasets import {loader}", f"table = {loader}(as_frame=True).frame"
    if imports not in program:
        program = program.replace("import pandas as pd\n", f"import pandas as pd\n{imports}\n", 1)
    return program.replace(f'table = pd.read_csv("{source}.csv")', lines, 1)
