"""`reshuffle sweep`: the same questions for a whole grid of recipes, kept as they are answered."""

import math
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from reshuffle.cli import data, options, output
from reshuffle.cli.complaints import InputError, writing
from reshuffle.cli.options import NO_PROBLEM, SCHEMES, OutputOptions, ProblemOptions, Schemes, numbers

if TYPE_CHECKING:
    from distributed import Client

    import reshuffle as rs

CELLS = "cells"
"""The folder in --out that keeps the answers."""
_PATIENCE = 5
"""Seconds in which a scheduler must answer."""
_EPOCHS = 40
"""About how many epochs are looked at."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class GridOptions:
    """What the grid runs over: numbers separated by commas."""

    batches: Annotated[str | None, Parameter(help="Numbers of batches; 1,2,4 unless sizes are given.")] = None
    batch_size: Annotated[str | None, Parameter(help="Rows of a batch, instead of --batches.")] = None
    drop_last: Annotated[
        bool, Parameter(help="Leave out the last batch if it is shorter (with --batch-size).", negative="")
    ] = False
    step: Annotated[
        str | None,
        Parameter(
            help="Steps of a visit; auto (the default) takes 16, from a hundredth of the smallest to twice the "
            "largest safe step of these batch sizes: below its safe step single runs converge."
        ),
    ] = None
    alpha: Annotated[str | None, Parameter(help="Full-batch steps, instead of --step.")] = None
    momentum: Annotated[str, Parameter(help="Of the heavy ball, as in torch's SGD.")] = "0"
    penalty: Annotated[str, Parameter(help="Factors of an l2 penalty, torch's weight_decay.")] = "0"


PLAIN_GRID = GridOptions()


def sweep(
    *,
    out: Annotated[
        str, Parameter(help="The folder to write to; what is there already is not computed again.")
    ],
    problem: ProblemOptions = NO_PROBLEM,
    grid: GridOptions = PLAIN_GRID,
    scheme: Schemes = "reshuffling",
    epochs: Annotated[
        int,
        Parameter(
            help="The longest training: some 40 epochs up to it are looked at.",
            converter=options.whole_number,
        ),
    ] = 300,
    ask: Annotated[
        str | None,
        Parameter(
            help="Questions, separated by commas, such as risk,leave-one-out,stability; else the risk, or "
            "leave-one-out with --data. The first is ranked and drawn."
        ),
    ] = None,
    jobs: Annotated[
        int, Parameter(help="Processes on this machine; -1 for one per core.", converter=options.whole_number)
    ] = 1,
    scheduler: Annotated[
        str | None,
        Parameter(help="The address of a Dask cluster that does the work, such as tcp://host:8786."),
    ] = None,
) -> None:
    """A whole grid of recipes: batch sizes, steps, momenta, and the best of them.

    Nothing is trained. Every point is kept in the folder as soon as it is
    answered: interrupted, the same command goes on with the missing ones.
    The folder gets sweep.png, sweep.svg, sweep.csv and sweep.json.

    For example:
      reshuffle sweep --n 200 --p 300 --noise 0.5 --batches 1,2,4 --out grid
      reshuffle sweep --data mine.csv --batch-size 16,64 --step auto --out grid
    """
    folder = _folder(out)
    over, fixed = _dimensions(grid, scheme)
    when = _epochs(epochs)
    names = None if ask is None else _questions(ask)
    if jobs < 1 and jobs != -1:
        raise InputError(
            f"--jobs must be a whole number of at least 1, or -1 for one per core, but it is {jobs}."
        )
    if scheduler is not None and jobs != 1:
        raise InputError("at most one of --jobs and --scheduler may be given, but both are.")
    output.require_pictures()
    posed = data.problem(problem)
    if "step" in over and over["step"] is None:
        over["step"] = _auto_steps(posed.problem, over, fixed)
    import reshuffle as rs
    from reshuffle.cli.sweep_answer import answer, svg

    with ExitStack() as stack:
        client = None if scheduler is None else stack.enter_context(_client(scheduler))
        try:
            with writing(out):
                found = rs.sweep(
                    posed.problem, over=over, metrics=names, epochs=when, n_jobs=jobs, client=client,
                    cache=folder / CELLS, **fixed,
                )  # fmt: skip
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; finished points are kept in {folder / CELLS}, and the same command goes on with the "
                "missing ones."
            ) from None
    told = answer(posed, found)
    files = OutputOptions(
        **{name: str(folder / f"sweep.{name}") for name in ("csv", "json")}, plot=str(folder / "sweep.png")
    )
    output.deliver(told, files)
    svg(told, str(folder / "sweep.svg"))


def _folder(out: str) -> Path:
    folder = Path(out)
    for path in (folder, folder / CELLS):
        if path.exists() and not path.is_dir():
            raise InputError(f"--out must be a folder, but {path} is a file.")
    if not out:
        raise InputError("--out must name a folder, but it is empty.")
    return folder


def _dimensions(grid: GridOptions, scheme: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the grid runs over, and what is the same everywhere; steps that are to be chosen are None."""
    if grid.batches is not None and grid.batch_size is not None:
        raise InputError("exactly one of --batches and --batch-size may be given, but both are.")
    if grid.step is not None and grid.alpha is not None:
        raise InputError("exactly one of --step and --alpha may be given, but both are.")
    if grid.drop_last and grid.batch_size is None:
        raise InputError("--drop-last needs --batch-size: a given number of batches has no shorter last one.")
    over: dict[str, Any] = {}
    fixed: dict[str, Any] = {"drop_last": grid.drop_last}
    schemes = [SCHEMES[name] for name in options.scheme_names(scheme)]
    _place("scheme", schemes, over, fixed)
    if grid.batch_size is not None:
        over["batch_size"] = options.whole_numbers("--batch-size", grid.batch_size)
    else:
        over["batches"] = options.whole_numbers("--batches", grid.batches or "1,2,4")
    _place("momentum", numbers("--momentum", grid.momentum, 1.0), over, fixed)
    _place("penalty", numbers("--penalty", grid.penalty, math.inf), over, fixed)
    if grid.alpha is not None:
        over["alpha"] = numbers("--alpha", grid.alpha, math.inf)
    else:
        over["step"] = None if grid.step in (None, "auto") else numbers("--step", str(grid.step), math.inf)
    return over, fixed


