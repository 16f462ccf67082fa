"""What a planned recipe does on rows that were held out, beside what was expected of it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.planning.training_plan import Plan
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.simulation import simulated_states

_PLAUSIBLE = 2.0
"""Standard errors within which a promise counts as kept."""


@dataclass(frozen=True, eq=False)
class KeptPromise:
    """The test error of a plan's best recipe on held-out rows, mean squares over rows and outputs.

    Attributes
    ----------
    promised, promised_error : float
        What was expected, and its standard error.
    mean_run, standard_error : float
        Of the mean iterate on the held-out rows, and how well so many rows tell it.
    single_run : float
        Of one run that was really trained.
    of_outputs : (t,)
        Of the mean iterate, for each output.
    rows : int
    """

    promised: float
    promised_error: float
    mean_run: float
    standard_error: float
    single_run: float
    of_outputs: FloatArray
    rows: int

    @property
    def deviations(self) -> float:
        """How many standard errors of both the held-out error is above what was promised."""
        error = float(np.hypot(self.promised_error, self.standard_error))
        difference = self.mean_run - self.promised
        return difference / error if error else float(np.sign(difference)) * np.inf if difference else 0.0

    @property
    def is_kept(self) -> bool:
        """Whether the two differ by no more than chance explains, two standard errors."""
        return abs(self.deviations) <= _PLAUSIBLE


def held_to(plan: Plan, X: ArrayLike, y: ArrayLike, *, seed: int = 0) -> KeptPromise:
    """Try the best recipe of a plan on rows X (m, p) and y (m,) or (m, t) that it has not seen.

    The means and deviations of the rows that were planned with prepare these. `seed` is that of the order in which
    the single run visits its rows.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(300, 10, noise=1.0, seed=0)
    >>> plan = rs.plan(problem.X[:200], problem.y[:200], batch_sizes=[50], epochs=100)
    >>> promise = held_to(plan, problem.X[200:], problem.y[200:])
    >>> promise.is_kept
    True
    """
    new = LeastSquares(X, y)
    run, when, data = plan.run, plan.best.epochs, plan.data
    answers = new.y if new.y.ndim == 2 else new.y[:, np.newaxis]
    squares = np.square(answers - _predicted(plan, new.X, run.iterate(when)))
    over_outputs = squares.mean(axis=1)
    _arrays.whole_number("seed", seed, 0)
    outputs = [run] if run.problem.outputs is None else [run.output(k) for k in range(run.problem.outputs)]
    stops = np.array([float(when)])
    # The same seed gives all outputs the same orders.
    trained = [
        simulated_states(one.problem, one.scheme, one.recipe, one.start, stops, 1, seed, np.copy)[0, 0]
        for one in outputs
    ]
    single = np.column_stack(trained) if data.problem.outputs else trained[0]
    return KeptPromise(
        promised=plan.test_error,
        promised_error=plan.standard_error,
        mean_run=float(over_outputs.mean()),
        standard_error=float(over_outputs.std(ddof=1) / np.sqrt(new.n)) if new.n > 1 else np.inf,
        single_run=float(np.square(answers - _predicted(plan, new.X, single)).mean()),
        of_outputs=squares.mean(axis=0),
        rows=new.n,
    )


def _predicted(plan: Plan, X: FloatArray, parameters: FloatArray) -> FloatArray:
    """What parameters (p,) or (p, t) of the prepared problem say of rows, (m, t)."""
    coefficients, intercept = plan.data.coefficients(parameters)
    found = X @ coefficients + intercept
    return found if found.ndim == 2 else np.asarray(found[:, np.newaxis])
