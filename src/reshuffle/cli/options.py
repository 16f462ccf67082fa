"""The options that several commands share, and how their text is read."""

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from reshuffle.cli.complaints import InputError

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle._arrays import FloatArray

SCHEMES = {
    "reshuffling": "RandomReshuffling",
    "sample-reshuffling": "SampleReshuffling",
    "cyclic": "Cyclic",
    "shuffle-once": "ShuffleOnce",
    "with-replacement": "WithReplacement",
    "sample-with-replacement": "SampleWithReplacement",
    "sample-subsets": "SampleSubsets",
    "full-batch": "FullBatch",
}
"""What --scheme may be, and the class it stands for."""
_DRAWN = ("with-replacement", "sample-with-replacement")
"""Schemes that keep their name when there is one batch."""
_OF_A_SIZE = ("sample-with-replacement", "sample-subsets")
"""Schemes that know how many rows a step draws, not how many steps there are."""

MOST_EPOCHS = 2**53
EVERY_EPOCH = 1000
"""Up to here a curve has every epoch."""


def numbers(option: str, text: str, below: float) -> list[float]:
    """Numbers from 0 up to some limit, separated by commas.

    >>> numbers("--momentum", "0,0.5", 1.0)
    [0.0, 0.5]
    """
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = [math.nan]
    if not all(0 <= value < below for value in found):
        limit = f" and below {below:g}" if math.isfinite(below) else ""
        raise InputError(f"{option} must be numbers of at least 0{limit}, such as 0,0.5, but it is {text!r}.")
    return found


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
Epochs = Annotated[int, Parameter(help="How far the curves go.", converter=whole_number)]
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
        str,
        Parameter(
            help="Of the features: identity, powerlaw:EXP (k^-EXP for the k-th, times what makes their sum p), "
            "or a FILE."
        ),
    ] = "identity"
    seed: Annotated[int, Parameter(help="Of everything random.", converter=whole_number)] = 0
    data: Annotated[
        str | None,
        Parameter(help="Your own X and y: FILE.npz, .npy, .csv or .parquet, instead of --n and --p."),
    ] = None
    target: Annotated[
        str | None, Parameter(help="The column of --data that is y; by default the one named y, or the last.")
    ] = None
    intercept: Annotated[bool, Parameter(help="Add a column of ones to --data.", negative="")] = False
    standardize: Annotated[
        bool,
        Parameter(help="Give each column of --data mean 0 and standard deviation 1.", negative=""),
    ] = False


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """How the rows are cut into batches and what a visit does beside its step."""

    batch_size: Annotated[
        str | None, Parameter(help="Rows of a batch, separated by commas, instead of --batches.")
    ] = None
    drop_last: Annotated[
        bool, Parameter(help="Leave out the last batch if it is shorter (with --batch-size).", negative="")
    ] = False
    momentum: Annotated[float, Parameter(help="Of the heavy ball, as in torch's SGD.")] = 0.0
    penalty: Annotated[float, Parameter(help="The factor of an l2 penalty, torch's weight_decay.")] = 0.0


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
PLAIN = RecipeOptions()
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


@dataclass(frozen=True)
class Visiting:
    """A scheme under the name of the command line, with the number of visits of an epoch."""

    name: str
    batches: int
    scheme: "rs.Scheme"


def batch_counts(batches: str | None, default: str, n: int | None = None) -> list[int]:
    """The numbers of batches asked for, or else those of the default that n rows can have.

    >>> batch_counts(None, "1,2,4", 3), batch_counts("4", "1,2,4", 3)
    ([1, 2], [4])
    """
    if batches is not None:
        return whole_numbers("--batches", batches)
    return [count for count in whole_numbers("--batches", default) if n is None or count <= n]


def visitings(
    schemes: str, batches: str | None, default: str, recipe: RecipeOptions, n: int
) -> list[Visiting]:
    """Every scheme with every number or size of batches, for n rows; the full batch comes once."""
    if batches is not None and recipe.batch_size is not None:
        raise InputError("exactly one of --batches and --batch-size may be given, but both are.")
    if recipe.drop_last and recipe.batch_size is None:
        raise InputError("--drop-last needs --batch-size: a given number of batches has no shorter last one.")
    found: dict[tuple[str, int, str], Visiting] = {}
    for name in scheme_names(schemes):
        if recipe.batch_size is None:
            made = [_of_count(name, count, n) for count in batch_counts(batches, default, n)]
        else:
            sizes = whole_numbers("--batch-size", recipe.batch_size)
            made = [_of_size(name, size, recipe.drop_last, n) for size in sizes]
        for one in made:
            found.setdefault((one.name, one.batches, repr(one.scheme)), one)
    return list(found.values())


def _of_count(name: str, batches: int, n: int) -> Visiting:
    import reshuffle as rs

    if name == "full-batch" or (batches == 1 and name not in _DRAWN):
        return Visiting("full-batch", 1, rs.FullBatch())
    if name not in _OF_A_SIZE:
        return _checked(name, getattr(rs, SCHEMES[name])(batches=batches), n)
    if batches > n:
        # The library's own words for it.
        rs.WithReplacement(batches=batches).steps(n)
    made = _checked(name, getattr(rs, SCHEMES[name])(batch_size=-(-n // batches)), n)
    if made.batches != batches:
        raise InputError(
            f"--batches must be the number of visits that some batch size needs for {n} rows with {name}, "
            f"but it is {batches}; give --batch-size."
        )
    return made


def _of_size(name: str, size: int, drop_last: bool, n: int) -> Visiting:
    import reshuffle as rs

    if name == "full-batch" or (size == n and name not in _DRAWN):
        return Visiting("full-batch", 1, rs.FullBatch())
    return _checked(name, getattr(rs, SCHEMES[name])(batch_size=size, drop_last=drop_last), n)


def _checked(name: str, scheme: "rs.Scheme", n: int) -> Visiting:
    """Ask for the visits of an epoch: batches that do not fit the rows are refused before anything is done."""
    return Visiting(name, scheme.steps(n), scheme)


def exactly_one(**given: Any) -> None:
    """Fail unless exactly one of these options was given."""
    present = [name for name, value in given.items() if value is not None]
    if len(present) != 1:
        options = " and ".join(f"--{name}" for name in given)
        found = "neither is" if not present else "both are"
        raise InputError(f"exactly one of {options} must be given, but {found}.")
