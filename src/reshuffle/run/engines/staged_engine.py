"""The engine of runs whose scheme changes with the epoch."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from reshuffle import _uncertainty
from reshuffle._arrays import FloatArray
from reshuffle.epoch.course import Course, StagedCourse, chosen, through_stages
from reshuffle.epoch.moments.select import least_known
from reshuffle.epoch.select import Choice
from reshuffle.epoch.visits import GradedBlocks
from reshuffle.errors import UnsupportedError
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.row_space import RowSpace
from reshuffle.recipe import Recipe
from reshuffle.run import stopping
from reshuffle.run.engines.affine_engine import AffineEngine
from reshuffle.run.stability import Stability
from reshuffle.run.stopping import BestEpoch
from reshuffle.schemes.base import Scheme


class StageEngine(AffineEngine):
    """One stage, in the coordinates of the whole run.

    Parameters
    ----------
    whole : StagedEngine
    scheme : Scheme
        Of the stage.
    recipe : Recipe
        From the beginning of the stage on.
    """

    def __init__(self, whole: "StagedEngine", scheme: Scheme, recipe: Recipe):
        super().__init__(whole.problem, scheme, recipe, whole.start, whole.accuracy)
        self._whole = whole

    def of_whole(self, whole: "StagedEngine", number: int) -> "StageEngine":
        """The stage of one output of the whole run."""
        made = self.output(number)
        made._whole = whole
        return made

    @property
    def visited(self) -> LeastSquares:
        """The problem without rows that no stage visits."""
        return self._whole.visited

    @cached_property
    def _graded(self) -> tuple[RowSpace, GradedBlocks]:
        n, whole = self.problem.n, self._whole
        return whole.space, chosen(whole.blocks, self.scheme.partition(n), self.scheme.divisors(n))


class StagedEngine(AffineEngine):
    """The mean iterate, its risk and its stability, through one stage after the other."""

    @cached_property
    def stages(self) -> "list[StageEngine]":
        """What each of the stages does."""
        stages = zip(self.scheme.stages, self.recipe.parts, strict=False)
        return [StageEngine(self, scheme, part) for (_, scheme), part in stages]

    def output(self, number: int) -> Self:
        """The run of one output alone, stage by stage."""
        made = super().output(number)
        made.stages = [stage.of_whole(made, number) for stage in self.stages]
        return made

    @property
    def _lengths(self) -> list[float]:
        """The epochs of each stage that the schedule reaches."""
        return [length for length, _ in self.scheme.stages[: len(self.recipe.parts)]]

    @property
    def _last_begins(self) -> int:
        return int(sum(self._lengths[:-1]))

    @cached_property
    def choice(self) -> Choice:
        """How the mean over orders was chosen to be taken, in the stage where it is known worst."""
        return least_known([stage.choice for stage in self.stages])

    def parts(self, when: FloatArray) -> list[tuple[AffineEngine, FloatArray]]:
        """The stages that lead to ascending epochs, and those of each."""
        if len(when) and np.isinf(when[-1]) and self.scheme.is_random:
            self._require_nothing_left_behind()
        return [(self.stages[stage], local) for stage, local, _ in through_stages(self._lengths, when)]

    def _require_nothing_left_behind(self) -> None:
        """Refuse limits of second moments if the last stage leaves standing what others have moved."""
        (course,) = (
            self.stages[-1].courses_of_errors
            if self.problem.beta_star is not None
            else self.stages[-1].courses
        )
        if self.settling.converges and not course.settles:
            raise UnsupportedError(
                f"the spread in the end has no answer for {self.scheme!r}, whose last stage leaves out rows that "
                "others visit; ask for a finite epoch, or visit all rows in the last stage."
            )

    def _sources(self, truth: FloatArray | None) -> list[Course]:
        courses = [course for stage in self.stages for course in stage._sources(truth)]
        return [
            StagedCourse(
                self.scheme, self.problem.n, self.blocks, self.space, self.recipe, truth,
                courses=courses, lengths=self._lengths,
            )
        ]  # fmt: skip

    def _outside_source(self) -> Course:
        courses = [stage._outside_source() for stage in self.stages]
        return StagedCourse(
            self.scheme, self.problem.n, courses[0].blocks, self.space, self.recipe, None, courses[0].orders,
            courses=courses, lengths=self._lengths,
        )  # fmt: skip

    def sampling_error(self, answer: Callable[[Any], FloatArray], here: FloatArray) -> FloatArray:
        """How far an answer may be off because the maps of stages are not exact: what each of them adds."""
        error = np.zeros_like(here)
        if self._replica is not None:
            return error
        for number, stage in enumerate(self.stages):
            replicas = [answer(self._with_stage(number, replica)) for replica in stage._replicas()]
            if replicas:
                error = error + _uncertainty.of_replicas(stage.error_kind, here, np.array(replicas))
        return error

    def _with_stage(self, number: int, stage: StageEngine) -> "StagedEngine":
        """The same run with another map in one of the stages."""
        made = self._afresh("choice", "visited", "_graded", "_outside", "readout", "settling")
        made._replica = number
        made.stages = [*self.stages[:number], stage, *self.stages[number + 1 :]]
        return made

    @cached_property
    def settling(self) -> AffineEngine:
        """The last stage by itself, which decides whether the run settles."""
        length, scheme = self.scheme.stages[-1]
        if np.isfinite(length):
            raise ValueError(
                f"there must be a last stage without end to ask what becomes of a run, but {self.scheme!r} ends; "
                "give None for the epochs of the last one."
            )
        return AffineEngine(self.problem, scheme, self.recipe.parts[-1], self.start, self.accuracy)

    @property
    def converges(self) -> bool:
        """Whether the mean iterate has a limit from every start."""
        return self.settling.converges

    def stability(self) -> Stability:
        """Whether and how fast the mean iterate converges in the last stage."""
        return self.settling.stability()

    @property
    def _searched_from(self) -> int:
        """Only the last stage can settle."""
        return self._last_begins

    def best_epoch(self) -> BestEpoch:
        """The epoch with the smallest risk of the mean iterate, among all epochs until it has settled."""
        found = super().best_epoch()
        early = self._risk(np.arange(min(self._last_begins, stopping.LONGEST_SEARCH), dtype=float)).total
        if len(early) and early.min() <= found.risk:
            best = int(early.argmin())
            found = replace(
                found, epoch=best, risk=float(early[best]), error=found.error and float(early[best])
            )
        if len(early) < self._last_begins:
            found = replace(found, error=found.risk)
        return found.with_error_of(self.risk) if self.error_kind != "exact" else found
