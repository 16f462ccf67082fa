"""`reshuffle curve`: learning curves of one problem."""

from typing import Annotated

from cyclopts import Parameter

from reshuffle.cli import data, options, output
from reshuffle.cli.curve_answer import answer
from reshuffle.cli.curve_run import Question, follow
from reshuffle.cli.options import (
    NO_PROBLEM,
    PLAIN,
    TERMINAL,
    Alpha,
    Epochs,
    OutputOptions,
    ProblemOptions,
    RecipeOptions,
    Schemes,
    Step,
)

_BATCHES = "1,2,4"


def curve(
    *,
    problem: ProblemOptions = NO_PROBLEM,
    alpha: Alpha = None,
    step: Step = None,
    batches: Annotated[
        str | None, Parameter(help=f"Numbers of batches B, separated by commas; else {_BATCHES}.")
    ] = None,
    scheme: Schemes = "reshuffling",
    recipe: RecipeOptions = PLAIN,
    epochs: Epochs = 300,
    mean_square: Annotated[
        bool,
        Parameter(
            help="Also give the risk of one run at every epoch, and whether runs converge, not only their mean.",
            negative="",
        ),
    ] = False,
    rtol: Annotated[
        float | None, Parameter(help="Relative error allowed where orders cannot all be averaged; else 1e-4.")
    ] = None,
    budget: Annotated[
        float | None,
        Parameter(help="Operations allowed for the mean of an epoch; else 1e12, a minute or so."),
    ] = None,
    simulate: Annotated[
        int, Parameter(help="Also train this many real runs, an even number.", converter=options.whole_number)
    ] = 0,
    test: Annotated[
        str | None,
        Parameter(help="Held-out data, with the columns of --data in any order: adds its loss."),
    ] = None,
    outputs: OutputOptions = TERMINAL,
) -> None:
    """Learning curves: the risk of every epoch, when to stop, where it ends.

    Averaged over every order in which the batches can be visited: exactly,
    or with an error that is shown. With --data the truth is unknown: it shows
    the training loss, and the loss on held-out rows with --test. An npz file
    may hold beta_star, noise and covariance beside X and y; then the risk is
    known too.

    For example:
      reshuffle curve --n 200 --p 300 --noise 0.5 --alpha 0.2 --batches 1,2,4
      reshuffle curve --data mine.csv --intercept --step 0.01 --test other.csv
    """
    output.check(outputs, data=problem.data, test=test, covariance=problem.covariance)
    options.exactly_one(alpha=alpha, step=step)
    options.scheme_names(scheme)
    options.batch_counts(batches, _BATCHES)
    when = options.epochs_up_to(epochs)
    posed = data.problem(problem)
    held_out = None if test is None else posed.held_out(test)
    visitings = options.visitings(scheme, batches, _BATCHES, recipe, posed.problem.n)
    asked = Question(
        problem=posed.problem,
        held_out=held_out,
        epochs=when,
        recipe={"momentum": recipe.momentum, "penalty": recipe.penalty},
        accuracy={name: value for name, value in (("rtol", rtol), ("budget", budget)) if value is not None},
        runs=simulate,
        seed=problem.seed,
        mean_square=mean_square,
    )
    from reshuffle._progress import track

    curves = [follow(asked, visiting, alpha, step) for visiting in track(visitings, len(visitings), "curves")]
    output.deliver(answer(posed, problem, asked, curves), outputs)
