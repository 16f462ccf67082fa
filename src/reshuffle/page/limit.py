"""The tab without data: p / n, noise, step and batches alone decide, in the limit of many rows and columns."""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

import reshuffle as rs
from reshuffle import asymptotics, plotting
from reshuffle._arrays import FloatArray
from reshuffle.page.answers import Axis, Chart, ChartSeries, TabAnswer
from reshuffle.page.charts import bars, count, density_axis, line, number, numbers
from reshuffle.page.tabs import LIMIT, LINES

LAST = 1000
EPOCHS = sorted({round(LAST ** (k / 59)) for k in range(60)})
"""Epochs of the first chart, evenly spaced on its axis: `np.unique(np.geomspace(1, LAST, 60).round())`."""
_CLOSED = 2
"""Batches up to which the limit has a closed form, and a curve takes 0.05 s; with more, 0.3 to 0.9 s."""
_ROWS, _ROWS_OF_MANY, _FEW_BATCHES = 100, 60, 4
"""Rows of a drawn problem that replaces the limit, fewer beyond 4 batches: the exact mean costs twice as much
with each batch. Beyond 4 batches the threshold with momentum takes minutes, and is not computed."""
_STEPS, _STEPS_OF_MANY = 14, 7
"""Steps at which whole curves are computed for the browser to interpolate."""
_LARGEST_STEP = 3.0
_PARTS = {
    "total": ("total", "first"),
    "bias": ("not learned yet (bias)", "second"),
    "variance": ("noise (variance)", "third"),
    "frozen": ("never learned (frozen)", "grey"),
}
"""Parts of the risk, with words and colours."""


def answer(values: Mapping[str, Any], stage: int, upload: None = None) -> TabAnswer:
    """Return the test error along the epochs, the spectrum and the threshold.

    Stage 0 is the limit where it has a closed form, else one drawn problem of moderate size. Stage 1 is the limit,
    or with momentum the threshold of the drawn problem. Stage 2, or 1 where 0 was all of this, adds the test error
    along the steps. Beyond the threshold a drawn problem is shown: integrals over a spectrum do not resolve what
    grows without bound.
    """
    aspect, noise, alpha, batches, momentum = (values[one.name] for one in LIMIT.inputs)
    is_closed = batches <= _CLOSED and not momentum
    threshold = _threshold(aspect, batches, momentum) if stage or is_closed else None
    is_beyond = threshold is not None and alpha >= threshold
    is_drawn = momentum or is_beyond or not (stage or is_closed)
    note, of_epoch = "", "full batch" if batches == 1 else f"{batches} batches"
    curve: rs.Run | asymptotics.LearningCurve
    if is_drawn:
        curve = run = _drawn(aspect, noise, alpha, batches, momentum)
        note = _note(values, stage, run.problem.n, is_beyond)
        eigenvalues = rs.Epoch(run.problem, run.scheme, alpha / batches).decay_rates
        spectrum = [bars(f"{of_epoch}, drawn", eigenvalues, "second", atoms=())]
        made = f", momentum={momentum:g}" * bool(momentum)
        program = _DRAWN_PROGRAM.format(
            n=run.problem.n, p=run.problem.p, scheme=run.scheme, made=made, **values
        )
    else:
        curve = asymptotics.learning_curve(aspect, alpha, batches, noise=noise)
        law = line(of_epoch, *plotting.spectrum_points(curve.spectrum), "second", key="", dash="")
        spectrum, program = [law] if batches > 1 else [], _LIMIT_PROGRAM.format_map(values)
    risk, limit = curve.risk(EPOCHS), float(curve.risk(math.inf).total)
    if momentum and not stage:
        place = int(np.argmin(risk.total))
        best = rs.BestEpoch(float(risk.epochs[place]), float(risk.total[place]), math.nan)
    else:
        best = curve.best_epoch()
    # With as many columns as rows the test error grows without bound although the run converges.
    diverges = is_beyond or (threshold is None and limit == math.inf)
    facts = {
        "Best epoch": "never" if best.epoch == math.inf else f"{best.epoch:g}",
        "Test error there": number(best.risk),
        "Test error in the end": "without bound" if limit == math.inf else number(limit),
        "Largest step, alpha": "not known yet" if threshold is None else number(threshold),
    }
    remarks = []
    if batches > 1 and not momentum:
        facts["Largest full-batch step"] = full = number(asymptotics.critical_alpha(aspect, 1))
        if threshold is not None:
            up_to = f"The mean of all runs converges up to alpha = {number(threshold)}"
            remarks = [f"{up_to}; a full batch diverges from {full} on."]
    setting = f"p / n = {aspect:g}, noise {noise:g}, alpha = {alpha:g}, {of_epoch}"
    setting += f", momentum {momentum:g}" * bool(momentum)
    has_steps = stage == 2 or (stage == 1 and is_closed)
    charts = [
        _risk_chart(risk, best, diverges, setting),
        *([_steps_chart(aspect, noise, batches, momentum, threshold)] if has_steps else []),
        _spectrum_chart(aspect, alpha, spectrum, setting),
    ]
    sentence = _sentence(best, limit, threshold, diverges)
    return TabAnswer(
        sentence, setting, note, facts, remarks, charts, (), {LINES: program}, is_final=has_steps
    )


