"""`reshuffle spectrum`: limiting laws of mini-batch descent, or of any expression of free variables."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from reshuffle.cli import options, output
from reshuffle.cli.complaints import InputError
from reshuffle.cli.options import TERMINAL, Batches, OutputOptions
from reshuffle.cli.output import Answer, number
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from reshuffle._arrays import FloatArray
    from reshuffle.free.plot import View

MOST_MOMENTS = 12
LARGEST_SAMPLE = 4000


def spectrum(
    *,
    aspect: Annotated[float | None, Parameter(help="p / n.")] = None,
    alpha: Annotated[float | None, Parameter(help="The full-batch step; each visit takes alpha / B.")] = None,
    batches: Batches = "1,2",
    expression: Annotated[
        str | None,
        Parameter(
            help="A self-adjoint expression of free variables: + - * / ** and brackets.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    law: Annotated[
        tuple[str, ...],
        Parameter(help="The law of a variable, such as x=mp(0.5,0.2); once for each.", negative=""),
    ] = (),
    moments: Annotated[int, Parameter(help="How many moments to give.", converter=options.whole_number)] = 4,
    sample: Annotated[
        int,
        Parameter(
            help="Also draw a random matrix of this size beside the law.", converter=options.whole_number
        ),
    ] = 0,
    seed: Annotated[int, Parameter(help="Of that matrix.", converter=options.whole_number)] = 0,
    outputs: OutputOptions = TERMINAL,
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
    """
    output.check(outputs)
    if not 1 <= moments <= MOST_MOMENTS:
        raise InputError(
            f"--moments must be a whole number between 1 and {MOST_MOMENTS}, but it is {moments}."
        )
    if sample and not 2 <= sample <= LARGEST_SAMPLE:
        raise InputError(
            f"--sample must be a whole number between 2 and {LARGEST_SAMPLE}, but it is {sample}."
        )
    if expression is not None:
        if aspect is not None or alpha is not None:
            raise InputError("--expression describes a law by itself; leave out --aspect and --alpha.")
        found = [_of_expression(expression, law, moments, sample, seed)]
        described: dict[str, Any] = {"expression": expression, "variables": list(law)}
    else:
        if law:
            raise InputError("--law describes a variable of --expression, which is not given.")
        if aspect is None or alpha is None:
            raise InputError("give --aspect and --alpha, or --expression with a --law for each variable.")
        counts = options.whole_numbers("--batches", batches)
        found = [_of_batches(aspect, alpha, count, moments, sample, seed) for count in counts]
        described = {"aspect": aspect, "alpha": alpha}
    output.deliver(_answer(described, found), outputs)


@dataclass(frozen=True, eq=False)
class Found:
    """A law and what is shown of it."""

    label: str
    colour: str
    batches: int | None
    law: Any
    t: "FloatArray"
    density: "FloatArray"
    moments: "FloatArray"
    eigenvalues: "FloatArray | None"


def _of_expression(text: str, definitions: tuple[str, ...], moments: int, sample: int, seed: int) -> Found:
    import numpy as np

    from reshuffle import _progress, free, plotting
    from reshuffle.free import parser, progress

    progress.display = partial(_progress.ticking, None)
    law = free.spectrum(free.parse(text, **parser.parse_definitions(definitions)))
    eigenvalues = np.linalg.eigvalsh(law.matrix(sample, seed)) if sample else None
    t, density = plotting.spectrum_points(law)
    return Found(text, plotting.COLOURS[0], None, law, t, density, law.moments(moments), eigenvalues)


def _of_batches(aspect: float, alpha: float, batches: int, moments: int, sample: int, seed: int) -> Found:
    from reshuffle import asymptotics, plotting

    law = asymptotics.batch_spectrum(aspect, alpha, batches)
    t, density = plotting.spectrum_points(law)
    return Found(
        label=plotting.scheme_label("reshuffling", batches),
        colour=plotting.scheme_colour("reshuffling", batches),
        batches=batches,
        law=law,
        t=t,
        density=density,
        moments=law.moments(moments),
        eigenvalues=_sampled(aspect, alpha, batches, sample, seed) if sample else None,
    )


