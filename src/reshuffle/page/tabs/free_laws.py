"""The tab on free variables: the law of an expression, beside the eigenvalues of one large matrix."""

import keyword
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reshuffle.cli import render
from reshuffle.cli.console import InputError
from reshuffle.page import drawing
from reshuffle.page.fields import Text, Whole
from reshuffle.page.tab import Picture, Shown, Stage, Tab, Table

if TYPE_CHECKING:
    from reshuffle._arrays import FloatArray
    from reshuffle.free import Expression, Spectrum

TAB = Tab(
    name="free",
    title="Free",
    question="Which law has this expression of random matrices?",
    lead="Type an expression of free variables and the law of each. The curve is the law of the limit, computed "
    "without any matrix; the bars are the eigenvalues of one.",
    module="free_laws",
    fields=(
        Text("expression", "Expression", "x + y - (x*y + y*x)/2", 400, "Self-adjoint: + - * / ** and brackets."),
        Text("laws", "Law of each variable", "x = mp(3, 0.1)\ny = mp(3, 0.1)", 1000,
             "A line each: mp(ratio, variance), sc(variance), poisson(rate, jump), projection(rank), "
             "bernoulli(probability, low, high), arcsine(low, high), uniform(low, high), wachter(first, second), "
             "kesten(degree), discrete([points], [weights]), affine(law, scale, shift).", lines=4),
        Whole("size", "Size of the matrix", 20, 800, 300),
        Whole("seed", "Its seed", 0, 9999, 0, is_typed=True),
        Whole("moments", "Moments", 1, 8, 4),
    ),
    stages=(Stage("quick", True), Stage("thorough", False)),
    advice="try a shorter expression, or one of lower degree",
    examples={
        "two mini-batches": {},
        "anticommutator": {"expression": "x*y + y*x", "laws": "x = sc(1)\ny = sc(1)"},
        "commutator": {"expression": "1j*(x*y - y*x)", "laws": "x = sc(1)\ny = poisson(1, 1)"},
        "a compression": {"expression": "p*x*p", "laws": "p = projection(0.5)\nx = arcsine(-2, 2)"},
        "a resolvent": {"expression": "(3 + x + y)**-1", "laws": "x = sc(1)\ny = bernoulli(0.5, -1, 1)"},
    },
)  # fmt: skip
MOST_TERMS = 60
HIGHEST_DEGREE = 8
LARGEST_PENCIL = 24
_QUICK_SIZE = 200


def quick(values: Mapping[str, Any], upload: None = None) -> Shown:
    """The eigenvalues of a matrix of moderate size, until the law is known."""
    import numpy as np

    from reshuffle import free

    expression = _expression(values)
    size = min(values["size"], _QUICK_SIZE)
    found = free.spectrum(expression)
    eigenvalues = np.linalg.eigvalsh(found.matrix(size, values["seed"]))
    low, high = float(eigenvalues.min()), float(eigenvalues.max())
    return Shown(
        sentence=f"One matrix of size {size} has eigenvalues from {render.number(low, 4)} to "
        f"{render.number(high, 4)}.",
        setting=_setting(values),
        pictures=[_picture(values, eigenvalues, None)],
        python=_python(values),
        note="A first look, at one matrix; the law takes a little longer.",
    )


def thorough(values: Mapping[str, Any], upload: None = None) -> Shown:
    """The law: density, edges, atoms and moments, with the eigenvalues of one matrix on top."""
    import numpy as np

    from reshuffle import free

    law = free.spectrum(_expression(values))
    eigenvalues = np.linalg.eigvalsh(law.matrix(values["size"], values["seed"]))
    moments = law.moments(values["moments"])
    return Shown(
        sentence=_sentence(law),
        setting=_setting(values),
        pictures=[_picture(values, eigenvalues, law)],
        tables=[_table(law, moments)],
        facts={
            "Mean": f"{moments[0]:.6g}",
            "Smallest point": f"{_ends(law)[0]:.6g}",
            "Largest point": f"{_ends(law)[1]:.6g}",
            "Atoms": str(len(law.atoms)) if law.atoms else "none",
            "Farthest from the matrix": render.number(
                law.compare(values["size"], values["seed"]).distance, 2
            ),
        },
        python=_python(values),
    )


def _expression(values: Mapping[str, Any]) -> "Expression":
    """The expression that was typed; nothing of it is run as Python."""
    from reshuffle import free
    from reshuffle.free import parser

    if not values["expression"]:
        raise InputError("Expression must not be empty; try x*y + y*x.")
    found = free.parse(values["expression"], **parser.parse_definitions(_definitions(values)))
    degree = max((len(word) for word in found.terms), default=0)
    for what, count, most in (
        ("terms", len(found.terms), MOST_TERMS),
        ("factors per term", degree, HIGHEST_DEGREE),
    ):
        if count > most:
            raise InputError(f"Expression must multiply out to at most {most} {what}, but it has {count}.")
    size = free.linearize(found).size
    if size > LARGEST_PENCIL:
        raise InputError(
            f"Expression must have a linear pencil of size at most {LARGEST_PENCIL}, but it has {size}; "
            "try one of lower degree."
        )
    return found


def _definitions(values: Mapping[str, Any]) -> list[str]:
    return [line.strip() for line in re.split(r"[\n;]", values["laws"]) if line.strip()]


