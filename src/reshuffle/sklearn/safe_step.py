"""A step that is safe on any data, without a search."""

from dataclasses import replace

import numpy as np

from reshuffle._core import FloatArray
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.run import Run
from reshuffle.run.step_search import contracting_step
from reshuffle.schemes import base
from reshuffle.schemes.base import Scheme

_HALVINGS = 60


def safe_step(problem: LeastSquares, scheme: Scheme, penalty: float, momentum: float) -> float:
    """(1 - momentum) / (L + penalty), with L a bound on the curvature |X_b'X_b| / m_b of every possible batch.

    Without momentum every visit of such a step is a contraction, whatever the order: mean and spread converge. For
    the full batch it is half of the critical step. Where there is nothing to learn from it is one.

    >>> from reshuffle import FullBatch
    >>> safe_step(LeastSquares([[1.0], [3.0]], [0.0, 0.0]), FullBatch(), 0.0, 0.0)
    0.2
    """
    problem, scheme = base.fitted(problem, scheme)
    space, curvature = problem.row_space, 0.0
    if space.dimension and scheme.visits_samples and problem.stream is not None:
        whole = problem.blocks([np.arange(len(problem.kept.X))])
        longest = problem.stream.gathered(_longest, max) / space.scale / space.scale
        curvature = 2 / contracting_step(scheme, problem.n, whole, longest) * space.scale * space.scale
    elif space.dimension:
        blocks = problem.blocks(scheme.partition(problem.n), scheme.divisors(problem.n))
        curvature = 2 / contracting_step(scheme, problem.n, blocks) * space.scale * space.scale
    curvature += penalty
    return (1 - momentum) / curvature if curvature else 1.0


def _longest(X: FloatArray, y: FloatArray) -> float:
    """The largest |x|^2."""
    return float(np.square(X).sum(axis=1).max())


def slowed(run: Run) -> Run:
    """The same run with its step halved until its mean converges: no bound on visits is proof with momentum."""
    for _ in range(_HALVINGS):
        if run.converges:
            return run
        step = run.recipe.at(0).step / 2
        run = Run(run.problem, run.scheme, replace(run.recipe, schedule=step), run.start, run.accuracy)
    return run
