"""`reshuffle stability`: the largest step that converges, on given data or in the limit."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from reshuffle.cli import data, options, output
from reshuffle.cli.errors import InputError
from reshuffle.cli.options import NO_PROBLEM, TERMINAL, Batches, OutputOptions, ProblemOptions, Schemes
from reshuffle.cli.output import Answer, number
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


def stability(
    *,
    problem: ProblemOptions = NO_PROBLEM,
    aspect: Annotated[
        float | None, Parameter(help="p / n of ever larger data, instead of a problem.")
    ] = None,
    batches: Batches = "1,2,4,8",
    scheme: Schemes = "reshuffling",
    outputs: OutputOptions = TERMINAL,
) -> None:
    """The largest step up to which the mean iterate converges.

    For each scheme and number of batches, on a problem or in the limit.
    alpha is B times the step of a visit: the full-batch step that it stands
    for under linear scaling.

    For example:
      reshuffle stability --n 200 --p 300 --scheme reshuffling,with-replacement
      reshuffle stability --aspect 1.5 --batches 1,2,3,4
    """
    output.check(outputs)
    recipes = options.recipes(scheme, batches)
    if aspect is not None:
        if problem != NO_PROBLEM:
            raise InputError("--aspect describes ever larger data; leave out the options of a problem.")
        found = _in_the_limit(aspect, [(name, count) for name, count, _ in recipes])
        where = f"p / n = {aspect:g}, in the proportional limit"
        described: dict[str, Any] = {"aspect": aspect}
    else:
        posed = data.problem(problem)
        found = _on_data(posed, recipes)
        where = f"n = {posed.n}, p = {posed.p}"
        described = {"n": posed.n, "p": posed.p, "data": problem.data, "seed": problem.seed}
    output.deliver(_answer(where, described, found), outputs)


@dataclass(frozen=True)
class Threshold:
    """Up to which step a scheme converges."""

    name: str
    batches: int
    step: float

    @property
    def alpha(self) -> float:
        """B times the step."""
        return self.batches * self.step


def _on_data(problem: Any, recipes: list[tuple[str, int, Any]]) -> list[Threshold]:
    import reshuffle as rs

    return [Threshold(name, count, rs.critical_step(problem, made)) for name, count, made in recipes]


def _in_the_limit(aspect: float, recipes: list[tuple[str, int]]) -> list[Threshold]:
    from reshuffle import asymptotics

    for name, _ in recipes:
        if name not in ("reshuffling", "full-batch"):
            raise InputError(f"--scheme must be reshuffling or full-batch with --aspect, but it is {name!r}.")
    return [
        Threshold(name, count, asymptotics.critical_alpha(aspect, count) / count) for name, count in recipes
    ]


def _answer(where: str, described: dict[str, Any], found: list[Threshold]) -> Answer:
    import numpy as np

    import reshuffle as rs
    from reshuffle import plotting

    families = list(dict.fromkeys(one.name for one in found))
    return Answer(
        title=f"{where}: converges up to",
        headings=["scheme", "batches", "step", "alpha = B step"],
        rows=[[one.name, str(one.batches), number(one.step), number(one.alpha)] for one in found],
        data={
            "command": "stability",
            "version": rs.__version__,
            **described,
            "thresholds": [{**vars(one), "alpha": one.alpha} for one in found],
        },
        columns={
            "scheme": [one.name for one in found],
            "batches": [one.batches for one in found],
            "step": [one.step for one in found],
            "alpha": [one.alpha for one in found],
        },
        draw=lambda: _picture(where, found),
        series=[
            Series(
                name,
                plotting.SCHEME_COLOURS.get(name, "#000000"),
                np.array([float(one.batches) for one in found if one.name == name]),
                np.array([one.alpha for one in found if one.name == name]),
            )
            for name in families
            if sum(one.name == name for one in found) > 1
        ],
        xlabel="batches",
        ylabel="largest alpha",
    )


def _picture(where: str, found: list[Threshold]) -> "Picture":
    from matplotlib.ticker import MaxNLocator

    from reshuffle import plotting

    picture = plotting.figure(6.4, 4.0)
    ax = picture.add_subplot()
    for name in dict.fromkeys(one.name for one in found):
        colour, label = plotting.SCHEME_COLOURS.get(name, "#000000"), name.replace("-", " ")
        points = sorted((one.batches, one.alpha) for one in found if one.name == name)
        if name == "full-batch":
            ax.axhline(points[0][1], color=colour, linestyle="--", label=label)
            ax.plot(1, points[0][1], "o", markersize=5, color=colour)
            continue
        batches, alphas = zip(*points, strict=True)
        ax.plot(batches, alphas, "o-", markersize=5, color=colour, label=label)
    plotting.plain(ax, "batches", "largest α that converges (step α/B)")
    ax.margins(y=0.15)
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_title(where, fontsize=10)
    ax.legend(frameon=False, fontsize=9)
    return picture
