"""`reshuffle influence`: how a prediction changes when each training row is deleted, along the epochs."""

from typing import Annotated, Any

from reshuffle.cli import options, render
from reshuffle.cli.options import DATA, RECIPE, WHOLE, also
from reshuffle.cli.problem import pose
from reshuffle.cli.render import Report, number
from reshuffle.cli.sketch import Series
from reshuffle.errors import ArgumentError

_EPOCHS = 40
"""About how many epochs are answered for."""
_SHOWN_ROWS, _SHOWN_CURVES = 10, 5


def influence(
    *,
    row: Annotated[int, DATA, WHOLE, also("-r")],
    problem: options.ProblemOptions = options.NO_PROBLEM,
    test: Annotated[str | None, DATA] = None,
    alpha: options.Alpha = None,
    step: Annotated[float | None, RECIPE] = None,
    batches: Annotated[str | None, RECIPE, also("-b")] = None,
    scheme: options.Schemes = "reshuffling",
    recipe: options.RecipeOptions = options.PLAIN,
    epochs: options.Epochs = 300,
    outputs: options.OutputOptions = options.TERMINAL,
) -> None:
    """Training rows that move a prediction most: its change without each of them.

    Nothing is trained again: the run without a row follows from the run
    itself, at every epoch. Predictions are those of the mean over all orders.
    Rows are counted from 1, the first one below the header.

    For example:
      reshuffle influence --data mine.csv --standardize --step 0.02 --batch-size 64 --row 17
      reshuffle influence --data mine.csv --step 0.02 --test other.csv --row 1

    :param row: The number of the row that is predicted, of --data, or of --test if that is given.
    :param test: Other rows, with the columns of --data in any order.
    :param step: The step of each visit, instead of --alpha.
    :param batches: The number of batches B; else one, all rows at once.
    """
    import numpy as np

    import reshuffle as rs
    from reshuffle.grid import metrics

    render.check(outputs, data=problem.data, test=test, covariance=problem.covariance)
    options.one_of(needed=True, alpha=alpha, step=step)
    options.at_least("epochs", epochs, 1, options.MOST_EPOCHS)
    posed = pose(problem)
    made, asked = posed.problem, posed.problem if test is None else posed.held_out(test)
    options.at_least("row", row, 1, asked.n)
    visitings = options.visitings(scheme, batches, "1", recipe, made.n)
    if len(visitings) > 1:
        given = f"there are {len(visitings)}"
        raise ArgumentError("scheme", "be one, with one number or size of batches, at a time", given)
    when = np.unique(np.geomspace(1, epochs, _EPOCHS).round())
    settings: dict[str, Any] = {"alpha": alpha, "seed": problem.seed, "momentum": recipe.momentum}
    run = rs.descend(made, visitings[0].scheme, step, penalty=recipe.weight_decay, **settings)
    new = asked.X[row - 1 : row]
    found, predicted = run.influence(new, when), run.predict(new, when)[:, 0]
    changes, errors = found.values[:, :, 0], np.broadcast_to(found.error, when.shape)
    order = np.argsort(-np.abs(changes[-1]), kind="stable")
    records: list[dict[str, Any]] = [
        {"row": int(place) + 1, "y": float(made.y[place]), "change": changes[:, place], "error": errors}
        for place in order[:_SHOWN_ROWS]
    ]
    middle = int(np.argmin(np.abs(np.log(when / np.sqrt(when[-1])))))
    source = problem.data or f"{made.n} drawn rows"
    said = (
        f"Predicted after {when[-1]:g} epochs is {number(float(predicted[-1]))}; y is {asked.y[row - 1]:g}."
    )
    (stability,) = metrics.evaluate([run], ["stability"])
    if not stability["converges"].value:
        said = "This step diverges; reshuffle stability prints the largest step that converges."
    answer = Report(
        "influence",
        f"Row {row} of {test or source}: change of its prediction when a row of {source} is deleted",
        {
            "problem": posed.record(problem),
            "scheme": visitings[0].name,
            "batches": visitings[0].batches,
            "learning_rate": np.asarray(run.step),
            "momentum": recipe.momentum,
            "weight_decay": recipe.weight_decay,
            "row": row,
            "y": asked.y[row - 1],
            "epochs": when,
            "predicted": predicted,
            "changes": changes,
            "error": errors,
            "method": found.method,
        },
        "rows",
        records,
        {"row": "row", "its y": "y"}
        | {
            f"after {when[k]:g}": f"change.{k} ± error.{k}" for k in dict.fromkeys((0, middle, len(when) - 1))
        },
        lambda: {
            "row": np.tile(np.arange(1, made.n + 1), len(when)),
            "epoch": np.repeat(when, made.n),
            "change": changes.ravel(),
            "error": np.repeat(errors, made.n),
        },
        [Series(f"without row {one['row']}", when, one["change"]) for one in records[:_SHOWN_CURVES]],
        ylabel="change of the prediction",
        remarks=[*posed.remarks, said],
        notes=[
            f"The {len(records)} rows of {made.n} whose deletion changes it most after {when[-1]:g} epochs."
        ],
    )
    render.deliver(answer, outputs)
