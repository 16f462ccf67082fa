"""Inputs of a tab: bounds, a check of every value that arrives, and the element that Shiny's bindings read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from htmltools import HTML, Tag, TagList, tags

from reshuffle.errors import ArgumentError

LONGEST_NAME = 500
"""Characters of the name of a column."""
MOST_NAMES = 1000
Attributes: TypeAlias = dict[str, str | float | bool | HTML | None]


@dataclass(frozen=True)
class Input:
    """One input of a tab; its value is what JSON can hold, in the address and on the way to the server."""

    name: str
    label: str
    default: Any
    help: str = field(default="", kw_only=True)
    is_bookmarked: ClassVar[bool] = True

    def check(self, value: Any) -> Any:
        """Return the value as the tab takes it; raise ArgumentError for one that is not allowed."""
        raise NotImplementedError

    def element(self, attributes: Attributes, value: Any) -> Tag:
        """Return the native element; `attributes` are those that all inputs have."""
        raise NotImplementedError

    def update(self, key: str, value: Any, names: Sequence[str], chosen: str) -> dict[str, Any]:
        """Return what Shiny's binding in the browser is sent to take a value, and to offer names of columns."""
        return {"value": value}

    def refuse(self, allowed: str, value: Any) -> ArgumentError:
        """Return the error for a value, quoted in short."""
        text = repr(value)
        return ArgumentError(
            self.label, f"be {allowed}", f"it is {text if len(text) <= 40 else text[:40] + '...'}"
        )


@dataclass(frozen=True)
class Number(Input):
    """A number between two bounds in steps, on a slider or typed; a step of 1 makes it a whole number.

    >>> shape = Number("aspect", "p / n", 1.5, 0.1, 4.0, 0.1)
    >>> shape.check(0.30001)
    0.3
    >>> shape.check(7)
    Traceback (most recent call last):
    ...
    reshuffle.errors.ArgumentError: p / n must be a number between 0.1 and 4, but it is 7.
    """

    low: float
    high: float
    step: float = 1
    is_typed: bool = False

    def check(self, value: Any) -> float:
        """Return the number, moved to the nearest step: twelve digits of it, so that 3 times 0.1 is 0.3."""
        is_whole = self.step == 1
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not self.low <= value <= self.high or (is_whole and value != int(value)):
            kind = "whole number" if is_whole else "number"
            raise self.refuse(f"a {kind} between {self.low:g} and {self.high:g}", value)
        if is_whole:
            return int(value)
        count = round((value - self.low) / self.step)
        if self.low + count * self.step > self.high * (1 + 1e-12):
            count -= 1
        return float(f"{self.low + count * self.step:.12g}")

    def element(self, attributes: Attributes, value: Any) -> Tag:
        """Return a slider, or a field for a number."""
        bounds: Attributes = {"min": f"{self.low:g}", "max": f"{self.high:g}", "step": f"{self.step:g}"}
        kind: Attributes = {"type": "range"}
        if self.is_typed:
            kind = {"type": "number", "inputmode": "numeric"}
        return tags.input(attributes, bounds, kind, value=f"{value:.12g}")


@dataclass(frozen=True)
class Choice(Input):
    """One of a few values, with words for each."""

    options: Mapping[str, str]

    def check(self, value: Any) -> str:
        """Return the value if it is one of them."""
        if not isinstance(value, str) or value not in self.options:
            raise self.refuse(f"one of {', '.join(self.options)}", value)
        return value

    def element(self, attributes: Attributes, value: Any) -> Tag:
        """Return a list to choose from."""
        options = [
            tags.option(words, value=name, selected="" if name == value else None)
            for name, words in self.options.items()
        ]
        return tags.select(attributes, *options)


@dataclass(frozen=True)
class Switch(Input):
    """Yes or no."""

    def check(self, value: Any) -> bool:
        """Return the value."""
        if not isinstance(value, bool):
            raise self.refuse("true or false", value)
        return value

    def element(self, attributes: Attributes, value: Any) -> Tag:
        """Return a box to tick."""
        return tags.input(attributes, type="checkbox", checked="" if value else None)


@dataclass(frozen=True)
class Text(Input):
    """Typed text, in one line or several."""

    longest: int
    lines: int = 1

    def check(self, value: Any) -> str:
        """Return the text without blanks around it."""
        if not isinstance(value, str) or len(value) > self.longest:
            raise self.refuse(f"a text of at most {self.longest} characters", value)
        if not all(sign.isprintable() or sign == "\n" for sign in value):
            raise self.refuse("a text of signs that can be printed", value)
        return value.strip()

    def element(self, attributes: Attributes, value: Any) -> Tag:
        """Return a field for text; browsers are not to correct it."""
        plain: Attributes = {"spellcheck": "false", "autocomplete": "off", "autocapitalize": "off"}
        plain["maxlength"] = str(self.longest)
        if self.lines > 1:
            return tags.textarea(attributes, plain, value, rows=str(self.lines))
        return tags.input(attributes, plain, type="text", value=value)


