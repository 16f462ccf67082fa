"""Answers and their charts as data, and an answer as what the browser is sent; every text is escaped."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from htmltools import Tag, TagList, tags

from reshuffle.errors import Worded
from reshuffle.page.tabs import Tab

_WORDS = {"batch_size": "the batch size", "critical_step": "the largest step that converges"}
"""Arguments of the library in the words of the page."""


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
class ChartSeries:
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
    name, title, words : str
        Of the files it is saved to; above it; and its main numbers in a sentence, for those who do not see it.
    marks : list of (float, str)
        Places on the horizontal axis with a line and a word each.
    handle : str
        The input that a handle on the horizontal axis moves, if any.
    morph : (list of float, list of list of list of float), optional
        Positions of the handle, and the heights of all lines of the first chart at each, to interpolate between.
    frames : list of list of list of float, optional
        The `x` of all series at every moment, for a play button; `moments` names them.
    """

    name: str
    title: str
    words: str
    x: Axis
    y: Axis
    series: Sequence[ChartSeries]
    marks: Sequence[tuple[float, str]] = ()
    handle: str = ""
    morph: tuple[Sequence[float], Sequence[Sequence[Sequence[float]]]] | None = None
    frames: Sequence[Sequence[Sequence[float]]] = ()
    moments: Sequence[str] = ()


@dataclass(frozen=True)
class TabTable:
    """Words and numbers in rows; the first column names the row."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class TabAnswer:
    """A sentence with charts, tables and programs for the inputs of a tab, or the reason why there is none.

    Attributes
    ----------
    sentence, setting, note : str
        The answer itself, the inputs that it belongs to, and how it was computed if that is a stand-in.
    facts, programs : dict
        A few numbers with their names, and programs to copy, by title.
    remarks : list of str
        Paragraphs.
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
    tables: Sequence[TabTable] = ()
    programs: Mapping[str, str] = field(default_factory=dict)
    offers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    chosen: Mapping[str, str] = field(default_factory=dict)
    is_final: bool = True
    is_refusal: bool = False


def refusal(error: Exception | str, **given: Any) -> TabAnswer:
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
    return TabAnswer(text, is_refusal=True, **given)


def message(answer: TabAnswer, tab: Tab) -> dict[str, Any]:
    """Return an answer as the browser takes it: texts, charts as numbers, and elements for the rest.

    A refusal has a sentence alone: what was shown before it stays there, in pale colours.
    """
    sent = {
        "sentence": answer.sentence,
        "setting": answer.setting,
        "note": answer.note,
        "refused": answer.is_refusal,
        "final": answer.is_final,
    }
    if answer.is_refusal:
        return sent
    facts = [tags.div(tags.dt(name), tags.dd(value), class_="fact") for name, value in answer.facts.items()]
    parts = TagList(
        tags.dl(facts, class_="facts") if facts else None,
        [tags.p(remark, class_="remark") for remark in answer.remarks],
        [_table(one) for one in answer.tables],
    )
    return sent | {
        "charts": [asdict(chart) for chart in answer.charts],
        "html": str(parts),
        "programs": {program_key(tab, title): text for title, text in answer.programs.items()},
    }


def program_key(tab: Tab, title: str) -> str:
    """Return the id of the element with a program of a tab."""
    return f"{tab.name}-program-{tab.programs.index(title)}"


def _table(one: TabTable) -> Tag:
    head = tags.tr([tags.th(heading, scope="col") for heading in one.headings])
    rows = [
        tags.tr(tags.th(first, scope="row"), [tags.td(cell) for cell in rest]) for first, *rest in one.rows
    ]
    made = tags.table(tags.caption(tags.span(one.title)), tags.thead(head), tags.tbody(rows))
    # A table that is wider than the screen is moved by the arrow keys, for which it takes the focus.
    return tags.div(made, class_="scroll", tabindex="0", role="region", aria_label=one.title)
