"""`reshuffle sweep`: metrics of a whole grid of recipes, kept as they are answered."""

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from reshuffle.cli import console, options, render
from reshuffle.cli.console import InputError
from reshuffle.cli.options import (
    ACCURACY,
    NO_PROBLEM,
    OUTPUT,
    RECIPE,
    SCHEMES,
    TERMINAL,
    WHOLE,
    BatchSize,
    DropLast,
    OutputOptions,
    ProblemOptions,
    Schemes,
    at_most_one,
    numbers,
    option,
    words,
)
from reshuffle.cli.problem import Posed, pose
from reshuffle.cli.render import Answer, number
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    from distributed import Client
    from matplotlib.figure import Figure as Picture
    from xarray import DataArray, Dataset

    import reshuffle as rs

CELLS = "cells"
"""The folder in --out that keeps the answers."""
_PATIENCE = 5
"""Seconds in which a scheduler must answer."""
_SWEPT_EPOCHS = 40
"""About how many epochs are answered for."""
_SHOWN_POINTS, _SHOWN_CURVES = 10, 6


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class GridOptions:
    """What the grid runs over: numbers separated by commas."""

    batches: Annotated[
        str | None, option("Numbers of batches; 1,2,4 unless sizes are given.", RECIPE, "-b")
    ] = None
    batch_size: BatchSize = None
    drop_last: DropLast = False
    step: Annotated[
        str | None,
        option(
            "Steps of a visit; auto (the default) takes 16, from a hundredth of the smallest to twice the "
            "largest safe step of these batch sizes: below its safe step single runs converge.",
            RECIPE,
        ),
    ] = None
    alpha: Annotated[str | None, option("Full-batch steps, instead of --step.", RECIPE, "-a")] = None
    momentum: Annotated[str, option("Of the heavy ball, as in torch's SGD.", RECIPE)] = "0"
    weight_decay: Annotated[str, option("Factors of an l2 penalty, as in torch's SGD.", RECIPE)] = "0"


PLAIN_GRID = GridOptions()


def sweep(
    *,
    out: Annotated[
        str, option("The folder to write to; what is there already is not computed again.", OUTPUT)
    ],
    problem: ProblemOptions = NO_PROBLEM,
    grid: GridOptions = PLAIN_GRID,
    scheme: Schemes = "reshuffling",
    epochs: Annotated[
        int, option("The longest training: answers are for some 40 epochs up to it.", RECIPE, "-e", **WHOLE)
    ] = 300,
    metrics: Annotated[
        str | None,
        option(
            "Questions, separated by commas, such as risk,leave-one-out,stability; else the risk, or "
            "leave-one-out with --data. The first is ranked and drawn.",
            RECIPE,
            "-m",
        ),
    ] = None,
    jobs: Annotated[
        int, option("Processes on this machine; -1 for one per core.", ACCURACY, "-j", **WHOLE)
    ] = 1,
    scheduler: Annotated[
        str | None,
        option("The address of a Dask cluster that does the work, such as tcp://host:8786.", ACCURACY),
    ] = None,
    outputs: OutputOptions = TERMINAL,
) -> None:
    """A whole grid of recipes: batch sizes, steps, momenta, and the best of them.

    Nothing is trained. Every point is kept in the folder as soon as it is
    answered: interrupted, the same command goes on with the missing ones.
    The folder gets sweep.png, sweep.svg, sweep.csv and sweep.json.

    For example:
      reshuffle sweep --n 200 --p 300 --noise 0.5 --batches 1,2,4 --out grid
      reshuffle sweep --data mine.csv --batch-size 16,64 --step auto --out grid
    """
    import numpy as np

    render.check(outputs, data=problem.data, covariance=problem.covariance)
    folder = Path(out)
    for path in (folder, folder / CELLS):
        if path.exists() and not path.is_dir():
            raise InputError(f"{{out}} must be a folder, but {path} is a file.")
    if not out:
        raise InputError("{out} must name a folder, but it is empty.")
    over, fixed = _dimensions(grid, scheme)
    options.at_least("epochs", epochs, 1, options.MOST_EPOCHS)
    when = np.unique(np.geomspace(1, epochs, _SWEPT_EPOCHS).round())
    names = None if metrics is None else _metrics(metrics)
    if jobs < 1 and jobs != -1:
        raise InputError(
            f"{{jobs}} must be a whole number of at least 1, or -1 for one per core, but it is {jobs}."
        )
    if scheduler is not None and jobs != 1:
        raise InputError("at most one of {jobs} and {scheduler} may be given, but both are.")
    render.require_pictures()
    posed = pose(problem)
    if "step" in over and over["step"] is None:
        over["step"] = _auto_steps(posed.problem, over, fixed)
    import reshuffle as rs

    with ExitStack() as stack:
        client = None if scheduler is None else stack.enter_context(_client(scheduler))
        try:
            with console.writing(out):
                found = rs.sweep(
                    posed.problem, over=over, metrics=names, epochs=when, n_jobs=jobs, client=client,
                    cache=folder / CELLS, **fixed,
                )  # fmt: skip
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; finished points are kept in {folder / CELLS}, and the same command goes on with the "
                "missing ones."
            ) from None
    answer = _sweep_answer(posed, problem, found)
    for name, text in (("sweep.csv", render.csv_text), ("sweep.json", render.json_text)):
        with console.writing(str(folder / name)):
            (folder / name).write_text(text(answer), encoding="utf-8", newline="")
    for name in ("sweep.png", "sweep.svg"):
        with console.writing(str(folder / name)):
            answer.picture().savefig(folder / name)
    render.deliver(answer, outputs)
    if "-" not in (outputs.csv, outputs.json):
        print(f"Written to {folder}: sweep.png, sweep.svg, sweep.csv, sweep.json")


