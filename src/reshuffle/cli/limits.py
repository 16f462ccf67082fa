"""`reshuffle limits` and `reshuffle spectrum`: what is known with no data at all."""

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from reshuffle.cli import options, render
from reshuffle.cli.options import DATA, FLAG, RECIPE, WHOLE, also, at_least, whole_numbers
from reshuffle.cli.render import Report, number
from reshuffle.cli.sketch import Series
from reshuffle.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reshuffle._arrays import FloatArray

STREAM = Parameter(group=Group("One pass over fresh data", sort_key=4))
LAW = Parameter(group=Group("Law", sort_key=1))
MOST_MOMENTS, LARGEST_SAMPLE = 12, 4000
_FORMS = "powerlaw:A, powerlaw:A:SIZE, toeplitz:R, toeplitz:R:SIZE or eigenvalues such as 0.5,1,2"
_SIZE = 200
"""Eigenvalues of a spectrum with a name, unless a number is given."""
_POINTS = 200
"""Steps of a pass that are shown."""
_PARTS = ("frozen", "bias", "cross", "variance")
_OF_A_PASS = ("converges", "limit", "risk", "spread", "error", "error_kind")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """The stream that --one-pass asks about.

    :param spectrum: Eigenvalues j^-SPECTRUM of Sigma.
    :param source: Squares j^-SOURCE of the parameters.
    :param features: Number of features; without it, infinitely many.
    :param batch_size: Rows of a batch, separated by commas.
    :param step: Step of every batch; half the critical one by default.
    :param steps: Number of steps.
    :param momentum: As in torch's SGD.
    """

    spectrum: Annotated[float, STREAM] = 1.5
    source: Annotated[float, STREAM, options.HYPHEN] = 0.5
    features: Annotated[int | None, STREAM, WHOLE] = None
    batch_size: Annotated[str, STREAM] = "1,16,256"
    step: Annotated[float | None, STREAM] = None
    steps: Annotated[int, STREAM, WHOLE] = 10_000
    momentum: Annotated[float, STREAM] = 0.0


PLAIN_STREAM = StreamOptions()


def limits(
    *,
    aspect: Annotated[float | None, DATA] = None,
    alpha: options.Alpha = None,
    batches: Annotated[str, RECIPE, also("-b")] = "1,2,4",
    noise: Annotated[float, DATA] = 1.0,
    signal: Annotated[float, DATA] = 1.0,
    covariance: Annotated[str | None, DATA] = None,
    best: Annotated[bool, RECIPE, FLAG] = False,
    budget: Annotated[int | None, RECIPE, WHOLE] = None,
    one_pass: Annotated[bool, STREAM, FLAG] = False,
    stream: StreamOptions = PLAIN_STREAM,
    epochs: options.Epochs = 300,
    outputs: options.OutputOptions = options.TERMINAL,
) -> None:
    """Learning curves in the proportional limit, with no data at all.

    n and p go to infinity with p / n fixed; Gaussian features; full batch
    and random reshuffling of any number of batches. With --best, the recipes
    that are best there; with --one-pass, a stream of fresh data. Limits hold
    for rows of one scale: rows whose sizes vary at random have others.

    For example:
      reshuffle limits --aspect 1.5 --alpha 0.2 --noise 0.5 --batches 1,2,4
      reshuffle limits --aspect 0.5 --noise 0.5 --best --budget 1
      reshuffle limits --aspect 0.5 --alpha 0.5 --noise 0.1 --covariance powerlaw:1.2
      reshuffle limits --one-pass --spectrum 1.5 --source 0.5 --batch-size 1,64

    :param aspect: p / n.
    :param batches: Numbers of batches B, separated by commas.
    :param noise: Standard deviation of the label noise.
    :param signal: The norm of the true parameters.
    :param covariance: Eigenvalues of Sigma: powerlaw:A (or powerlaw:A:SIZE), toeplitz:R, or numbers 0.5,1,2.
    :param best: The best step and stopping time of each number of batches, instead of --alpha.
    :param budget: With --best: at most so many epochs.
    :param one_pass: One pass over fresh data with a power-law spectrum, in place of epochs.
    """
    render.check(outputs)
    if one_pass:
        if aspect is not None or alpha is not None or best:
            hint = "leave out {aspect}, {alpha} and {best}, and give {features} and {step}"
            raise ArgumentError("one_pass", "", "has no epochs", hint)
        render.deliver(_one_pass_answer(stream, noise), outputs)
        return
    if stream != PLAIN_STREAM:
        names = "{spectrum}, {source}, {features}, {batch_size}, {step}, {steps} and {momentum}"
        raise ArgumentError(names, "", "describe the stream of {one_pass}, which is not given")
    if aspect is None:
        raise ArgumentError("aspect", "be given, with {alpha} or {best}", "it is not", "or give {one_pass}")
    if best and alpha is not None:
        raise ArgumentError("best", "", "finds the step by itself", "leave out {alpha}")
    if not best and budget is not None:
        raise ArgumentError("budget", "", "is for {best}", "{epochs} sets how far the curve goes")
    if budget is not None:
        at_least("budget", budget, 1)
    if not best and alpha is None:
        raise ArgumentError(
            "alpha", "", "is not given", "give {alpha}, the full-batch step, or {best} to find it"
        )
    counts, sigma = whole_numbers("batches", batches), _spectrum_of(covariance)
    setting = {"aspect": aspect, "noise": noise, "signal": signal}
    if alpha is None:
        facts = {**setting, "covariance": covariance, "budget": budget}
        render.deliver(_best_answer(facts, setting, counts, sigma), outputs)
    else:
        render.deliver(_curves_answer(setting | {"alpha": alpha}, counts, sigma, epochs), outputs)


