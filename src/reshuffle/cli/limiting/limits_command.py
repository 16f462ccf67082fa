"""`reshuffle limits`: what is known with no data at all."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from reshuffle.cli import options, output
from reshuffle.cli.complaints import InputError
from reshuffle.cli.limiting.limits_answers import best_answer, curves_answer
from reshuffle.cli.limiting.one_pass_answer import PLAIN_STREAM, StreamOptions, one_pass_answer
from reshuffle.cli.options import TERMINAL, Batches, Epochs, OutputOptions
from reshuffle.cli.output import Answer

if TYPE_CHECKING:
    from reshuffle._arrays import FloatArray

_FORMS = "power:A, power:A:SIZE, toeplitz:R, toeplitz:R:SIZE or eigenvalues such as 0.5,1,2"
_SIZE = 200
"""Eigenvalues of a spectrum with a name, unless a number is given."""


def limits(
    *,
    aspect: Annotated[float | None, Parameter(help="p / n.")] = None,
    alpha: Annotated[
        float | None,
        Parameter(help="The full-batch step; each visit takes alpha / B. Not needed with --best."),
    ] = None,
    batches: Batches = "1,2,4",
    noise: Annotated[float, Parameter(help="Standard deviation of the label noise.")] = 1.0,
    signal: Annotated[float, Parameter(help="The norm of the true parameters.")] = 1.0,
    covariance: Annotated[
        str | None,
        Parameter(help="Of the features: power:A (or power:A:SIZE), toeplitz:R, or eigenvalues 0.5,1,2."),
    ] = None,
    best: Annotated[
        bool, Parameter(help="The best step and stopping time of each number of batches.", negative="")
    ] = False,
    budget: Annotated[
        int | None,
        Parameter(help="With --best: at most so many epochs.", converter=options.whole_number),
    ] = None,
    one_pass: Annotated[
        bool,
        Parameter(
            help="One pass over fresh data with a power-law spectrum, in place of epochs.", negative=""
        ),
    ] = False,
    stream: StreamOptions = PLAIN_STREAM,
    epochs: Epochs = 300,
    outputs: OutputOptions = TERMINAL,
) -> None:
    """Learning curves in the proportional limit, with no data at all.

    n and p go to infinity with p / n fixed; Gaussian features; full batch
    and random reshuffling of any number of batches. With --best, the recipes
    that are best there; with --one-pass, a stream of fresh data.

    For example:
      reshuffle limits --aspect 1.5 --alpha 0.2 --noise 0.5 --batches 1,2,4
      reshuffle limits --aspect 0.5 --noise 0.5 --best --budget 1
      reshuffle limits --aspect 0.5 --alpha 0.5 --noise 0.1 --covariance power:1.2
      reshuffle limits --one-pass --spectrum 1.5 --source 0.5 --batch-size 1,64
    """
    output.check(outputs)
    if one_pass:
        if aspect is not None or alpha is not None or best:
            raise InputError(
                "--one-pass has no epochs; leave out --aspect, --alpha and --best, and give --features and"
                " --step-size."
            )
        output.deliver(one_pass_answer(stream, noise), outputs)
        return
    if stream != PLAIN_STREAM:
        raise InputError(
            "--spectrum, --source, --features, --batch-size, --step-size, --steps and --momentum describe the"
            " stream of --one-pass, which is not given."
        )
    if aspect is None:
        raise InputError("give --aspect with --alpha or --best, or --one-pass.")
    if best and alpha is not None:
        raise InputError("--best finds the step by itself; leave out --alpha.")
    if not best and budget is not None:
        raise InputError("--budget is for --best; --epochs tells how far the curve goes.")
    if budget is not None and budget < 1:
        raise InputError(f"--budget must be a whole number of at least 1, but it is {budget}.")
    if not best and alpha is None:
        raise InputError("give --alpha, the full-batch step, or --best to find it.")
    described = {"aspect": aspect, "noise": noise, "signal": signal}
    counts = options.whole_numbers("--batches", batches)
    if alpha is None:
        output.deliver(best_answer(described, counts, budget, covariance, _spectrum_of(covariance)), outputs)
    else:
        output.deliver(_curves(described | {"alpha": alpha}, counts, covariance, epochs), outputs)


def _curves(asked: dict[str, float], counts: list[int], covariance: str | None, epochs: int) -> Answer:
    when, sigma = options.epochs_up_to(epochs), _spectrum_of(covariance)
    from reshuffle import asymptotics

    curves = [
        asymptotics.learning_curve(
            asked["aspect"],
            asked["alpha"],
            count,
            noise=asked["noise"],
            signal=asked["signal"],
            covariance=sigma,
        )
        for count in counts
    ]
    return curves_answer(asked, counts, curves, when)


def _spectrum_of(text: str | None) -> "FloatArray | None":
    """The eigenvalues that --covariance names; None is the identity."""
    if text is None:
        return None
    import numpy as np

    from reshuffle import asymptotics

    name, *numbers = text.split(":")
    try:
        if name in ("power", "toeplitz") and len(numbers) in (1, 2):
            number, size = float(numbers[0]), int(numbers[1]) if numbers[1:] else _SIZE
            if name == "toeplitz":
                return asymptotics.toeplitz(number, size)
            law = asymptotics.PowerLaw(number, size)
            # At the door, so that a message names the option.
            asymptotics.spectra.population(law)
            return law.values()
        if not numbers:
            return np.array([float(value) for value in text.split(",")])
    except ValueError as problem:
        if "must" in str(problem):
            raise InputError(f"--covariance {text}: {problem}") from None
    raise InputError(f"--covariance must be {_FORMS}, but it is {text}.")
