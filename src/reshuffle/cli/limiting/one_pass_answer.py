"""`reshuffle limits --one-pass`: a stream of fresh data with a power-law spectrum."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from reshuffle.cli.complaints import InputError
from reshuffle.cli.options import whole_number, whole_numbers
from reshuffle.cli.output import Answer, number, uncertain
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from reshuffle._arrays import FloatArray
    from reshuffle.asymptotics import OnePass

_POINTS = 200


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """The stream that --one-pass asks about."""

    spectrum: Annotated[float, Parameter(help="With --one-pass: eigenvalues j^-SPECTRUM of Sigma.")] = 1.5
    source: Annotated[
        float,
        Parameter(help="With --one-pass: squares j^-SOURCE of the parameters.", allow_leading_hyphen=True),
    ] = 0.5
    features: Annotated[
        int | None, Parameter(help="With --one-pass: how many; else no end.", converter=whole_number)
    ] = None
    batch_size: Annotated[str, Parameter(help="With --one-pass: rows of a batch, separated by commas.")] = (
        "1,16,256"
    )
    step_size: Annotated[
        float | None, Parameter(help="With --one-pass: of every batch; else half the critical one.")
    ] = None
    steps: Annotated[int, Parameter(help="With --one-pass: how many.", converter=whole_number)] = 10_000
    momentum: Annotated[float, Parameter(help="With --one-pass: torch's.")] = 0.0


PLAIN_STREAM = StreamOptions()


def one_pass_answer(asked: StreamOptions, noise: float) -> Answer:
    """The risk along one pass for every batch size."""
    import numpy as np

    from reshuffle import asymptotics

    if asked.steps < 1:
        raise InputError(f"--steps must be a whole number of at least 1, but it is {asked.steps}.")
    size = math.inf if asked.features is None else asked.features
    laws = asymptotics.PowerLaw(asked.spectrum, size), asymptotics.PowerLaw(asked.source, size)
    when = np.unique(np.round(np.concatenate([[0.0], np.geomspace(1, asked.steps, _POINTS)])))
    ask: dict[str, Any] = {"noise": noise, "momentum": asked.momentum}
    found: dict[int, tuple[float, OnePass]] = {}
    for batch in whole_numbers("--batch-size", asked.batch_size):
        step = asked.step_size
        if step is None:
            step = asymptotics.one_pass(*laws, batch, 1e-9, 0, **ask).stability.critical_step / 2
        found[batch] = step, asymptotics.one_pass(*laws, batch, step, when, **ask)
    return _answer(asked, noise, when, found)


def _answer(
    asked: StreamOptions, noise: float, when: "FloatArray", found: "dict[int, tuple[float, OnePass]]"
) -> Answer:
    import numpy as np

    import reshuffle as rs

    stream = {"spectrum": asked.spectrum, "source": asked.source, "features": asked.features, "noise": noise}
    curves = [
        {
            "batch_size": batch,
            "step": step,
            "converges": curve.converges,
            "critical_step": curve.stability.critical_step,
            "kappa": curve.stability.kappa,
            "diverges": curve.stability.diverges,
            "limit": curve.limit,
            "steps": when,
            "risk": curve.risk,
            "spread": curve.spread,
            "error": curve.error,
            "error_kind": curve.error_kind,
        }
        for batch, (step, curve) in found.items()
    ]
    many = "" if asked.features is None else f", {asked.features} features"
    return Answer(
        title=f"One pass over fresh data: eigenvalues j^-{asked.spectrum:g}, parameters squared j^{-asked.source:g}"
        f"{many}, noise {noise:g}",
        headings=["rows per batch", "step", "critical step", f"risk after {asked.steps}", "spread", "limit"],
        rows=[
            [
                str(batch),
                number(step, 4),
                number(curve.stability.critical_step, 4),
                uncertain(float(curve.risk[-1]), float(curve.error[-1])),
                number(float(curve.spread[-1])),
                number(curve.limit),
            ]
            for batch, (step, curve) in found.items()
        ],
        data={"command": "limits", "version": rs.__version__, "one_pass": stream, "curves": curves},
        columns={
            "batch_size": np.repeat(list(found), len(when)),
            "step": np.tile(when.astype(np.int64), len(found)),
            "risk": np.concatenate([curve.risk for _, curve in found.values()]),
            "spread": np.concatenate([curve.spread for _, curve in found.values()]),
            "error": np.concatenate([curve.error for _, curve in found.values()]),
        },
        draw=lambda: _picture(when, found),
        series=[Series(_label(batch), when, curve.risk) for batch, (_, curve) in found.items()],
        xlabel="steps",
        ylabel="expected risk of a run",
        notes=[
            f"batches of {batch}: {curve.stability.diverges} diverges"
            for batch, (_, curve) in found.items()
            if curve.stability.diverges
        ],
        far=True,
    )


def _label(batch: int) -> str:
    return "1 row per batch" if batch == 1 else f"{batch} rows per batch"


def _picture(when: "FloatArray", found: "dict[int, tuple[float, OnePass]]") -> "Picture":
    from reshuffle import plotting

    picture = plotting.figure(6.8, 4.2)
    ax = picture.add_subplot()
    for colour, (batch, (_, curve)) in zip(plotting.COLOURS * 20, found.items(), strict=False):
        shown = (when > 0) & (curve.risk < math.inf)
        ax.plot(when[shown], curve.risk[shown], color=colour, label=_label(batch), linewidth=1.6)
        if math.isfinite(curve.limit) and curve.limit > 0:
            ax.axhline(curve.limit, color=colour, linestyle=":", linewidth=0.8)
    plotting.plain(ax, "steps", "expected risk of a run")
    ax.set(xscale="log", yscale="log")
    ax.legend(frameon=False, fontsize=9)
    return picture
