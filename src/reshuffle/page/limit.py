"""The tab without data: p / n, noise, step and batches alone decide, in the limit of many rows and columns."""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from reshuffle.page.answers import Answer, Axis, Chart, Series, Tab, number, numbers
from reshuffle.page.inputs import Number

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle import asymptotics
    from reshuffle._arrays import FloatArray

TAB = Tab(
    name="limit",
    title="Without data",
    question="What does mini-batch descent do, whatever the data?",
    lead="Gaussian data with many rows and columns behave alike: the shape of the problem decides. Move a slider, "
    "or the handle on the second chart, and see when to stop, how large the test error is and of what it is made, "
    "and which step diverges.",
    module="limit",
    inputs=(
        Number("aspect", "Shape, p / n", 1.5, 0.1, 4.0, 0.05, help="Parameters per row."),
        Number("noise", "Noise", 0.5, 0.0, 2.0, 0.05, help="Standard deviation of labels; the truth has length 1."),
        Number("alpha", "Step, alpha", 0.2, 0.02, 3.0, 0.02, help="Each of B batches is visited with alpha / B."),
        Number("batches", "Batches, B", 2, 1, 8, help="1 is full-batch descent."),
        Number("momentum", "Momentum", 0.0, 0.0, 0.9, 0.05, help="Of the heavy ball, as in torch's SGD."),
    ),
    stages=("first", "refined", "along_steps"),
    examples={
        "the default": {},
        "stop early": {"aspect": 1.0, "noise": 1.0, "alpha": 0.3},
        "many batches": {"batches": 8, "alpha": 0.5},
        "a step that diverges": {"alpha": 0.7},
        "momentum": {"momentum": 0.8, "batches": 2, "alpha": 0.1},
    },
)  # fmt: skip
LAST = 1000
"""Epochs."""
_CLOSED = 2
"""Batches up to which the limit has a closed form, and a curve takes 0.05 s; with more, 0.3 to 0.9 s."""
_ROWS, _ROWS_OF_MANY, _FEW_BATCHES = 100, 60, 4
"""Rows of a drawn problem that stands in for the limit, fewer beyond 4 batches: the exact mean costs twice as much
with each batch."""
_MOST_BATCHES_WITH_MOMENTUM = 4
"""Batches up to which the threshold with momentum is computed: that of more takes minutes."""
_STEPS, _STEPS_OF_MANY = 14, 7
"""Steps at which whole curves are computed for the browser to interpolate."""


def first(values: Mapping[str, Any], upload: None = None) -> Answer:
    """Return the limit where it has a closed form, else one drawn problem of moderate size."""
    if values["momentum"] or values["batches"] > _CLOSED:
        return _drawn_answer(values, is_quick=bool(values["momentum"]))
    return _limit_answer(values)


def refined(values: Mapping[str, Any], upload: None = None) -> Answer:
    """Return the limit itself, or with momentum the threshold; where `first` was all of this, `along_steps`."""
    if values["momentum"]:
        return _drawn_answer(values, _drawn_threshold(values))
    return along_steps(values) if values["batches"] <= _CLOSED else _limit_answer(values)


def along_steps(values: Mapping[str, Any], upload: None = None) -> Answer:
    """Return the answer of `refined` with the test error along the steps, and curves to interpolate between."""
    if values["momentum"]:
        return _drawn_answer(values, _drawn_threshold(values), has_steps=True)
    return _limit_answer(values, has_steps=True)


def _limit_answer(values: Mapping[str, Any], *, has_steps: bool = False) -> Answer:
    """Return learning curve, spectrum and threshold of the limit."""
    from reshuffle import asymptotics, plotting

    aspect, alpha, batches = values["aspect"], values["alpha"], values["batches"]
    threshold = _threshold(aspect, batches)
    if alpha >= threshold:
        # Integrals over a spectrum do not resolve what grows without bound.
        return _drawn_answer(values, threshold, has_steps=has_steps)
    curve = asymptotics.learning_curve(aspect, alpha, batches, noise=values["noise"])
    x, y = plotting.spectrum_points(curve.spectrum)
    law = Series("", f"{batches} batches", numbers(x), numbers(y), "second")
    return _answer(
        values,
        curve.risk(_epochs()),
        curve.best_epoch(),
        float(curve.limit().total),
        law if batches > 1 else None,
        threshold,
        _LIMIT_PROGRAM.format_map(values),
        has_steps=has_steps,
    )


