"""Kernels, probes and lazy networks beside what they spare: eigendecompositions, sweeps and training.

python -m benchmarks.models [kernel samples] [digits] [probe rows]

A sweep is that of DINOv2's linear evaluation in its size: 52 heads, here 13 learning rates times 4 batch sizes, 10
epochs each. One head of each batch size is timed with torch, and stands for the 13 of its size; where the others
end is computed by training all 13 at once in numpy, so that the sweep can choose on validation rows. The plan
chooses without these.
"""

import time
import warnings
from collections.abc import Callable

import numpy as np
import scipy.linalg
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import reshuffle as rs
from benchmarks.harness import arguments, batches, timed

RATES = np.geomspace(1e-4, 1.0, 13)
BATCH_SIZES = (32, 64, 128, 256)
SWEPT_EPOCHS = 10


def kernel(samples: int) -> None:
    """All epochs of kernel descent, in units of one eigendecomposition of the kernel."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((samples, 10))
    targets = np.sin(X) + 0.3 * rng.standard_normal(X.shape)
    K = np.exp(-0.05 * np.square(X[:, np.newaxis] - X).sum(axis=2)) if samples <= 2000 else _rbf(X, 0.05)

    def decomposed() -> None:
        scipy.linalg.eigh(K)

    def answered() -> np.ndarray:
        problem = rs.LeastSquares.from_kernel(K, targets)
        run = rs.descend(problem, rs.SampleReshuffling(batch_size=128), step=0.5)
        return np.asarray(run.training_loss(np.geomspace(1, 1e4, 50).round()))

    # Before and after: on a machine that has other things to do, neither alone would be a measure.
    before, took, after = _clocks(decomposed), _clocks(answered), _clocks(decomposed)
    wall, processor = 2 * took / (before + after)
    print(
        f"kernel of {samples} samples, 10 outputs, batches of 128: losses at 50 epochs in {took[0]:.1f} s, "
        f"{wall:.1f} eigendecompositions of it, by processor time {processor:.1f} (wanted at 5,000: at most 3.6)"
    )


def _clocks(work: Callable[[], object]) -> np.ndarray:
    """Seconds of the wall and of all processors."""
    begin = np.array([time.perf_counter(), time.process_time()])
    work()
    return np.array([time.perf_counter(), time.process_time()]) - begin


def _rbf(X: np.ndarray, gamma: float) -> np.ndarray:
    squares = np.square(X).sum(axis=1)
    return np.asarray(np.exp(-gamma * np.maximum(squares[:, np.newaxis] + squares - 2 * X @ X.T, 0.0)))


def lazy(digits: int, width: int = 512) -> None:
    """A two-layer network on digits: its tangent, what 100 epochs do to it, and really training it."""
    images, labels = load_digits(return_X_y=True)
    torch.manual_seed(0)
    inputs = torch.tensor(images[:digits] / 16, dtype=torch.float32)
    data = TensorDataset(inputs, torch.tensor(labels[:digits]))
    loader = DataLoader(data, batch_size=32, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loop = rs.torch.recipe(optimizer, loader, outputs=10)

    def answered() -> tuple[rs.torch.LazyNetwork, rs.Run | rs.torch.DrawnRuns, float]:
        network = rs.torch.linearize(model, loader)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rs.AccuracyWarning)
            run = network.descend(loop)
            return network, run, float(network.loss(run, np.arange(101))[-1])

    took, (network, run, loss) = timed(answered)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rs.AccuracyWarning)
        spread, (mean, std) = timed(lambda: network.predict(run, None, 100, return_std=True))
    moved = np.linalg.norm(mean - network.before)
    off = np.linalg.norm(std) / 4 if isinstance(run, rs.torch.DrawnRuns) else np.nan

    def trained() -> None:
        hot = torch.eye(10)
        for _ in range(100):
            for features, classes in loader:
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(features), hot[classes]).backward()
                optimizer.step()

    real, _ = timed(trained)
    print(
        f"width {width} on {digits} digits, 10 outputs, a tangent kernel of {10 * digits} rows: 100 epochs by "
        f"{run.method} in {took:.1f} s (wanted: at most 60 s on two cores), loss {loss:.4f}; spread over seeds "
        f"{np.linalg.norm(std) / moved:.2%} of how far outputs move, in {spread:.1f} s more; standard error of the "
        f"mean {off / moved:.2%}; training it {real:.1f} s, 30 runs {30 * real:.0f} s, {30 * real / took:.1f} "
        "times as long"
    )


def probe(rows: int) -> None:
    """Learning rate and batch size of a linear probe: a plan beside a sweep."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((10, 384)) / 12
    mixing = rng.standard_normal((384, 384)) * np.geomspace(2, 0.04, 384) / np.sqrt(384)

    def drawn(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.integers(10, size=count)
        features = centres[labels] + rng.standard_normal((count, 384)) @ mixing.T
        features += 0.5 * rng.standard_normal((count, 384))
        return np.column_stack([features, np.ones(count)]), np.eye(10)[labels]

    training, validation, held_out = drawn(rows), drawn(rows // 10), drawn(rows // 2)
    took, plan = timed(
        lambda: rs.plan(rs.LeastSquares(*training), batch_sizes=BATCH_SIZES, epochs=SWEPT_EPOCHS), 2
    )
    sweep, loaded = (
        sum(len(RATES) * _timed_head(*training, size, is_loaded) for size in BATCH_SIZES)
        for is_loaded in (False, True)
    )
    heads = {size: _all_heads(*training, size, 2 / 10 * RATES, SWEPT_EPOCHS) for size in BATCH_SIZES}
    ranked = [
        (_error(head, *validation), size, rate, head)
        for size, swept in heads.items()
        for rate, head in zip(RATES, swept, strict=True)
    ]
    _, size, rate, theirs = min(ranked, key=lambda entry: entry[0])
    best = plan.best
    mine = _all_heads(*training, best.batch_size, np.array([best.step]), int(best.epochs))[0]
    mine, theirs = _error(mine, *held_out), _error(theirs, *held_out)
    print(
        f"probe of {rows} x 384, 10 classes: a plan in {took:.1f} s (batches of {best.batch_size}, lr "
        f"{best.step * 5:.3g}); 52 heads with torch {sweep:.0f} s, {sweep / took:.0f} times as long, and with its "
        f"DataLoader {loaded:.0f} s, {loaded / took:.0f} times (batches of {size}, lr {rate:.3g}); held-out error "
        f"{mine:.5f} and {theirs:.5f}, {mine / theirs - 1:+.2%}"
    )


def _timed_head(X: np.ndarray, y: np.ndarray, batch_size: int, is_loaded: bool) -> float:
    """Seconds of ten epochs of one head, told from one; with torch's loader, or by indexing tensors."""
    inputs, targets = torch.tensor(X[:, :-1], dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=batch_size, shuffle=True)
    head = torch.nn.Linear(384, 10)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.01)

    def epoch() -> None:
        order = torch.randperm(len(inputs)).split(batch_size)
        batches = loader if is_loaded else ((inputs[rows], targets[rows]) for rows in order)
        for features, wanted in batches:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(head(features), wanted).backward()
            optimizer.step()

    return SWEPT_EPOCHS * timed(epoch, 1 if is_loaded else 2)[0]


def _all_heads(X: np.ndarray, y: np.ndarray, batch_size: int, steps: np.ndarray, epochs: int) -> np.ndarray:
    """Heads (steps, p, t) of several steps, trained beside each other in the same order."""
    rng, heads = np.random.default_rng(1), np.zeros((len(steps), X.shape[1], y.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(epochs):
            for rows in batches(rng, len(X), batch_size):
                missed = X[rows] @ heads - y[rows]
                heads -= steps[:, np.newaxis, np.newaxis] / len(rows) * (X[rows].T @ missed)
    return heads


def _error(head: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        found = float(np.square(X @ head - y).mean())
    return found if np.isfinite(found) else np.inf


def main() -> None:
    """At the sizes asked for; by default those that the goals are about."""
    given = arguments(__doc__, _samples=5000, _digits=1000, _rows=20_000)
    for part, size in ((kernel, given.samples), (lazy, given.digits), (probe, given.rows)):
        if size:
            part(size)


if __name__ == "__main__":
    main()
