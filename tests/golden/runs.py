"""Runs of every scheme with every recipe, on problems of every shape, and the questions that they are asked."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import count

import numpy as np

import reshuffle as rs
from tests.golden.numbers import normal
from tests.golden.record import Answer, Case

_QUESTIONS_OF_A_RUN = 5
_EPOCHS = [1, 3, 8]


def _truth(n: int, p: int, seed: int, **known: object) -> rs.LeastSquares:
    X, beta = normal(seed, n, p), normal(seed + 1, p)
    return rs.LeastSquares(X, X @ beta + 0.5 * normal(seed + 2, n), beta_star=beta, noise=0.5, **known)


def _wide() -> rs.LeastSquares:
    factor = normal(41, 15, 15) / 4
    return _truth(12, 15, 40, covariance=factor @ factor.T + np.diag(np.linspace(0.5, 1.5, 15)))


def _deficient() -> rs.LeastSquares:
    X, beta = normal(50, 12, 5), normal(51, 5)
    X[:, 4] = X[:, 0] - 2 * X[:, 1]
    return rs.LeastSquares(X, X @ beta + normal(52, 12), beta_star=beta, noise=1.0)


def _outputs() -> rs.LeastSquares:
    X, beta = normal(60, 12, 3), normal(61, 3, 2)
    return rs.LeastSquares(X, X @ beta + 0.3 * normal(62, 12, 2), beta_star=beta, noise=[0.3, 0.3])


def _scaled() -> rs.LeastSquares:
    """Columns of different units: a condition number of some thousand."""
    X, beta = normal(70, 12, 4) * [1.0, 30.0, 0.03, 1.0], normal(71, 4)
    return rs.LeastSquares(X / 30, X @ beta + normal(72, 12), beta_star=beta, noise=1.0)


def _centred() -> rs.LeastSquares:
    X, y = normal(110, 48, 6), normal(111, 48)
    return rs.LeastSquares(X - X.mean(axis=0), y - y.mean())


PROBLEMS: dict[str, Callable[[], rs.LeastSquares]] = {
    "tall": cache(lambda: _truth(12, 3, 10)),
    "wide, Sigma": cache(_wide),
    "ragged": cache(lambda: _truth(10, 3, 20)),
    "deficient": cache(_deficient),
    "weights": cache(lambda: _truth(12, 3, 30, sample_weight=np.linspace(0.2, 2.0, 12))),
    "outputs": cache(_outputs),
    "diagonal Sigma": cache(lambda: _truth(12, 4, 80, covariance=np.array([2.0, 1.0, 0.5, 0.1]))),
    "data alone": cache(lambda: rs.LeastSquares(normal(90, 12, 3), normal(91, 12))),
    "scaled": cache(_scaled),
}
LONG: dict[str, Callable[[], rs.LeastSquares]] = {
    "48 rows": cache(lambda: _truth(48, 4, 100)),
    "centred": cache(_centred),
}
SCHEMES: dict[str, Callable[[], rs.Scheme]] = {
    "FullBatch": lambda: rs.FullBatch(),
    "RandomReshuffling 3": lambda: rs.RandomReshuffling(batches=3),
    "RandomReshuffling 6": lambda: rs.RandomReshuffling(batches=6),
    "RandomReshuffling of 5": lambda: rs.RandomReshuffling(batch_size=5, drop_last=True),
    "RandomReshuffling equal": lambda: rs.RandomReshuffling(batch_size=5, normalize="equal"),
    "Cyclic": lambda: rs.Cyclic(batches=4, order=[2, 0, 3, 1]),
    "ShuffleOnce": lambda: rs.ShuffleOnce(batches=3),
    "WithReplacement": lambda: rs.WithReplacement(batches=3),
    "SampleWithReplacement": lambda: rs.SampleWithReplacement(batch_size=4),
    "SampleSubsets": lambda: rs.SampleSubsets(batch_size=5),
    "SampleReshuffling 2": lambda: rs.SampleReshuffling(batches=2),
    "SampleReshuffling of 2": lambda: rs.SampleReshuffling(batch_size=2),
    "GroupReshuffling": lambda: rs.GroupReshuffling(2, batches=2),
    "Stages": lambda: rs.Stages([(2, rs.RandomReshuffling(batches=4)), (None, rs.FullBatch())]),
}
RECIPES: dict[str, dict[str, object]] = {
    "plain": {"alpha": 0.6},
    "start": {"alpha": 0.3, "start": 1.0},
    "momentum": {"alpha": 0.2, "momentum": 0.6},
    "nesterov": {"alpha": 0.2, "momentum": 0.5, "nesterov": True},
    "penalty": {"alpha": 0.5, "penalty": 0.1},
    "unpenalized": {"alpha": 0.5, "penalty": 0.2, "unpenalized": [-1]},
    "momentum and penalty": {"alpha": 0.2, "momentum": 0.5, "penalty": 0.05},
    "EMA": {"alpha": 0.5, "average": rs.EMA(0.7)},
    "EMA per visit": {"alpha": 0.5, "average": rs.EMA(0.9, per="visit")},
    "tail average": {"alpha": 0.5, "average": rs.TailAverage()},
    "list": {"alpha": [0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1]},
    "cosine": {"step": rs.schedules.CosineAnnealing(0.2, 10)},
    "diverging": {"alpha": 12.0},
    "small": {"alpha": 1e-4},
}


LONG_SCHEMES: dict[str, Callable[[], rs.Scheme]] = {
    "SampleReshuffling of 4": lambda: rs.SampleReshuffling(batch_size=4),
    "SampleReshuffling of 1": lambda: rs.SampleReshuffling(batch_size=1),
    "SampleReshuffling of 7": lambda: rs.SampleReshuffling(batch_size=7),
    "GroupReshuffling of 3": lambda: rs.GroupReshuffling(3, batch_size=4),
    "RandomReshuffling of 2": lambda: rs.RandomReshuffling(batch_size=2),
    "ShuffleOnce of 4": lambda: rs.ShuffleOnce(batch_size=4, draws=64),
}
LONG_RECIPES = ("plain", "momentum", "penalty", "EMA", "list")


def run(problem: str, scheme: str, recipe: str) -> rs.Run:
    """One of the runs, with a start of ones where the recipe has one."""
    made, options = {**PROBLEMS, **LONG}[problem](), dict(RECIPES[recipe])
    if "start" in options:
        options["start"] = np.ones(made.p)
    if scheme == "Stages" and "alpha" in options:
        # Stages differ in their visits per epoch, so that alpha has no meaning.
        options["step"] = (np.array(options.pop("alpha")) / 4).tolist()
    return rs.descend(made, {**SCHEMES, **LONG_SCHEMES}[scheme](), **options)


def _ended(run: rs.Run) -> list[float]:
    """Epochs, with infinity where there is an end."""
    return [*_EPOCHS, math.inf] if run.recipe.has_limit else _EPOCHS


def iterate(run: rs.Run) -> Answer:
    epochs, vector = _ended(run), 1
    return Answer(run.iterate(epochs).swapaxes(1, -1), run.iterate_error(epochs), run.error_kind, vector)


def training_loss(run: rs.Run) -> Answer:
    return Answer(run.training_loss(_EPOCHS), run.training_loss_error(_EPOCHS), run.error_kind)


def risk(run: rs.Run) -> Answer:
    found = run.risk(_ended(run))
    parts = np.stack([found.total, found.frozen, found.bias, found.cross, found.variance], axis=-1)
    return Answer(parts, found.error, found.error_kind, vector=1)


def expected_risk(run: rs.Run) -> Answer:
    found = run.expected_risk(_EPOCHS)
    return Answer(np.stack([found.total, found.mean], axis=-1), found.error, found.error_kind, vector=1)


def expected_risk_in_the_end(run: rs.Run) -> Answer:
    found = run.expected_risk(math.inf)
    return Answer(found.total, found.error, found.error_kind)


def expected_risk_of_responses(run: rs.Run) -> Answer:
    found = run.expected_risk([2, 5], given_responses=True)
    return Answer(np.stack([found.total, found.mean], axis=-1), found.error, found.error_kind, vector=1)


def covariance(run: rs.Run) -> Answer:
    found = run.covariance([1, 4])
    kind = "exact" if found.error_kind == "exact" or not np.any(found.error) else found.error_kind
    if run.problem.outputs is None:
        return Answer(found.matrix, found.error, kind, vector=2)
    return Answer(found.standard_deviations, np.sqrt(found.error).max(), kind, vector=1)


def limit(run: rs.Run) -> Answer:
    found = run.limit()
    value = np.append(np.where(np.isfinite(found.parameters), found.parameters, np.inf), found.converges)
    return Answer(value, np.max(found.error), found.error_kind, vector=1)


def compare_limit(run: rs.Run) -> Answer:
    found = run.compare_limit()
    # Beside the solution itself: the difference is as good as that is, be it nothing.
    value = np.concatenate([np.ravel(found.difference), np.ravel(found.minimum_norm)])
    return Answer(value, np.max(found.error), found.error_kind, vector=1)


def stability(run: rs.Run) -> Answer:
    found = run.stability()
    return Answer([found.rate, found.converges], found.error, found.error_kind, vector=1)


def mean_square_stability(run: rs.Run) -> Answer:
    found = run.mean_square_stability()
    return Answer([found.rate, found.converges], found.error, found.error_kind, vector=1)


def best_epoch(run: rs.Run) -> Answer:
    found = run.best_epoch()
    return Answer(found.risk, np.asarray(found.error) + found.risk_error, found.error_kind)


def degrees_of_freedom(run: rs.Run) -> Answer:
    found = run.degrees_of_freedom(_EPOCHS)
    inexact = run.method != "exact"
    return Answer(found, 0.02 * np.abs(found) if inexact else 0.0, "rtol" if inexact else "exact")


def leave_one_out(run: rs.Run) -> Answer:
    found = run.leave_one_out(_ended(run))
    return Answer(found.mean_square, found.error, found.error_kind)


def leave_one_out_of_rows(run: rs.Run) -> Answer:
    found = run.leave_one_out([2, 6], rows=[0, 5, 7])
    return Answer(found.mean_square, found.error, found.error_kind)


def leave_one_out_of_centred_rows(run: rs.Run) -> Answer:
    found = run.leave_one_out([2, 6], centred=True)
    return Answer(found.mean_square, found.error, found.error_kind)


def cross_validate(run: rs.Run) -> Answer:
    rows = np.arange(run.problem.n)
    folds = [(rows[rows % 2 != part], rows[rows % 2 == part]) for part in range(2)]
    found = run.cross_validate([1, 5], folds=folds)
    return Answer(found.mean_square, found.error, found.error_kind)


def predict(run: rs.Run) -> Answer:
    new = normal(99, 2, run.problem.p)
    sizes = np.linalg.norm(new, axis=1).max()
    epochs = [2, 7]
    return Answer(
        run.predict(new, epochs).swapaxes(1, -1),
        sizes * run.iterate_error(epochs),
        run.error_kind,
        vector=1,
    )


def Z(run: rs.Run) -> Answer:
    exact = run.method == "exact"
    return Answer(run.epoch.Z, 0.0 if exact else 0.02 * np.abs(run.epoch.Z).max(), run.error_kind, vector=2)


def frozen(run: rs.Run) -> Answer:
    return Answer(run.frozen.dimension)


QUESTIONS = (
    iterate, risk, leave_one_out, expected_risk, limit, stability, covariance, training_loss, best_epoch,
    mean_square_stability, predict, expected_risk_in_the_end, degrees_of_freedom, leave_one_out_of_rows, Z,
    expected_risk_of_responses, compare_limit, cross_validate, frozen,
)  # fmt: skip


LONG_QUESTIONS = (
    iterate, risk, leave_one_out, expected_risk, stability, covariance, training_loss, limit, best_epoch,
    leave_one_out_of_rows, predict,
)  # fmt: skip


def cases() -> Iterator[tuple[str, Case]]:
    """Every scheme with every recipe; problems and questions take turns, so that each meets each."""
    asked = count()
    for i, scheme in enumerate(SCHEMES):
        for j, recipe in enumerate(RECIPES):
            if recipe == "diverging" and scheme == "SampleReshuffling of 2":
                # Drawing orders of what diverges spends the whole budget.
                continue
            problem = list(PROBLEMS)[(2 * i + j) % len(PROBLEMS)]
            yield from _of_run(problem, scheme, recipe, QUESTIONS, asked)
    for scheme in LONG_SCHEMES:
        for recipe in LONG_RECIPES:
            yield from _of_run("48 rows", scheme, recipe, LONG_QUESTIONS, asked)
        for recipe in ("plain", "momentum"):
            yield from _of_run("centred", scheme, recipe, [leave_one_out_of_centred_rows], count(), 1)


def _of_run(
    problem: str,
    scheme: str,
    recipe: str,
    questions: Sequence[Callable[[rs.Run], Answer]],
    asked: Iterator[int],
    number: int = _QUESTIONS_OF_A_RUN,
) -> Iterator[tuple[str, Case]]:
    made = cache(lambda: run(problem, scheme, recipe))
    for _ in range(number):
        question = questions[next(asked) % len(questions)]
        if recipe == "cosine" and question is best_epoch:
            # A schedule without end is searched for twenty thousand epochs.
            question = training_loss
        name = f"run | {problem} | {scheme} | {recipe} | {question.__name__}"
        yield name, lambda question=question: question(made())
