"""What is asked of a run without the truth: how it does on rows that it has not seen."""

from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.validation import criteria
from reshuffle.validation.cross_validation import CrossValidation, Folds, cross_validated
from reshuffle.validation.leave_one_out import LeaveOneOut
from reshuffle.validation.leaving_out import LeavingOut, with_spread
from reshuffle.validation.questions import Learner
from reshuffle.validation.ridge import RidgeEquivalent, ridge_equivalent


class JudgedRun:
    """The questions of a `Run` that need rows to be left out, or degrees of freedom."""

    def leave_one_out(
        self: Learner,
        epochs: ArrayLike,
        *,
        rows: ArrayLike | None = None,
        of_run: bool = False,
        centred: bool = False,
    ) -> LeaveOneOut:
        """The test error without the truth: every row is predicted by the run in which its gradient is left out.

        All else stays as it is, the divisor of its batch included. Under `GroupReshuffling` samples are left out:
        each row is predicted by the run without its sample. For the full batch, draws with replacement, some
        shuffled batches and orders that are kept it is exact, by a contour integral that costs about as much as the
        modes; for up to 14 to 20 rows that are visited one by one, from all of their orders. For more batches and
        for shuffled samples there are formulas that neglect little, and drawn orders where that is not little;
        everything else is run once per row where that is affordable, and in ten folds where not. `method` tells
        which it was.

        Parameters
        ----------
        epochs : number or array of any shape
        rows : (m,), optional
            The rows to be left out, all by default. For many rows a sample of some thousand will do.
        of_run : bool
            The test error of a single run in place of that of the mean iterate: the spread of predictions over
            orders, as `covariance` knows it, is added.
        centred : bool
            Whether the columns of X and y were centred by their means. Centred rows add up to zero, so that the
            others know the one that is left out: with this, it is left out of the means too (the means as visits
            feel them on average, unless `method` is "refits" or folds). It matters where there are about as many
            columns as rows.

        >>> import reshuffle as rs
        >>> problem = rs.gaussian(100, 20, noise=0.5, seed=1)
        >>> run = rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=1.0)
        >>> run.leave_one_out([1, 10, 100]).mean_square.round(4)
        array([0.391 , 0.2954, 0.2958])
        >>> run.leave_one_out(10, of_run=True)
        LeaveOneOut(mean_square=0.299493 (standard error 0.037), exact)
        """
        self.problem.require_rows("leave_one_out")
        clock = self.recipe.clock(epochs)
        given = LeavingOut(self, _arrays.flag("centred", centred)).ask(clock, rows)
        return with_spread(given, self, clock) if _arrays.flag("of_run", of_run) else given

    def cross_validate(self: Learner, epochs: ArrayLike | None = None, folds: Folds = 5) -> CrossValidation:
        """The test error by folds: each is predicted by the run on all other rows, at all epochs at once.

        Unlike in `leave_one_out` the rows of a fold are taken away: batches are cut anew from the others.

        Parameters
        ----------
        epochs : number or array of any shape, optional
            By default some hundred, evenly spread in their logarithm, until the run has settled; and infinity.
        folds : int, splitter or list of (train, test)
            Into how many parts rows are shuffled, with the seed of the run; or an object with a method
            split(X, y), such as scikit-learn's, or the row numbers of each fold.

        >>> import reshuffle as rs
        >>> problem = rs.gaussian(100, 20, noise=0.5, seed=1)
        >>> run = rs.descend(problem, rs.RandomReshuffling(batch_size=25), alpha=1.0)
        >>> run.cross_validate([1, 10, 100]).mean_square.round(4)
        array([0.5118, 0.3443, 0.3435])
        """
        self.problem.require_rows("cross_validate")
        asked = self.epochs_worth_a_look if epochs is None else epochs
        return cross_validated(self, self.recipe.clock(asked), folds)

    def ridge_equivalent(self: Learner, epochs: ArrayLike) -> RidgeEquivalent:
        """The ridge regression that has the same degrees of freedom, and how far apart the two fits are.

        >>> import reshuffle as rs
        >>> problem = rs.gaussian(100, 20, noise=0.5, seed=1)
        >>> rs.descend(problem, rs.FullBatch(), step=0.1).ridge_equivalent(10)
        RidgeEquivalent(penalty=0.547698: 12.3014 degrees of freedom, fits 0.059 apart)
        """
        return ridge_equivalent(self, self.recipe.clock(epochs))

    def mallows_cp(self: Learner, epochs: ArrayLike, *, noise: float | None = None) -> FloatArray:
        """Mallows' Cp, (|y - X b|^2 + 2 noise^2 df) / n: the test error at the same rows with fresh noise.

        Of the shape of `epochs`, or epochs.shape + (t,). Unlike `leave_one_out` it needs the noise, and says
        nothing of new rows.

        Parameters
        ----------
        epochs : number or array of any shape
        noise : float, optional
            Its standard deviation; by default the one the problem knows, or else what least squares leaves over,
            |y - X b_ols|^2 / (n - rank).

        >>> import reshuffle as rs
        >>> problem = rs.gaussian(100, 20, noise=0.5, seed=1)
        >>> rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=1.0).mallows_cp([1, 10, 100]).round(4)
        array([0.3273, 0.2909, 0.2913])
        """
        return criteria.mallows_cp(self, self.recipe.clock(epochs), noise)

    def generalized_cross_validation(self: Learner, epochs: ArrayLike) -> FloatArray:
        """GCV, |y - X b|^2 / n / (1 - df / n)^2, of the shape of `epochs`, with a warning.

        It is not consistent for early-stopped descent: the residuals of rows of different leverage are not shrunk
        alike (Patil, Wu and Tibshirani, 2024). `leave_one_out` is, and costs about the same.
        """
        return criteria.generalized_cross_validation(self, self.recipe.clock(epochs))
