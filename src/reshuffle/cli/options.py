"""The options that several commands share, and how their text is read."""

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from reshuffle.errors import ArgumentError

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
"""Values of --scheme, and the class of each."""
_DRAWN = ("with-replacement", "sample-with-replacement")
"""Schemes that keep their name when there is one batch."""
_OF_A_SIZE = ("sample-with-replacement", "sample-subsets")
"""Schemes that know how many rows a step draws, not how many steps there are."""
MOST_EPOCHS = 2**53
EVERY_EPOCH = 1000
"""Up to here a curve has every epoch."""


def whole_number(_: Any, tokens: Any) -> int:
    """A whole number from what was typed; fractions are refused, not rounded."""
    text = tokens[0].value
    if not re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII):
        raise ValueError(f"it must be a whole number, but it is {text}.")
    return int(text)


DATA = Parameter(group=Group("Data", sort_key=1))
RECIPE = Parameter(group=Group("Recipe", sort_key=2))
ACCURACY = Parameter(group=Group("Accuracy and checks", sort_key=3))
OUTPUT = Parameter(group=Group("Output", sort_key=9))
WHOLE = Parameter(converter=whole_number)
FLAG = Parameter(negative="", show_default=False)
"""Options without a value, or that may come several times."""
HYPHEN = Parameter(allow_leading_hyphen=True)
"""Values that may begin with a hyphen: standard input, negative numbers."""


def also(short: str) -> Parameter:
    """A short spelling of an option."""
    return Parameter(alias=short)


def said(text: str) -> Parameter:
    """The help of an option that several commands have; others have theirs in the docstring of the command."""
    return Parameter(help=text)


