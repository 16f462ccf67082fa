"""Section 3.3: spectra of Z, in proportion (Figure 1) and in fixed dimension (the shrinkage of eigenvalues)."""

import math

import numpy as np
import numpy.typing as npt

import reshuffle as rs
from paper.figure import Claim, Figure, Result, look, scheme
from reshuffle import asymptotics, free, plotting


def spectra(n: int, p: int, alpha: float, seed: int) -> Result:
    """The limiting laws of alpha W and alpha Z(alpha/2), from the shape alone, beside one Gaussian matrix."""
    problem, aspect = rs.gaussian(n, p, seed=seed), p / n
    picture = plotting.figure(6.8, 4.2)
    ax = picture.add_subplot()
    laws, matrices, distances = [], [], []
    for batches, name in ((1, "αW (full batch)"), (2, "αZ(α/2) (two batches)")):
        decay_rates = rs.Epoch(problem, scheme("reshuffling", batches), alpha / batches).decay_rates
        eigenvalues = np.sort(np.concatenate([decay_rates, np.zeros(p - len(decay_rates))]))
        law = asymptotics.batch_spectrum(aspect, alpha, batches)
        laws.append(law)
        matrices.append(eigenvalues)
        distances.append(_distance(eigenvalues, law))
        colour = plotting.scheme_colour("reshuffling", batches)
        plotting.spectrum_histogram(eigenvalues, label=f"{name}, one matrix", colour=colour, ax=ax)
        plotting.spectrum_curve(law, label=f"{name}, limit", colour=colour, ax=ax)
    points = [plotting.spectrum_points(law) for law in laws]
    # The histogram of few eigenvalues may tower over the law; its top is not the message.
    ax.set_ylim(0, 1.25 * plotting.spectrum_view(points).top)
    ax.legend(frameon=False, fontsize=8)
    ax.set_title(f"n = {n}, p = {p}, α = {alpha:g}", fontsize=10)
    table = {
        "batches": np.repeat((1, 2), [len(t) for t, _ in points]),
        "eigenvalue": np.concatenate([t for t, _ in points]),
        "density": np.concatenate([density for _, density in points]),
    }
    ends = [f"[{low:.6f}, {high:.6f}]" for law in laws for low, high in law.support]
    edges = alpha * (1 + np.array([-1, 1]) * np.sqrt(aspect)) ** 2
    # Quantiles of the part that is not the atom at zero.
    atom = max(0.0, 1 - n / p)
    full, two = (np.asarray(law.quantile(atom + (1 - atom) * np.arange(1, 20) / 20)) for law in laws)
    ratio, means = two / full, [float(law.moments(1)[0]) for law in laws]
    claims = [
        Claim(
            "Section 3.3.2",
            "alpha W tends to the Marchenko-Pastur law on [x_-, x_+], x_± = alpha (1 ± sqrt(gamma))^2",
            f"printed edges [{edges[0]:.6f}, {edges[1]:.6f}], computed {ends[0]}; the matrix's distribution "
            f"function is within {distances[0]:.4f} of the law",
            bool(np.abs(np.array(laws[0].support[0]) - edges).max() < 1e-9 and distances[0] < 3 / p**0.5),
        ),
        Claim(
            "Section 3.3.2, Figure 1",
            "simulations with moderately-sized matrices adhere closely to the limiting laws",
            f"distribution functions differ by at most {max(distances):.4f} at p = {p}; 1/p is {1 / p:.4f}",
            max(distances) < 5 / p,
        ),
        Claim(
            "Section 3.3.2, Figure 1",
            "batching results in a non-linear shrinkage of the spectrum of alpha W",
            f"the mean falls from {means[0]:.6f} to {means[1]:.6f}; quantiles of alpha Z are {ratio.max():.3f} "
            f"(low ones) to {ratio.min():.3f} (high ones) of those of alpha W; support {ends[1]} against {ends[0]}",
            bool(means[1] < means[0] and ratio[-1] < 1 and np.ptp(ratio) > 1e-3),
        ),
    ]
    if n >= p:
        return Result(picture, table, [*claims, _printed_polynomial(alpha), _closed_form(aspect, alpha)])
    zeros = [float(np.mean(np.abs(eigenvalues) < 1e-9)) for eigenvalues in matrices]
    masses = [sum(mass for place, mass in law.atoms if place == 0) for law in laws]
    printed = 1 / (1 - aspect)
    shown = (
        f"masses at zero of the laws {masses[0]:.6f} and {masses[1]:.6f}, "
        f"of the matrices {zeros[0]:.6f} and {zeros[1]:.6f}"
    )
    claims += [
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
            bool(np.abs(np.array(masses + zeros) - atom).max() < 1e-9),
        ),
    ]
    return Result(picture, table, claims)


