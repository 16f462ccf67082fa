"""The tab on free variables: the law of an expression, with the eigenvalues of one large matrix."""

import keyword
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reshuffle.errors import ArgumentError
from reshuffle.page.answers import Answer, Axis, Chart, Series, Tab, Table, number, numbers
from reshuffle.page.inputs import Number, Text

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
    inputs=(
        Text("expression", "Expression", "x + y - (x*y + y*x)/2", 400,
             help="Self-adjoint: + - * / ** and brackets."),
        Text("laws", "Law of each variable", "x = mp(3, 0.1)\ny = mp(3, 0.1)", 1000, 4,
             help="A line each: mp(ratio, variance), sc(variance), poisson(rate, jump), projection(rank), "
             "bernoulli(probability, low, high), arcsine(low, high), uniform(low, high), wachter(first, second), "
             "kesten(degree), discrete([points], [weights]), affine(law, scale, shift)."),
        Number("size", "Size of the matrix", 300, 20, 800),
        Number("seed", "Its seed", 0, 0, 9999, is_typed=True),
        Number("moments", "Moments", 4, 1, 8),
    ),
    stages=("one_matrix", "law"),
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


def one_matrix(values: Mapping[str, Any], upload: None = None) -> Answer:
    """Return the eigenvalues of a matrix of moderate size, until the law is known."""
    import numpy as np

    from reshuffle import free

    size = min(values["size"], _QUICK_SIZE)
    eigenvalues = np.linalg.eigvalsh(free.spectrum(_expression(values)).matrix(size, values["seed"]))
    low, high = float(eigenvalues.min()), float(eigenvalues.max())
    return Answer(
        f"One matrix of size {size} has eigenvalues from {number(low)} to {number(high)}.",
        _setting(values),
        "A first look, at one matrix; the law takes a little longer.",
        charts=[_chart(values, eigenvalues, None)],
        programs={"The Python lines that compute this": _program(values)},
        is_final=False,
    )


def law(values: Mapping[str, Any], upload: None = None) -> Answer:
    """Return the law: density, edges, atoms and moments, with the eigenvalues of one matrix."""
    import numpy as np

    from reshuffle import free

    found = free.spectrum(_expression(values))
    eigenvalues = np.linalg.eigvalsh(found.matrix(values["size"], values["seed"]))
    moments = found.moments(values["moments"])
    edges = [end for interval in found.support for end in interval]
    places = [*edges, *(place for place, _ in found.atoms)]
    rows = [[f"edge {count}", f"{end:.8g}"] for count, end in enumerate(edges, 1)]
    rows += [[f"atom at {place:.6g}", f"mass {mass:.6g}"] for place, mass in found.atoms]
    rows += [[f"moment {order}", f"{value:.8g}"] for order, value in enumerate(moments, 1)]
    distance = found.compare(values["size"], values["seed"]).distance
    return Answer(
        _sentence(found),
        _setting(values),
        facts={
            "Mean": f"{moments[0]:.6g}",
            "Smallest point": f"{min(places):.6g}",
            "Largest point": f"{max(places):.6g}",
            "Atoms": str(len(found.atoms)) if found.atoms else "none",
            "Farthest from the matrix": number(distance, 2),
        },
        charts=[_chart(values, eigenvalues, found)],
        tables=[Table("Edges, atoms and moments", ["of the law", "value"], rows)],
        programs={"The Python lines that compute this": _program(values)},
    )


def _expression(values: Mapping[str, Any]) -> "Expression":
    """Parse what was typed; nothing of it is run as Python."""
    from reshuffle import free
    from reshuffle.free import parser

    if not values["expression"]:
        raise ArgumentError("Expression", "not be empty", "it is", "try x*y + y*x")
    found = free.parse(values["expression"], **parser.parse_definitions(_definitions(values)))
    degree = max((len(word) for word in found.terms), default=0)
    for what, count, most in (
        ("terms", len(found.terms), MOST_TERMS),
        ("factors per term", degree, HIGHEST_DEGREE),
    ):
        if count > most:
            raise ArgumentError("Expression", f"multiply out to at most {most} {what}", f"it has {count}")
    size = free.linearize(found).size
    if size > LARGEST_PENCIL:
        allowed = f"have a linear pencil of size at most {LARGEST_PENCIL}"
        raise ArgumentError("Expression", allowed, f"it has {size}", "try one of lower degree")
    return found


def _definitions(values: Mapping[str, Any]) -> list[str]:
    return [line.strip() for line in re.split(r"[\n;]", values["laws"]) if line.strip()]


def _setting(values: Mapping[str, Any]) -> str:
    laws = ", ".join(_definitions(values))
    return f"{values['expression']} with {laws}; matrix of size {values['size']}, seed {values['seed']}"


def _sentence(found: "Spectrum") -> str:
    intervals = [f"[{number(low)}, {number(high)}]" for low, high in found.support]
    atoms = [f"a mass of {number(mass)} at {number(place)}" for place, mass in found.atoms]
    where = f"a density on {' and '.join(intervals)}" if intervals else "no density"
    return f"The law has {where}, and {' and '.join(atoms) or 'no atoms'}."


def _chart(values: Mapping[str, Any], eigenvalues: "FloatArray", found: "Spectrum | None") -> Chart:
    """Return the density over the histogram of one matrix, atoms as arrows with their mass."""
    import numpy as np

    from reshuffle import plotting

    atoms = () if found is None else found.atoms
    scale = float(np.abs(eigenvalues).max()) or 1.0
    moving = eigenvalues
    for place, _ in atoms:
        moving = moving[np.abs(moving - place) > 1e-8 * scale]
    counts, cuts = np.histogram(moving, bins=min(60, max(10, len(eigenvalues) // 8)))
    heights = counts / len(eigenvalues) / np.diff(cuts)
    bars = Series(
        "", f"one matrix of size {len(eigenvalues)}", numbers(cuts), numbers(heights), "first", "bars"
    )
    series, top = [bars], float(heights.max(initial=0.0))
    ends = f"from {number(eigenvalues.min())} to {number(eigenvalues.max())}"
    words = f"{len(eigenvalues)} eigenvalues of {values['expression']} {ends}"
    if found is not None:
        t, density = plotting.spectrum_points(found)
        series.append(Series("", "the law", numbers(t), numbers(density), "second", width=2.4))
        of_law = plotting.spectrum_view([(t, density)]).top
        top = max(of_law, min(top, 3 * of_law))
        words += f"; {_sentence(found)[0].lower()}{_sentence(found)[1:-1]}"
    if atoms:
        places, masses = zip(*atoms, strict=True)
        series.append(
            Series("", "atoms, with their mass", numbers(places), numbers(masses), "third", "arrows")
        )
    y = Axis("density", "density", False, 0.0, 1.18 * (top or 1.0))
    return Chart("law", "The law and one matrix", f"{words}.", Axis("eigenvalue", "eigenvalue"), y, series)


def _program(values: Mapping[str, Any]) -> str:
    """Return lines with the expression as it was typed, or parsed from text where a name is Python's own."""
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
