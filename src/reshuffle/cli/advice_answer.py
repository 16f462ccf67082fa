"""The advice as a table, JSON, columns, a sketch and a picture."""

from typing import TYPE_CHECKING, Any

from reshuffle.cli.advice_words import (
    Advice,
    against,
    batches,
    choices,
    expected_errors,
    places,
    remarks,
    root,
)
from reshuffle.cli.output import Answer, number
from reshuffle.cli.snippets import Numbers, scikit_learn_program, torch_program
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    import reshuffle as rs


def answer(advice: Advice) -> Answer:
    """Everything that is shown."""
    first, *others = remarks(advice)
    programs = snippets(advice)
    headings, rows = _table(advice)
    return Answer(
        title=first,
        remarks=others,
        headings=headings,
        rows=rows,
        data=_record(advice, programs),
        columns=_columns(advice.plan),
        draw=lambda: _picture(advice),
        series=curves(advice),
        xlabel="epochs",
        ylabel=error_label(advice),
        notes=_notes(advice),
        code=[f"# In torch:\n{programs['torch']}", f"# In scikit-learn:\n{programs['scikit_learn']}"],
        far=True,
    )


def snippets(advice: Advice) -> dict[str, str]:
    """Programs that train as advised."""
    best = advice.plan.best
    size = None if best.batch_size == advice.plan.run.problem.n else best.batch_size
    numbers = Numbers(size, best.step, best.epochs, best.momentum, best.penalty)
    return {
        "torch": torch_program(advice.data, numbers, advice.test),
        "scikit_learn": scikit_learn_program(advice.data, numbers, advice.test),
    }


def error_label(advice: Advice) -> str:
    """What the sketch and the picture are of."""
    if advice.is_single:
        return f"expected test error (RMSE of {advice.data.targets[0]})"
    return "expected test error (share of the variance)"


def curves(advice: Advice) -> list[Series]:
    """The expected test error along the epochs: as recommended, with other learning rates, with all rows."""
    import numpy as np

    plan = advice.plan
    size, share, _ = places(plan)
    errors = expected_errors(plan)
    rate = number(plan.best.step, 3)
    wanted = {(size, share): f"recommended: batches of {plan.best.batch_size}, learning rate {rate}"}
    for other, word in ((len(plan.shares) - 1, "larger"), (max(share - 3, 0), "smaller")):
        factor = float(plan.shares[other]) / plan.best.share
        times = factor if factor >= 1 else 1 / factor
        wanted.setdefault((size, other), f"learning rate {number(times, 3)} times {word}")
    largest = len(plan.batch_sizes) - 1
    if largest != size:
        best = int(np.argmin(errors[largest].min(axis=-1)))
        wanted[largest, best] = f"{batches(plan, int(plan.batch_sizes[largest]))}, at the best rate"
    roots = np.sqrt if advice.is_single else np.asarray
    return [Series(label, plan.epochs, roots(errors[place])) for place, label in wanted.items()]


def _table(advice: Advice) -> tuple[list[str], list[list[str]]]:
    """Columns that say something: of momentum and weight decay only where there is any."""
    found = choices(advice)
    columns = {
        "choice": [choice.name for choice in found],
        "batch size": [_cell(choice.batch_size) for choice in found],
        "learning rate": [_cell(choice.step) for choice in found],
    }
    for heading, values in (
        ("momentum", [choice.momentum for choice in found]),
        ("weight decay", [choice.penalty for choice in found]),
    ):
        if any(values):
            columns[heading] = [
                _cell(None if one.step is None else value) for one, value in zip(found, values, strict=True)
            ]
    columns["epochs"] = ["" if choice.epochs is None else str(choice.epochs) for choice in found]
    columns["test error"] = [number(choice.test_error, 4) for choice in found]
    if advice.is_single:
        columns["RMSE"] = [number(root(choice.test_error, 0.0)[0], 4) for choice in found]
    base = advice.plan.best.test_error
    columns["against it"] = ["", *(against(choice.test_error, base) for choice in found[1:])]
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def _cell(value: float | None) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else number(value, 3)


