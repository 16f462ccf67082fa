"""One scheme on one problem: everything that `reshuffle curve` asks of it."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reshuffle.cli.options import Visiting
from reshuffle.errors import BudgetError

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle._arrays import FloatArray

QUICK = 2e10
"""Operations that nobody has to ask for: a second or two."""
UNANSWERED = (BudgetError, ValueError, TypeError, ArithmeticError, MemoryError)
"""What a question may fail with while others are answered."""


@dataclass(frozen=True)
class Question:
    """What every curve of one call shares."""

    problem: "rs.LeastSquares"
    held_out: "rs.LeastSquares | None"
    epochs: "FloatArray"
    recipe: dict[str, Any]
    accuracy: dict[str, Any]
    runs: int
    seed: int
    mean_square: bool

    @property
    def knows_truth(self) -> bool:
        """Whether there is a risk to speak of."""
        return self.problem.beta_star is not None and self.problem.noise is not None


@dataclass(frozen=True, eq=False)
class Curve:
    """One scheme on one problem: what is shown of it.

    Attributes
    ----------
    risk, best, run_there, run_risk :
        The risk of the mean iterate, its best epoch, the risk of one run there, and at every epoch if that was
        asked for. None where the truth is unknown; `best.error` is nan if only the epochs shown were compared.
    unanswered : str
        Why there is no risk of a run, or no word on its convergence.
    training_loss, held_out_loss, training_error, held_out_error :
        Of the mean iterate, and how far that may be off.
    """

    visiting: Visiting
    step: float
    run: "rs.Run"
    epochs: "FloatArray"
    limit: "rs.Limit"
    training_loss: "FloatArray"
    training_error: "FloatArray"
    held_out_loss: "FloatArray | None"
    held_out_error: "FloatArray | None"
    risk: "rs.Risk | None"
    best: "rs.BestEpoch | None"
    best_error: float
    run_there: "rs.ExpectedRisk | None"
    run_risk: "rs.ExpectedRisk | None"
    mean_square: Any
    unanswered: str
    simulation: "rs.Simulation | None"
    simulated_loss: tuple[float, float] | None

    @property
    def shown(self) -> tuple[str, "FloatArray"]:
        """What the picture is of: the risk if it is known, else the loss on held-out rows, else in training."""
        if self.risk is not None:
            return "risk of the mean iterate", self.risk.total
        if self.held_out_loss is not None:
            return "held-out loss of the mean iterate", self.held_out_loss
        return "training loss of the mean iterate", self.training_loss

    @property
    def is_exact(self) -> bool:
        """Whether nothing that is shown was drawn or summed up to an error."""
        runs = [one for one in (self.run_there, self.run_risk) if one is not None]
        return self.run.error_kind == "exact" and not any(one.error.any() for one in runs)


def follow(asked: Question, visiting: Visiting, alpha: float | None, step: float | None) -> Curve:
    """Answer for one scheme."""
    import reshuffle as rs

    problem, when = asked.problem, asked.epochs
    run = rs.descend(
        problem, visiting.scheme, step, alpha=alpha, seed=asked.seed, **asked.recipe, **asked.accuracy
    )
    step = (alpha or 0.0) / visiting.batches if step is None else step
    risk = run.risk(when) if asked.knows_truth else None
    limit = run.limit()
    best = None if risk is None else _best(run, risk, limit)
    run_there, run_risk, why = (None, None, "") if best is None else _of_runs(asked, run, best)
    mean_square, reason = _mean_square(run) if asked.mean_square else (None, "")
    training_loss = run.training_loss(when)
    off = run.iterate_error(when)
    held_out = asked.held_out
    held_out_loss = None if held_out is None else _loss(run, held_out, when)
    simulation = _simulated(asked, visiting, step)
    return Curve(
        visiting=visiting,
        step=step,
        run=run,
        epochs=when,
        limit=limit,
        training_loss=training_loss,
        training_error=loss_error(problem, training_loss, off),
        held_out_loss=held_out_loss,
        held_out_error=None
        if held_out is None or held_out_loss is None
        else loss_error(held_out, held_out_loss, off),
        risk=risk,
        best=best,
        best_error=0.0 if best is None else float(run.risk(best.epoch).error),
        run_there=run_there,
        run_risk=run_risk,
        mean_square=mean_square,
        unanswered=why or reason,
        simulation=simulation,
        simulated_loss=None
        if simulation is None or asked.knows_truth
        else _simulated_loss(problem, simulation),
    )


def _best(run: "rs.Run", risk: "rs.Risk", limit: "rs.Limit") -> "rs.BestEpoch":
    """The best of all epochs; where they would be tried one by one at length, of those shown and the limit."""
    import numpy as np

    import reshuffle as rs

    if run.best_epoch_operations <= QUICK:
        return run.best_epoch()
    assert limit.risk is not None
    epochs, totals = np.append(risk.epochs, np.inf), np.append(risk.total, limit.risk.total)
    at = int(np.argmin(totals))
    return rs.BestEpoch(float(epochs[at]), float(totals[at]), math.nan)


def _of_runs(
    asked: Question, run: "rs.Run", best: "rs.BestEpoch"
) -> tuple["rs.ExpectedRisk | None", "rs.ExpectedRisk | None", str]:
    """The risk of one run at the best epoch, at every epoch if that was asked for, and why it is missing."""
    if not asked.mean_square and not run.second_moment_choice(best.epoch).method.operations <= QUICK:
        return None, None, "the risk of one run takes longer here, and is given with --mean-square"
    try:
        there = run.expected_risk(best.epoch)
        return there, run.expected_risk(asked.epochs) if asked.mean_square else None, ""
    except UNANSWERED as error:
        return None, None, reason_of(error)


def _mean_square(run: "rs.Run") -> tuple[Any, str]:
    """Whether runs converge beside their mean, or why that is not known."""
    try:
        return run.mean_square_stability(), ""
    except UNANSWERED as error:
        return None, reason_of(error)


def reason_of(error: Exception) -> str:
    """Why a question has no answer: the message without its advice, which is for callers of the library.

    >>> reason_of(BudgetError("batches is 8, but at most 4 are allowed; try fewer batches."))
    'batches is 8, but at most 4 are allowed'
    """
    from reshuffle.cli.complaints import explain

    return explain(error)[0].partition("; try ")[0].rstrip(".")


def _loss(run: "rs.Run", held_out: "rs.LeastSquares", when: "FloatArray") -> "FloatArray":
    """|y - X b|^2 / (2 rows), a few epochs at a time so that no iterates pile up."""
    import numpy as np

    losses = []
    for start in range(0, len(when), 64):
        iterates = run.iterate(when[start : start + 64])
        with np.errstate(over="ignore", invalid="ignore"):
            losses.append(np.square(iterates @ held_out.X.T - held_out.y).mean(axis=1) / 2)
    loss = np.concatenate(losses)
    return np.where(np.isfinite(loss), loss, np.inf)


def loss_error(problem: "rs.LeastSquares", loss: Any, off: Any) -> "FloatArray":
    """How far |y - X b|^2 / (2n) may be off if b is, by `off` in Euclidean norm."""
    import numpy as np

    off = np.asarray(off)
    if not off.any():
        return np.zeros(off.shape)
    return _error_of_fit(problem.n, loss, float(np.linalg.norm(problem.X, 2)) * off)


def _error_of_fit(n: int, loss: Any, shift: Any) -> "FloatArray":
    """The same, if X b is off by `shift`: (|r| + shift)^2 - |r|^2 over 2n, with |r|^2 = 2n loss."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        error = np.sqrt(2 * np.asarray(loss) / n) * shift + np.square(shift) / (2 * n)
    return np.where(np.isnan(error), np.inf, error)


def _simulated(asked: Question, visiting: Visiting, step: float) -> "rs.Simulation | None":
    import reshuffle as rs

    if not asked.runs:
        return None
    return rs.simulate(
        asked.problem,
        visiting.scheme,
        step=step,
        epochs=asked.epochs,
        runs=asked.runs,
        seed=asked.seed,
        fresh_noise=asked.knows_truth,
        **asked.recipe,
    )


def _simulated_loss(problem: "rs.LeastSquares", simulation: "rs.Simulation") -> tuple[float, float]:
    """The training loss of the mean of the runs after the last epoch, and two standard errors of it at most."""
    import numpy as np

    mean, error = simulation.iterate.mean[-1], simulation.iterate.standard_error[-1]
    if not np.isfinite(mean).all():
        return math.inf, 0.0
    with np.errstate(over="ignore"):
        loss = float(np.square(problem.X @ mean - problem.y).mean() / 2)
        # Whatever the errors of the parameters have to do with each other, those of X b add up to no more.
        shift = 2 * float(np.linalg.norm(problem.X, axis=0) @ error)
    return loss, float(_error_of_fit(problem.n, loss, shift))
