"""The tab on shuffling: all schemes on one problem, single runs around their mean, and the price of each scheme."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reshuffle.page.answers import GREW, Answer, Axis, Chart, Series, Tab, Table, number, numbers
from reshuffle.page.inputs import Number

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle._arrays import FloatArray

TAB = Tab(
    name="shuffle",
    title="How do I shuffle?",
    question="Does it matter how I shuffle?",
    lead="Seven ways to visit the rows, on one problem and with the same step. The mean over all orders is exact; "
    "a single run has the spread of its own order on top, and that is the price of not taking all rows at once.",
    module="shuffling",
    inputs=(
        Number("rows", "Rows, n", 60, 12, 120),
        Number("columns", "Columns, p", 20, 2, 120),
        Number("noise", "Noise", 1.0, 0.0, 2.0, 0.05),
        Number("batches", "Batches, B", 4, 2, 6, help="Steps per epoch."),
        Number("alpha", "Step, alpha", 0.5, 0.05, 4.0, 0.05, help="Each of B visits takes alpha / B."),
        Number("epochs", "Epochs", 20, 1, 100),
        Number("seed", "Seed of the problem", 0, 0, 9999, is_typed=True),
    ),
    stages=("simulated", "exact"),
    advice="take fewer rows, columns or batches",
    examples={
        "the default": {},
        "large steps": {"alpha": 1.5},
        "more columns than rows": {"rows": 40, "columns": 80, "alpha": 0.3},
        "no noise": {"noise": 0.0, "alpha": 1.0},
    },
)  # fmt: skip
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
_RUNS, _SHOWN = 100, 30
"""Simulated runs of each scheme, and those that the chart shows."""
_NOISE = (
    "The charts show one draw of the noise: runs differ only by their orders. The numbers average over it."
)
_ACCURACY = 1e-3
"""Relative, of what is not exact."""
_SMALL, _FEW_BATCHES = 60, 4
"""Rows, columns and batches up to which the thresholds are computed."""


def simulated(values: Mapping[str, Any], upload: None = None) -> Answer:
    """Return the answer from a hundred simulated runs of each scheme."""
    import reshuffle as rs

    problem, schemes = _problem(values)
    rows = {}
    for name, scheme in {"full batch": rs.FullBatch(), **schemes}.items():
        found = rs.simulate(problem, scheme, alpha=values["alpha"], epochs=[values["epochs"]], runs=_RUNS,
                            fresh_noise=True, progress=False)  # fmt: skip
        assert found.risk is not None
        assert found.spread is not None
        rows[name] = {"mean": float(found.risk.mean[-1]), "spread": float(found.spread.mean[-1])}
    note = f"A first look: {_RUNS} simulated runs of each way. Exact answers follow."
    return _answer(values, problem, schemes, rows, note, is_final=False)


def exact(values: Mapping[str, Any], upload: None = None) -> Answer:
    """Return exact mean, spread and thresholds of each scheme."""
    import numpy as np

    import reshuffle as rs

    problem, schemes = _problem(values)
    is_small = max(values["rows"], values["columns"]) <= _SMALL and values["batches"] <= _FEW_BATCHES
    found = rs.compare_schemes(
        problem, schemes, alpha=values["alpha"], epochs=values["epochs"], rtol=_ACCURACY, thresholds=is_small
    )
    rows = {
        row.name: {name: float(np.ravel(one.value)[-1]) for name, one in row.answers.items()} for row in found
    }
    reasons = dict.fromkeys(one.reason for row in found for one in row.answers.values() if one.reason)
    note = f"Thresholds are computed for at most {_SMALL} rows and columns, and {_FEW_BATCHES} batches."
    return _answer(values, problem, schemes, rows, "" if is_small else note, list(reasons)[:3])


def _problem(values: Mapping[str, Any]) -> "tuple[rs.LeastSquares, dict[str, rs.Scheme]]":
    import reshuffle as rs

    problem = rs.gaussian(values["rows"], values["columns"], noise=values["noise"], seed=values["seed"])
    size = -(-values["rows"] // values["batches"])
    return problem, {name: getattr(rs, kind)(batch_size=size) for name, kind in SCHEMES.items()}


def _answer(
    values: Mapping[str, Any],
    problem: "rs.LeastSquares",
    schemes: "dict[str, rs.Scheme]",
    rows: Mapping[str, Mapping[str, float]],
    note: str,
    remarks: Sequence[str] = (),
    *,
    is_final: bool = True,
) -> Answer:
    totals = {name: row["mean"] + row["spread"] for name, row in rows.items()}
    setting = (
        f"test error of one run after {values['epochs']} epoch{'s' * (values['epochs'] != 1)}; {values['rows']} "
        f"rows, {values['columns']} columns, noise {values['noise']:g}, {values['batches']} batches, "
        f"alpha = {values['alpha']:g}, seed {values['seed']}"
    )
    size = -(-values["rows"] // values["batches"])
    return Answer(
        _sentence(totals),
        setting,
        note,
        {name.capitalize(): number(totals[name]) for name in ("full batch", "samples reshuffled", "never shuffled",
                                                              "samples drawn")},
        [_NOISE, *remarks],
        _charts(values, problem, schemes),
        [_table(values, rows, totals)],
        {"The Python lines that compute this": _PROGRAM.format(size=size, accuracy=_ACCURACY, **values)},
        is_final=is_final,
    )  # fmt: skip


def _sentence(totals: Mapping[str, float]) -> str:
    """Say which way is best, and what the worst costs."""
    shuffled = {name: total for name, total in totals.items() if name != "full batch" and total < GREW}
    if len(shuffled) < 2:
        return "This step diverges, however the rows are shuffled; take a smaller alpha."
    best, *_, worst = sorted(shuffled, key=lambda name: shuffled[name])
    base = shuffled[best]
    ratio = shuffled[worst] / base if base > 0 else math.inf
    above = f"{number(100 * (ratio - 1), 3)}% more" if ratio < 10 else f"{number(ratio, 3)} times as much"
    diverging = [name for name, total in totals.items() if total >= GREW]
    also = f" It diverges with: {', '.join(diverging)}." if diverging else ""
    return f"One run has the least test error with {best}, and {above} with {worst}.{also}"


def _charts(
    values: Mapping[str, Any],
    problem: "rs.LeastSquares",
    schemes: "dict[str, rs.Scheme]",
) -> list[Chart]:
    """Return single runs scattered around their mean, epoch by epoch; and the means along the epochs."""
    import numpy as np

    import reshuffle as rs
    from reshuffle.simulation import single_run_risks

    epochs = np.unique(np.linspace(0, values["epochs"], 26).round())
    every = {"full batch": rs.FullBatch(), **schemes}
    risks = {
        name: single_run_risks(problem, scheme, alpha=values["alpha"], epochs=epochs, runs=_RUNS)
        for name, scheme in every.items()
    }
    names = list(every)
    last = {name: float(one[-1].mean()) for name, one in risks.items()}
    ends = ", ".join(f"{name} {number(value)}" for name, value in last.items())
    return [_scatter(values, risks, epochs, ends), _means(risks, epochs, names, ends)]


def _scatter(
    values: Mapping[str, Any],
    risks: "Mapping[str, FloatArray]",
    epochs: "FloatArray",
    ends: str,
) -> Chart:
    """Return a row of dots per scheme, one for each run, which move with the epochs."""
    import numpy as np

    names = list(risks)
    places = [place for place in range(len(names)) for _ in range(_SHOWN)]
    dots = np.array([[one[k, :_SHOWN] for one in risks.values()] for k in range(len(epochs))])
    means = np.array([[one[k].mean() for one in risks.values()] for k in range(len(epochs))])
    finite = dots[min(1, len(epochs) - 1) :]
    finite = finite[np.isfinite(finite) & (finite < 3 * float(dots[0].max() or 1.0))]
    low, high = float(finite.min(initial=np.inf)), float(finite.max(initial=0.0))
    axis = Axis("test error", "risk", False, low - 0.05 * (high - low) if high > low else 0.0,
                high + 0.05 * (high - low) if high > low else 1.0)  # fmt: skip
    levels = [float(place) for place in range(len(names))]
    series = [
        Series(
            "run", f"{_SHOWN} single runs", numbers(dots[-1].ravel()), places, "second", "dots", width=2.6
        ),
        Series(
            "mean_of_runs", f"mean of {_RUNS} runs", numbers(means[-1]), levels, "first", "dots", width=5.5
        ),
    ]
    frames = [[numbers(dots[k].ravel()), numbers(means[k])] for k in range(len(epochs))]
    words = f"Test error of {_SHOWN} single runs of each scheme. The mean after {values['epochs']} epochs: {ends}."
    return Chart(
        "runs",
        "Single runs, one draw of the noise",
        words,
        axis,
        Axis("", "scheme", names=names),
        series,
        frames=frames,
        moments=[f"epoch {epoch:g}" for epoch in epochs],
    )


def _means(risks: "Mapping[str, FloatArray]", epochs: "FloatArray", names: Sequence[str], ends: str) -> Chart:
    """Return the mean test error of each scheme along the epochs."""
    import numpy as np

    colours = ("grey", "first", "second", "third", "fourth", "fifth", "first", "second")
    dashes = ("2 3", "", "", "", "", "", "7 4", "7 4")
    means = {name: one.mean(axis=1) for name, one in risks.items()}
    series = [
        Series(name.replace(" ", "_"), name, numbers(epochs), numbers(means[name]), colour, dash=dash)
        for name, colour, dash in zip(names, colours, dashes, strict=True)
    ]
    every = np.concatenate([one[min(1, len(epochs) - 1) :] for one in means.values()])
    start = float(next(iter(means.values()))[0])
    known = every[np.isfinite(every) & (every < 3 * max(start, 1e-300))]
    low, high = float(known.min(initial=np.inf)), float(known.max(initial=0.0))
    y = Axis("mean test error", "risk", False, max(0.0, low - 0.1 * (high - low)), high + 0.1 * (high - low))
    x = Axis("epochs", "epoch")
    words = f"Mean test error at the end: {ends}."
    return Chart("means", f"Mean of {_RUNS} runs, one draw of the noise", words, x, y, series)


def _table(
    values: Mapping[str, Any], rows: Mapping[str, Mapping[str, float]], totals: Mapping[str, float]
) -> Table:
    columns = {
        "mean": "mean iterate", "spread": "spread", "total": "one run", "price": "price",
        "distance": "limit off by", "critical_alpha": "converges up to", "mean_square_alpha": "in mean square",
    }  # fmt: skip
    always = ("mean", "spread", "total", "price")
    known = {key for row in rows.values() for key, value in row.items() if not math.isnan(value)}
    shown = [key for key in columns if key in known or key in always]
    base = totals["full batch"]
    made = []
    for name, row in rows.items():
        total = totals[name]
        has_price = name != "full batch" and 0 < base < GREW and total < GREW
        cells = {key: number(row.get(key, math.nan)) for key in shown}
        cells |= {"total": number(total), "price": f"{100 * (total / base - 1):+.3g}%" if has_price else ""}
        made.append([name, *cells.values()])
    headings = ["scheme", *(columns[key] for key in shown)]
    return Table(f"Test error after {values['epochs']} epochs, and what shuffling costs", headings, made)


_PROGRAM = """\
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
