"""How often the stated error of a sampled answer covers the truth: `python -m benchmarks.coverage [seeds]`.

Every setting is small enough for its truth to be known: from the mean over all orders, or from very many of them.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import reshuffle as rs
from benchmarks.harness import arguments, markdown, row
from reshuffle._arrays import FloatArray
from reshuffle._progress import track

EPOCHS = np.array([1.0, 4.0, 20.0, math.inf])
Answer = tuple[Any, Any]
"""A value and its error: numbers, or vectors with the error of their norm."""


@dataclass(frozen=True)
class Setting:
    """A run by its seed, and the run that knows the truth."""

    name: str
    run: Callable[[int], Any]
    truth: Callable[[], Any]


@dataclass(frozen=True)
class Coverage:
    """What became of one kind of answer: |answer - truth| / error, one entry per seed and epoch."""

    setting: str
    answer: str
    ratios: FloatArray

    @property
    def share(self) -> float:
        """How often the error covered."""
        return float(np.mean(self.ratios <= 1))

    @property
    def cell(self) -> str:
        """What the table says of it."""
        return f"{100 * self.share:.1f} ({self.ratios.max():.2f})"


def risk(run: Any) -> Answer:
    """The risk of the mean iterate."""
    found = run.risk(EPOCHS)
    return found.total, found.error


def iterate(run: Any) -> Answer:
    """The mean iterate."""
    return run.iterate(EPOCHS), run.iterate_error(EPOCHS)


def training_loss(run: Any) -> Answer:
    """The training loss of the mean iterate."""
    return run.training_loss(EPOCHS), run.training_loss_error(EPOCHS)


def limit(run: Any) -> Answer:
    """Where the mean iterate ends."""
    found = run.limit()
    return found.parameters, found.error


def rate(run: Any) -> Answer:
    """What the slowest mode is multiplied by in an epoch."""
    found = run.stability()
    return found.rate, found.error


def compare_limit(run: Any) -> Answer:
    """How far the limit is from the minimum-norm solution."""
    found = run.compare_limit()
    return found.distance, found.error


def expected_risk(run: Any) -> Answer:
    """The risk of the run itself, over orders and noise."""
    found = run.expected_risk(EPOCHS[:2])
    return found.total, found.error


def expected_risk_given_responses(run: Any) -> Answer:
    """The risk of the run itself, over orders alone."""
    found = run.expected_risk(EPOCHS[:2], given_responses=True)
    return found.total, found.error


MEAN = (risk, iterate, training_loss, limit, rate, compare_limit)
"""What is asked of the mean iterate."""
ANSWERS = (*MEAN, expected_risk, expected_risk_given_responses)


def settings() -> Iterator[Setting]:
    """Random reshuffling as if it had too many batches, shuffled samples, momentum, penalties, one shuffle."""
    problem, smaller = rs.gaussian(24, 6, noise=0.5, seed=1), rs.gaussian(16, 4, noise=0.5, seed=1)
    # Of any budget that is too small for more, the first draws of all are made.
    few, loose, usual = {"budget": 1.0}, {"rtol": 1e-2}, {}
    momentum, penalty = {"momentum": 0.5}, {"penalty": 0.1}
    for batches, recipe, wishes, name in [
        (6, {}, few, "6 batches, fewest draws"),
        (10, {}, few, "10 batches, fewest draws"),
        (6, {}, loose, "6 batches, rtol = 1e-2"),
        (10, {}, loose, "10 batches, rtol = 1e-2"),
        (8, {}, usual, "8 batches, default settings"),
        (6, momentum, few, "6 batches, momentum, fewest draws"),
        (8, momentum, loose, "8 batches, momentum, rtol = 1e-2"),
        (8, penalty, few, "8 batches, penalty, fewest draws"),
        (6, {**momentum, **penalty}, loose, "6 batches, momentum and penalty, rtol = 1e-2"),
    ]:
        data = problem if wishes else smaller
        yield reshuffling(name, data, rs.RandomReshuffling(batches=batches), {"step": 0.1, **recipe}, wishes)
    samples = rs.gaussian(12, 3, noise=0.5, seed=1)
    for recipe, wishes, name in [
        ({}, few, "shuffled samples, fewest draws"),
        ({}, usual, "shuffled samples, default settings"),
        (momentum, few, "shuffled samples, momentum, fewest draws"),
        (penalty, loose, "shuffled samples, penalty, rtol = 1e-2"),
    ]:
        # At default settings a smaller step is as good a test, and a cheaper one.
        step = 0.2 if wishes else 0.1
        yield reshuffling(name, samples, rs.SampleReshuffling(batches=4), {"step": step, **recipe}, wishes)
    yield one_shuffle("one shuffle, 32 orders", problem, {"step": 0.3}, 32)


class LongRun:
    """A run of shuffled samples that knows its spread from very many simulated runs."""

    def __init__(self, run: Any, problem: Any, scheme: Any, recipe: Any):
        self._run, self._problem, self._scheme, self._recipe = run, problem, scheme, recipe

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def expected_risk(self, epochs: FloatArray, given_responses: bool = False) -> Any:
        """With the spread of the many."""
        found = self._run.expected_risk(epochs, given_responses=given_responses)
        spread = rs.simulate(
            self._problem, self._scheme, epochs=epochs, runs=400_000, seed=10**6,
            fresh_noise=not given_responses, **self._recipe,
        ).spread  # fmt: skip
        assert spread is not None
        return replace(found, total=found.mean + spread.mean)


def reshuffling(name: str, problem: Any, scheme: Any, recipe: Any, wishes: Any) -> Setting:
    """A fresh order every epoch, from sampled orders; the truth from all of them, or from very many."""
    shuffles_samples = isinstance(scheme, rs.SampleReshuffling)
    is_known = not shuffles_samples or set(recipe) == {"step"}
    best = {"method": "exact"} if is_known else {"method": "sampling", "rtol": 3e-4, "seed": 10**6}

    def truth() -> Any:
        run = rs.descend(problem, scheme, **recipe, **best)
        return LongRun(run, problem, scheme, recipe) if shuffles_samples else run

    return Setting(
        name,
        lambda seed: rs.descend(problem, scheme, method="sampling", seed=seed, **recipe, **wishes),
        truth,
    )


def one_shuffle(name: str, problem: Any, recipe: Any, draws: int) -> Setting:
    """An order that is drawn once, from a sample of the orders of four batches; the truth from all 24."""
    return Setting(
        name,
        lambda seed: rs.descend(problem, rs.ShuffleOnce(batches=4, draws=draws, seed=seed), **recipe),
        lambda: rs.descend(problem, rs.ShuffleOnce(batches=4), **recipe),
    )


def measured(setting: Setting, seeds: int, answers: Any = ANSWERS) -> list[Coverage]:
    """Ask every seed the same questions."""
    # Whether the slowest of all orders was drawn is not a matter of standard errors.
    one_shuffle = setting.name.startswith("one shuffle")
    answers = [answer for answer in answers if not (one_shuffle and answer is rate)]
    truth = setting.truth()
    truths = [np.asarray(answer(truth)[0]) for answer in answers]
    ratios: list[list[FloatArray]] = [[] for _ in answers]
    with warnings.catch_warnings():
        # Some are asked for less than they would need.
        warnings.simplefilter("ignore", rs.errors.AccuracyWarning)
        for seed in track(range(seeds), seeds, setting.name):
            run = setting.run(seed)
            for found, answer, true in zip(ratios, answers, truths, strict=True):
                found.append(np.atleast_1d(ratio(answer(run), true)))
    return [
        Coverage(setting.name, str(answer.__name__).replace("_", " "), np.concatenate(found))
        for answer, found in zip(answers, ratios, strict=True)
    ]


def ratio(found: Answer, truth: FloatArray) -> FloatArray:
    """How many errors an answer is off, but for rounding; a vector in its norm."""
    value, error = np.asarray(found[0]), np.asarray(found[1])
    off = np.abs(value - truth)
    size = np.abs(truth)
    if value.ndim > error.ndim:
        off, size = np.linalg.norm(off, axis=-1), np.linalg.norm(size, axis=-1)
    return np.asarray(off / (error + 1e-12 * size))


def main(seeds: int = 300) -> None:
    """Print one row per setting, as a table of Markdown."""
    names = [str(answer.__name__).replace("_", " ") for answer in ANSWERS]
    markdown("setting", *names)
    for setting in settings():
        cells = {found.answer: found.cell for found in measured(setting, seeds)}
        row(setting.name, *(cells.get(name, "") for name in names))


if __name__ == "__main__":
    main(arguments(__doc__, _seeds=300).seeds)