BatchSize = Annotated[str | None, RECIPE, said("Rows of a batch, separated by commas, instead of --batches.")]
DropLast = Annotated[
    bool, RECIPE, FLAG, said("Leave out the last batch if it is shorter (with --batch-size).")
]
Schemes = Annotated[
    str, RECIPE, also("-s"), said(f"How rows are visited, separated by commas: {', '.join(SCHEMES)}.")
]
Alpha = Annotated[
    float | None,
    RECIPE,
    also("-a"),
    said("The full-batch step; each visit takes alpha / B (linear scaling)."),
]
Epochs = Annotated[int, RECIPE, WHOLE, also("-e"), said("How far the curves go.")]
Drop = Annotated[tuple[str, ...], DATA, FLAG, said("A column of --data to leave out; once for each.")]
OneHot = Annotated[
    tuple[str, ...], DATA, FLAG, said("A column of categories: a feature of 0 and 1 for each of them.")
]
Fill = Annotated[Literal["median"] | None, DATA, said("What missing values of features are replaced by.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ProblemOptions:
    """The least-squares problem: drawn at random, or read from a file.

    :param data: Your own X and y: FILE.csv, .tsv, .csv.gz, .parquet, .npz or .npy, or - for standard input.
    :param n: Samples to draw.
    :param p: Features of each.
    :param noise: Standard deviation of the label noise; 1 if drawn.
    :param covariance: Sigma of the features: identity, powerlaw:EXP (k^-EXP, scaled to sum p), or FILE.
    :param seed: Seed of all random numbers.
    :param target: The column of --data that is y; by default the one named y, or the last.
    :param intercept: Add a column of ones to --data.
    :param standardize: Give each column of --data mean 0 and standard deviation 1.
    """

    data: Annotated[str | None, DATA, HYPHEN, also("-d")] = None
    n: Annotated[int | None, DATA, WHOLE, also("-n")] = None
    p: Annotated[int | None, DATA, WHOLE, also("-p")] = None
    noise: Annotated[float | None, DATA] = None
    covariance: Annotated[str, DATA] = "identity"
    seed: Annotated[int, DATA, WHOLE] = 0
    target: Annotated[str | None, DATA, also("-t")] = None
    intercept: Annotated[bool, DATA, FLAG] = False
    standardize: Annotated[bool, DATA, FLAG] = False
    drop: Drop = ()
    one_hot: OneHot = ()
    fill: Fill = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """Batches, momentum and weight decay.

    :param momentum: Heavy-ball momentum, as in torch's SGD.
    :param weight_decay: The factor of an l2 penalty, as in torch's SGD.
    """

    batch_size: BatchSize = None
    drop_last: DropLast = False
    momentum: Annotated[float, RECIPE] = 0.0
    weight_decay: Annotated[float, RECIPE] = 0.0


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Files that get the answer.

    :param plot: Draw to FILE.png, .svg or .pdf.
    :param csv: Write the table to FILE, or - for standard output alone.
    :param json: Write everything to FILE, or - for standard output alone.
    """

    plot: Annotated[str | None, OUTPUT, also("-o")] = None
    csv: Annotated[str | None, OUTPUT, HYPHEN] = None
    json: Annotated[str | None, OUTPUT, HYPHEN] = None


NO_PROBLEM, PLAIN, TERMINAL = ProblemOptions(), RecipeOptions(), OutputOptions()


def numbers(argument: str, text: str, below: float = math.inf) -> list[float]:
    """Numbers from 0 up to some limit, separated by commas.

    >>> numbers("momentum", "0,0.5", 1.0)
    [0.0, 0.5]
    """
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = [math.nan]
    if not all(0 <= value < below for value in found):
        limit = f" and below {below:g}" if math.isfinite(below) else ""
        raise ArgumentError(argument, f"be numbers of at least 0{limit}, such as 0,0.5", f"it is {text!r}")
    return found


def whole_numbers(argument: str, text: str) -> list[int]:
    """Whole numbers of at least one, separated by commas.

    >>> whole_numbers("batches", "1,2,4")
    [1, 2, 4]
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 0 < len(part) < 10 and int(part) > 0 for part in parts):
        raise ArgumentError(argument, "be whole numbers of at least 1, such as 1,2,4", f"it is {text!r}")
    return list(dict.fromkeys(int(part) for part in parts))


def at_least(argument: str, value: int, low: int, high: int | None = None) -> int:
    """A whole number within its bounds."""
    if value < low or (high is not None and value > high):
        most = "2^53" if high == MOST_EPOCHS else high
        allowed = f"of at least {low}" if high is None else f"between {low} and {most}"
        raise ArgumentError(argument, f"be a whole number {allowed}", f"it is {value}")
    return value


def words(argument: str, text: str, known: Any) -> list[str]:
    """Words out of some, separated by commas.

    >>> words("scheme", "reshuffling, cyclic", SCHEMES)
    ['reshuffling', 'cyclic']
    """
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in known:
            raise ArgumentError(argument, f"be among {', '.join(known)}", f"it is {name!r}")
    return list(dict.fromkeys(names))


def one_of(*, needed: bool = False, **given: Any) -> None:
    """Refuse two options that say the same, and none of them where one is needed."""
    present = [name for name, value in given.items() if value is not None]
    if len(present) > 1 or (needed and not present):
        names = f"{'exactly' if needed else 'at most'} one of {' and '.join(f'{{{name}}}' for name in given)}"
        raise ArgumentError(names, "be given", "both are" if present else "neither is")


def epochs_up_to(last: int) -> "FloatArray":
    """Every epoch up to `last`, or a thousand of them spaced logarithmically.

    >>> epochs_up_to(3)
    array([0., 1., 2., 3.])
    """
    import numpy as np

    at_least("epochs", last, 0, MOST_EPOCHS)
    if last <= EVERY_EPOCH:
        return np.arange(last + 1, dtype=np.float64)
    return np.concatenate([[0.0], np.unique(np.geomspace(1, last, EVERY_EPOCH).round())])


@dataclass(frozen=True)
class NamedScheme:
    """A scheme under the name of the command line, with the number of visits of an epoch."""

    name: str
    batches: int
    scheme: "rs.Scheme"


def batch_counts(batches: str | None, default: str, n: int | None = None) -> list[int]:
    """The numbers of batches given, or else those of the default that n rows can have.

    >>> batch_counts(None, "1,2,4", 3), batch_counts("4", "1,2,4", 3)
    ([1, 2], [4])
    """
    if batches is not None:
        return whole_numbers("batches", batches)
    return [count for count in whole_numbers("batches", default) if n is None or count <= n]


def require_cut(batches: str | None, batch_size: str | None, drop_last: bool) -> None:
    """Refuse options on how rows are cut into batches that do not go together."""
    one_of(batches=batches, batch_size=batch_size)
    if drop_last and batch_size is None:
        given = "needs {batch_size}: a given number of batches has no shorter last one"
        raise ArgumentError("drop_last", "", given)


def visitings(
    schemes: str, batches: str | None, default: str, recipe: RecipeOptions, n: int
) -> list[NamedScheme]:
    """Every scheme with every number or size of batches, for n rows; the full batch comes once."""
    import reshuffle as rs

    require_cut(batches, recipe.batch_size, recipe.drop_last)
    if recipe.batch_size is None:
        cuts, whole = batch_counts(batches, default, n), 1
    else:
        cuts, whole = whole_numbers("batch_size", recipe.batch_size), n
    found: dict[tuple[str, int, str], NamedScheme] = {}
    for name in words("scheme", schemes, SCHEMES):
        kind = getattr(rs, SCHEMES[name])
        for cut in cuts:
            if name == "full-batch" or (cut == whole and name not in _DRAWN):
                name_, made = "full-batch", rs.FullBatch()
            elif recipe.batch_size is not None:
                name_, made = name, kind(batch_size=cut, drop_last=recipe.drop_last)
            elif name not in _OF_A_SIZE:
                name_, made = name, kind(batches=cut)
            else:
                # Refuses more batches than rows.
                rs.WithReplacement(batches=cut).steps(n)
                name_, made = name, kind(batch_size=-(-n // cut))
                if made.steps(n) != cut:
                    allowed = f"be the number of visits that some batch size needs for {n} rows with {name}"
                    raise ArgumentError("batches", allowed, f"it is {cut}", "give {batch_size}")
            steps = made.steps(n)
            found.setdefault((name_, steps, repr(made)), NamedScheme(name_, steps, made))
    return list(found.values())