def _dimensions(grid: GridOptions, scheme: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the grid runs over, and what is the same everywhere; steps that are to be chosen are None."""
    options.require_cut(grid.batches, grid.batch_size, grid.drop_last)
    at_most_one(step=grid.step, alpha=grid.alpha)
    over: dict[str, Any] = {}
    fixed: dict[str, Any] = {"drop_last": grid.drop_last}
    several: dict[str, list[Any]] = {
        "scheme": [SCHEMES[name] for name in words("scheme", scheme, SCHEMES)],
        "momentum": numbers("momentum", grid.momentum, 1.0),
        "penalty": numbers("weight_decay", grid.weight_decay),
    }
    over |= {"scheme": several["scheme"]} if len(several["scheme"]) > 1 else {}
    if grid.batch_size is not None:
        over["batch_size"] = options.whole_numbers("batch_size", grid.batch_size)
    else:
        over["batches"] = options.whole_numbers("batches", grid.batches or "1,2,4")
    for name, values in several.items():
        # Several values are a dimension; one is not.
        (over if len(values) > 1 else fixed)[name] = values if len(values) > 1 else values[0]
    if grid.alpha is not None:
        over["alpha"] = numbers("alpha", grid.alpha)
    else:
        over["step"] = None if grid.step in (None, "auto") else numbers("step", str(grid.step))
    return over, fixed


def _metrics(text: str) -> list[str]:
    from reshuffle.grid.metrics import METRICS

    known = [name.replace("_", "-") for name in METRICS]
    return [name.replace("-", "_") for name in words("metrics", text.replace("_", "-"), known)]


def _auto_steps(problem: "rs.LeastSquares", over: dict[str, Any], fixed: dict[str, Any]) -> list[float]:
    """A grid for all schemes and batches alike: steps must be, in a table."""
    from reshuffle.grid import sweep as grids
    from reshuffle.planning.loo_grid import auto_steps

    made = grids.dimensions(
        {name: values for name, values in over.items() if values is not None} | {"step": [1.0]}, {}
    )
    schemes = {point.scheme for point in grids.grid_points(made, {"scheme": None, **fixed}, [problem])}
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


def _sweep_answer(posed: Posed, asked: ProblemOptions, found: "Dataset") -> Answer:
    """The best points, every point in a tidy table, and a picture; the first metric is ranked and drawn."""
    import numpy as np

    from reshuffle.grid.metrics import METRICS

    metric = METRICS[str(found["question"].values[0])]
    ranked = found[metric.quantities[0].name]
    if "output" in ranked.dims:
        ranked = ranked.mean("output", keep_attrs=True)
    points = [str(name) for name in found["reason"].dims if name != "question"]
    best, has_epochs = _best_points(found, ranked), "epochs" in ranked.dims
    records = [
        {name: _value(found[name].values[place]) for name, place in zip(points, where, strict=True)}
        | ({"epoch": epoch} if has_epochs else {})
        | {str(ranked.name): value}
        for where, epoch, value in best
    ]
    shown, problem = str(ranked.attrs["long_name"]), posed.problem
    rows = [
        {name if name != ranked.name else shown: value for name, value in record.items()}
        for record in records
    ]
    series = []
    for where, *_ in best[:_SHOWN_CURVES] if has_epochs else ():
        values = [_value(found[name].values[place]) for name, place in zip(points, where, strict=True)]
        label = ", ".join(f"{name} {render.cell(value)}" for name, value in zip(points, values, strict=True))
        series.append(Series(label, np.asarray(found["epochs"]), np.asarray(ranked)[where]))
    return Answer(
        "sweep",
        f"{found['reason'].isel(question=0).size} points, {problem.n} rows, {problem.p} columns: {shown}",
        rows or [dict.fromkeys((*points, shown))],
        lambda: {
            **(posed.record(asked) if posed.data is not None else {}),
            **found.attrs,
            "best": records,
            "coordinates": {str(name): found[name].values for name in found.coords},
            "variables": {
                str(name): {"dims": list(found[name].dims), **found[name].attrs, "values": found[name].values}
                for name in found.data_vars
            },
        },
        lambda: _sweep_columns(found),
        series,
        ylabel=shown,
        keys=len(points),
        remarks=posed.remarks,
        notes=_sweep_notes(found, records, shown),
        draw=cache(lambda: _sweep_picture(found, ranked, points)),
    )


def _best_points(found: "Dataset", ranked: "DataArray") -> list[tuple[tuple[int, ...], float | None, float]]:
    """The places with the least value, each at its best epoch."""
    import numpy as np

    values = np.asarray(ranked, dtype=np.float64)
    epochs: Any = None
    if "epochs" in ranked.dims:
        known = np.where(np.isnan(values), np.inf, values)
        epochs = found["epochs"].values[known.argmin(axis=-1)]
        values = known.min(axis=-1)
    order = np.argsort(np.where(np.isfinite(values), values, np.inf), axis=None, kind="stable")
    places = [tuple(int(i) for i in np.unravel_index(place, values.shape)) for place in order[:_SHOWN_POINTS]]
    return [
        (place, None if epochs is None else float(epochs[place]), float(values[place]))
        for place in places
        if np.isfinite(values[place])
    ]


def _sweep_notes(found: "Dataset", records: list[dict[str, Any]], shown: str) -> list[str]:
    notes = []
    if records:
        *where, (_, value) = records[0].items()
        words_ = ", ".join(f"{name.replace('_', ' ')} {render.cell(value)}" for name, value in where)
        notes.append(f"Best: {words_}, with a {shown} of {render.cell(value)}.")
    else:
        notes.append("Best: none; every point diverges or has no answer.")
    kept, distrusted = int(found.attrs["from_cache"]), int(found.attrs["distrusted"])
    if kept:
        notes.append(f"{kept} answers were there already.")
    if distrusted:
        notes.append(f"{distrusted} files there were not whole and were computed again.")
    said = dict.fromkeys(str(reason) for reason in found["reason"].values.ravel() if reason)
    return notes + [f"Of some points: {reason}" for reason in list(said)[:3]]


def _sweep_columns(found: "Dataset") -> dict[str, Any]:
    """Every point at every epoch as a row, the parameters left out."""
    import numpy as np

    shown = found.drop_vars([name for name in found.data_vars if "parameter" in found[name].dims])
    shown = shown.drop_vars([name for name in ("reason", "error_kind") if name in shown])
    shown = shown.drop_dims([name for name in ("parameter", "question") if name in shown.dims])
    dims = [str(name) for name in shown.dims]
    shape = tuple(shown.sizes[name] for name in dims)
    grids = np.meshgrid(*(shown[name].values for name in dims), indexing="ij")
    columns: dict[str, Any] = {name: values.ravel() for name, values in zip(dims, grids, strict=True)}
    for name in shown.data_vars:
        missing = [dim for dim in dims if dim not in shown[name].dims]
        spread = shown[name].expand_dims(missing).transpose(*dims)
        columns[str(name)] = np.broadcast_to(spread.values, shape).ravel()
    return columns


def _sweep_picture(found: "Dataset", ranked: "DataArray", points: list[str]) -> "Picture":
    """The map over steps and batches, and curves at the best step; other dimensions are at their best."""
    from reshuffle import plotting

    x, y = points[-1], next(name for name in points if name in ("batches", "batch_size"))
    (where, *_), *_ = [*_best_points(found, ranked), ((0,) * len(points), None, 0.0)]
    others = {
        name: found[name].values[place]
        for name, place in zip(points, where, strict=True)
        if name not in (x, y)
    }
    has_curves = "epochs" in ranked.dims
    made = plotting.figure(11.0 if has_curves else 6.0, 4.4)
    axes = made.subplots(1, 2 if has_curves else 1, squeeze=False)[0]
    plotting.heat_map(ranked, x, y, ax=axes[0], **others)
    if has_curves:
        step = found[x].values[where[-1]]
        plotting.sweep_curves(ranked, by=y, ax=axes[1], **{x: step}, **others)
        axes[1].set_title(f"{x} {number(step, 3)}", fontsize=9)
    return made


def _value(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
