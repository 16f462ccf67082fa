"""Scaling laws of one pass beside published ones: exponents, the critical batch size, and reused data.

``python -m benchmarks.scaling_laws --only frontier_errors`` prints the one table whose name has this in it.
"""

import math

import numpy as np
from rich.table import Table

from benchmarks.harness import arguments, show, table
from reshuffle import asymptotics
from reshuffle._arrays import FloatArray
from reshuffle.asymptotics import PowerLaw
from reshuffle.asymptotics.fresh_samples import Cells, FreshSamples, LongRunVariance, grouped

FEATURES = 8000
"""Of the data, in the models with random features."""


def frontiers() -> Table:
    """Fitted exponents of the compute-optimal frontier beside the theory's."""
    made = table(
        "compute-optimal frontier, the first p features, batch size 1, no label noise",
        "a, b, step", "compute", "risk, fitted", "theory", "size, fitted", "theory",
    )  # fmt: skip
    for a, b, step, top in (
        (1.2, 0.1, 0.1, 1e10),
        (1.5, 0.3, 0.2, 1e10),
        (2.0, 0.0, 0.2, 1e10),
        (2.0, 1.0, 0.2, 1e10),
        (1.5, 2.5, 0.4, 1e10),
        (1.5, 2.5, 0.4, 1e14),
    ):
        found = asymptotics.compute_frontier(
            PowerLaw(a), PowerLaw(b), 1, step, np.geomspace(top / 1e4, top, 9)
        )
        slopes = found.risk_exponent, found.theory[0], found.size_exponent, found.theory[1]
        cells = (f"{slope:.3f}" for slope in slopes)
        made.add_row(f"{a:g}, {b:g}, {step:g}", f"{top / 1e4:.0e} to {top:.0e}", *cells)
    return made


def exact_risk(laws: tuple[float, float], size: int, batch_size: int, step: float, steps: int) -> float:
    """The risk of the first `size` features by the eigenvalues of the mean-square map, none grouped."""
    a, b = laws
    values = np.arange(1.0, size + 1) ** -a
    left = PowerLaw(a + b).total() - PowerLaw(a + b, size).total()
    gains = step**2 / batch_size * values**2
    kept = 1 - 2 * step * values + step**2 * (1 + 1 / batch_size) * values**2
    rates, modes = np.linalg.eigh(np.diag(kept) + np.sqrt(np.outer(gains, gains)))
    seen = modes.T @ np.sqrt(gains)
    start = seen * (modes.T @ (values * np.arange(1.0, size + 1) ** -b / np.sqrt(gains)))
    power = rates**steps
    return float(start @ power + left * (seen**2 @ ((1 - power) / (1 - rates))) + left)


def least_risk(laws: tuple[float, float], batch_size: int, step: float, budget: float, largest: int) -> float:
    """The least exact risk of all sizes up to `largest`: a grid of them, then every one around its best."""

    def risk(size: int) -> float:
        return exact_risk(laws, size, batch_size, step, math.floor(budget / (batch_size * size)))

    grid = np.unique(np.round(np.geomspace(1, min(largest, budget / batch_size), 25)).astype(int))
    best = int(np.argmin([risk(size) for size in grid]))
    return min(risk(size) for size in range(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)] + 1))


def frontier_errors() -> Table:
    """Stated errors of the least risk against those made, in 108 cases."""
    made = table(
        "errors of the least risk, 18 cases each: steps .1, .2, .3, batch sizes 1, 4, three budgets",
        "a, b", "covered", "largest made / stated", "stated / risk, median", "largest",
    )  # fmt: skip
    covered = cases = 0
    for laws in ((1.2, 0.1), (1.5, 0.3), (1.5, 0.5), (2.0, 0.0), (2.0, 1.0), (1.5, 2.5)):
        shares, stated = [], []
        for step in (0.1, 0.2, 0.3):
            for size in (1, 4):
                budgets = size * np.array([1e3, 1e4, 1e5])
                found = asymptotics.compute_frontier(*map(PowerLaw, laws), size, step, budgets)
                exact = [least_risk(laws, size, step, float(budget), 400) for budget in budgets]
                shares += list(np.abs(found.risk - exact) / found.error)
                stated += list(found.error / found.risk)
        within = int(np.sum(np.array(shares) <= 1))
        covered, cases = covered + within, cases + len(shares)
        size = f"{np.median(stated):.1e}", f"{max(stated):.1e}"
        made.add_row(f"{laws[0]:g}, {laws[1]:g}", f"{within} of {len(shares)}", f"{max(shares):.2g}", *size)
    made.add_row("all", f"{covered} of {cases}", "", "", "")
    return made


