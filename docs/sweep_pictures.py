"""Draw docs/pictures/sweep.png: risk over steps and batch sizes, and along the epochs."""

from pathlib import Path

import numpy as np

import reshuffle as rs
from reshuffle import plotting

HERE = Path(__file__).parent


def main() -> None:
    """Draw the map and the curves of one grid."""
    problem = rs.gaussian(n=120, p=180, noise=0.5, seed=0)
    found = rs.sweep(
        problem,
        over={"batches": [1, 2, 4, 8], "step": np.geomspace(0.005, 1.0, 60)},
        epochs=np.unique(np.geomspace(1, 1000, 60).round()),
    )
    figure = plotting.figure(11.0, 4.4)
    left, right = figure.subplots(1, 2)
    plotting.heat_map(found["risk"], x="step", y="batches", epochs=30, ax=left)
    plotting.sweep_curves(found["risk"], by="batches", step=0.02, ax=right)
    left.set_title("after 30 epochs", fontsize=9, pad=22)
    right.set_title("at step 0.02", fontsize=9)
    figure.savefig(HERE / "pictures" / "sweep.png")


if __name__ == "__main__":
    main()
