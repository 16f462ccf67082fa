"""Inputs and answers as elements of a page: native ones with labels, for all who read it; every text is escaped."""

import base64
import csv
import io
import math
from functools import singledispatch
from typing import Any, TypeAlias

from htmltools import HTML, Tag, TagList, tags

from reshuffle.page import drawing
from reshuffle.page.fields import Choice, Column, Columns, Field, Slider, Switch, Text, Upload, Whole
from reshuffle.page.tab import Picture, Shown, Table

Attributes: TypeAlias = dict[str, str | float | bool | HTML | None]
_ACCEPTED = ".csv,.tsv,.txt,text/csv"


def entry(tab: str, field: Field, value: Any) -> Tag:
    """One field with its label, its explanation and its value."""
    key = f"{tab}.{field.name}"
    common: Attributes = {"id": key, "name": key, "data-key": key, "data-default": field.write(field.default)}
    help_text = getattr(field, "help", "")
    if help_text:
        common["aria-describedby"] = f"{key}.help"
    note = tags.p(help_text, id=f"{key}.help", class_="help") if help_text else None
    return tags.div(_input(field, common, value), note, class_="field")


@singledispatch
def _input(field: Field, common: Attributes, value: Any) -> TagList:
    raise NotImplementedError(f"no input for {field!r}")


def _labelled(field: Field, common: Attributes, *after: Any) -> Tag:
    return tags.div(tags.label(field.label, for_=common["id"]), *after, class_="label")


def _range(field: Slider | Whole, common: Attributes, value: Any, step: str) -> TagList:
    text = field.write(value)
    shown = tags.output(text, for_=common["id"], class_="value")
    bounds: Attributes = {"min": f"{field.low:g}", "max": f"{field.high:g}", "step": step}
    return TagList(_labelled(field, common, shown), tags.input(common, bounds, type="range", value=text))


@_input.register
def _(field: Slider, common: Attributes, value: Any) -> TagList:
    return _range(field, common, value, f"{field.step:g}")


@_input.register
def _(field: Whole, common: Attributes, value: Any) -> TagList:
    if not field.is_typed:
        return _range(field, common, value, "1")
    bounds: Attributes = {"min": str(field.low), "max": str(field.high), "step": "1", "inputmode": "numeric"}
    made = tags.input(common, bounds, type="number", value=field.write(value), required="")
    return TagList(_labelled(field, common), made)


@_input.register
def _(field: Choice, common: Attributes, value: Any) -> TagList:
    options = [
        tags.option(words, value=name, selected="" if name == value else None)
        for name, words in field.options.items()
    ]
    return TagList(_labelled(field, common), tags.select(common, *options))


@_input.register
def _(field: Switch, common: Attributes, value: Any) -> TagList:
    box = tags.input(common, type="checkbox", checked="" if value else None, class_="switch")
    return TagList(tags.div(box, tags.label(field.label, for_=common["id"]), class_="label check"))


@_input.register
def _(field: Text, common: Attributes, value: Any) -> TagList:
    plain: Attributes = {
        "spellcheck": "false",
        "autocomplete": "off",
        "autocapitalize": "off",
        "maxlength": str(field.longest),
    }
    if field.lines > 1:
        return TagList(_labelled(field, common), tags.textarea(common, plain, value, rows=str(field.lines)))
    return TagList(_labelled(field, common), tags.input(common, plain, type="text", value=value))


@_input.register
def _(field: Column, common: Attributes, value: Any) -> TagList:
    options = [tags.option(value or "the last column", value=value, selected="")]
    return TagList(_labelled(field, common), tags.select(common, {"data-column": ""}, *options))


@_input.register
def _(field: Columns, common: Attributes, value: Any) -> TagList:
    boxes = tags.div(class_="boxes", id=f"{common['id']}.boxes")
    kept = tags.input(common, type="hidden", value=field.write(value))
    listed = tags.details(
        tags.summary(field.label), tags.fieldset(tags.legend(field.label, class_="unseen"), boxes)
    )
    return TagList(kept, listed)


@_input.register
def _(field: Upload, common: Attributes, value: Any) -> TagList:
    chosen = tags.input(common, type="file", accept=_ACCEPTED)
    return TagList(_labelled(field, common), chosen)


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
