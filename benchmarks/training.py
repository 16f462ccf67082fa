"""As people train: torch's shuffled samples on data of ordinary size, against drawing orders and against training.

Run with `python -m benchmarks.training`; the linear probe runs in a process of its own, whose memory is measured.
"""

import multiprocessing
import resource
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import reshuffle as rs
from benchmarks import timing
from benchmarks.core import table

EPOCHS = [1, 10, 100]


def digits() -> tuple[np.ndarray, np.ndarray]:
    """The digits of scikit-learn, standardised, without the pixels that never change."""
    from sklearn.datasets import load_digits

    data = load_digits()
    X = data.data[:, data.data.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0), data.target - data.target.mean()


def digits_against_drawn_orders() -> Table:
    """The training loss of digits in batches of 32 from a cold start, against drawing orders to the same error."""
    X, y = digits()
    made = table("Digits, 1797 x 61, batches of 32", "what", "measured", "target")
    for recipe in ({"step": 0.01}, {"step": 0.01, "penalty": 0.1}, {"step": 0.001, "momentum": 0.9}):
        words = ", ".join(f"{name} = {value:g}" for name, value in recipe.items())

        def ask(recipe: dict[str, float] = recipe, **more: object) -> rs.Run:
            run = rs.descend(rs.LeastSquares(X, y), rs.SampleReshuffling(batch_size=32), **recipe, **more)
            run.training_loss(EPOCHS)
            return run

        seconds, run = timing.timed(ask)
        error = float(run.training_loss_error(EPOCHS).max())
        made.add_row(f"{words}: training loss at 1, 10, 100, {run.method}", f"{seconds:.2f} s", "<= 1 s")
        made.add_row("  its error", f"{error:.1e}", "<= 5e-4")
        drawn, sampled = timing.timed(lambda: ask(method="sampling", rtol=0.1))
        rough = float(sampled.training_loss_error(EPOCHS).max())
        slower = drawn * (rough / error) ** 2 / seconds
        made.add_row(
            f"  drawing orders to that error (scaled up from {rough:.1e})",
            f"{slower:,.0f} x slower",
            ">= 50 x",
        )
    return made


def _probe(pipe: "multiprocessing.connection.Connection", n: int, p: int, batch: int, step: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) * np.arange(1, p + 1) ** -0.5
    X /= np.sqrt(np.square(X).sum(axis=1).mean())
    y = X @ rng.standard_normal(p) + rng.standard_normal(n)
    start = time.perf_counter()
    run = rs.descend(rs.LeastSquares(X, y), rs.SampleReshuffling(batch_size=batch), step=step)
    loss, iterate = float(run.training_loss(100)), run.iterate(100)
    seconds = time.perf_counter() - start
    error, off = float(run.training_loss_error(100)), float(run.iterate_error(100))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    trained, spread = _trained(X, y, batch, step)
    size = float(np.linalg.norm(iterate))
    pipe.send((seconds, loss, error, off / size, memory, trained, (spread / off) ** 2))


def _trained(X: np.ndarray, y: np.ndarray, batch: int, step: float) -> tuple[float, float]:
    """Seconds of training one run of 100 epochs with torch (scaled up from 2), and how far two runs are apart."""
    import torch

    data, target = torch.from_numpy(X), torch.from_numpy(y)
    start, ends = time.perf_counter(), []
    for _ in range(2):
        weights = torch.zeros(X.shape[1], dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.SGD([weights], lr=step)
        for _ in range(2):
            for rows in torch.randperm(len(y)).split(batch):
                optimizer.zero_grad()
                (((data[rows] @ weights - target[rows]) ** 2).mean() / 2).backward()
                optimizer.step()
        ends.append(weights.detach().numpy())
    return (time.perf_counter() - start) * 25, float(np.linalg.norm(ends[0] - ends[1])) / 2**0.5


def linear_probe(n: int = 50_000, p: int = 768, batch: int = 256, step: float = 1.0) -> Table:
    """A linear head on features of a frozen network: mean iterate and loss after 100 epochs."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    worker = multiprocessing.get_context("spawn").Process(target=_probe, args=(theirs, n, p, batch, step))
    worker.start()
    seconds, loss, error, share, memory, trained, runs = ours.recv()
    worker.join()
    made = table(f"A linear probe, n = {n:,}, p = {p}, batches of {batch}", "what", "measured", "target")
    made.add_row("mean iterate and loss at 100 epochs", f"{seconds:.1f} s", "<= 60 s")
    made.add_row("  largest memory", f"{memory:.2f} GB", "<= 4 GB")
    made.add_row("  loss; relative error of the iterate", f"{loss:.6f} +- {error:.1e}; {share:.1e}", "")
    made.add_row("training one run with torch (100 epochs, from 2)", f"{trained:.0f} s", "")
    made.add_row("  runs whose mean iterate would be as accurate", f"{runs:,.0f}", "")
    return made


def main() -> None:
    """Print all tables."""
    console = Console(width=140)
    console.print(digits_against_drawn_orders())
    console.print(linear_probe())


if __name__ == "__main__":
    main()
