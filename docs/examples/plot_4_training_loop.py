"""
Predict the loss of a training loop
===================================

Shuffle the rows, cut them into batches of 64, take a step for each, and repeat: this is what a ``DataLoader``
with ``shuffle=True`` does. Every epoch has new batches, so there is no list of batches to average over. The
cavity equation gives the mean nevertheless.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn import datasets, preprocessing

import reshuffle as rs
from reshuffle import plotting

X, y = map(preprocessing.scale, datasets.load_diabetes(return_X_y=True))
STEP, SIZE, EPOCHS, RUNS = 0.05, 64, 20, 60

# %%
# The loop, sixty times:
rng = np.random.default_rng(0)
losses = np.empty((RUNS, EPOCHS))
for number in range(RUNS):
    beta = np.zeros(X.shape[1])
    for epoch in range(EPOCHS):
        order = rng.permutation(len(y))
        for rows in np.split(order, range(SIZE, len(y), SIZE)):
            beta -= STEP * X[rows].T @ (X[rows] @ beta - y[rows]) / len(rows)
        losses[number, epoch] = np.square(y - X @ beta).mean() / 2
theoretical = losses.mean(axis=0)

# %%
# The same without training: the loss of the mean iterate, plus what the spread of single runs adds to it:
run = rs.descend(rs.LeastSquares(X, y), rs.SampleReshuffling(batch_size=SIZE), step=STEP)
epochs = np.arange(1, EPOCHS + 1)
least = np.square(y - X @ np.linalg.lstsq(X, y)[0]).mean() / 2
computed = least + run.excess_training_loss(epochs, of_run=True)
tolerance = 5 * losses.std(axis=0) / np.sqrt(RUNS) + 1e-4
for epoch in (1, 5, 20):
    print(
        f"after {epoch:2d} epochs: computed {computed[epoch - 1]:.5f}, the loop {theoretical[epoch - 1]:.5f}"
    )

# %%
# The sixty runs are grey.
_, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
ax.plot(epochs, losses.T - least, color="0.8", linewidth=0.6)
ax.plot(epochs, theoretical - least, "o", color=plotting.COLOURS[0], markersize=5, label="mean of 60 runs")
ax.plot(epochs, computed - least, color=plotting.COLOURS[1], label="computed, without training")
ax.set_yscale("log")
ax.legend(frameon=False, fontsize=8)
plotting.plain(ax, "epochs", "training loss above least squares")
plt.show()
