"""The free-probability engine: accuracy against closed forms, speed against peers, all in one run.

Run with ``python -m benchmarks.free_spectrum``.
"""

import time
from functools import lru_cache

import numpy as np
from rich.console import Console
from rich.table import Table
from tests.free.oracles import TwoBatchCurve, anticommutator_density

from benchmarks.peers import paper_algorithm, plain_iteration
from reshuffle import free

POINTS = 400
CASES = ((0.5, 0.2, (0.09987126, 0.72195051)), (3.0, 0.1, (0.01079049, 0.82682557)))


def clock(function, repeats=5):
    """Return the best wall time of several runs and the last answer."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        answer = function()
        best = min(best, time.perf_counter() - start)
    return best, answer


def two_batch(ratio, variance):
    """Return the spectrum of w1 + w2 - (w1 w2 + w2 w1)/2."""
    x, y = free.variables(*[free.MarchenkoPastur(ratio, variance)] * 2)
    return free.spectrum(x + y - (x * y + y * x) / 2)


def symmetrised(batches):
    """Return 1 minus the average over all orders of the product of (1 - w_b)."""
    w = free.variables(*[free.MarchenkoPastur(0.5, 1 / (2.5 * batches))] * batches)

    @lru_cache(None)
    def over(subset):
        return sum((1 - w[b]) * over(subset - {b}) for b in subset) / len(subset) if subset else 1.0

    return free.spectrum(1 - over(frozenset(range(batches))))


def two_batch_rows(table):
    """Measure precision and speed of the two-batch law."""
    for ratio, variance, edges in CASES:
        name = f"two-batch, ratio {ratio:g}, variance {variance:g}"
        s = two_batch(ratio, variance)
        t = np.linspace(edges[0] + 1e-3, edges[1] - 1e-3, POINTS)
        ours, density = clock(lambda s=s, t=t: s.density(t))
        error = np.abs(density - TwoBatchCurve(ratio, variance).density(t)).max()
        table.add_row(name, "largest error", f"{error:.1e}", "1e-9")
        table.add_row(name, "|mass - 1|", f"{abs(s.measure.mass - 1):.1e}", "1e-7")
        shift = np.abs(np.array(s.support[0]) - edges).max()
        table.add_row(name, "edges, against 8 known digits", f"{shift:.1e}", "1e-8")
        atom = abs(sum(m for _, m in s.atoms) - max(0.0, 1 - 2 / ratio))
        table.add_row(name, "atom mass error", f"{atom:.1e}", "1e-8")
        table.add_row(name, f"seconds, {POINTS} points", f"{ours:.3f}", "")
        peer, (values, counts) = clock(lambda t=t, r=ratio, v=variance: plain_iteration.density(t, r, v), 1)
        table.add_row(name, "plain iteration, seconds", f"{peer:.2f}", f"{counts.mean():.0f} steps a point")
        table.add_row(name, "plain iteration, error", f"{np.abs(values - density).max():.1e}", "")
        table.add_row(name, "times faster than it", f"{peer / ours:.0f}", "10, aim 25")
        few = t[[POINTS // 2]]
        slow, values = clock(lambda few=few, r=ratio, v=variance: paper_algorithm.density(few, r, v), 1)
        slow *= POINTS / len(few)
        table.add_row(
            name, "paper's algorithm, seconds (scaled)", f"{slow:.0f}", f"{len(few)} point measured"
        )
        table.add_row(name, "paper's algorithm, error", f"{np.abs(values - s.density(few)).max():.1e}", "")
        table.add_row(name, "times faster than it", f"{slow / ours:.0f}", "10000")


def closed_form_rows(table):
    """Measure precision against closed forms."""
    x, y = free.variables(free.Semicircle(), free.Semicircle())
    t = np.linspace(-3.32, 3.32, POINTS)
    s = free.spectrum(x * y + y * x)
    error = np.abs(s.density(t) - anticommutator_density(t)).max()
    table.add_row("anticommutator of semicirculars", "largest error", f"{error:.1e}", "1e-10")
    sums = {
        "semicircle + semicircle": ((free.Semicircle(1.0), free.Semicircle(2.0)), free.Semicircle(3.0)),
        "free Poisson + free Poisson": (
            (free.FreePoisson(0.5), free.FreePoisson(1.2)),
            free.FreePoisson(1.7),
        ),
        "Bernoulli + Bernoulli": ((free.Bernoulli(), free.Bernoulli()), free.Arcsine()),
        "arcsine + arcsine": ((free.Arcsine(), free.Arcsine()), free.KestenMcKay(4)),
    }
    for name, (laws, law) in sums.items():
        low, high = law.support[0]
        t = np.linspace(low, high, POINTS + 2)[1:-1]
        found = free.spectrum(sum(free.variables(*laws))).density(t)
        error = np.max(np.abs(found - law.density(t)) / np.maximum(law.density(t), 1))
        table.add_row(name, "largest error", f"{error:.1e}", "1e-12")


def atom_rows(table):
    """Measure atoms, intervals and hard edges."""
    p, q = free.variables(free.Projection(0.3), free.Projection(0.4))
    s = free.spectrum(p + q)
    error = np.abs(np.array(s.atoms) - [[0.0, 0.3], [1.0, 0.1]]).max()
    table.add_row("projections 0.3 + 0.4", "atom places and masses, error", f"{error:.1e}", "1e-8")
    table.add_row("projections 0.3 + 0.4", "intervals, |mass - 1|", f"2, {abs(s.measure.mass - 1):.1e}", "")
    s = two_batch(2.0, 0.3)
    name = "two-batch, ratio 2 (hard edge at 0)"
    table.add_row(name, "left edge, |mass - 1|", f"{s.support[0][0]:g}, {abs(s.measure.mass - 1):.1e}", "")


def cost_rows(table):
    """Measure how the cost grows with variables and with degree."""
    seconds = {}
    for m in (2, 4):
        s = free.spectrum(sum(free.variables(*[free.MarchenkoPastur(0.5, 0.3)] * m)))
        t = np.linspace(0.05, 0.6 * m, POINTS)
        seconds[m], _ = clock(lambda s=s, t=t: s.density(t))
    table.add_row("sum of 4 variables", "times the cost of 2", f"{seconds[4] / seconds[2]:.2f}", "3")
    for batches in (2, 3, 4, 5):
        start = time.perf_counter()
        s = symmetrised(batches)
        build = time.perf_counter() - start
        count = {4: 40, 5: 8}.get(batches, POINTS)
        t = np.linspace(0.1, 0.7, count)
        spent, answer = clock(lambda s=s, t=t: s.resolve(t), 1)
        name = f"symmetrised product of {batches}"
        size = s.engine.pencil.size
        scaled = spent * POINTS / count
        note = "" if count == POINTS else f"{count} points measured"
        table.add_row(
            name, f"pencil size, seconds to build, for {POINTS}", f"{size}, {build:.2f}, {scaled:.2f}", note
        )
        table.add_row(
            name, "points converged, largest error", f"{answer.converged.sum()}, {answer.error.max():.0e}", ""
        )


def main():
    """Print all measurements."""
    table = Table("case", "measure", "value", "wanted", title=f"free.spectrum, {POINTS} points")
    for rows in (two_batch_rows, closed_form_rows, atom_rows, cost_rows):
        rows(table)
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
