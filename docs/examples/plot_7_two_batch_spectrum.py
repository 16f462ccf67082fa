"""
The spectrum of two batches
===========================

An epoch over two batches multiplies the mean error by I - alpha Z. In the limit of large data the eigenvalues
of alpha Z have a law in closed form. This program compares it with the law that ``reshuffle.free`` computes from an
expression of two free variables, and with the eigenvalues of one random matrix.
"""

import matplotlib.pyplot as plt
import numpy as np

import reshuffle as rs
from reshuffle import asymptotics, free, plotting

ASPECT, ALPHA = 1.5, 0.2
points = np.linspace(0.02, 0.8, 200)

# %%
# Free probability, in two lines:
batch = free.MarchenkoPastur(ratio=2 * ASPECT, variance=ALPHA / 2)
w1, w2 = free.variables(batch, batch)
computed = free.spectrum(w1 + w2 - (w1 * w2 + w2 * w1) / 2).density(points)

# %%
# The closed form:
theoretical, tolerance = asymptotics.TwoBatchLaw(ASPECT, ALPHA).density(points), 1e-9
print("largest difference:", f"{np.abs(computed - theoretical).max():.1e}")

# %%
# One matrix of 600 x 600. A third of its eigenvalues are zero, since there are more columns than rows.
problem = rs.gaussian(400, 600, seed=0)
run = rs.descend(problem, rs.RandomReshuffling(batches=2), alpha=ALPHA)
eigenvalues = np.linalg.eigvalsh(ALPHA * run.epoch.Z)
moving = eigenvalues[eigenvalues > 1e-9]
print(f"atom at zero: {1 - len(moving) / 600:.4f}")
_, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
heights, edges = np.histogram(moving, bins=40)
ax.stairs(heights / 600 / np.diff(edges), edges, fill=True, color="0.85", label="one random matrix")
ax.plot(points, theoretical, color=plotting.COLOURS[0], linewidth=4, alpha=0.4, label="closed form")
ax.plot(points, computed, color=plotting.COLOURS[1], linewidth=1.2, label="free variables")
ax.legend(frameon=False, fontsize=8)
plotting.plain(ax, "eigenvalue of alpha Z", "density")
plt.show()