def _sampled(aspect: float, alpha: float, batches: int, size: int, seed: int) -> "FloatArray":
    """The eigenvalues of alpha Z of Gaussian data with `size` features."""
    import numpy as np

    import reshuffle as rs

    n = max(batches, round(size / aspect))
    scheme = rs.RandomReshuffling(batches=batches) if batches > 1 else rs.FullBatch()
    decay_rates = rs.Epoch(rs.gaussian(n, size, seed=seed), scheme, alpha / batches).decay_rates
    return np.sort(np.concatenate([decay_rates, np.zeros(size - len(decay_rates))]))


def _answer(described: dict[str, Any], found: list[Found]) -> Answer:
    import numpy as np

    import reshuffle as rs
    from reshuffle.free.plot import view

    of = described.get("expression") or "alpha Z(alpha/B), p / n = {aspect:g}, alpha = {alpha:g}".format_map(
        described
    )
    kept = [~np.isnan(one.t) for one in found]
    axes = view([(one.t, one.density) for one in found])
    return Answer(
        title=f"Limiting law of {of}",
        headings=["", *("" if one.batches is None else one.label for one in found)],
        rows=_rows(found),
        data={
            "command": "spectrum",
            "version": rs.__version__,
            **described,
            "laws": [_record(one) for one in found],
        },
        columns={
            "law": [one.label for one, keep in zip(found, kept, strict=True) for _ in range(keep.sum())],
            "eigenvalue": np.concatenate([one.t[keep] for one, keep in zip(found, kept, strict=True)]),
            "density": np.concatenate([one.density[keep] for one, keep in zip(found, kept, strict=True)]),
        },
        draw=lambda: _picture(found, axes),
        series=[Series(one.label, *_drawn(one, axes)) for one in found if one.t.size],
        xlabel="log10 of the eigenvalue" if axes.decades else "eigenvalue",
        ylabel=axes.ylabel,
        from_zero=True,
    )


def _rows(found: list[Found]) -> list[list[str]]:
    """A column per law; a line each for support, atoms and moments."""
    support = [
        "\n".join(f"[{low:.6f}, {high:.6f}]" for low, high in one.law.support) or "none" for one in found
    ]
    atoms = [
        "\n".join(f"{mass:.6g} at {place:.6g}" for place, mass in one.law.atoms) or "none" for one in found
    ]
    moments = [
        [f"moment {order + 1}", *(number(float(one.moments[order])) for one in found)]
        for order in range(len(found[0].moments))
    ]
    return [["support", *support], ["atoms", *atoms], *moments]


def _drawn(one: Found, axes: "View") -> tuple["FloatArray", "FloatArray"]:
    """The curve with gaps between intervals, cut where a hard edge goes to infinity."""
    import numpy as np

    from reshuffle.free.plot import heights

    # A gap ends where the interval before it does, so that the points ascend.
    x = np.maximum.accumulate(np.where(np.isnan(one.t), -np.inf, one.t))
    y = np.minimum(heights(one.t, one.density, decades=axes.decades), axes.top)
    # Zero has no logarithm; no mass is there that could be drawn.
    shown = x > 0 if axes.decades else np.full(len(x), True)
    return (np.log10(x[shown]) if axes.decades else x), y[shown]


def _record(one: Found) -> dict[str, Any]:
    return {
        "name": one.label,
        "batches": one.batches,
        "support": one.law.support,
        "atoms": one.law.atoms,
        "moments": one.moments,
        "eigenvalue": [t for t in one.t if t == t],
        "density": [y for t, y in zip(one.t, one.density, strict=True) if t == t],
        "sampled_eigenvalues": one.eigenvalues,
    }


def _picture(found: list[Found], axes: "View") -> "Picture":
    from reshuffle import plotting

    picture = plotting.figure(6.8, 4.2)
    ax = picture.add_subplot()
    for one in found:
        style: dict[str, Any] = {"colour": one.colour, "decades": axes.decades, "ax": ax}
        plotting.spectrum_curve(one.law, label=one.label, eigenvalues=one.eigenvalues, **style)
    if axes.top:
        ax.set_ylim(0, 1.2 * axes.top)
    ax.legend(frameon=False, fontsize=9)
    return picture
