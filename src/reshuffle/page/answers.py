"""Tabs and answers as data, and an answer as what the browser is sent; every text is escaped."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from htmltools import Tag, TagList, tags

from reshuffle.errors import Worded
from reshuffle.page.charts import Chart
from reshuffle.page.inputs import Input

LINES = "The Python lines that compute this"
"""Title of the program that every answer has."""
GREW = 1e100
"""A test error beyond this diverges."""
_WORDS = {"batch_size": "the batch size", "critical_step": "the largest step that converges"}
"""Arguments of the library in the words of the page."""


@dataclass(frozen=True)
class Tab:
    """A tab of the page.

    Attributes
    ----------
    name, title, question, lead : str
        In addresses, on the tab, as its heading, and two sentences on what one sees.
    module : str
        The module of `reshuffle.page` with its function `answer(values, stage, upload) -> Answer`, which is called
        in another process. Stage 0 answers at once; each later one replaces it, until `Answer.is_final`.
    inputs : list of Input
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
    advice: str = "try smaller numbers"
    examples: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def defaults(self) -> dict[str, Any]:
        """The values of all inputs as the page opens."""
        return {one.name: one.default for one in self.inputs}

    @property
    def keys(self) -> dict[str, Input]:
        """The inputs that an address holds, by their names there."""
        return {f"{self.name}_{one.name}": one for one in self.inputs if one.kind != "file"}


@dataclass(frozen=True)
class Table:
    """Words and numbers in rows; the first column names the row."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Answer:
    """A sentence with charts, tables and programs for the inputs of a tab, or the reason why there is none.

    Attributes
    ----------
    sentence, setting : str
        The answer itself, and the inputs that it belongs to, in words.
    note : str
        How it was computed, if that is not all there is to know: a stand-in, an estimate.
    facts : dict
        A few numbers with their names.
    remarks : list of str
        Paragraphs.
    charts, tables : lists
    programs : dict
        Programs to copy, by title.
    offers, chosen : dict
        Names of columns that the data offer to inputs, and what was chosen among them where nothing was requested.
    is_final, is_refusal : bool
        Whether no later stage has more to say, and whether there is no answer; `sentence` says why.
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


def count(value: float, what: str) -> str:
    """Return a number of things in words: 1 epoch, 2 epochs."""
    return f"{value:g} {what}{'s' * (value != 1)}"


def message(answer: Answer, tab: Tab) -> dict[str, Any]:
    """Return an answer as the browser takes it: texts, charts as numbers, and elements for the rest."""
    facts = [tags.div(tags.dt(name), tags.dd(value), class_="fact") for name, value in answer.facts.items()]
    parts = TagList(
        tags.dl(facts, class_="facts") if facts else None,
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


def _table(one: Table) -> Tag:
    head = tags.tr([tags.th(heading, scope="col") for heading in one.headings])
    rows = [
        tags.tr(tags.th(first, scope="row"), [tags.td(cell) for cell in rest]) for first, *rest in one.rows
    ]
    made = tags.table(tags.caption(tags.span(one.title)), tags.thead(head), tags.tbody(rows))
    # A table that is wider than the screen is moved by the arrow keys, for which it takes the focus.
    return tags.div(made, class_="scroll", tabindex="0", role="region", aria_label=one.title)


def _program(title: str, text: str, tab: str) -> Tag:
    key = f"{tab}-{''.join(sign for sign in title.lower() if sign.isalnum())}"
    name = {"data_copies": f"{key}-text", "aria_label": f"Copy: {title}"}
    code = tags.pre(
        tags.code(text, id=f"{key}-text"), tabindex="0", role="region", aria_label=f"{title}, program"
    )
    return tags.details(
        tags.summary(title), tags.button("Copy", type="button", class_="copy", **name), code, id=key
    )
