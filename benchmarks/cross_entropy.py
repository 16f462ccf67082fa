"""Heads trained with cross-entropy by the recipe that is planned for squares, against a trained grid of 52 heads.

python -m benchmarks.cross_entropy [splits]

A recipe is planned for classes by `rs.plan`. At zero logits the curvature of the softmax of K classes is
(I - 11'/K) / K in place of I, at most 1 / K, so the planned step is taken times K. The batch size stays. 70 per
cent of the rows are learned from, a tenth of these are held out to stop: training ends at the epoch where their
loss is least, at most `LONGER` times as many as planned. The grid has 4 batch sizes and 13 learning rates, stopped
in the same way. Columns are accuracies on the other 30 per cent, means over splits:

squares: the planned head itself, by squared loss; planned epochs: cross-entropy, stopped after as many epochs as
planned; planned: stopped by held-out loss; swept: the head of the grid with the least held-out loss; best: the
learning rate and batch size of the grid with the highest mean accuracy on the test rows themselves. The last column
is the standard error of the difference between the best and the planned one, over splits.
"""

import numpy as np
from sklearn import datasets

import reshuffle as rs
from benchmarks.harness import arguments, batches, markdown, row

BATCH_SIZES = (16, 32, 64, 128)
RATES = tuple(float(rate) for rate in np.geomspace(0.01, 40.0, 13))
LONGER = 3
MOST_EPOCHS = 60
"""Epochs of a plan, at most: the grid is trained for `LONGER` times as many."""
Rows = tuple[np.ndarray, np.ndarray]


def data(name: str) -> Rows:
    """Features, without a column of ones, and classes; digits with random features have 300 of them."""
    load = {"wine": datasets.load_wine, "breast cancer": datasets.load_breast_cancer}
    X, y = load.get(name, datasets.load_digits)(return_X_y=True)
    if name == "random features of digits":
        X = rs.random_features(X / 16, 300, "relu", seed=0)
    return X, y


def heads(
    rows: Rows, others: list[Rows], classes: int, batch_size: int, rate: float, epochs: int, seed: int
) -> np.ndarray:
    """Train one head by cross-entropy: (epochs, others, 2), accuracy and loss on other rows after each epoch."""
    X, y = rows
    rng, weights, found = np.random.default_rng(seed), np.zeros((X.shape[1], classes)), []
    targets = np.eye(classes)[y]

    def softmax(features: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            logits = features @ weights
            powers = np.exp(logits - logits.max(axis=1, keepdims=True))
            return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    for _ in range(epochs):
        for batch in batches(rng, len(X), batch_size):
            weights -= rate / len(batch) * X[batch].T @ (softmax(X[batch]) - targets[batch])
        scores = []
        for features, labels in others:
            chance = softmax(features)
            loss = -np.log(chance[range(len(labels)), labels] + 1e-300).mean()
            scores.append(((chance.argmax(axis=1) == labels).mean(), loss))
        found.append(scores)
    return np.array(found)


def compared(name: str, seed: int) -> tuple[dict[str, float], np.ndarray]:
    """Test accuracies of planned and swept heads in one split, and of all heads of the grid (52,)."""
    X, y = data(name)
    order = np.random.default_rng(seed).permutation(len(X))
    some, new = np.split(order, [round(0.7 * len(X))])
    judged, learned = np.split(some, [len(some) // 10])
    mean, scale = X[learned].mean(axis=0), X[learned].std(axis=0)
    X, classes = (X - mean) / np.where(scale > 0, scale, 1.0), int(y.max()) + 1
    plan = rs.plan(X[learned], y[learned], classes=True, standardize=False, epochs=MOST_EPOCHS)
    coefficients, intercept = plan.coefficients
    scores = X[new] @ coefficients + intercept
    squares = ((scores > 0).astype(int) if classes == 2 else scores.argmax(axis=1)) == y[new]
    X = np.column_stack([X, np.ones(len(X))])
    others = [(X[new], y[new]), (X[judged], y[judged])]

    def path(size: int, rate: float) -> np.ndarray:
        return heads((X[learned], y[learned]), others, classes, size, rate, LONGER * plan.best.epochs, seed)

    planned = path(plan.best.batch_size, classes * plan.best.step)
    grid = [path(size, rate) for size in BATCH_SIZES for rate in RATES]
    losses = [np.nan_to_num(one[:, 1, 1], nan=np.inf) for one in grid]
    accuracies = np.array([one[loss.argmin(), 0, 0] for one, loss in zip(grid, losses, strict=True)])
    found = {
        "squares": squares.mean(),
        "planned epochs": planned[plan.best.epochs - 1, 0, 0],
        "planned": planned[planned[:, 1, 1].argmin(), 0, 0],
        "swept": accuracies[int(np.argmin([loss.min() for loss in losses]))],
    }
    return found, accuracies


def main() -> None:
    """Print a line per data set."""
    count = arguments(__doc__, _splits=5).splits
    markdown("data", "squares", "planned epochs", "planned", "swept", "best", "standard error")
    for name in ("wine", "breast cancer", "digits", "random features of digits"):
        splits, grids = zip(*(compared(name, seed) for seed in range(count)), strict=True)
        means = [float(np.mean([split[key] for split in splits])) for key in splits[0]]
        place = int(np.mean(grids, axis=0).argmax())
        apart = [grid[place] - split["planned"] for split, grid in zip(splits, grids, strict=True)]
        means += [float(np.mean(grids, axis=0)[place]), float(np.std(apart) / np.sqrt(max(count - 1, 1)))]
        row(name, *(f"{mean:.3f}" for mean in means))


if __name__ == "__main__":
    main()
