"""The runs behind an estimator, one per output, all visiting the same rows in the same orders."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle._core import FloatArray
from reshuffle.problem import LeastSquares
from reshuffle.recipe import StepLike
from reshuffle.run import Run, descend
from reshuffle.schemes import Scheme
from reshuffle.simulation import simulated_states
from reshuffle.sklearn.centring import Centred
from reshuffle.sklearn.safe_step import safe_step, slowed
from reshuffle.sklearn.torch_words import Settings


class TrainedOutputs:
    """Mini-batch descent on centred data, for each of its t outputs.

    What was computed is not pickled with it: that may be many times the size of the data, and comes back the same.
    """

    def __init__(self, data: Centred, scheme: Scheme, settings: Settings, single_run: bool):
        self.data, self.scheme, self.settings, self.single_run = data, scheme, settings, single_run

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "runs"}

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """One run per output."""
        given = self.settings
        problems = [LeastSquares(self.data.X, y) for y in self.data.y.T]
        step = given.learning_rate
        if step is None:
            step = safe_step(problems[0], self.scheme, given.weight_decay, given.momentum)
            run = self._run(problems[0], step)
            step = slowed(run).step if given.momentum else step
        return tuple(self._run(problem, step) for problem in problems)

    def _run(self, problem: LeastSquares, step: Any) -> Run:
        given = self.settings
        return descend(
            problem,
            self.scheme,
            step,
            penalty=given.weight_decay,
            momentum=given.momentum,
            nesterov=given.nesterov,
            average=given.average,
            rtol=given.rtol,
            seed=given.seed,
        )

    @property
    def step(self) -> StepLike:
        """The step of a visit, or its schedule."""
        return self.runs[0].step

    @property
    def automatic_step(self) -> float:
        """The step that "auto" stands for."""
        given = self.settings
        return safe_step(self.runs[0].problem, self.scheme, given.weight_decay, given.momentum)

    def path(self, epochs: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Coefficients epochs.shape + (t, p) and intercepts epochs.shape + (t,), in the units of the data."""
        coefficients = self.data.coefficients(self._single(epochs) if self.single_run else self._mean(epochs))
        return coefficients, self.data.intercepts(coefficients)

    def _mean(self, epochs: ArrayLike) -> FloatArray:
        """The mean parameters over orders, epochs.shape + (t, p)."""
        return np.stack([run.iterate(epochs) for run in self.runs], axis=-2)

    def _single(self, epochs: ArrayLike) -> FloatArray:
        """The parameters of one run that is really trained, epochs.shape + (t, p); the outputs share its orders."""
        when = self.runs[0].recipe.clock(epochs)
        if not np.isfinite(when).all():
            raise ValueError(
                "epochs must be finite where a single run is trained, but one is inf; "
                "single_run=False has the mean of all runs after infinitely many."
            )
        stops, back = np.unique(when.ravel(), return_inverse=True)
        seed = self.settings.seed
        found = [
            simulated_states(run.problem, run.scheme, run.recipe, run.start, stops, 1, seed, np.copy)
            for run in self.runs
        ]
        trained = np.concatenate(found, axis=1)[back]
        trained = np.where(np.isfinite(trained), trained, np.inf)
        return np.asarray(trained.reshape(*when.shape, *trained.shape[1:]))

    def deviation(self, rows: FloatArray, epochs: ArrayLike) -> FloatArray:
        """The standard deviation over orders of what runs say of new rows (m, p), epochs.shape + (m, t)."""
        seen = self.data.rows(rows)
        return np.stack([run.covariance(epochs).deviation(seen) for run in self.runs], axis=-1)

    @property
    def grows(self) -> bool:
        """Whether the mean iterate has no limit, where the step never changes; nothing is said of a single run."""
        run = self.runs[0]
        return not self.single_run and run.recipe.is_constant and not run.converges
