"""Several schemes on one problem: risk, spread, limit and thresholds of each, and of the full batch."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._display import Displayed, Table
from reshuffle.errors import ArgumentError
from reshuffle.grid.metrics import Answer, evaluate
from reshuffle.problem import checked_problem
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.recipe import StepLike
from reshuffle.run import Run, descend
from reshuffle.schemes import FullBatch, base
from reshuffle.schemes.base import Scheme

_FULL = "full batch"
_COLUMNS = {
    "mean": "mean iterate",
    "spread": "spread",
    "total": "one run",
    "distance": "limit off by",
    "critical_alpha": "critical alpha",
    "mean_square_alpha": "in mean square",
}
"""Answers of a scheme by name, and the headers of their columns."""


@dataclass(frozen=True, eq=False)
class SchemeRow:
    """The answers of one way of shuffling."""

    name: str
    scheme: Scheme
    steps: int  # visits per epoch
    mean: Answer  # risk of the mean iterate, or its training loss where the truth is not known, after each epoch
    spread: Answer  # what the random orders add to it in a single run
    total: Answer  # of a single run: mean + spread
    distance: Answer  # of the limit of the mean iterate from the least-squares solution next to the start
    critical_alpha: Answer  # the step up to which the mean iterate converges, times the visits per epoch
    mean_square_alpha: Answer  # the same for single runs, in the mean square

    @property
    def answers(self) -> dict[str, Answer]:
        """All answers by name."""
        return {name: getattr(self, name) for name in _COLUMNS}

    def __repr__(self) -> str:
        unknown = ", ".join(name for name, answer in self.answers.items() if not answer.is_known)
        return f"SchemeRow({self.name!r}, {self.scheme}{f', without {unknown}' if unknown else ''})"


@dataclass(frozen=True, eq=False)
class SchemeComparison(Displayed):
    """Ways of shuffling compared with the full batch: its repr is the table.

    Attributes
    ----------
    epochs : array
        Those that were given.
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
        """The row of the full batch, with which the others are compared."""
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
        """Totals minus that of the full batch, (rows, *epochs.shape)."""
        totals = np.array([row.total.value for row in self.rows])
        with np.errstate(invalid="ignore"):
            return np.asarray(totals - totals[0])

    def table(self, epoch: float | None = None) -> str:
        """The comparison after `epoch`, one of `epochs`, by default the last, in words and numbers.

        A missing answer is a `?`, with the reason below.
        """
        return repr(self._table(epoch))

    def _table(self, epoch: float | None) -> Table:
        place = self.place(epoch)
        answers = {name: [row.answers[name] for row in self.rows] for name in _COLUMNS}
        shown = [name for name, each in answers.items() if any(one.is_known or one.reason for one in each)]
        header = ["scheme", "steps", *(_COLUMNS[name] for name in shown), "price"]
        # Prices in per cent of the total of the full batch, unless that diverges.
        prices = self.prices.reshape(len(self.rows), -1)[:, place]
        base = float(np.ravel(self.full_batch.total.value)[place])
        is_base = np.isfinite(base) and base > 0 and not np.isinf(self.full_batch.distance.value)
        notes: dict[str, int] = {}
        lines = []
        for row, price in zip(self.rows, prices, strict=True):
            cells = [_cell(name, row.answers[name], place, notes) for name in shown]
            is_priced = is_base and row is not self.full_batch and np.isfinite(price)
            lines.append(
                [row.name, str(row.steps), *cells, f"{100 * price / base:+.3g}%" if is_priced else ""]
            )
        below = "\n".join(f"[{number}] {reason}" for reason, number in notes.items())
        return Table(self._columns(), header, lines, self.title(epoch), below)

    def _columns(self) -> dict[str, Any]:
        """A row for each scheme and epoch."""
        count = self.epochs.size
        columns: dict[str, Any] = {
            name: np.repeat([getattr(row, own) for row in self.rows], count)
            for name, own in (("scheme", "name"), ("steps", "steps"))
        }
        columns["epochs"] = np.tile(np.ravel(self.epochs), len(self.rows))
        for name in _COLUMNS:
            values = [np.broadcast_to(row.answers[name].value.ravel(), count) for row in self.rows]
            columns[name] = np.concatenate(values)
        return {**columns, "price": self.prices.ravel()}

    def _repr_html_(self) -> str:
        return self._table(None)._repr_html_()

    def title(self, epoch: float | None = None) -> str:
        """The measure that is compared, and after which `epoch`."""
        when = float(np.ravel(self.epochs)[self.place(epoch)])
        return f"{self.measure} " + (f"after {when:g} epochs" if np.isfinite(when) else "in the limit")

    def place(self, epoch: float | None) -> int:
        """Index of an epoch among `epochs`, counted flat; the last if none is named."""
        flat = np.ravel(self.epochs)
        if epoch is None:
            return len(flat) - 1
        places = np.flatnonzero(flat == epoch)
        if not len(places):
            raise ArgumentError("epoch", f"be one of {flat.tolist()}, those compared", f"it is {epoch!r}")
        return int(places[0])

    def __repr__(self) -> str:
        return self.table()


