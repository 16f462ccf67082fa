"""Draw the pictures of docs/free.md and print how far a sampled matrix is from each law.

Run with ``python docs/free_pictures.py``, or with the names of some of them.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

from reshuffle import free, plotting

mpl.use("Agg")
from matplotlib import pyplot as plt

SIZE = 800


def with_matrix(s, ax):
    """Draw a spectrum beside one matrix of it, and return how far the two are apart."""
    s.plot(ax, sample=SIZE, seed=4)
    ax.set_title(repr(s.expression))
    return f"{s.support} {s.atoms} {s.compare(SIZE, seed=4)}"


def two_batch(ax):
    """Draw two mini-batches of a least-squares problem: w1 + w2 - (w1 w2 + w2 w1)/2."""
    law = free.MarchenkoPastur(ratio=3.0, variance=0.1)
    w1, w2 = free.variables(law, law, names=["w1", "w2"])
    return with_matrix(free.spectrum(w1 + w2 - (w1 * w2 + w2 * w1) / 2), ax)


def commutator(ax):
    """Draw the commutator i(xp - px) of a semicircular element and a projection."""
    x, p = free.variables(free.Semicircle(), free.Projection(0.4), names=["x", "p"])
    return with_matrix(free.spectrum(1j * (x * p - p * x)), ax)


def anticommutator(ax):
    """Draw the anticommutator of a semicircular and a Marchenko-Pastur element."""
    x, w = free.variables(free.Semicircle(), free.MarchenkoPastur(0.5), names=["x", "w"])
    return with_matrix(free.spectrum(x * w + w * x), ax)


def compression(ax):
    """Draw the corner p x p of a three-point spectrum under a projection."""
    x, p = free.variables(
        free.Discrete([-2.0, 1.0, 3.0], [0.3, 0.4, 0.3]), free.Projection(0.7), names=["x", "p"]
    )
    return with_matrix(free.spectrum(p * x * p), ax)


def three_variables(ax):
    """Draw a cubic polynomial of three variables of different kinds."""
    laws = free.Semicircle(), free.MarchenkoPastur(0.5), free.Uniform(-1.0, 1.0)
    x, w, u = free.variables(*laws, names=["x", "w", "u"])
    return with_matrix(free.spectrum(x * w * x + w * u + u * w - x), ax)


def rational(ax):
    """Draw a rational expression: w (1 + x^2)^-1 w + u, with an inverse inside a product."""
    laws = free.Semicircle(), free.MarchenkoPastur(0.5), free.Arcsine(-1.0, 1.0)
    x, w, u = free.variables(*laws, names=["x", "w", "u"])
    return with_matrix(free.spectrum(w / (1 + x**2) * w + u), ax)


def powers(ax):
    """Draw additive powers of a symmetry: two atoms melt into a Kesten-McKay law, and that into a semicircle."""
    for times, colour in zip(
        (1.2, 1.6, 2.0, 3.0, 8.0), plt.get_cmap("viridis")(np.linspace(0, 0.85, 5)), strict=True
    ):
        law = free.additive_power(free.Bernoulli(), times) / times**0.5
        low, high = law.support[0]
        t = low + (high - low) * (1 - np.cos(np.linspace(0, np.pi, 402)[1:-1])) / 2
        atoms = f", atoms of {law.atoms[0][1]:.2g}" if law.atoms else ""
        ax.plot(t, law.density(t), color=colour, label=f"{times:g} times{atoms}")
    ax.set(
        ylim=(0, 0.8),
        xlabel="eigenvalue / sqrt(times)",
        ylabel="density",
        title="a symmetry, added to itself",
    )
    ax.legend(frameon=False, fontsize="small")
    return ""


def sample_covariance(ax):
    """Draw the spectrum of a sample covariance whose Sigma has eigenvalues 1, 3 and 10, beside a sample."""
    p, n = 400, 4000
    sigma = np.repeat([1.0, 3.0, 10.0], [p // 2, p // 4, p // 4])
    law = free.multiply(free.Discrete(sigma), free.MarchenkoPastur(p / n))
    x = np.random.default_rng(1).standard_normal((n, p)) * np.sqrt(sigma)
    eigenvalues = np.linalg.eigvalsh(x.T @ x / n)
    plotting.spectrum_histogram(eigenvalues, bins=90, label=f"one sample covariance, {n} x {p}", ax=ax)
    law.plot(ax)
    ax.set_title("Sigma = 1, 3, 10, seen through noise")
    return f"{law.support}"


def deconvolution(ax):
    """Draw the population spectrum that 600 eigenvalues of a sample covariance tell."""
    p, n = 600, 1200
    generator = np.random.default_rng(2)
    sigma = np.concatenate([np.linspace(0.8, 1.2, p // 2), np.full(p // 4, 3.0), np.full(p // 4, 6.0)])
    x = generator.standard_normal((n, p)) * np.sqrt(sigma)
    eigenvalues = np.linalg.eigvalsh(x.T @ x / n)
    found = free.divide(eigenvalues, free.MarchenkoPastur(p / n))
    t = np.linspace(0, 12, 1200)
    for law, label, colour in (
        (free.Discrete(eigenvalues), "of the sample covariance", plotting.COLOURS[5]),
        (free.Discrete(sigma), "of Sigma", "black"),
        (found.law, "deconvolved", plotting.COLOURS[1]),
    ):
        ax.plot(t, law.cdf(t), color=colour, label=label, lw=1.8 if colour != "black" else 1.0)
    ax.set(xlabel="eigenvalue", ylabel="distribution function", title=f"noise of ratio {p / n:g} removed")
    ax.legend(frameon=False)
    return repr(found)


def product_of_circulars(ax):
    """Draw c^2 + x: a circular element squared, moved by a semicircular one."""
    c, x = free.variables(free.Circular(), free.Semicircle(0.5), names=["c", "x"])
    b = free.brown(c * c + x)
    b.plot(ax, sample=SIZE, seed=4, points=64)
    ax.set_title("Brown measure of c c + x")
    return repr(b.grid(64))


def single_ring(ax):
    """Draw the radial distribution of R-diagonal elements with singular values 1, 2 and 4."""
    weights = [0.5, 0.3, 0.2]
    law = free.Discrete([1.0, 2.0, 4.0], weights)
    (a,) = free.variables(free.RDiagonal(law))
    b = free.brown(a)
    inner, outer = b.radii
    r = np.linspace(0.6 * inner, 1.2 * outer, 80)
    drawn = np.sort(np.abs(b.eigenvalues(SIZE, seed=4)))
    ax.step(
        drawn,
        (np.arange(SIZE) + 1) / SIZE,
        color=plotting.COLOURS[5],
        lw=3,
        label=f"one matrix of size {SIZE}",
    )
    ax.plot(r, b.radial_cdf(r), color=plotting.COLOURS[0], label="Brown measure")
    for edge in (inner, outer):
        ax.axvline(edge, color=plotting.COLOURS[1], lw=0.8, ls=":")
    ax.set(xlabel="radius", ylabel="mass inside", title="a single ring: singular values 1, 2 and 4")
    ax.legend(frameon=False, loc="lower right")
    return f"radii {b.radii}"


EXAMPLES = (
    two_batch,
    commutator,
    anticommutator,
    compression,
    three_variables,
    rational,
    powers,
    sample_covariance,
    deconvolution,
    product_of_circulars,
    single_ring,
)


def main(names):
    """Draw the examples of these names, or all, into docs/pictures."""
    folder = Path(__file__).parent / "pictures"
    folder.mkdir(exist_ok=True)
    for example in EXAMPLES:
        if names and example.__name__ not in names:
            continue
        figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
        words = example(ax)
        figure.savefig(folder / f"free_{example.__name__}.png", dpi=110)
        plt.close(figure)
        print(f"{example.__name__:20s} {words}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