def _curves_answer(
    setting: dict[str, float], counts: list[int], sigma: "FloatArray | None", epochs: int
) -> Report:
    """The risk of every epoch for each number of batches."""
    when = options.epochs_up_to(epochs)
    from reshuffle import asymptotics, plotting

    records, series = [], []
    for count in counts:
        curve = asymptotics.learning_curve(batches=count, covariance=sigma, **setting)
        risk, stop = curve.risk(when), curve.best_epoch()
        records.append(
            {
                "batches": count,
                "converges": bool(curve.converges),
                "best_epoch": vars(stop),
                "limit": float(curve.limit().total),
                "epochs": when,
                "risk": {"total": risk.total} | {part: getattr(risk, part) for part in _PARTS},
            }
        )
        label, colour = (
            make("reshuffling", count) for make in (plotting.scheme_label, plotting.scheme_colour)
        )
        series.append(Series(label, when, risk.total, colour, (stop.epoch, stop.risk)))
    return Report(
        "limits",
        "p / n = {aspect:g}, alpha = {alpha:g}, noise {noise:g}, signal {signal:g}: "
        "the proportional limit, no data".format(**setting),
        setting,
        "curves",
        records,
        {
            "batches": "batches",
            "converges": "converges",
            "best epoch": lambda record: float(record["best_epoch"]["epoch"]),
            "risk there": "best_epoch.risk",
            "limit": "limit",
        },
        {"batches": "batches", "epoch": "epochs", "risk": "risk.total"}
        | {part: f"risk.{part}" for part in _PARTS},
        series,
        ylabel="risk of the mean iterate",
    )


def _best_answer(
    facts: dict[str, Any], setting: dict[str, float], counts: list[int], sigma: "FloatArray | None"
) -> Report:
    """The best recipe of each number of batches, and the risks of flow, ridge and Bayes."""
    import numpy as np

    from reshuffle import asymptotics

    budget = facts["budget"]
    found = asymptotics.best_recipe(batches=counts, epochs=budget, covariance=sigma, **setting)
    recipes: list[Any] = list(found)  # type: ignore[arg-type]
    one = recipes[0]
    others = {
        "gradient flow": one.flow.risk,
        "averaged flow": one.averaged_flow.risk,
        "best ridge": one.ridge.risk,
        "Bayes": one.bayes,
    }
    names = ("batches", "alpha", "epochs", "risk", "error", "time")
    records = [{name: getattr(recipe, name) for name in names} for recipe in recipes]
    few = "any number of epochs" if budget is None else f"at most {budget} epoch{'s' * (budget > 1)}"
    attained = {recipe.batches: recipe.is_attained for recipe in recipes}
    return Report(
        "limits",
        "p / n = {aspect:g}, noise {noise:g}, signal {signal:g}: the best recipe of ".format(**setting) + few,
        {**facts, "beside": others},
        "recipes",
        records,
        {
            "batches": "batches",
            "alpha": lambda record: record.get("alpha") if attained.get(record["batches"], True) else "-> 0",
            "epochs": lambda record: record.get("epochs") and float(record["epochs"]),
            "risk": "risk",
        },
        {name: name for name in names[:4]},
        [
            Series(
                "best recipe", np.array(counts, float), np.array([recipe.risk for recipe in recipes], float)
            )
        ],
        rows=[{"batches": name, "risk": risk} for name, risk in others.items()],
        xlabel="batches",
        ylabel="risk",
        levels=others,
    )


