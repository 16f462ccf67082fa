"""MiniBatchRegressorCV: settings and stopping epoch chosen on held-out rows, as an estimator of scikit-learn.

`HeldOutSearch` is the search itself, which a classifier shares: it differs in the losses of held-out rows alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.model_selection import check_cv

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.epoch.select import Accuracy
from reshuffle.errors import ArgumentError, UnsupportedError
from reshuffle.planning.correction import corrected
from reshuffle.problem.sources import Stream, opened
from reshuffle.recipe import Average
from reshuffle.sklearn.regressor import (
    Fit,
    FitParameters,
    FittedEstimator,
    LinearRegressor,
    MiniBatchRegressor,
    TrainingData,
    positions_warn,
    regressor_like,
)

_EVERY_EPOCH, _FURTHER_APART = 20, 80
"""Up to which epoch every one is tried, and how many are up to the last."""
_CANDIDATES_OF = {
    "batch_size": "batch_sizes", "learning_rate": "learning_rates", "momentum": "momenta",
    "weight_decay": "weight_decays",
}  # fmt: skip
_AT_A_TIME = 1 << 24
"""Errors of left-out rows in memory at a time."""
_LEFT_OUT = 4000
"""Rows that are left out at most: a mean over so many is known to two percent or so."""
_CANDIDATES = 400
"""Candidates among which the choice is bootstrapped, at most."""
Losses = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(eq=False, repr=False, kw_only=True)
class HeldOutSearch(FittedEstimator):
    """The search for parameters on held-out rows; `MiniBatchRegressorCV` explains its parameters."""

    batch_sizes: Any = (64,)
    learning_rates: Any = ("auto",)
    epochs: Any = 1000
    momenta: Any = (0.0,)
    weight_decays: Any = (0.0,)
    nesterov: bool = False
    shuffle: bool | str = True
    drop_last: bool = False
    average: Average | None = None
    fit_intercept: bool = True
    standardize: bool = False
    cv: Any = None
    rtol: float = Accuracy.rtol
    budget: float = Accuracy.budget
    random_state: Any = None

    @staticmethod
    def _losses(predicted: FloatArray, y: FloatArray) -> FloatArray:
        """Losses (E, m) of predictions (E, m, t) for responses (m, t); a second set decides between equal means."""
        return np.asarray(np.square(predicted - y).mean(axis=-1)[np.newaxis])

    def _search(self, data: TrainingData, stratify: Any, best_possible: float) -> MiniBatchRegressor:
        """Choose on held-out rows and fit the chosen model to all; scores are the best possible one less losses."""
        epochs, nesterov = _epochs(self.epochs), _arrays.flag("nesterov", self.nesterov)
        models, scores = [], []
        for values in product(*(_listed(name, getattr(self, name)) for name in _CANDIDATES_OF.values())):
            chosen = dict(zip(_CANDIDATES_OF, values, strict=True))
            looks_ahead = nesterov and chosen["momentum"] != 0
            models.append(regressor_like(self, **chosen, nesterov=looks_ahead, epochs=1))
        for model in models:
            training = FitParameters.of(model)
            fitted = training.on(data)
            # What "auto" is on all rows.
            model.learning_rate = fitted.run.step
            if self.cv is None:
                scores.append(_left_out(fitted, epochs, self._losses))
            else:
                folds = check_cv(self.cv, stratify, classifier=stratify is not None).split(data.X, stratify)
                training = replace(training, learning_rate=model.learning_rate)
                scores.append(_by_folds(training, data, folds, epochs, self._losses))
        tried = [{name: getattr(model, name) for name in _CANDIDATES_OF} for model in models]
        self.cv_results_ = cv_table(tried, scores, epochs, best_possible)
        losses = np.concatenate([found.means for found in scores], axis=1)
        self.best_index_ = int(np.lexsort(losses[::-1])[0])
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        if not np.isfinite(losses[-1, self.best_index_]):
            allowed, given = "have one that converges", "all diverge on held-out rows"
            raise ArgumentError("learning_rates", allowed, given, 'try "auto", or smaller ones')
        self.best_params_ = dict(self.cv_results_["params"][self.best_index_])
        self.best_epoch_ = self.best_params_["epochs"]
        # Losses of the best candidate and of some that converge, times the weights of the rows.
        each, weights = np.concatenate([found.rows for found in scores]), scores[0].weights
        others = np.flatnonzero(np.isfinite(each).all(axis=1))
        some = others[np.linspace(0, len(others) - 1, min(len(others), _CANDIDATES)).round().astype(int)]
        self._rows = each[np.append(self.best_index_, some)] * weights, weights
        best: MiniBatchRegressor = models[self.best_index_ // len(epochs)].set_params(epochs=self.best_epoch_)
        return best.fit(data.X, data.y, data.weights)


@positions_warn("batch_sizes", "learning_rates", "epochs")
@dataclass(eq=False, repr=False, kw_only=True)
class MiniBatchRegressorCV(LinearRegressor, HeldOutSearch):
    """MiniBatchRegressor with batch size, learning rate, momentum, weight decay and stopping epoch chosen.

    Every combination is tried, and each at all epochs at once: none is trained. The one with the least mean square
    on held-out rows is fitted to all rows.

    Parameters
    ----------
    batch_sizes : list of int or None
    learning_rates : list of float or "auto"
        Those of MiniBatchRegressor; "auto" is computed from all rows.
    epochs : int or list of int
        When training may stop: up to 100 numbers of epochs up to this one, ever further apart; or these, math.inf
        included.
    momenta, weight_decays : list of float
    nesterov : bool
        For every momentum above zero.
    cv : None, int, splitter or iterable of splits
        The splits into training and held-out rows. None: each row by itself, 4000 of them at most, all from one
        run. Otherwise folds, as in scikit-learn; every split has means and scales of its own training rows.
    shuffle, drop_last, average, fit_intercept, standardize, rtol, budget, random_state
        As in MiniBatchRegressor.

    Attributes
    ----------
    best_params_ : dict
        Parameters for MiniBatchRegressor, the learning rate as a number.
    best_score_ : float
        Less the mean square on held-out rows; over outputs, their mean.
    test_error_, interval_ : float, (float, float)
        The mean square to expect on new rows and its 95% interval. The best score of many is too good to be true:
        here the choice is bootstrapped, and judged on rows that were not drawn, as in `reshuffle.plan`. Where
        columns are standardized, held-out rows have their part in the scales.
    best_epoch_ : int or math.inf
    best_index_ : int
        Its row in `cv_results_`.
    best_estimator_ : MiniBatchRegressor
        Fitted to all rows.
    cv_results_ : dict of arrays
        A row per combination and number of epochs, as in GridSearchCV: made for `pandas.DataFrame(cv_results_)`.
        A combination that diverges has the score -inf. Where rows were left out one by one `std_test_score` is
        over rows, and over the root of their number the standard error of `mean_test_score`.
    coef_, intercept_, n_iter_, learning_rate_, run_, n_features_in_, feature_names_in_
        As in MiniBatchRegressor.

    >>> import numpy as np
    >>> from reshuffle.sklearn import MiniBatchRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 40))
    >>> y = X[:, :10].sum(axis=1) + rng.standard_normal(60)
    >>> model = MiniBatchRegressorCV(batch_sizes=[10, 30], epochs=200).fit(X, y)
    >>> model.best_epoch_, model.best_params_["batch_size"], round(model.best_score_, 3)
    (18, 10, -2.452)
    """

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> "MiniBatchRegressorCV":
        """Choose on held-out rows of X and y, and fit to all; return the estimator.

        The arguments are those of MiniBatchRegressor. Sources of rows must fit into memory, and held-out rows count
        by `sample_weight`, too.
        """
        found = opened(X, y, sample_weight)
        if isinstance(found, Stream):
            raise UnsupportedError(
                f"rows that are held out must be in memory, but X has {found.n} rows that are read in chunks; "
                "choose on a sample of the rows, and fit MiniBatchRegressor to all of them."
            )
        X, y = (X, y) if found is None else (found.X, found.y)
        self.best_estimator_ = chosen = self._search(
            TrainingData.checked(self, X, y, sample_weight, 2), None, 0.0
        )
        losses, weights = self._rows
        self.test_error_, self.interval_ = float(-self.best_score_), (-self.best_score_, -self.best_score_)
        if losses[0].any():
            count = losses.shape[1] * (1 if chosen.coef_.ndim == 1 else len(chosen.coef_))
            self.test_error_, width = corrected(losses, weights, np.zeros(len(losses)), count)
            self.interval_ = self.test_error_ * np.exp(-width), self.test_error_ * np.exp(width)
        self._names = None if found is None else found.names
        for name in ("_fit", "coef_", "intercept_", "n_iter_", "learning_rate_"):
            setattr(self, name, getattr(chosen, name))
        return self


def _listed(name: str, values: Any) -> list[Any]:
    """A list of candidates with at least one entry."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, list | tuple) or not values:
        raise ArgumentError(name, "be a list of what to try, with at least one entry", f"it is {values!r}")
    return list(values)


