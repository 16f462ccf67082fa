"""The proportional limit: speed in units of one eigenvalue computation, and distance from exact finite results.

Run with ``python -m benchmarks.asymptotics``.
"""

import math

import numpy as np
from tests.asymptotics.oracles import finite_risk
from threadpoolctl import threadpool_limits

import reshuffle as rs
from benchmarks.harness import exponent, processor, show, table
from reshuffle import asymptotics

SETTINGS = ((0.25, 0.4), (1.5, 0.2))
ASPECTS = (0.25, 1.0, 1.5, 3.0)
EPOCHS = np.array([1, 3, 10, 30, 100])
SIZES = {20: 400, 40: 200, 80: 100, 160: 50, 500: 12}
"""Rows, and the draws that are averaged: fewer for more, since the noise falls like 1/n too."""


def _timed(work, repeats=1):
    """Processor time of one thread, which other work beside it hardly touches."""
    with threadpool_limits(1):
        return processor(work, repeats)


def questions():
    """p/n, a question's name and repeats, the question itself and the units that are wanted."""
    two, law, curve = asymptotics.TwoBatchLaw, asymptotics.BatchLaw, asymptotics.learning_curve
    epochs, points, power = np.arange(1001), np.linspace(0.001, 1.0, 10_000), asymptotics.PowerLaw
    for a, alpha in SETTINGS:
        yield a, "TwoBatchLaw, density at 10,000 points", 3, lambda a=a, b=alpha: two(a, b).density(points), 1
        for count, target in ((3, None), (4, 20), (6, 200), (8, None)):
            made, few = law(a, alpha, count), np.linspace(0.02, 0.7, 400)
            name = f"batch_spectrum, density at 400 points, B = {count}"
            yield a, name, 1, lambda made=made, few=few: made.density(few), target
            name = f"batch_spectrum, support and mass, B = {count}"
            yield a, name, 1, lambda a=a, b=alpha, n=count: law(a, b, n).support, None
        for count, repeats, target in ((2, 3, 5), (4, 1, None)):
            name = f"risk curve of 1,000 epochs, B = {count}"
            yield a, name, repeats, lambda a=a, b=alpha, n=count: curve(a, b, n).risk(epochs), target
    for count in (8, 16):
        name = f"risk curve of 1,000 epochs, B = {count}"
        yield 0.25, name, 1, lambda n=count: curve(0.25, 0.4, n).risk(epochs), None
    yield 0.25, "batch_spectrum, support and mass, B = 16", 1, lambda: law(0.25, 0.4, 16).support, None
    for count in (4, 8):
        name = f"the same with Sigma = [1, 100], B = {count}"
        yield 0.5, name, 1, lambda n=count: law(0.5, 0.005, n, [1.0, 100.0]).support, None
    name = "the same with 50 eigenvalues of a power law, B = 8"
    yield 0.5, name, 1, lambda: law(0.5, 0.1, 8, power(1.2, 50)).support, None
    for most in (1, 8):
        name = f"best recipe of four batches, at most {most} epochs"
        yield 0.5, name, 1, lambda k=most: asymptotics.best_recipe(0.5, 0.5, batches=4, epochs=k), None
    for size, count, target in ((50, 3, None), (200, 4, 10)):
        name, sigma = f"risk curve of {size} eigenvalues of Sigma, B = {count}", power(1.0, size)
        yield 0.5, name, 1, lambda n=count, s=sigma: curve(0.5, 0.5, n, covariance=s).risk(epochs), target


def speed():
    """Every question at both of the paper's settings, in units of the eigenvalues of a 1000 x 1000 matrix."""
    matrix = np.random.default_rng(0).standard_normal((1000, 1000))
    matrix = matrix + matrix.T
    one, _ = _timed(lambda: np.linalg.eigvalsh(matrix), repeats=5)
    made = table("asymptotics: speed", "aspect", "what", "units", "target")
    for aspect, name, repeats, ask, target in questions():
        seconds, found = _timed(ask, repeats)
        assert "density" not in name or np.isfinite(found).all()
        made.add_row(f"{aspect:g}", name, f"{seconds / one:.2f}", f"<= {target}" if target else "")
    made.caption = f"one unit: eigenvalues of a 1000 x 1000 matrix, {one:.3f} s"
    return made


def finite_sizes():
    """Compare with exact results at finite n: the mean over draws, its largest relative distance, and its slope."""
    made = table(
        "asymptotics: largest relative distance of exact finite risk from the limit (target 2% at n = 500)",
        "aspect", "B", *(f"n = {n}" for n in SIZES), "standard error at 500", "slope, n <= 160",
    )  # fmt: skip
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
            made.add_row(f"{aspect:g}", str(batches), *cells, f"{100 * noise:.2f}%", f"{slope:.2f}")
    return made


def _total(n, aspect, batches, alpha, seed):
    p = round(aspect * n)
    bias, variance = finite_risk(rs.gaussian(n, p, seed=seed), batches, alpha, EPOCHS)
    return max(0.0, 1 - n / p) + bias + variance


if __name__ == "__main__":
    show(speed, finite_sizes, width=130)
