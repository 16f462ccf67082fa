"""Answers as elements of a page. Every text is escaped: names of columns may look like markup, and are not."""

import base64
import csv
import io
import math

from htmltools import HTML, Tag, TagList, tags

from reshuffle.page import drawing
from reshuffle.page.shown import Picture, Shown, Table


def body(shown: Shown, tab: str) -> str:
    """Everything below the sentence."""
    return str(
        TagList(
            tags.p(shown.note, class_="note") if shown.note else None,
            _facts(shown) if shown.facts else None,
            [tags.p(remark, class_="remark") for remark in shown.remarks],
            tags.div([picture(one, tab) for one in shown.pictures], class_="pictures")
            if shown.pictures
            else None,
            [table(one) for one in shown.tables],
            [program(title, text, tab) for title, text in shown.programs.items()],
            program("The Python lines that compute this", shown.python, tab) if shown.python else None,
        )
    )


def _facts(shown: Shown) -> Tag:
    tiles = [tags.div(tags.dt(name), tags.dd(value), class_="fact") for name, value in shown.facts.items()]
    return tags.dl(tiles, class_="facts")


def picture(one: Picture, tab: str) -> Tag:
    """A picture with its title, and links that save it."""
    prefix = f"{tab}-{one.name}-"
    links = [
        tags.a(
            f"Save {kind.upper()}",
            href=_data_address(kind, text),
            download=f"reshuffle-{tab}-{one.name}.{kind}",
            aria_label=f"Save {one.title} as {kind.upper()}",
            id=f"{prefix}{kind}",
        )
        for kind, text in (("svg", one.svg), ("csv", comma_separated(one)))
    ]
    return tags.figure(
        tags.figcaption(one.title),
        HTML(drawing.inline(one.svg, one.words, prefix)),
        tags.p(links, class_="save"),
    )


def table(one: Table) -> Tag:
    """A table with headings for its columns and its rows."""
    head = tags.tr([tags.th(heading, scope="col") for heading in one.headings])
    rows = [
        tags.tr(tags.th(first, scope="row"), [tags.td(cell) for cell in rest]) for first, *rest in one.rows
    ]
    made = tags.table(tags.caption(one.title), tags.thead(head), tags.tbody(rows))
    return tags.div(made, class_="scroll", tabindex="0", role="region", aria_label=one.title)


def program(title: str, text: str, tab: str) -> Tag:
    """A program that can be opened and copied."""
    key = f"{tab}-program-{''.join(sign for sign in title.lower() if sign.isalnum())}"
    return tags.details(
        tags.summary(title),
        tags.button(
            "Copy", type="button", class_="copy", data_copies=f"{key}-text", aria_label=f"Copy: {title}"
        ),
        tags.pre(tags.code(text, id=f"{key}-text"), tabindex="0"),
        id=key,
    )


def comma_separated(one: Picture) -> str:
    """The numbers of a picture as a CSV file; words that a spreadsheet might take for a formula get a quote before.

    >>> print(comma_separated(Picture("a", "", "", "", {"x": [1.0, 2.5], "name": ["b", "=c"]})), end="")
    x,name
    1,b
    2.5,'=c
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_cell(name) for name in one.columns])
    writer.writerows([[_cell(value) for value in row] for row in zip(*one.columns.values(), strict=True)])
    return text.getvalue()


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
    return f"{value:.12g}" if math.isfinite(value) else str(value)


def _data_address(kind: str, text: str) -> str:
    kinds = {"svg": "image/svg+xml", "csv": "text/csv"}
    return f"data:{kinds[kind]};base64,{base64.b64encode(text.encode()).decode()}"
