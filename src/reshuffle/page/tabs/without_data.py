"""The tab without data: what the shape of the problem alone tells, p / n, the noise, the step and the batches."""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from reshuffle.page.fields import Slider, Whole
from reshuffle.page.tab import Shown, Stage, Tab
from reshuffle.page.tabs.limit_pictures import LAST, Spectrum, number, risk_picture, sampled, spectrum_picture

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle import asymptotics
    from reshuffle._arrays import FloatArray

TAB = Tab(
    name="limit",
    title="Without data",
    question="What does mini-batch descent do, whatever the data?",
    lead="Gaussian data with many rows and columns behave alike: the shape of the problem decides. Move a slider, "
    "and see when to stop, how large the test error is and of what it is made, and up to which step all is well.",
    module="without_data",
    fields=(
        Slider("aspect", "Shape, p / n", 0.1, 4.0, 0.05, 1.5,
               "Parameters per row; above 1 there are more of them than rows."),
        Slider("noise", "Noise", 0.0, 2.0, 0.05, 0.5,
               "Standard deviation of the labels around the truth, which has length 1."),
        Slider("alpha", "Step, alpha", 0.02, 3.0, 0.02, 0.2,
               "Of a full batch; each of B batches is visited with alpha / B."),
        Whole("batches", "Batches, B", 1, 8, 2, "1 is full-batch descent."),
        Slider("momentum", "Momentum", 0.0, 0.9, 0.05, 0.0, "Of the heavy ball, as in torch's SGD."),
    ),
    stages=(Stage("quick", True), Stage("thorough", False)),
)  # fmt: skip
_CLOSED = 2
"""Up to so many batches the limit has a closed form."""
_ROWS = 100
"""Of a drawn problem that stands in until the limit is known."""
_FEW_BATCHES, _ROWS_OF_MANY = 4, 60
"""Beyond so many batches, a smaller one: its exact mean costs twice as much with each."""
_ROWS_WITH_MOMENTUM = 60


def quick(values: Mapping[str, Any], upload: None = None) -> Shown:
    """The limit where it has a closed form; else a drawn problem of moderate size in its place."""
    if values["momentum"]:
        return _with_momentum(values, _ROWS_WITH_MOMENTUM, is_thorough=False)
    if values["batches"] <= _CLOSED:
        return _limit(values)
    return _stand_in(values)


def thorough(values: Mapping[str, Any], upload: None = None) -> Shown | None:
    """The limit itself, or with momentum the threshold; None where the quick answer is all there is."""
    if values["momentum"]:
        return _with_momentum(values, _ROWS_WITH_MOMENTUM, is_thorough=True)
    return None if values["batches"] <= _CLOSED else _limit(values)


def _limit(values: Mapping[str, Any]) -> Shown:
    """Many rows and columns: the limit of learning curve, spectrum and threshold."""
    from reshuffle import asymptotics, plotting

    aspect, noise, alpha, batches = (values[name] for name in ("aspect", "noise", "alpha", "batches"))
    threshold = _threshold(aspect, batches)
    if alpha >= threshold:
        # What grows without bound is not resolved by integrals over a spectrum, and nobody asks for its digits.
        return _stand_in(values, threshold)
    curve = asymptotics.learning_curve(aspect, alpha, batches, noise=noise)
    return _shown(
        values,
        curve.risk(_epochs()),
        curve.best_epoch(),
        float(curve.limit().total),
        Spectrum(*plotting.spectrum_points(curve.spectrum), is_sampled=False),
        threshold=threshold,
        python=_LIMIT_LINES.format_map(values),
    )


@lru_cache(maxsize=256)
def _threshold(aspect: float, batches: int) -> float:
    """Remembered: most drags leave it as it is."""
    from reshuffle import asymptotics

    return asymptotics.critical_alpha(aspect, batches)


def _stand_in(values: Mapping[str, Any], threshold: float | None = None) -> Shown:
    """One drawn problem, exactly: until the limit is known, and beyond the threshold."""
    problem, scheme, run = _drawn(values, _ROWS if values["batches"] <= _FEW_BATCHES else _ROWS_OF_MANY)
    drawn = f"one drawn problem with {problem.n} rows"
    return _shown(
        values,
        run.risk(_epochs()),
        run.best_epoch(),
        float(run.risk(math.inf).total),
        _of_problem(problem, scheme, values["alpha"]),
        threshold=threshold,
        python=_finite_lines(values, run, 60),
        note=f"A first look: {drawn}. The limit of many rows takes a little longer."
        if threshold is None
        else f"With many rows this step is too large, and all grows without bound; shown is {drawn}.",
    )


def _with_momentum(values: Mapping[str, Any], rows: int, *, is_thorough: bool) -> Shown:
    """One drawn problem: with momentum the limit is not known in closed form."""
    import reshuffle as rs

    problem, scheme, run = _drawn(values, rows)
    count = 60 if is_thorough else 24
    risk, threshold = run.risk(_epochs(count)), None
    if is_thorough and values["batches"] <= _MOST_BATCHES_WITH_MOMENTUM:
        step = rs.critical_step(problem, scheme, momentum=values["momentum"])
        threshold = values["batches"] * float(step)
    later = (
        "" if is_thorough else " The best epoch is that of those drawn; the exact one takes a little longer."
    )
    return _shown(
        values,
        risk,
        run.best_epoch() if is_thorough else _best_drawn(risk),
        float(run.risk(math.inf).total),
        _of_problem(problem, scheme, values["alpha"]),
        threshold=threshold,
        python=_finite_lines(values, run, count),
        note="With momentum there is no closed limit: these are exact answers for one drawn problem with "
        f"{rows} rows. Its spectrum is drawn without momentum.{later}",
    )