def _notes(advice: Advice) -> list[str]:
    best = advice.plan.best
    units = "in units of the target squared" if advice.is_single else "each target in its standard deviations"
    tried = len(advice.plan.batch_sizes) * len(advice.plan.shares)
    spread = f"; of it {number(best.spread, 2)} is what the random order of a single run adds"
    return [
        f"Test error: the mean square expected on new rows, {units}, leaving out each row in turn "
        f"({best.method}){spread if best.spread else ''}.",
        f"Chosen from {tried} pairs of batch size and learning rate, up to {advice.plan.epochs[-1]:g} epochs, "
        "without training; of those within 0.1% of the least test error, the shortest training.",
    ]


def _record(advice: Advice, programs: dict[str, str]) -> dict[str, Any]:
    import numpy as np

    import reshuffle as rs

    plan, best, data = advice.plan, advice.plan.best, advice.data
    slopes, intercept = plan.coefficients
    return {
        "command": "advise",
        "version": rs.__version__,
        "data": {
            "path": data.path,
            "n": len(data.X),
            "p": data.X.shape[1],
            "targets": data.targets,
            "features": data.features,
            "encoded": data.encoded,
            "dropped": data.dropped,
            "constant": data.constant,
        },
        "recommendation": {
            "batch_size": best.batch_size,
            "learning_rate": best.step,
            "epochs": best.epochs,
            "momentum": best.momentum,
            "weight_decay": best.penalty,
            "shuffle": True,
            "drop_last": False,
            "test_error": best.test_error,
            "standard_error": best.standard_error,
            "spread": best.spread,
            "method": best.method,
        },
        "safe_learning_rate": best.step / best.share,
        "units": advice.units,
        "test_error_of_targets": advice.of_targets,
        "choices": [vars(choice) for choice in choices(advice)],
        "least_squares": vars(plan.least_squares),
        "ridge": vars(plan.ridge),
        "coefficients": np.asarray(slopes).reshape(data.X.shape[1], -1) * advice.units,
        "intercept": np.atleast_1d(intercept) * advice.units,
        "test": None if advice.promise is None else {"path": advice.test, **vars(advice.promise)},
        "snippets": programs,
    }


def _columns(plan: "rs.Plan") -> dict[str, Any]:
    """Everything that was looked at."""
    import numpy as np

    shape = plan.mean_squares.shape
    penalty, size, share, epoch = (axis.ravel() for axis in np.indices(shape))
    return {
        "batch_size": plan.batch_sizes[size].astype(np.int64),
        "learning_rate": plan.safe_steps[penalty, size] * plan.shares[share],
        "weight_decay": plan.penalties[penalty],
        "epoch": plan.epochs[epoch].astype(np.int64),
        "mean_square": plan.mean_squares.ravel(),
        "spread": plan.spreads.ravel(),
    }


def _picture(advice: Advice) -> "Picture":
    """The test error along the epochs, and beside it what wrong choices cost."""
    from reshuffle import plotting

    made = plotting.figure(11.0, 4.2)
    left, right = made.subplots(1, 2)
    _along_epochs(advice, left)
    plotting.plan_map(advice.plan, ax=right)
    return made


def _along_epochs(advice: Advice, ax: "Axes") -> None:
    import numpy as np

    from reshuffle import plotting

    label = "RMSE on new rows" if advice.is_single else "test error, share of the variance"
    for colour, one in zip(plotting.COLOURS, curves(advice), strict=False):
        plotting.curve(one.x, one.y, label=one.label, colour=colour, ylabel=label, ax=ax)
    best, promise = advice.plan.best, advice.promise

    def shown(value: float, error: float) -> tuple[float, float]:
        return root(value, error) if advice.is_single else (value, error)

    height, error = shown(best.test_error, best.standard_error)
    ax.errorbar(best.epochs, height, yerr=error, fmt="o", color=plotting.COLOURS[0], capsize=3, zorder=3,
                label=f"promised after {best.epochs} epochs, ± its standard error")  # fmt: skip
    if promise is not None:
        height, error = shown(promise.mean_run, promise.standard_error)
        # A little to the right, beside what was promised.
        ax.errorbar(1.15 * best.epochs, height, yerr=error if np.isfinite(error) else None, fmt="s", color="black",
                    capsize=3, zorder=3, label=f"on {promise.rows} held-out rows")  # fmt: skip
    simple = shown(advice.plan.least_squares.mean_square, 0.0)[0]
    ax.axhline(simple, color="black", linewidth=0.8, linestyle="--", zorder=1, label="least squares")
    ax.set_xscale("log")
    plotting.scale_values(ax)
    ax.legend(frameon=False, fontsize=7)
