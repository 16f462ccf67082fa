"""
A learning curve without data
=============================

When the numbers of rows and columns are both large, the learning curve depends only on their ratio, the step, the
noise and the number of batches. ``asymptotics.learning_curve`` computes it from these. Exact curves of random
problems gather around it.
"""

import matplotlib.pyplot as plt
import numpy as np

import reshuffle as rs
from reshuffle import asymptotics, plotting

ASPECT, ALPHA, BATCHES, NOISE = 1.5, 0.2, 2, 0.5
epochs = np.unique(np.geomspace(1, 300, 30).round())

# %%
# The curve, without data:
curve = asymptotics.learning_curve(ASPECT, ALPHA, BATCHES, noise=NOISE)
theoretical = curve.risk(epochs).total
print(curve.best_epoch(), "limit", round(float(curve.limit().total), 4))


# %%
# The exact curves of twelve data sets of 200 rows and 300 columns:
def exact(seed):
    """Return the exact curve of one data set."""
    problem = rs.gaussian(200, 300, noise=NOISE, seed=seed)
    return rs.descend(problem, rs.RandomReshuffling(batches=BATCHES), alpha=ALPHA).risk(epochs).total


curves = np.array([exact(seed) for seed in range(12)])
computed = curves.mean(axis=0)
tolerance = 4 * curves.std(axis=0, ddof=1) / np.sqrt(len(curves)) + 0.01
print("computed   ", computed[[0, 10, -1]].round(3))
print("theoretical", theoretical[[0, 10, -1]].round(3))

# %%
_, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.plot(epochs, curves.T, color="0.75", linewidth=0.8)
ax.plot([], [], color="0.75", label="twelve data sets, exactly")
ax.plot(epochs, computed, "o", color=plotting.COLOURS[0], markersize=4, label="their mean")
ax.plot(epochs, theoretical, color=plotting.COLOURS[1], label="no data at all")
ax.set_xscale("log")
ax.legend(frameon=False, fontsize=8)
plotting.plain(ax, "epochs", "risk")
plt.show()