def _drawn(values: Mapping[str, Any], rows: int) -> "tuple[rs.LeastSquares, rs.Scheme, rs.Run]":
    """A problem of this shape, the scheme, and its run."""
    import reshuffle as rs

    problem = rs.gaussian(rows, max(1, round(values["aspect"] * rows)), noise=values["noise"], seed=0)
    scheme = rs.RandomReshuffling(batches=values["batches"]) if values["batches"] > 1 else rs.FullBatch()
    return problem, scheme, rs.descend(problem, scheme, alpha=values["alpha"], momentum=values["momentum"])


def _finite_lines(values: Mapping[str, Any], run: "rs.Run", count: int) -> str:
    momentum = f", momentum={values['momentum']:g}" * bool(values["momentum"])
    return _FINITE_LINES.format(
        n=run.problem.n, p=run.problem.p, scheme=run.scheme, count=count, momentum_argument=momentum, **values
    )


def _best_drawn(risk: "rs.Risk") -> "rs.BestEpoch":
    """The best of the epochs that are drawn: quick, and not certified."""
    import numpy as np

    import reshuffle as rs

    place = int(np.argmin(risk.total))
    return rs.BestEpoch(float(risk.epochs[place]), float(risk.total[place]), math.nan)


_MOST_BATCHES_WITH_MOMENTUM = 4
"""The threshold of more of them takes minutes."""


def _epochs(count: int = 60) -> "FloatArray":
    import numpy as np

    return np.unique(np.geomspace(1, LAST, count).round())


def _of_problem(problem: "rs.LeastSquares", scheme: "rs.Scheme", alpha: float) -> Spectrum:
    """The eigenvalues of one epoch of a drawn problem."""
    import reshuffle as rs

    return sampled(rs.Epoch(problem, scheme, alpha / scheme.steps(problem.n)).decay_rates, problem.p)


def _shown(
    values: Mapping[str, Any],
    risk: "rs.Risk | asymptotics.LimitingRisk",
    best: "rs.BestEpoch",
    limit: float,
    spectrum: Spectrum,
    *,
    threshold: float | None,
    python: str,
    note: str = "",
) -> Shown:
    full, setting = _threshold(values["aspect"], 1), _setting(values)
    facts = {
        "Best epoch": _when(best.epoch),
        "Test error there": number(best.risk),
        "Test error in the end": number(limit),
        "Largest step, alpha": _UNKNOWN if threshold is None else number(threshold),
        "Largest full-batch step": number(full) if not values["momentum"] else "",
    }
    return Shown(
        sentence=_sentence(best, limit),
        setting=setting,
        remarks=_remarks(values, threshold, full),
        facts={name: text for name, text in facts.items() if text},
        pictures=[risk_picture(setting, risk, best), spectrum_picture(setting, values, spectrum)],
        python=python,
        note=note,
    )


_UNKNOWN = "not known yet"


def _when(epoch: float) -> str:
    return "never" if epoch == math.inf else f"{epoch:g}"


def _setting(values: Mapping[str, Any]) -> str:
    """The inputs in words.

    >>> _setting({"aspect": 1.5, "noise": 0.5, "alpha": 0.2, "batches": 2, "momentum": 0.0})
    'p / n = 1.5, noise 0.5, alpha = 0.2, 2 batches'
    """
    batches = "full batch" if values["batches"] == 1 else f"{values['batches']} batches"
    momentum = f", momentum {values['momentum']:g}" * bool(values["momentum"])
    shape = f"p / n = {values['aspect']:g}, noise {values['noise']:g}"
    return f"{shape}, alpha = {values['alpha']:g}, {batches}{momentum}"


def _sentence(best: "rs.BestEpoch", limit: float) -> str:
    """The answer itself."""
    if best.epoch == math.inf:
        return f"Train for as long as you like: the test error falls to {number(best.risk)} in the end."
    if best.epoch == 0:
        told = f"Do not train at all: the test error is {number(best.risk)} before the first epoch."
    else:
        plural = "s" * (best.epoch != 1)
        told = f"Stop after {best.epoch:g} epoch{plural}, at a test error of {number(best.risk)}."
    later = (
        "It grows without bound later." if limit == math.inf else f"Trained for ever, it is {number(limit)}."
    )
    return f"{told} {later}"


def _remarks(values: Mapping[str, Any], threshold: float | None, full: float) -> list[str]:
    if threshold is None:
        return []
    where = "below" if values["alpha"] < threshold else "beyond"
    told = f"The mean of all runs converges up to alpha = {number(threshold)}; this step is {where} that."
    if values["batches"] > 1 and not values["momentum"]:
        told += f" A full batch would diverge from {number(full)} on."
    return [told]


_LIMIT_LINES = """\
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
_FINITE_LINES = """\
import numpy as np
import reshuffle as rs

problem = rs.gaussian({n}, {p}, noise={noise:g}, seed=0)
scheme = rs.{scheme}
run = rs.descend(problem, scheme, alpha={alpha:g}{momentum_argument})
epochs = np.unique(np.geomspace(1, 1000, {count}).round())
risk = run.risk(epochs)                     # .total, .frozen, .bias, .variance
best, limit = run.best_epoch(), run.limit()
print(best, limit.risk, sep="\\n")
"""
