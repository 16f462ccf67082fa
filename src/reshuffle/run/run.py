"""A run of mini-batch gradient descent, and every question it answers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, wraps
from typing import Any, Literal, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays, _budget
from reshuffle._arrays import BoolArray, FloatArray, columns
from reshuffle._linalg import Question, few_threads, finite_or_inf, overflow_is_inf
from reshuffle._uncertainty import ErrorKind, significant
from reshuffle.epoch import select
from reshuffle.epoch.select import Accuracy, Choice, Computation, Method, accuracy
from reshuffle.epoch.step_interpolation import shared_means
from reshuffle.errors import BudgetError, UnsupportedError
from reshuffle.problem import checked_problem, checked_start
from reshuffle.problem.least_squares import LeastSquares, checked_new_rows, per_output, stacked
from reshuffle.recipe import Average, Recipe, StepLike, recipe
from reshuffle.run import covariance, expected_risk, limits, stopping
from reshuffle.run.covariance import ParameterCovariance
from reshuffle.run.critical_steps import Rate, screened_rate
from reshuffle.run.expected_risk import ExpectedRisk
from reshuffle.run.limits import Limit, LimitComparison
from reshuffle.run.mean_square import MeanSquareStability, mean_square_stability
from reshuffle.run.modes import Epoch, ModesTrajectory, RiskInterval, two_batch_interval
from reshuffle.run.stability import FrozenSubspace, RangeAssumption, Stability
from reshuffle.run.stopping import BestEpoch
from reshuffle.run.streamed_samples import StreamedSamples
from reshuffle.run.trajectory import AffineEpoch, AffineTrajectory, Risk
from reshuffle.schemes import base
from reshuffle.schemes.base import Scheme
from reshuffle.validation import criteria, cross_validation, influence, leave_one_out
from reshuffle.validation.cross_validation import row_numbers

_HALVINGS = 12
"""Halvings of a step that diverges, at most, in search of one that converges."""
_FAR_BEYOND = 100.0
"""A drawn rate that is beyond one whatever its error: that of such draws is as large as they are."""
_LOST = 10.0
"""Growth of a diverging mean from which on it is infinite: drawn orders know no digit of it."""


def divergence_first(question: Question) -> Question:
    """Decorate a question to a run: one that diverges says so, in place of warnings and before refusals.

    This is also the one place where overflow is allowed for, answers being inf where it makes them so, and where
    BLAS has one thread unless there are many features: in leave-one-out of digits (62 features) two threads that
    share their cores with other processes take four times the processor time.
    """

    @wraps(question)
    @overflow_is_inf
    def asked(run: "Run", *positional: Any, **named: Any) -> Any:
        token = _budget.FIRST.set(lambda: run.divergence_words)
        try:
            with few_threads(min(run.problem.n, run.problem.p)):
                return question(run, *positional, **named)
        except BudgetError as refusal:
            if not run.divergence_words:
                raise
            message = f"{run.divergence_words} Besides, {refusal.message}"
            raise BudgetError(message, hint=refusal.hint) from None
        finally:
            _budget.FIRST.reset(token)

    return cast(Question, asked)


class Run:
    r"""Mini-batch gradient descent on a least-squares problem, averaged over the random orders of its visits.

    A visit of the batch b with m rows, and the mean over the orders of an epoch of B visits, do

    .. math::
        \beta \to \beta - \text{step}\, X_b'(X_b \beta - y_b) / m, \qquad
        E \beta_{k+1} = E \beta_k - B\, \text{step}\, (Z\, E \beta_k - \tilde X' y / n) .

    Made by `descend`. Nothing is trained: answers are computed when they are first requested. `epochs` is a
    number or an array of any shape, math.inf included; answers carry its shape, and what grows without bound is
    inf. Of t outputs (responses y of shape (n, t)) answers have one more axis, the last, and `output(j)` is the run
    of one. Where an average of the iterates was requested (`descend(..., average=)`), "the iterate" is that average
    in all answers but those about a single epoch (`epoch`) and about convergence, which are the same for both.

    Attributes
    ----------
    problem : LeastSquares
    scheme : Scheme
    recipe : Recipe
        Steps, penalty, momentum and average.
    start : (p,) or (p, t)
        beta_0.
    accuracy : Accuracy
        Requirements on the mean over orders: method, rtol, budget and seed.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(100, 20, noise=0.5, seed=1)
    >>> run = rs.descend(problem, rs.Cyclic(batches=4), alpha=0.5, momentum=0.5)
    >>> run.risk([0, 10, 100]).total.round(4)
    array([1.    , 0.0641, 0.065 ])
    """

    def __init__(
        self, problem: LeastSquares, scheme: Scheme, recipe: Recipe, start: FloatArray, accuracy: Accuracy
    ):
        self.problem, self.scheme, self.recipe, self.start = problem, scheme, recipe, start
        self.accuracy = accuracy
        self._of: tuple[Run, int] | None = None
        if not self._is_symmetric:
            select.require_known(scheme, recipe, problem.n, accuracy.method)

    def __repr__(self) -> str:
        return f"Run({self.problem}, {self.scheme}, {self.recipe})"

    def __getstate__(self) -> dict[str, Any]:
        """The arguments of the run, for pickles and copies: computed answers follow from them.

        Engines keep functions, which no pickle holds, and may be many times the size of the data.
        """
        made_from = ("problem", "scheme", "recipe", "start", "accuracy", "_of")
        return {name: getattr(self, name) for name in made_from}

    def output(self, number: int) -> "Run":
        """The run of output `number` alone, which shares all that does not depend on y: maps, modes, drawn orders.

        >>> import reshuffle as rs
        >>> problem = rs.LeastSquares([[1.0], [2.0]], [[1.0, 0.0], [2.0, 1.0]])
        >>> run = rs.descend(problem, rs.FullBatch(), step=0.1)
        >>> run.iterate(1).round(2).tolist(), run.output(1).iterate(1).round(2).tolist()
        ([[0.25, 0.1]], [0.1])
        """
        problem = self.problem.output(number)
        alone = Run(problem, self.scheme, self.recipe, self.start[:, number], self.accuracy)
        alone._of = self, number
        return alone

    @property
    def step(self) -> StepLike:
        """The step of one visit: a number, or the schedule where it changes."""
        return self.recipe.at(0).step if self.recipe.is_constant else self.recipe.schedule

    @property
    def method(self) -> str:
        """The way in which the mean over orders is taken: "exact", "cavity" or "sampling"."""
        return self._engine.method

    @property
    def error_kind(self) -> ErrorKind:
        """The meaning of the errors of means over orders."""
        return self._engine.error_kind

    @property
    def computation(self) -> Computation:
        """The methods of the mean and of second moments, their cost, and why others were rejected.

        >>> import reshuffle as rs
        >>> rs.descend(rs.gaussian(100, 20), rs.FullBatch(), step=0.1).computation.mean.taken
        'exact'
        """
        if self.scheme.visits_samples and not self.problem.compressed.are_all:
            missing = Method("none", np.nan, "they need all samples at once, which are not at hand")
            return Computation(self.mean_choice, Choice("the second moments", (missing,)))
        return Computation(self.mean_choice, self.second_moment_choice(max(1, self.recipe.earliest)))

    @property
    def mean_choice(self) -> Choice:
        """The method of the mean over orders and its cost: as chosen beforehand, until it has been taken."""
        return self._engine.choice

    def second_moment_choice(self, epochs: ArrayLike, *, given_responses: bool = False) -> Choice:
        """The method of `expected_risk` at these epochs, and with `given_responses`, and its cost."""
        given_responses = _arrays.flag("given_responses", given_responses)
        when = np.unique(self.recipe.epochs(epochs).ravel())
        return expected_risk.choice(self._affine, self._modes, when, given_responses)

    @property
    def best_epoch_operations(self) -> float:
        """Operations of `best_epoch` at most, where epochs are tried one by one; 0 where they are not."""
        return 0.0 if self._modes is not None else self._affine.search_operations

    @cached_property
    def epoch(self) -> Epoch | AffineEpoch:
        """The mean of one epoch: Z, and the matrix that the mean error is multiplied by."""
        if self.recipe.average is not None:
            return self._unaveraged.epoch
        if self._modes is not None:
            return self._modes.epoch
        if not self.recipe.is_constant or self.recipe.momentum:
            raise self._unsupported(
                "epoch", "one scheme and a constant step without momentum: only then is it one map of beta"
            )
        return AffineEpoch(self._affine.timeline, float(self._affine.outside_decay(np.ones(1))[0]))

    @property
    def _is_symmetric(self) -> bool:
        """True if the mean of every epoch is one and the same symmetric map."""
        return self.recipe.is_plain and self.scheme.is_symmetric

    @cached_property
    def _modes(self) -> ModesTrajectory | None:
        """The modes of the mean map, if it is symmetric."""
        if self._of is not None:
            whole, number = self._of
            return None if whole._modes is None else whole._modes.output(number)
        if not self._is_symmetric:
            return None
        epoch = Epoch(self.problem, self.scheme, self.recipe.at(0).step, self.accuracy)
        return ModesTrajectory(epoch, columns(self.start), self.recipe.average)

    @cached_property
    def _affine(self) -> AffineTrajectory:
        """The run as one that is not known to be symmetric, for what needs every visit."""
        if self._of is not None:
            whole, number = self._of
            return whole._affine.output(number)
        # "exact" of a symmetric run is meant of its epochs alone, not of its visits.
        insists = self._is_symmetric and self.accuracy.must_be_exact
        wanted = replace(self.accuracy, method="auto") if insists else self.accuracy
        return AffineTrajectory(self.problem, self.scheme, self.recipe, columns(self.start), wanted)

    @cached_property
    def _engine(self) -> AffineTrajectory | ModesTrajectory:
        """The mean iterate."""
        if self._modes is not None:
            return self._modes
        if self.problem.stream is None or self.scheme.unit is not base.Unit.SAMPLE:
            return self._affine if self._of is None else self._of[0]._engine.output(self._of[1])
        # Second moments need the samples one by one, and refuse these.
        return self._independent_visits.warned()

    @cached_property
    def _independent_visits(self) -> StreamedSamples:
        """The mean of steps whose samples are drawn independently, for samples that are read in chunks."""
        return StreamedSamples(self.problem, self.scheme, self.recipe, columns(self.start), self.accuracy)

    @cached_property
    def _unaveraged(self) -> "Run":
        """The run whose answers are those of the last iterate."""
        if self.recipe.average is None:
            return self
        if self._of is not None:
            whole, number = self._of
            return whole._unaveraged.output(number)
        return Run(self.problem, self.scheme, replace(self.recipe, average=None), self.start, self.accuracy)

    @cached_property
    def divergence(self) -> Rate | None:
        """The rate of a mean iterate that diverges, by a few drawn orders; None if it may converge, or is exact."""
        if self._of is not None:
            return self._of[0].divergence
        return self.screened(_budget.AT_ONCE)

    def screened(self, operations: float) -> Rate | None:
        """The `divergence`, where the fewest draws take no more than so many operations."""
        rate = screened_rate(self.problem, self.scheme, self.recipe, operations)
        return rate if rate is not None and (rate.least >= 1 or rate.value >= _FAR_BEYOND) else None

    @overflow_is_inf
    def has_diverged(self, epochs: FloatArray) -> BoolArray:
        """True at epochs (any shape) where the mean iterate has grown so much that no digit of it is known."""
        growth = 0.0 if self.divergence is None else self.divergence.value
        return np.asarray(np.float64(growth) ** epochs > _LOST)

    @cached_property
    def divergence_words(self) -> str:
        """A sentence on a mean iterate that diverges: its growth, and a step that converges; empty otherwise."""
        if self.divergence is None:
            return ""
        step, words = self.recipe.at(0).step, ""
        for halvings in range(1, _HALVINGS):
            smaller = step / 2**halvings
            rate = screened_rate(self.problem, self.scheme, replace(self.recipe, schedule=smaller, divisor=1))
            if rate is not None and rate.most < 1:
                words = f"; at {significant(smaller, 3)} it converges"
                break
        growth = significant(self.divergence.value, 2)
        return (
            f"at step {significant(step, 3)} the mean iterate diverges, about {growth}-fold per epoch{words}."
        )

    @property
    def relaxed(self) -> "Run":
        """The run to a twentieth of the digits and of the budget, for a mean that grows without end."""
        return Run(self.problem, self.scheme, self.recipe, self.start, self.accuracy.relaxed_for_divergence)

    def _require_end(self, question: str) -> None:
        """Refuse a question about what becomes of a run in the end, if its epochs never become alike."""
        if not self.recipe.has_limit:
            raise self._unsupported(
                question, "a constant step, without end in the last stage if there are stages"
            )

    def _unsupported(self, question: str, advice: str) -> UnsupportedError:
        return UnsupportedError(f"{question} has no answer for {self!r}; it needs {advice}.")

    def with_step(self, step: float) -> "Run":
        """A copy of the run with another constant step, which shares what does not depend on the step.

        >>> import reshuffle as rs
        >>> rs.descend(rs.gaussian(100, 20), rs.FullBatch(), step=0.1).with_step(0.2).step
        0.2
        """
        made = self._at_step(_arrays.nonnegative("step", step))
        if self._modes is not None and made._modes is not None and not made._modes.epoch.reads_samples:
            made._modes.epoch.adopt(self._modes.epoch.blocks, None)
        elif not self._is_symmetric and not self.scheme.has_stages:
            made._affine = self._affine.with_recipe(made.recipe)
        return made

    def _at_step(self, step: float) -> "Run":
        """A copy of the run with another constant step."""
        # A schedule may have ended before the last stages, which a constant step reaches.
        constant = replace(self.recipe, schedule=step, divisor=1).fitted(self.scheme, self.problem.n)
        return Run(self.problem, self.scheme, constant, self.start, self.accuracy)

    def at_steps(self, steps: Sequence[float]) -> Iterator[tuple[float, "Run"]]:
        """Copies of the run at those of the constant steps that are many enough to share their mean maps."""
        if self._modes is None or not self.problem.rank:
            return
        blocks, scale = self._modes.epoch.blocks, self.problem.row_space.scale
        scaled = {step * scale * scale: step for step in steps}
        for at, mean in shared_means(self.scheme, self.problem.n, blocks, self.accuracy, list(scaled)):
            made = self._at_step(scaled[at])
            assert made._modes is not None
            made._modes.epoch.adopt(blocks, mean)
            made.divergence = None
            yield scaled[at], made

    @divergence_first
    def iterate(self, epochs: ArrayLike) -> FloatArray:
        """The mean iterate after each of the given epochs, of shape epochs.shape + (p,) or (p, t)."""
        return self.problem.squeezed(self._engine.iterate(self.recipe.epochs(epochs)))

    @divergence_first
    def iterate_error(self, epochs: ArrayLike) -> FloatArray:
        """The error of the mean iterate in Euclidean norm, epochs.shape or + (t,): see `error_kind`."""
        return self.problem.squeezed(self._engine.iterate_error(self.recipe.epochs(epochs)))

    @overload
    def predict(
        self, X_new: ArrayLike | None, epochs: ArrayLike, *, return_std: Literal[False] = False
    ) -> FloatArray: ...

    @overload
    def predict(
        self, X_new: ArrayLike | None, epochs: ArrayLike, *, return_std: Literal[True]
    ) -> tuple[FloatArray, FloatArray]: ...

    @divergence_first
    def predict(
        self, X_new: ArrayLike | None, epochs: ArrayLike, *, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predictions of the mean iterate for new rows X_new (m, p), of shape epochs.shape + (m,) or (m, t).

        With `return_std`, also the standard deviation of the predictions of single runs over their random orders,
        of the same shape; its error is `covariance(epochs).deviation_error(X_new)`. None for X_new means the new
        points that a kernel problem was posed with.

        >>> import reshuffle as rs
        >>> problem = rs.LeastSquares([[1.0], [2.0]], [1.0, 0.0])
        >>> run = rs.descend(problem, rs.RandomReshuffling(batches=2), step=0.1)
        >>> [answer.round(4).tolist() for answer in run.predict([[10.0]], [1, 2], return_std=True)]
        [[[0.8], [1.232]], [[0.2], [0.2273]]]
        """
        rows = checked_new_rows(X_new, self.problem)
        wants_std = _arrays.flag("return_std", return_std)
        parameters = self.iterate(epochs)
        predicted = finite_or_inf(parameters @ rows.T if self.problem.outputs is None else rows @ parameters)
        return (predicted, self.covariance(epochs).deviation(rows)) if wants_std else predicted

    @divergence_first
    def covariance(self, epochs: ArrayLike) -> ParameterCovariance:
        """The covariance over the orders of the parameters of single runs, around the mean iterate.

        Given the responses y of the problem; no truth is needed. Exact where second moments are, by a recursion
        of the covariance itself, and otherwise estimated from simulated runs, with an error. No matrix of size
        p x p is made unless `.matrix` is used: `.factor` (p, r), `.standard_deviations` and
        `.deviation(X_new)` do without. Of several outputs, that of each.

        Parameters
        ----------
        epochs : number or array of any shape
            Every epoch costs one step of the recursion; math.inf asks for its fixed point.

        >>> import reshuffle as rs
        >>> problem = rs.gaussian(100, 20, noise=0.5, seed=1)
        >>> rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=1.0).covariance([10, float("inf")])
        ParameterCovariance(shape=(2, 20, 20), error at most 1e-16 (estimate))
        """
        clock = self.recipe.epochs(epochs)
        # Deviations of predictions, and then their errors, are those of one covariance.
        last: ParameterCovariance | None = vars(self).get("_last_covariance")
        if last is not None and np.array_equal(last.epochs, clock):
            return last
        self._last_covariance = covariance.covariance(self, clock)
        return self._last_covariance

    @divergence_first
    def training_loss(self, epochs: ArrayLike) -> FloatArray:
        """|y - X b|^2 / (2n) at the mean iterate b, over all rows and without a penalty, as `epochs` in shape."""
        return self.problem.squeezed(self._engine.training_loss(self.recipe.epochs(epochs)))

    @divergence_first
    def training_loss_error(self, epochs: ArrayLike) -> FloatArray:
        """The error of the training loss, of the shape of `epochs`: see `error_kind`."""
        return self.problem.squeezed(self._engine.training_loss_error(self.recipe.epochs(epochs)))

    @property
    def epochs_worth_a_look(self) -> FloatArray:
        """Epochs up to where nothing moves any more, and the limit if there is one."""
        last = stopping.last_worth_trying(self.recipe, self.stability() if self.recipe.is_constant else None)
        return stopping.epochs_to_search(self.recipe.earliest, last, self.recipe.has_limit and self.converges)

    @divergence_first
    def degrees_of_freedom(self, epochs: ArrayLike) -> FloatArray:
        """The trace of the matrix that sends the responses to the fit, of the shape of `epochs`.

        Sum_i d(x_i'b_k) / d y_i, for the mean iterate: 0 at the start, and the rank of X where it has converged to
        least squares.

        >>> import reshuffle as rs
        >>> run = rs.descend(rs.gaussian(100, 20, seed=1), rs.RandomReshuffling(batches=4), alpha=1.0)
        >>> run.degrees_of_freedom([0, 1, 10, 1000]).round(3)
        array([ 0.   , 13.785, 19.938, 20.   ])
        """
        return self._engine.degrees_of_freedom(self.recipe.epochs(epochs))

    leave_one_out = divergence_first(leave_one_out.leave_one_out)
    prediction_interval = divergence_first(influence.prediction_interval)
    influence = divergence_first(influence.influence)
    cross_validate = divergence_first(cross_validation.cross_validate)
    mallows_cp = criteria.mallows_cp
    generalized_cross_validation = criteria.generalized_cross_validation
    ridge_equivalent = criteria.ridge_equivalent

    def without(self, rows: ArrayLike) -> "Run":
        """The run with some rows (m,) deleted, computed anew and without training.

        As in `leave_one_out` and `influence` their gradients are left out and nothing else changes: batches, the
        divisor of every batch and the steps stay as they are. The rows stay in the problem as rows of zeros.

        >>> import reshuffle as rs
        >>> run = rs.descend(rs.LeastSquares([[1.0], [2.0], [1.0]], [1.0, 2.0, 4.0]), rs.FullBatch(), step=0.1)
        >>> run.without([2]).iterate(float("inf")).round(6)
        array([1.])
        """
        self.problem.require_rows("without")
        return self.on(self.problem.without(row_numbers("rows", rows, self.problem.n)))

    def on(self, problem: LeastSquares, *, budget: float | None = None) -> "Run":
        """A run with this scheme, steps and start on another problem with as many columns; batches are cut anew.

        Parameters
        ----------
        problem : LeastSquares
        budget : float, optional
            Operations that may be spent on the mean of its epoch; as many as for this run by default.

        >>> import reshuffle as rs
        >>> run = rs.descend(rs.gaussian(100, 20), rs.Cyclic(batch_size=10), step=0.1)
        >>> run.on(rs.gaussian(50, 20))
        Run(LeastSquares(n=50, p=20, truth known), Cyclic(batch_size=10), step=0.1)
        """
        problem, scheme = base.fitted(checked_problem(problem), self.scheme)
        recipe, allowed = self.recipe.fitted(scheme, problem.n), self.accuracy.budget
        allowed = allowed if budget is None else _arrays.positive("budget", budget)
        accuracy = replace(self.accuracy, budget=allowed)
        # The other problem may have another number of outputs; a start that all of them share serves it too.
        begin = columns(self.start)
        start = begin[:, 0] if (begin == begin[:, :1]).all() else self.start
        return Run(problem, scheme, recipe, checked_start(start, problem), accuracy)

    @divergence_first
    def excess_training_loss(self, epochs: ArrayLike, *, of_run: bool = False) -> FloatArray:
        """|X (b - b_ols)|^2 / (2n): the training loss less that of least squares.

        It has the shape of `epochs`, or epochs.shape + (t,). Needs no truth. Accurate even where the two losses
        differ by less than their rounding.

        Parameters
        ----------
        epochs : number or array of any shape
        of_run : bool
            That of a single run, on average over its orders, in place of that of the mean iterate: the spread from
            shuffling comes on top, as `covariance` knows it, tr(X Cov X') / (2n).

        >>> import reshuffle as rs
        >>> problem = rs.LeastSquares([[1.0], [2.0], [3.0]], [1.0, 0.0, 2.0])
        >>> run = rs.descend(problem, rs.RandomReshuffling(batches=3), step=0.05)
        >>> run.excess_training_loss([0, 1, 10], of_run=True).round(5)
        array([0.58333, 0.09661, 0.00296])
        """
        clock, adds_spread = self.recipe.epochs(epochs), _arrays.flag("of_run", of_run)
        reduction, space = self.problem.reduction, self.problem.row_space
        # Not the difference of two losses, which loses all digits once these agree to half of them.
        apart = self.iterate(clock) - limits.minimum_norm(self.problem, self.start)
        excess = reduction.squares(apart, clock.ndim)
        if adds_spread:
            # The reduced rows have the same sum of squares as all of X.
            rows = space.scale * space.lift(reduction.rows.T).T
            excess = excess + np.square(self.covariance(clock).deviation(rows)).sum(axis=clock.ndim)
        return np.asarray(excess / (2 * self.problem.n))

    @divergence_first
    @per_output
    def risk(self, epochs: ArrayLike) -> Risk:
        """The risk of the mean iterate, E |b - beta_star|_Sigma^2 over the noise, and its parts.

        Under a penalty nothing is frozen, and all that is not noise is in the bias.
        """
        return self._engine.risk(self.recipe.epochs(epochs))

    @divergence_first
    @per_output
    def expected_risk(self, epochs: ArrayLike, *, given_responses: bool = False) -> ExpectedRisk:
        """The risk of the run itself, E |beta_k - beta_star|_Sigma^2 over orders and noise, and its spread.

        The mean iterate's risk is what averaging many runs would have; a single run has the spread from shuffling
        on top (closing remark of Section 3.2). `run.computation` says how it is computed.

        Parameters
        ----------
        epochs : number or array of any shape
            Every epoch costs one step of the recursion of second moments; math.inf asks for its fixed point.
        given_responses : bool
            Average over the orders alone, with the responses y of the problem, in place of orders and noise. Needs
            no noise level.

        >>> import reshuffle as rs
        >>> problem = rs.gaussian(100, 20, noise=0.5, seed=1)
        >>> rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=1.0).expected_risk(50)
        ExpectedRisk(total=0.0682156: mean=0.0646408, spread=0.00357473)
        """
        given = _arrays.flag("given_responses", given_responses)
        clock = self.recipe.epochs(epochs)
        return expected_risk.expected_risk(self._affine, self._modes, clock, given)

    @divergence_first
    def limit(self) -> Limit:
        """The limit of the mean iterate, and its risk there if the truth is known."""
        self._require_end("limit")
        return limits.limit(self._engine, self.risk)

    @divergence_first
    def compare_limit(self) -> LimitComparison:
        """Compare the limit with the minimum-norm solution, the limit of full-batch descent from the same start."""
        self._require_end("compare_limit")
        return limits.compare(self.problem, self.start, self.limit())

    @property
    def converges(self) -> bool:
        """True if the mean iterate has a limit from every start."""
        self._require_end("converges")
        return self._unaveraged._engine.converges

    @divergence_first
    def stability(self) -> Stability:
        """Convergence and rate of the mean iterate: of the last one, also where an average is requested."""
        self._require_end("stability")
        return self._unaveraged._engine.stability()

    @divergence_first
    def mean_square_stability(self) -> MeanSquareStability:
        """Convergence and rate of the mean square of a run, on which its expected risk depends.

        Where orders are too many for a recursion over all of them, from drawn ones, with an error.
        """
        self._require_end("mean_square_stability")
        alone = self._unaveraged
        return mean_square_stability(alone._affine.last_stage, alone._modes)

    @divergence_first
    def best_epoch(self, *, centred: bool = False) -> BestEpoch:
        """The epoch with the smallest risk of the mean iterate, or of leave-one-out if the truth is not known.

        `criterion` says which. Where epochs are symmetric maps, and for leave-one-out, epochs are tried in even
        steps of their logarithm, then one by one around the best. Otherwise they are tried one by one, up to the
        end of a step schedule, 20,000 of them or the end of the budget. A tail average converges like 1 / k, hence
        often later: then `error` says that later epochs than those that were tried are open. `centred` is that of
        `leave_one_out`.

        >>> import reshuffle as rs
        >>> drawn = rs.gaussian(60, 40, noise=1.0, seed=0)
        >>> rs.descend(rs.LeastSquares(drawn.X, drawn.y), rs.RandomReshuffling(batches=4), alpha=0.1).best_epoch()
        BestEpoch(epoch=23, leave-one-out=1.18884 (standard error 0.24))
        """
        centred = _arrays.flag("centred", centred)
        if self.problem.beta_star is not None and self.problem.noise is not None:
            best: BestEpoch = per_output(lambda run: run._engine.best_epoch())(self)
            return best
        self.problem.require_rows("best_epoch, by leave-one-out where the truth is unknown,")
        rows = leave_one_out.RowsLeftOut(self, centred)

        def ask(epochs: FloatArray) -> FloatArray:
            given = rows.ask(epochs)
            parts = np.stack([given.mean_square, given.standard_error, given.error])
            return parts.reshape(3, len(epochs), -1)

        found = stopping.smallest(ask, self.epochs_worth_a_look)
        each = [stopping.by_leave_one_out(*values) for values in found]
        return each[0] if self.problem.outputs is None else stacked(each)

    @property
    def frozen(self) -> FrozenSubspace:
        """The subspace of parameters in which nothing is learned."""
        return self._engine.frozen

    @property
    def range_assumption(self) -> RangeAssumption:
        """The paper's assumption Range(Xtilde') in Range(Z), checked."""
        modes = self._unaveraged._modes
        if modes is None:
            raise self._unsupported("range_assumption", "epochs that are one symmetric map, with a matrix Z")
        return modes.range_assumption

    @divergence_first
    @per_output
    def risk_interval(self, epochs: ArrayLike) -> RiskInterval:
        """Bounds on the risk of two-batch descent from Z alone (Proposition twobatch_generr_Zonly)."""
        clock = self.recipe.epochs(epochs)
        if self._modes is None or self.recipe.average is not None:
            raise self._unsupported(
                "risk_interval", "RandomReshuffling with 2 batches and nothing but a step"
            )
        _, drift = self._modes.motion(clock)
        return two_batch_interval(self._modes.epoch, self.problem, self._modes.risk(clock), drift)


@_arrays.with_known_keywords
def descend(
    problem: LeastSquares,
    scheme: Scheme,
    step: StepLike | None = None,
    *,
    alpha: StepLike | None = None,
    start: ArrayLike | None = None,
    penalty: float = 0.0,
    momentum: float = 0.0,
    nesterov: bool = False,
    unpenalized: ArrayLike = (),
    average: Average | None = None,
    method: str = "auto",
    rtol: float = Accuracy.rtol,
    budget: float = Accuracy.budget,
    seed: int = 0,
) -> Run:
    """Return a run of mini-batch gradient descent without training it; answers that are not exact carry an error.

    Parameters
    ----------
    problem : LeastSquares
    scheme : Scheme
        The order in which rows are visited: FullBatch(), RandomReshuffling(batches=4), WithReplacement(batches=4);
        or Stages, if that changes with the epoch.
    step : float, list, callable or schedule
        The step of one visit, torch's lr; or
    alpha : float, list, callable or schedule
        the equivalent full-batch step under the linear scaling rule, step = alpha / B. A list has one step per
        epoch, and nothing is known beyond; a function is called with 0, 1, 2, ..., the epochs done before it.
        rs.PerVisit goes by visits in place of epochs, and `rs.schedules` has torch's schedulers for both.
    start : (p,) or (p, t), optional
        beta_0, for all outputs or for each; zero by default.
    penalty : float
        lambda of an l2 penalty, torch's weight_decay: the gradient of every visit gets lambda * beta added. The
        loss is |y - X beta|^2 / (2n) + lambda |beta|^2 / 2: ridge regression with n * lambda in the usual scaling.
    momentum : float
        Heavy-ball momentum, in [0, 1), with a buffer that is carried over between visits and between epochs, as in
        torch's SGD: v -> momentum v + gradient, beta -> beta - step v.
    nesterov : bool
        Nesterov's momentum as in torch's SGD, which looks ahead: beta -> beta - step (gradient + momentum v), with
        the new v. Needs momentum > 0.
    unpenalized : list of int
        Columns of X whose parameters the penalty leaves out, such as [-1] for an intercept, a last column of ones:
        torch's parameter group with weight_decay=0. Negative numbers count from the end.
    average : EMA or TailAverage, optional
        An average of the iterates, over epochs or visits, that takes the place of the last iterate in all answers.
    method : str
        The method of the mean over orders: "exact" (a handful of batches), "cavity" (of many batches or shuffled
        samples, with an estimate of its error), "sampling" (of orders, with a standard error), or "auto": exact if
        that fits the budget, else the first of the others that reaches rtol. `run.method` says which it was. With
        momentum, a penalty or a schedule the cavity equation is for shuffled samples alone; how many orders of
        ShuffleOnce are drawn is up to the scheme.
    rtol : float
        The relative error that the decay rates of the modes, the shares that an epoch takes away, may have in
        root mean square where the mean is not exact. The error of a risk curve is then about as small, relative to
        its start; it is `run.risk(epochs).error`.
    budget : float
        Floating-point operations that may be spent on the mean of an epoch; 1e12 is a minute or so. If that is not
        enough for rtol a warning says so, and the answers carry their error.
    seed : int
        Seed of the sampled orders.

    Returns
    -------
    Run
        Every question is a method of it.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(100, 150, noise=0.5, seed=1)
    >>> run = rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=0.2)
    >>> run.risk([0, 10, 300]).total.round(4)
    array([1.    , 0.5801, 0.8588])
    >>> run.best_epoch()
    BestEpoch(epoch=7, risk=0.575587)
    """
    problem = checked_problem(problem)
    steps = base.scheme_of(scheme).steps(problem.n)
    made = recipe.checked(step, alpha, penalty, momentum, steps, nesterov, unpenalized, problem.p, average)
    begin, wanted = checked_start(start, problem), accuracy(method, rtol, budget, seed)
    # Last of all, since rows that are read in chunks are read here.
    problem, scheme = base.fitted(problem, scheme)
    made.require_ordinary(problem.compressed.scale)
    problem.require_ordinary(begin)
    return Run(problem, scheme, made.fitted(scheme, problem.n), begin, wanted)
