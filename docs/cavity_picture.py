"""Draw docs/pictures/cavity_error.png: how the error of the cavity equation falls with the number of samples.

Run with `python docs/cavity_picture.py`; it prints the numbers of the picture.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import reshuffle as rs

SIZES = np.array([25, 50, 100, 200, 400, 800, 1600])
PICTURE = Path(__file__).parent / "pictures" / "cavity_error.png"


def errors(n, tails, seed):
    """Errors of the decay rates over the fastest: of independent visits, of the cavity, and as it states them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5)) if tails == np.inf else rng.standard_t(tails, (n, 5))
    X /= np.sqrt(np.square(X).mean())
    problem = rs.LeastSquares(X, np.zeros(n))
    scheme = rs.SampleReshuffling(batches=4)
    exact = rs.descend(problem, scheme, alpha=1.0, method="exact").epoch.Z
    cavity = rs.descend(problem, scheme, alpha=1.0, method="cavity", rtol=10.0).epoch
    independent = rs.descend(problem, rs.SampleWithReplacement(batch_size=n // 4), alpha=1.0).epoch.Z
    size = np.linalg.norm(exact, 2)
    return [
        np.linalg.norm(independent - exact, 2) / size,
        np.linalg.norm(cavity.Z - exact, 2) / size,
        cavity.mean.missed,
    ]


def main():
    """Draw and print."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    for axis, (tails, title) in zip(
        axes, [(np.inf, "Gaussian rows"), (4, "rows with tails of Student's t, 4 degrees")], strict=True
    ):
        found = np.array([np.mean([errors(n, tails, seed) for seed in range(5)], axis=0) for n in SIZES])
        for column, (name, style) in enumerate(
            [("independent visits", "o:"), ("cavity equation", "s-"), ("its stated error", "^--")]
        ):
            axis.loglog(SIZES, found[:, column], style, label=name)
        axis.loglog(SIZES, found[0, 1] * (SIZES[0] / SIZES) ** 2.0, color="0.7", lw=1, label="slope -2")
        axis.set(title=title, xlabel="samples n")
        print(title)
        for n, row in zip(SIZES, found, strict=True):
            print(f"{n:6d}", *(f"{value:9.1e}" for value in row))
    axes[0].set_ylabel("relative error of Z")
    axes[0].legend(frameon=False)
    figure.savefig(PICTURE, dpi=130)


if __name__ == "__main__":
    main()
