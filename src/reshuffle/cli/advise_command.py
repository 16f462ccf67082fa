"""`reshuffle advise`: how to train on one's own data."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from reshuffle.cli import advice_data, options, output
from reshuffle.cli.advice_data import AdviceData
from reshuffle.cli.advice_words import Advice
from reshuffle.cli.complaints import InputError
from reshuffle.cli.options import TERMINAL, OutputOptions, numbers


def advise(
    *,
    data: Annotated[str, Parameter(help="Your table: FILE.csv with a header, or FILE.parquet.")],
    target: Annotated[
        tuple[str, ...], Parameter(help="The column to be predicted; once for each of several.", negative="")
    ] = (),
    drop: Annotated[
        tuple[str, ...], Parameter(help="A column to leave out; once for each.", negative="")
    ] = (),
    one_hot: Annotated[
        tuple[str, ...],
        Parameter(help="A column of categories: a feature of 0 and 1 for each of them.", negative=""),
    ] = (),
    test: Annotated[
        str | None, Parameter(help="Held-out rows with the same columns: what is promised is tried on them.")
    ] = None,
    batch_size: Annotated[
        str | None,
        Parameter(help="Batch sizes to choose from, separated by commas; else 16 to 256, and all rows."),
    ] = None,
    momentum: Annotated[str, Parameter(help="Momenta to choose from, separated by commas.")] = "0",
    penalty: Annotated[
        str, Parameter(help="Weight decays to choose from, separated by commas: torch's weight_decay.")
    ] = "0",
    epochs: Annotated[
        int, Parameter(help="The longest training that is thought of.", converter=options.whole_number)
    ] = 1000,
    seed: Annotated[
        int, Parameter(help="Of the run that is trained for --test.", converter=options.whole_number)
    ] = 0,
    outputs: OutputOptions = TERMINAL,
) -> None:
    """How to train a linear model on your data: batch size, learning rate, epochs.

    Features are standardised and the target is centred. Every choice is
    compared by the error it would have on rows it has not seen (each row is
    left out in turn), without training. Ends with a program in torch and one
    in scikit-learn, the numbers filled in.

    For example:
      reshuffle advise --data mine.csv --target price --test other.csv
    """
    output.check(outputs, data=data, test=test)
    if seed < 0:
        raise InputError(f"--seed must be a whole number of at least 0, but it is {seed}.")
    if epochs < 1:
        raise InputError(f"--epochs must be a whole number of at least 1, but it is {epochs}.")
    sizes = None if batch_size is None else options.whole_numbers("--batch-size", batch_size)
    asked: dict[str, Any] = {
        "batch_sizes": sizes,
        "epochs": epochs,
        "momenta": numbers("--momentum", momentum, 1.0),
        "penalties": numbers("--penalty", penalty, float("inf")),
    }
    if test is not None and Path(test).exists() and Path(data).exists() and Path(test).samefile(data):
        raise InputError(f"--test must hold other rows than --data, but both are the file {test!r}.")
    read = advice_data.read(data, target, drop, one_hot)
    held_out = None if test is None else read.held_out(test)
    if sizes is not None and max(sizes) > len(read.X):
        raise InputError(
            f"--batch-size must be at most {len(read.X)}, the rows of {data}, but it is {max(sizes)}."
        )
    from reshuffle.cli.advice_answer import answer

    found = _advice(read, asked)
    if held_out is not None and test is not None:
        found = _tried(found, held_out, test, seed)
    output.deliver(answer(found), outputs)


def _advice(data: AdviceData, asked: dict[str, Any]) -> Advice:
    """The plan for the data, and what is expected for each target."""
    import numpy as np

    import reshuffle as rs

    deviations = data.y.std(axis=0)
    is_single = len(data.targets) == 1
    # Descent is linear in the targets: other units change none of its choices but how much each target counts.
    units = np.ones(1) if is_single else deviations
    plan = rs.plan(data.X, data.y[:, 0] if is_single else data.y / units, **asked)
    of_targets = errors = None
    if not is_single and plan.best.is_verified:
        left_out = plan.run.leave_one_out(plan.best.epochs)
        of_targets = left_out.mean_square * np.square(units)
        errors = left_out.standard_error * np.square(units)
    return Advice(data, plan, units, deviations, of_targets, errors)


def _tried(advice: Advice, held_out: tuple[Any, Any], test: str, seed: int) -> Advice:
    """The same with what it does on held-out rows."""
    from reshuffle.planning.kept_promise import held_to

    X, y = held_out
    promise = held_to(advice.plan, X, y[:, 0] if advice.is_single else y / advice.units, seed=seed)
    return replace(advice, promise=promise, test=test, seed=seed)
