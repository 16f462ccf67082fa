"""A tab as data: its question, inputs and functions, and what these answer, or why they do not."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reshuffle.cli.console import explain
from reshuffle.errors import Worded
from reshuffle.page.fields import Field

TOO_LONG = "This took longer than {seconds:g} seconds and was stopped; {advice}."
_WORDS = {
    "target": "--target",
    "drop": "--drop",
    "one_hot": "--one-hot",
    "batch_size": "the batch size",
    "critical_step": "the largest step that converges",
}
"""Arguments of the library in the words of the page."""
_OPTIONS = {"target": "the target", "drop": "Leave out", "one-hot": "Columns of categories"}
_ADVICE: tuple[tuple[str, Any], ...] = (
    (r"encode categories with --one-hot .+, or leave the column out with --drop .+\.$",
     "tick it under Columns of categories, or under Leave out."),
    (r", or take \{?fill\}? median\.$", "."),
    (r"leave (it|the column) out with --drop .+\.$", "tick it under Leave out."),
    (r"^--one-hot (.+) must be a column of categories", r"\1 must be a column of categories"),
    (r"^--(target|drop|one-hot) ", lambda found: f"{_OPTIONS[found[1]]} "),
    (r"beside --target", "beside the target"),
    (r"a copy of --target", "a copy of the target"),
)  # fmt: skip
"""What the command line advises, in the words of the page; names of columns stay as they are."""


@dataclass(frozen=True)
class Stage:
    """One way to answer, quick or thorough.

    Attributes
    ----------
    function : str
        The name of a function in the module of the tab, `function(values, upload) -> Shown`. It is called in
        another process, by name.
    is_quick : bool
        Whether it is done in a blink, and may go before those that take long.
    """

    function: str
    is_quick: bool


@dataclass(frozen=True)
class Tab:
    """A tab of the page.

    Attributes
    ----------
    name : str
        In addresses.
    title : str
        On the tab.
    question : str
        The heading.
    lead : str
        Two sentences on what one sees.
    module : str
        Where the functions of its stages are.
    fields : list of Field
    stages : list of Stage
        Asked one after the other; each answer takes the place of the one before it, and None leaves that.
    examples : dict
        Values of fields that are worth a look, by name; of the others the defaults.
    advice : str
        What to try where it takes too long.
    """

    name: str
    title: str
    question: str
    lead: str
    module: str
    fields: Sequence[Field]
    stages: Sequence[Stage]
    advice: str = "try smaller numbers"
    examples: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def texts(self, values: Mapping[str, Any]) -> dict[str, str]:
        """The values of its fields as text."""
        return {one.name: one.write(values[one.name]) for one in self.fields}


@dataclass(frozen=True)
class Picture:
    """A picture, what it says to those who do not see it, and its numbers.

    Attributes
    ----------
    name : str
        Of the files it is saved to.
    title : str
    svg : str
        A whole SVG document with plain colours.
    words : str
        The picture in a sentence with its main numbers.
    columns : dict
        Its numbers by name, each of the same length.
    """

    name: str
    title: str
    svg: str
    words: str
    columns: Mapping[str, Sequence[float | str]]


@dataclass(frozen=True)
class Table:
    """Words and numbers in rows; the first column names the row."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Shown:
    """Everything that a tab shows for its inputs.

    Attributes
    ----------
    sentence : str
        The answer itself.
    setting : str
        The inputs that it belongs to, in words.
    remarks : list of str
        What else there is to say, a paragraph each.
    facts : dict
        A few numbers with their names, for a glance.
    pictures, tables : lists
    python : str
        Lines that compute what is shown.
    programs : dict
        Other programs to copy, by title.
    note : str
        How it was computed, if that is not all there is to know: a stand-in, an estimate.
    offers : dict
        Choices that the data give to fields, by field: names of columns.
    chosen : dict
        What was chosen among them where nothing was asked for.
    """

    sentence: str
    setting: str = ""
    remarks: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    python: str = ""
    programs: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    offers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    chosen: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused:
    """Why there is no answer, in a sentence."""

    sentence: str
    offers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    chosen: Mapping[str, str] = field(default_factory=dict)


def complaint(error: Exception) -> str:
    """What went wrong, as a sentence.

    >>> complaint(ValueError("--target must be a column of a.csv, but it is 'x'."))
    "The target must be a column of a.csv, but it is 'x'."
    >>> complaint(ValueError("column 'a b' is constant; leave it out with --drop 'a b'."))
    "Column 'a b' is constant; tick it under Leave out."
    """
    text = error.worded(_WORDS) if isinstance(error, Worded) else explain(error)[0]
    message = " ".join(text.split()) or f"unexpected {type(error).__name__}"
    for pattern, words in _ADVICE:
        message = re.sub(pattern, words, message)
    return _sentence(message)


def _sentence(text: str) -> str:
    """With a capital at its beginning, if that is a word, and a full stop at its end."""
    text = text if text.endswith((".", "!", "?")) else f"{text}."
    first = text.partition(" ")[0]
    return text[0].upper() + text[1:] if first.isalpha() and len(first) > 1 else text