def _note(values: Mapping[str, Any], stage: int, rows: int, is_beyond: bool) -> str:
    drawn = f"one drawn problem with {rows} rows"
    if values["momentum"]:
        note = f"With momentum there is no closed limit: shown is {drawn}, its spectrum without momentum."
        quick = " The best epoch is that of those in the chart; the exact one takes a little longer."
        return note + quick * (not stage)
    if is_beyond:
        return f"With many rows this step diverges; the curve is that of {drawn}."
    return f"A first look: {drawn}. The limit of many rows takes a little longer."


def _sentence(best: "rs.BestEpoch", limit: float, threshold: float | None, diverges: bool) -> str:
    if diverges:
        return "This step diverges" + ("." if threshold is None else f"; stay below {number(threshold)}.")
    if best.epoch == math.inf:
        return f"Train for as long as you like: the test error falls to {number(best.risk)} in the end."
    after = f"In the end it {'grows without bound' if limit == math.inf else f'is {number(limit)}'}."
    if best.epoch == 0:
        return f"Do not train at all: the test error is {number(best.risk)} before the first epoch. {after}"
    return f"Stop after {count(best.epoch, 'epoch')}, at a test error of {number(best.risk)}. {after}"


def _drawn(aspect: float, noise: float, alpha: float, batches: int, momentum: float) -> "rs.Run":
    rows = _ROWS_OF_MANY if momentum or batches > _FEW_BATCHES else _ROWS
    problem = rs.gaussian(rows, max(1, round(aspect * rows)), noise=noise, seed=0)
    scheme = rs.RandomReshuffling(batches=batches) if batches > 1 else rs.FullBatch()
    return rs.descend(problem, scheme, alpha=alpha, momentum=momentum)


@lru_cache(maxsize=256)
def _threshold(aspect: float, batches: int, momentum: float) -> float | None:
    """Return the smallest alpha that diverges: of the limit, or with momentum of the drawn problem."""
    if not momentum:
        return float(asymptotics.critical_alpha(aspect, batches))
    if batches > _FEW_BATCHES:
        return None
    run = _drawn(aspect, 0.0, 0.1, batches, momentum)
    step = rs.critical_step(run.problem, run.scheme, momentum=momentum, mean_square=False)
    return batches * float(step)


def _risk_chart(
    risk: "rs.Risk | asymptotics.LimitingRisk", best: "rs.BestEpoch", diverges: bool, setting: str
) -> Chart:
    """Return the test error and its parts along the epochs; on a logarithmic axis if it grows without bound."""
    series = [
        line(label, risk.epochs, getattr(risk, key), colour, key=key, width=2.6 if key == "total" else 1.8)
        for key, (label, colour) in _PARTS.items()
    ]
    series.append(line("", risk.epochs, risk.cross, key="cross", kind="hidden"))
    if 1 <= best.epoch <= LAST and not diverges:
        series.append(ChartSeries("", "", [best.epoch], [best.risk], "first", "dots", width=5))
    total = risk.total[np.isfinite(risk.total)]
    if diverges:
        low, high = float(total.min(initial=1.0)) / 10, min(float(total.max(initial=10.0)), 1e6)
    else:
        # The start, signal^2 = 1, is in the picture.
        low, high = 0.0, 1.06 * min(float(total.max(initial=0.0)) or 1.0, max(2.0, 3 * float(best.risk)))
    y = Axis("test error (risk) and its parts", "risk", diverges, low, high)
    when = "in the limit" if best.epoch == math.inf else f"after {best.epoch:g} epochs"
    words = (
        f"Test error along the epochs at {setting}: {number(float(risk.total[0]))} after one epoch, "
        f"smallest {when} at {number(best.risk)}, {number(float(risk.total[-1]))} after {LAST} epochs."
    )
    return Chart("risk", "Test error along the epochs", words, Axis("epochs", "epoch", True), y, series)