def _distance(eigenvalues: npt.NDArray[np.float64], law: free.Law) -> float:
    """Kolmogorov's distance, of the eigenvalues away from zero: the atom is compared by itself."""
    moving = eigenvalues[np.abs(eigenvalues) > 1e-9 * np.abs(eigenvalues).max()]
    ranks = (len(eigenvalues) - len(moving) + np.arange(len(moving) + 1)) / len(eigenvalues)
    cdf = np.asarray(law.cdf(moving))
    return float(np.maximum(np.abs(cdf - ranks[1:]), np.abs(cdf - ranks[:-1])).max())


def _printed_polynomial(alpha: float) -> Claim:
    """Equation Z_noncomm_poly as printed has the product W_2 W_1 twice: that is not even symmetric."""
    X = np.random.default_rng(0).standard_normal((8, 4))
    one, two = (X[k : k + 4].T @ X[k : k + 4] / 4 for k in (0, 4))
    printed = alpha / 2 * (one + two) - alpha**2 / 8 * (two @ one + two @ one)
    skew = float(np.abs(printed - printed.T).max())
    return Claim(
        "equation Z_noncomm_poly",
        "alpha Z(alpha/2) = alpha/2 (W_1 + W_2) - alpha^2/8 (W_2 W_1 + W_2 W_1)",
        f"as printed it differs from its transpose by {skew:.3g} on an 8 x 4 example, but Z is symmetric",
        skew < 1e-12,
        "W_2 W_1 + W_1 W_2",
    )


def _closed_form(aspect: float, alpha: float) -> Claim:
    """The two-batch law on a rational curve, beside the engine that solves for subordination functions."""
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


BATCHES = (1, 2, 3, 4, 8)


def shrinkage(p: int, alpha: float, sizes: list[int], seed: int) -> Result:
    """Z(alpha/B) of more and more Gaussian rows, alpha |Sigma| = 1, beside its limit and the printed one."""
    x = np.linspace(0.1, 1.0, p) / alpha
    exact = np.array([asymptotics.shrinkage(batches, alpha)(x) for batches in BATCHES])
    printed = np.array([printed_shrinkage(batches, alpha, x) for batches in BATCHES])
    distances, modifiers = np.zeros((len(BATCHES), len(sizes))), np.zeros(len(sizes))
    simulated = np.zeros_like(exact)
    for column, n in enumerate(sizes):
        problem = rs.gaussian(n, p, covariance=x, seed=seed)
        for row, batches in enumerate(BATCHES):
            epoch = rs.Epoch(problem, rs.RandomReshuffling(batches=batches), alpha / batches)
            distances[row, column] = np.linalg.norm(epoch.Z - np.diag(exact[row]), 2)
            simulated[row] = np.diagonal(epoch.Z)
            if batches == 4:
                first = epoch.modifier(0)
                modifiers[column] = max(np.linalg.norm(epoch.modifier(b) - first, 2) for b in range(1, 4))
    picture = plotting.figure(10.0, 4.2)
    left, right = picture.subplots(1, 2)
    for row, batches in enumerate(BATCHES):
        style = look("reshuffling", batches)
        left.plot(x, exact[row], linewidth=1.4, **style)
        left.plot(x, simulated[row], "o", color=style["color"], markersize=3)
        right.loglog(sizes, distances[row], "o-", markersize=4, **style)
    left.plot(x, printed[BATCHES.index(4)], "--", color="grey", label="4 batches, as printed")
    left.set_ylim(0, 1.05 * x.max())
    left.set_title(f"α = {alpha:g}; dots: n = {sizes[-1]} samples", fontsize=10)
    guide = 0.5 * distances[0, 0] * np.sqrt(sizes[0] / np.array(sizes))
    right.loglog(sizes, guide, ":", color="grey", label="slope −1/2")
    plotting.plain(left, "eigenvalue of Σ", "eigenvalue of Z(α/B)").legend(frameon=False, fontsize=8)
    plotting.plain(right, "n", "|Z − limit|").legend(frameon=False, fontsize=8)
    table = {
        "batches": np.repeat(BATCHES, p),
        "sigma_eigenvalue": np.tile(x, len(BATCHES)),
        "simulated": simulated.ravel(),
        "exact": exact.ravel(),
        "as_printed": printed.ravel(),
    }
    row_of, last, n = {batches: row for row, batches in enumerate(BATCHES)}, distances[:, -1], sizes[-1]
    two = float(np.abs(exact[row_of[2]] - (x - alpha * x**2 / 4)).max())
    three = float(np.abs(exact[row_of[3]] - (x - alpha * x**2 / 3 + alpha**2 * x**3 / 27)).max())
    wrong = {b: float(np.abs(printed[row] - exact[row]).max()) for b, row in row_of.items() if b > 1}
    slope = float(np.polyfit(np.log(sizes), np.log(distances.T), 1)[0].mean())
    together = float(np.polyfit(np.log(sizes), np.log(modifiers), 1)[0])
    bias, shares = float(np.abs(exact[row_of[2]] - x).max()), exact[1:] / x
    rates = np.abs(1 - alpha * exact)
    claims = [
        Claim(
            "Section 3.3.1",
            "for B = 2, Z(alpha/2) -> Sigma - alpha Sigma^2 / 4; for B = 3, the limit is "
            "Sigma - alpha Sigma^2 / 3 + alpha^2 Sigma^3 / 27",
            f"equal to {max(two, three):.1e}; Z at n = {n} is within {last[row_of[2]]:.3f} and "
            f"{last[row_of[3]]:.3f}, falling like n^{slope:.2f}",
            max(two, three) < 1e-12 and abs(slope + 0.5) < 0.15,
        ),
        Claim(
            "Proposition fixedp_Z_limit",
            "the coefficient of the i-th power is (B-1)! (B-1-i)! / (i+1)!",
            "; ".join(f"B = {b}: off by {value:.2g}" for b, value in wrong.items()),
            max(wrong.values()) < 1e-9,
            "binom(B-1, i) / (i+1): Z -> (I - (I - alpha Sigma / B)^B) / alpha",
        ),
        Claim(
            "Section 3.3.1, after the B = 2 example",
            "the limiting spectrum of W is shrunk compared to Z",
            f"eigenvalues of Z are {shares.min():.3f} to {shares.max():.3f} of those of W",
            not (shares < 1).all(),
            "Z is shrunk compared to W",
        ),
        Claim(
            "Section 3.3.1",
            "Z is not a consistent estimator of Sigma, unlike W",
            f"at n = {n}, |W - Sigma| = {last[0]:.3f}; Z of two batches tends to a distance of {bias:.3f}",
            bias > 5 * float(last[0]),
        ),
        Claim(
            "Section 3.3.1",
            "the matrices Pi_b become independent of b",
            f"for B = 4 they differ by {modifiers[-1]:.1e} at n = {n}, falling like n^{together:.2f}",
            together < -0.35,
        ),
        Claim(
            "Section 3.3.1, after Proposition fixedp_error_limit",
            "mini-batch descent converges more slowly, due to the shrinkage",
            f"for alpha |Sigma| <= 1 an epoch multiplies modes by {rates[0].min():.3f} to {rates[0].max():.3f} "
            f"(full batch), {rates[row_of[8]].min():.3f} to {rates[row_of[8]].max():.3f} (8 batches)",
            bool((rates[1:] >= rates[0] - 1e-12).all()),
        ),
    ]
    return Result(picture, table, claims)


