"""
Leaving out every row, without refitting
========================================

Leave-one-out measures how well each row is predicted by a run that did not learn from it. Done literally, it
takes one training run per row. ``run.leave_one_out`` gives the answer for all rows and all epochs from one
decomposition.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn import datasets, preprocessing

import reshuffle as rs
from reshuffle import plotting

X, y = map(preprocessing.scale, datasets.load_diabetes(return_X_y=True))
X, y = X[:60], y[:60]
STEP, EPOCHS = 0.2, np.arange(1, 41)

# %%
# Sixty training runs, each without the gradient of one row:
residuals = np.empty((len(EPOCHS), len(y)))
for row in range(len(y)):
    kept = np.arange(len(y)) != row
    beta = np.zeros(X.shape[1])
    for epoch in range(len(EPOCHS)):
        beta -= STEP * X[kept].T @ (X[kept] @ beta - y[kept]) / len(y)
        residuals[epoch, row] = y[row] - X[row] @ beta
theoretical = np.square(residuals).mean(axis=1)

# %%
# The same without training:
run = rs.descend(rs.LeastSquares(X, y), rs.FullBatch(), step=STEP)
computed, tolerance = run.leave_one_out(EPOCHS).mean_square, 1e-9
best = run.best_epoch()
print("computed   ", computed[[0, 4, 19, 39]].round(6))
print("theoretical", theoretical[[0, 4, 19, 39]].round(6))
print("stop after", best.epoch, "epochs")

# %%
# The training error keeps falling. The leave-one-out error has a minimum, which is when to stop.
_, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
ax.plot(EPOCHS, 2 * run.training_loss(EPOCHS), color="0.6", label="training error")
ax.plot(EPOCHS, theoretical, "o", color=plotting.COLOURS[0], markerfacecolor="none", label="60 training runs")
ax.plot(EPOCHS, computed, color=plotting.COLOURS[1], label="computed, without training")
ax.axvline(best.epoch, color="black", linewidth=0.8, linestyle="--")
ax.legend(frameon=False, fontsize=8)
plotting.plain(ax, "epochs", "mean square error")
plt.show()