def _drawn_answer(
    values: Mapping[str, Any],
    threshold: float | None = None,
    *,
    has_steps: bool = False,
    is_quick: bool = False,
) -> Answer:
    """Return exact answers for one drawn problem: until the limit is known, beyond the threshold, with momentum.

    With `is_quick`, the best epoch is the best of those in the chart.
    """
    import numpy as np

    import reshuffle as rs

    problem, scheme, run = _drawn(values)
    eigenvalues = rs.Epoch(problem, scheme, values["alpha"] / values["batches"]).decay_rates
    counts, cuts = np.histogram(eigenvalues, bins=30)
    heights = numbers(counts / problem.p / np.diff(cuts))
    bars = Series("", f"{values['batches']} batches, drawn", numbers(cuts), heights, "second", "bars")
    risk = run.risk(_epochs())
    place = int(np.argmin(risk.total))
    best = rs.BestEpoch(float(risk.epochs[place]), float(risk.total[place]), math.nan)
    drawn = f"one drawn problem with {problem.n} rows"
    if values["momentum"]:
        note = f"With momentum there is no closed limit: shown is {drawn}, its spectrum without momentum."
        note += (
            " The best epoch is that of those in the chart; the exact one takes a little longer." * is_quick
        )
    elif threshold is None:
        note = f"A first look: {drawn}. The limit of many rows takes a little longer."
    else:
        note = f"With many rows this step diverges; the curve is that of {drawn}."
    return _answer(
        values,
        risk,
        best if is_quick else run.best_epoch(),
        float(run.risk(math.inf).total),
        bars,
        threshold,
        _drawn_program(values, run),
        note=note,
        has_steps=has_steps,
    )


def _drawn(values: Mapping[str, Any]) -> "tuple[rs.LeastSquares, rs.Scheme, rs.Run]":
    import reshuffle as rs

    is_small = values["momentum"] or values["batches"] > _FEW_BATCHES
    rows = _ROWS_OF_MANY if is_small else _ROWS
    problem = rs.gaussian(rows, max(1, round(values["aspect"] * rows)), noise=values["noise"], seed=0)
    scheme = rs.RandomReshuffling(batches=values["batches"]) if values["batches"] > 1 else rs.FullBatch()
    return problem, scheme, rs.descend(problem, scheme, alpha=values["alpha"], momentum=values["momentum"])


@lru_cache(maxsize=256)
def _threshold(aspect: float, batches: int) -> float:
    from reshuffle import asymptotics

    return float(asymptotics.critical_alpha(aspect, batches))


def _drawn_threshold(values: Mapping[str, Any]) -> float | None:
    """Return the threshold of the drawn problem with momentum, where it is affordable."""
    import reshuffle as rs

    if values["batches"] > _MOST_BATCHES_WITH_MOMENTUM:
        return None
    problem, scheme, _ = _drawn(values)
    step = float(rs.critical_step(problem, scheme, momentum=values["momentum"]))
    return float(values["batches"] * step)


def _epochs() -> "FloatArray":
    import numpy as np

    return np.unique(np.geomspace(1, LAST, 60).round())


def _answer(
    values: Mapping[str, Any],
    risk: "rs.Risk | asymptotics.LimitingRisk",
    best: "rs.BestEpoch",
    limit: float,
    spectrum: Series | None,
    threshold: float | None,
    program: str,
    *,
    note: str = "",
    has_steps: bool = False,
) -> Answer:
    full = _threshold(values["aspect"], 1)
    diverges = limit == math.inf or (threshold is not None and values["alpha"] >= threshold)
    facts = {
        "Best epoch": "never" if best.epoch == math.inf else f"{best.epoch:g}",
        "Test error there": number(best.risk),
        "Test error in the end": "without bound" if limit == math.inf else number(limit),
        "Largest step, alpha": "not known yet" if threshold is None else number(threshold),
    }
    remarks = []
    if values["batches"] > 1 and not values["momentum"]:
        facts["Largest full-batch step"] = number(full)
        if threshold is not None:
            remarks = [
                f"The mean of all runs converges up to alpha = {number(threshold)}; a full batch diverges from "
                f"{number(full)} on."
            ]
    charts = [_risk_chart(values, risk, best, diverges), _spectrum_chart(values, spectrum)]
    if has_steps:
        charts.insert(1, _steps_chart(values, threshold))
    return Answer(
        _sentence(best, limit, threshold, diverges),
        _setting(values),
        note,
        facts,
        remarks,
        charts,
        programs={"The Python lines that compute this": program},
        is_final=has_steps,
    )


def _setting(values: Mapping[str, Any]) -> str:
    """Return the inputs in words.

    >>> _setting({"aspect": 1.5, "noise": 0.5, "alpha": 0.2, "batches": 2, "momentum": 0.0})
    'p / n = 1.5, noise 0.5, alpha = 0.2, 2 batches'
    """
    batches = "full batch" if values["batches"] == 1 else f"{values['batches']} batches"
    momentum = f", momentum {values['momentum']:g}" * bool(values["momentum"])
    shape = f"p / n = {values['aspect']:g}, noise {values['noise']:g}"
    return f"{shape}, alpha = {values['alpha']:g}, {batches}{momentum}"


