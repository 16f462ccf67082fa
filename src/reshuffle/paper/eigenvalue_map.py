"""Section 3.3.1: with p fixed and n growing, Z shares the eigenvectors of Sigma and shrinks its eigenvalues."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import reshuffle as rs
from reshuffle import asymptotics, plotting
from reshuffle._arrays import FloatArray
from reshuffle.paper.figure import Claim, Columns, Figure, look

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

BATCHES = (1, 2, 3, 4, 8)


@dataclass(frozen=True, eq=False)
class Numbers:
    """Eigenvalues of Sigma and of Z.

    Attributes
    ----------
    alpha : float
    eigenvalues : (p,)
        Of Sigma.
    simulated : (batches, p)
        The diagonal of Z(alpha/B) in the basis of Sigma, at the largest n.
    exact, claimed : (batches, p)
        The limiting eigenvalues, and those that the printed coefficients give.
    sizes : (s,)
    distances : (batches, s)
        |Z - limit| for each n.
    modifiers : (s,)
        The largest difference of Pi_b and Pi_1, for four batches.
    """

    alpha: float
    eigenvalues: FloatArray
    simulated: FloatArray
    exact: FloatArray
    claimed: FloatArray
    sizes: FloatArray
    distances: FloatArray
    modifiers: FloatArray


def compute(p: int, alpha: float, sizes: tuple[int, ...], seed: int) -> Numbers:
    """Draw more and more rows of a Gaussian with a spread-out spectrum, alpha |Sigma| = 1."""
    eigenvalues = np.linspace(0.1, 1.0, p) / alpha
    exact = np.array([asymptotics.shrinkage(batches, alpha)(eigenvalues) for batches in BATCHES])
    distances = np.zeros((len(BATCHES), len(sizes)))
    modifiers = np.zeros(len(sizes))
    simulated = np.zeros_like(exact)
    for column, n in enumerate(sizes):
        problem = rs.gaussian(n, p, covariance=eigenvalues, seed=seed)
        for row, batches in enumerate(BATCHES):
            epoch = rs.Epoch(problem, rs.RandomReshuffling(batches=batches), alpha / batches)
            distances[row, column] = np.linalg.norm(epoch.Z - np.diag(exact[row]), 2)
            simulated[row] = np.diagonal(epoch.Z)
            if batches == 4:
                first = epoch.modifier(0)
                modifiers[column] = max(np.linalg.norm(epoch.modifier(b) - first, 2) for b in range(1, 4))
    claimed = np.array([printed(batches, alpha, eigenvalues) for batches in BATCHES])
    return Numbers(
        alpha, eigenvalues, simulated, exact, claimed, np.array(sizes, float), distances, modifiers
    )


def printed(batches: int, alpha: float, x: FloatArray) -> FloatArray:
    """Proposition fixedp_Z_limit as printed: coefficients (B-1)! (B-1-i)! / (i+1)!.

    >>> printed(2, 0.4, np.array([1.0]))
    array([0.9])
    """
    total = np.zeros_like(x)
    for i in range(1, batches):
        coefficient = math.factorial(batches - 1) * math.factorial(batches - 1 - i) / math.factorial(i + 1)
        total += (-1) ** (i + 1) * coefficient * (alpha * x / batches) ** i
    return x * (1 - total)


def draw(numbers: Numbers) -> "Picture":
    """The map of the eigenvalues, and how fast it is approached."""
    picture = plotting.figure(10.0, 4.2)
    left, right = picture.subplots(1, 2)
    order = np.argsort(numbers.eigenvalues)
    for row, batches in enumerate(BATCHES):
        style = look("reshuffling", batches)
        left.plot(numbers.eigenvalues[order], numbers.exact[row][order], linewidth=1.4, **style)
        left.plot(numbers.eigenvalues, numbers.simulated[row], "o", color=style["color"], markersize=3)
        right.loglog(numbers.sizes, numbers.distances[row], "o-", markersize=4, **style)
    four = BATCHES.index(4)
    left.plot(numbers.eigenvalues, numbers.claimed[four], "--", color="grey", label="4 batches, as printed")
    left.set_ylim(0, 1.05 * numbers.eigenvalues.max())
    plotting.plain(left, "eigenvalue of Σ", "eigenvalue of Z(α/B)")
    left.set_title(f"α = {numbers.alpha:g}; dots: n = {numbers.sizes[-1]:.0f} samples", fontsize=10)
    guide = 0.5 * numbers.distances[0, 0] * np.sqrt(numbers.sizes[0] / numbers.sizes)
    right.loglog(numbers.sizes, guide, ":", color="grey", label="slope −1/2")
    plotting.plain(right, "n", "|Z − limit|")
    left.legend(frameon=False, fontsize=8)
    right.legend(frameon=False, fontsize=8)
    return picture


def table(numbers: Numbers) -> Columns:
    """The eigenvalues, measured, exact and as printed."""
    p = len(numbers.eigenvalues)
    return {
        "batches": np.repeat(BATCHES, p),
        "sigma_eigenvalue": np.tile(numbers.eigenvalues, len(BATCHES)),
        "simulated": numbers.simulated.ravel(),
        "exact": numbers.exact.ravel(),
        "as_printed": numbers.claimed.ravel(),
    }


def claims(numbers: Numbers) -> list[Claim]:
    """What Section 3.3.1 says of Z."""
    x, alpha, n = numbers.eigenvalues, numbers.alpha, numbers.sizes[-1]
    row = {batches: k for k, batches in enumerate(BATCHES)}
    last = numbers.distances[:, -1]
    two = float(np.abs(numbers.exact[row[2]] - (x - alpha * x**2 / 4)).max())
    three = float(np.abs(numbers.exact[row[3]] - (x - alpha * x**2 / 3 + alpha**2 * x**3 / 27)).max())
    wrong = {b: float(np.abs(numbers.claimed[k] - numbers.exact[k]).max()) for b, k in row.items() if b > 1}
    slope = float(np.polyfit(np.log(numbers.sizes), np.log(numbers.distances.T), 1)[0].mean())
    together = float(np.polyfit(np.log(numbers.sizes), np.log(numbers.modifiers), 1)[0])
    bias = float(np.abs(numbers.exact[row[2]] - x).max())
    shrunk = bool((numbers.exact[1:] < x).all())
    rates = np.abs(1 - alpha * numbers.exact)
    return [
        Claim(
            "Section 3.3.1",
            "for B = 2, Z(alpha/2) -> Sigma - alpha Sigma^2 / 4; for B = 3, the limit is "
            "Sigma - alpha Sigma^2 / 3 + alpha^2 Sigma^3 / 27",
            f"equal to {max(two, three):.1e}; Z at n = {n:.0f} is within {last[row[2]]:.3f} and "
            f"{last[row[3]]:.3f}, falling like n^{slope:.2f}",
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
            f"eigenvalues of Z are {(numbers.exact[1:] / x).min():.3f} to {(numbers.exact[1:] / x).max():.3f} "
            "of those of W",
            not shrunk,
            "Z is shrunk compared to W",
        ),
        Claim(
            "Section 3.3.1",
            "Z is not a consistent estimator of Sigma, unlike W",
            f"at n = {n:.0f}, |W - Sigma| = {last[0]:.3f}; Z of two batches tends to a distance of {bias:.3f}",
            bias > 5 * float(last[0]),
        ),
        Claim(
            "Section 3.3.1",
            "the matrices Pi_b become independent of b",
            f"for B = 4 they differ by {numbers.modifiers[-1]:.1e} at n = {n:.0f}, falling like n^{together:.2f}",
            together < -0.35,
        ),
        Claim(
            "Section 3.3.1, after Proposition fixedp_error_limit",
            "mini-batch descent converges more slowly, due to the shrinkage",
            f"for alpha |Sigma| <= 1 an epoch multiplies modes by {rates[0].min():.3f} to {rates[0].max():.3f} "
            f"(full batch), {rates[row[8]].min():.3f} to {rates[row[8]].max():.3f} (8 batches)",
            bool((rates[1:] >= rates[0] - 1e-12).all()),
        ),
    ]


FIGURES = {
    "shrinkage": Figure(
        title="Section 3.3.1: shrinkage in fixed dimension",
        caption="Left: the limiting map from eigenvalues of Σ to those of Z(α/B) (lines), one data set (dots). "
        "Right: the distance of Z from its limit falls like 1/√n.",
        full={"p": 12, "alpha": 0.4, "sizes": (1000, 4000, 16000, 64000, 256000), "seed": 0},
        quick={"sizes": (1000, 4000, 16000, 64000)},
        compute=compute,
        draw=draw,
        table=table,
        claims=claims,
    ),
}
