"""The free-probability engine: accuracy against closed forms, speed against peers, all in one run.

Run with ``python -m benchmarks.free_spectrum``; ``--part`` chooses one table or several.
"""

from functools import lru_cache

import numpy as np
from rich.console import Console
from rich.table import Table
from tests.free.oracles import TwoBatchCurve, anticommutator_density

from benchmarks import free_survey
from benchmarks.harness import arguments, processor
from benchmarks.peers import (
    fitted_eigenvalues,
    lean_iteration,
    paper_algorithm,
    plain_iteration,
    polynomial_roots,
    semicircular_iteration,
)
from reshuffle import free

POINTS = 400
MANY = 10_000
CASES = ((0.5, 0.2, (0.09987126, 0.72195051)), (3.0, 0.1, (0.01079049, 0.82682557)))


def clock(function, repeats=5):
    """Return the least processor time of several runs and the last answer."""
    return processor(function, repeats)


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


def fresh(make, count=5):
    """Return spectra that have answered nothing yet, their equations set up."""
    made = [make() for _ in range(count)]
    for s in made:
        _ = s.engine.system
    return iter(made)


def two_batch_rows(table):
    """Measure precision and speed of the two-batch law."""
    for ratio, variance, edges in CASES:
        name = f"two-batch, ratio {ratio:g}, variance {variance:g}"
        s = two_batch(ratio, variance)
        t = np.linspace(edges[0] + 1e-3, edges[1] - 1e-3, POINTS)
        many = np.linspace(t[0], t[-1], MANY)
        waiting = fresh(lambda r=ratio, v=variance: two_batch(r, v))
        ours, density = clock(lambda t=t, w=waiting: next(w).density(t))
        s.density(t)
        again, _ = clock(lambda s=s, t=t: s.density(t))
        waiting = fresh(lambda r=ratio, v=variance: two_batch(r, v))
        all_of_them, fine = clock(lambda t=many, w=waiting: next(w).density(t))
        curve = TwoBatchCurve(ratio, variance)
        error = np.abs(density - curve.density(t)).max()
        table.add_row(name, "largest error", f"{error:.1e}", "1e-9")
        error = np.abs(fine[::25] - curve.density(many[::25])).max()
        table.add_row(name, f"largest error, {MANY} points", f"{error:.1e}", "1e-9")
        table.add_row(name, "|mass - 1|", f"{abs(s.measure.mass - 1):.1e}", "1e-7")
        shift = np.abs(np.array(s.support[0]) - edges).max()
        table.add_row(name, "edges, against 8 known digits", f"{shift:.1e}", "1e-8")
        atom = abs(sum(m for _, m in s.atoms) - max(0.0, 1 - 2 / ratio))
        table.add_row(name, "atom mass error", f"{atom:.1e}", "1e-8")
        table.add_row(name, f"seconds, {POINTS} points, first time", f"{ours:.3f}", "")
        table.add_row(name, f"{MANY} points, times as long", f"{all_of_them / ours:.1f}", "")
        table.add_row(name, f"{POINTS} points again, times faster", f"{ours / again:.0f}", "")
        peer_rows(table, name, ours, again, t, density, (ratio, variance))
        few = t[[POINTS // 2]]
        slow, values = clock(lambda few=few, r=ratio, v=variance: paper_algorithm.density(few, r, v), 1)
        slow *= POINTS / len(few)
        table.add_row(
            name, "paper's algorithm, seconds (scaled)", f"{slow:.0f}", f"{len(few)} point measured"
        )
        table.add_row(name, "paper's algorithm, error", f"{np.abs(values - s.density(few)).max():.1e}", "")
        table.add_row(name, "times faster than it", f"{slow / ours:.0f}", "10000")


def peer_rows(table, name, ours, again, t, density, law):
    """Measure how others compute the same density at the same points, and how far off they are."""
    plain, (values, counts) = clock(lambda: plain_iteration.density(t, *law), 1)
    error = np.abs(values - density).max()
    table.add_row(
        name,
        "plain iteration: seconds, error",
        f"{plain:.2f}, {error:.0e}",
        f"{counts.mean():.0f} steps each",
    )
    table.add_row(name, "times faster than it", f"{plain / ours:.0f}", "30")
    table.add_row(name, "times faster than it, second time", f"{plain / again:.0f}", "100")
    lean, (values, counts) = clock(lambda: lean_iteration.density(t, *law), 3)
    error = np.abs(values - density).max()
    table.add_row(
        name, "lean iteration: seconds, error", f"{lean:.2f}, {error:.0e}", f"{counts.mean():.0f} steps each"
    )
    table.add_row(name, "times faster than it", f"{lean / ours:.0f}", "15")
    roots, values = clock(lambda: polynomial_roots.two_batch(t, TwoBatchCurve(*law)), 3)
    error = np.abs(values - density).max()
    note = "its polynomial was derived by hand"
    table.add_row(name, "polynomial method: times our time, error", f"{roots / ours:.1f}, {error:.0e}", note)
    if not fitted_eigenvalues.available():
        table.add_row(name, "freealg", "not installed", "fits sampled eigenvalues")
        return
    eigenvalues = np.linalg.eigvalsh(two_batch(*law).matrix(1000, seed=0))
    fitted, values = clock(lambda: fitted_eigenvalues.density(eigenvalues, t), 1)
    error = np.abs(values - density).max()
    table.add_row(
        name,
        "freealg: times our time, error",
        f"{fitted / ours:.1f}, {error:.0e}",
        "fits 1000 sampled eigenvalues",
    )


def closed_form_rows(table):
    """Measure precision against closed forms."""
    x, y = free.variables(free.Semicircle(), free.Semicircle())
    t = np.linspace(-3.32, 3.32, POINTS)
    s = free.spectrum(x * y + y * x)
    error = np.abs(s.density(t) - anticommutator_density(t)).max()
    table.add_row("anticommutator of semicirculars", "largest error", f"{error:.1e}", "1e-10")
    waiting = fresh(lambda: free.spectrum(x * y + y * x))
    ours, found = clock(lambda: next(waiting).density(t))
    roots, values = clock(lambda: polynomial_roots.anticommutator(t))
    note = f"{roots / ours:.1f}, {np.abs(values - found).max():.0e}"
    table.add_row(
        "anticommutator of semicirculars",
        "polynomial method: times our time, error",
        note,
        "a cubic, by hand",
    )
    slow, (values, counts) = clock(lambda: semicircular_iteration.anticommutator(t[::10]), 1)
    table.add_row(
        "anticommutator of semicirculars",
        "averaged iteration (free-matrix-laws): times our time, error",
        f"{10 * slow / ours:.0f}, {np.abs(values - found[::10]).max():.0e}",
        f"{counts.mean():.0f} steps each, pencil by hand",
    )
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


def brown_rows(table):
    """Measure Brown measures against the circular and the elliptic law."""
    grid = np.linspace(-0.65, 0.65, 20)
    z = (grid[:, None] + 1j * grid).ravel()
    c = free.variables(free.Circular(), names=["c"])[0]
    x, y = free.variables(free.Semicircle(0.75), free.Semicircle(0.25))
    # The ellipse has half axes 1 + t and 1 - t, t the difference of the variances.
    cases = (
        ("circular law", c, 1 / np.pi, z),
        ("elliptic law", x + 1j * y, 1 / (np.pi * 0.75), z.real + 0.5j * z.imag),
    )
    for name, element, exact, points in cases:
        seconds, answer = clock(lambda e=element, p=points: free.brown(e).resolve(p), 1)
        error = np.abs(answer.value - exact).max()
        table.add_row(
            name, f"seconds, {len(points)} points, largest error", f"{seconds:.2f}, {error:.0e}", "1e-9"
        )


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
        laws = [free.MarchenkoPastur(0.5, 0.3)] * m
        waiting = fresh(lambda laws=laws: free.spectrum(sum(free.variables(*laws))))
        t = np.linspace(0.05, 0.6 * m, POINTS)
        seconds[m], _ = clock(lambda w=waiting, t=t: next(w).density(t))
    table.add_row("sum of 4 variables", "times the cost of 2", f"{seconds[4] / seconds[2]:.2f}", "3")
    for batches in (2, 3, 4):
        build, (s, system) = processor(lambda b=batches: (made := symmetrised(b), made.engine.system))
        t = np.linspace(0.1, 0.7, POINTS)
        spent, answer = clock(lambda s=s, t=t: s.resolve(t), 1)
        name = f"symmetrised product of {batches}"
        sizes = f"{s.engine.pencil.size}, {system.unknowns}, {build:.2f}, {spent:.2f}"
        table.add_row(name, f"pencil size, unknowns, seconds to build, for {POINTS}", sizes, "")
        table.add_row(
            name, "points converged, largest error", f"{answer.converged.sum()}, {answer.error.max():.0e}", ""
        )
        found, mass = clock(lambda s=s: s.measure.mass, 1)
        table.add_row(
            name, "support, atoms, mass: seconds, |mass - 1|", f"{found:.2f}, {abs(mass - 1):.0e}", ""
        )


PARTS = {
    "two-batch": two_batch_rows,
    "closed-forms": closed_form_rows,
    "brown": brown_rows,
    "atoms": atom_rows,
    "costs": cost_rows,
}


def main(given=None):
    """Print all measurements, or some, and those of the survey."""
    words = arguments(__doc__, given, part=("", ", ".join([*PARTS, "survey"]) + "; all unless given")).part
    asked = words.split(",") if words else [*PARTS, "survey"]
    for name, rows in PARTS.items():
        if name in asked:
            table = Table("case", "measure", "value", "wanted", title=f"free.spectrum, {POINTS} points")
            rows(table)
            Console(width=150).print(table)
    if "survey" in asked:
        free_survey.main([])


if __name__ == "__main__":
    main()
