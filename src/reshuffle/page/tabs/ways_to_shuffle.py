"""The tab on shuffling: all schemes on one problem, single runs around their mean, and the price of each."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reshuffle.cli import render
from reshuffle.page.fields import Slider, Whole
from reshuffle.page.tab import Shown, Stage, Tab, Table
from reshuffle.page.tabs.scheme_pictures import price_picture, runs_picture

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle._arrays import FloatArray

TAB = Tab(
    name="shuffle",
    title="How do I shuffle?",
    question="Does it matter how I shuffle?",
    lead="Seven ways to visit the rows, on one problem and with the same step. The mean over all orders is exact; "
    "a single run has the spread of its own order on top, and that is the price of not taking all rows at once.",
    module="ways_to_shuffle",
    fields=(
        Whole("rows", "Rows, n", 12, 120, 60),
        Whole("columns", "Columns, p", 2, 120, 20),
        Slider("noise", "Noise", 0.0, 2.0, 0.05, 1.0),
        Whole("batches", "Batches, B", 2, 6, 4, "As many steps per epoch."),
        Slider("alpha", "Step, alpha", 0.05, 4.0, 0.05, 0.5, "Per epoch; each of B visits takes alpha / B."),
        Whole("epochs", "Epochs", 1, 100, 20),
        Whole("seed", "Seed of the problem", 0, 9999, 0, is_typed=True),
    ),
    stages=(Stage("quick", True), Stage("thorough", False)),
    advice="take fewer rows, columns or batches",
)
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
_RUNS = 100
_FEW = 6
"""Single runs that are drawn."""


def quick(values: Mapping[str, Any], upload: None = None) -> Shown:
    """The same from a hundred simulated runs of each scheme."""
    import reshuffle as rs

    problem, schemes = _problem(values)
    epochs = _epochs(values)
    rows = {}
    for name, scheme in {"full batch": rs.FullBatch(), **schemes}.items():
        found = rs.simulate(
            problem,
            scheme,
            alpha=values["alpha"],
            epochs=epochs[-1:],
            runs=_RUNS,
            fresh_noise=True,
            progress=False,
        )
        assert found.risk is not None
        assert found.spread is not None
        rows[name] = {"mean": float(found.risk.mean[-1]), "spread": float(found.spread.mean[-1])}
    return _shown(
        values,
        problem,
        schemes,
        rows,
        {},
        f"A first look: {_RUNS} simulated runs of each way. Exact answers follow.",
    )


def thorough(values: Mapping[str, Any], upload: None = None) -> Shown:
    """The exact mean, spread and thresholds of each scheme."""
    import numpy as np

    import reshuffle as rs

    problem, schemes = _problem(values)
    found = rs.compare_schemes(
        problem,
        schemes,
        alpha=values["alpha"],
        epochs=values["epochs"],
        rtol=_ACCURACY,
        thresholds=_is_small(values),
    )
    rows = {
        row.name: {name: float(np.ravel(answer.value)[-1]) for name, answer in row.answers.items()}
        for row in found
    }
    reasons = [answer.reason for row in found for answer in row.answers.values() if answer.reason]
    note = (
        ""
        if _is_small(values)
        else "Thresholds are looked for with at most 60 rows and columns, and 4 batches."
    )
    return _shown(values, problem, schemes, rows, {"reasons": list(dict.fromkeys(reasons))[:3]}, note)


_ACCURACY = 1e-3
"""Relative, of what is not exact."""


def _is_small(values: Mapping[str, Any]) -> bool:
    return bool(max(values["rows"], values["columns"]) <= 60 and values["batches"] <= 4)


def _problem(values: Mapping[str, Any]) -> "tuple[rs.LeastSquares, dict[str, rs.Scheme]]":
    import reshuffle as rs

    problem = rs.gaussian(values["rows"], values["columns"], noise=values["noise"], seed=values["seed"])
    size = -(-values["rows"] // values["batches"])
    return problem, {name: getattr(rs, kind)(batch_size=size) for name, kind in SCHEMES.items()}


def _epochs(values: Mapping[str, Any]) -> "FloatArray":
    import numpy as np

    return np.unique(np.linspace(0, values["epochs"], 26).round())


def _shown(
    values: Mapping[str, Any],
    problem: "rs.LeastSquares",
    schemes: "dict[str, rs.Scheme]",
    rows: Mapping[str, Mapping[str, float]],
    told: Mapping[str, list[str]],
    note: str,
) -> Shown:
    totals = {name: row["mean"] + row["spread"] for name, row in rows.items()}
    return Shown(
        sentence=_sentence(totals),
        setting=_setting(values),
        remarks=told.get("reasons", []),
        facts={
            "Full batch": _number(totals["full batch"]),
            "Samples reshuffled": _number(totals["samples reshuffled"]),
            "Never shuffled": _number(totals["never shuffled"]),
            "Samples drawn": _number(totals["samples drawn"]),
        },
        pictures=[
            runs_picture(problem, schemes, values["alpha"], _epochs(values), runs=_RUNS, drawn=_FEW),
            price_picture(rows, values["epochs"]),
        ],
        tables=[_table(values, rows, totals)],
        python=_LINES.format(size=-(-values["rows"] // values["batches"]), accuracy=_ACCURACY, **values),
        note=note,
    )


def _number(value: float) -> str:
    """Four digits, or words.

    >>> _number(0.51234), _number(math.inf), _number(math.nan)
    ('0.5123', 'diverges', 'not known')
    """
    if math.isnan(value):
        return "not known"
    return render.number(value, 4) if value < 1e100 else "diverges"


def _setting(values: Mapping[str, Any]) -> str:
    return (
        f"test error of one run after {values['epochs']} epoch{'s' * (values['epochs'] != 1)}; "
        f"{values['rows']} rows, {values['columns']} columns, noise {values['noise']:g}, "
        f"{values['batches']} batches, alpha = {values['alpha']:g}, seed {values['seed']}"
    )


def _sentence(totals: Mapping[str, float]) -> str:
    """Which way is best, and what the others cost."""
    shuffled = {name: total for name, total in totals.items() if name != "full batch" and total < 1e100}
    if len(shuffled) < 2:
        return "With this step, these ways of shuffling diverge; take a smaller alpha."
    best, *_, worst = sorted(shuffled, key=lambda name: shuffled[name])
    base = shuffled[best]
    ratio = shuffled[worst] / base if base > 0 else math.inf
    above = (
        f"{render.number(100 * (ratio - 1), 3)}% more"
        if ratio < 10
        else f"{render.number(ratio, 3)} times as much"
    )
    diverging = [name for name, total in totals.items() if total >= 1e100]
    also = f" It diverges with: {', '.join(diverging)}." if diverging else ""
    return f"One run has the least test error with {best}, and {above} with {worst}.{also}"


def _table(
    values: Mapping[str, Any], rows: Mapping[str, Mapping[str, float]], totals: Mapping[str, float]
) -> Table:
    columns = {
        "mean": "mean iterate", "spread": "spread", "total": "one run", "price": "price",
        "distance": "limit off by", "critical_alpha": "converges up to", "mean_square_alpha": "in mean square",
    }  # fmt: skip
    always = ("mean", "spread", "total", "price")
    known = {key for row in rows.values() for key, value in row.items() if not math.isnan(value)}
    asked = [key for key in columns if key in known or key in always]
    base = totals["full batch"]
    made = []
    for name, row in rows.items():
        total = totals[name]
        is_told = name != "full batch" and 0 < base < 1e100 and total < 1e100
        cells = {key: _number(row.get(key, math.nan)) for key in asked}
        cells |= {"total": _number(total), "price": f"{100 * (total / base - 1):+.3g}%" if is_told else ""}
        made.append([name, *cells.values()])
    headings = ["scheme", *(columns[key] for key in asked)]
    return Table(f"Test error after {values['epochs']} epochs, and what shuffling costs", headings, made)


_LINES = """\
import reshuffle as rs
from reshuffle.simulation import single_run_risks

problem = rs.gaussian({rows}, {columns}, noise={noise:g}, seed={seed})
schemes = {{
    "samples reshuffled": rs.SampleReshuffling(batch_size={size}),     # torch's shuffle=True
    "batches reshuffled": rs.RandomReshuffling(batch_size={size}),
    "shuffled once": rs.ShuffleOnce(batch_size={size}),
    "never shuffled": rs.Cyclic(batch_size={size}),                    # torch's shuffle=False
    "batches drawn": rs.WithReplacement(batch_size={size}),
    "samples drawn": rs.SampleWithReplacement(batch_size={size}),
    "fresh subsets": rs.SampleSubsets(batch_size={size}),
}}
found = rs.compare_schemes(problem, schemes, alpha={alpha:g}, epochs={epochs}, rtol={accuracy:g}, thresholds=False)
print(found)
one = schemes["samples reshuffled"]
runs = single_run_risks(problem, one, alpha={alpha:g}, epochs=range({epochs} + 1), runs=100)
"""
