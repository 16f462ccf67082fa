"""Inputs as elements of a page: native ones, each with a label, so that keyboards and screen readers know them."""

from functools import singledispatch
from typing import Any, TypeAlias

from htmltools import HTML, Tag, TagList, tags

from reshuffle.page.fields import Choice, Column, Columns, Field, Slider, Switch, Text, Upload, Whole

Attributes: TypeAlias = dict[str, str | float | bool | HTML | None]
ACCEPTED = ".csv,.tsv,.txt,text/csv"


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
    chosen = tags.input(common, type="file", accept=ACCEPTED)
    return TagList(_labelled(field, common), chosen)
