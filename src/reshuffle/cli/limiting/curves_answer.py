"""`reshuffle limits`: learning curves in the proportional limit, as a table and a picture."""

from typing import TYPE_CHECKING, Any

from reshuffle.cli import options
from reshuffle.cli.output import Answer, number
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from reshuffle._core import FloatArray
    from reshuffle.asymptotics import LearningCurve


def curves_answer(
    asked: dict[str, float], counts: list[int], curves: list["LearningCurve"], when: "FloatArray"
) -> Answer:
    """The risk of every epoch for each number of batches."""
    import numpy as np

    import reshuffle as rs
    from reshuffle import plotting

    risks = [curve.risk(when) for curve in curves]
    best = [curve.best_epoch() for curve in curves]
    ends = [float(curve.limit().total) for curve in curves]
    parts = ("frozen", "bias", "cross", "variance")
    records: list[dict[str, Any]] = []
    for count, curve, risk, stop, end in zip(counts, curves, risks, best, ends, strict=True):
        records.append(
            {
                "batches": count,
                "converges": curve.converges,
                "best_epoch": vars(stop),
                "limit": end,
                "epochs": when,
                "risk": {"total": risk.total} | {part: getattr(risk, part) for part in parts},
            }
        )
    columns = {
        "batches": np.repeat(counts, len(when)),
        "epoch": np.tile(when.astype(np.int64), len(counts)),
        "risk": np.concatenate([risk.total for risk in risks]),
    } | {part: np.concatenate([getattr(risk, part) for risk in risks]) for part in parts}
    return Answer(
        title="p / n = {aspect:g}, alpha = {alpha:g}, noise {noise:g}, signal {signal:g}: "
        "the proportional limit, no data".format(**asked),
        headings=["batches", "converges", "best epoch", "risk there", "limit"],
        rows=[
            [
                str(record["batches"]),
                "yes" if record["converges"] else "no",
                number(record["best_epoch"]["epoch"]),
                number(record["best_epoch"]["risk"]),
                number(record["limit"]),
            ]
            for record in records
        ],
        data={"command": "limits", "version": rs.__version__, **asked, "curves": records},
        columns=columns,
        draw=lambda: _picture(counts, when, risks, best),
        series=[
            Series(
                plotting.scheme_label("reshuffling", count),
                when,
                np.asarray(risk.total),
            )
            for count, risk in zip(counts, risks, strict=True)
        ],
        xlabel="epochs",
        ylabel="risk of the mean iterate",
        far=bool(when[-1] > options.EVERY_EPOCH),
    )


def _picture(counts: list[int], when: "FloatArray", risks: list[Any], best: list[Any]) -> "Picture":
    from reshuffle import plotting

    picture = plotting.figure(6.8, 4.2)
    ax = picture.add_subplot()
    for count, risk, stop in zip(counts, risks, best, strict=True):
        label, colour = (
            plotting.scheme_label("reshuffling", count),
            plotting.scheme_colour("reshuffling", count),
        )
        plotting.risk_curve(risk, label=label, colour=colour, ax=ax)
        if stop.epoch <= when[-1]:
            plotting.mark_best(stop.epoch, stop.risk, colour=colour, ax=ax)
    plotting.scale_values(ax)
    if when[-1] > options.EVERY_EPOCH:
        ax.set_xscale("symlog")
    ax.legend(frameon=False, fontsize=9)
    return picture