def _cell(name: str, answer: Answer, place: int, notes: dict[str, int]) -> str:
    """An answer in words, and the number of the note on it."""
    place = place if answer.value.size > 1 else 0
    text = answer.text(place, "any" if name.endswith("alpha") else "diverges")
    # What is unknown at another of the epochs is no matter here.
    unknown_elsewhere = not answer.is_known and not np.isnan(answer.value.ravel()[place])
    if not answer.reason or unknown_elsewhere:
        return text
    return f"{text} [{notes.setdefault(answer.reason, len(notes) + 1)}]"


@_arrays.with_known_keywords
def compare_schemes(
    problem: LeastSquares,
    schemes: Mapping[str, Scheme] | Iterable[Scheme],
    step: StepLike | None = None,
    *,
    alpha: StepLike | None = None,
    epochs: ArrayLike = (1, 10, 100),
    start: ArrayLike | None = None,
    penalty: float = 0.0,
    momentum: float = 0.0,
    thresholds: bool = True,
    rtol: float = 1e-4,
    budget: float = 1e12,
    seed: int = 0,
) -> SchemeComparison:
    """Compare what several schemes cost on the same problem, and with the full batch.

    For each scheme: the risk of its mean iterate, the spread that random orders add in a single run, the distance
    of its limit from least squares, and the largest alpha at which the mean and the mean square converge. If the
    truth is unknown, the training loss replaces the risk. If a scheme has no answer, the table gives the reason.

    Parameters
    ----------
    problem : LeastSquares
    schemes : dict of schemes by name, or list of schemes
    step : float, list or callable
        The step of one visit, the same for all schemes; or
    alpha : float, list or callable
        step times the visits per epoch of each scheme. The full batch, which is always there, takes one step per
        epoch, of alpha, or of `step` times the largest number of visits per epoch among the schemes.
    epochs : number or array of any shape
    start, penalty, momentum, budget, seed
        As in `descend`.
    rtol : float
        As in `descend`, but smaller by default: schemes may differ by little.
    thresholds : bool
        True to compute critical steps, which takes the longest.

    Returns
    -------
    SchemeComparison
        A row per scheme, the full batch first; it prints as a table.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(60, 20, noise=1.0, seed=1)
    >>> schemes = {"fresh order": rs.RandomReshuffling(batch_size=15), "fixed order": rs.Cyclic(batch_size=15)}
    >>> rs.compare_schemes(problem, schemes, step=0.15, epochs=40)
    risk after 40 epochs
    scheme       steps  mean iterate    spread  one run  limit off by  critical alpha  in mean square   price
    full batch       1        0.5523         0   0.5523             0          0.9877          0.9877
    fresh order      4        0.5548  0.004094   0.5589       0.06577           3.851           3.212   +1.2%
    fixed order      4        0.5656         0   0.5656         0.158           3.176           3.176  +2.42%
    """
    problem = checked_problem(problem)
    if problem.outputs is not None:
        raise ValueError(
            f"compare_schemes compares schemes for one output, but y has {problem.outputs}; "
            "try problem.output(0), and so on."
        )
    named = _named(schemes)
    visits = {name: base.fitted(problem, scheme)[1].steps(problem.n) for name, scheme in named.items()}
    when, wants_thresholds = _arrays.epochs(epochs), _arrays.flag("thresholds", thresholds)
    if not when.size:
        raise ArgumentError(
            "epochs", "hold at least one epoch after which schemes are compared", "it is empty"
        )
    descent = partial(
        descend, problem,
        start=start, penalty=penalty, momentum=momentum, rtol=rtol, budget=budget, seed=seed,
    )  # fmt: skip
    runs: dict[str, Run] = {}
    whole = alpha if step is None else _multiple(step, max(visits.values()))
    if (step is None) != (alpha is None):
        runs[_FULL] = descent(FullBatch(), whole)
    for name, scheme in named.items():
        runs[name] = descent(scheme, step, alpha=alpha)
    for run in runs.values():
        run.recipe.epochs(when)
    knows_truth = problem.beta_star is not None and problem.noise is not None
    mean = "risk" if knows_truth else "training_loss"
    metrics = [mean, f"expected_{mean}", "limit_distance"]
    thresholds_of = ["critical_step", "mean_square_critical_step"]
    found = evaluate(list(runs.values()), metrics + thresholds_of * wants_thresholds, when)
    rows = []
    for (name, run), answers in zip(runs.items(), found, strict=True):
        visited = run.scheme.steps(problem.n)
        # Those that were not computed are nan, without a reason.
        steps = [answers.get(metric, Answer(np.asarray(np.nan))) for metric in thresholds_of]
        alphas = [
            replace(each, value=np.asarray(visited * each.value), error=np.asarray(visited * each.error))
            for each in steps
        ]
        known = (answers[metric] for metric in (mean, f"expected_{mean}_spread", *metrics[1:]))
        rows.append(SchemeRow(name, run.scheme, visited, *known, *alphas))
    return SchemeComparison(when, mean.replace("_", " "), tuple(rows))