def random_features(
    size: int, variances: FloatArray, target: FloatArray, seed: int
) -> tuple[FloatArray, ...]:
    """Spectrum and source of a model of `size` random combinations of features, and the risk it cannot remove.

    `target` (v, t) holds coefficients of one response per column; source and rest are sums over the columns. The
    residual of the best fit is Gaussian and independent of the combinations, so that one pass is exact.
    """
    mixing = np.random.default_rng(seed).standard_normal((len(variances), size)) / math.sqrt(size)
    values, vectors = np.linalg.eigh(mixing.T @ (variances[:, np.newaxis] * mixing))
    seen = vectors.T @ (mixing.T @ (variances[:, np.newaxis] * target))
    rest = np.sum(variances[:, np.newaxis] * target**2) - np.sum(seen**2 / values[:, np.newaxis])
    return values, np.sum((seen / values[:, np.newaxis]) ** 2, axis=1), rest


PHASES = (
    ("Ia", 0.7, 0.3, lambda a, b: (-(2 * a + 2 * b - 1) / (2 * a + 1), 1 / (2 * a + 1))),
    ("II", 1.0, 0.7, lambda a, b: (-(2 * a + 2 * b - 1) / (2 * (a + b)), (b / a) / (1 + b / a))),
    ("III", 0.75, 1.2, lambda a, b: ((1 - 4 * a) / (4 * a), 0.5)),
)


def phases() -> Table:
    """Compute-optimal exponents of power-law random features: Paquette, Paquette, Xiao and Pennington (2024)."""
    made = table(
        "power-law random features, exact one pass on sampled features, sizes 20 to 800",
        "phase", "alpha, beta", "risk, fitted", "published", "size, fitted", "published",
    )  # fmt: skip
    sizes = np.unique(np.round(np.geomspace(20, 800, 14)).astype(int))
    compute = np.geomspace(1e4, 3e5, 9)
    for name, a, b, published in PHASES:
        index = np.arange(1.0, FEATURES + 1)
        variances, target = index ** (-2 * a), index[:, np.newaxis] ** -b
        risks = []
        for size in sizes:
            values, source, rest = random_features(int(size), variances, target, seed=int(size))
            steps = np.floor(compute / size)
            found = asymptotics.one_pass(values, source, 1, 0.3, steps, noise=math.sqrt(rest), cells=1024)
            risks.append(found.risk + rest)
        logs, places = np.log(np.array(risks)), np.log(sizes)
        best = [_lowest(places, column) for column in logs.T]
        fitted = [np.polyfit(np.log(compute), values, 1)[0] for values in np.transpose(best)]
        expected = published(a, b)
        slopes = fitted[1], expected[0], fitted[0], expected[1]
        made.add_row(name, f"{a:g}, {b:g}", *(f"{slope:.3f}" for slope in slopes))
    return made


