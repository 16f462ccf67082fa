"""Figure 1a: the spectra in the underparameterized case."""

import numpy as np

from reshuffle import asymptotics, free
from reshuffle.paper import spectra
from reshuffle.paper.figure import Claim, Figure


def claims(numbers: spectra.Numbers) -> list[Claim]:
    """What both cases share, and two slips around the formula of Z."""
    return [*spectra.claims(numbers), _printed_polynomial(numbers), _closed_form(numbers)]


def _printed_polynomial(numbers: spectra.Numbers) -> Claim:
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


def _closed_form(numbers: spectra.Numbers) -> Claim:
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


FIGURE = Figure(
    title="Figure 1a: spectra, underparameterized",
    caption="The limiting laws (lines) of αW and αZ(α/2), computed from p/n and α alone, and the eigenvalues of "
    "one Gaussian matrix (histograms).",
    full={"n": 4000, "p": 1000, "alpha": 0.4, "seed": 1},
    quick={"n": 1200, "p": 300, "alpha": 0.4, "seed": 1},
    compute=spectra.compute,
    draw=spectra.draw,
    table=spectra.table,
    claims=claims,
)
