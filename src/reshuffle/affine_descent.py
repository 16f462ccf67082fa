"""Runs whose epochs are not one symmetric map: fixed orders, momentum, penalties, step schedules."""

from dataclasses import replace
from typing import Any

from reshuffle import affine_method, run_risk, units, validate
from reshuffle.affine_mean import AffineMean
from reshuffle.errors import BudgetError
from reshuffle.expected_risk import ExpectedRisk
from reshuffle.mean_square import MeanSquareStability, mean_square_stability
from reshuffle.schemes import RandomReshuffling


class AffineDescent(AffineMean):
    """What `descend` returns where the mean of an epoch is not a symmetric map; it answers the same questions.

    Attributes
    ----------
    problem : LeastSquares
    scheme : Scheme
    recipe : Recipe
        Step schedule, penalty, momentum.
    start : (p,)

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(100, 20, noise=0.5, seed=1)
    >>> run = rs.descend(problem, rs.Cyclic(batches=4), alpha=0.5, momentum=0.5)
    >>> run.risk([0, 10, 100]).total.round(4)
    array([1.    , 0.0641, 0.065 ])
    >>> run.expected_risk(10)
    ExpectedRisk(total=0.0641029: mean=0.0641029, spread=0, error=0)
    """

    def expected_risk(self, epochs: Any, *, given_responses: bool = False) -> ExpectedRisk:
        """The risk of the run itself, E |beta_k - beta_star|_Sigma^2 over orders and noise, and its spread.

        Parameters
        ----------
        epochs : number or array of any shape
            Every epoch costs one step of the recursion of second moments; math.inf asks for its fixed point.
        given_responses : bool
            Average over the orders alone, with the responses y of the problem, in place of orders and noise.
        """
        given = validate.flag("given_responses", given_responses)
        unit = units.units(self.problem, self.start, given)
        if unit.are_one:
            return run_risk.of_affine(self, self.recipe.clock(epochs), given)
        problem, start = unit.divided(self.problem, given), unit.vector(self.start)
        run = AffineDescent(problem, self._given_scheme, self.recipe, start, self.accuracy)
        return run_risk.of_affine(run, self.recipe.clock(epochs), given).enlarged(unit.of_risk)

    def mean_square_stability(self) -> MeanSquareStability:
        """Whether the mean square of a run converges too, on which its expected risk depends."""
        return mean_square_stability(self.exact())

    def exact(self) -> "AffineDescent":
        """The same run with the mean over all orders, where the budget allows for it."""
        if self.method == "exact" or not isinstance(self.scheme, RandomReshuffling):
            return self
        n = self.problem.n
        if affine_method.walk_flops(self.scheme, n, self.blocks, self.dimension) > self.accuracy.budget:
            raise BudgetError(
                f"the mean square over the orders of {self.scheme.steps(n)} batches takes 2^batches averages, and "
                f"more than the budget of {self.accuracy.budget:.1g} operations; try fewer batches, more budget, "
                "or expected_risk at the epochs of interest."
            )
        wanted = replace(self.accuracy, method="exact")
        return AffineDescent(self.problem, self.scheme, self.recipe, self.start, wanted)
