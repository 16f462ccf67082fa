"""Appendix D.3: the risk of 1, 2 and 4 batches in the underparameterized setting of the paper."""

from reshuffle.paper import risk_curves
from reshuffle.paper.figure import Claim, Figure

CLAIMED_DIFFERENCE = 0.05


def claims(numbers: risk_curves.Numbers) -> list[Claim]:
    """What both appendices share, and the price of two batches in the limit."""
    full, two, _ = numbers.curves
    price, expected = two.limit - full.limit, two.expected_limit - full.expected_limit
    aspect = numbers.p / numbers.n
    formula = numbers.noise**2 * aspect**2 * numbers.alpha**2 / 16
    return [
        *risk_curves.claims(numbers),
        Claim(
            "Appendix D.3",
            "the limiting risk of two-batch gradient descent is greater by about 0.05",
            f"{two.limit:.6f} - {full.limit:.6f} = {price:.6f} on this draw, {expected:.6f} in the proportional "
            f"limit; leading order noise^2 gamma^2 alpha^2 / 16 = {formula:.6f}",
            abs(price - CLAIMED_DIFFERENCE) < 0.5 * CLAIMED_DIFFERENCE,
            "greater, by about 0.0007",
        ),
        Claim(
            "Section 3.1",
            "underparameterized, the limits of full batch and mini-batch differ",
            f"limiting risks {', '.join(f'{c.limit:.6f}' for c in numbers.curves)} for B = 1, 2, 4",
            all(abs(c.limit - full.limit) > 1e-6 for c in numbers.curves[1:]),
        ),
    ]


FIGURE = Figure(
    title="Appendix D.3: the risk of 1, 2 and 4 batches, underparameterized",
    caption="As in Appendix D.2, with more samples than parameters.",
    full={
        "n": 4000,
        "p": 1000,
        "noise": 1.0,
        "alpha": 0.4,
        "epochs": 100,
        "last": 10,
        "runs": 1000,
        "test_samples": 1000,
        "seed": 0,
    },
    quick={
        "n": 800,
        "p": 200,
        "noise": 1.0,
        "alpha": 0.4,
        "epochs": 100,
        "last": 10,
        "runs": 200,
        "test_samples": 200,
        "seed": 0,
    },
    compute=risk_curves.compute,
    draw=risk_curves.draw,
    table=risk_curves.table,
    claims=claims,
)
