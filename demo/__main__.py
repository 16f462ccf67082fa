"""`make demo`: predict, train, compare, and keep a promise."""

import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

import reshuffle as rs
from demo.patients import patients
from demo.picture import picture
from demo.training import computed, prepared, trained

EPOCHS = 2 ** np.arange(9)
RUNS = 100


def main(arguments):
    """Tell the story, and write the picture to the file that is named, out/demo.png by default."""
    path = Path(arguments[0] if arguments else "out/demo.png")
    runs = int(arguments[1]) if len(arguments) > 1 else RUNS
    seen, locked = patients()
    told = Console(highlight=False)
    told.print()
    tell(
        told,
        f"[bold]{len(seen.y) + len(locked.y)} patients with diabetes[/bold], ten measurements of each, with their "
        f"squares and products. How ill are they a year later? {len(seen.y)} of them are there to learn from, "
        f"{len(locked.y)} are locked away until the end.",
    )
    plan = tell_the_plan(told, seen)
    found = tell_the_training(told, plan, locked, runs)
    tell_the_promise(told, plan, locked)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(plan, EPOCHS, found).savefig(path, dpi=130)
    tell(told, f"There is a picture in [bold]{path}[/bold]. For a table of your own:")
    told.print("    .venv/bin/reshuffle advise --data mine.csv --target price\n")


def tell(told, words):
    """Print a paragraph."""
    told.print(Padding(words, (0, 0, 1, 0)), width=min(told.width, 96))


def tell_the_plan(told, seen):
    """Say how to train, and what will come of it; return the plan."""
    told.print("[bold cyan]1. Without training[/bold cyan]")
    begin = time.perf_counter()
    plan = rs.plan(seen.X, seen.y)
    took, best = time.perf_counter() - begin, plan.best
    promised, error = as_root(plan.test_error, plan.standard_error)
    tell(
        told,
        "Every batch size, learning rate and stopping time up to 1,000 epochs is compared by leaving out each "
        f"patient in turn. That took [bold]{took:.1f} seconds[/bold], and this is the advice:",
    )
    told.print(f"    batches of {best.batch_size}, learning rate {best.step:.3g}, ", end="")
    told.print(f"[bold]stop after {best.epochs} epochs[/bold]")
    told.print(f"    expect an error of [bold]{promised:.1f} ± {error:.1f}[/bold] on new patients ", end="")
    told.print(f"(least squares: {np.sqrt(plan.least_squares.mean_square):.1f})\n")
    return plan


def tell_the_training(told, plan, locked, runs):
    """Train so many times, and show it beside what was computed; return what the runs said of the locked rows."""
    told.print("[bold cyan]2. With training[/bold cyan]")
    begin = time.perf_counter()
    expected = np.sqrt(computed(plan, locked, EPOCHS))
    between = time.perf_counter()
    with told.status(f"training {runs} times ..."):
        found = trained(plan, locked, EPOCHS, runs)
    end = time.perf_counter()
    tell(
        told,
        f"Now the same recipe is really trained, {runs} times, each with shuffles of its own: {end - between:.1f} "
        f"seconds. What was computed for the mean over all shuffles that there are took {between - begin:.2f}. "
        "The error on the patients that were locked away:",
    )
    averaged = np.sqrt(np.square(found.mean(axis=0)).mean(axis=1))
    single = np.sqrt(np.square(found).mean(axis=2))
    headings = "epochs", "computed", f"{runs} real runs, averaged", "single runs"
    table = Table(*headings, box=None, padding=(0, 2), header_style="dim")
    for column in table.columns:
        column.justify = "right"
    for place, epoch in enumerate(EPOCHS):
        ends = f"{single[:, place].min():.1f} to {single[:, place].max():.1f}"
        table.add_row(f"{epoch}", f"{expected[place]:.2f}", f"{averaged[place]:.2f}", ends)
    told.print(Padding(table, (0, 0, 1, 2)))
    return found


def tell_the_promise(told, plan, locked):
    """Open the lock."""
    told.print("[bold cyan]3. The promise[/bold cyan]")
    rows, responses = prepared(plan, locked)
    squares = np.square(responses - plan.run.predict(rows, plan.best.epochs))
    error = squares.std(ddof=1) / np.sqrt(len(squares))
    apart = abs(squares.mean() - plan.test_error) / np.hypot(plan.standard_error, error)
    promised, found = as_root(plan.test_error, plan.standard_error), as_root(squares.mean(), error)
    tell(
        told,
        f"After {plan.best.epochs} epochs an error of {promised[0]:.1f} ± {promised[1]:.1f} was promised. "
        f"[bold]Found: {found[0]:.1f} ± {found[1]:.1f}[/bold], which is {apart:.1f} standard errors away.",
    )


def as_root(mean_square, error):
    """Return a root mean square with its standard error."""
    root = np.sqrt(mean_square)
    return root, error / (2 * root)


if __name__ == "__main__":
    main(sys.argv[1:])