def printed_shrinkage(batches: int, alpha: float, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Proposition fixedp_Z_limit as printed: coefficients (B-1)! (B-1-i)! / (i+1)!.

    >>> printed_shrinkage(2, 0.4, np.array([1.0]))
    array([0.9])
    """
    total = np.zeros_like(x)
    for i in range(1, batches):
        coefficient = math.factorial(batches - 1) * math.factorial(batches - 1 - i) / math.factorial(i + 1)
        total += (-1) ** (i + 1) * coefficient * (alpha * x / batches) ** i
    return x * (1 - total)


FIGURES = {
    "spectra-under": Figure(
        spectra,
        "Figure 1a: spectra, underparameterized",
        "The limiting laws (lines) of αW and αZ(α/2), computed from p/n and α alone, and the eigenvalues "
        "of one Gaussian matrix (histograms).",
        full={"n": 4000, "p": 1000, "alpha": 0.4, "seed": 1},
        quick={"n": 1200, "p": 300},
    ),
    "spectra-over": Figure(
        spectra,
        "Figure 1b: spectra, overparameterized",
        "As in Figure 1a, with more parameters than samples. Each law has a point mass of 1 - n/p at zero, "
        "which is not drawn.",
        full={"n": 1000, "p": 1500, "alpha": 0.2, "seed": 1},
        quick={"n": 300, "p": 450},
    ),
    "shrinkage": Figure(
        shrinkage,
        "Section 3.3.1: shrinkage in fixed dimension",
        "Left: the limiting map from eigenvalues of Σ to those of Z(α/B) (lines), one data set (dots). "
        "Right: the distance of Z from its limit falls like 1/√n.",
        full={"p": 12, "alpha": 0.4, "sizes": (1000, 4000, 16000, 64000, 256000), "seed": 0},
        quick={"sizes": (1000, 4000, 16000, 64000)},
    ),
}
