"""
Double descent, with mini-batches
=================================

A random hidden layer that is never trained gives features, with a linear head on top: ``rs.random_features``. With
as many features as rows, the least-squares fit passes through every noisy row, and the test error has a peak. With
more features it falls again. Does the peak appear if mini-batch training stops early?
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import reshuffle as rs
from reshuffle import plotting

rng = np.random.default_rng(0)
X, X_new = rng.standard_normal((100, 20)), rng.standard_normal((4000, 20))
truth = rng.standard_normal(20) / math.sqrt(20)
y, y_new = X @ truth + 0.5 * rng.standard_normal(100), X_new @ truth


def test_errors(width, epochs):
    """On new rows, of the mean over all orders of four batches."""
    problem = rs.LeastSquares(rs.random_features(X, width, "relu", seed=1), y)
    run = rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=1.0)
    said = run.predict(rs.random_features(X_new, width, "relu", seed=1), epochs)
    return np.square(said - y_new).mean(axis=-1)


# %%
# With more features than rows, training converges to the minimum-norm solution, whatever the batches:
wide = rs.random_features(X, 400, "relu", seed=1)
fitted = rs.random_features(X_new, 400, "relu", seed=1) @ np.linalg.lstsq(wide, y, rcond=None)[0]
theoretical = np.square(fitted - y_new).mean()
computed, tolerance = float(test_errors(400, math.inf)), 1e-6
print(f"computed {computed:.6f}, least squares of minimum norm {theoretical:.6f}")

# %%
# All widths, at four stopping times:
widths = np.unique(np.geomspace(10, 1000, 21).round().astype(int))
stops = [30, 300, 3000, math.inf]
errors = np.array([test_errors(width, stops) for width in widths])
peak = errors[np.abs(widths - 100).argmin()]
print("test error at 100 features:", dict(zip(stops, peak.round(2).tolist(), strict=True)))

_, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for stop, curve, colour in zip(stops, errors.T, plotting.COLOURS, strict=False):
    name = "for ever" if stop == math.inf else f"{stop} epochs"
    ax.loglog(widths, curve, color=colour, label=name)
ax.axvline(100, color="0.7", linewidth=0.8)
ax.legend(frameon=False, fontsize=8)
plotting.plain(ax, "features", "test error")
plt.show()
