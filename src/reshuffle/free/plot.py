"""Draw a law and a sampled matrix beside it."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reshuffle.free.spectrum import Spectrum


def plot(
    law: "Spectrum", ax: "Axes | None" = None, *, sample: int | None = None, seed: int | None = 0
) -> "Axes":
    """Draw the density, atoms as arrows of their mass, and optionally a histogram of ``sample`` eigenvalues.

    Returns ``ax``, a new one unless given; nothing is shown or saved.
    """
    ax = _new_axes() if ax is None else ax
    tallest = 0.0
    if sample is not None:
        eigenvalues = np.linalg.eigvalsh(law.matrix(sample, seed))
        scale = np.abs(eigenvalues).max()
        for place, _ in law.atoms:
            eigenvalues = eigenvalues[np.abs(eigenvalues - place) > 1e-9 * scale]
        heights, cuts = np.histogram(eigenvalues, bins=70)
        share = heights / (len(law.engine.sample(1, 0)) * sample) / np.diff(cuts)
        ax.stairs(share, cuts, fill=True, color="#c9d6e8", label=f"one matrix of size {sample}")
    for k, (low, high) in enumerate(law.support):
        angle = np.linspace(0, np.pi, 302)[1:-1]
        t = (low + high) / 2 - (high - low) / 2 * np.cos(angle)
        y = law.density(t)
        # A hard edge goes to infinity; what is shown must leave room for the rest of the curve.
        tallest = max(tallest, min(float(np.nanmax(y)), 5 * float(np.nanmedian(y))))
        ax.plot(t, y, color="#1b3a6b", lw=1.8, label="limiting law" if k == 0 else None)
    tallest = tallest or 1.0
    for place, mass in law.atoms:
        ax.annotate(
            "",
            xy=(place, tallest),
            xytext=(place, 0),
            arrowprops={"arrowstyle": "->", "color": "#b5482a"},
        )
        ax.text(place, 1.03 * tallest, f"{mass:.3g}", color="#b5482a", ha="center", va="bottom")
    ax.set_ylim(0, 1.3 * tallest)
    ax.set_xlabel("eigenvalue")
    ax.set_ylabel("density")
    ax.legend(frameon=False, loc="upper center", ncols=2)
    return ax


def _new_axes() -> "Axes":
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "pictures need matplotlib, which is not installed: install matplotlib."
        ) from None
    return Figure(layout="constrained").add_subplot()
