"""The tab on free variables: the law of an expression, with the eigenvalues of one large matrix."""

import keyword
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from reshuffle import free, plotting
from reshuffle.errors import ArgumentError
from reshuffle.free import parser
from reshuffle.page.answers import Axis, Chart, ChartSeries, TabAnswer, TabTable
from reshuffle.page.charts import bars, density_axis, line, number, numbers
from reshuffle.page.tabs import LINES

MOST_TERMS, HIGHEST_DEGREE, LARGEST_PENCIL = 60, 8, 24
_QUICK_SIZE = 200


def answer(values: Mapping[str, Any], stage: int, upload: None = None) -> TabAnswer:
    """Return the eigenvalues of one matrix, of moderate size at stage 0; and after that the law as well."""
    definitions = [text.strip() for text in re.split(r"[\n;]", values["laws"]) if text.strip()]
    found = free.spectrum(_expression(values["expression"], definitions))
    size = values["size"] if stage else min(values["size"], _QUICK_SIZE)
    eigenvalues = np.linalg.eigvalsh(found.matrix(size, values["seed"]))
    atoms = found.atoms if stage else ()
    series = [bars(f"one matrix of size {size}", eigenvalues, "first", [place for place, _ in atoms])]
    ends = f"from {number(eigenvalues.min())} to {number(eigenvalues.max())}"
    words = f"{size} eigenvalues of {values['expression']} {ends}"
    given: dict[str, Any] = {}
    if stage:
        sentence, given = _of_law(found, values)
        words += f"; {sentence[0].lower()}{sentence[1:-1]}"
        series.append(line("the law", *plotting.spectrum_points(found), "second", key="", dash="", width=2.4))
    else:
        sentence = f"One matrix of size {size} has eigenvalues {ends}."
        given = {"note": "A first look, at one matrix; the law takes a little longer.", "is_final": False}
    if atoms:
        places, masses = map(numbers, zip(*atoms, strict=True))
        series.append(ChartSeries("", "atoms, with their mass", places, masses, "third", "arrows"))
    x, y = Axis("eigenvalue", "eigenvalue"), density_axis(series)
    chart = Chart("law", "The law and one matrix", f"{words}.", x, y, series)
    made = f"{values['expression']} with {', '.join(definitions)}"
    setting = f"{made}; matrix of size {values['size']}, seed {values['seed']}"
    return TabAnswer(
        sentence, setting, charts=[chart], programs={LINES: _program(values, definitions)}, **given
    )


def _expression(text: str, definitions: list[str]) -> free.Expression:
    """Parse what was typed; nothing of it is run as Python."""
    if not text:
        raise ArgumentError("Expression", "not be empty", "it is", "try x*y + y*x")
    found = free.parse(text, **parser.parse_definitions(definitions))
    degree = max((len(word) for word in found.terms), default=0)
    for what, size, most in (
        ("terms", len(found.terms), MOST_TERMS),
        ("factors per term", degree, HIGHEST_DEGREE),
    ):
        if size > most:
            raise ArgumentError("Expression", f"multiply out to at most {most} {what}", f"it has {size}")
    size = free.linearize(found).size
    if size > LARGEST_PENCIL:
        allowed = f"have a linear pencil of size at most {LARGEST_PENCIL}"
        raise ArgumentError("Expression", allowed, f"it has {size}", "try one of lower degree")
    return found


def _of_law(found: Any, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the law in a sentence, and its facts and table."""
    moments = found.moments(values["moments"])
    intervals = [f"[{number(low)}, {number(high)}]" for low, high in found.support]
    masses = [f"a mass of {number(mass)} at {number(place)}" for place, mass in found.atoms]
    where = f"a density on {' and '.join(intervals)}" if intervals else "no density"
    edges = [end for interval in found.support for end in interval]
    places = [*edges, *(place for place, _ in found.atoms)]
    rows = [[f"edge {k}", f"{end:.8g}"] for k, end in enumerate(edges, 1)]
    rows += [[f"atom at {place:.6g}", f"mass {mass:.6g}"] for place, mass in found.atoms]
    rows += [[f"moment {k}", f"{value:.8g}"] for k, value in enumerate(moments, 1)]
    facts = {
        "Mean": f"{moments[0]:.6g}",
        "Smallest point": f"{min(places):.6g}",
        "Largest point": f"{max(places):.6g}",
        "Atoms": str(len(found.atoms)) if found.atoms else "none",
        "Farthest from the matrix": number(found.compare(values["size"], values["seed"]).distance, 2),
    }
    table = TabTable("Edges, atoms and moments", ["of the law", "value"], rows)
    return f"The law has {where}, and {' and '.join(masses) or 'no atoms'}.", {
        "facts": facts,
        "tables": [table],
    }


def _program(values: Mapping[str, Any], definitions: list[str]) -> str:
    """Return lines with the expression as it was typed, or parsed from text where a name is Python's own."""
    given = parser.parse_definitions(definitions)
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
