"""`make demo`: plan without training, train, and check the predicted error on held-out rows."""

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
    """Print the three steps, and write the picture to the file that is named, out/demo.png by default."""
    path = Path(arguments[0] if arguments else "out/demo.png")
    runs = int(arguments[1]) if len(arguments) > 1 else RUNS
    seen, held_out = patients()
    console = Console(highlight=False)
    console.print()
    paragraph(
        console,
        f"[bold]{len(seen.y) + len(held_out.y)} patients with diabetes[/bold], ten measurements of each, with "
        f"their squares and products. How ill are they a year later? {len(seen.y)} of them are for "
        f"training, {len(held_out.y)} are held out until the end.",
    )
    plan = show_plan(console, seen)
    found = show_training(console, plan, held_out, runs)
    show_check(console, plan, held_out)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(plan, EPOCHS, found).savefig(path, dpi=130)
    paragraph(console, f"There is a picture in [bold]{path}[/bold]. For a table of your own:")
    console.print("    .venv/bin/reshuffle advise --data mine.csv --target price\n")


def paragraph(console, words):
    """Print a paragraph."""
    console.print(Padding(words, (0, 0, 1, 0)), width=min(console.width, 96))


def show_plan(console, seen):
    """Print and return the plan: how to train, and which error to expect."""
    console.print("[bold cyan]1. Without training[/bold cyan]")
    begin = time.perf_counter()
    plan = rs.plan(seen.X, seen.y)
    took, best = time.perf_counter() - begin, plan.best
    predicted, error = as_root(plan.test_error, plan.standard_error)
    paragraph(
        console,
        "Every batch size, learning rate and stopping time up to 1,000 epochs is compared by leaving out each "
        f"patient in turn. That took [bold]{took:.1f} seconds[/bold], and this is the advice:",
    )
    console.print(f"    batches of {best.batch_size}, learning rate {best.step:.3g}, ", end="")
    console.print(f"[bold]stop after {best.epochs} epochs[/bold]")
    console.print(
        f"    expect an error of [bold]{predicted:.1f} ± {error:.1f}[/bold] on new patients ", end=""
    )
    console.print(f"(least squares: {np.sqrt(plan.least_squares.mean_square):.1f})\n")
    return plan


def show_training(console, plan, held_out, runs):
    """Train `runs` times, compare with the computed errors, and return those of the runs, as `trained` does."""
    console.print("[bold cyan]2. With training[/bold cyan]")
    begin = time.perf_counter()
    expected = np.sqrt(computed(plan, held_out, EPOCHS))
    between = time.perf_counter()
    with console.status(f"training {runs} times ..."):
        found = trained(plan, held_out, EPOCHS, runs)
    end = time.perf_counter()
    paragraph(
        console,
        f"Now train the same recipe {runs} times, each time with new shuffles: {end - between:.1f} seconds. "
        f"Computing the mean over all possible shuffles took {between - begin:.2f}. The error on the "
        "held-out patients:",
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
    console.print(Padding(table, (0, 0, 1, 2)))
    return found


def show_check(console, plan, held_out):
    """Compare the predicted error with the one on the held-out patients."""
    console.print("[bold cyan]3. On the held-out patients[/bold cyan]")
    rows, responses = prepared(plan, held_out)
    squares = np.square(responses - plan.run.predict(rows, plan.best.epochs))
    error = squares.std(ddof=1) / np.sqrt(len(squares))
    apart = abs(squares.mean() - plan.test_error) / np.hypot(plan.standard_error, error)
    predicted, found = as_root(plan.test_error, plan.standard_error), as_root(squares.mean(), error)
    paragraph(
        console,
        f"After {plan.best.epochs} epochs an error of {predicted[0]:.1f} ± {predicted[1]:.1f} was predicted. "
        f"[bold]Found: {found[0]:.1f} ± {found[1]:.1f}[/bold], which is {apart:.1f} standard errors away.",
    )


def as_root(mean_square, error):
    """Return a root mean square with its standard error."""
    root = np.sqrt(mean_square)
    return root, error / (2 * root)


if __name__ == "__main__":
    main(sys.argv[1:])
