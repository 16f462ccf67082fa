"""How often stated errors cover the truth, for every kind of answer at once: `python -m benchmarks.stated_errors`.

`python -m benchmarks.stated_errors [problems] [first seed] [word]` draws so many problems of each kind, from a seed
on that nothing was tuned with; the word picks kinds. A line has the answers, the share that is covered, and the
largest and the median distance from the truth in stated errors. The problems, and how their truth is known, are
those of `cavity_coverage`, `step_coverage` and `coverage`; that of rows in chunks is the answer in memory, and
that of the mean step is the answer by the cavity equation.
"""

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import reshuffle as rs
from benchmarks import cavity_coverage, coverage, step_coverage
from benchmarks.harness import arguments, markdown, row
from reshuffle._arrays import FloatArray
from reshuffle.problem import sources


def of_means(draw: Callable[[int], tuple]) -> Callable[[int], FloatArray]:
    """Training loss, risk and iterate by the cavity equation."""
    return lambda seed: cavity_coverage.ratios(*draw(seed)[1:])


def of_left_out(seed: int) -> FloatArray:
    """Leave-one-out of shuffled samples."""
    problem, step, _, truth = cavity_coverage.left_out(seed)
    return cavity_coverage.left_out_ratios(problem, step, truth)[1]


def of_chunks(seed: int) -> FloatArray:
    """Leave-one-out of rows that are read in chunks, with and without momentum or a penalty.

    The truth, in memory, is asked for 50 times more accurately than by default.
    """
    rng = np.random.default_rng(seed)
    n, p, momentum = int(rng.integers(100, 1500)), int(rng.integers(1, 8)), float(rng.choice([0.0, 0.5, 0.9]))
    X = cavity_coverage.features(rng, str(rng.choice(["gaussian", "t3", "scales", "far"])), n, p)
    y = X @ rng.standard_normal(p) + rng.standard_normal(n)
    recipe = {"momentum": momentum, "penalty": float(rng.choice([0.0, 0.05]))}
    scheme = rs.SampleReshuffling(batch_size=int(rng.integers(5, 40)))
    step = 10 ** rng.uniform(-2.5, -0.5) * n / np.linalg.norm(X, 2) ** 2 * (1 - momentum)
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", X)
        streamed = rs.LeastSquares(Path(folder) / "X.npy", y, in_memory=False)
        found, truth = (
            rs.descend(problem, scheme, step, **recipe, rtol=rtol).leave_one_out([1, 5, 40])
            for problem, rtol in ((streamed, 0.5), (rs.LeastSquares(X, y), 1e-4))
        )
    return np.abs(found.mean_square - truth.mean_square) / found.error


def of_mean_step(seed: int) -> FloatArray:
    """Leave-one-out of large problems by the mean step, with and without momentum or a penalty.

    The truth is the cavity equation's, to a smaller rtol. Problems for which the mean step is not taken have none.
    """
    rng = np.random.default_rng(seed)
    p, momentum = int(rng.integers(20, 60)), float(rng.choice([0.0, 0.5, 0.9]))
    n = int(1.2e6 / p**2 * rng.uniform(1, 3)) + 3 * p
    X = cavity_coverage.features(rng, str(rng.choice(cavity_coverage.KINDS)), n, p)
    problem = rs.LeastSquares(X, X @ rng.standard_normal(p) + rng.uniform(0.3, 3) * rng.standard_normal(n))
    recipe = {"momentum": momentum, "nesterov": bool(momentum and rng.random() < 0.5)}
    recipe |= {"penalty": float(rng.choice([0.0, 0.05]))}
    scheme = rs.SampleReshuffling(batch_size=int(rng.integers(5, 64)))
    step = 10 ** rng.uniform(-3, -1) * n / np.linalg.norm(X, 2) ** 2 * (1 - momentum)
    quick, slow = (
        rs.descend(problem, scheme, step, **recipe, rtol=rtol).leave_one_out([1, 5, 40])
        for rtol in (5e-3, 1e-4)
    )
    off = np.abs(quick.mean_square - slow.mean_square)
    return off / (quick.error + slow.error) if quick.method == "mean step" else np.zeros(0)


def of_steps(setting: step_coverage.Setting) -> Callable[[int], FloatArray]:
    """Critical steps of the mean."""

    def ratio(seed: int) -> FloatArray:
        X, size = setting.draw(np.random.default_rng(seed))
        true, scheme = setting.truth(X, size), rs.SampleReshuffling(batch_size=size)
        with step_coverage.as_if_many(setting.searched):
            found = rs.critical_step(rs.LeastSquares(X, np.zeros(len(X))), scheme, mean_square=False)
        return np.array([abs(found - true) / (found.error + 1e-8 * true)])

    return ratio


def of_draws(setting: coverage.Setting) -> Callable[[int], FloatArray]:
    """Answers by drawn orders: those of the mean iterate."""
    truth = setting.truth()
    truths = [(answer, np.asarray(answer(truth)[0])) for answer in coverage.MEAN]

    def ratios(seed: int) -> FloatArray:
        run = setting.run(seed)
        return np.concatenate([np.ravel(coverage.ratio(answer(run), true)) for answer, true in truths])

    return ratios


def kinds() -> Iterator[tuple[str, Callable[[], Callable[[int], FloatArray]]]]:
    """Kinds of answers, and what measures them: seed -> distances from the truth in stated errors."""
    yield "mean of shuffled samples", lambda: of_means(cavity_coverage.draw)
    yield "mean of 8 to 14 batches", lambda: of_means(cavity_coverage.draw_batches)
    yield "leave-one-out", lambda: of_left_out
    yield "leave-one-out, rows in chunks", lambda: of_chunks
    yield "leave-one-out, mean step", lambda: of_mean_step
    for step in step_coverage.SETTINGS:
        yield f"critical step, {step.name}", lambda step=step: of_steps(step)
    for drawn in coverage.settings():
        if "one shuffle" not in drawn.name and "shuffled samples" not in drawn.name:
            yield f"drawn orders, {drawn.name}", lambda drawn=drawn: of_draws(drawn)


def main(problems: int = 300, seed: int = 50_000, word: str = "") -> None:
    """Print one row per kind, as a table of Markdown."""
    sources.CHUNK = 4000
    markdown("answers", "problems", "numbers", "covered, %", "median", "largest")
    for name, make in kinds():
        if word not in name:
            continue
        measure, found = make(), []
        for number in range(problems):
            # What is refused, since the equation has no solution so near to divergence, is no answer.
            with contextlib.suppress(rs.UnsupportedError):
                ratios = np.ravel(measure(seed + number))
                found.append(ratios[np.isfinite(ratios)])
        all_ratios = np.concatenate(found)
        covered, median = f"{100 * np.mean(all_ratios <= 1):.2f}", f"{np.median(all_ratios):.2g}"
        row(name, len(found), len(all_ratios), covered, median, f"{all_ratios.max():.2g}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    words = arguments(__doc__, _words=[]).words
    kind = next((word for word in words if not word.isdigit()), "")
    main(*(int(word) for word in words if word.isdigit()), word=kind)
