"""`reshuffle advise`: how to train on one's own data."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from reshuffle.cli import options, reader, render
from reshuffle.cli.options import ACCURACY, DATA, RECIPE, WHOLE, also, at_least, numbers
from reshuffle.cli.reader import Data, shown, some
from reshuffle.cli.render import Report, number, uncertain
from reshuffle.cli.sketch import Series
from reshuffle.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    import reshuffle as rs
    from reshuffle._arrays import FloatArray
    from reshuffle.planning import HoldoutCheck
    from reshuffle.validation.classification import Classification

_FEWEST_ROWS = 3
"""One to leave out, and two to learn from."""
_EQUAL = 1e-3
"""Shares of the test error that nobody would notice; the plan takes them for equal, too."""
_WORTH_IT = 0.01
"""Shares of the test error for which one might leave training alone."""
_SEEN = 0.05
"""Rows that are expected to be taken for another class, from which on they are told."""
_RECIPE = ("batch_size", "learning_rate", "momentum", "weight_decay", "epochs", "test_error", "error")
_PROMISED = ("test_error", "standard_error", "interval", "naive_test_error")
"""Attributes of the plan in JSON: `naive_test_error` is that of the table, before the choice is corrected for."""
_DATA = ("targets", "features", "encoded", "filled", "dropped", "constant")
"""Attributes of recipes and of the data in JSON."""
_CHECK = {
    name: name for name in ("predicted", "predicted_error", "single_run", "of_outputs", "rows", "accuracy")
}
_CHECK |= {"mean_run": "found", "standard_error": "found_error"}
# Former names.
_CHECK |= {"promised": "predicted", "promised_error": "predicted_error"}
"""Keys of the check on held-out rows in JSON, and their attributes."""


def advise(
    *,
    data: Annotated[str, DATA, options.HYPHEN, also("-d")],
    target: Annotated[tuple[str, ...], DATA, options.FLAG, also("-t")] = (),
    drop: options.Drop = (),
    one_hot: options.OneHot = (),
    fill: options.Fill = None,
    classes: Annotated[bool, DATA, options.FLAG] = False,
    test: Annotated[str | None, ACCURACY] = None,
    batch_size: Annotated[str | None, RECIPE, also("-b")] = None,
    momentum: Annotated[str, RECIPE] = "0",
    weight_decay: Annotated[str, RECIPE] = "0",
    epochs: Annotated[int, RECIPE, WHOLE, also("-e")] = 1000,
    seed: Annotated[int, ACCURACY, WHOLE] = 0,
    outputs: options.OutputOptions = options.TERMINAL,
) -> None:
    """Advice on training a linear model on your data: batch size, learning rate, epochs.

    Features are standardised and the target is centred. Every choice is
    compared by the error it would have on rows it has not seen (each row is
    left out in turn), without training. Ends with a program in torch and one
    in scikit-learn, the numbers filled in.

    A target of text or of True and False has classes, which are learned by
    squared loss: the answer has the accuracy to expect, and the classes that
    are mistaken for each other.

    For example:
      reshuffle advise --data mine.csv --target price --test other.csv

    :param data: Your table: FILE.csv with a header, .tsv, .csv.gz or .parquet, or - for standard input.
    :param target: The column to be predicted; once for each of several.
    :param classes: The target has classes although its entries are numbers.
    :param test: Held-out rows with the same columns: the recommendation is checked on them.
    :param batch_size: Batch sizes to choose from, separated by commas; else 16 to 256, and all rows.
    :param momentum: Momenta to choose from, separated by commas.
    :param weight_decay: Weight decays to choose from, separated by commas, as in torch's SGD.
    :param epochs: The longest training.
    :param seed: Seed of the run that is trained for --test.
    """
    render.check(outputs, data=data, test=test)
    at_least("seed", seed, 0)
    at_least("epochs", epochs, 1)
    sizes = None if batch_size is None else options.whole_numbers("batch_size", batch_size)
    grid: dict[str, Any] = {
        "batch_sizes": sizes,
        "epochs": epochs,
        "momenta": numbers("momentum", momentum, 1.0),
        "penalties": numbers("weight_decay", weight_decay),
    }
    if test is not None and Path(test).exists() and Path(data).exists() and Path(test).samefile(data):
        raise ArgumentError("test", "hold other rows than {data}", f"both are the file {test!r}")
    read = read_for_advice(data, target, drop, one_hot, fill, classes or None)
    held_out = None
    if test is not None:
        _named_table(test)
        held_out = read.held_out(test)
    if sizes is not None and max(sizes) > len(read.X):
        raise ArgumentError(
            "batch_size", f"be at most {len(read.X)}, the rows of {data}", f"it is {max(sizes)}"
        )
    advice = Advice.of(read, grid)
    if held_out is not None:
        X, y = held_out
        # Targets are in the units of the plan.
        if read.labels is None:
            y = y[:, 0] if advice.is_single else y / advice.units
        check = advice.plan.check_on(X, y, seed=seed)
        advice = replace(advice, check=check, test=test, seed=seed)
    render.deliver(answer(advice), outputs)


def read_for_advice(
    path: str,
    target: Sequence[str],
    drop: Sequence[str] = (),
    one_hot: Sequence[str] = (),
    fill: str | None = None,
    classes: bool | None = None,
) -> Data:
    """Read a table with names of columns; what nothing can be learned from is refused by name."""
    import numpy as np

    table = _named_table(path)
    if not target:
        allowed = f"name the column of {path} to be predicted, one of {some(table.names)}"
        raise ArgumentError("target", allowed, "it is not given")
    if len(table.names) < 2:
        raise ArgumentError(path, "have a column other than {target} to learn from", "it has only one")
    data = reader.read(table, target, drop, one_hot, fill, classes)
    if len(data.X) < _FEWEST_ROWS:
        raise ArgumentError(
            path,
            f"have at least {_FEWEST_ROWS} rows, to leave one out and learn from the others",
            f"it has {len(data.X)}",
        )
    for name, column in zip(data.targets, data.y.T, strict=True):
        if np.ptp(column) == 0:
            value = f"{column[0]:g}" if data.labels is None else reader.quoted(str(data.labels[0]))
            given = f"is {value} in every row of {path}: there is nothing to be learned"
            raise ArgumentError(f"{{target}} {shown(name)}", "", given, "name another column")
    # Columns of numbers that are constant, and those with one category alone.
    moving = np.ptp(data.X, axis=0) != 0
    still = {name for name, moves in zip(data.features, moving, strict=True) if not moves}
    away = [name for name in data.numeric if name in still]
    away += [name for name, words in data.encoded.items() if len(words) == 1]
    data = replace(
        data,
        X=data.X if moving.all() else data.X[:, moving],
        numeric=[name for name in data.numeric if name not in away],
        encoded={name: words for name, words in data.encoded.items() if name not in away},
        constant=away,
    )
    if not data.features:
        raise ArgumentError(path, "have a feature that is not constant, other than {target}", "it has none")
    for name, column in zip(data.numeric, data.X.T, strict=False):
        for target_, answers in zip(data.targets, data.y.T, strict=True):
            if (column == answers).all():
                given = f"is a copy of {{target}} {shown(target_)} and would give it away"
                hint = f"leave it out with {{drop}} {reader.as_argument(name)}"
                raise ArgumentError(f"{path}: column {reader.quoted(name)}", "", given, hint)
    data.warn_of_indices()
    return data


def _named_table(path: str) -> reader.FileTable:
    """A table with names of columns; files without are refused."""
    endings = "".join(Path(path).suffixes[-2:]).lower()
    if path != reader.STANDARD_INPUT and not endings.endswith((".csv", ".tsv", ".gz", ".parquet")):
        allowed = "be a table with names of columns, .csv or .parquet, for advice"
        raise ArgumentError(path, allowed, f"it ends in {Path(path).suffix.lower()!r}")
    table = reader.read_table(path)
    if not table.has_names:
        _, cells = next(table.rows_of_text(), (0, []))
        given = f"that is {table.separator.join(cells)[:60]!r}"
        raise ArgumentError(path, "name its columns in its first line", given, "write such a line above it")
    return table


@dataclass(frozen=True, eq=False)
class Advice:
    """A plan for the data of a file, and its check on held-out rows.

    In the plan targets are divided by `units` (t,): 1 for one target, the standard deviations of several, so that
    all of them count. The expected test error of each of several targets is in units of its own squared. Classes
    are one target, whose errors are those of the numbers that stand for them.
    """

    data: Data
    plan: "rs.Plan"
    units: "FloatArray"
    deviations: "FloatArray"
    of_targets: "FloatArray | None" = None
    errors_of_targets: "FloatArray | None" = None
    check: "HoldoutCheck | None" = None
    test: str | None = None
    seed: int = 0

    @classmethod
    def of(cls, data: Data, grid: dict[str, Any]) -> "Advice":
        """The plan for the data, and what is expected for each target."""
        import numpy as np
        import pandas as pd

        import reshuffle as rs

        X = pd.DataFrame(data.X, columns=data.features, copy=False)
        if data.labels is not None:
            plan = rs.plan(X, data.labels, classes=True, **grid)
            return cls(data, plan, np.ones(1), np.sqrt([np.square(plan.problem.y).mean()]))
        deviations = data.y.std(axis=0)
        is_single = len(data.targets) == 1
        # Descent is linear in the targets: other units change none of its choices but how much each target counts.
        units = np.ones(1) if is_single else deviations
        plan = rs.plan(X, data.y[:, 0] if is_single else data.y / units, **grid)
        if is_single or not plan.best.is_verified:
            return cls(data, plan, units, deviations)
        left_out = plan.run.leave_one_out(plan.best.epochs)
        squares = np.square(units)
        return cls(
            data, plan, units, deviations, left_out.mean_square * squares, left_out.standard_error * squares
        )

    @property
    def is_single(self) -> bool:
        """True if there is one target, in whose units all errors are."""
        return len(self.units) == 1

    @cached_property
    def classification(self) -> "Classification | None":
        """Accuracy and confusion to expect of a single run, for y of classes, unless that takes too long."""
        from reshuffle.grid.metrics import REFUSALS

        try:
            return None if self.plan.classes is None else self.plan.classification
        except REFUSALS:
            return None

    def error(self, mean_square: float, error: float = 0.0) -> tuple[float, float]:
        """A test error for people: its root in units of a single target, else the share of the variance."""
        return _root(mean_square, error) if self.is_single else (mean_square, error)


def _root(mean_square: float, error: float) -> tuple[float, float]:
    """The root of a mean square, and its error."""
    value = math.sqrt(mean_square)
    if error > mean_square:
        return value, math.sqrt(mean_square + error) - value
    return value, float(error) / (2 * value) if value else 0.0


def against(value: float, base: float) -> str:
    """The excess of a test error over another, in words or per cent.

    >>> against(2.0, 1.9999), against(3.0, 2.0), against(math.inf, 1.0), against(500.0, 1.0)
    ('the same', '+50.0%', 'diverges', '500 times')
    """
    if not math.isfinite(value):
        return "diverges"
    if abs(value - base) <= _EQUAL * base or base <= 0:
        return "the same" if abs(value - base) <= _EQUAL * abs(base) else "worse"
    share = value / base - 1
    return f"{100 * share:+.1f}%" if share < 10 else f"{number(value / base, 3)} times"


def batches(plan: "rs.Plan", size: int) -> str:
    """The batches in words."""
    return "all rows at once" if size == plan.problem.n else f"batches of {size}"


def describe(data: Data) -> str:
    """The table in one line."""
    n, p = data.X.shape
    parts = [
        f"{n} rows, {p} feature{'s' * (p > 1)}",
        f"target{'s' * (len(data.targets) > 1)} {some(data.targets)}",
    ]
    if data.encoded:
        found = [f"{shown(name)} ({len(words)} categories)" for name, words in data.encoded.items()]
        parts.append(f"encoded {', '.join(found)}")
    if data.filled:
        parts.append(f"missing values of {some(list(data.filled))} are their medians")
    if data.dropped:
        parts.append(f"left out {some(data.dropped)}")
    if data.constant:
        parts.append(f"left out as constant {some(data.constant)}")
    where = "standard input" if data.path == reader.STANDARD_INPUT else data.path
    return f"{where}: {'; '.join(parts)}."


def remarks(advice: Advice) -> list[str]:
    """The recommendation, the notes of the plan, fits without training, and the check on held-out rows."""
    plan, best = advice.plan, advice.plan.best
    extras = f" momentum {best.momentum:g}," * bool(best.momentum)
    extras += f" weight decay {number(best.penalty, 3)}," * bool(best.penalty)
    square = uncertain(plan.test_error, plan.standard_error)
    low, high = (number(advice.error(bound)[0], 3) for bound in plan.interval)
    if plan.classes is not None:
        low, high = (number(bound, 3) for bound in plan.interval)
        expected = f"a mean square of {square} (95% interval {low} to {high})"
        found = advice.classification
        if found is not None:
            accuracy = uncertain(float(found.accuracy), float(found.standard_error))
            expected = (
                f"an accuracy of {accuracy} (share of new rows that a single run tells right), {expected}"
            )
    elif advice.is_single:
        root = uncertain(*advice.error(plan.test_error, plan.standard_error))
        expected = (
            f"a test error of {root} (RMSE, 95% interval {low} to {high}; {shown(advice.data.targets[0])} has a "
            f"standard deviation of {number(float(advice.deviations[0]), 4)}), a mean square of {square}"
        )
    else:
        expected = f"{square} of the variance of the targets to be left (95% interval {low} to {high})"
        if advice.of_targets is not None and advice.errors_of_targets is not None:
            pairs = zip(advice.data.targets, advice.of_targets, advice.errors_of_targets, strict=True)
            each = [f"{shown(name)} {uncertain(*_root(*pair))}" for name, *pair in pairs]
            expected += f" (RMSE: {', '.join(each)})"
    lines = [
        f"Train with {batches(plan, best.batch_size)}, learning rate {number(best.step, 3)},{extras} for "
        f"{best.epochs} epoch{'s' * (best.epochs != 1)}; expect {expected}."
    ]
    lines += _confusions(advice)
    with_classes = "" if advice.data.labels is not None else " of reshuffle advise --classes"
    for note in plan.notes:
        note = note.replace("the step ", "the learning rate ")
        note = note.replace("plan.accuracy", f"the accuracy{with_classes}")
        note = note.replace("plan with classes=True", "reshuffle advise --classes learns them")
        # y is a symbol, and stays small.
        lines.append(f"{note if note.startswith('y ') else note[0].upper() + note[1:]}.")
    fits = (plan.least_squares, plan.ridge)
    simple = [
        f"{fit.name} {number(advice.error(fit.mean_square)[0], 4)} ({against(fit.mean_square, best.test_error)})"
        for fit in fits
    ]
    lines.append(f"Without training: {', '.join(simple)}.")
    simplest = min(fits, key=lambda fit: fit.mean_square)
    if simplest.mean_square < (1 - _WORTH_IT) * best.test_error:
        lines.append(f"Here {simplest.name} does better than training.")
    if best.test_error >= (float(advice.deviations[0]) ** 2 if advice.is_single else 1.0):
        always = "predicting the mean" if plan.classes is None else "telling the most frequent class"
        lines.append(f"That is no better than always {always}.")
    check = advice.check
    if check is not None:
        achieved, wanted = (
            uncertain(*advice.error(value, error))
            if math.isfinite(error)
            else number(advice.error(value)[0], 4)
            for value, error in ((check.found, check.found_error), (check.predicted, check.predicted_error))
        )
        lines.append(
            f"On the {check.rows} rows of {advice.test} the mean over all orders has an error of {achieved}, and "
            f"one run that was trained (seed {advice.seed}) {number(advice.error(check.single_run)[0], 4)}; "
            f"expected was {wanted}, which is {'within' if check.agrees else 'not within'} two standard errors."
        )
        if plan.classes is not None:
            lines.append(f"That run tells {number(check.accuracy, 4)} of them right.")
    return lines


def _confusions(advice: Advice) -> list[str]:
    """Sentences on the classes that a single run is expected to take for others."""
    found = advice.classification
    if found is None:
        return []
    assert advice.plan.classes is not None
    names, lines = [shown(str(name)) for name in advice.plan.classes], []
    for place, (name, row) in enumerate(zip(names, found.confusion, strict=True)):
        wrong = [
            f"{number(row[k], 2)} for {names[k]}" for k in (-row).argsort() if k != place and row[k] >= _SEEN
        ]
        taken = f", and to take {some(wrong, str)}" * bool(wrong)
        right = f"a single run is expected to tell {number(row[place], 3)} right"
        lines.append(f"Of {row.sum():g} rows of {name}, {right}{taken}.")
    return lines


def choices(advice: Advice) -> list[dict[str, Any]]:
    """The recommendation, its runners-up, recipes with one number far off, and fits without training."""
    plan = advice.plan

    def choice(name: str, one: Any, **changed: Any) -> dict[str, Any]:
        # A fit without training has no batches, rate or epochs.
        return {"name": name} | {key: getattr(one, key, None) for key in _RECIPE} | changed

    found = [choice(name, recipe) for name, recipe in plan.choices]
    fits = (plan.least_squares, plan.ridge)
    return found + [choice(fit.name, fit, momentum=0.0, weight_decay=0.0) for fit in fits]


def _is_unknown(record: dict[str, Any]) -> bool:
    """True for a choice whose test error is not known better than by its own size."""
    return bool(record["error"] is not None and record["error"] > record["test_error"])


def _known(record: dict[str, Any], unit: Callable[[float], float]) -> str:
    """The test error of a choice in words, in some unit: a bound where no more is known."""
    value = record["test_error"]
    return f"< {number(unit(value + record['error']), 2)}" if _is_unknown(record) else number(unit(value), 4)


def curves(advice: Advice) -> list[Series]:
    """The expected test error along the epochs: as recommended, with other learning rates, with all rows."""
    import numpy as np

    plan = advice.plan
    _, size, share, _ = plan.best.place
    errors = plan.errors
    recipe = f"{batches(plan, plan.best.batch_size)}, learning rate {number(plan.best.step, 3)}"
    wanted = {(size, share): f"recommended: {recipe}"}
    for other, word in ((len(plan.shares) - 1, "larger"), (max(share - 3, 0), "smaller")):
        factor = float(plan.shares[other]) / plan.best.share
        times = factor if factor >= 1 else 1 / factor
        wanted.setdefault((size, other), f"learning rate {number(times, 3)} times {word}")
    largest = len(plan.batch_sizes) - 1
    if largest != size:
        rate = int(np.argmin(errors[largest].min(axis=-1)))
        wanted[largest, rate] = f"{batches(plan, int(plan.batch_sizes[largest]))}, at the best rate"
    roots = np.sqrt if advice.is_single else np.asarray
    best = float(plan.best.epochs), float(roots(plan.best.test_error))
    return [
        Series(label, plan.epochs, roots(errors[place]), best=best if place == (size, share) else None)
        for place, label in wanted.items()
    ]


def answer(advice: Advice) -> Report:
    """Everything that is shown."""
    import numpy as np

    plan, best, data, check = advice.plan, advice.plan.best, advice.data, advice.check
    found = advice.classification
    code = training_programs(data, plan, advice.test)
    records = choices(advice)
    table: dict[str, Any] = {"choice": "name", "batch size": "batch_size"}
    for name in ("learning_rate", "momentum", "weight_decay"):
        # Columns of momentum and weight decay only where there is any.
        if any(record[name] for record in records):
            table[name.replace("_", " ")] = lambda record, name=name: (
                None if record["epochs"] is None else number(record[name], 3)
            )
    table |= {"epochs": "epochs", "mean square": lambda record: _known(record, float)}
    if advice.is_single:
        table["RMSE"] = lambda record: _known(record, math.sqrt)
    table["against it"] = lambda record: (
        "" if record is records[0] or _is_unknown(record) else against(record["test_error"], best.test_error)
    )
    unit = f"RMSE of {data.targets[0]}" if advice.is_single else "share of the variance"
    units = "in units of the target squared" if advice.is_single else "each target in its standard deviations"
    if data.labels is not None:
        units = "of the numbers that stand for the classes"

    def draw_map(ax: "Axes") -> None:
        from reshuffle import plotting

        plotting.plan_map(plan, ax=ax)

    levels = {"least squares": advice.error(plan.least_squares.mean_square)[0]}
    if check is not None:
        levels[f"on {check.rows} held-out rows"] = advice.error(check.found)[0]
    spread = f"; the random order of a single run adds {number(best.spread, 2)} of it"
    return Report(
        "advise",
        describe(data),
        {
            "data": {
                "path": data.path,
                "n": len(data.X),
                "p": data.X.shape[1],
                **{name: getattr(data, name) for name in _DATA},
            },
            "recommendation": {
                **{name: getattr(best, name) for name in (*_RECIPE, "standard_error", "spread", "method")},
                **{name: getattr(plan, name) for name in _PROMISED},
                "shuffle": True,
                "drop_last": False,
            },
            "safe_learning_rate": plan.safe_step,
            "notes": plan.notes,
            "units": advice.units,
            "test_error_of_targets": advice.of_targets,
            "classes": plan.classes,
            "accuracy": found and found.accuracy,
            "accuracy_standard_error": found and found.standard_error,
            "confusion": found and found.confusion,
            "least_squares": vars(plan.least_squares),
            "ridge": vars(plan.ridge),
            "coefficients": lambda: np.reshape(plan.coefficients[0], (data.X.shape[1], -1)) * advice.units,
            "intercept": lambda: np.atleast_1d(plan.coefficients[1]) * advice.units,
            "test": check and {"path": advice.test} | {key: getattr(check, of) for key, of in _CHECK.items()},
            "snippets": code,
        },
        "choices",
        records,
        table,
        lambda: _columns(plan),
        curves(advice),
        ylabel=f"expected test error ({unit})",
        remarks=remarks(advice),
        notes=[
            f"The mean square is the error expected on new rows, {units}, by leaving out each row in turn "
            f"({best.method}){spread if best.spread else ''}. The first sentence corrects it for the choice among "
            "many recipes.",
            f"{len(plan.batch_sizes) * len(plan.shares)} pairs of batch size and learning rate were compared, up "
            f"to {plan.epochs[-1]:g} epochs, without training. Of those within 0.1% of the least test error, the "
            "recommended one trains for the fewest epochs.",
        ],
        code=[f"# In torch:\n{code['torch']}", f"# In scikit-learn:\n{code['scikit_learn']}"],
        levels=levels,
        draw_beside=draw_map,
    )


def _columns(plan: "rs.Plan") -> dict[str, Any]:
    """Every recipe that was compared, at every epoch."""
    import numpy as np

    penalty, size, share, epoch = (axis.ravel() for axis in np.indices(plan.mean_squares.shape))
    return {
        "batch_size": plan.batch_sizes[size].astype(np.int64),
        "learning_rate": plan.safe_steps[penalty, size] * plan.shares[share],
        "weight_decay": plan.penalties[penalty],
        "epoch": plan.epochs[epoch].astype(np.int64),
        "mean_square": plan.mean_squares.ravel(),
        "spread": plan.spreads.ravel(),
    }


def training_programs(data: Data, plan: "rs.Plan", test: str | None) -> dict[str, str]:
    """Programs that read the table, train, and print the error on held-out rows, if there are any."""
    reading = "\n".join(reading_lines(data))
    programs = {"torch": plan.to_torch(reading), "scikit_learn": plan.to_sklearn(reading)}
    if test is None:
        return programs
    taken = "test[X.columns]"
    if data.encoded:
        dummies = f"pd.get_dummies(test, columns={_code(list(data.encoded))}, dtype=float)"
        taken = f"{dummies}.reindex(columns=X.columns, fill_value=0.0)"
    lines = [
        _reading("test", test, data),
        *["test = test.fillna(X.median())"] * (data.fill is not None),
        f"X_test = {taken}",
        f"y_test = test[{_target(data)}]",
    ]
    fitted = ("predict(X_test)", "model.predict(X_test).reshape(y_test.shape)")
    shown = [f'"test error:", (({one} - y_test) ** 2).mean().to_dict()' for one in fitted]
    if data.labels is not None:
        fitted = ("predicted_labels(X_test)", "model.predict(X_test)")
        shown = [f'"accuracy:", ({one} == y_test).mean()' for one in fitted]
    return {
        name: "\n".join([program, *lines, f"print({one})\n"])
        for (name, program), one in zip(programs.items(), shown, strict=True)
    }


def reading_lines(data: Data) -> list[str]:
    """Lines that make X and y, with the columns in our order."""
    away = [*data.targets, *data.dropped, *data.constant]
    return [
        _reading("table", data.path, data),
        *[f"table = table.fillna({_code(data.filled)})"] * bool(data.filled),
        f"X, y = table.drop(columns={_code(away)}), table[{_target(data)}]",
        *[f"X = pd.get_dummies(X, columns={_code(list(data.encoded))}, dtype=float)"] * bool(data.encoded),
    ]


def _target(data: Data) -> str:
    """The key of y in the table: a list of targets, or the name of the column of classes."""
    return _code(data.targets if data.labels is None else data.targets[0])


def _reading(name: str, path: str, data: Data) -> str:
    """A line that reads a file, or standard input (0), as it was read here."""
    words = "{" + ", ".join(f"{_code(column)}: str" for column in data.encoded) + "}"
    as_words = f".astype({words})" * bool(data.encoded)
    assert data.table is not None
    if Path(path).suffix.lower() == ".parquet":
        import pyarrow.parquet

        # pandas makes an index of these columns; read as others, they are the first.
        schema, columns = pyarrow.parquet.read_schema(path), ""
        known = (schema.pandas_metadata or {}).get("index_columns", [])
        if index := [column for column in known if isinstance(column, str)]:
            columns = f".reset_index(names={_code(index)})[{_code(schema.names)}]"
        return f"{name} = pd.read_parquet({_code(path)}){columns}{as_words}"
    settings = [
        _code(path) if path != reader.STANDARD_INPUT else "open(0)",
        *[f"sep={data.table.separator!r}"] * (data.table.separator != ","),
        *['decimal=","'] * data.table.has_decimal_commas,
        *[f"dtype={words}"] * (bool(data.encoded) and not data.table.is_padded),
    ]
    stripped = f".rename(columns=str.strip){as_words}" * data.table.is_padded
    if "" in data.table.names:
        # What pandas calls a column without a name.
        stripped += f'.rename(columns={{"Unnamed: {data.table.names.index("")}": ""}})'
    return f"{name} = pd.read_csv({', '.join(settings)}){stripped}"


def _code(value: Any) -> str:
    r"""Text, or a list or dict of it, as Python has it; what would not print is escaped.

    >>> print(_code("price"), _code(['6" pipe', "a\x1bb"]))
    "price" ["6\" pipe", "a\u001bb"]
    """
    return json.dumps(value, ensure_ascii=not "".join(value).isprintable())
