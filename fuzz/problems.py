"""Random problems: ordinary, integer, collinear, with zeros and copies, badly scaled, very large and very small."""

import random

import numpy as np

from fuzz.case import Problem
from reshuffle._arrays import AnyArray, FloatArray

_KINDS = (
    "gaussian", "gaussian", "integer", "integer", "collinear", "zeros", "copies", "columns", "rows",
    "spectrum", "spectrum", "diagonal", "size", "nothing",
)  # fmt: skip


def problem(rng: random.Random, largest: int = 8) -> Problem:
    """Draw a problem with at most `largest` rows and columns."""
    draw = np.random.default_rng(rng.getrandbits(64))
    n, p = (_length(rng, largest) for _ in range(2))
    X = _features(rng, draw, n, p)
    size = float(np.abs(X).max()) or 1.0
    beta = draw.standard_normal(p) * rng.choice([1, 1, 1, 1 / size, 1e-3, 1e3])
    noise = rng.choice([0.0, 0.5, 1.0, 1.0, 1e-6, 1e6, size])
    y = X @ beta + noise * draw.standard_normal(n)
    if rng.random() < 0.08:
        y = np.zeros(n)
    elif rng.random() < 0.02:
        y = 1e95 * draw.standard_normal(n)
    form, sigma = _sigma(rng, draw, p)
    if rng.random() < 0.03:
        beta = np.zeros(p)
    return Problem(
        X=X.tolist(),
        y=y.tolist(),
        beta_star=None if rng.random() < 0.02 else beta.tolist(),
        noise=None if rng.random() < 0.02 else float(noise),
        form=form,
        sigma=sigma,
    )


def _length(rng: random.Random, largest: int) -> int:
    return min(largest, rng.choice([1, 2, 2, 3, 3, 4, 4, 5, 6, 8]))


def _features(rng: random.Random, draw: np.random.Generator, n: int, p: int) -> FloatArray:
    kind = rng.choice(_KINDS)
    gaussian = draw.standard_normal((n, p))
    integer = draw.integers(-3, 4, (n, p)).astype(float)
    span = 10.0 ** -rng.uniform(0, 12)
    if kind == "integer":
        return integer
    if kind == "collinear":
        rank = rng.randint(1, max(1, min(n, p) - 1))
        return _product(draw.integers(-3, 4, (n, rank)), draw.integers(-2, 3, (rank, p)))
    if kind == "zeros":
        gaussian[draw.random(n) < 0.4] = 0.0
        gaussian[:, draw.random(p) < 0.4] = 0.0
        return gaussian
    if kind == "copies":
        return gaussian[draw.integers(0, n, n)]
    if kind == "columns":
        return gaussian * np.geomspace(1, span, p)
    if kind == "rows":
        return gaussian * np.geomspace(1, span, n)[:, np.newaxis]
    if kind == "spectrum":
        rank = min(n, p)
        left, _ = np.linalg.qr(draw.standard_normal((n, rank)))
        right, _ = np.linalg.qr(draw.standard_normal((p, rank)))
        return _product(left * np.geomspace(1, span, rank), right.T)
    if kind == "diagonal":
        diagonal = np.zeros((n, p))
        np.fill_diagonal(diagonal, np.geomspace(1, span, min(n, p)))
        return diagonal
    if kind == "size":
        return gaussian * float(10.0 ** rng.uniform(-85, 85))
    return np.zeros((n, p)) if kind == "nothing" and rng.random() < 0.5 else gaussian


def _product(left: AnyArray, right: AnyArray) -> FloatArray:
    return np.asarray(left @ right, dtype=np.float64)


def _sigma(rng: random.Random, draw: np.random.Generator, p: int) -> tuple[str, object]:
    form = rng.choice(["none", "none", "number", "vector", "matrix", "matrix", "operator"])
    size = rng.choice([1.0, 1.0, 1.0, 1e-95, 1e-30, 1e30, 1e95, 1e-3])
    if form == "none":
        return form, 1.0
    if form == "number":
        return form, rng.choice([0.0, 2.0, size])
    if form == "vector":
        diagonal = draw.random(p) * size
        diagonal[draw.random(p) < 0.2] = 0.0
        return form, diagonal.tolist()
    factor = draw.standard_normal((p, rng.choice([p, p, 1])))
    dense = factor @ factor.T
    dense = (dense + dense.T) / 2 * size
    if rng.random() < 0.1:
        dense = np.zeros((p, p))
    return form, dense.tolist()
