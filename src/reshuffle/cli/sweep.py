"""`reshuffle sweep`: metrics of a whole grid of recipes, written to a folder as they are answered."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from reshuffle.cli import console, options, render
from reshuffle.cli.options import ACCURACY, OUTPUT, RECIPE, SCHEMES, WHOLE, also, words
from reshuffle.cli.problem import Posed, pose
from reshuffle.cli.render import Report, cell, number
from reshuffle.cli.sketch import Series
from reshuffle.errors import ArgumentError

if TYPE_CHECKING:
    from distributed import Client
    from matplotlib.axes import Axes
    from xarray import Dataset

CELLS = "cells"
"""The folder in --out that keeps the answers."""
_PATIENCE = 5
"""Seconds in which a scheduler must answer."""
_SWEPT_EPOCHS = 40
"""About how many epochs are answered for."""
_SHOWN_POINTS, _SHOWN_CURVES = 10, 6
_DIVERGED = 1e100
"""Answers beyond this are those of points that diverge."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class GridOptions:
    """The dimensions of the grid: numbers separated by commas.

    :param batches: Numbers of batches; 1,2,4 unless sizes are given.
    :param step: Step of a visit; auto (the default): 16, from 1/100 of the smallest safe step to twice the largest.
    :param alpha: Full-batch steps, instead of --step.
    :param momentum: Heavy-ball momentum, as in torch's SGD.
    :param weight_decay: Factors of an l2 penalty, as in torch's SGD.
    """

    batches: Annotated[str | None, RECIPE, also("-b")] = None
    batch_size: options.BatchSize = None
    drop_last: options.DropLast = False
    step: Annotated[str | None, RECIPE] = None
    alpha: Annotated[str | None, RECIPE, also("-a")] = None
    momentum: Annotated[str, RECIPE] = "0"
    weight_decay: Annotated[str, RECIPE] = "0"


PLAIN_GRID = GridOptions()


def sweep(
    *,
    out: Annotated[str, OUTPUT],
    problem: options.ProblemOptions = options.NO_PROBLEM,
    grid: GridOptions = PLAIN_GRID,
    scheme: options.Schemes = "reshuffling",
    epochs: Annotated[int, RECIPE, WHOLE, also("-e")] = 300,
    metrics: Annotated[str | None, RECIPE, also("-m")] = None,
    jobs: Annotated[int, ACCURACY, WHOLE, also("-j")] = 1,
    scheduler: Annotated[str | None, ACCURACY] = None,
    outputs: options.OutputOptions = options.TERMINAL,
) -> None:
    """A whole grid of recipes: batch sizes, steps, momenta, and the best of them.

    Nothing is trained. Every point is saved in the folder as soon as it is
    answered: interrupted, the same command goes on with the missing ones.
    The folder gets sweep.png, sweep.svg, sweep.csv and sweep.json.

    For example:
      reshuffle sweep --n 200 --p 300 --noise 0.5 --batches 1,2,4 --out grid
      reshuffle sweep --data mine.csv --batch-size 16,64 --step auto --out grid

    :param out: The folder to write to; what is there already is not computed again.
    :param epochs: The longest training: answers are for some 40 epochs up to it.
    :param metrics: Such as risk,stability; the first is ranked. Else the risk, or leave-one-out with --data.
    :param jobs: Processes on this machine; -1 for one per core.
    :param scheduler: The address of a Dask cluster that does the work, such as tcp://host:8786.
    """
    import numpy as np

    import reshuffle as rs
    from reshuffle.grid import sweep as grids
    from reshuffle.grid.metrics import METRICS
    from reshuffle.planning.loo_grid import auto_steps

    render.check(outputs, data=problem.data, covariance=problem.covariance)
    folder = Path(out)
    for path in (folder, folder / CELLS):
        if path.exists() and not path.is_dir():
            raise ArgumentError("out", "be a folder", f"{path} is a file")
    if not out:
        raise ArgumentError("out", "name a folder", "it is empty")
    over, fixed = _dimensions(grid, scheme)
    options.at_least("epochs", epochs, 1, options.MOST_EPOCHS)
    when = np.unique(np.geomspace(1, epochs, _SWEPT_EPOCHS).round())
    known = [name.replace("_", "-") for name in METRICS]
    questions = None
    if metrics is not None:
        questions = [name.replace("-", "_") for name in words("metrics", metrics.replace("_", "-"), known)]
    if jobs < 1 and jobs != -1:
        raise ArgumentError(
            "jobs", "be a whole number of at least 1, or -1 for one per core", f"it is {jobs}"
        )
    if scheduler is not None and jobs != 1:
        raise ArgumentError("at most one of {jobs} and {scheduler}", "be given", "both are")
    render.require_pictures()
    posed = pose(problem)
    if "step" in over and over["step"] is None:
        # A grid for all schemes and batches alike: steps must be, in a table.
        made = grids.dimensions({name: over[name] for name in over if name != "step"} | {"step": [1.0]}, {})
        schemes = {one.scheme for one in grids.grid_points(made, {"scheme": None, **fixed}, [posed.problem])}
        steps = auto_steps(posed.problem, sorted(schemes, key=repr))
        over["step"] = [float(f"{one:.3g}") for one in steps]

    with ExitStack() as stack:
        client = None if scheduler is None else stack.enter_context(_client(scheduler))
        try:
            with console.writing(out):
                found = rs.sweep(
                    posed.problem, over=over, metrics=questions, epochs=when, n_jobs=jobs, client=client,
                    cache=folder / CELLS, **fixed,
                )  # fmt: skip
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; finished points are in {folder / CELLS}, and the same command goes on with the "
                "missing ones."
            ) from None
    answer = _sweep_answer(posed, problem, found)
    for kind, ending in (("csv", "csv"), ("json", "json"), ("plot", "png"), ("plot", "svg")):
        render.write(answer, kind, str(folder / f"sweep.{ending}"))
    render.deliver(answer, outputs)
    if "-" not in (outputs.csv, outputs.json):
        print(f"Written to {folder}: sweep.png, sweep.svg, sweep.csv, sweep.json")


