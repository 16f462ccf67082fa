"""How the mean over shuffled samples is taken that are read in chunks: by the cavity equation alone."""

from reshuffle.epoch.accuracy import METHODS, Accuracy, warn_out_of_reach
from reshuffle.epoch.cavity.visiting import are_alike
from reshuffle.epoch.choice.ways import NO_SOLUTION, Choice, Way
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.epoch.streamed_samples import samples_of
from reshuffle.errors import UnsupportedError
from reshuffle.problem.blocks import Blocks
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.schemes.base import Scheme

_KEEPS_ALL = "it needs all samples at once, but they are read in chunks"


def choice_of_samples(problem: LeastSquares, accuracy: Accuracy) -> Choice:
    """The cavity equation, and why nothing else."""
    others = (Way(name, float("nan"), _KEEPS_ALL) for name in METHODS[1:] if name != "cavity")
    passes = 0 if problem.stream is None else problem.stream.passes
    question = f"the mean over orders (rows read {passes} times so far)"
    return Choice(question, (Way("cavity", float("nan")), *others))


def no_second_moments() -> Choice:
    """Of shuffled or drawn samples that are not at hand there are none."""
    return Choice(
        "second moments", (Way("none", float("nan"), "they need all samples at once, which are not at hand"),)
    )


def mean_of_samples(
    problem: LeastSquares, scheme: Scheme, scaled_step: float, accuracy: Accuracy
) -> tuple[MeanMap, Blocks]:
    """The mean map of shuffled samples that are read in chunks, and rows that stand for all of them."""
    if accuracy.method not in ("auto", "cavity"):
        raise UnsupportedError(
            f'method must be "auto" or "cavity" for shuffled samples that are read in chunks, but it is '
            f"{accuracy.method!r}; {_KEEPS_ALL}."
        )
    n = problem.n
    if not are_alike(scheme.sizes(n) / scheme.step_divisors(n)):
        raise UnsupportedError(
            f"{scheme!r} has visits that weigh differently, of which the mean is not known for samples that are "
            'read in chunks; try normalize="own".'
        )
    found = samples_of(problem, scheme, scaled_step, accuracy.rtol)
    if found is None:
        raise UnsupportedError(NO_SOLUTION.partition(", or")[0] + ".")
    if found[0].missed > accuracy.rtol:
        warn_out_of_reach(found[0].missed, "cavity", accuracy.rtol, "try a smaller step or a larger rtol")
    return found
