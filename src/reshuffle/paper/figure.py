"""What a figure is: inputs, numbers computed from them, a picture, a table, and what the paper claims of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    import reshuffle as rs

CIRCLES: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 4, "markerfacecolor": "white"}
"""How matplotlib draws what was simulated."""


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


Columns = Mapping[str, Any]
"""Names and columns of equal length, for the CSV file of a figure."""


def lines(columns: Columns) -> list[list[str]]:
    """The header and the rows of a table, numbers with all their digits.

    >>> lines({"epoch": [0, 1], "risk": [1.0, 0.5]})
    [['epoch', 'risk'], ['0', '1.0'], ['1', '0.5']]
    """
    rows = zip(*columns.values(), strict=True)
    return [list(columns), *[[_text(cell) for cell in row] for row in rows]]


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else repr(cell.item() if hasattr(cell, "item") else cell)


def scheme(name: str, batches: int) -> "rs.Scheme":
    """How rows are visited, by the names that figures and tables have for it.

    >>> scheme("with-replacement", 4)
    WithReplacement(batches=4)
    """
    import reshuffle as rs

    if batches == 1:
        return rs.FullBatch()
    return rs.RandomReshuffling(batches) if name == "reshuffling" else rs.WithReplacement(batches)


def look(name: str, batches: int) -> dict[str, str]:
    """The colour and the label of a scheme, as matplotlib takes them."""
    from reshuffle import plotting

    return {"color": plotting.scheme_colour(name, batches), "label": plotting.scheme_label(name, batches)}


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, or something it says in words.

    Attributes
    ----------
    title, caption : str
        For the report.
    full, quick : mapping
        The arguments of `compute` at the paper's own sizes, and those that are smaller in a quick run.
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
    table: Callable[[Any], Columns]
    claims: Callable[[Any], list[Claim]]

    def inputs(self, quick: bool) -> dict[str, Any]:
        """The arguments of `compute`."""
        return {**self.full, **(self.quick if quick else {})}