def _sentence(best: "rs.BestEpoch", limit: float, threshold: float | None, diverges: bool) -> str:
    if diverges:
        return (
            "This step diverges."
            if threshold is None
            else f"This step diverges; stay below {number(threshold)}."
        )
    if best.epoch == math.inf:
        return f"Train for as long as you like: the test error falls to {number(best.risk)} in the end."
    after = f"Trained for ever, it is {number(limit)}."
    if best.epoch == 0:
        return f"Do not train at all: the test error is {number(best.risk)} before the first epoch. {after}"
    plural = "s" * (best.epoch != 1)
    return f"Stop after {best.epoch:g} epoch{plural}, at a test error of {number(best.risk)}. {after}"


_PARTS = (
    ("total", "total", "first", ""),
    ("bias", "not learned yet (bias)", "second", "7 4"),
    ("variance", "noise (variance)", "third", "8 3 2 3"),
    ("frozen", "never learned (frozen)", "grey", "2 3"),
)
"""Parts of the risk: attribute, words, colour and dashes."""


def _risk_chart(
    values: Mapping[str, Any],
    risk: "rs.Risk | asymptotics.LimitingRisk",
    best: "rs.BestEpoch",
    diverges: bool,
) -> Chart:
    """Return the test error and its parts along the epochs; on a logarithmic axis if it grows without bound."""
    import numpy as np

    series = [
        Series(name, label, numbers(risk.epochs), numbers(getattr(risk, name)), colour, dash=dash,
               width=2.6 if name == "total" else 1.8)
        for name, label, colour, dash in _PARTS
    ]  # fmt: skip
    series += [Series("cross", "", numbers(risk.epochs), numbers(risk.cross), "grey", "hidden")]
    if 1 <= best.epoch <= LAST and not diverges:
        series.append(Series("", "", [best.epoch], [best.risk], "first", "dots", width=5))
    total = risk.total[np.isfinite(risk.total)]
    if diverges:
        high = min(float(total.max(initial=10.0)), 1e6)
        y = Axis("test error (risk) and its parts", "risk", True, float(total.min(initial=1.0)) / 10, high)
    else:
        # The start, signal^2 = 1, is in the picture.
        high = 1.06 * min(float(total.max(initial=0.0)) or 1.0, max(2.0, 3 * float(best.risk)))
        y = Axis("test error (risk) and its parts", "risk", False, 0.0, high)
    when = "in the limit" if best.epoch == math.inf else f"after {best.epoch:g} epochs"
    words = (
        f"Test error along the epochs at {_setting(values)}: {number(float(risk.total[0]))} after one epoch, "
        f"smallest {when} at {number(best.risk)}, {number(float(risk.total[-1]))} after {LAST} epochs."
    )
    return Chart("risk", "Test error along the epochs", words, Axis("epochs", "epoch", True), y, series)


def _steps_chart(values: Mapping[str, Any], threshold: float | None) -> Chart:
    """Return the test error along the steps, with the threshold; and all curves of the first chart at each step."""
    import numpy as np

    steps, parts = _curves(values["aspect"], values["batches"], values["momentum"], threshold)
    # The noise scales one part alone, so that all noises share the curves.
    parts = parts * np.array([1.0, values["noise"] ** 2, 1.0, 1.0])[:, None, None]
    bias, variance, frozen, cross = parts
    total = bias + variance + frozen + cross
    lines = (
        ("stopped in time", total.min(axis=1), "first", ""),
        ("after 10 epochs", total[:, np.argmin(np.abs(_epochs() - 10))], "third", "8 3 2 3"),
        (f"after {LAST} epochs", total[:, -1], "second", "7 4"),
    )
    series = [
        Series(label.replace(" ", "_"), label, numbers(steps), numbers(y), colour, dash=dash)
        for label, y, colour, dash in lines
    ]
    high = 1.06 * min(float(np.nanmax(np.where(np.isfinite(total[:, 0]), total[:, 0], 0.0))), 2.0)
    most = TAB.inputs[2].high if threshold is None else min(TAB.inputs[2].high, 1.25 * threshold)  # type: ignore[attr-defined]
    marks = [] if threshold is None else [(threshold, f"diverges from {number(threshold)}")]
    best = int(np.nanargmin(lines[0][1]))
    words = (
        f"Test error along the steps: if stopped in time, smallest at alpha = {number(float(steps[best]), 3)} with "
        f"{number(float(lines[0][1][best]))}. "
    ) + ("" if threshold is None else f"From {number(threshold)} on it diverges.")
    return Chart(
        "steps",
        "Test error along the steps: drag the step",
        words,
        Axis("step, alpha", "alpha", False, 0.0, most),
        Axis("test error (risk)", "risk", False, 0.0, max(high, 1.06 * float(np.nanmin(total[:, 0])))),
        series,
        marks,
        handle="limit_alpha",
        morph=(numbers(steps), numbers(np.stack([total, bias, variance, frozen], axis=1))),
    )


