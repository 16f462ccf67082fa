"""What a tab answers, as data: sentences, pictures, tables and programs. How they look is not known here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


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
