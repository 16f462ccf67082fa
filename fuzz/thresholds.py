"""Where stability ends, from the spectra of exact maps."""

import math
import random
from dataclasses import replace

from flint import arb, fmpq

from fuzz import exact, moments
from fuzz.exact import Rational
from fuzz.oracle import Oracle
from fuzz.values import Value

_PROBES = 4
_HALVINGS = 60


def is_stable(oracle: Oracle, step: Rational, mean_square: bool) -> bool:
    """Whether the mean, or the mean square, converges at a step."""
    at = Oracle(replace(oracle.setting, step=lambda epoch: step))
    if at.converges() is not True:
        return False
    if not (mean_square and at.is_random):
        return True
    return moments.mean_square(at).shrinks() is True


def critical_step(oracle: Oracle, claimed: float, mean_square: bool, precision: float, seed: int) -> Value:
    """The claimed step, if stability ends there and holds at a few steps below; else where it ends."""
    if oracle.setting.penalty == 0 and not oracle.maps.visited.rank():
        return math.inf
    if not (math.isfinite(claimed) and claimed > 0):
        return arb(0)
    c, slack = exact.rational(claimed), exact.rational(precision)
    rng = random.Random(seed)
    for _ in range(_PROBES):
        probe = c * exact.rational(rng.random())
        if probe != 0 and not is_stable(oracle, probe, mean_square):
            return arb(_crossing(oracle, fmpq(0), probe, mean_square))
    low, high = c * (1 - slack), c * (1 + slack)
    if not is_stable(oracle, low, mean_square):
        return arb(_crossing(oracle, fmpq(0), low, mean_square))
    for _ in range(_HALVINGS):
        if not is_stable(oracle, high, mean_square):
            return arb(c) if high == c * (1 + slack) else arb(_crossing(oracle, low, high, mean_square))
        low, high = high, high + (high - c) * 2
    return math.inf


def _crossing(oracle: Oracle, low: Rational, high: Rational, mean_square: bool) -> Rational:
    """A step at which stability ends, between one where it holds and one where it does not."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if is_stable(oracle, middle, mean_square):
            low = middle
        else:
            high = middle
        if high - low <= high * fmpq(1, 10**10):
            break
    return (low + high) / 2
