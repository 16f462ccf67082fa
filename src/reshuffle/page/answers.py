"""Tabs and their answers as data, and an answer as what the browser is sent; every text is escaped."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from htmltools import Tag, TagList, tags

from reshuffle.errors import Worded
from reshuffle.page.inputs import Input

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_WORDS = {"batch_size": "the batch size", "critical_step": "the largest step that converges"}
"""Arguments of the library in the words of the page."""
GREW = 1e100
"""A test error beyond this diverges."""


@dataclass(frozen=True)
class Tab:
    """A tab of the page.

    Attributes
    ----------
    name, title, question, lead : str
        In addresses, on the tab, as its heading, and two sentences on what one sees.
    module : str
        The module of `reshuffle.page` with the functions of its stages.
    inputs : list of Input
    stages : list of str
        Functions `stage(values, upload) -> Answer`, called in another process by name: the first answers at once,
        and each of the others replaces the answer before it. `Answer.is_final` ends them.
    examples : dict
        Values worth a look, by name; the other inputs have their defaults.
    advice : str
        What to try if an answer takes too long.
    """

    name: str
    title: str
    question: str
    lead: str
    module: str
    inputs: Sequence[Input]
    stages: Sequence[str]
    advice: str = "try smaller numbers"
    examples: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def defaults(self) -> dict[str, Any]:
        """The values of all inputs as the page opens."""
        return {one.name: one.default for one in self.inputs}


@dataclass(frozen=True)
class Axis:
    """An axis of a chart: `key` heads its numbers in a file, `names` are the rows of a chart by category."""

    label: str
    key: str
    is_log: bool = False
    low: float | None = None
    high: float | None = None
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Series:
    """Numbers in a chart, as a line, bars (`x` are the cuts), dots or arrows from 0 to a weight."""

    key: str
    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str = "first"
    kind: str = "line"
    dash: str = ""
    width: float = 2.0


@dataclass(frozen=True)
class Chart:
    """A chart that the browser draws.

    Attributes
    ----------
    name, title : str
        Of the files it is saved to, and above it.
    words : str
        Its main numbers in a sentence, for those who do not see it.
    x, y : Axis
    series : list of Series
    marks : list of (float, str)
        Places on the horizontal axis with a line and a word each.
    handle : str
        The input that a handle on the horizontal axis moves, if any.
    morph : (list of float, list of list of list of float), optional
        Positions of the handle's input, and the heights of all lines of the first chart at each: the browser
        interpolates between them while the handle moves.
    frames : list of list of list of float, optional
        The `x` of all series at every moment, for a play button; `moments` names them.
    """

    name: str
    title: str
    words: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    marks: Sequence[tuple[float, str]] = ()
    handle: str = ""
    morph: tuple[Sequence[float], Sequence[Sequence[Sequence[float]]]] | None = None
    frames: Sequence[Sequence[Sequence[float]]] = ()
    moments: Sequence[str] = ()


@dataclass(frozen=True)
class Table:
    """Words and numbers in rows; the first column names the row."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Answer:
    """What a tab shows for its inputs, or in one sentence why it does not.

    Attributes
    ----------
    sentence : str
        The answer itself.
    setting : str
        The inputs that it belongs to, in words.
    note : str
        How it was computed, if that is not all there is to know: a stand-in, an estimate.
    facts : dict
        A few numbers with their names.
    remarks : list of str
        Paragraphs.
    charts, tables : lists
    programs : dict
        Programs to copy, by title.
    offers : dict
        Names of columns that the data offer to inputs, by input.
    chosen : dict
        What was chosen among them where nothing was requested.
    is_final : bool
        Whether no later stage has more to say.
    is_refusal : bool
        Whether there is no answer; `sentence` says why.
    """

    sentence: str
    setting: str = ""
    note: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    programs: Mapping[str, str] = field(default_factory=dict)
    offers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    chosen: Mapping[str, str] = field(default_factory=dict)
    is_final: bool = True
    is_refusal: bool = False


def refusal(error: Exception | str, **given: Any) -> Answer:
    """Return the answer that says what went wrong, as a sentence.

    >>> refusal(ValueError("column 'a' is constant")).sentence
    "Column 'a' is constant."
    """
    text = error.worded(_WORDS) if isinstance(error, Worded) else str(error)
    text = " ".join(text.split()) or f"unexpected {type(error).__name__}"
    text = text if text.endswith((".", "!", "?")) else f"{text}."
    first = text.partition(" ")[0]
    if first.isalpha() and len(first) > 1:
        text = text[0].upper() + text[1:]
    return Answer(text, is_refusal=True, **given)


def number(value: float, digits: int = 4) -> str:
    """Return a number for people, or words for what is none.

    >>> number(0.512345), number(math.inf), number(math.nan)
    ('0.5123', 'diverges', 'not known')
    """
    from reshuffle._uncertainty import significant

    if math.isnan(value):
        return "not known"
    return significant(value, digits) if value < GREW else "diverges"


def numbers(values: "ArrayLike") -> list[Any]:
    """Return numbers of any shape as lists for JSON: ten digits, None for what is not finite."""
    import numpy as np

    array = np.asarray(values, dtype=float)
    if array.ndim:
        return [numbers(one) for one in array]
    return float(f"{float(array):.10g}") if np.isfinite(array) else None  # type: ignore[return-value]


def message(answer: Answer, tab: Tab) -> dict[str, Any]:
    """Return an answer as the browser takes it: texts, charts as numbers, and elements for the rest."""
    parts = TagList(
        _facts(answer.facts) if answer.facts else None,
        [tags.p(remark, class_="remark") for remark in answer.remarks],
        [_table(one) for one in answer.tables],
        [_program(title, text, tab.name) for title, text in answer.programs.items()],
    )
    return {
        "tab": tab.name,
        "sentence": answer.sentence,
        "setting": answer.setting,
        "note": answer.note,
        "refused": answer.is_refusal,
        "final": answer.is_final,
        "charts": [asdict(chart) for chart in answer.charts],
        "html": str(parts),
    }


def _facts(facts: Mapping[str, str]) -> Tag:
    return tags.dl(
        [tags.div(tags.dt(name), tags.dd(value), class_="fact") for name, value in facts.items()],
        class_="facts",
    )


def _table(one: Table) -> Tag:
    head = tags.tr([tags.th(heading, scope="col") for heading in one.headings])
    rows = [
        tags.tr(tags.th(first, scope="row"), [tags.td(cell) for cell in rest]) for first, *rest in one.rows
    ]
    made = tags.table(tags.caption(one.title), tags.thead(head), tags.tbody(rows))
    # A table that is wider than the screen is moved by the arrow keys, for which it takes the focus.
    return tags.div(made, class_="scroll", tabindex="0", role="region", aria_label=one.title)


def _program(title: str, text: str, tab: str) -> Tag:
    key = f"{tab}-{''.join(sign for sign in title.lower() if sign.isalnum())}"
    copy = tags.button(
        "Copy", type="button", class_="copy", data_copies=f"{key}-text", aria_label=f"Copy: {title}"
    )
    code = tags.pre(
        tags.code(text, id=f"{key}-text"), tabindex="0", role="region", aria_label=f"{title}, program"
    )
    return tags.details(tags.summary(title), copy, code, id=key)
