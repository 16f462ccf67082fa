"""All orders that a run may keep, side by side, against following them one after the other."""

import numpy as np
from rich.console import Console
from rich.table import Table

import reshuffle as rs
from benchmarks import timing
from benchmarks.core import table
from reshuffle.epoch.timeline import Timeline
from reshuffle.run.trajectory import AffineTrajectory

EPOCHS = np.array([1.0, 10.0, 100.0])
SIZES = ((60, 10, 5), (60, 10, 6), (120, 60, 5), (300, 200, 5))


def orders_side_by_side() -> Table:
    """The mean iterate, and the expected risk, of every order of five and six batches."""
    made = table(
        "ShuffleOnce after 1, 10 and 100 epochs",
        "n, p, batches", "question", "seconds", "one by one takes", "longer by",
    )  # fmt: skip
    for n, p, batches in SIZES:
        problem = rs.gaussian(n, p, noise=0.5, seed=1)

        def run(problem: rs.LeastSquares = problem, batches: int = batches) -> rs.Run:
            return rs.descend(problem, rs.ShuffleOnce(batches=batches), alpha=0.3)

        questions = {
            "iterate": (lambda run: run.iterate(EPOCHS), _iterates),
            "expected_risk": (lambda run: run.expected_risk(EPOCHS), _risks),
        }
        for name, (together, alone) in questions.items():
            seconds, _ = timing.timed(lambda together=together, run=run: together(run()), 2)
            rival, _ = timing.timed(lambda alone=alone, run=run: alone(run()._affine))
            made.add_row(
                f"{n}, {p}, {batches}", name, f"{seconds:.3f}", f"{rival:.3f}", f"{rival / seconds:.1f} x"
            )
    return made


def _one_by_one(engine: AffineTrajectory) -> list[Timeline]:
    n, schemes = engine.problem.n, engine.scheme.timelines(engine.problem.n)
    return [Timeline(scheme, n, engine.blocks, engine.space, engine.recipe) for scheme in schemes]


def _iterates(engine: AffineTrajectory) -> None:
    inputs, start = np.vstack([[1.0], engine.blocks.response]), engine.inside(engine.start)
    for timeline in _one_by_one(engine):
        list(timeline.states(start, EPOCHS, inputs))


def _risks(engine: AffineTrajectory) -> None:
    error, rank = engine.inside(engine.initial_error)[:, np.newaxis], engine.space.dimension
    for timeline in _one_by_one(engine):
        for state in timeline.states(error, EPOCHS):
            engine._risk_parts(state[:rank], 1.0, 0.5)


def main() -> None:
    """Print the table."""
    Console(width=118).print(orders_side_by_side())


if __name__ == "__main__":
    main()
