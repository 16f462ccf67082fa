"""
The error of a single run
=========================

A single run differs from the mean over all orders, since its random draws add a spread. This program compares
forty runs of a plain loop, the mean of two thousand runs, and the exact expectation, which is computed without
any of them.
"""

import matplotlib.pyplot as plt
import numpy as np

import reshuffle as rs
from reshuffle import plotting

STEP, SIZE = 0.12, 5
problem = rs.gaussian(n=60, p=20, noise=0.5, seed=2)
scheme = rs.SampleWithReplacement(batch_size=SIZE)
epochs = np.arange(1, 31)

# %%
# Two thousand real runs on the same responses, each with its own draws:
real = rs.simulate(problem, scheme, step=STEP, epochs=epochs, runs=2000, seed=0).expected_risk
theoretical, tolerance = real.mean, 5 * real.standard_error

# %%
# The same without training. ``given_responses`` keeps the noise in y fixed, since all runs learn from the same y:
run = rs.descend(problem, scheme, step=STEP)
computed = run.expected_risk(epochs, given_responses=True).total
for epoch in (1, 3, 10, 30):
    print(
        f"after {epoch:2d} epochs: computed {computed[epoch - 1]:.4f}, "
        f"real runs {theoretical[epoch - 1]:.4f} ± {real.standard_error[epoch - 1]:.4f}"
    )


# %%
# Forty single runs, for the picture:
def single(rng):
    """Return the test error of one run after every epoch."""
    beta, errors = np.zeros(problem.p), []
    for _ in epochs:
        for _ in range(problem.n // SIZE):
            rows = rng.integers(problem.n, size=SIZE)
            X, y = problem.X[rows], problem.y[rows]
            beta -= STEP * X.T @ (X @ beta - y) / SIZE
        errors.append(np.square(beta - problem.beta_star).sum())
    return errors


# %%
# The dashed line is the error of the mean iterate, which is on average smaller than that of a run.
_, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
forty = np.array([single(np.random.default_rng(seed)) for seed in range(40)])
ax.plot(epochs, forty.T, color="0.8", linewidth=0.7)
ax.plot(epochs, theoretical, "o", color=plotting.COLOURS[0], markersize=4, label="mean of 2,000 runs")
ax.plot(epochs, computed, color=plotting.COLOURS[1], label="computed, without training")
mean = np.square(run.iterate(epochs) - problem.beta_star).sum(axis=1)
ax.plot(epochs, mean, "k--", linewidth=1, label="error of the mean iterate")
ax.legend(frameon=False, fontsize=8)
plotting.plain(ax, "epochs", "test error above the noise")
plt.show()