def _steps_chart(
    aspect: float, noise: float, batches: int, momentum: float, threshold: float | None
) -> Chart:
    """Return the test error along the steps, with the threshold; and all curves of the first chart at each step."""
    steps, parts = _curves(aspect, batches, momentum, threshold)
    # The noise scales one part alone, so that all noises share the curves.
    bias, variance, frozen, cross = parts * np.array([1.0, noise**2, 1.0, 1.0])[:, None, None]
    total = bias + variance + frozen + cross
    stopped, ten = total.min(axis=1), total[:, EPOCHS.index(10)]
    series = [
        line("stopped in time", steps, stopped, "first"),
        line("after 10 epochs", steps, ten, "third"),
        line(f"after {LAST} epochs", steps, total[:, -1], "second"),
    ]
    start = total[np.isfinite(total[:, 0]), 0]
    high = 1.06 * max(min(float(start.max()), 2.0), float(start.min()))
    most, marks, words = _LARGEST_STEP, [], ""
    if threshold is not None:
        most, words = min(most, 1.25 * threshold), f" From {number(threshold)} on it diverges."
        marks = [(threshold, f"diverges from {number(threshold)}")]
    best = int(np.nanargmin(stopped))
    where = f"alpha = {number(float(steps[best]), 3)} with {number(float(stopped[best]))}"
    return Chart(
        "steps",
        "Test error along the steps: drag the step",
        f"Test error along the steps: if stopped in time, smallest at {where}.{words}",
        Axis("step, alpha", "alpha", False, 0.0, most),
        Axis("test error (risk)", "risk", False, 0.0, high),
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
    most = 0.985 * threshold if threshold is not None else 1.0
    size = _STEPS if batches <= _CLOSED or momentum else _STEPS_OF_MANY
    steps = np.geomspace(0.02, max(min(most, _LARGEST_STEP), 0.04), size)
    risks: list[Any] = []
    for alpha in steps.tolist():
        if momentum:
            risks.append(_drawn(aspect, 1.0, alpha, batches, momentum).risk(EPOCHS))
        else:
            risks.append(asymptotics.learning_curve(aspect, alpha, batches, noise=1.0).risk(EPOCHS))
    names, shape = ("bias", "variance", "frozen", "cross"), len(EPOCHS)
    return steps, np.array([[np.broadcast_to(getattr(one, name), shape) for one in risks] for name in names])


def _spectrum_chart(aspect: float, alpha: float, spectrum: list[ChartSeries], setting: str) -> Chart:
    """Return the spectrum of one epoch with that of the full batch: how fast directions are learned."""
    points = plotting.spectrum_points(asymptotics.batch_spectrum(aspect, alpha, 1))
    series = [line("full batch", *points, "first", key="", dash="7 4"), *spectrum]
    ends = [np.array(one.x, dtype=float) for one in (series[-1], series[0])]
    (low, high), (low_full, high_full) = ((number(np.nanmin(one)), number(np.nanmax(one))) for one in ends)
    words = (
        f"Spectrum of one epoch at {setting}: from {low} to {high}; that of the full batch from {low_full} to "
        f"{high_full}. Above 2 it diverges."
    )
    x, marks = Axis("eigenvalue of one epoch", "eigenvalue"), [(2.0, "diverges from 2")]
    return Chart(
        "spectrum", "How fast it learns: the spectrum", words, x, density_axis(series), series, marks
    )


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
_DRAWN_PROGRAM = """\
import numpy as np
import reshuffle as rs

problem = rs.gaussian({n}, {p}, noise={noise:g}, seed=0)
scheme = rs.{scheme}
run = rs.descend(problem, scheme, alpha={alpha:g}{made})
epochs = np.unique(np.geomspace(1, 1000, 60).round())
risk = run.risk(epochs)                     # .total, .frozen, .bias, .variance
best, limit = run.best_epoch(), run.limit()
print(best, limit.risk, sep="\\n")
"""
