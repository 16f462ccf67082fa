"""What `reshuffle limits` shows: learning curves in the proportional limit, and the recipes that are best there."""

from typing import TYPE_CHECKING, Any

from reshuffle.cli import options
from reshuffle.cli.output import Answer, number
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from reshuffle._arrays import FloatArray
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
        draw=lambda: _curves_picture(counts, when, risks, best),
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


def _curves_picture(counts: list[int], when: "FloatArray", risks: list[Any], best: list[Any]) -> "Picture":
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


def best_answer(
    described: dict[str, float],
    counts: list[int],
    budget: int | None,
    covariance: str | None,
    eigenvalues: "FloatArray | None",
) -> Answer:
    """A line per number of batches, and what flow, ridge and Bayes do beside them."""
    import reshuffle as rs
    from reshuffle import asymptotics

    recipes = asymptotics.best_recipe(
        described["aspect"],
        noise=described["noise"],
        signal=described["signal"],
        batches=counts,
        epochs=budget,
        covariance=eigenvalues,
    )
    assert isinstance(recipes, asymptotics.BestRecipes)
    one = recipes[0]
    beside = {
        "gradient flow": one.flow.risk,
        "averaged flow": one.averaged_flow.risk,
        "best ridge": one.ridge.risk,
        "Bayes": one.bayes,
    }
    rows = [
        [str(r.batches), number(r.alpha) if r.is_attained else "-> 0", number(r.epochs), number(r.risk)]
        for r in recipes
    ]
    rows += [[name, "", "", number(risk)] for name, risk in beside.items()]
    few = "any number of epochs" if budget is None else f"at most {budget} epochs"
    return Answer(
        title="p / n = {aspect:g}, noise {noise:g}, signal {signal:g}: the best recipe of ".format(
            **described
        )
        + few,
        headings=["batches", "alpha", "epochs", "risk"],
        rows=rows,
        data={
            "command": "limits",
            "version": rs.__version__,
            **described,
            "covariance": covariance,
            "budget": budget,
            "recipes": [_record(recipe) for recipe in recipes],
            "beside": beside,
        },
        columns={
            "batches": recipes.batches,
            "alpha": recipes.alpha,
            "epochs": recipes.epochs,
            "risk": recipes.risk,
        },
        draw=lambda: _best_picture(recipes.batches, recipes.risk, beside),
        series=[Series("best recipe", recipes.batches, recipes.risk)],
        xlabel="batches",
        ylabel="risk",
    )


def _record(recipe: Any) -> dict[str, Any]:
    return {
        "batches": recipe.batches,
        "alpha": recipe.alpha,
        "epochs": recipe.epochs,
        "risk": recipe.risk,
        "error": recipe.error,
        "time": recipe.time,
    }


def _best_picture(batches: "FloatArray", risks: "FloatArray", beside: dict[str, float]) -> "Picture":
    from reshuffle import plotting

    picture = plotting.figure(6.8, 4.2)
    ax = picture.add_subplot()
    ax.plot(batches, risks, "o-", color=plotting.COLOURS[0], label="best recipe")
    for (name, risk), colour in zip(beside.items(), plotting.COLOURS[1:], strict=False):
        ax.axhline(risk, color=colour, linewidth=1.0, linestyle="--", label=name)
    plotting.plain(ax, "batches", "limiting risk")
    ax.legend(frameon=False, fontsize=9)
    return picture