def _epochs(value: Any) -> FloatArray:
    """Epochs, ascending: these, or at most a hundred up to this one."""
    if np.ndim(value) == 0:
        last = _arrays.whole_number("epochs", value, 1, hint="Or give a list of those to try.")
        few = np.arange(1, min(last, _EVERY_EPOCH) + 1)
        return np.union1d(few, np.geomspace(1, last, _FURTHER_APART).round())
    when = np.unique(_arrays.epochs(value))
    if not len(when) or when[0] < 1:
        raise ArgumentError("epochs", "be a list of numbers of at least 1", f"it is {value!r}")
    return when


class Score(NamedTuple):
    """Losses of held-out rows: their means (losses, epochs).

    Of the first loss there are also standard deviations over splits (epochs,), those of some rows (epochs, m) with
    the weights (m,) of these, and the means of each split (splits, epochs), None where each row is a split.
    """

    means: FloatArray
    deviation: FloatArray
    rows: FloatArray
    weights: FloatArray
    splits: FloatArray | None = None


def _averaged(losses: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Means of losses (..., m) over rows; inf where they are no numbers."""
    found = np.average(losses, axis=-1, weights=weights)
    return np.where(np.isfinite(found), found, np.inf)


def _left_out(fitted: Fit, epochs: FloatArray, losses: Losses) -> Score:
    """Losses of rows whose gradients are left out one by one, at all epochs, from one run.

    Means are those of the other rows; scales are those of all, which changes about 1 / n of what leaving out a row
    does. Of many rows a sample is left out.
    """
    run, centred = fitted.run, fitted.training.centre
    n, outputs, weights = run.problem.n, run.problem.outputs or 1, run.problem.sample_weight
    rows = np.sort(np.random.default_rng(run.accuracy.seed).permutation(n)[:_LEFT_OUT])
    weights = None if weights is None else weights[rows]
    assert isinstance(fitted.data, TrainingData)
    y = (fitted.data.y[rows] + fitted.standardizer.response_mean).reshape(len(rows), -1)
    means, deviations, of_rows = [], [], []
    for part in np.array_split(epochs, -(-len(epochs) * len(rows) * outputs // _AT_A_TIME)):
        found = run.leave_one_out(part, rows=rows, centred=centred)
        with np.errstate(invalid="ignore", over="ignore"):
            each = losses(y - found.residuals.reshape(len(part), len(rows), -1), y)
            mean = _averaged(each, weights)
            variance = np.average(np.square(each[0] - mean[0, :, np.newaxis]), axis=-1, weights=weights)
        means.append(mean)
        deviations.append(np.where(np.isfinite(mean[0]), np.sqrt(variance), np.inf))
        of_rows.append(each[0])
    weights = np.ones(len(rows)) if weights is None else weights
    return Score(np.concatenate(means, axis=1), np.concatenate(deviations), np.concatenate(of_rows), weights)


def _by_folds(
    training: FitParameters, data: TrainingData, folds: Any, epochs: FloatArray, losses: Losses
) -> Score:
    """Losses of the rows that are held out of each fold, whose means are its own; inf where training diverges."""
    found, of_rows, weights = [], [], []
    with np.errstate(invalid="ignore", over="ignore"):
        for rows, others in folds:
            held_out = data.part(others)
            if held_out.weights is not None and not held_out.weights.any():
                allowed = "hold out rows with weight in every split"
                raise ArgumentError("cv", allowed, "in one all of them have sample_weight zero")
            coefficients, intercepts = training.on(data.part(rows)).path(epochs)
            predicted = (coefficients @ held_out.X.T + intercepts[..., np.newaxis]).reshape(
                len(epochs), -1, len(others)
            )
            y = held_out.y.reshape(len(others), -1)
            each = losses(predicted.swapaxes(1, 2), y)
            found.append(_averaged(each, held_out.weights))
            of_rows.append(each[0])
            weights.append(np.ones(len(others)) if held_out.weights is None else held_out.weights)
        means, deviations = np.mean(found, axis=0), np.std(found, axis=0)[0]
    rows, splits = np.concatenate(of_rows, axis=1), np.array(found)[:, 0]
    some = slice(None, None, -(-rows.shape[1] // _LEFT_OUT))
    weight = np.concatenate(weights)[some]
    return Score(means, np.where(np.isfinite(means[0]), deviations, np.inf), rows[:, some], weight, splits)


def cv_table(
    tried: Sequence[Mapping[str, Any]], scores: Sequence[Score], epochs: FloatArray, best_possible: float
) -> dict[str, Any]:
    """A row per candidate and number of epochs: its parameters, its score (less is worse), its rank."""
    counts = [int(count) if np.isfinite(count) else float(count) for count in epochs]
    params = [{**candidate, "epochs": count} for candidate in tried for count in counts]
    table: dict[str, Any] = {}
    for name in params[0]:
        values = [row[name] for row in params]
        numeric = all(isinstance(value, int | float) for value in values)
        column = np.array(values, dtype=None if numeric else object)
        table[f"param_{name}"] = np.ma.MaskedArray(column, mask=False)
    table["params"] = params
    splits = [found.splits for found in scores if found.splits is not None]
    for number in range(len(splits[0]) if splits else 0):
        table[f"split{number}_test_score"] = best_possible - np.concatenate(
            [split[number] for split in splits]
        )
    table["mean_test_score"] = best_possible - np.concatenate([found.means[0] for found in scores])
    table["std_test_score"] = np.concatenate([found.deviation for found in scores])
    table["rank_test_score"] = rankdata(-table["mean_test_score"], method="min").astype(np.int32)
    return table