def _spectrum_of(text: str | None) -> "FloatArray | None":
    """The eigenvalues that --covariance names; None is the identity."""
    if text is None:
        return None
    import numpy as np

    from reshuffle import asymptotics

    name, *parts = text.split(":")
    try:
        if name in ("powerlaw", "power", "toeplitz") and len(parts) in (1, 2):
            value, size = float(parts[0]), int(parts[1]) if parts[1:] else _SIZE
            if name == "toeplitz":
                return asymptotics.toeplitz(value, size)
            law = asymptotics.PowerLaw(value, size)
            # At the door, so that a message names the option.
            asymptotics.spectra.population(law)
            return law.values()
        if not parts:
            return np.array([float(value) for value in text.split(",")])
    except ValueError as problem:
        if "must" in str(problem):
            raise ArgumentError(f"{{covariance}} {text}:", "", str(problem).rstrip(".")) from None
    forms = _FORMS.replace("powerlaw:", "power:") if name == "power" else _FORMS
    raise ArgumentError("covariance", f"be {forms}", f"it is {text}")


def _one_pass_answer(stream: StreamOptions, noise: float) -> Report:
    """The risk along one pass for every batch size."""
    import numpy as np

    from reshuffle import asymptotics

    at_least("steps", stream.steps, 1)
    size = math.inf if stream.features is None else stream.features
    laws = asymptotics.PowerLaw(stream.spectrum, size), asymptotics.PowerLaw(stream.source, size)
    when = np.unique(np.round(np.concatenate([[0.0], np.geomspace(1, stream.steps, _POINTS)])))
    recipe: dict[str, Any] = {"noise": noise, "momentum": stream.momentum}
    records, series, notes = [], [], []
    for batch in whole_numbers("batch_size", stream.batch_size):
        step = stream.step
        if step is None:
            step = asymptotics.one_pass(*laws, batch, 1e-9, 0, **recipe).stability.critical_step / 2
        curve = asymptotics.one_pass(*laws, batch, step, when, **recipe)
        known = {name: getattr(curve.stability, name) for name in ("critical_step", "kappa", "diverges")}
        known |= {name: getattr(curve, name) for name in _OF_A_PASS}
        records.append({"batch_size": batch, "step": step, "learning_rate": step, "steps": when, **known})
        series.append(Series(f"{batch} row{'s' * (batch > 1)} per batch", when, curve.risk))
        if curve.stability.diverges:
            notes.append(f"batches of {batch}: {curve.stability.diverges} diverges")
    facts = {name: getattr(stream, name) for name in ("spectrum", "source", "features")} | {"noise": noise}
    many = "" if stream.features is None else f", {stream.features} features"
    return Report(
        "limits",
        f"One pass over fresh data: eigenvalues j^-{stream.spectrum:g}, parameters squared j^{-stream.source:g}"
        f"{many}, noise {noise:g}",
        {"one_pass": facts},
        "curves",
        records,
        {
            "rows per batch": "batch_size",
            "step": lambda record: number(record["step"], 4),
            "critical step": lambda record: number(record["critical_step"], 4),
            f"risk after {stream.steps}": "risk.-1 ± error.-1",
            "spread": "spread.-1",
            "limit": "limit",
        },
        {name: name for name in ("batch_size", "step", "risk", "spread", "error")} | {"step": "steps"},
        series,
        xlabel="steps",
        ylabel="expected risk of a run",
        notes=notes,
    )


# ------------------------------------------------------------------------------------------------------ spectra


