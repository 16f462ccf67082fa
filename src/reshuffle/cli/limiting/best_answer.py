"""What `reshuffle limits` says of the best recipes, and the spectra that it takes."""

from typing import TYPE_CHECKING, Any

from reshuffle.cli.complaints import InputError
from reshuffle.cli.output import Answer, number
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from reshuffle._core import FloatArray

_FORMS = "power:A, power:A:SIZE, toeplitz:R, toeplitz:R:SIZE or eigenvalues such as 0.5,1,2"
_SIZE = 200
"""Eigenvalues of a spectrum with a name, unless a number is given."""


def spectrum_of(text: str | None) -> "FloatArray | None":
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
            asymptotics.arguments.population(law)
            return law.values()
        if not numbers:
            return np.array([float(value) for value in text.split(",")])
    except ValueError as problem:
        if "must" in str(problem):
            raise InputError(f"--covariance {text}: {problem}") from None
    raise InputError(f"--covariance must be {_FORMS}, but it is {text}.")


def best_answer(
    described: dict[str, float],
    counts: list[int],
    budget: int | None,
    covariance: str | None,
    eigenvalues: "FloatArray | None",
) -> Answer:
    """A line per number of batches, and what flow, ridge and Bayes do beside them."""
    import reshuffle as rs
    from reshuffle import asymptotics

    recipes = asymptotics.best_recipe(
        described["aspect"],
        noise=described["noise"],
        signal=described["signal"],
        batches=counts,
        epochs=budget,
        covariance=eigenvalues,
    )
    assert isinstance(recipes, asymptotics.BestRecipes)
    one = recipes[0]
    beside = {
        "gradient flow": one.flow.risk,
        "averaged flow": one.averaged_flow.risk,
        "best ridge": one.ridge.risk,
        "Bayes": one.bayes,
    }
    rows = [
        [str(r.batches), number(r.alpha) if r.is_attained else "-> 0", number(r.epochs), number(r.risk)]
        for r in recipes
    ]
    rows += [[name, "", "", number(risk)] for name, risk in beside.items()]
    few = "any number of epochs" if budget is None else f"at most {budget} epochs"
    return Answer(
        title="p / n = {aspect:g}, noise {noise:g}, signal {signal:g}: the best recipe of ".format(
            **described
        )
        + few,
        headings=["batches", "alpha", "epochs", "risk"],
        rows=rows,
        data={
            "command": "limits",
            "version": rs.__version__,
            **described,
            "covariance": covariance,
            "budget": budget,
            "recipes": [_record(recipe) for recipe in recipes],
            "beside": beside,
        },
        columns={
            "batches": recipes.batches,
            "alpha": recipes.alpha,
            "epochs": recipes.epochs,
            "risk": recipes.risk,
        },
        draw=lambda: _picture(recipes.batches, recipes.risk, beside),
        series=[Series("best recipe", recipes.batches, recipes.risk)],
        xlabel="batches",
        ylabel="risk",
    )


def _record(recipe: Any) -> dict[str, Any]:
    return {
        "batches": recipe.batches,
        "alpha": recipe.alpha,
        "epochs": recipe.epochs,
        "risk": recipe.risk,
        "error": recipe.error,
        "time": recipe.time,
    }


def _picture(batches: "FloatArray", risks: "FloatArray", beside: dict[str, float]) -> "Picture":
    from reshuffle import plotting

    picture = plotting.figure(6.8, 4.2)
    ax = picture.add_subplot()
    ax.plot(batches, risks, "o-", color=plotting.COLOURS[0], label="best recipe")
    for (name, risk), colour in zip(beside.items(), plotting.COLOURS[1:], strict=False):
        ax.axhline(risk, color=colour, linewidth=1.0, linestyle="--", label=name)
    plotting.plain(ax, "batches", "limiting risk")
    ax.legend(frameon=False, fontsize=9)
    return picture
