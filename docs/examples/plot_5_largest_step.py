"""
How large may the step be?
==========================

Full-batch descent converges for steps up to 2 over the largest eigenvalue of X'X / n. With B batches, each visited
once per epoch, the step of a whole epoch may be larger. ``rs.critical_step`` finds the threshold.
"""

import matplotlib.pyplot as plt
import numpy as np

import reshuffle as rs
from reshuffle import plotting

problem = rs.gaussian(n=120, p=60, noise=0.5, seed=0)

# %%
# The textbook formula, for one batch:
theoretical = 2 / np.linalg.eigvalsh(problem.X.T @ problem.X / problem.n).max()
computed, tolerance = rs.critical_step(problem, rs.FullBatch()), 1e-6
print(f"computed {computed:.6f}, the textbook {theoretical:.6f}")

# %%
# More batches, in the same units: alpha is the step of a visit times the number of batches.
batches = [1, 2, 3, 4, 6]
alphas = [
    count * float(rs.critical_step(problem, rs.RandomReshuffling(batches=count), mean_square=False))
    for count in batches
]
print("largest alpha by number of batches:", dict(zip(batches, np.round(alphas, 3).tolist(), strict=True)))

# %%
# The mean iterate just below and just above the threshold of four batches:
_, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.2), layout="constrained")
left.plot(batches, alphas, "o-", color=plotting.COLOURS[1])
left.axhline(float(theoretical), color=plotting.COLOURS[0], linewidth=1, linestyle="--")
left.set_ylim(bottom=0)
plotting.plain(left, "batches per epoch", "converges up to this alpha")
epochs = np.arange(0, 201, 4)
for factor, colour in ((0.97, plotting.COLOURS[2]), (1.03, plotting.COLOURS[3])):
    run = rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=factor * alphas[3])
    right.plot(epochs, run.risk(epochs).total, color=colour, label=f"{factor} of it")
right.set_yscale("log")
right.legend(frameon=False, fontsize=8)
plotting.plain(right, "epochs", "risk of the mean iterate")
plt.show()
