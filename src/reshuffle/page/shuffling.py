"""The tab on shuffling: all schemes on one problem, single runs around their mean, and the price of each scheme."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import reshuffle as rs
from reshuffle._arrays import FloatArray
from reshuffle.page.answers import Axis, Chart, ChartSeries, TabAnswer, TabTable
from reshuffle.page.charts import GREW, count, framed, line, number, numbers
from reshuffle.page.tabs import LINES
from reshuffle.simulation import single_run_risks

SCHEMES = {
    "samples reshuffled": "SampleReshuffling",
    "batches reshuffled": "RandomReshuffling",
    "shuffled once": "ShuffleOnce",
    "never shuffled": "Cyclic",
    "batches drawn": "WithReplacement",
    "samples drawn": "SampleWithReplacement",
    "fresh subsets": "SampleSubsets",
}
"""Names for people, and the classes they stand for."""
_FULL = "full batch"
_COLUMNS = {
    "mean": "mean iterate",
    "spread": "spread",
    "total": "one run",
    "price": "price",
    "distance": "limit off by",
    "critical_alpha": "converges up to",
    "mean_square_alpha": "in mean square",
}
"""Columns of the table; the last three where they are known."""
_RUNS, _SHOWN = 100, 30
"""Simulated runs of each scheme, and those that the chart shows."""
_NOISE = (
    "The charts show one draw of the noise: runs differ only by their orders. The numbers average over it."
)
_FAR = 1e6
"""A test error or a distance beyond this diverges: the signal has the size one."""
_ACCURACY = 1e-3
"""Relative, of what is not exact."""
_SMALL, _FEW_BATCHES = 60, 4
"""Rows, columns and batches up to which the thresholds are computed."""


def answer(values: Mapping[str, Any], stage: int, upload: None = None) -> TabAnswer:
    """Return mean, spread and price of each scheme: by simulation at stage 0, then exactly, with thresholds."""
    n, alpha, epochs, batches = (values[name] for name in ("rows", "alpha", "epochs", "batches"))
    problem = rs.gaussian(n, values["columns"], noise=values["noise"], seed=values["seed"])
    size, remarks = -(-n // batches), [_NOISE]
    schemes = {name: getattr(rs, kind)(batch_size=size) for name, kind in SCHEMES.items()}
    every = {_FULL: rs.FullBatch(), **schemes}
    rows: dict[str, dict[str, float]] = {}
    if stage:
        is_small = max(n, values["columns"]) <= _SMALL and batches <= _FEW_BATCHES
        note = f"Thresholds are computed for at most {_SMALL} rows and columns, and {_FEW_BATCHES} batches."
        note *= not is_small
        found = rs.compare_schemes(
            problem, schemes, alpha=alpha, epochs=epochs, rtol=_ACCURACY, thresholds=is_small
        )
        for row in found:
            rows[row.name] = {name: float(np.ravel(one.value)[-1]) for name, one in row.answers.items()}
        reasons = dict.fromkeys(one.reason for row in found for one in row.answers.values() if one.reason)
        remarks += list(reasons)[:3]
    else:
        note = f"A first look: {_RUNS} simulated runs of each way. Exact answers follow."
        settings: dict[str, Any] = {"alpha": alpha, "runs": _RUNS, "fresh_noise": True, "progress": False}
        for name, scheme in every.items():
            drawn = rs.simulate(problem, scheme, epochs=[epochs], **settings)
            assert drawn.risk is not None
            assert drawn.spread is not None
            rows[name] = {"mean": float(drawn.risk.mean[-1]), "spread": float(drawn.spread.mean[-1])}
    for name in rows:
        rows[name]["total"] = rows[name]["mean"] + rows[name]["spread"]
        rows[name] = {key: math.inf if value > _FAR else value for key, value in rows[name].items()}
    when = np.unique(np.linspace(0, epochs, 26).round())
    risks = {
        name: single_run_risks(problem, scheme, alpha=alpha, epochs=when, runs=_RUNS)
        for name, scheme in every.items()
    }
    lines = "\n".join(f'    "{name}": rs.{kind}(batch_size={size}),' for name, kind in SCHEMES.items())
    shown = (_FULL, "samples reshuffled", "never shuffled", "samples drawn")
    return TabAnswer(
        _sentence({name: row["total"] for name, row in rows.items()}),
        f"test error of one run after {count(epochs, 'epoch')}; {n} rows, {values['columns']} columns, "
        f"noise {values['noise']:g}, {batches} batches, alpha = {alpha:g}, seed {values['seed']}",
        note,
        {name.capitalize(): number(rows[name]["total"]) for name in shown},
        remarks,
        _charts(risks, when),
        [_table(rows, epochs)],
        {LINES: _PROGRAM.format(schemes=lines, accuracy=_ACCURACY, **values)},
        is_final=bool(stage),
    )


def _sentence(totals: Mapping[str, float]) -> str:
    """Say which way is best, and what the worst costs."""
    shuffled = {name: total for name, total in totals.items() if name != _FULL and total < GREW}
    if len(shuffled) < 2:
        return "This step diverges, however the rows are shuffled; take a smaller alpha."
    best, *_, worst = sorted(shuffled, key=lambda name: shuffled[name])
    ratio = shuffled[worst] / shuffled[best] if shuffled[best] > 0 else math.inf
    above = f"{number(100 * (ratio - 1), 3)}% more" if ratio < 10 else f"{number(ratio, 3)} times as much"
    diverging = [name for name, total in totals.items() if total >= GREW]
    also = f" It diverges with: {', '.join(diverging)}." if diverging else ""
    return (
        f"Among mini-batches, one run has the least test error with {best}, and {above} with {worst}.{also}"
    )


def _charts(risks: "Mapping[str, FloatArray]", epochs: "FloatArray") -> list[Chart]:
    """Return single runs scattered around their mean, epoch by epoch; and the means along the epochs."""
    names, runs = list(risks), np.array([*risks.values()])
    means = runs.mean(axis=2)
    ends = ", ".join(
        f"{name} {number(value)}" for name, value in zip(names, means[:, -1].tolist(), strict=True)
    )
    # The start is far above the rest, and so is what diverges.
    most = 3 * float(means[0, 0])
    dots = runs[:, :, :_SHOWN].swapaxes(0, 1)
    places = [float(place) for place in range(len(names))]
    frames = [[numbers(one.ravel()), numbers(mean)] for one, mean in zip(dots, means.T, strict=True)]
    repeated = np.repeat(places, _SHOWN).tolist()
    scatter = [
        ChartSeries("run", f"{_SHOWN} single runs", frames[-1][0], repeated, "second", "dots", width=2.6),
        ChartSeries(
            "mean_of_runs", f"mean of {_RUNS} runs", frames[-1][1], places, "first", "dots", width=5.5
        ),
    ]
    colours = ("grey", "first", "second", "third", "fourth", "fifth", "first", "second")
    dashes = ("2 3", "", "", "", "", "", "7 4", "7 4")
    lines = [
        line(name, epochs, mean, colour, dash=dash)
        for name, mean, colour, dash in zip(names, means, colours, dashes, strict=True)
    ]
    single = Chart(
        "runs",
        "Single runs, one draw of the noise",
        f"Test error of {_SHOWN} single runs of each scheme. The mean after {epochs[-1]:g} epochs: {ends}.",
        framed("test error", "risk", dots[1:], 0.05, most),
        Axis("", "scheme", names=names),
        scatter,
        frames=frames,
        moments=[f"epoch {epoch:g}" for epoch in epochs],
    )
    y = framed("mean test error", "risk", means[:, 1:], 0.1, most)
    title, words = f"Mean of {_RUNS} runs, one draw of the noise", f"Mean test error at the end: {ends}."
    return [single, Chart("means", title, words, Axis("epochs", "epoch"), y, lines)]


def _table(rows: Mapping[str, Mapping[str, float]], epochs: int) -> TabTable:
    known = {key for row in rows.values() for key, value in row.items() if not math.isnan(value)} | {"price"}
    columns = [key for key in _COLUMNS if key in known]
    base, made = rows[_FULL]["total"], []
    for name, row in rows.items():
        has_price = name != _FULL and 0 < base < GREW and row["total"] < GREW
        price = f"{100 * (row['total'] / base - 1):+.3g}%" if has_price else ""
        cells = [price if key == "price" else number(row.get(key, math.nan)) for key in columns]
        made.append([name, *cells])
    headings = ["scheme", *(_COLUMNS[key] for key in columns)]
    return TabTable(f"Test error after {epochs} epochs, and what shuffling costs", headings, made)


_PROGRAM = """\
import reshuffle as rs
from reshuffle.simulation import single_run_risks

problem = rs.gaussian({rows}, {columns}, noise={noise:g}, seed={seed})
schemes = {{  # torch's shuffle=True is "samples reshuffled", and shuffle=False "never shuffled"
{schemes}
}}
found = rs.compare_schemes(problem, schemes, alpha={alpha:g}, epochs={epochs}, rtol={accuracy:g}, thresholds=False)
print(found)
one = schemes["samples reshuffled"]
runs = single_run_risks(problem, one, alpha={alpha:g}, epochs=range({epochs} + 1), runs=100)
"""
