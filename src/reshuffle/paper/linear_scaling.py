"""Remarks gradient_flow and with_replacement: to first order in the step, batching cannot be seen."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import reshuffle as rs
from reshuffle import plotting
from reshuffle._arrays import FloatArray
from reshuffle.paper.figure import Claim, Columns, Figure, look, scheme

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

RECIPES = (("full-batch", 1), ("reshuffling", 2), ("reshuffling", 4), ("with-replacement", 4))


@dataclass(frozen=True, eq=False)
class Numbers:
    """Distances from gradient flow, and the two sides of Remark with_replacement.

    Attributes
    ----------
    alphas : (a,)
    distances : (recipes, a)
        max over the epochs of |beta_k - beta(alpha k)| / |beta(inf)|, beta(t) being gradient flow.
    orders : (recipes,)
        Their order in alpha, from the two smallest: 1 is O(alpha).
    same_time : float
        With replacement after k epochs against full batch after B k steps.
    plus, minus : float
        The error of one step with replacement if the noise enters with + and with -, as the proof prints it.
    """

    alphas: FloatArray
    distances: FloatArray
    orders: FloatArray
    same_time: float
    plus: float
    minus: float


def compute(n: int, p: int, time: float, halvings: int, seed: int) -> Numbers:
    """Follow each recipe for the same time alpha k, at smaller and smaller alpha."""
    problem = rs.gaussian(n, p, noise=0.5, seed=seed)
    flow = rs.gradient_flow(problem)
    alphas = np.asarray(0.25 * 0.5 ** np.arange(halvings), dtype=np.float64)
    size = float(np.linalg.norm(flow.iterate(np.inf)))
    distances = np.zeros((len(RECIPES), halvings))
    for row, (name, batches) in enumerate(RECIPES):
        for column, alpha in enumerate(alphas):
            epochs = np.unique(np.linspace(0, time / alpha, 41).round())
            run = rs.descend(problem, scheme(name, batches), alpha=float(alpha))
            apart = np.linalg.norm(run.iterate(epochs) - flow.iterate(alpha * epochs), axis=1)
            distances[row, column] = apart.max() / size
    orders = np.log2(distances[:, -2] / distances[:, -1])
    return Numbers(alphas, distances, orders, *_with_replacement(problem))


def _with_replacement(problem: rs.LeastSquares) -> tuple[float, float, float]:
    """The remark's change of time; and the mean of one step over the batches, by hand, with either sign."""
    batches, step = 4, 0.05
    run = rs.descend(problem, rs.WithReplacement(batches=batches), step=step)
    full = rs.descend(problem, rs.FullBatch(), step=step)
    when = np.array([1, 7, 50])
    difference = float(np.abs(run.iterate(when) - full.iterate(batches * when)).max())
    X, y, beta_star = problem.X, problem.y, np.asarray(problem.beta_star)
    noise = y - X @ beta_star
    mean_step = np.zeros(problem.p)
    signs = {1: -beta_star, -1: -beta_star}
    for rows in np.array_split(np.arange(problem.n), batches):
        mean_step += step * X[rows].T @ y[rows] / len(rows) / batches
        for sign in signs:
            gradient = X[rows].T @ (X[rows] @ beta_star + sign * noise[rows]) / len(rows)
            signs[sign] = signs[sign] + step * gradient / batches
    actual = mean_step - beta_star
    plus, minus = (float(np.abs(signs[sign] - actual).max()) for sign in (1, -1))
    return difference, plus, minus


def draw(numbers: Numbers) -> "Picture":
    """Distances against alpha, both logarithmic: straight lines of slope one."""
    picture = plotting.figure(6.4, 4.2)
    ax = picture.add_subplot()
    for (name, batches), distances in zip(RECIPES, numbers.distances, strict=True):
        ax.loglog(numbers.alphas, distances, "o-", markersize=4, **look(name, batches))
    guide = numbers.distances[0, 0] * numbers.alphas / numbers.alphas[0]
    ax.loglog(numbers.alphas, 0.5 * guide, color="grey", linestyle=":", label="slope 1")
    plotting.plain(ax, "α (step α/B)", "distance from gradient flow")
    ax.legend(frameon=False, fontsize=9)
    return picture


def table(numbers: Numbers) -> Columns:
    """The distances."""
    size = len(numbers.alphas)
    return {
        "scheme": np.repeat([name for name, _ in RECIPES], size).tolist(),
        "batches": np.repeat([batches for _, batches in RECIPES], size),
        "alpha": np.tile(numbers.alphas, len(RECIPES)),
        "distance": numbers.distances.ravel(),
    }


def claims(numbers: Numbers) -> list[Claim]:
    """Both remarks, and the sign in the proof of the second."""
    orders = ", ".join(f"{order:.3f}" for order in numbers.orders)
    return [
        Claim(
            "Remark gradient_flow",
            "as alpha -> 0 all schemes follow the same gradient flow, which cannot tell batching",
            f"distances fall to {numbers.distances[:, -1].max():.1e} like alpha^q with q = {orders} "
            "(full batch; 2 and 4 batches; with replacement)",
            bool((np.abs(numbers.orders - 1) < 0.15).all()),
        ),
        Claim(
            "Remark with_replacement",
            "sampling with replacement is full batch up to a change of time, k -> B k",
            f"mean iterates after k epochs and B k steps differ by {numbers.same_time:.1e}",
            numbers.same_time < 1e-12,
        ),
        Claim(
            "proof for sampling with replacement",
            "the noise enters as - (B alpha / n) X_b' eta_b",
            f"one step by hand: error {numbers.minus:.2g} with -, {numbers.plus:.1g} with +",
            numbers.minus < 1e-12,
            "+ (B alpha / n) X_b' eta_b",
        ),
    ]


FIGURES = {
    "linear-scaling": Figure(
        title="Remarks gradient_flow and with_replacement: linear scaling",
        caption="The largest distance between the mean iterate after k epochs at step α/B and gradient flow "
        "after the time αk, relative to where the flow ends.",
        full={"n": 200, "p": 100, "time": 20.0, "halvings": 8, "seed": 0},
        quick={"n": 100, "p": 50, "halvings": 6},
        compute=compute,
        draw=draw,
        table=table,
        claims=claims,
    ),
}
