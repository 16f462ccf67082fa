"""Plans, matches, explanations, comparisons, sweeps, estimators, and other ways of posing a problem."""

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from sklearn.datasets import load_diabetes

import reshuffle as rs
from reshuffle.sklearn import MiniBatchKernelRegressor, MiniBatchRegressor, MiniBatchRegressorCV
from tests.golden.numbers import normal
from tests.golden.record import Answer, Case

_CHOSEN = 1e-6
"""Relative: what is found by a search over a grid and its refinement."""


@cache
def _rows() -> tuple[np.ndarray, np.ndarray]:
    X = normal(200, 60, 5)
    return X, X @ normal(201, 5) + normal(202, 60)


@cache
def _plan(data: str) -> rs.Plan:
    if data == "diabetes":
        return rs.plan(*load_diabetes(return_X_y=True))
    return rs.plan(*_rows(), **({"of_run": False} if data == "mean iterate" else {}))


def _numbers_of(plan: rs.Plan) -> Answer:
    best = plan.best
    value = np.array([best.batch_size, best.step, best.epochs, best.mean_square, best.spread])
    # The spread is estimated: the choice may move where two recipes are within a thousandth.
    return Answer(value, 0.02 * np.abs(value), "search")


def _references_of(plan: rs.Plan) -> Answer:
    value = [plan.least_squares.mean_square, plan.ridge.mean_square, plan.least_squares.standard_error]
    return Answer(value, _CHOSEN * np.abs(value), "search")


def _grid_of(plan: rs.Plan) -> Answer:
    return Answer(plan.mean_squares[0, :, ::7, ::40].ravel())


def _safe_steps_of(plan: rs.Plan) -> Answer:
    return Answer(plan.safe_steps.ravel())


def _run(**options: object) -> rs.Run:
    X, y = _rows()
    return rs.descend(rs.LeastSquares(X, y), rs.RandomReshuffling(batches=4), **{"step": 0.1, **options})


def _match() -> Answer:
    found = rs.match(_run(), batch_size=30, epochs=20)
    value = np.array([found.step, found.distance, found.linear.distance, found.square_root.distance])
    return Answer(value, 1e-4 * np.abs(value), "search")


def _explain() -> Answer:
    X, y = _rows()
    run = _run()
    found = rs.explain(X, y, run.iterate(7), run, epochs=7)
    return Answer([part.share for part in found.parts], vector=1)


def _compared(name: str) -> Answer:
    X, y = _rows()
    problem = rs.LeastSquares(X, y, beta_star=normal(201, 5), noise=1.0)
    schemes = [rs.RandomReshuffling(batches=3), rs.WithReplacement(batches=3), rs.Cyclic(batches=3)]
    rows = rs.compare_schemes(problem, schemes, alpha=0.5, epochs=[1, 10]).rows
    answers = [row.answers[name] for row in rows]
    values = np.stack([np.atleast_1d(answer.value) for answer in answers])
    errors = np.stack([np.broadcast_to(answer.error, np.shape(answer.value)) for answer in answers])
    errors = errors.reshape(values.shape) + (1e-5 * values if "alpha" in name else 0.0)
    return Answer(values, errors, "search" if "alpha" in name else answers[-1].error_kind)


def _sweep(name: str) -> Answer:
    X, y = _rows()
    question = "stability" if name == "rate" else name
    grid = {"batches": [1, 2, 5], "alpha": [0.1, 0.5, 20.0]}
    found = rs.sweep(rs.LeastSquares(X, y), over=grid, metrics=[question], epochs=[1, 20])
    return Answer(found[name].to_numpy())


def _accumulated() -> Answer:
    X, y = _rows()
    kept = rs.Accumulator(batches=3)
    for begin in range(0, 60, 20):
        kept.add(X[begin : begin + 20], y[begin : begin + 20], batch=begin // 20)
    run = rs.descend(kept.problem(), rs.RandomReshuffling(batches=3), step=0.1)
    return Answer(run.iterate([1, 10]), vector=1)


def _kernel() -> Answer:
    X, y = _rows()
    K = np.exp(-((X[:, np.newaxis] - X) ** 2).sum(axis=-1) / 4)
    run = rs.descend(
        rs.LeastSquares.from_kernel(K[:20, :20], y[:20]), rs.RandomReshuffling(batches=4), step=0.5
    )
    return Answer(run.training_loss([1, 10, 100]))


def _flow() -> Answer:
    X, y = _rows()
    return Answer(rs.gradient_flow(rs.LeastSquares(X, y)).iterate([0.1, 1.0, 10.0]), vector=1)


def _regressor() -> Answer:
    X, y = _rows()
    made = MiniBatchRegressor(batch_size=15, learning_rate=0.1, epochs=10, shuffle="batches")
    return Answer(made.fit(X, y).predict(X[:5]), vector=1)


def _regressor_cv() -> Answer:
    X, y = _rows()
    fitted = MiniBatchRegressorCV().fit(X, y)
    value = fitted.predict(X[:5])
    return Answer(value, 0.02 * np.abs(value).max(), "search", vector=1)


def _kernel_regressor() -> Answer:
    X, y = _rows()
    fitted = MiniBatchKernelRegressor(batch_size=30, learning_rate=0.5, epochs=5, shuffle="batches").fit(X, y)
    return Answer(fitted.predict(X[:5]), vector=1)


def _ridge_equivalent() -> Answer:
    found = _run().ridge_equivalent([1, 10])
    value = np.stack([found.penalty, found.degrees_of_freedom])
    return Answer(value, 1e-7 * np.abs(value), "search")


_PARTS: dict[str, Callable[[rs.Plan], Answer]] = {
    "choice": _numbers_of,
    "references": _references_of,
    "grid": _grid_of,
    "safe steps": _safe_steps_of,
}
_OTHERS: dict[str, Case] = {
    "match": _match,
    "explain": _explain,
    "accumulator": _accumulated,
    "kernel": _kernel,
    "gradient flow": _flow,
    "MiniBatchRegressor": _regressor,
    "MiniBatchRegressorCV": _regressor_cv,
    "MiniBatchKernelRegressor": _kernel_regressor,
    "ridge equivalent": _ridge_equivalent,
    "mallows cp": lambda: Answer(_run().mallows_cp([1, 10])),
    "excess training loss": lambda: Answer(_run().excess_training_loss([1, 10])),
    "excess training loss of a run": lambda: Answer(_run().excess_training_loss([1, 10], of_run=True)),
}


def cases() -> Iterator[tuple[str, Case]]:
    """Each once."""
    for data in ("sixty rows", "mean iterate", "diabetes"):
        for part, question in _PARTS.items():
            yield f"plan | {data} | {part}", lambda data=data, question=question: question(_plan(data))
    for name in ("mean", "spread", "distance", "critical_alpha", "mean_square_alpha"):
        yield f"compare schemes | {name}", lambda name=name: _compared(name)
    # Recorded when leave-one-out of a sweep was that of the mean iterate.
    for name, asked in {
        "training_loss": "training_loss",
        "leave_one_out": "mean_leave_one_out",
        "rate": "rate",
    }.items():
        yield f"sweep | {name}", lambda asked=asked: _sweep(asked)
    for name, case in _OTHERS.items():
        yield f"other | {name}", case
