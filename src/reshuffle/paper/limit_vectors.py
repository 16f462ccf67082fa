"""Section 3.1: the limit depends on the step with reshuffling, when underparameterized, and else does not."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import reshuffle as rs
from reshuffle import plotting
from reshuffle._arrays import FloatArray
from reshuffle.paper.figure import Claim, Columns, Figure, scheme

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

RECIPES = (("reshuffling", 2), ("reshuffling", 4), ("with-replacement", 4))
SHAPES = ("underparameterized", "overparameterized")
AGREES = 1e-9
"""Distances below this are rounding."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """Distances of the limit from the minimum-norm solution, |difference| / |minimum norm|.

    Attributes
    ----------
    alphas : (a,)
    distances : (shapes, recipes, a)
    drift, still : (3,)
        |beta_k| after 1, 10 and 100 epochs where the range assumption fails: with responses that input map in the
        frozen direction, and with responses that do not.
    """

    alphas: FloatArray
    distances: FloatArray
    drift: FloatArray
    still: FloatArray


def compute(n: int, p: int, count: int, seed: int) -> Numbers:
    """Every alpha up to 0.95 of where the most restrictive recipe stops converging."""
    alphas, distances = np.linspace(0.05, 0.95, count), np.zeros((2, len(RECIPES), count))
    for row, (rows, columns) in enumerate(((n, p), (p, n))):
        problem = rs.gaussian(rows, columns, noise=0.5, seed=seed)
        scale = rs.critical_step(problem, rs.FullBatch())
        for recipe, (name, batches) in enumerate(RECIPES):
            for column, alpha in enumerate(alphas):
                run = rs.descend(problem, scheme(name, batches), alpha=float(alpha * scale))
                ends = run.compare_limit()
                distances[row, recipe, column] = ends.distance / np.linalg.norm(ends.minimum_norm)
    return Numbers(alphas, distances, _drift([1.0, 0.0]), _drift([0.0, 0.0]))


def _drift(responses: list[float]) -> FloatArray:
    """Two samples of one feature, at the step where Z vanishes but Xtilde does not."""
    # step = (w_1 + w_2) / (w_1 w_2) makes I - 2 step Z = 1.
    problem = rs.LeastSquares([[1.0], [2.0]], responses)
    run = rs.descend(problem, rs.RandomReshuffling(batches=2), step=(1 + 4) / (1 * 4))
    return np.abs(run.iterate([1, 10, 100])[:, 0])


def draw(numbers: Numbers) -> "Picture":
    """Distances that grow with alpha; all that vanish are one line at zero, named with the largest of them."""
    picture = plotting.figure(6.8, 4.2)
    ax = picture.add_subplot()
    under, over = numbers.distances
    for (name, batches), distances in zip(RECIPES[:2], under, strict=False):
        colour, label = plotting.scheme_colour(name, batches), plotting.scheme_label(name, batches)
        ax.plot(numbers.alphas, 100 * distances, "o-", markersize=4, color=colour, label=f"{label}, n > p")
    nothing = 100 * np.concatenate([under[2:], over])
    names = f"4 batches with replacement, and all of them when n < p: {_bound(nothing.max() / 100)}"
    colour = plotting.scheme_colour("with-replacement", 4)
    ax.plot(numbers.alphas, nothing.max(axis=0), "s-", markersize=4, color=colour, label=names)
    plotting.plain(ax, "α / largest α of full batch", "|limit − minimum norm| / |minimum norm|, in %")
    ax.set_ylim(-2 * under.max(), 120 * under.max())
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    return picture


def _bound(value: float) -> str:
    """A power of ten that is not reached.

    >>> _bound(3e-15)
    'below 10⁻¹⁴'
    """
    exponent = str(int(np.ceil(np.log10(max(value, 1e-17)))))
    return "below 10" + exponent.translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def table(numbers: Numbers) -> Columns:
    """The distances."""
    size = len(numbers.alphas)
    return {
        "regime": np.repeat(SHAPES, len(RECIPES) * size).tolist(),
        "scheme": np.tile(np.repeat([name for name, _ in RECIPES], size), 2).tolist(),
        "batches": np.tile(np.repeat([batches for _, batches in RECIPES], size), 2),
        "alpha_share": np.tile(numbers.alphas, 2 * len(RECIPES)),
        "distance": numbers.distances.ravel(),
    }


def claims(numbers: Numbers) -> list[Claim]:
    """What Section 3.1 says of the limits."""
    under, over = numbers.distances
    return [
        Claim(
            "Section 3.1",
            "with replacement the limit is the minimum-norm solution, independent of the step",
            f"largest distance {max(under[2].max(), over[2].max()):.1e}",
            bool(max(under[2].max(), over[2].max()) < AGREES),
        ),
        Claim(
            "Section 3.1, Corollary batch_limit_vector",
            "underparameterized, the limit with reshuffling differs from it in a step-dependent way",
            f"as alpha grows the distance goes from {under[0].min():.2e} to {under[0].max():.2e} with 2 batches, "
            f"from {under[1].min():.2e} to {under[1].max():.2e} with 4",
            bool((np.diff(under[:2], axis=1) > 0).all()),
        ),
        Claim(
            "Section 3.1",
            "overparameterized, the two limits are actually the same",
            f"largest distance {over[:2].max():.1e}",
            bool(over[:2].max() < AGREES),
        ),
        Claim(
            "after Theorem batch_dynamics",
            "without the range assumption the iterate will always diverge",
            f"in an example |beta_k| after 1, 10, 100 epochs is {', '.join(f'{v:.6g}' for v in numbers.drift)}; "
            f"with other responses {', '.join(f'{v:.6g}' for v in numbers.still)}",
            bool(numbers.still[-1] > numbers.still[0]),
            "it drifts linearly in k, and only if the responses pull there",
        ),
    ]


FIGURES = {
    "limit-vectors": Figure(
        title="Section 3.1: where descent ends",
        caption="How far the limit of the mean iterate is from the minimum-norm solution: a distance that depends "
        "on the step with reshuffling and more samples than parameters, and nothing but rounding otherwise.",
        full={"n": 200, "p": 100, "count": 13, "seed": 0},
        quick={"n": 60, "p": 30, "count": 7},
        compute=compute,
        draw=draw,
        table=table,
        claims=claims,
    ),
}
