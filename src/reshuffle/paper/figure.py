"""What a figure is: inputs, numbers computed from them, a picture, a table, and what the paper claims of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


@dataclass(frozen=True)
class Claim:
    """A statement of the paper beside what was computed.

    Attributes
    ----------
    place : str
        Where the paper says it.
    statement : str
        What it says.
    computed : str
        The numbers found.
    agrees : bool
        Decided by those numbers.
    correction : str
        What is true instead, where it does not agree.
    """

    place: str
    statement: str
    computed: str
    agrees: bool
    correction: str = ""


@dataclass(frozen=True)
class Table:
    """Columns of equal length, for the CSV file of a figure."""

    columns: Mapping[str, Any]

    def lines(self) -> list[list[str]]:
        """The header and the rows, numbers with all their digits.

        >>> Table({"epoch": [0, 1], "risk": [1.0, 0.5]}).lines()
        [['epoch', 'risk'], ['0', '1.0'], ['1', '0.5']]
        """
        rows = zip(*self.columns.values(), strict=True)
        return [list(self.columns), *[[_text(cell) for cell in row] for row in rows]]


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else repr(cell.item() if hasattr(cell, "item") else cell)


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, or something it says in words.

    Attributes
    ----------
    title, caption : str
        For the report.
    full, quick : mapping
        The arguments of `compute`: at the paper's own sizes, and small.
    compute : function
        Everything numerical; returns a frozen dataclass.
    draw, table, claims : function
        Take those numbers.
    """

    title: str
    caption: str
    full: Mapping[str, Any]
    quick: Mapping[str, Any]
    compute: Callable[..., Any]
    draw: Callable[[Any], "Picture"]
    table: Callable[[Any], Table]
    claims: Callable[[Any], list[Claim]]

    def inputs(self, quick: bool) -> dict[str, Any]:
        """The arguments of `compute`."""
        return dict(self.quick if quick else self.full)
