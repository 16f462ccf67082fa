"""What the oracle works on, and the same after its inputs have moved by a few units in the last place."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from flint import fmpq, fmpq_mat

from tests.oracles.exact import arithmetic as exact
from tests.oracles.exact.arithmetic import Matrix, Rational

_MOVEMENT = 1e-15
"""By how much inputs are moved, relative to the largest number beside them."""


@dataclass(frozen=True)
class Scheme:
    """A way of visiting: the name of its class and its arguments."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """What the oracle works on. `beta_star` and `noise` are None where the truth is unknown."""

    X: Matrix
    y: Matrix
    beta_star: Matrix | None
    noise: Rational | None
    sigma: Matrix
    scheme: Scheme
    step: Callable[[int], Rational]
    is_constant: bool
    penalty: Rational
    momentum: Rational
    start: Matrix

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.X.nrows())

    @property
    def p(self) -> int:
        """Columns."""
        return int(self.X.ncols())

    def without(self, row: int) -> "Setting":
        """The same with the gradient of one row left out: it is zero."""
        X, y = self.X.table(), self.y.table()
        X[row], y[row] = [fmpq(0)] * self.p, [fmpq(0)]
        return replace(self, X=fmpq_mat(X), y=fmpq_mat(y))


def moved(given: Setting, seed: int) -> Setting:
    """The setting after every input has moved by 1e-15: zeros stay, and so does the rank of X."""
    rng = random.Random(seed)
    factor = _factor(rng)
    return replace(
        given,
        X=_moved_features(given.X, rng),
        y=_moved(given.y, rng),
        beta_star=None if given.beta_star is None else _moved(given.beta_star, rng),
        noise=None if given.noise is None else given.noise * _factor(rng),
        sigma=_moved_symmetric(given.sigma, rng),
        step=lambda epoch: given.step(epoch) * factor,
        penalty=given.penalty * _factor(rng),
        momentum=given.momentum * _factor(rng),
        start=_moved(given.start, rng),
    )


def _factor(rng: random.Random) -> Rational:
    return 1 + exact.rational(_MOVEMENT * rng.uniform(-1, 1))


def _moved(whole: Matrix, rng: random.Random) -> Matrix:
    entries = list(whole.entries())
    size = max(map(abs, entries), default=fmpq(0))
    shifts = [size * exact.rational(_MOVEMENT * rng.uniform(-1, 1)) for _ in entries]
    moved = [entry + shift if entry != 0 else entry for entry, shift in zip(entries, shifts, strict=True)]
    return fmpq_mat(whole.nrows(), whole.ncols(), moved)


def _moved_symmetric(whole: Matrix, rng: random.Random) -> Matrix:
    moved = _moved(whole, rng)
    return (moved + moved.transpose()) * fmpq(1, 2)


def _moved_features(X: Matrix, rng: random.Random) -> Matrix:
    if X.rank() == min(X.nrows(), X.ncols()):
        return _moved(X, rng)
    # Where the rank is smaller the factors move, so that what is exactly collinear stays so.
    columns, combination = exact.rank_factors(X)
    entries = [entry * _factor(rng) for entry in combination.entries()]
    return _moved(columns, rng) * fmpq_mat(combination.nrows(), combination.ncols(), entries)
