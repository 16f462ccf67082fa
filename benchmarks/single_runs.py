"""Single runs beside their limit: replacement as n grows, runs at n = 2000, and what reshuffling leaves open."""

import math

import numpy as np
from rich.table import Table

import reshuffle as rs
from benchmarks.harness import batches, show, table
from reshuffle import asymptotics
from reshuffle._arrays import FloatArray

EPOCHS = np.array([1, 3, 10])
ALPHA, ASPECT, NOISE = 0.5, 0.5, 0.5


def exact_moments(n: int, p: int, batch_size: int, step: float, epochs: FloatArray, seed: int) -> FloatArray:
    """Risk of a run, of the mean, and training loss, (3, epochs), on one X: exact over draws, noise and directions.

    The second moments of e, of e with the noise eta, and of the mean of both, step by step, as they are defined.
    """
    X = np.random.default_rng(seed).standard_normal((n, p))
    W, eye = X.T @ X / n, np.eye(p)
    second, cross, first = eye / p, np.zeros((p, n)), eye.copy()
    found = []
    for epoch in range(1, int(epochs.max()) + 1):
        for _ in range(n // batch_size):
            squares = np.einsum("ij,jk,ik->i", X, second, X) - 2 * np.einsum("ij,ji->i", X, cross) + NOISE**2
            seen = W @ cross @ X / n
            gradient = W @ second @ W - seen - seen.T + NOISE**2 * W / n
            mixed = second @ W - cross @ X / n
            noise = X.T @ (squares[:, np.newaxis] * X) / n
            second = second - step * (mixed + mixed.T)
            second = second + step**2 * ((1 - 1 / batch_size) * gradient + noise / batch_size)
            cross = cross - step * (W @ cross) + step * NOISE**2 * X.T / n
            first = first - step * (W @ first)
        if epoch in epochs:
            residuals = (
                np.einsum("ij,jk,ik->i", X, second, X) - 2 * np.einsum("ij,ji->i", X, cross) + NOISE**2
            )
            mean = np.sum(first**2) / p + np.sum(cross**2) / NOISE**2
            found.append((np.trace(second), mean, residuals.mean()))
    return np.array(found).T


def towards_the_limit() -> Table:
    """How far exact results at n are from the limit, relative to it, with the standard error over draws of X."""
    made = table(
        f"replacement, p/n = {ASPECT}, alpha = {ALPHA}, noise {NOISE}, batches of 2: distance from the limit",
        "n", "draws of X", "spread, 1 epoch", "3", "10", "n times that", "training loss, 10",
    )  # fmt: skip
    curve = asymptotics.replacement_curve(ASPECT, ALPHA, noise=NOISE)
    for n, draws in ((16, 400), (32, 100), (64, 25), (128, 5)):
        p, step = round(ASPECT * n), ALPHA * 2 / n
        risks = np.array([exact_moments(n, p, 2, step, EPOCHS, seed) for seed in range(draws)])
        spread = (risks[:, 0] - risks[:, 1]) / curve.spread(EPOCHS) - 1
        loss = (risks[:, 2] / curve.training_loss(EPOCHS) - 1)[:, -1]
        cells = [f"{v.mean():+.2%} ± {v.std() / math.sqrt(draws):.2%}" for v in (*spread.T, loss)]
        made.add_row(str(n), str(draws), *cells[:3], f"{n * spread[:, -1].mean():+.2f}", cells[3])
    return made


def runs_at_two_thousand() -> Table:
    """Single runs of n = 2000 rows beside the limit: their mean, and how much they differ from each other."""
    made = table(
        "SampleWithReplacement, n = 2000, p = 1000: risk of runs",
        "rows per batch", "epochs", "limit", "mean of 16 runs", "standard deviation over runs", "spread / risk",
    )  # fmt: skip
    limit = asymptotics.replacement_curve(ASPECT, ALPHA, noise=NOISE).expected_risk(EPOCHS)
    problem = rs.gaussian(2000, 1000, noise=NOISE, seed=0)
    direction = np.random.default_rng(1).standard_normal(1000)
    start = problem.beta_star + direction / np.linalg.norm(direction)
    for size in (1, 8):
        scheme, recipe = rs.SampleWithReplacement(batch_size=size), {"alpha": ALPHA, "start": start}
        found = rs.simulate(problem, scheme, epochs=EPOCHS, runs=16, fresh_noise=True, **recipe).expected_risk
        for index, epoch in enumerate(EPOCHS):
            cells = limit.total[index], found.mean[index], found.standard_error[index] * 4
            share = f"{limit.spread[index] / limit.total[index]:.3f}"
            made.add_row(str(size), str(epoch), *(f"{cell:.4f}" for cell in cells), share)
    return made


def what_reshuffling_leaves_to_chance() -> Table:
    """Spread over risk of runs that shuffle their samples every epoch, at growing n and for several batch sizes."""
    made = table(
        f"SampleReshuffling, p/n = {ASPECT}, alpha = {ALPHA}, noise {NOISE}: spread / risk after 1, 3, 10 epochs",
        "rows per batch", "n = 64", "n = 128", "n = 256", "n = 512",
    )  # fmt: skip
    for name in ("1", "4", "16", "n/16", "n/4", "n/2"):
        cells = []
        for n in (64, 128, 256, 512):
            size = n // int(name[2:]) if name.startswith("n/") else int(name)
            cells.append(", ".join(f"{value:.4f}" for value in _spread_over_risk(n, size, ALPHA, EPOCHS)))
        made.add_row(name, *cells)
    return made


def what_the_step_does() -> Table:
    """Spread over risk at the same time alpha k = 2, for several alpha: reshuffled, and with replacement."""
    made = table(
        "spread / risk after 2 / alpha epochs, p/n = 0.5, noise 0.5",
        "alpha", "reshuffled, n = 256, 4 rows per batch", "with replacement, in the limit",
    )  # fmt: skip
    for alpha in (0.125, 0.25, 0.5, 1.0):
        epochs = np.array([round(2 / alpha)])
        limit = asymptotics.replacement_curve(ASPECT, alpha, noise=NOISE).expected_risk(epochs)
        ratio = _spread_over_risk(256, 4, alpha, epochs)
        made.add_row(f"{alpha:g}", f"{ratio[0]:.5f}", f"{(limit.spread / limit.total)[0]:.4f}")
    return made


def _spread_over_risk(n: int, size: int, alpha: float, epochs: FloatArray) -> FloatArray:
    """Of runs that share data and noise and differ in their orders; eight of them for each of several X."""
    p, spreads, risks = round(ASPECT * n), [], []
    for seed in range(max(4, 1024 // n)):
        rng = np.random.default_rng(seed)
        X, start = rng.standard_normal((n, p)), rng.standard_normal(p)
        noise = NOISE * rng.standard_normal(n)
        errors = np.tile(start / np.linalg.norm(start), (8, 1))
        for epoch in range(1, int(epochs[-1]) + 1):
            for rows in batches(rng, n, size, runs=8):
                chosen = X[rows]
                residuals = np.einsum("rmj,rj->rm", chosen, errors) - noise[rows]
                errors = errors - alpha / n * np.einsum("rmj,rm->rj", chosen, residuals)
            if epoch in epochs:
                spreads.append(errors.var(axis=0, ddof=1).sum())
                risks.append((errors**2).sum(axis=1).mean())
    means = (np.reshape(values, (-1, len(epochs))).mean(axis=0) for values in (spreads, risks))
    return np.asarray(np.divide(*means))


if __name__ == "__main__":
    show(
        towards_the_limit,
        runs_at_two_thousand,
        what_reshuffling_leaves_to_chance,
        what_the_step_does,
        width=170,
    )
