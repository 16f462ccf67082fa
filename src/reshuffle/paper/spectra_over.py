"""Figure 1b: the spectra in the overparameterized case."""

import numpy as np

from reshuffle.paper import spectra
from reshuffle.paper.figure import Claim, Figure


def claims(numbers: spectra.Numbers) -> list[Claim]:
    """What both cases share, and the point mass at zero."""
    zeros = [float(np.mean(np.abs(s.simulated) < 1e-9)) for s in numbers.spectra]
    masses = [sum(mass for place, mass in s.exact.atoms if place == 0) for s in numbers.spectra]
    printed = 1 / (1 - numbers.aspect)
    shown = (
        f"masses at zero of the laws {masses[0]:.6f} and {masses[1]:.6f}, "
        f"of the matrices {zeros[0]:.6f} and {zeros[1]:.6f}"
    )
    return [
        *spectra.claims(numbers),
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


FIGURE = Figure(
    title="Figure 1b: spectra, overparameterized",
    caption="As in Figure 1a, with more parameters than samples. Each law has a point mass of 1 - n/p at zero, "
    "which is not drawn.",
    full={"n": 1000, "p": 1500, "alpha": 0.2, "seed": 1},
    quick={"n": 300, "p": 450, "alpha": 0.2, "seed": 1},
    compute=spectra.compute,
    draw=spectra.draw,
    table=spectra.table,
    claims=claims,
)
