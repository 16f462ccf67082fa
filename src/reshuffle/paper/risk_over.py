"""Appendix D.2: the risk of 1, 2 and 4 batches in the overparameterized setting of the paper."""

import numpy as np

from reshuffle.paper import risk_curves
from reshuffle.paper.figure import Claim, Figure


def claims(numbers: risk_curves.Numbers) -> list[Claim]:
    """What both appendices share, and where the difference shows."""
    full, *others = numbers.curves
    shares = []
    for curve in others:
        gap = np.abs(curve.exact.total - full.exact.total)
        shares.append((gap.max(), int(np.argmax(gap)), gap[-1]))
    shown = "; ".join(
        f"B = {c.batches}: {top:.4f} at epoch {at}, {end:.1e} at epoch {numbers.epochs}"
        for c, (top, at, end) in zip(others, shares, strict=True)
    )
    return [
        *risk_curves.claims(numbers),
        Claim(
            "Appendix D.2",
            "the difference is slight, but visually apparent during the middle of training",
            f"largest difference to full batch {shown}",
            all(0 < at < numbers.epochs and top > 3 * end for top, at, end in shares),
        ),
        Claim(
            "Section 3.1",
            "overparameterized, the limits of full batch and mini-batch are the same",
            f"limiting risks {', '.join(f'{c.limit:.9f}' for c in numbers.curves)} for B = 1, 2, 4",
            max(abs(c.limit - full.limit) for c in others) < 1e-6 * full.limit,
        ),
    ]


FIGURE = Figure(
    title="Appendix D.2: the risk of 1, 2 and 4 batches, overparameterized",
    caption="Step α/B. Solid: the exact risk of the mean iterate on this draw of X and β*. Dotted: the limit for "
    "data of this shape, from p/n alone; one draw of β* is off by about 1/√p, alike for all batches. Bands: the "
    "mean test error of real runs on this draw, two standard errors wide. Right: the risk above that of full "
    "batch, in which the draw cancels.",
    full={
        "n": 1000,
        "p": 1500,
        "noise": 0.5,
        "alpha": 0.2,
        "epochs": 300,
        "last": 50,
        "runs": 1000,
        "test_samples": 1000,
        "seed": 0,
    },
    quick={
        "n": 200,
        "p": 300,
        "noise": 0.5,
        "alpha": 0.2,
        "epochs": 300,
        "last": 50,
        "runs": 200,
        "test_samples": 200,
        "seed": 0,
    },
    compute=risk_curves.compute,
    draw=risk_curves.draw,
    table=risk_curves.table,
    claims=claims,
)