def _place(name: str, values: list[Any], over: dict[str, Any], fixed: dict[str, Any]) -> None:
    """Several values are a dimension; one is not."""
    if len(values) > 1:
        over[name] = values
    else:
        fixed[name] = values[0]


def _questions(text: str) -> list[str]:
    from reshuffle.grid.metrics import METRICS

    names = [name.strip().replace("-", "_") for name in text.split(",")]
    for name in names:
        if name not in METRICS:
            known = ", ".join(known.replace("_", "-") for known in METRICS)
            raise InputError(f"--ask must be among {known}, but it is {name.replace('_', '-')!r}.")
    return list(dict.fromkeys(names))


def _epochs(last: int) -> list[float]:
    import numpy as np

    if not 1 <= last <= options.MOST_EPOCHS:
        raise InputError(f"--epochs must be a whole number between 1 and 2^53, but it is {last}.")
    return [float(epoch) for epoch in np.unique(np.geomspace(1, last, _EPOCHS).round())]


def _auto_steps(problem: "rs.LeastSquares", over: dict[str, Any], fixed: dict[str, Any]) -> list[float]:
    """A grid for all schemes and batches alike: steps must be, in a table."""
    from reshuffle.grid.sweep import dimensions, grid_points
    from reshuffle.planning.mean_steps_left_out import auto_steps

    made = dimensions(
        {name: values for name, values in over.items() if values is not None} | {"step": [1.0]}, {}
    )
    schemes = {point.scheme for point in grid_points(made, {"scheme": None, **fixed}, [problem])}
    return [float(f"{step:.3g}") for step in auto_steps(problem, sorted(schemes, key=repr))]


def _client(address: str) -> "Client":
    """A client of the scheduler at an address, if one answers there."""
    import errno
    import logging

    from reshuffle.grid.workers import required

    distributed = required("distributed", "dask")
    # It tells of every attempt to connect, at length.
    for name in ("distributed", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        # A client with an address that is none would wait for it at its end.
        distributed.comm.get_address_host_port(address)
        client: Client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ConnectionError(
            errno.ECONNREFUSED,
            f"no Dask scheduler answers there within {_PATIENCE} seconds ({reason.rstrip('.')}); start one with "
            "`dask scheduler` and `dask worker`, or leave out --scheduler",
            address,
        ) from None
    return client
