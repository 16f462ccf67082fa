"""How to train on given data: step, batch size and stopping epoch by leave-one-out."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.planning.contenders import Contest, Grid
from reshuffle.planning.mean_steps_left_out import Spectrum, ridge_left_out
from reshuffle.planning.prepared_data import PreparedData, as_posed, prepared
from reshuffle.planning.training_plan import Plan, PlannedRecipe, SimpleFit
from reshuffle.problem import LeastSquares
from reshuffle.schemes import SampleReshuffling, base
from reshuffle.schemes.base import Scheme

_BATCH_SIZES = (16, 32, 64, 128, 256)
_SHARES = tuple(0.5 * 2.0**-power for power in range(8))
"""Up to half of the safe step, at which the noise of single runs would be without bound."""
_EPOCHS = 80
_RIDGES = 60
_TINY = 1e-11
"""The penalty, relative to the largest eigenvalue, under which ridge is least squares of minimum norm."""


def plan(
    X: ArrayLike | LeastSquares,
    y: ArrayLike | None = None,
    *,
    batch_sizes: ArrayLike | None = None,
    steps: ArrayLike = _SHARES,
    momenta: ArrayLike = (0.0,),
    penalties: ArrayLike = (0.0,),
    epochs: int = 1000,
    scheme: Scheme | None = None,
    standardize: bool | None = None,
    intercept: bool | None = None,
    sample_weight: ArrayLike | None = None,
    of_run: bool = True,
    verify: bool = True,
) -> Plan:
    """Choose step, batch size and stopping epoch by leave-one-out, and tell what wrong choices cost.

    All steps, batch sizes, penalties and epochs are compared at once, from one decomposition: by the exact
    leave-one-out of descent whose batches are drawn afresh from all rows, plus an estimate of what random orders
    add in a single run. The best of them are then looked at closely, with the leave-one-out of the run itself,
    until one of these stands first. What differs by less than a thousandth is equal: the shorter training wins.

    Parameters
    ----------
    X : (n, p), or LeastSquares
        Rows; or a problem, such as one that a kernel poses, which is planned for as it stands, without y.
    y : (n,) or (n, t)
        For several outputs the mean over them is what counts.
    batch_sizes : list of int, optional
        16, 32, ..., 256 as far as there are more rows, and all rows, by default. What is more than all rows is all.
    steps : list of float
        In units of the safe step of each batch size; up to half of it by default. With momentum, of that times
        1 - momentum.
    momenta, penalties : list of float
        Of torch's SGD. Momenta are only told apart where runs are looked at closely.
    epochs : int
        The longest training that is thought of.
    scheme : Scheme, optional
        How rows are visited; its batch size does not matter. `SampleReshuffling`, torch's shuffle=True, by default.
    standardize, intercept : bool
        Divide the columns of X by their standard deviation; subtract the means of X and y. Where a row is left out
        means are those of the others; deviations stay those of all rows. Both are done by default, but never to a
        problem.
    sample_weight : (n,), optional
        Of the rows, in training, in means and deviations, and in the test error.
    of_run : bool
        Whether to plan for a single run, or for the mean of many.
    verify : bool
        Whether to look closely. Not done anyway beyond some size, where a single look takes longer than the plan.

    Returns
    -------
    Plan
        Batch size, step and epochs to train with, the test error to expect, the runners-up, and a map of all
        the others.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(200, 100, noise=1.0, seed=0)
    >>> rs.plan(problem.X, problem.y, batch_sizes=[50, 100], epochs=200)
    train with batches of 100, step 0.032, 22 epochs
      expected test error 1.22 ± 0.12, leaving out each of 200 rows (cavity)
        of which 8e-06 is the spread of single runs
      the step is 0.0625 of the largest that is safe, 0.512
      least squares: 1.669 (+36.71%)
      ridge: 1.214 (-0.57%)
      next: batches of 50, step 0.0122, 29 epochs: 1.221 (-0.03%)
      within 0.1% of the least test error, the shortest training is chosen
    """
    data = _data(X, y, standardize, intercept, sample_weight)
    n, wants_looks = data.problem.n, _arrays.flag("verify", verify)
    grid = Grid(
        batch_sizes=_sizes(batch_sizes, n),
        shares=_numbers("steps", steps, "above 0 and below 1, in units of the safe step", 0.0, 1.0),
        penalties=_numbers("penalties", penalties, "at least 0", -1.0, np.inf),
        momenta=_numbers("momenta", momenta, "at least 0 and below 1", -1.0, 1.0),
        epochs=np.unique(np.geomspace(1, _arrays.whole_number("epochs", epochs, 1), _EPOCHS).round()),
        scheme=_template(scheme, n),
        of_run=_arrays.flag("of_run", of_run),
    )
    spectrum = Spectrum.of(data.problem, data.is_centred)
    contest = Contest(spectrum, grid)
    best, *others = contest.ranked(wants_looks)
    least_squares, ridge = _simple_fits(spectrum)
    return Plan(
        best=best,
        runners_up=_runners_up(best, others),
        run=contest.run(best),
        data=data,
        least_squares=least_squares,
        ridge=ridge,
        batch_sizes=grid.batch_sizes,
        shares=grid.shares,
        penalties=grid.penalties,
        epochs=grid.epochs,
        mean_squares=contest.mean_squares,
        spreads=contest.spreads,
        safe_steps=contest.safe_steps,
    )


def _data(
    X: ArrayLike | LeastSquares,
    y: ArrayLike | None,
    standardize: bool | None,
    intercept: bool | None,
    sample_weight: ArrayLike | None,
) -> PreparedData:
    if isinstance(X, LeastSquares):
        given = {"y": y, "standardize": standardize, "intercept": intercept, "sample_weight": sample_weight}
        for name, value in given.items():
            if value is not None and value is not False:
                raise TypeError(
                    f"{name} must not be given beside a problem, which is planned for as it stands, but it is "
                    f"{value!r}; pass X and y in place of the problem."
                )
        return as_posed(X)
    if y is None:
        raise TypeError(
            "y must be given beside the rows X, but it is None; or pass a LeastSquares in their place."
        )
    return prepared(
        X,
        y,
        standardize=standardize is None or _arrays.flag("standardize", standardize),
        intercept=intercept is None or _arrays.flag("intercept", intercept),
        sample_weight=sample_weight,
    )


def _runners_up(best: PlannedRecipe, others: Sequence[PlannedRecipe]) -> tuple[PlannedRecipe, ...]:
    """The first of every other batch size, penalty and momentum."""
    seen, kept = {(best.batch_size, best.penalty, best.momentum)}, []
    for recipe in others:
        kind = (recipe.batch_size, recipe.penalty, recipe.momentum)
        if kind not in seen:
            seen.add(kind)
            kept.append(recipe)
    return tuple(kept)


def _simple_fits(spectrum: Spectrum) -> list[SimpleFit]:
    """Ordinary least squares, and the best ridge regression of a range of penalties."""
    penalties = np.concatenate([[_TINY], np.geomspace(1e-6, 10.0, _RIDGES)]) * spectrum.values.max()
    means, errors = ridge_left_out(spectrum, penalties)
    best = 1 + int(np.argmin(means[1:]))
    return [
        SimpleFit(name, float(penalty), float(means[place]), float(errors[place]))
        for name, penalty, place in (("least squares", 0.0, 0), ("ridge", penalties[best], best))
    ]


def _sizes(given: ArrayLike | None, n: int) -> FloatArray:
    if given is None:
        return np.array([*(size for size in _BATCH_SIZES if size < n), n], dtype=np.float64)
    values = _arrays.any_array("batch_sizes", given)
    if values.ndim != 1 or not values.size:
        raise ValueError(
            f"batch_sizes must be a list of whole numbers, such as [16, 64], but it is {given!r}."
        )
    # As in torch's DataLoader, a batch larger than the data holds all of them.
    sizes = [min(_arrays.whole_number("batch_sizes", size, 1), n) for size in values.tolist()]
    return np.unique(np.array(sizes, dtype=np.float64))


def _numbers(name: str, given: ArrayLike, allowed: str, above: float, below: float) -> FloatArray:
    values = np.atleast_1d(_arrays.real_array(name, given, advice="give numbers"))
    wrong = (values <= above) | (values >= below) | ((above < 0) & (values < 0))
    if values.ndim != 1 or not values.size or wrong.any():
        raise ValueError(f"{name} must be a list of numbers {allowed}, but it is {given!r}.")
    return np.unique(values)


def _template(scheme: Scheme | None, n: int) -> Scheme:
    return SampleReshuffling(batch_size=1) if scheme is None else base.checked(scheme, n).with_batch_size(1)
