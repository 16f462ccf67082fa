"""The figures of the paper and what it says in words: numbers first, pictures second.

A figure is one file with `FIGURES`, and one line here.
"""

from importlib import import_module

from reshuffle.paper.figure import Figure

_HOMES = {
    "spectra-under": "limiting_spectra",
    "spectra-over": "limiting_spectra",
    "divergence": "divergence",
    "risk-over": "risk_curves",
    "risk-under": "risk_curves",
    "linear-scaling": "linear_scaling",
    "limit-vectors": "limit_vectors",
    "two-batch": "two_batch",
    "cross-term": "simulated_risk",
    "run-risk": "simulated_risk",
    "shrinkage": "eigenvalue_map",
    "fixed-dimension": "alike_batches",
    "early-stopping": "early_stopping",
}
NAMES = tuple(_HOMES)
"""The figures, in the order of the report: those of the paper, then what it says in words."""


def load(name: str) -> Figure:
    """The figure of that name; its module is imported only now.

    >>> load("risk-over").title
    'Appendix D.2: the risk of 1, 2 and 4 batches, overparameterized'
    """
    if name not in _HOMES:
        raise ValueError(f"there is no figure {name!r}; there are {', '.join(NAMES)}.")
    figures: dict[str, Figure] = import_module(f"reshuffle.paper.{_HOMES[name]}").FIGURES
    return figures[name]
