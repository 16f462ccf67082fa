"""Inputs of a tab: bounds, a check of every value that arrives, and the element that Shiny's bindings read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from htmltools import HTML, Tag, TagAttrValue, TagList, tags

from reshuffle.errors import ArgumentError

LARGEST_FILE = 20 << 20
"""Bytes of a file that is sent."""
LONGEST_NAME, MOST_NAMES = 500, 1000
"""Characters of the name of a column, and names in a list."""
_LAST = "the last column"


@dataclass(frozen=True)
class Input:
    """One input of a tab; its value is what JSON can hold, in the address and on the way to the server.

    Attributes
    ----------
    name, label, help : str
    default : object
    kind : str
        A "range" is a slider, a "number" is typed; "column" is the name of one, empty for the one that the data
        suggest, and "columns" several, for which the answer brings the list; a "file" is no part of any address.
    low, high, step : float
        Bounds of a number; a step of 1 makes it a whole number.
    options : dict
        Values to select from, with words for each.
    longest, lines : int
        Characters of a text at most, and lines of its field.

    >>> shape = Input("aspect", "p / n", 1.5, "range", 0.1, 4.0, 0.1)
    >>> shape.check(0.30001)
    0.3
    >>> shape.check(7)
    Traceback (most recent call last):
    ...
    reshuffle.errors.ArgumentError: p / n must be a number between 0.1 and 4, but it is 7.
    """

    name: str
    label: str
    default: Any
    kind: Literal["range", "number", "select", "checkbox", "text", "column", "columns", "file"]
    low: float = 0.0
    high: float = 0.0
    step: float = 1
    options: Mapping[str, str] = field(default_factory=dict)
    longest: int = LONGEST_NAME
    lines: int = 1
    help: str = ""

    def check(self, value: Any) -> Any:
        """Return the value as the tab takes it; raise ArgumentError for one that is not allowed."""
        is_text = isinstance(value, str) and len(value) <= self.longest
        is_whole = self.step == 1
        match self.kind:
            case "range" | "number":
                allowed = f"a {'whole ' * is_whole}number between {self.low:g} and {self.high:g}"
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                is_fine = (
                    is_number and self.low <= value <= self.high and (not is_whole or value == int(value))
                )
            case "select":
                allowed = f"one of {', '.join(self.options)}"
                is_fine = is_text and value in self.options
            case "checkbox":
                allowed, is_fine = "true or false", isinstance(value, bool)
            case "columns":
                # Shiny has no value for a group of boxes none of which is ticked.
                value = value if isinstance(value, list | tuple) else [] if value is None else [value]
                allowed = f"at most {MOST_NAMES} names of at most {self.longest} characters"
                is_short = all(isinstance(name, str) and len(name) <= self.longest for name in value)
                is_fine = is_short and len(value) <= MOST_NAMES
            case _:
                allowed = f"a text of at most {self.longest} characters that can be printed"
                is_plain = is_text and all(sign.isprintable() or sign == "\n" for sign in value)
                is_fine = is_text if self.kind == "column" else is_plain
        if not is_fine:
            text = repr(value)
            given = text if len(text) <= 40 else f"{text[:40]}..."
            raise ArgumentError(self.label, f"be {allowed}", f"it is {given}")
        if self.kind == "columns":
            return tuple(dict.fromkeys(value))
        if self.kind not in ("range", "number"):
            return value.strip() if self.kind == "text" else value
        last = int((self.high - self.low) / self.step * (1 + 1e-12))
        nearest = self.low + min(round((value - self.low) / self.step), last) * self.step
        # Twelve digits, so that 3 times 0.1 is 0.3.
        return int(value) if is_whole else float(f"{nearest:.12g}")

    def element(self, key: str, value: Any) -> Tag:
        """Return the native element with its label and its explanation, as part of a form."""
        given: dict[str, TagAttrValue] = {"id": key}
        label = tags.label(self.label, for_=key, id=f"{key}_label")
        note = tags.p(self.help, id=f"{key}_help", class_="help") if self.help else None
        if note:
            given["aria-describedby"] = f"{key}_help"
        match self.kind:
            case "range" | "number":
                given |= {"min": f"{self.low:g}", "max": f"{self.high:g}", "step": f"{self.step:g}"}
                made = tags.input(given, type=self.kind, value=f"{value:.12g}")
            case "select" | "column":
                words = self.options or {value: value or _LAST}
                made = tags.select(given, _options(words, value))
            case "checkbox":
                made = tags.input(given, type="checkbox", checked="" if value else None)
                return tags.div(tags.div(made, label, class_="label check"), note, class_="field")
            case "columns":
                boxes = HTML(self.update(key, value, value)["options"])
                given |= {"class": "shiny-input-checkboxgroup", "role": "group", "aria-label": self.label}
                made = tags.details(tags.summary(self.label), tags.div(given, boxes))
                return tags.div(made, note, class_="field")
            case "file":
                bar = tags.div(tags.div(class_="progress-bar"), id=f"{key}_progress")
                file = tags.input(given, type="file", accept=".csv,.tsv,.txt,text/csv")
                made = tags.div(file, bar.add_class("shiny-file-input-progress"))
            case _:
                # Browsers are not to correct it.
                given |= {"spellcheck": "false", "autocomplete": "off", "autocapitalize": "off"}
                given["maxlength"] = str(self.longest)
                if self.lines > 1:
                    made = tags.textarea(given, value, rows=str(self.lines))
                else:
                    made = tags.input(given, type="text", value=value)
        shown = tags.output(f"{value:.12g}", for_=key) if self.kind == "range" else None
        return tags.div(tags.div(label, shown, class_="label"), made, note, class_="field")

    def update(self, key: str, value: Any, names: Sequence[str] = (), chosen: str = "") -> dict[str, Any]:
        """Return what Shiny's binding in the browser is sent to take a value, and to offer names of columns.

        The name that the data suggest is `chosen`; its value is empty, as that of an input that was left alone.
        """
        sent: dict[str, Any] = {"value": value}
        if self.kind == "column":
            names = names if (chosen := chosen or _LAST) in names else [chosen, *names]
            options = _options({value if name == chosen else name: name for name in names})
            sent["options"] = str(TagList(options))
        if self.kind == "columns":
            boxes = [
                tags.input(type="checkbox", name=key, value=name, checked="" if name in value else None)
                for name in names
            ]
            labels = [tags.label(box, tags.span(name)) for box, name in zip(boxes, names, strict=True)]
            sent = {"options": str(tags.div(labels, class_="shiny-options-group")), "value": list(value)}
        return sent


def _options(words: Mapping[str, str], chosen: str | None = None) -> list[Tag]:
    return [
        tags.option(text, value=name, selected="" if name == chosen else None) for name, text in words.items()
    ]


def read(inputs: Sequence[Input], given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the values of all inputs, and what is wrong with those that are refused; these have their defaults.

    >>> read([Input("sure", "Sure", False, "checkbox")], {"sure": "maybe"})
    ({'sure': False}, ["Sure must be true or false, but it is 'maybe'."])
    """
    values, errors = {one.name: one.default for one in inputs}, []
    for one in inputs:
        if one.name in given and one.kind != "file":
            try:
                values[one.name] = one.check(given[one.name])
            except ArgumentError as error:
                errors.append(str(error))
    return values, errors
