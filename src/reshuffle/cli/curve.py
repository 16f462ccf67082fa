"""`reshuffle curve`: learning curves of one problem, drawn at random or one's own."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from reshuffle.cli import data, options, output
from reshuffle.cli.curve_answer import Curve, answer
from reshuffle.cli.errors import InputError
from reshuffle.cli.options import (
    NO_PROBLEM,
    TERMINAL,
    Alpha,
    Batches,
    Epochs,
    OutputOptions,
    ProblemOptions,
    Schemes,
    Step,
)

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle.arrays import FloatArray


def curve(
    *,
    problem: ProblemOptions = NO_PROBLEM,
    alpha: Alpha = None,
    step: Step = None,
    batches: Batches = "1,2,4",
    scheme: Schemes = "reshuffling",
    epochs: Epochs = 300,
    simulate: Annotated[
        int, Parameter(help="Also train this many real runs, an even number.", converter=options.whole_number)
    ] = 0,
    test: Annotated[
        str | None, Parameter(help="Held-out data, in the format of --data: adds its loss.")
    ] = None,
    outputs: OutputOptions = TERMINAL,
) -> None:
    """Learning curves: the risk of every epoch, when to stop, where it ends.

    Exact, averaged over every order in which the batches can be visited.
    With --data the truth is unknown: it shows the training loss, and the
    loss on held-out rows with --test. An npz file may hold beta_star, noise
    and covariance beside X and y; then the risk is known too.

    For example:
      reshuffle curve --n 200 --p 300 --noise 0.5 --alpha 0.2 --batches 1,2,4
      reshuffle curve --data mine.csv --step 0.01 --test other.csv
    """
    output.check(outputs)
    options.exactly_one(alpha=alpha, step=step)
    recipes = options.recipes(scheme, batches)
    when = options.epochs_up_to(epochs)
    posed = data.problem(problem)
    held_out = None if test is None else _held_out(test, problem.target, posed)
    curves = [
        _curve(posed, name, made, alpha, step, when, simulate, problem.seed, held_out)
        for name, _, made in recipes
    ]
    output.deliver(answer(posed, problem, curves), outputs)


def _held_out(path: str, target: str | None, problem: "rs.LeastSquares") -> "rs.LeastSquares":
    import reshuffle as rs

    X, y, _ = data.read(path, target)
    if X.shape[1] != problem.p:
        raise InputError(f"--test must have {problem.p} features as the data has, but it has {X.shape[1]}.")
    return rs.LeastSquares(X, y)


def _curve(
    problem: "rs.LeastSquares",
    name: str,
    scheme: "rs.Scheme",
    alpha: float | None,
    step: float | None,
    when: "FloatArray",
    runs: int,
    seed: int,
    held_out: "rs.LeastSquares | None",
) -> Curve:
    import reshuffle as rs

    run = rs.descend(problem, scheme, step, alpha=alpha)
    visits = scheme.steps(problem.n)
    step = (alpha or 0.0) / visits if step is None else step
    knows_truth = problem.beta_star is not None and problem.noise is not None
    simulation = None
    if runs:
        simulation = rs.simulate(
            problem, scheme, step=step, epochs=when, runs=runs, seed=seed, fresh_noise=knows_truth
        )
    return Curve(
        name=name,
        batches=visits,
        step=step,
        run=run,
        epochs=when,
        training_loss=run.training_loss(when),
        limit=run.limit(),
        risk=run.risk(when) if knows_truth else None,
        best=run.best_epoch() if knows_truth else None,
        held_out_loss=None if held_out is None else _loss(run, held_out, when),
        simulation=simulation,
    )


def _loss(
    run: "rs.Descent | rs.AffineDescent", held_out: "rs.LeastSquares", when: "FloatArray"
) -> "FloatArray":
    """|y - X b|^2 / (2 rows), a few epochs at a time so that no iterates pile up."""
    import numpy as np

    losses = []
    for start in range(0, len(when), 64):
        iterates = run.iterate(when[start : start + 64])
        with np.errstate(over="ignore", invalid="ignore"):
            losses.append(np.square(iterates @ held_out.X.T - held_out.y).mean(axis=1) / 2)
    loss = np.concatenate(losses)
    return np.where(np.isfinite(loss), loss, np.inf)
