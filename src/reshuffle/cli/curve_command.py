"""`reshuffle curve` and `reshuffle limits`: learning curves of one problem, and in the proportional limit."""

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from reshuffle.cli import data, options, output
from reshuffle.cli.complaints import InputError
from reshuffle.cli.curve_answer import answer
from reshuffle.cli.curve_run import Question, follow
from reshuffle.cli.options import (
    NO_PROBLEM,
    PLAIN,
    TERMINAL,
    Alpha,
    Batches,
    Epochs,
    OutputOptions,
    ProblemOptions,
    RecipeOptions,
    Schemes,
    Step,
)
from reshuffle.cli.output import Answer, number
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from reshuffle._core import FloatArray
    from reshuffle.asymptotics import LearningCurve

_BATCHES = "1,2,4"


def curve(
    *,
    problem: ProblemOptions = NO_PROBLEM,
    alpha: Alpha = None,
    step: Step = None,
    batches: Annotated[
        str | None, Parameter(help=f"Numbers of batches B, separated by commas; else {_BATCHES}.")
    ] = None,
    scheme: Schemes = "reshuffling",
    recipe: RecipeOptions = PLAIN,
    epochs: Epochs = 300,
    mean_square: Annotated[
        bool,
        Parameter(
            help="Also give the risk of one run at every epoch, and whether runs converge, not only their mean.",
            negative="",
        ),
    ] = False,
    rtol: Annotated[
        float | None, Parameter(help="Relative error allowed where orders cannot all be averaged; else 1e-4.")
    ] = None,
    budget: Annotated[
        float | None,
        Parameter(help="Operations allowed for the mean of an epoch; else 1e12, a minute or so."),
    ] = None,
    simulate: Annotated[
        int, Parameter(help="Also train this many real runs, an even number.", converter=options.whole_number)
    ] = 0,
    test: Annotated[
        str | None,
        Parameter(help="Held-out data, with the columns of --data in any order: adds its loss."),
    ] = None,
    outputs: OutputOptions = TERMINAL,
) -> None:
    """Learning curves: the risk of every epoch, when to stop, where it ends.

    Averaged over every order in which the batches can be visited: exactly,
    or with an error that is shown. With --data the truth is unknown: it shows
    the training loss, and the loss on held-out rows with --test. An npz file
    may hold beta_star, noise and covariance beside X and y; then the risk is
    known too.

    For example:
      reshuffle curve --n 200 --p 300 --noise 0.5 --alpha 0.2 --batches 1,2,4
      reshuffle curve --data mine.csv --intercept --step 0.01 --test other.csv
    """
    output.check(outputs, data=problem.data, test=test, covariance=problem.covariance)
    options.exactly_one(alpha=alpha, step=step)
    options.scheme_names(scheme)
    options.batch_counts(batches, _BATCHES)
    when = options.epochs_up_to(epochs)
    posed = data.problem(problem)
    held_out = None if test is None else posed.held_out(test)
    visitings = options.visitings(scheme, batches, _BATCHES, recipe, posed.problem.n)
    asked = Question(
        problem=posed.problem,
        held_out=held_out,
        epochs=when,
        recipe={"momentum": recipe.momentum, "penalty": recipe.penalty},
        accuracy={name: value for name, value in (("rtol", rtol), ("budget", budget)) if value is not None},
        runs=simulate,
        seed=problem.seed,
        mean_square=mean_square,
    )
    from reshuffle._core.progress import track

    curves = [follow(asked, visiting, alpha, step) for visiting in track(visitings, len(visitings), "curves")]
    output.deliver(answer(posed, problem, asked, curves), outputs)


def limits(
    *,
    aspect: Annotated[float, Parameter(help="p / n.")],
    alpha: Annotated[
        float | None,
        Parameter(help="The full-batch step; each visit takes alpha / B. Not needed with --best."),
    ] = None,
    batches: Batches = "1,2,4",
    noise: Annotated[float, Parameter(help="Standard deviation of the label noise.")] = 1.0,
    signal: Annotated[float, Parameter(help="The norm of the true parameters.")] = 1.0,
    covariance: Annotated[
        str | None,
        Parameter(help="Of the features: power:A (or power:A:SIZE), toeplitz:R, or eigenvalues 0.5,1,2."),
    ] = None,
    best: Annotated[
        bool, Parameter(help="The best step and stopping time of each number of batches.", negative="")
    ] = False,
    budget: Annotated[
        int | None,
        Parameter(help="With --best: at most so many epochs.", converter=options.whole_number),
    ] = None,
    epochs: Epochs = 300,
    outputs: OutputOptions = TERMINAL,
) -> None:
    """Learning curves in the proportional limit, with no data at all.

    n and p go to infinity with p / n fixed; Gaussian features; full batch
    and random reshuffling of any number of batches.

    For example:
      reshuffle limits --aspect 1.5 --alpha 0.2 --noise 0.5 --batches 1,2,4
      reshuffle limits --aspect 0.5 --noise 0.5 --best --budget 1
      reshuffle limits --aspect 0.5 --alpha 0.5 --noise 0.1 --covariance power:1.2
    """
    output.check(outputs)
    counts = options.whole_numbers("--batches", batches)
    when = options.epochs_up_to(epochs)
    from reshuffle import asymptotics
    from reshuffle.cli.limits_answer import best_answer, spectrum_of

    sigma = spectrum_of(covariance)
    if best:
        if alpha is not None:
            raise InputError("--best finds the step by itself; leave out --alpha.")
        described = {"aspect": aspect, "noise": noise, "signal": signal}
        answer = best_answer(described, counts, budget, covariance, sigma)
        output.deliver(answer, outputs)
        return
    if alpha is None:
        raise InputError("give --alpha, the full-batch step, or --best to find it.")
    if budget is not None:
        raise InputError("--budget is for --best; --epochs tells how far the curve goes.")
    curves = [
        asymptotics.learning_curve(aspect, alpha, count, noise=noise, signal=signal, covariance=sigma)
        for count in counts
    ]
    asked = {"aspect": aspect, "alpha": alpha, "noise": noise, "signal": signal}
    output.deliver(_limits_answer(asked, counts, curves, when), outputs)


def _limits_answer(
    asked: dict[str, float], counts: list[int], curves: list["LearningCurve"], when: "FloatArray"
) -> Answer:
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
        draw=lambda: _limits_picture(counts, when, risks, best),
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


def _limits_picture(counts: list[int], when: "FloatArray", risks: list[Any], best: list[Any]) -> "Picture":
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