def spectrum(
    *,
    aspect: Annotated[float | None, LAW] = None,
    alpha: Annotated[float | None, LAW, also("-a")] = None,
    batches: Annotated[str, LAW, also("-b")] = "1,2",
    expression: Annotated[str | None, LAW, options.HYPHEN, also("-x")] = None,
    law: Annotated[tuple[str, ...], LAW, FLAG, also("-l")] = (),
    moments: Annotated[int, LAW, WHOLE] = 4,
    sample: Annotated[int, LAW, WHOLE] = 0,
    seed: Annotated[int, LAW, WHOLE] = 0,
    outputs: options.OutputOptions = options.TERMINAL,
) -> None:
    """Limiting spectra: of mini-batch descent, or of any expression.

    By default of alpha Z(alpha/B), the matrix that governs mini-batch
    descent on Gaussian data of a shape p / n. Variables of an expression are
    free, and their laws are mp(ratio, variance), sc(variance, mean),
    poisson(rate, jump), projection(rank), bernoulli(probability, low, high),
    arcsine(low, high), uniform(low, high), discrete([points], [weights]),
    wachter(first, second), kesten(degree), affine(law, scale, shift).

    For example:
      reshuffle spectrum --aspect 0.25 --alpha 0.4 --batches 1,2,3
      reshuffle spectrum --expression "x*y + y*x" --law "x=sc(1)" --law "y=sc(1)"

    :param aspect: p / n.
    :param alpha: The full-batch step; each visit takes alpha / B.
    :param batches: Numbers of batches B, separated by commas.
    :param expression: A self-adjoint expression of free variables, instead: + - * / ** and brackets.
    :param law: The law of a variable, such as x=mp(0.5,0.2); once for each.
    :param moments: Number of moments to print.
    :param sample: Also draw a random matrix of this size.
    :param seed: Seed of that matrix.
    """
    render.check(outputs)
    at_least("moments", moments, 1, MOST_MOMENTS)
    if sample:
        at_least("sample", sample, 2, LARGEST_SAMPLE)
    import numpy as np

    from reshuffle import _progress, asymptotics, free, plotting
    from reshuffle.free import parser, plot, progress

    facts: dict[str, Any]
    # Label, colour, number of batches, law and the eigenvalues of a random matrix.
    found: list[tuple[str, str, int | None, Any, FloatArray | None]]
    if expression is not None:
        if aspect is not None or alpha is not None:
            raise ArgumentError(
                "expression", "", "describes a law by itself", "leave out {aspect} and {alpha}"
            )
        progress.display = partial(_progress.ticking, None)
        of, facts = expression, {"expression": expression, "variables": list(law)}
        made: Any = free.spectrum(free.parse(expression, **parser.parse_definitions(law)))
        eigenvalues = np.linalg.eigvalsh(made.matrix(sample, seed)) if sample else None
        found = [(expression, plotting.COLOURS[0], None, made, eigenvalues)]
    else:
        if law:
            raise ArgumentError("law", "", "describes a variable of {expression}, which is not given")
        if aspect is None or alpha is None:
            hint = "give {aspect} and {alpha}, or {expression} with a {law} for each variable"
            raise ArgumentError("spectrum", "", "needs to know of what", hint)
        of, facts = (
            f"alpha Z(alpha/B), p / n = {aspect:g}, alpha = {alpha:g}",
            {"aspect": aspect, "alpha": alpha},
        )
        found = [
            (
                plotting.scheme_label("reshuffling", count),
                plotting.scheme_colour("reshuffling", count),
                count,
                asymptotics.batch_spectrum(aspect, alpha, count),
                _sampled_rates(aspect, alpha, count, sample, seed) if sample else None,
            )
            for count in whole_numbers("batches", batches)
        ]
    points = [plotting.spectrum_points(one) for *_, one, _ in found]
    axes = plotting.spectrum_view(points)
    records, series = [], []
    for (label, colour, count, one, eigenvalues), (t, density) in zip(found, points, strict=True):
        known = ~np.isnan(t)
        records.append(
            {
                "name": label,
                "batches": count,
                "support": one.support,
                "atoms": one.atoms,
                "moments": one.moments(moments),
                "eigenvalue": t[known],
                "density": density[known],
                "sampled_eigenvalues": eigenvalues,
            }
        )
        if t.size:
            # A gap ends where the interval before it does, so that the points ascend; hard edges are cut.
            x = np.maximum.accumulate(np.where(known, t, -np.inf))
            y = np.minimum(plot.heights(t, density, decades=axes.decades), axes.top)
            # Zero has no logarithm; no mass is there that could be drawn.
            x, y = (np.log10(x[x > 0]), y[x > 0]) if axes.decades else (x, y)
            series.append(Series(label, x, y, colour))

    def lines(name: str, form: str) -> Any:
        return lambda record: "\n".join(form.format(*pair) for pair in record[name]) or "none"

    def draw(ax: "Axes") -> None:
        for label, colour, _, one, eigenvalues in found:
            style: dict[str, Any] = {"label": label, "colour": colour, "decades": axes.decades, "ax": ax}
            plotting.spectrum_curve(one, eigenvalues=eigenvalues, **style)
        if axes.top:
            ax.set_ylim(0, 1.2 * axes.top)
        ax.legend(frameon=False, fontsize=9)

    answer = Report(
        "spectrum",
        f"Limiting law of {of}",
        facts,
        "laws",
        records,
        {"support": lines("support", "[{:.6f}, {:.6f}]"), "atoms": lines("atoms", "{1:.6g} at {0:.6g}")}
        | {f"moment {k + 1}": f"moments.{k}" for k in range(moments)},
        {"law": "name", "eigenvalue": "eigenvalue", "density": "density"},
        series,
        xlabel="log10 of the eigenvalue" if axes.decades else "eigenvalue",
        ylabel=axes.ylabel,
        titles=["law" if count is None else label for label, _, count, *_ in found],
        from_zero=True,
        draw=draw,
    )
    render.deliver(answer, outputs)


def _sampled_rates(aspect: float, alpha: float, batches: int, sample: int, seed: int) -> "FloatArray":
    """The eigenvalues of alpha Z of Gaussian data with `sample` features."""
    import numpy as np

    import reshuffle as rs

    problem = rs.gaussian(max(batches, round(sample / aspect)), sample, seed=seed)
    scheme = rs.RandomReshuffling(batches=batches) if batches > 1 else rs.FullBatch()
    rates = rs.Epoch(problem, scheme, alpha / batches).decay_rates
    return np.sort(np.concatenate([rates, np.zeros(sample - len(rates))]))
