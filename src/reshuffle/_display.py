"""Results as dicts, pandas tables and HTML tables, and tables that print as text.

One vocabulary: the step of a visit is `learning_rate` and the penalty is `weight_decay`, as in torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from reshuffle._uncertainty import significant

WORDS = {"step": "learning_rate", "penalty": "weight_decay"}
"""Attributes that have another name in tables."""
_MOST_ROWS = 60
"""Rows in a notebook, at most; `to_frame` has all of them."""


class Displayed:
    """A result with `to_dict`, `to_frame` and a table in notebooks, made of the attributes in `_shown`."""

    _shown: ClassVar[tuple[str, ...]] = ()

    def _columns(self) -> dict[str, Any]:
        """The columns by name: arrays or lists that broadcast against each other, or single values."""
        return {WORDS.get(name, name): getattr(self, name) for name in self._shown}

    def _title(self) -> str:
        """The text above the table in notebooks."""
        return type(self).__name__

    def to_dict(self) -> dict[str, Any]:
        """Names and values, in numbers, words and lists that `json` can write."""
        return {name: plain(value) for name, value in self._columns().items()}

    def to_frame(self) -> Any:
        """The result as a pandas DataFrame: a row per epoch (and output), or per recipe, scheme or part."""
        try:
            import pandas
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "to_frame needs pandas, which is not installed; try pip install pandas, or to_dict()."
            ) from None
        return pandas.DataFrame(_broadcast(self._columns()))

    def _repr_html_(self) -> str:
        columns = _broadcast(self._columns())
        rows = [[_cell(value) for value in row] for row in zip(*columns.values(), strict=True)]
        return html_table(self._title(), list(columns), rows)


@dataclass(frozen=True, eq=False, repr=False)
class Table(Displayed):
    """A table that prints as text: iterating gives its rows as dicts.

    Attributes
    ----------
    columns : dict
        A list of values for each column.
    header, cells : list of str, list of lists of str
        What is shown of them: names of rows in the first column, then numbers.
    title, below : str
        The text above and below.

    >>> Table({}, ["rule", "step"], [["linear", "0.5"], ["nearest", "0.25"]], "two rules")
    two rules
    rule     step
    linear    0.5
    nearest  0.25
    """

    columns: Mapping[str, Sequence[Any]]
    header: Sequence[str]
    cells: Sequence[Sequence[str]]
    title: str = ""
    below: str = ""

    def _columns(self) -> dict[str, Any]:
        return dict(self.columns)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, row, strict=True))

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.header, *self.cells, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in (self.header, *self.cells)
        ]
        return "\n".join(part for part in (self.title, *lines, self.below) if part)

    def _repr_html_(self) -> str:
        return html_table(self.title, self.header, self.cells, self.below)


def html_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], below: str = "") -> str:
    """An HTML table, with text above and below it; colours are those of the page, light or dark.

    >>> html_table("", ["a"], [["<1"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;1</td></tr></tbody></table>'
    """
    import html

    text = '<pre style="background: none; color: inherit; white-space: pre-wrap">{}</pre>'
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows[:_MOST_ROWS]
    )
    if len(rows) > _MOST_ROWS:
        below = f"{len(rows) - _MOST_ROWS} more rows: to_frame() has all of them.\n{below}"
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return "".join(
        part if part == table else text.format(html.escape(part)) for part in (title, table, below) if part
    )


def plain(value: Any) -> Any:
    """A value in numbers, words, lists and dicts."""
    if isinstance(value, Displayed):
        return value.to_dict()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _broadcast(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Columns of equal length; where answers have an axis more than `epochs` it is that of the outputs."""
    arrays = {name: np.asarray(value) for name, value in columns.items()}
    depth = max((array.ndim for array in arrays.values()), default=0)
    if "epochs" in arrays and depth > arrays["epochs"].ndim:
        outputs = next(array.shape[-1] for array in arrays.values() if array.ndim == depth)
        epochs = arrays.pop("epochs")[..., np.newaxis]
        arrays = {"epochs": epochs, "output": np.arange(outputs), **arrays}
    shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
    return {name: np.broadcast_to(array, shape).ravel().tolist() for name, array in arrays.items()}


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return significant(value, 4)
    return "" if value is None else str(value)
