"""The options that several commands share, and how their text is read."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from reshuffle.cli.errors import InputError

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle.arrays import FloatArray

SCHEMES: dict[str, Callable[[Any, int], "rs.Scheme"]] = {
    "reshuffling": lambda rs, batches: rs.RandomReshuffling(batches) if batches > 1 else rs.FullBatch(),
    "sample-reshuffling": lambda rs, batches: (
        rs.SampleReshuffling(batches) if batches > 1 else rs.FullBatch()
    ),
    "cyclic": lambda rs, batches: rs.Cyclic(batches) if batches > 1 else rs.FullBatch(),
    "shuffle-once": lambda rs, batches: rs.ShuffleOnce(batches) if batches > 1 else rs.FullBatch(),
    "with-replacement": lambda rs, batches: rs.WithReplacement(batches),
    "full-batch": lambda rs, batches: rs.FullBatch(),
}
"""How --scheme makes a scheme from the package and a number of batches: one line each."""


MOST_EPOCHS = 2**53
EVERY_EPOCH = 1000
"""Up to here a curve has every epoch."""


def whole_number(_: Any, tokens: Any) -> int:
    """A whole number from what was typed; fractions are refused, not rounded."""
    text = tokens[0].value
    if not re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII):
        raise ValueError(f"it must be a whole number, but it is {text}.")
    return int(text)


Batches = Annotated[str, Parameter(help="Numbers of batches B, separated by commas.")]
Schemes = Annotated[str, Parameter(help=f"How rows are visited, separated by commas: {', '.join(SCHEMES)}.")]
Alpha = Annotated[
    float | None, Parameter(help="The full-batch step; each visit takes alpha / B (linear scaling).")
]
Epochs = Annotated[
    int, Parameter(help="How far the curves go; best epoch and limit look at all.", converter=whole_number)
]
Step = Annotated[float | None, Parameter(help="The step of each visit, instead of --alpha.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ProblemOptions:
    """The least-squares problem: drawn at random, or read from a file."""

    n: Annotated[int | None, Parameter(help="Samples to draw.", converter=whole_number)] = None
    p: Annotated[int | None, Parameter(help="Features of each.", converter=whole_number)] = None
    noise: Annotated[float | None, Parameter(help="Standard deviation of the label noise; 1 if drawn.")] = (
        None
    )
    covariance: Annotated[
        str, Parameter(help="Of the features: identity, powerlaw:EXP (k^-EXP for the k-th) or a FILE.")
    ] = "identity"
    seed: Annotated[int, Parameter(help="Of everything random.", converter=whole_number)] = 0
    data: Annotated[
        str | None,
        Parameter(help="Your own X and y: FILE.npz, .npy, .csv or .parquet, instead of --n and --p."),
    ] = None
    target: Annotated[
        str | None, Parameter(help="The column of --data that is y; by default the one named y, or the last.")
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where the answer goes beside the terminal."""

    plot: Annotated[str | None, Parameter(help="Draw to FILE.png, .svg or .pdf.")] = None
    csv: Annotated[
        str | None,
        Parameter(
            help="Write the curves to FILE, or - for standard output alone.", allow_leading_hyphen=True
        ),
    ] = None
    json: Annotated[
        str | None,
        Parameter(
            help="Write everything to FILE, or - for standard output alone.", allow_leading_hyphen=True
        ),
    ] = None


NO_PROBLEM = ProblemOptions()
TERMINAL = OutputOptions()


def whole_numbers(option: str, text: str) -> list[int]:
    """Whole numbers of at least one, separated by commas.

    >>> whole_numbers("--batches", "1,2,4")
    [1, 2, 4]
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 0 < len(part) < 10 and int(part) > 0 for part in parts):
        raise InputError(f"{option} must be whole numbers of at least 1, such as 1,2,4, but it is {text!r}.")
    return list(dict.fromkeys(int(part) for part in parts))


def epochs_up_to(last: int) -> "FloatArray":
    """Every epoch up to `last`, or a thousand of them spaced logarithmically.

    >>> epochs_up_to(3)
    array([0., 1., 2., 3.])
    """
    import numpy as np

    if not 0 <= last <= MOST_EPOCHS:
        raise InputError(f"--epochs must be a whole number between 0 and 2^53, but it is {last}.")
    if last <= EVERY_EPOCH:
        return np.arange(last + 1, dtype=np.float64)
    return np.concatenate([[0.0], np.unique(np.geomspace(1, last, EVERY_EPOCH).round())])


def scheme_names(text: str) -> list[str]:
    """Names of schemes, separated by commas.

    >>> scheme_names("reshuffling, with-replacement")
    ['reshuffling', 'with-replacement']
    """
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in SCHEMES:
            raise InputError(f"--scheme must be among {', '.join(SCHEMES)}, but it is {name!r}.")
    return list(dict.fromkeys(names))


def recipes(schemes: str, batches: str) -> list[tuple[str, int, "rs.Scheme"]]:
    """Every scheme with every number of batches: its name, B and itself; full batch comes once."""
    import reshuffle as rs

    found: dict[tuple[str, int], rs.Scheme] = {}
    for name in scheme_names(schemes):
        for count in whole_numbers("--batches", batches):
            made = SCHEMES[name](rs, count)
            key = ("full-batch", 1) if isinstance(made, rs.FullBatch) else (name, count)
            found.setdefault(key, made)
    return [(name, count, scheme) for (name, count), scheme in found.items()]


def exactly_one(**given: Any) -> None:
    """Fail unless exactly one of these options was given."""
    present = [name for name, value in given.items() if value is not None]
    if len(present) != 1:
        options = " and ".join(f"--{name}" for name in given)
        found = "neither is" if not present else "both are"
        raise InputError(f"exactly one of {options} must be given, but {found}.")
