"""The points of a grid as work for an executor: families that differ in the step alone share their mean maps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reshuffle._arrays import FloatArray
from reshuffle.epoch import step_interpolation
from reshuffle.epoch.step_interpolation import Interval
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.sweeps.asked import QUESTIONS
from reshuffle.sweeps.executors import Executor
from reshuffle.sweeps.grid import Point
from reshuffle.sweeps.grid_answers import PointAnswer, answer_point


@dataclass(frozen=True, eq=False)
class Job:
    """A point of the grid, and the names of the questions that it is to answer."""

    point: Point
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Shared:
    """Jobs by their numbers whose steps lie in one interval."""

    interval: Interval
    blocks: Any
    numbers: list[int]


class Work:
    """All that is to be done for a grid.

    Parameters
    ----------
    problems : sequence of LeastSquares
    jobs : sequence of Job
    epochs : (k,)
    """

    def __init__(self, problems: Sequence[LeastSquares], jobs: Sequence[Job], epochs: FloatArray):
        self._problems, self._jobs, self._epochs = problems, jobs, epochs

    def done_by(self, executor: Executor) -> Iterator[tuple[int, list[PointAnswer]]]:
        """The answers of every job with its number, as they are ready."""
        handles = {}
        for job in self._jobs:
            number = job.point.problem
            if number not in handles:
                problem = self._problems[number]
                # Every point needs it: it travels with the problem.
                assert problem.reduction is not None
                handles[number] = executor.share(problem)
        shared = [found for family in self._families() for found in self._shared(family)]
        together = {number for found in shared for number in found.numbers}
        alone = [number for number in range(len(self._jobs)) if number not in together]
        if alone:
            yield from self._answers(executor, handles, alone, None)
        windows = (self._window(executor, handles, found) for found in shared)
        following = next(windows, None)
        for found in shared:
            # The next one is begun before it is needed, so that no worker waits for the others to finish it.
            window, following = following, next(windows, None)
            yield from self._answers(executor, handles, found.numbers, window)

    def _answers(
        self, executor: Executor, handles: dict[int, Any], numbers: list[int], window: Any
    ) -> Iterator[tuple[int, list[PointAnswer]]]:
        tasks = [
            (handles[job.point.problem], job.point, job.names, self._epochs, window)
            for job in (self._jobs[number] for number in numbers)
        ]
        for place, answers in executor.compute(answer_point, tasks):
            yield numbers[place], answers

    def _window(self, executor: Executor, handles: dict[int, Any], found: _Shared) -> Any:
        """The mean maps at the nodes of an interval, wherever the executor keeps them."""
        point = self._jobs[found.numbers[0]].point
        blocks = executor.share(found.blocks)
        tasks = [(handles[point.problem], point.scheme, blocks, float(node)) for node in found.interval.nodes]
        nodes = executor.hold(step_interpolation.node_mean, tasks)
        return executor.hold(step_interpolation.window, [(blocks, found.interval, nodes)])[0]

    def _families(self) -> list[list[int]]:
        """The numbers of jobs that differ in nothing but the step, and ask for what is known from the mean map."""
        families: dict[object, list[int]] = {}
        for number, job in enumerate(self._jobs):
            if any(QUESTIONS[name].knows_mean for name in job.names):
                point = job.point
                rest = [
                    (name, repr(point.recipe[name]))
                    for name in sorted(point.recipe)
                    if name not in ("step", "alpha")
                ]
                families.setdefault((point.problem, point.scheme, tuple(rest)), []).append(number)
        return list(families.values())

    def _shared(self, family: list[int]) -> list[_Shared]:
        """The parts of a family that are worth their nodes."""
        if len(family) < 2:
            return []
        points = [self._jobs[number].point for number in family]
        runs = [point.run(self._problems[point.problem]) for point in points]
        if not (runs[0].scheme.is_symmetric and all(run.recipe.is_plain for run in runs)):
            return []
        steps = [run.recipe.at(0).step for run in runs]
        intervals = runs[0].step_intervals(steps)
        if not intervals:
            return []
        n, scheme = runs[0].problem.n, runs[0].scheme
        blocks = runs[0].problem.blocks(scheme.partition(n), scheme.divisors(n))
        found = []
        for interval in intervals:
            inside = set(interval.steps)
            numbers = [number for number, step in zip(family, steps, strict=True) if step in inside]
            found.append(_Shared(interval, blocks, numbers))
        return found