@dataclass(frozen=True)
class Column(Input):
    """The name of a column, empty for the one that the data suggest; the answer brings the options."""

    default: Any = ""

    def check(self, value: Any) -> str:
        """Return any name: only the data know whether there is such a column."""
        if not isinstance(value, str) or len(value) > LONGEST_NAME:
            raise self.refuse(f"a name of at most {LONGEST_NAME} characters", value)
        return value

    def element(self, attributes: Attributes, value: Any) -> Tag:
        """Return a list that holds what is chosen now."""
        return tags.select(attributes, tags.option(value or "the last column", value=value, selected=""))

    def update(self, key: str, value: Any, names: Sequence[str], chosen: str) -> dict[str, Any]:
        """Return the names with the chosen one among them, whose value is empty where the data suggest it."""
        chosen = chosen or "the last column"
        names = names if chosen in names else [chosen, *names]
        options = [tags.option(name, value=value if name == chosen else name) for name in names]
        return {"options": str(TagList(options)), "value": value}


@dataclass(frozen=True)
class Columns(Input):
    """Names of several columns, ticked in a list; the answer brings the list."""

    default: Any = ()

    def check(self, value: Any) -> tuple[str, ...]:
        """Return the names, each once."""
        # Shiny has no value for a group of boxes none of which is ticked.
        names = value if isinstance(value, list | tuple) else [] if value is None else [value]
        if len(names) > MOST_NAMES or not all(
            isinstance(name, str) and len(name) <= LONGEST_NAME for name in names
        ):
            raise self.refuse(f"at most {MOST_NAMES} names of at most {LONGEST_NAME} characters", value)
        return tuple(dict.fromkeys(names))

    def element(self, attributes: Attributes, value: Any) -> Tag:
        """Return boxes to tick behind a heading, in the form that Shiny's binding for groups of boxes reads."""
        group = tags.div(
            attributes,
            self._boxes(str(attributes["id"]), value, value),
            class_="shiny-input-checkboxgroup",
            role="group",
            aria_label=self.label,
        )
        return tags.details(tags.summary(self.label), group)

    def update(self, key: str, value: Any, names: Sequence[str], chosen: str) -> dict[str, Any]:
        """Return boxes for all names."""
        return {"options": str(self._boxes(key, names, value)), "value": list(value)}

    @staticmethod
    def _boxes(key: str, names: Sequence[str], ticked: Sequence[str]) -> Tag:
        boxes = [
            tags.input(type="checkbox", name=key, value=name, checked="" if name in ticked else None)
            for name in names
        ]
        labels = [tags.label(box, tags.span(name)) for box, name in zip(boxes, names, strict=True)]
        return tags.div(labels, class_="shiny-options-group")


@dataclass(frozen=True)
class Upload(Input):
    """A file; it is no part of any address."""

    default: Any = None
    is_bookmarked: ClassVar[bool] = False

    def check(self, value: Any) -> None:
        """Return nothing: the server hands the path of the file to the tab by itself."""

    def element(self, attributes: Attributes, value: Any) -> Tag:
        """Return a field for a file; Shiny's binding sends it as soon as it is chosen."""
        bar = tags.div(tags.div(class_="progress-bar"), id=f"{attributes['id']}_progress")
        bar.add_class("shiny-file-input-progress")
        return tags.div(tags.input(attributes, type="file", accept=".csv,.tsv,.txt,text/csv"), bar)


def entry(tab: str, one: Input, value: Any) -> Tag:
    """Return an input with its label and its explanation, as part of a form."""
    key = f"{tab}_{one.name}"
    attributes: Attributes = {"id": key}
    if one.help:
        attributes["aria-describedby"] = f"{key}_help"
    label = tags.label(one.label, for_=key, id=f"{key}_label")
    made = one.element(attributes, value)
    if isinstance(one, Switch):
        shown = TagList(tags.div(made, label, class_="label check"))
    elif isinstance(one, Columns):
        shown = TagList(made)
    else:
        value_shown = tags.output(f"{value:.12g}", for_=key) if _is_slider(one) else None
        shown = TagList(tags.div(label, value_shown, class_="label"), made)
    note = tags.p(one.help, id=f"{key}_help", class_="help") if one.help else None
    return tags.div(shown, note, class_="field")


def _is_slider(one: Input) -> bool:
    return isinstance(one, Number) and not one.is_typed


def read(inputs: Sequence[Input], given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the values of all inputs, and what is wrong with those that are refused; these have their defaults.

    >>> read([Switch("sure", "Sure", False)], {"sure": "maybe"})
    ({'sure': False}, ["Sure must be true or false, but it is 'maybe'."])
    """
    values: dict[str, Any] = {}
    errors = []
    for one in inputs:
        values[one.name] = one.default
        if one.name in given:
            try:
                values[one.name] = one.check(given[one.name])
            except ArgumentError as error:
                errors.append(str(error))
    return values, errors