def _dimensions(grid: GridOptions, scheme: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The dimensions of the grid, and settings that are the same everywhere; steps to be chosen are None."""
    options.require_cut(grid.batches, grid.batch_size, grid.drop_last)
    options.one_of(step=grid.step, alpha=grid.alpha)
    if grid.batch_size is not None:
        cut = {"batch_size": options.whole_numbers("batch_size", grid.batch_size)}
    else:
        cut = {"batches": options.whole_numbers("batches", grid.batches or "1,2,4")}
    if grid.alpha is not None:
        steps: dict[str, Any] = {"alpha": options.numbers("alpha", grid.alpha)}
    else:
        steps = {"step": None if grid.step in (None, "auto") else options.numbers("step", str(grid.step))}
    schemes = {"scheme": [SCHEMES[name] for name in words("scheme", scheme, SCHEMES)]}
    extras = {
        "momentum": options.numbers("momentum", grid.momentum, 1.0),
        "penalty": options.numbers("weight_decay", grid.weight_decay),
    }
    over: dict[str, Any] = {}
    fixed: dict[str, Any] = {"drop_last": grid.drop_last}
    for name, values in (schemes | cut | extras | steps).items():
        # Several values of these are a dimension, and one is not.
        if name in schemes | extras and len(values) == 1:
            fixed[name] = values[0]
        else:
            over[name] = values
    return over, fixed


def _client(address: str) -> "Client":
    """A client of the scheduler at an address, if one answers there."""
    import errno
    import logging

    from reshuffle.grid.workers import required

    distributed = required("distributed", "dask")
    # It logs every attempt to connect, at length.
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


def _sweep_answer(posed: Posed, given: options.ProblemOptions, found: "Dataset") -> Report:
    """The best points, every point in a tidy table, and a picture; the first metric is ranked and drawn."""
    import numpy as np

    from reshuffle import plotting
    from reshuffle.grid.metrics import METRICS

    ranked = found[METRICS[str(found["question"].values[0])].quantities[0].name]
    if "output" in ranked.dims:
        ranked = ranked.mean("output", keep_attrs=True)
    points = [str(name) for name in found["reason"].dims if name != "question"]
    name, shown = str(ranked.name), str(ranked.attrs["long_name"])
    has_epochs = "epochs" in ranked.dims
    # The points with the least values, each at its best epoch.
    table = ranked.to_dataframe().reset_index()[[*points, *["epochs"] * has_epochs, name]]
    table = table[np.isfinite(table[name])].sort_values(name, kind="stable").drop_duplicates(points)
    records = table.rename(columns={"epochs": "epoch"}).head(_SHOWN_POINTS).to_dict("records")
    series = []
    for record in records[:_SHOWN_CURVES] if has_epochs else []:
        where = {dim: record[dim] for dim in points}
        label = ", ".join(f"{dim} {cell(value)}" for dim, value in where.items())
        series.append(Series(label, np.asarray(found["epochs"]), np.asarray(ranked.sel(where))))

    notes = ["Best: none; every point diverges or has no answer."]
    if records:
        *best, (_, value) = records[0].items()
        at = ", ".join(f"{dim.replace('_', ' ')} {cell(value)}" for dim, value in best)
        later = " More epochs make it diverge." * bool(series and not series[0].y[-1] < _DIVERGED)
        notes = [f"Best: {at}, with a {shown} of {cell(value)}.{later}"]
    problem = posed.problem
    if posed.standardizer is not None and "leave_one_out" in name and problem.p >= problem.n - 1:
        notes.append(
            "With as many columns as rows, the means of all rows give away the one that is left out: these test "
            "errors do not hold for new rows. reshuffle advise leaves it out of the means, too."
        )
    kept, distrusted = int(found.attrs["from_cache"]), int(found.attrs["distrusted"])
    notes += [f"{kept} answers were there already."] * bool(kept)
    notes += [f"{distrusted} files there were not whole and were computed again."] * bool(distrusted)
    reasons = dict.fromkeys(str(reason) for reason in found["reason"].values.ravel() if reason)
    notes += [f"Of some points: {reason}" for reason in list(reasons)[:3]]
    # The map over steps and batches, and curves at the best step; other dimensions are at their best.
    first = records[0] if records else {dim: found[dim].values[0] for dim in points}
    x, y = points[-1], next(dim for dim in points if dim in ("batches", "batch_size"))
    others = {dim: first[dim] for dim in points if dim not in (x, y)}

    def draw_curves(ax: "Axes") -> None:
        plotting.sweep_curves(ranked, by=y, ax=ax, **{x: first[x]}, **others)
        ax.set_title(f"{x} {number(first[x], 3)}", fontsize=9)

    columns = f"{problem.p} column{'s' * (problem.p > 1)}"
    return Report(
        "sweep",
        f"{found['reason'].isel(question=0).size} points, {problem.n} rows, {columns}: {shown}",
        {
            **(posed.record(given) if posed.data is not None else {}),
            **found.attrs,
            "coordinates": {str(dim): found[dim].values for dim in found.coords},
            "variables": {
                str(one): {"dims": list(found[one].dims), **found[one].attrs, "values": found[one].values}
                for one in found.data_vars
            },
        },
        "best",
        records,
        {dim: dim for dim in (*points, "epoch")} | {shown: name},
        lambda: _sweep_columns(found),
        series,
        ylabel=shown,
        keys=len(points),
        remarks=[*posed.remarks, *posed.lacks],
        notes=notes,
        draw=lambda ax: plotting.heat_map(ranked, x, y, ax=ax, **others),
        draw_beside=draw_curves if has_epochs else None,
    )


def _sweep_columns(found: "Dataset") -> dict[str, Any]:
    """Every point at every epoch as a row, the parameters left out."""
    away = [name for name in ("reason", "error_kind") if name in found]
    away += [str(name) for name in found.data_vars if "parameter" in found[name].dims]
    shown = found.drop_vars(away)
    shown = shown.drop_dims([name for name in ("parameter", "question") if name in shown.dims])
    frame = shown.to_dataframe(dim_order=[str(name) for name in shown.dims]).reset_index()
    return {name: frame[name].to_numpy() for name in frame}
