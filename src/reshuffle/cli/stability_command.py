"""`reshuffle stability`: the largest step that converges, on given data or in the limit."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from reshuffle.cli import data, options, output
from reshuffle.cli.complaints import InputError
from reshuffle.cli.curve_run import UNANSWERED, reason_of
from reshuffle.cli.options import (
    NO_PROBLEM,
    PLAIN,
    TERMINAL,
    OutputOptions,
    ProblemOptions,
    RecipeOptions,
    Schemes,
    Visiting,
)
from reshuffle.cli.output import Answer, uncertain
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

_BATCHES = "1,2,4,8"


def stability(
    *,
    problem: ProblemOptions = NO_PROBLEM,
    aspect: Annotated[
        float | None, Parameter(help="p / n of ever larger data, instead of a problem.")
    ] = None,
    batches: Annotated[
        str | None, Parameter(help=f"Numbers of batches B, separated by commas; else {_BATCHES}.")
    ] = None,
    scheme: Schemes = "reshuffling",
    recipe: RecipeOptions = PLAIN,
    mean_square: Annotated[
        bool,
        Parameter(help="Up to which step runs converge in mean square, not only their mean.", negative=""),
    ] = False,
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
    output.check(outputs, data=problem.data, covariance=problem.covariance)
    names, counts = options.scheme_names(scheme), options.batch_counts(batches, _BATCHES)
    remarks: list[str] = []
    if aspect is not None:
        if problem != NO_PROBLEM or recipe != PLAIN or mean_square:
            raise InputError(
                "--aspect describes ever larger data; leave out the options of a problem and of a recipe."
            )
        found = _in_the_limit(aspect, names, counts)
        where = f"p / n = {aspect:g}, in the proportional limit"
        described: dict[str, Any] = {"aspect": aspect}
    else:
        posed = data.problem(problem)
        n, remarks = posed.problem.n, posed.remarks[:1]
        visitings = options.visitings(scheme, batches, _BATCHES, recipe, n)
        asked = {"momentum": recipe.momentum, "penalty": recipe.penalty, "mean_square": mean_square}
        found = _on_data(posed.problem, visitings, asked)
        where = f"n = {n}, p = {posed.problem.p}"
        described = {"n": n, "p": posed.problem.p, "data": problem.data, "seed": problem.seed}
        described |= {**posed.record(), **asked}
    output.deliver(_answer(where, described, remarks, found), outputs)


@dataclass(frozen=True)
class Threshold:
    """Up to which step a scheme converges, or why that is not known."""

    name: str
    batches: int
    step: float | None
    reason: str = ""

    @property
    def alpha(self) -> float:
        """B times the step."""
        assert self.step is not None
        return self.batches * self.step

    @property
    def error(self) -> float:
        """How far the step may be off: 0 unless it was searched for with drawn orders or approximate means."""
        return float(getattr(self.step, "error", 0.0))

    @property
    def share(self) -> float:
        """That error, relative to the step."""
        return self.error / self.step if self.step else 0.0


def _on_data(problem: Any, visitings: list[Visiting], asked: dict[str, Any]) -> list[Threshold]:
    """One scheme after the other: what cannot be answered says why, unless nothing can."""
    import reshuffle as rs
    from reshuffle._progress import track

    found, failures = [], []
    for visiting in track(visitings, len(visitings), "schemes"):
        try:
            step, reason = rs.critical_step(problem, visiting.scheme, **asked), ""
        except UNANSWERED as error:
            step, reason = None, reason_of(error)
            failures.append(error)
        found.append(Threshold(visiting.name, visiting.batches, step, reason))
    if failures and len(failures) == len(found):
        raise failures[0]
    return found


def _in_the_limit(aspect: float, names: list[str], counts: list[int]) -> list[Threshold]:
    from reshuffle import asymptotics

    for name in names:
        if name not in ("reshuffling", "full-batch"):
            raise InputError(f"--scheme must be reshuffling or full-batch with --aspect, but it is {name!r}.")
    wanted = dict.fromkeys(
        ("full-batch", 1) if name == "full-batch" or count == 1 else (name, count)
        for name in names
        for count in counts
    )
    return [
        Threshold(name, count, asymptotics.critical_alpha(aspect, count) / count) for name, count in wanted
    ]


def _answer(where: str, described: dict[str, Any], remarks: list[str], found: list[Threshold]) -> Answer:
    import numpy as np

    import reshuffle as rs

    known = [one for one in found if one.step is not None]
    families = {name: sorted((one.batches, one.alpha) for one in known if one.name == name) for name in
                dict.fromkeys(one.name for one in known)}  # fmt: skip
    steps = [one.step for one in found]
    alphas = [None if one.step is None else one.alpha for one in found]
    return Answer(
        title=f"{where}{_recipe(described)}: {_what(described)} converges up to",
        remarks=remarks,
        headings=["scheme", "batches", "step", "alpha = B step"],
        rows=[
            [
                one.name,
                str(one.batches),
                *("-" if value is None else uncertain(value, one.share * value) for value in (step, alpha)),
            ]
            for one, step, alpha in zip(found, steps, alphas, strict=True)
        ],
        keys=2,
        data={
            "command": "stability",
            "version": rs.__version__,
            **described,
            "thresholds": [
                {**vars(one), "alpha": alpha, "error": one.error}
                for one, alpha in zip(found, alphas, strict=True)
            ],
        },
        columns={
            "scheme": [one.name for one in found],
            "batches": [one.batches for one in found],
            "step": steps,
            "alpha": alphas,
            "error": [one.error for one in found],
            "reason": [one.reason for one in found],
        },
        draw=lambda: _picture(where, known),
        series=[
            Series(name, *np.array(points, dtype=np.float64).T)
            for name, points in families.items()
            if len(points) > 1
        ],
        xlabel="batches",
        ylabel="largest alpha",
        notes=[f"{one.name}, {one.batches} batches: {one.reason}." for one in found if one.reason]
        + _precision(described, known),
    )


def _what(described: dict[str, Any]) -> str:
    return "the mean square of a run" if described.get("mean_square") else "the mean iterate"


def _recipe(described: dict[str, Any]) -> str:
    return "".join(f", {name} {described[name]:g}" for name in ("momentum", "penalty") if described.get(name))


def _precision(described: dict[str, Any], known: list[Threshold]) -> list[str]:
    """How well the steps are known, where they are not followed rigorously."""
    tried = any(described.get(name) for name in ("momentum", "penalty", "mean_square"))
    if not tried and not any(one.name in ("cyclic", "shuffle-once") for one in known):
        return []
    return [
        "Steps were tried 2% apart, and the first that fails refined: a gap of instability narrower than that "
        "would be missed."
    ]


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
