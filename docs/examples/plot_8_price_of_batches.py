"""
How much mini-batches raise the limiting risk
=============================================

With fewer parameters than rows, mini-batch training does not converge to the least-squares solution. For small
steps, a theorem gives the price: the limiting risk exceeds that of the full batch by noise² (B - 1) / (4B²)
(alpha p/n)². This program compares it with the exact limits of large random problems.
"""

import matplotlib.pyplot as plt
import numpy as np

import reshuffle as rs
from reshuffle import plotting

N, P, NOISE = 800, 200, 1.0
alphas = np.array([0.05, 0.1, 0.2, 0.4])
problem = rs.gaussian(N, P, noise=NOISE, seed=0)


def end(batches, alpha):
    """Return the risk in which endless training ends."""
    return float(rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=alpha).limit().risk.total)


# %%
# Exact limits less that of the full batch, in units of the theorem's right-hand side for two batches:
computed = np.array([end(2, alpha) for alpha in alphas]) - end(1, 0.1)
theoretical = NOISE**2 * (2 - 1) / (4 * 2**2) * (alphas * P / N) ** 2
tolerance = (0.1 + 2 * alphas) * theoretical
for alpha, exact, theorem in zip(alphas, computed, theoretical, strict=True):
    print(f"alpha {alpha:4.2f}: computed {exact:.2e}, small-step theorem {theorem:.2e}")

# %%
# Both fall like the square of the step. At a step of 0.05 the price is a hundred-thousandth of the noise.
_, ax = plt.subplots(figsize=(6.0, 3.4), layout="constrained")
ax.loglog(alphas, theoretical, color=plotting.COLOURS[1], label="small-step theorem")
ax.loglog(alphas, computed, "o", color=plotting.COLOURS[0], label="one data set, exactly")
ax.legend(frameon=False, fontsize=8)
plotting.plain(ax, "alpha", "limiting risk above full batch")
plt.show()
