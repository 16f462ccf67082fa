"""Why a fit is not the least-squares solution, as a result that can be read."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._display import Displayed, Table, plain
from reshuffle._uncertainty import significant
from reshuffle.planning.spread_test import SpreadTest

_SHOWN = 5
"""Modes in the table."""


@dataclass(frozen=True, eq=False)
class FitPart(Displayed):
    """One of the reasons why a fit is not the least-squares solution.

    Attributes
    ----------
    name : str
        "unconverged", "batching", "penalty" or "noise".
    vector : (p,)
        What it contributes to the difference; all parts add up to it.
    size : float
        |X vector| / sqrt(n): the root mean square of what it does to the predictions for the training rows.
    share : float
        <X vector, X difference> / |X difference|^2. The shares of all parts add up to one; one that points against
        the others is negative. Where two parts are not orthogonal each has half of what they have in common.
    sentence : str
        The same as a person would say it.
    """

    _shown = ("name", "share", "size", "sentence")

    name: str
    vector: FloatArray
    size: float
    share: float
    sentence: str

    def __repr__(self) -> str:
        return f"FitPart({self.name!r}, share={significant(self.share, 3)}, size={significant(self.size, 3)})"


@dataclass(frozen=True)
class ModeLeft(Displayed):
    """What one mode of the mean map has left to do.

    Attributes
    ----------
    rate : float
        What an epoch multiplies its distance from its end by.
    left : float
        The share of its whole way that is left after the epochs that were run.
    epochs_left : float
        How many epochs more it takes until one per cent of its way is left; inf if it never gets there.
    share : float
        Of the difference from least squares, counted as in `FitPart`: they add up to that of what is unconverged.
    """

    _shown = ("rate", "left", "epochs_left", "share")

    rate: float
    left: float
    epochs_left: float
    share: float


@dataclass(frozen=True, eq=False)
class Explanation(Displayed):
    """Why a fit is not the least-squares solution: its repr is the answer in sentences.

    Attributes
    ----------
    difference : (p,)
        The fit minus the least-squares solution next to the start of the run.
    size : float
        |X difference| / sqrt(n).
    epochs : float
        After how many epochs the fit was taken.
    epochs_were_given : bool
        If not, they are those whose mean iterate is nearest to the fit.
    parts : tuple of FitPart
        "unconverged": the mean iterate minus its limit. "batching": that limit minus the one of the full batch.
        "penalty": the latter minus least squares, if there is one. "noise": the fit minus the mean iterate.
    modes : tuple of ModeLeft
        The slowest first; none where an epoch is no symmetric map.
    spread : SpreadTest
        Whether the noise is what single runs of this recipe have.
    unseen : float
        The Euclidean norm of the part of the difference that no row of X sees: no training changes it.
    converges : bool
        Whether the run does. If not, "unconverged" counts from the limit of the full batch.
    products : (parts, parts)
        <X a, X b> / |X difference|^2 for any two parts a and b: the rows add up to the shares.
    """

    difference: FloatArray
    size: float
    epochs: float
    epochs_were_given: bool
    parts: tuple[FitPart, ...]
    modes: tuple[ModeLeft, ...]
    spread: SpreadTest
    unseen: float
    converges: bool
    products: FloatArray

    def __getitem__(self, name: str) -> FitPart:
        for part in self.parts:
            if part.name == name:
                return part
        known = ", ".join(repr(part.name) for part in self.parts)
        raise KeyError(f"name must be one of {known}, but it is {name!r}.")

    @property
    def is_plausible(self) -> bool:
        """Whether the fit may well come from this run: the noise is what its random orders make of it."""
        return self.spread.is_plausible

    def __repr__(self) -> str:
        sentences = [f"  {part.sentence}" for part in self.parts] if self.size else []
        return "\n".join([self._headline, *sentences, *self._remarks])

    @property
    def _headline(self) -> str:
        if not self.size:
            return "the fit is the least-squares solution"
        guessed = "" if self.epochs_were_given else " (which fit best)"
        after = f"after {self.epochs:g} epochs{guessed}" if math.isfinite(self.epochs) else "in the limit"
        return f"the predictions are {significant(self.size, 4)} away from those of least squares {after}:"

    @property
    def _remarks(self) -> list[str]:
        remarks = (
            [] if self.converges else ["  the mean of such runs does not converge: the step is too large."]
        )
        if self.unseen:
            remarks.append(
                f"  beyond that the parameters differ by {significant(self.unseen, 3)} in directions that no row "
                "of X sees."
            )
        return remarks

    def table(self) -> Table:
        """The modes, the slowest first: their rate, what is left, epochs until that is 1%, and their share."""
        header, cells = ["rate", "left", "epochs left", "share"], []
        for mode in self.modes[:_SHOWN]:
            to_go = f"{mode.epochs_left:.0f}" if math.isfinite(mode.epochs_left) else "never"
            cells.append([f"{mode.rate:.6f}", f"{mode.left:.2%}", to_go, f"{mode.share:.1%}"])
        rest = self.modes[_SHOWN:]
        if rest:
            cells.append(["", "", f"{len(rest)} more", f"{sum(mode.share for mode in rest):.1%}"])
        text = "\n".join(f"{a:>10}{b:>10}{c:>13}{d:>9}" for a, b, c, d in (header, *cells))
        names = ("rate", "left", "epochs_left", "share")
        columns = {name: [getattr(mode, name) for mode in self.modes] for name in names}
        return Table(columns, text, header, cells)

    def _columns(self) -> dict[str, Any]:
        names = ("name", "share", "size", "sentence")
        return {name: [getattr(part, name) for part in self.parts] for name in names}

    def _title(self) -> str:
        return "\n".join([self._headline, *self._remarks])

    def to_dict(self) -> dict[str, Any]:
        """The difference, its parts and the modes, in numbers, words and lists."""
        names = ("size", "epochs", "parts", "modes", "is_plausible", "unseen", "converges")
        return {name: plain(getattr(self, name)) for name in names}


def modes_left(rates: FloatArray, epochs: float, shares: FloatArray) -> tuple[ModeLeft, ...]:
    """What modes with these rates (r,) have left after some epochs, the slowest first.

    >>> modes_left(np.array([0.5, 0.9]), 10, np.array([0.0, 1.0]))[0].epochs_left
    34.0
    """
    sizes = np.abs(rates)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        left = np.where(sizes == 1, 1.0, sizes**epochs)
        whole = np.where(sizes < 1, np.log(0.01) / np.log(sizes), np.inf)
        to_go = np.maximum(np.ceil(whole - epochs), 0.0)
    to_go = np.where(sizes < 1, np.where(np.isnan(to_go), 0.0, to_go), np.inf)
    order = np.argsort(-sizes, kind="stable")
    columns = (rates, left, to_go, shares)
    return tuple(ModeLeft(*(float(column[place]) for column in columns)) for place in order)
