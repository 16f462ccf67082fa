"""Figure 1: the limiting spectra of alpha W and alpha Z(alpha/2), beside those of one random matrix."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import reshuffle as rs
from reshuffle import asymptotics, free, plotting
from reshuffle._arrays import FloatArray
from reshuffle.free import Law
from reshuffle.paper.figure import Claim, Columns, Figure, scheme

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
        decay_rates = rs.Epoch(problem, scheme("reshuffling", batches), alpha / batches).decay_rates
        eigenvalues = np.sort(np.concatenate([decay_rates, np.zeros(p - len(decay_rates))]))
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
    ax.set_ylim(
        0, 1.25 * plotting.spectrum_view([plotting.spectrum_points(s.exact) for s in numbers.spectra]).top
    )
    ax.legend(frameon=False, fontsize=8)
    ax.set_title(f"n = {numbers.n}, p = {numbers.p}, α = {numbers.alpha:g}", fontsize=10)
    return picture


def table(numbers: Numbers) -> Columns:
    """The densities of both laws on their supports."""
    parts = [(spectrum.batches, *plotting.spectrum_points(spectrum.exact)) for spectrum in numbers.spectra]
    return {
        "batches": np.concatenate([np.full(len(t), batches) for batches, t, _ in parts]),
        "eigenvalue": np.concatenate([t for _, t, _ in parts]),
        "density": np.concatenate([density for *_, density in parts]),
    }


def _claims(numbers: Numbers) -> list[Claim]:
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


def claims_under(numbers: Numbers) -> list[Claim]:
    """What both cases share, and two slips around the formula of Z."""
    return [*_claims(numbers), _printed_polynomial(numbers), _closed_form(numbers)]


def _printed_polynomial(numbers: Numbers) -> Claim:
    """Equation Z_noncomm_poly as printed has the product W_2 W_1 twice: that is not even symmetric."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 4))
    one, two = (X[k : k + 4].T @ X[k : k + 4] / 4 for k in (0, 4))
    alpha = numbers.alpha
    printed = alpha / 2 * (one + two) - alpha**2 / 8 * (two @ one + two @ one)
    skew = float(np.abs(printed - printed.T).max())
    return Claim(
        "equation Z_noncomm_poly",
        "alpha Z(alpha/2) = alpha/2 (W_1 + W_2) - alpha^2/8 (W_2 W_1 + W_2 W_1)",
        f"as printed it differs from its transpose by {skew:.3g} on an 8 x 4 example, but Z is symmetric",
        skew < 1e-12,
        "W_2 W_1 + W_1 W_2",
    )


def _closed_form(numbers: Numbers) -> Claim:
    """The two-batch law on a rational curve, beside the engine that solves for subordination functions."""
    aspect, alpha = numbers.aspect, numbers.alpha
    closed = asymptotics.TwoBatchLaw(aspect, alpha)
    law = free.MarchenkoPastur(ratio=2 * aspect, variance=alpha / 2)
    x, y = free.variables(law, law)
    (low, high), *_ = closed.support
    t = np.linspace(low, high, 52)[1:-1]
    engine = free.spectrum(x + y - (x * y + y * x) / 2).density(t)
    difference = float(np.abs(closed.density(t) - engine).max())
    return Claim(
        "Section 3.3.2",
        "the law of alpha Z(alpha/2) has no closed-form or convenient analytical expression",
        f"a rational curve gives its density within {difference:.1e} of the engine",
        difference > 1e-6,
        "there is one: a rational parametrisation, TwoBatchLaw",
    )


def claims_over(numbers: Numbers) -> list[Claim]:
    """What both cases share, and the point mass at zero."""
    zeros = [float(np.mean(np.abs(s.simulated) < 1e-9)) for s in numbers.spectra]
    masses = [sum(mass for place, mass in s.exact.atoms if place == 0) for s in numbers.spectra]
    printed = 1 / (1 - numbers.aspect)
    shown = (
        f"masses at zero of the laws {masses[0]:.6f} and {masses[1]:.6f}, "
        f"of the matrices {zeros[0]:.6f} and {zeros[1]:.6f}"
    )
    return [
        *_claims(numbers),
        Claim(
            "caption of Figure 1b",
            "each distribution has a point mass of (1 - gamma)^(-1) at zero",
            f"{shown}; (1 - gamma)^(-1) is {printed:g}",
            bool(np.abs(np.array(masses) - printed).max() < 1e-9),
            "1 - 1/gamma",
        ),
        Claim(
            "Appendix C.1",
            "alpha Z(alpha/2) and W have the same point mass 1 - 1/gamma at zero",
            shown,
            bool(np.abs(np.array(masses + zeros) - numbers.claimed_atom).max() < 1e-9),
        ),
    ]


FIGURES = {
    "spectra-under": Figure(
        title="Figure 1a: spectra, underparameterized",
        caption="The limiting laws (lines) of αW and αZ(α/2), computed from p/n and α alone, and the eigenvalues "
        "of one Gaussian matrix (histograms).",
        full={"n": 4000, "p": 1000, "alpha": 0.4, "seed": 1},
        quick={"n": 1200, "p": 300},
        compute=compute,
        draw=draw,
        table=table,
        claims=claims_under,
    ),
    "spectra-over": Figure(
        title="Figure 1b: spectra, overparameterized",
        caption="As in Figure 1a, with more parameters than samples. Each law has a point mass of 1 - n/p at zero, "
        "which is not drawn.",
        full={"n": 1000, "p": 1500, "alpha": 0.2, "seed": 1},
        quick={"n": 300, "p": 450},
        compute=compute,
        draw=draw,
        table=table,
        claims=claims_over,
    ),
}