def _setting(values: Mapping[str, Any]) -> str:
    laws = ", ".join(_definitions(values))
    return f"{values['expression']} with {laws}; matrix of size {values['size']}, seed {values['seed']}"


def _ends(law: "Spectrum") -> tuple[float, float]:
    """The smallest and the largest point of the law."""
    places = [end for interval in law.support for end in interval] + [place for place, _ in law.atoms]
    return min(places), max(places)


def _sentence(law: "Spectrum") -> str:
    intervals = [f"[{render.number(low, 4)}, {render.number(high, 4)}]" for low, high in law.support]
    atoms = [f"a mass of {render.number(mass, 4)} at {render.number(place, 4)}" for place, mass in law.atoms]
    where = f"a density on {' and '.join(intervals)}" if intervals else "no density"
    return f"The law has {where}, and {' and '.join(atoms) or 'no atoms'}."


def _table(law: "Spectrum", moments: "FloatArray") -> Table:
    rows = [[f"edge {number}", f"{end:.8g}"] for number, end in enumerate(_edges(law), 1)]
    rows += [[f"atom at {place:.6g}", f"mass {mass:.6g}"] for place, mass in law.atoms]
    rows += [[f"moment {order}", f"{value:.8g}"] for order, value in enumerate(moments, 1)]
    return Table("Edges, atoms and moments", ["", "value"], rows)


def _edges(law: "Spectrum") -> Sequence[float]:
    return [end for interval in law.support for end in interval]


def _picture(values: Mapping[str, Any], eigenvalues: "FloatArray", law: "Spectrum | None") -> Picture:
    """The density over the histogram of one matrix, atoms as arrows of their mass."""
    import numpy as np

    from reshuffle import plotting

    ax = drawing.axes("eigenvalue", "density", size=(5.4, 3.5))
    atoms = () if law is None else law.atoms
    scale = float(np.abs(eigenvalues).max()) or 1.0
    moving = eigenvalues
    for place, _ in atoms:
        moving = moving[np.abs(moving - place) > 1e-8 * scale]
    counts, cuts = np.histogram(moving, bins=min(60, max(10, len(eigenvalues) // 8)))
    heights = counts / len(eigenvalues) / np.diff(cuts)
    label = f"one matrix of size {len(eigenvalues)}"
    ax.stairs(heights, cuts, fill=True, color=drawing.FIRST, alpha=0.3, linewidth=0, label=label)
    columns: dict[str, list[float | str]] = {"kind": [], "eigenvalue": [], "density": []}
    _add(columns, label, (cuts[1:] + cuts[:-1]) / 2, heights)
    ends = f"from {render.number(eigenvalues.min(), 4)} to {render.number(eigenvalues.max(), 4)}"
    words = f"{len(eigenvalues)} eigenvalues of {values['expression']} {ends}"
    top = float(heights.max(initial=0.0))
    if law is not None:
        t, density = plotting.spectrum_points(law)
        drawing.line(ax, t, density, "the law", drawing.SECOND, linewidth=2.2)
        _add(columns, "the law", t, density)
        law_top = plotting.spectrum_view([(t, density)]).top
        top = max(law_top, min(top, 3 * law_top))
        words += f"; {_sentence(law)[0].lower()}{_sentence(law)[1:-1]}"
    for place, mass in atoms:
        ax.annotate("", xy=(place, 1.02 * (top or 1.0)), xytext=(place, 0),
                    arrowprops={"arrowstyle": "-|>", "color": drawing.THIRD, "linewidth": 1.6})  # fmt: skip
        ax.annotate(
            render.number(mass, 3),
            (place, 1.05 * (top or 1.0)),
            ha="center",
            color=drawing.THIRD,
            fontsize=10,
        )
    ax.set_ylim(0, 1.18 * (top or 1.0))
    ax.margins(x=0.06)
    drawing.legend(ax)
    return Picture("law", "The law and one matrix", drawing.document(ax), f"{words}.", columns)


def _add(columns: dict[str, list[float | str]], kind: str, x: "FloatArray", y: "FloatArray") -> None:
    import numpy as np

    kept = np.isfinite(x)
    columns["kind"] += [kind] * int(kept.sum())
    columns["eigenvalue"] += x[kept].tolist()
    columns["density"] += y[kept].tolist()


def _python(values: Mapping[str, Any]) -> str:
    """Lines in Python's own words where these are what was typed; else those that read it as this page does."""
    from reshuffle import free
    from reshuffle.free import parser

    given = parser.parse_definitions(_definitions(values))
    kinds = "|".join(name for name in free.__all__ if name[0].isupper())
    laws = {name: re.sub(rf"\b({kinds})\(", r"free.\1(", repr(one)) for name, one in given.items()}
    if any(keyword.iskeyword(name) or name in ("free", "law") for name in given):
        named = ", ".join(f"{name!r}: {law}" for name, law in laws.items())
        made = f"\nexpression = free.parse({values['expression']!r}, **{{{named}}})\n"
    else:
        text = values["expression"].replace("^", "**")
        # With a comma after the last name, one variable is unpacked as well.
        made = f"\n{', '.join(given)}, = free.variables({', '.join(laws.values())}, names={list(given)!r})\n"
        made += f"expression = {text}\n"
    return (
        f"from reshuffle import free\n{made}law = free.spectrum(expression)\n"
        f"print(law.support, law.atoms, law.moments({values['moments']}))\n"
        f"compared = law.compare({values['size']}, seed={values['seed']})  # one matrix beside it\n"
    )
