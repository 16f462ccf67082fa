"""
The mean over every order
=========================

Four batches can be visited in 24 orders. This program runs one epoch in each of them and averages the results.
``rs.descend`` gives the same mean without running anything. After ten epochs there are 24 to the tenth sequences
of orders, too many to list; the computed mean costs the same.
"""

from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np

import reshuffle as rs
from reshuffle import plotting

STEP = 0.5
problem = rs.gaussian(n=40, p=10, noise=0.5, seed=0)
batches = np.split(np.arange(40), 4)

# %%
# The usual training loop, once per order:


def one_epoch(order):
    """Return where one epoch in this order ends."""
    beta = np.zeros(10)
    for rows in (batches[number] for number in order):
        X, y = problem.X[rows], problem.y[rows]
        beta -= STEP * X.T @ (X @ beta - y) / len(rows)
    return beta


ends = np.array([one_epoch(order) for order in permutations(range(4))])
theoretical = ends.mean(axis=0)

# %%
# And the same without a loop:
run = rs.descend(problem, rs.RandomReshuffling(batches=4), step=STEP)
computed, tolerance = run.iterate(1), 1e-12
print("computed   ", computed[:5].round(6))
print("theoretical", theoretical[:5].round(6))

# %%
# The grey dots are the 24 results, and the circles their mean.
_, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
ax.plot(np.tile(np.arange(10), 24), ends.ravel(), ".", color="0.7", markersize=5, label="one order")
ax.plot(theoretical, "o", color=plotting.COLOURS[0], markerfacecolor="none", markersize=9, label="their mean")
ax.plot(computed, "x", color=plotting.COLOURS[1], markersize=6, label="computed, without a loop")
ax.set_xticks(range(10))
ax.legend(frameon=False, fontsize=8)
plotting.plain(ax, "parameter", "value after one epoch")
plt.show()