def _lowest(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """The lowest point of the parabola through the best point and two neighbours on either side."""
    best = int(np.clip(np.argmin(y), 2, len(x) - 3))
    near = slice(best - 2, best + 3)
    curve = np.polynomial.Polynomial.fit(x[near], y[near], 2)
    place = float(np.clip(curve.deriv().roots()[0].real, x[near][0], x[near][-1]))
    return place, float(curve(place))


def sketched_regression() -> Table:
    """Exponents in model and data size: Lin, Wu, Kakade, Bartlett and Lee (2024), Gaussian sketch and prior."""
    made = table(
        "sketched regression, steps that decay geometrically, noise 1, prior I",
        "a", "N exponent, fitted", "published", "M exponent, fitted", "published",
    )  # fmt: skip
    for a in (1.5, 2.0):
        variances = np.arange(1.0, FEATURES + 1) ** -a
        sizes = np.array([25, 50, 100, 200])
        rests, risks = [], []
        samples = np.array([2000, 4000, 8000, 16_000, 32_000])
        for size in sizes:
            rests.append(_prior_features(int(size), variances, seed=int(size)))
        for count in samples:
            halvings = np.arange(count) // math.ceil(count / math.log2(count))
            step = 0.3 * 2.0 ** -halvings.astype(float)
            found = asymptotics.one_pass(PowerLaw(a), PowerLaw(0.0), 1, step, count, cells=64)
            risks.append(float(found.risk))
        effective = samples / np.log2(samples)
        data = np.polyfit(np.log(effective), np.log(risks), 1)[0]
        model = np.polyfit(np.log(sizes), np.log(rests), 1)[0]
        made.add_row(f"{a:g}", f"{data:.3f}", f"{(1 - a) / a:.3f}", f"{model:.3f}", f"{1 - a:.3f}")
    return made


def _prior_features(size: int, variances: FloatArray, seed: int) -> float:
    """What `size` random combinations leave of a truth with independent standard normal coordinates, on average."""
    mixing = np.random.default_rng(seed).standard_normal((len(variances), size)) / math.sqrt(size)
    values, vectors = np.linalg.eigh(mixing.T @ (variances[:, np.newaxis] * mixing))
    squares = np.sum((vectors.T @ (variances[:, np.newaxis] * mixing).T) ** 2, axis=1)
    # The features beyond those that are listed are not seen by any model.
    beyond = PowerLaw(float(-np.log(variances[1]) / math.log(2))).total() - variances.sum()
    return float(variances.sum() - np.sum(squares / values) + beyond)


def critical_batches() -> Table:
    """The critical batch size over target and model size: it follows the data, not the model."""
    made = table(
        "critical batch size, a = 1.5, b = 0.5, noise 1, best constant step",
        "target risk", "samples needed", "p = 1,000", "p = 10,000", "p = 1,000,000", "steps x samples at it",
    )  # fmt: skip
    for target in (0.3, 0.2, 0.15, 0.1):
        cells = [grouped(PowerLaw(1.5, size), PowerLaw(0.5, size), 64) for size in (1000, 10_000, 1_000_000)]
        # Single samples need the fewest samples, and batches without noise the fewest steps.
        samples, steps = ([_fewest_steps(one, size, target, 1.0) for one in cells] for size in (1.0, 1e12))
        critical = np.divide(samples, steps)
        size = max(1, round(critical[-1]))
        there = _fewest_steps(cells[-1], size, target, 1.0)
        made.add_row(
            f"{target:g}",
            f"{samples[-1]:.0f}",
            *(f"{one:.1f}" for one in critical),
            f"{there / steps[-1]:.2f} x {size * there / samples[-1]:.2f}",
        )
    return made


def _fewest_steps(cells: Cells, batch_size: float, target: float, noise: float) -> float:
    """The fewest steps to the target with any step size: a grid, then thirds of an interval."""
    shares = np.geomspace(1e-6, 0.999, 16)
    critical = LongRunVariance(cells, batch_size, 0.0).critical_step()

    def needed(share: float) -> float:
        return _steps_to(cells, batch_size, share * critical, target, noise)

    found = [needed(share) for share in shares]
    best = int(np.argmin(found))
    low, high = math.log(shares[max(best - 1, 0)]), math.log(shares[min(best + 1, len(shares) - 1)])
    for _ in range(12):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if needed(math.exp(left)) <= needed(math.exp(right)):
            high = right
        else:
            low = left
    return min(needed(math.exp((low + high) / 2)), found[best])


def _steps_to(cells: Cells, batch_size: float, step: float, target: float, noise: float) -> float:
    """The number of steps until the risk reaches the target, to a thousandth; inf if never."""
    if LongRunVariance(cells, batch_size, 0.0).limit(step, noise)[0] >= target:
        return math.inf
    modes = FreshSamples(cells.closest(), batch_size, step, noise)
    low, high = 0.0, 1e12
    # Risks on a grid between two numbers of steps; the first below the target narrows it down.
    while high > low * (1 + 1e-3) and high > low + 1e-3:
        grid = np.linspace(low, high, 33) if low else np.concatenate([[0.0], np.geomspace(1e-2, high, 64)])
        below = np.flatnonzero(modes.risk(grid) <= target)
        if not below.size:
            return math.inf
        low, high = float(grid[below[0] - 1]), float(grid[below[0]])
    return (low + high) / 2


def reuse() -> Table:
    """E(K, N): fresh rows that K epochs are worth, per row; in the limit with replacement, and reshuffled."""
    epochs = np.array([1, 2, 4, 8, 16, 64, 256])
    made = table("E(K, N), Sigma = I, noise 0.5", "N / p", "how", *(f"K = {count}" for count in epochs))
    for ratio in (2, 4, 8, 16, 32):
        values = _replaced_reuse(1 / ratio, epochs, noise=0.5)
        made.add_row(str(ratio), "with replacement, limit", *(f"{value:.2f}" for value in values))
    for ratio in (4, 16):
        values = [_reshuffled_reuse(ratio, int(count)) for count in epochs[:5]]
        made.add_row(
            str(ratio), "reshuffled, 40 runs of p = 40", *(f"{value:.2f}" for value in values), "", ""
        )
    return made


def _replaced_reuse(aspect: float, epochs: FloatArray, noise: float) -> list[float]:
    """E(K, N) of batches drawn with replacement, p/N -> aspect, each with the best of 200 constant steps."""
    critical = asymptotics.replacement_curve(aspect, 1.0).stability.critical_alpha
    curves = [
        asymptotics.replacement_curve(aspect, alpha, noise=noise)
        for alpha in critical * np.geomspace(1e-4, 0.98, 200)
    ]
    risks = np.min([curve.expected_risk(epochs).total for curve in curves], axis=0)
    return [aspect * _one_pass_time(float(risk), noise) for risk in risks]


def _one_pass_time(risk: float, noise: float) -> float:
    """Fresh rows per feature that one pass needs for a risk, Sigma = I and p -> infinity, with the best step.

    One pass over t p rows with the step theta m/p has R = L + (1 - L) exp(-theta (2 - theta) t), L = noise^2
    theta/(2 - theta); it is solved for t, and the least t of many theta taken.
    """
    theta = np.geomspace(1e-9, 1.0, 20_001)
    limit = noise**2 * theta / (2 - theta)
    reached = limit < risk
    times = np.log((1 - limit[reached]) / (risk - limit[reached])) / (theta * (2 - theta))[reached]
    return max(float(times.min()), 0.0)


def _reshuffled_reuse(ratio: int, epochs: int, p: int = 40, runs: int = 40) -> float:
    """The same for reshuffled single rows, trained: the best of several steps, on as many data sets as runs."""
    rng, n = np.random.default_rng(0), ratio * p
    X, noise = rng.standard_normal((runs, n, p)), 0.5 * rng.standard_normal((runs, n))
    starts = rng.standard_normal((runs, p))
    thetas = np.geomspace(0.02, 0.9, 10)
    errors = np.repeat(
        (starts / np.linalg.norm(starts, axis=1, keepdims=True))[np.newaxis], len(thetas), axis=0
    )
    each = np.arange(runs)
    for _ in range(epochs):
        orders = np.array([rng.permutation(n) for _ in range(runs)])
        for row in orders.T:
            x, eps = X[each, row], noise[each, row]
            residual = np.einsum("trj,rj->tr", errors, x) - eps
            errors -= thetas[:, np.newaxis, np.newaxis] / p * residual[:, :, np.newaxis] * x
    risks = (errors**2).sum(axis=2).mean(axis=1)
    return _one_pass_time(float(risks.min()), 0.5) / ratio


if __name__ == "__main__":
    word = arguments(__doc__, only=("", "tables whose name contains this")).only
    tables = (frontiers, frontier_errors, phases, sketched_regression, critical_batches, reuse)
    show(*(one for one in tables if word in one.__name__), width=150)
