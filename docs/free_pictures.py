"""Draw the pictures of docs/free.md and print how far a sampled matrix is from each law.

Run with ``python docs/free_pictures.py``; each example returns the spectrum it draws.
"""

from pathlib import Path

import matplotlib as mpl

from reshuffle import free

mpl.use("Agg")
from matplotlib import pyplot as plt

SIZE = 800


def two_batch():
    """Return two mini-batches of a least-squares problem: w1 + w2 - (w1 w2 + w2 w1)/2."""
    law = free.MarchenkoPastur(ratio=3.0, variance=0.1)
    w1, w2 = free.variables(law, law, names=["w1", "w2"])
    return free.spectrum(w1 + w2 - (w1 * w2 + w2 * w1) / 2)


def commutator():
    """Return the commutator i(xp - px) of a semicircular element and a projection."""
    x, p = free.variables(free.Semicircle(), free.Projection(0.4), names=["x", "p"])
    return free.spectrum(1j * (x * p - p * x))


def anticommutator():
    """Return the anticommutator of a semicircular and a Marchenko-Pastur element."""
    x, w = free.variables(free.Semicircle(), free.MarchenkoPastur(0.5), names=["x", "w"])
    return free.spectrum(x * w + w * x)


def compression():
    """Return the corner p x p of a three-point spectrum under a projection."""
    x, p = free.variables(
        free.Discrete([-2.0, 1.0, 3.0], [0.3, 0.4, 0.3]), free.Projection(0.7), names=["x", "p"]
    )
    return free.spectrum(p * x * p)


def three_variables():
    """Return a cubic polynomial of three variables of different kinds."""
    laws = free.Semicircle(), free.MarchenkoPastur(0.5), free.Uniform(-1.0, 1.0)
    x, w, u = free.variables(*laws, names=["x", "w", "u"])
    return free.spectrum(x * w * x + w * u + u * w - x)


def rational():
    """Return a rational expression: w (1 + x^2)^-1 w + u, with an inverse inside a product."""
    laws = free.Semicircle(), free.MarchenkoPastur(0.5), free.Arcsine(-1.0, 1.0)
    x, w, u = free.variables(*laws, names=["x", "w", "u"])
    return free.spectrum(w / (1 + x**2) * w + u)


EXAMPLES = (two_batch, commutator, anticommutator, compression, three_variables, rational)


def main():
    """Draw every example into docs/pictures."""
    folder = Path(__file__).parent / "pictures"
    folder.mkdir(exist_ok=True)
    for example in EXAMPLES:
        s = example()
        figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
        s.plot(ax, sample=SIZE, seed=4)
        ax.set_title(repr(s.expression))
        figure.savefig(folder / f"free_{example.__name__}.png", dpi=110)
        plt.close(figure)
        print(f"{example.__name__:16s} {s.support} {s.atoms} {s.compare(SIZE, seed=4)}")


if __name__ == "__main__":
    main()
