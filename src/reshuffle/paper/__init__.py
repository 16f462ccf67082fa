"""The figures of the paper and what it says in words, one a file: numbers first, pictures second."""

from importlib import import_module

from reshuffle.paper.figure import Figure

NAMES = (
    "spectra-under",
    "spectra-over",
    "divergence",
    "risk-over",
    "risk-under",
    "linear-scaling",
    "limit-vectors",
    "two-batch",
    "cross-term",
    "run-risk",
    "shrinkage",
    "fixed-dimension",
    "early-stopping",
)
"""The figures, in the order of the report: those of the paper, then what it says in words."""


def load(name: str) -> Figure:
    """The figure of that name; its module is imported only now.

    >>> load("risk-over").title
    'Appendix D.2: the risk of 1, 2 and 4 batches, overparameterized'
    """
    if name not in NAMES:
        raise ValueError(f"there is no figure {name!r}; there are {', '.join(NAMES)}.")
    module = import_module(f"reshuffle.paper.{name.replace('-', '_')}")
    found: Figure = module.FIGURE
    return found
