"""The figures of the paper and what it says in words: functions that return a picture, a table and claims.

`make reproduce`, or `python -m paper --out out`, computes all of them and writes a report. Only public names of
`reshuffle` are used here.
"""

from paper import dynamics, risk, spectra
from paper.figure import Figure

_ORDER = (
    "spectra-under", "spectra-over", "divergence", "risk-over", "risk-under", "linear-scaling", "limit-vectors",
    "two-batch", "cross-term", "run-risk", "shrinkage", "fixed-dimension", "early-stopping",
)  # fmt: skip
_ALL = {**dynamics.FIGURES, **risk.FIGURES, **spectra.FIGURES}
FIGURES: dict[str, Figure] = {name: _ALL[name] for name in _ORDER}
"""By name, in the order of the report: the figures of the paper, then what it says in words."""
