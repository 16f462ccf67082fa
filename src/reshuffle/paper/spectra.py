"""Figure 1: the limiting spectra of alpha W and alpha Z(alpha/2), beside those of one random matrix."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import reshuffle as rs
from reshuffle import asymptotics, plotting
from reshuffle._core.arrays import FloatArray
from reshuffle.free import Law
from reshuffle.free.view import view
from reshuffle.paper.figure import Claim, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

BATCHES = (1, 2)
QUANTILES = np.arange(1, 20) / 20


@dataclass(frozen=True, eq=False)
class Spectrum:
    """One of the two spectra.

    Attributes
    ----------
    simulated : (p,)
        The eigenvalues of alpha Z(alpha/B) of one Gaussian matrix, zeros included.
    exact : law
        The limiting law.
    distance : float
        The largest difference of their distribution functions (Kolmogorov's).
    """

    batches: int
    simulated: FloatArray
    exact: Law
    distance: float


@dataclass(frozen=True, eq=False)
class Numbers:
    """Both spectra, the atom at zero that the paper claims, and the ratios of the quantiles of the two laws."""

    n: int
    p: int
    alpha: float
    spectra: tuple[Spectrum, ...]
    claimed_atom: float
    shrinkage: FloatArray

    @property
    def aspect(self) -> float:
        """Gamma = p / n."""
        return self.p / self.n


def compute(n: int, p: int, alpha: float, seed: int) -> Numbers:
    """Sample one matrix, and compute both laws from the shape alone."""
    problem = rs.gaussian(n, p, seed=seed)
    spectra = []
    for batches in BATCHES:
        scheme = rs.RandomReshuffling(batches) if batches > 1 else rs.FullBatch()
        rates = rs.Epoch(problem, scheme, alpha / batches).rates
        eigenvalues = np.sort(np.concatenate([rates, np.zeros(p - len(rates))]))
        law = asymptotics.batch_spectrum(p / n, alpha, batches)
        spectra.append(Spectrum(batches, eigenvalues, law, _distance(eigenvalues, law)))
    levels = _learned_levels(p / n)
    full, two = (np.asarray(spectrum.exact.quantile(levels)) for spectrum in spectra)
    return Numbers(n, p, alpha, tuple(spectra), max(0.0, 1 - n / p), two / full)


def _learned_levels(aspect: float) -> FloatArray:
    """Levels of the part of the spectrum that is not the atom at zero."""
    atom = max(0.0, 1 - 1 / aspect)
    return atom + (1 - atom) * QUANTILES


def _distance(eigenvalues: FloatArray, law: Law) -> float:
    """Kolmogorov's distance, of the eigenvalues away from zero: the atom is compared by itself."""
    moving = eigenvalues[np.abs(eigenvalues) > 1e-9 * np.abs(eigenvalues).max()]
    below = len(eigenvalues) - len(moving)
    ranks = (below + np.arange(len(moving) + 1)) / len(eigenvalues)
    cdf = np.asarray(law.cdf(moving))
    return float(np.maximum(np.abs(cdf - ranks[1:]), np.abs(cdf - ranks[:-1])).max())


def draw(numbers: Numbers) -> "Picture":
    """Histograms of the matrix, lines for the laws."""
    picture = plotting.figure(6.8, 4.2)
    ax = picture.add_subplot()
    for spectrum in numbers.spectra:
        name = "αW (full batch)" if spectrum.batches == 1 else "αZ(α/2) (two batches)"
        colour = plotting.scheme_colour("reshuffling", spectrum.batches)
        plotting.spectrum_histogram(spectrum.simulated, label=f"{name}, one matrix", colour=colour, ax=ax)
        plotting.spectrum_curve(spectrum.exact, label=f"{name}, limit", colour=colour, ax=ax)
    # The histogram of few eigenvalues may tower over the law; its top is not the message.
    ax.set_ylim(0, 1.25 * view([plotting.spectrum_points(s.exact) for s in numbers.spectra]).top)
    ax.legend(frameon=False, fontsize=8)
    ax.set_title(f"n = {numbers.n}, p = {numbers.p}, α = {numbers.alpha:g}", fontsize=10)
    return picture


def table(numbers: Numbers) -> Table:
    """The densities of both laws on their supports."""
    parts = [(spectrum.batches, *plotting.spectrum_points(spectrum.exact)) for spectrum in numbers.spectra]
    return Table(
        {
            "batches": np.concatenate([np.full(len(t), batches) for batches, t, _ in parts]),
            "eigenvalue": np.concatenate([t for _, t, _ in parts]),
            "density": np.concatenate([density for *_, density in parts]),
        }
    )


def claims(numbers: Numbers) -> list[Claim]:
    """What Section 3.3.2 says of either case."""
    full, two = numbers.spectra
    ends = [f"[{low:.6f}, {high:.6f}]" for s in numbers.spectra for low, high in s.exact.support]
    edges = numbers.alpha * (1 + np.array([-1, 1]) * np.sqrt(numbers.aspect)) ** 2
    worst = max(full.distance, two.distance)
    ratio = numbers.shrinkage
    means = [float(spectrum.exact.moments(1)[0]) for spectrum in numbers.spectra]
    return [
        Claim(
            "Section 3.3.2",
            "alpha W tends to the Marchenko-Pastur law on [x_-, x_+], x_± = alpha (1 ± sqrt(gamma))^2",
            f"printed edges [{edges[0]:.6f}, {edges[1]:.6f}], computed {ends[0]}; the matrix's distribution "
            f"function is within {full.distance:.4f} of the law",
            bool(
                np.abs(np.array(full.exact.support[0]) - edges).max() < 1e-9
                and full.distance < 3 / numbers.p**0.5
            ),
        ),
        Claim(
            "Section 3.3.2, Figure 1",
            "simulations with moderately-sized matrices adhere closely to the limiting laws",
            f"distribution functions differ by at most {worst:.4f} at p = {numbers.p}; 1/p is {1 / numbers.p:.4f}",
            worst < 5 / numbers.p,
        ),
        Claim(
            "Section 3.3.2, Figure 1",
            "batching results in a non-linear shrinkage of the spectrum of alpha W",
            f"the mean falls from {means[0]:.6f} to {means[1]:.6f}; quantiles of alpha Z are {ratio.max():.3f} "
            f"(low ones) to {ratio.min():.3f} (high ones) of those of alpha W; support {ends[1]} against {ends[0]}",
            bool(means[1] < means[0] and ratio[-1] < 1 and np.ptp(ratio) > 1e-3),
        ),
    ]