@lru_cache(maxsize=64)
def _curves(
    aspect: float, batches: int, momentum: float, threshold: float | None
) -> "tuple[FloatArray, FloatArray]":
    """Return steps, and bias, variance, frozen and cross part of the risk (4, steps, epochs) at noise 1."""
    import numpy as np

    from reshuffle import asymptotics

    is_closed = not momentum and batches <= _CLOSED
    most = 0.985 * threshold if threshold is not None else 1.0
    steps = np.geomspace(0.02, max(min(most, 3.0), 0.04), _STEPS if is_closed or momentum else _STEPS_OF_MANY)
    risks: list[Any] = []
    for alpha in steps:
        if momentum:
            values = {
                "aspect": aspect,
                "batches": batches,
                "momentum": momentum,
                "noise": 1.0,
                "alpha": alpha,
            }
            risks.append(_drawn(values)[2].risk(_epochs()))
        else:
            curve = asymptotics.learning_curve(aspect, float(alpha), batches, noise=1.0)
            risks.append(curve.risk(_epochs()))
    names = ("bias", "variance", "frozen", "cross")
    full = [[np.broadcast_to(getattr(risk, name), _epochs().shape) for risk in risks] for name in names]
    return steps, np.array(full)


def _spectrum_chart(values: Mapping[str, Any], spectrum: Series | None) -> Chart:
    """Return the spectrum of one epoch with that of the full batch: how fast directions are learned."""
    import numpy as np

    from reshuffle import asymptotics, plotting

    x, y = plotting.spectrum_points(asymptotics.marchenko_pastur(values["aspect"], values["alpha"]))
    series = [Series("", "full batch", numbers(x), numbers(y), "first", dash="7 4")]
    series += [spectrum] if spectrum is not None else []
    heights = [np.array(one.y, dtype=float) for one in series]
    # A hard edge grows without bound: most of the curve is what counts.
    usual = max(float(np.nanquantile(one, 0.8)) for one in heights)
    top = min(max(float(np.nanmax(one)) for one in heights), 2 * usual)
    ends = [np.array(one.x, dtype=float) for one in series]
    words = (
        f"Spectrum of one epoch at {_setting(values)}: from {number(float(np.nanmin(ends[-1])))} to "
        f"{number(float(np.nanmax(ends[-1])))}; that of the full batch from {number(float(np.nanmin(ends[0])))} to "
        f"{number(float(np.nanmax(ends[0])))}. Above 2 it diverges."
    )
    x_axis = Axis("eigenvalue of one epoch", "eigenvalue")
    y_axis = Axis("density", "density", False, 0.0, 1.06 * top or 1.0)
    marks = [(2.0, "diverges from 2")]
    return Chart("spectrum", "How fast it learns: the spectrum", words, x_axis, y_axis, series, marks)


_LIMIT_PROGRAM = """\
import numpy as np
from reshuffle import asymptotics

curve = asymptotics.learning_curve(aspect={aspect:g}, alpha={alpha:g}, batches={batches}, noise={noise:g})
epochs = np.unique(np.geomspace(1, 1000, 60).round())
risk = curve.risk(epochs)                   # .total, .frozen, .bias, .variance
best, limit = curve.best_epoch(), curve.limit()
threshold = asymptotics.critical_alpha({aspect:g}, {batches})
density = curve.spectrum.density([0.1, 0.5])
print(best, limit, threshold, sep="\\n")
"""


def _drawn_program(values: Mapping[str, Any], run: "rs.Run") -> str:
    momentum = f", momentum={values['momentum']:g}" * bool(values["momentum"])
    return f"""\
import numpy as np
import reshuffle as rs

problem = rs.gaussian({run.problem.n}, {run.problem.p}, noise={values["noise"]:g}, seed=0)
scheme = rs.{run.scheme}
run = rs.descend(problem, scheme, alpha={values["alpha"]:g}{momentum})
epochs = np.unique(np.geomspace(1, 1000, 60).round())
risk = run.risk(epochs)                     # .total, .frozen, .bias, .variance
best, limit = run.best_epoch(), run.limit()
print(best, limit.risk, sep="\\n")
"""
