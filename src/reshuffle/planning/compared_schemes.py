"""Ways of shuffling beside each other, as a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.grid.metrics import Answer
from reshuffle.schemes.base import Scheme


@dataclass(frozen=True, eq=False)
class SchemeRow:
    """What one way of shuffling does.

    Attributes
    ----------
    name : str
    scheme : Scheme
    steps : int
        Visits per epoch.
    mean : Answer
        The risk of the mean iterate, or its training loss where the truth is not known, of the shape of `epochs`.
    spread : Answer
        What the random orders add to it in a single run.
    total : Answer
        Of a single run: mean + spread.
    distance : Answer
        Of the limit of the mean iterate from the least-squares solution next to the start.
    critical_alpha : Answer
        The step up to which the mean iterate converges, times the visits per epoch.
    mean_square_alpha : Answer
        The same for single runs, in the mean square.
    """

    name: str
    scheme: Scheme
    steps: int
    mean: Answer
    spread: Answer
    total: Answer
    distance: Answer
    critical_alpha: Answer
    mean_square_alpha: Answer

    @property
    def answers(self) -> dict[str, Answer]:
        """All answers by name."""
        names = ("mean", "spread", "total", "distance", "critical_alpha", "mean_square_alpha")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        unknown = [name for name, answer in self.answers.items() if not answer.is_known]
        return f"SchemeRow({self.name!r}, {self.scheme}" + (
            f", without {', '.join(unknown)})" if unknown else ")"
        )


_COLUMNS = {
    "mean": "mean iterate",
    "spread": "spread",
    "total": "one run",
    "distance": "limit off by",
    "critical_alpha": "critical alpha",
    "mean_square_alpha": "in mean square",
}


@dataclass(frozen=True, eq=False)
class SchemeComparison:
    """Ways of shuffling beside the full batch: its repr is the table.

    Attributes
    ----------
    epochs : array
        As asked for.
    measure : str
        What is compared after them: "risk", or "training loss" where the truth is not known.
    rows : tuple of SchemeRow
        The full batch first, then the schemes as they were given.
    """

    epochs: FloatArray
    measure: str
    rows: tuple[SchemeRow, ...]

    @property
    def full_batch(self) -> SchemeRow:
        """What the others are compared with."""
        return self.rows[0]

    def __iter__(self) -> Iterator[SchemeRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> SchemeRow:
        for row in self.rows:
            if row.name == name:
                return row
        known = ", ".join(repr(row.name) for row in self.rows)
        raise KeyError(f"name must be one of {known}, but it is {name!r}.")

    @property
    def prices(self) -> FloatArray:
        """What a run of each scheme has on top of the full batch, (rows, *epochs.shape): totals minus its total."""
        totals = np.array([row.total.value for row in self.rows])
        with np.errstate(invalid="ignore"):
            return np.asarray(totals - totals[0])

    def table(self, epoch: float | None = None) -> str:
        """The comparison after `epoch`, one of those asked for, by default the last, in words and numbers.

        What has no answer is a `?`, with the reason below.
        """
        place = self.place(epoch)
        shown = [name for name in _COLUMNS if any(name in asked(row) for row in self.rows)]
        header = ["scheme", "steps", *(_COLUMNS[name] for name in shown), "price"]
        notes: dict[str, int] = {}
        lines = [header]
        for row, price in zip(self.rows, self._shares(place), strict=True):
            cells = [_cell(name, row.answers[name], place, notes) for name in shown]
            lines.append([row.name, str(row.steps), *cells, price])
        below = [f"[{number}] {reason}" for reason, number in notes.items()]
        return "\n".join([self.title(epoch), *_aligned(lines), *below])

    def title(self, epoch: float | None = None) -> str:
        """What is compared, and after which `epoch`."""
        when = float(np.ravel(self.epochs)[self.place(epoch)])
        return f"{self.measure} " + (f"after {when:g} epochs" if np.isfinite(when) else "in the limit")

    def place(self, epoch: float | None) -> int:
        """Where an epoch is among those asked for, counted flat; the last if none is named."""
        flat = np.ravel(self.epochs)
        if epoch is None:
            return len(flat) - 1
        places = np.flatnonzero(flat == epoch)
        if not len(places):
            raise ValueError(f"epoch must be one of {flat.tolist()}, those asked for, but it is {epoch!r}.")
        return int(places[0])

    def _shares(self, place: int) -> list[str]:
        """What each run costs on top of the full batch, in per cent of that, unless it diverges."""
        prices = self.prices.reshape(len(self.rows), -1)[:, place]
        base = float(np.ravel(self.full_batch.total.value)[place])
        if not (np.isfinite(base) and base > 0) or bool(np.isinf(self.full_batch.distance.value)):
            return [""] * len(self.rows)
        return ["", *(f"{100 * price / base:+.3g}%" if np.isfinite(price) else "" for price in prices[1:])]

    def __repr__(self) -> str:
        return self.table()


def asked(row: SchemeRow) -> set[str]:
    """The names of the questions that were asked at all."""
    return {name for name, answer in row.answers.items() if answer.is_known or answer.reason}


def _cell(name: str, answer: Answer, place: int, notes: dict[str, int]) -> str:
    """An answer in words, and the number of the note on it."""
    place = place if answer.value.size > 1 else 0
    text = answer.text(place, "any" if name.endswith("alpha") else "diverges")
    # What is unknown at another of the epochs is no matter here.
    unknown_elsewhere = not answer.is_known and not np.isnan(answer.value.ravel()[place])
    if not answer.reason or unknown_elsewhere:
        return text
    return f"{text} [{notes.setdefault(answer.reason, len(notes) + 1)}]"


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest entry, names to the left and numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    made = []
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        made.append("  ".join(cells).rstrip())
    return made
