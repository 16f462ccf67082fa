"""Training as an estimator asks for it, and the runs behind it, whose outputs share their rows and orders."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.problem import LeastSquares
from reshuffle.problem.sources import Stream
from reshuffle.recipe import StepLike
from reshuffle.run import Run, descend
from reshuffle.run.critical_steps import contracting_step
from reshuffle.schemes import Scheme, base
from reshuffle.simulation import simulated_states
from reshuffle.sklearn import torch_words
from reshuffle.sklearn.estimator_data import Centred, Data, centred, with_weight
from reshuffle.sklearn.streamed_data import centred_stream

_HALVINGS = 60


class TrainedOutputs:
    """Mini-batch descent on centred data, for each of its t outputs.

    What was computed is not pickled with it: that may be many times the size of the data, and comes back the same.
    """

    def __init__(self, data: Centred, scheme: Scheme, settings: torch_words.Settings, single_run: bool):
        self.data, self.scheme, self.settings, self.single_run = data, scheme, settings, single_run

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "run"}

    @cached_property
    def run(self) -> Run:
        """The run of all outputs."""
        given, problem = self.settings, self.data.problem()
        if given.learning_rate is not None:
            return self._run(problem, given.learning_rate)
        run = self._run(problem, safe_step(problem, self.scheme, given.weight_decay, given.momentum))
        return _slowed(run) if given.momentum else run

    @property
    def _single_outputs(self) -> list[Run]:
        outputs = self.run.problem.outputs
        return [self.run] if outputs is None else [self.run.output(number) for number in range(outputs)]

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
            budget=given.budget,
            seed=given.seed,
        )

    @property
    def step(self) -> StepLike:
        """The step of a visit, or its schedule."""
        return self.run.step

    @property
    def automatic_step(self) -> float:
        """The step that "auto" stands for."""
        given = self.settings
        return safe_step(self.run.problem, self.scheme, given.weight_decay, given.momentum)

    def path(self, epochs: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Coefficients epochs.shape + (t, p) and intercepts epochs.shape + (t,), in the units of the data."""
        parameters = self._single(epochs) if self.single_run else self.run.iterate(epochs)
        coefficients, intercepts = self.data.standardizer.coefficients(parameters)
        if self.run.problem.outputs is None:
            return coefficients[..., np.newaxis, :], np.asarray(intercepts)[..., np.newaxis]
        return coefficients.swapaxes(-1, -2), intercepts

    def _single(self, epochs: ArrayLike) -> FloatArray:
        """The parameters of one run that is really trained, like `run.iterate`; the outputs share its orders."""
        when = self.run.recipe.epochs(epochs)
        if not np.isfinite(when).all():
            raise ValueError(
                "epochs must be finite where a single run is trained, but one is inf; "
                "single_run=False has the mean of all runs after infinitely many."
            )
        stops, back = np.unique(when.ravel(), return_inverse=True)
        seed = self.settings.seed
        found = [
            simulated_states(run.problem, run.scheme, run.recipe, run.start, stops, 1, seed, np.copy)
            for run in self._single_outputs
        ]
        trained = np.concatenate(found, axis=1)[back]
        trained = np.where(np.isfinite(trained), trained, np.inf).reshape(*when.shape, *trained.shape[1:])
        return trained[..., 0, :] if self.run.problem.outputs is None else trained.swapaxes(-1, -2)

    def deviation(self, rows: FloatArray, epochs: ArrayLike) -> FloatArray:
        """The standard deviation over orders of what runs say of new rows (m, p), epochs.shape + (m, t)."""
        found = self.run.covariance(epochs).deviation(self.data.standardizer.rows(rows))
        return found[..., np.newaxis] if self.run.problem.outputs is None else found

    @property
    def grows(self) -> bool:
        """Whether the mean iterate has no limit, where the step never changes; nothing is said of a single run."""
        run = self.run
        return not self.single_run and run.recipe.is_constant and not run.converges


def safe_step(problem: LeastSquares, scheme: Scheme, penalty: float, momentum: float) -> float:
    """(1 - momentum) / (L + penalty), with L a bound on the curvature |X_b'X_b| / m_b of every possible batch.

    Without momentum every visit of such a step is a contraction, whatever the order: mean and spread converge. For
    the full batch it is half of the critical step. Where there is nothing to learn from it is one.

    >>> from reshuffle import FullBatch
    >>> safe_step(LeastSquares([[1.0], [3.0]], [0.0, 0.0]), FullBatch(), 0.0, 0.0)
    0.2
    """
    problem, scheme = base.fitted(problem, scheme)
    space, curvature = problem.row_space, 0.0
    if space.dimension and scheme.visits_samples and problem.stream is not None:
        whole = problem.blocks([np.arange(len(problem.compressed.X))])
        longest = problem.stream.gathered(_longest, max) / space.scale / space.scale
        curvature = 2 / contracting_step(scheme, problem.n, whole, longest) * space.scale * space.scale
    elif space.dimension:
        blocks = problem.blocks(scheme.partition(problem.n), scheme.divisors(problem.n))
        curvature = 2 / contracting_step(scheme, problem.n, blocks) * space.scale * space.scale
    curvature += penalty
    return (1 - momentum) / curvature if curvature else 1.0


def _longest(X: FloatArray, y: FloatArray) -> float:
    """The largest |x|^2."""
    return float(np.square(X).sum(axis=1).max())


def _slowed(run: Run) -> Run:
    """The same run with its step halved until its mean converges: no bound on visits is proof with momentum."""
    for _ in range(_HALVINGS):
        if run.converges:
            return run
        step = run.recipe.at(0).step / 2
        run = Run(run.problem, run.scheme, replace(run.recipe, schedule=step), run.start, run.accuracy)
    return run


@dataclass(frozen=True)
class Training:
    """How rows are prepared and visited: the parameters of an estimator, checked."""

    scheme: Scheme
    settings: torch_words.Settings
    centre: bool
    scale: bool
    single_run: bool = False

    @property
    def least_rows(self) -> int:
        """Rows without which there is nothing to learn: one less its mean is zero."""
        return 2 if self.centre else 1

    def on(self, data: Data) -> TrainedOutputs:
        """The same on data."""
        kept = with_weight(data, self.least_rows)
        prepared = centred(kept.rows, kept.responses, kept.weights, self.centre, self.scale)
        return TrainedOutputs(prepared, self.scheme, self.settings, self.single_run)

    def on_stream(self, stream: Stream) -> TrainedOutputs:
        """The same on rows that are read in chunks."""
        prepared = centred_stream(stream, self.centre, self.scale)
        return TrainedOutputs(prepared, self.scheme, self.settings, self.single_run)


def untrained(model: Any) -> Training:
    """The parameters of a MiniBatchRegressor, checked."""
    single_run = _arrays.flag("single_run", model.single_run)
    return Training(
        scheme=torch_words.scheme(model.batch_size, model.shuffle, model.drop_last),
        settings=torch_words.settings(
            learning_rate=model.learning_rate,
            weight_decay=model.weight_decay,
            momentum=model.momentum,
            nesterov=model.nesterov,
            average=model.average,
            rtol=model.rtol,
            budget=model.budget,
            seed=_seed(model.random_state, is_needed=single_run),
        ),
        centre=_arrays.flag("fit_intercept", model.fit_intercept),
        scale=_arrays.flag("standardize", model.standardize),
        single_run=single_run,
    )


def _seed(random_state: Any, is_needed: bool) -> int:
    """Of the order of a single run, or of sampled orders, which are the same in every fit if none is given."""
    if random_state is None and not is_needed:
        return 0
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return int(check_random_state(random_state).randint(2**31 - 1))
