"""The proportional limit: speed in units of one eigenvalue computation, and distance from exact finite results.

Run with ``python -m benchmarks.asymptotics``.
"""

import math
import time

import numpy as np
from rich.console import Console
from rich.table import Table
from tests.asymptotics.oracles import finite_risk
from threadpoolctl import threadpool_limits

import reshuffle as rs
from benchmarks.timing import exponent, timed
from reshuffle import asymptotics

SETTINGS = ((0.25, 0.4), (1.5, 0.2))
ASPECTS = (0.25, 1.0, 1.5, 3.0)
EPOCHS = np.array([1, 3, 10, 30, 100])
SIZES = {20: 400, 40: 200, 80: 100, 160: 50, 500: 12}
"""Rows, and the draws that are averaged: fewer for more, since the noise falls like 1/n too."""


def unit():
    """The time of the eigenvalues of one symmetric 1000 x 1000 matrix."""
    matrix = np.random.default_rng(0).standard_normal((1000, 1000))
    matrix = matrix + matrix.T
    return _timed(lambda: np.linalg.eigvalsh(matrix), repeats=5)[0]


def _timed(work, repeats=1):
    """Processor time of one thread, which other work beside it hardly touches."""
    with threadpool_limits(1):
        return timed(work, repeats, time.process_time)


def speed(table):
    """Measure every target, in units, at both of the paper's settings."""
    one = unit()
    for aspect, alpha in SETTINGS:
        points = np.linspace(0.001, 1.0, 10_000)
        seconds, _ = _timed(lambda a=aspect, b=alpha, t=points: asymptotics.TwoBatchLaw(a, b).density(t), 3)
        _row(table, aspect, "TwoBatchLaw, density at 10,000 points", seconds / one, 1)
        for batches, target in ((3, None), (4, 20), (6, 200), (8, None)):
            law = asymptotics.BatchLaw(aspect, alpha, batches)
            seconds, density = _timed(lambda law=law: law.density(np.linspace(0.02, 0.7, 400)))
            assert np.isfinite(density).all()
            _row(
                table, aspect, f"batch_spectrum, density at 400 points, B = {batches}", seconds / one, target
            )
            seconds, _ = _timed(lambda a=aspect, b=alpha, n=batches: asymptotics.BatchLaw(a, b, n).support)
            _row(table, aspect, f"batch_spectrum, support and mass, B = {batches}", seconds / one, None)
        seconds, _ = _timed(
            lambda a=aspect, b=alpha: asymptotics.learning_curve(a, b, 2).risk(np.arange(1001)), 3
        )
        _row(table, aspect, "risk curve of 1,000 epochs, B = 2", seconds / one, 5)
        seconds, _ = _timed(
            lambda a=aspect, b=alpha: asymptotics.learning_curve(a, b, 4).risk(np.arange(1001))
        )
        _row(table, aspect, "risk curve of 1,000 epochs, B = 4", seconds / one, None)
    for batches in (8, 16):
        seconds, _ = _timed(lambda n=batches: asymptotics.learning_curve(0.25, 0.4, n).risk(np.arange(1001)))
        _row(table, 0.25, f"risk curve of 1,000 epochs, B = {batches}", seconds / one, None)
    seconds, _ = _timed(lambda: asymptotics.BatchLaw(0.25, 0.4, 16).support)
    _row(table, 0.25, "batch_spectrum, support and mass, B = 16", seconds / one, None)
    for batches in (4, 8):
        seconds, _ = _timed(lambda n=batches: asymptotics.BatchLaw(0.5, 0.005, n, [1.0, 100.0]).support)
        _row(table, 0.5, f"the same with Sigma = [1, 100], B = {batches}", seconds / one, None)
    seconds, _ = _timed(lambda: asymptotics.BatchLaw(0.5, 0.1, 8, asymptotics.PowerLaw(1.2, 50)).support)
    _row(table, 0.5, "the same with 50 eigenvalues of a power law, B = 8", seconds / one, None)
    for budget in (1, 8):
        seconds, _ = _timed(lambda k=budget: asymptotics.best_recipe(0.5, 0.5, batches=4, epochs=k))
        _row(table, 0.5, f"best recipe of four batches, at most {budget} epochs", seconds / one, None)
    for count, batches, target in ((50, 3, None), (200, 4, 10)):
        sigma = asymptotics.PowerLaw(1.0, count)
        seconds, _ = _timed(
            lambda n=batches, s=sigma: asymptotics.learning_curve(0.5, 0.5, n, covariance=s).risk(
                np.arange(1001)
            )
        )
        _row(table, 0.5, f"risk curve of {count} eigenvalues of Sigma, B = {batches}", seconds / one, target)
    return one


def _row(table, aspect, what, units, target):
    table.add_row(f"{aspect:g}", what, f"{units:.2f}", "" if target is None else f"<= {target}")


def finite_sizes(table):
    """Compare with exact results at finite n: the mean over draws, its largest relative distance, and its slope."""
    for aspect in ASPECTS:
        for batches in (1, 2, 3, 4):
            alpha = 0.6 * asymptotics.critical_alpha(aspect, 1)
            limit = asymptotics.learning_curve(aspect, alpha, batches).risk(EPOCHS).total
            distances, noise = [], 0.0
            for n, draws in SIZES.items():
                totals = np.array([_total(n, aspect, batches, alpha, seed) for seed in range(draws)])
                distances.append(float(np.abs(totals.mean(axis=0) / limit - 1).max()))
                noise = float((totals.std(axis=0) / math.sqrt(draws) / limit).max())
            # At n = 500 the distance is often below its standard error, and would only blur the slope.
            slope = exponent(list(SIZES)[:4], distances[:4])
            cells = [f"{100 * distance:.2f}%" for distance in distances]
            table.add_row(f"{aspect:g}", str(batches), *cells, f"{100 * noise:.2f}%", f"{slope:.2f}")


def _total(n, aspect, batches, alpha, seed):
    p = round(aspect * n)
    bias, variance = finite_risk(rs.gaussian(n, p, seed=seed), batches, alpha, EPOCHS)
    return max(0.0, 1 - n / p) + bias + variance


def main():
    """Print both tables."""
    console = Console(width=130)
    first = Table("aspect", "what", "units", "target", title="asymptotics: speed")
    one = speed(first)
    console.print(first)
    console.print(f"one unit: eigenvalues of a 1000 x 1000 matrix, {one:.3f} s")
    second = Table(
        "aspect",
        "B",
        *(f"n = {n}" for n in SIZES),
        "standard error at 500",
        "slope, n <= 160",
        title="asymptotics: largest relative distance of exact finite risk from the limit (target 2% at n = 500)",
    )
    finite_sizes(second)
    console.print(second)


if __name__ == "__main__":
    main()
