"""Leaving out rows where an epoch repeats one mean step: the full batch, and all that is drawn with replacement."""

import numpy as np
import scipy.linalg

from reshuffle._arrays import IntArray
from reshuffle.validation.descent import Descent, columns
from reshuffle.validation.leave_one_out_formula import LeftOutRows
from reshuffle.validation.looks import Looks, chunked, no_one


def mean_steps(descent: Descent) -> LeftOutRows:
    """The rows of a descent whose mean step is I - step (W + penalty): a row looks at the parameters in one way."""
    blocks, step, shrinkage = descent.blocks, descent.step, descent.shrinkage
    roots = np.sqrt(np.repeat(step / (blocks.batches * blocks.divisors), blocks.sizes))[:, np.newaxis]
    features = roots * blocks.rows
    values, vectors = scipy.linalg.eigh(features.T @ features, driver="evd", check_finite=False)
    missing = columns(blocks.response) - blocks.rows @ descent.origin
    pull = vectors.T @ (features.T @ (roots * missing) - shrinkage * descent.origin)

    def look(members: IntArray) -> Looks:
        rows = descent.rows(members)
        weights = step * descent.factors[members] / (blocks.batches * descent.divisors[members])
        responses = descent.responses(members, rows)
        return Looks(
            members, (rows @ vectors)[:, np.newaxis], responses[:, np.newaxis],
            weights[:, np.newaxis, np.newaxis], np.ones(1),
        )  # fmt: skip

    return LeftOutRows(
        np.maximum(values, 0.0) + shrinkage, pull, lambda rows, height: chunked(rows, height, look), 1,
        applications=descent.scheme.steps(descent.problem.n), is_monotone=True,
        alone=lambda: no_one(descent.problem.n) if shrinkage else descent.alone,
    )  # fmt: skip