def _named(given: Mapping[str, Scheme] | Iterable[Scheme]) -> dict[str, Scheme]:
    """The schemes by name, those that are given without one by what they are; the full batch is there anyway."""
    if not isinstance(given, Iterable):
        raise TypeError(
            f"schemes must be a dict of schemes by name, or a list of schemes, but it is {given!r}; "
            "try [rs.RandomReshuffling(batches=4), rs.Cyclic(batches=4)]."
        )
    named = dict(given) if isinstance(given, Mapping) else {}
    for scheme in () if isinstance(given, Mapping) else given:
        name, number = repr(scheme), 2
        while name in named:
            name, number = f"{scheme!r} ({number})", number + 1
        named[name] = scheme
    named = {name: scheme for name, scheme in named.items() if scheme != FullBatch()}
    if not named:
        raise ArgumentError("schemes", "hold at least one scheme other than FullBatch()", "there is none")
    wrong = [name for name in named if not isinstance(name, str) or name == _FULL]
    if wrong:
        allowed = f"have names that are words other than {_FULL!r}, which is there anyway"
        raise ArgumentError("schemes", allowed, f"one is {wrong[0]!r}")
    return named


def _multiple(step: StepLike, visits: int) -> StepLike:
    """The step of a full batch that corresponds to as many visits."""
    if callable(step):
        return lambda epoch: visits * float(step(epoch))
    return visits * _arrays.real_array("step", step, advice="give numbers >= 0")
