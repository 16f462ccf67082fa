"""What `reshuffle sweep` tells: the best points, every point in a table, and a picture."""

from functools import cache
from typing import TYPE_CHECKING, Any

from reshuffle.cli.complaints import writing
from reshuffle.cli.data import Posed
from reshuffle.cli.output import Answer, number
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture
    from xarray import DataArray, Dataset

_BEST = 10
_LINES = 6


def answer(posed: Posed, found: "Dataset") -> Answer:
    """Everything in every form; the first question is ranked and drawn."""
    import reshuffle as rs
    from reshuffle.grid.metrics import METRICS

    question = METRICS[str(found["question"].values[0])]
    ranked = found[question.quantities[0].name]
    if "output" in ranked.dims:
        ranked = ranked.mean("output", keep_attrs=True)
    best = _best(found, ranked)
    shown = ranked.attrs["long_name"]
    points = [str(name) for name in found["reason"].dims if name != "question"]
    records = [
        {name: _value(found[name].values[place]) for name, place in zip(points, where, strict=True)}
        | ({"epoch": epoch} if epoch is not None else {})
        | {ranked.name: value}
        for where, epoch, value in best
    ]
    headings = [*points, *(["epoch"] if "epochs" in ranked.dims else []), str(shown)]
    problem = posed.problem
    return Answer(
        title=f"{found['reason'].isel(question=0).size} points, {problem.n} rows, {problem.p} columns: {shown}",
        headings=headings,
        rows=[[_text(entry) for entry in record.values()] for record in records],
        data={
            "command": "sweep", "version": rs.__version__, **posed.record(), **found.attrs, "best": records,
            "coordinates": {str(name): found[name].values for name in found.coords},
            "variables": {
                str(name): {"dims": list(found[name].dims), **found[name].attrs, "values": found[name].values}
                for name in found.data_vars
            },
        },
        columns=_columns(found),
        draw=cache(lambda: _picture(found, ranked, points)),
        series=_series(found, ranked, best),
        xlabel="epochs",
        ylabel=str(shown),
        keys=len(points),
        remarks=posed.remarks,
        notes=_notes(found),
    )  # fmt: skip


def svg(told: Answer, path: str) -> None:
    """Write the picture once more, for those who enlarge it."""
    with writing(path):
        told.draw().savefig(path)


def _best(found: "Dataset", ranked: "DataArray") -> list[tuple[tuple[int, ...], float | None, float]]:
    """The places with the least value, each at its best epoch."""
    import numpy as np

    values = np.asarray(ranked, dtype=np.float64)
    epochs: Any = None
    if "epochs" in ranked.dims:
        known = np.where(np.isnan(values), np.inf, values)
        epochs = found["epochs"].values[known.argmin(axis=-1)]
        values = known.min(axis=-1)
    order = np.argsort(np.where(np.isfinite(values), values, np.inf), axis=None, kind="stable")[:_BEST]
    places = [tuple(int(i) for i in np.unravel_index(place, values.shape)) for place in order]
    return [
        (place, None if epochs is None else float(epochs[place]), float(values[place]))
        for place in places
        if np.isfinite(values[place])
    ]


def _columns(found: "Dataset") -> dict[str, Any]:
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


def _series(found: "Dataset", ranked: "DataArray", best: list[Any]) -> list[Series]:
    """The curves of the best points."""
    import numpy as np

    if "epochs" not in ranked.dims:
        return []
    points = [str(name) for name in found["reason"].dims if name != "question"]
    lines = []
    for where, *_ in best[:_LINES]:
        values = [_text(_value(found[name].values[place])) for name, place in zip(points, where, strict=True)]
        label = ", ".join(f"{name} {value}" for name, value in zip(points, values, strict=True))
        lines.append(Series(label, np.asarray(found["epochs"]), np.asarray(ranked)[where]))
    return lines


def _picture(found: "Dataset", ranked: "DataArray", points: list[str]) -> "Picture":
    """The map over steps and batches, and curves at the best step; other dimensions are at their best."""
    from reshuffle import plotting

    x, y = points[-1], next(name for name in points if name in ("batches", "batch_size"))
    (where, *_), *_ = [*_best(found, ranked), ((0,) * len(points), None, 0.0)]
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


def _notes(found: "Dataset") -> list[str]:
    notes = []
    kept, distrusted = int(found.attrs["from_cache"]), int(found.attrs["distrusted"])
    if kept:
        notes.append(f"{kept} answers were there already.")
    if distrusted:
        notes.append(f"{distrusted} files there were not whole and were computed again.")
    said = dict.fromkeys(str(reason) for reason in found["reason"].values.ravel() if reason)
    notes += [f"Of some points: {reason}" for reason in list(said)[:3]]
    return notes


def _value(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)
