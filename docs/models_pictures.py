"""Draw docs/pictures/models_*.png: a probe, a kernel and lazy networks, predicted beside really trained.

Run with `python docs/models_pictures.py`; it prints the numbers that docs/models.md states.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_diabetes, load_digits
from sklearn.kernel_ridge import KernelRidge
from torch.utils.data import DataLoader, TensorDataset

import reshuffle as rs
from reshuffle import plotting

PICTURES = Path(__file__).parent / "pictures"
COMPUTED, REAL, OTHER = plotting.COLOURS[:3]
WIDTHS = (64, 512, 4096)


def digits(rows, seed=0):
    """Images between 0 and 1 and their classes, in random order."""
    images, labels = load_digits(return_X_y=True)
    chosen = np.random.default_rng(seed).permutation(len(images))[:rows]
    return images[chosen] / 16, labels[chosen]


def saved(figure, name):
    """Write a picture, and forget it."""
    figure.savefig(PICTURES / f"models_{name}.png", dpi=110)
    plt.close(figure)


def probe():
    """A linear head on random features of the digits: what is computed, and five heads that are trained."""
    images, labels = digits(1797)
    inputs, classes = torch.tensor(images, dtype=torch.float32), torch.tensor(labels)
    torch.manual_seed(0)
    backbone = torch.nn.Sequential(torch.nn.Linear(64, 300), torch.nn.ReLU()).eval()
    training = DataLoader(TensorDataset(inputs[:900], classes[:900]), batch_size=50, shuffle=True)
    held_out = DataLoader(TensorDataset(inputs[900:], classes[900:]), batch_size=300)
    made, lr = rs.torch.probe(backbone, training), 0.5
    epochs = np.unique(np.geomspace(1, 300, 25).round())
    head = torch.nn.Linear(300, 10)
    loop = rs.torch.recipe(torch.optim.SGD(head.parameters(), lr=lr), training, outputs=10)
    run = loop.descend(made.problem)
    predicted = run.leave_one_out(epochs).mean_square.mean(axis=-1)
    rows, new = made.rows(held_out)
    found = np.square(run.predict(rows, epochs) - np.eye(10)[new]).mean(axis=(1, 2))
    accuracy = made.accuracy(run, epochs, held_out)
    real = np.array([trained_heads(made, rows, new, epochs, lr, seed) for seed in range(5)])
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for errors, hits in real:
        left.loglog(epochs, errors, color=REAL, linewidth=0.8)
        right.semilogx(epochs, 100 * hits, color=REAL, linewidth=0.8)
    left.plot([], [], color=REAL, linewidth=0.8, label="five heads, trained with torch's SGD")
    left.loglog(epochs, found, color=COMPUTED, label="computed, on 897 held-out digits")
    left.loglog(
        epochs, predicted, "o", color=COMPUTED, markersize=3, label="predicted from the 900 of training"
    )
    right.semilogx(epochs, 100 * accuracy, color=COMPUTED)
    left.set(xlabel="epochs", ylabel="squared error per output")
    right.set(xlabel="epochs", ylabel="held-out digits that are told right, %")
    left.legend(frameon=False, fontsize=8)
    saved(figure, "probe")
    print(f"probe: predicted {predicted[-1]:.4f}, held out {found[-1]:.4f}, heads {real[:, 0, -1].round(4)}")
    print(
        f"       accuracy of the mean iterate {accuracy[-1]:.3f}, of single heads {real[:, 1, -1].round(3)}"
    )


def trained_heads(made, rows, labels, epochs, lr, seed):
    """Held-out errors and accuracies of a head that torch trains, after each of the epochs."""
    X, y = torch.tensor(made.problem.X), torch.tensor(made.problem.y)
    head = torch.zeros(X.shape[1], 10, dtype=torch.float64, requires_grad=True)
    optimizer, generator = torch.optim.SGD([head], lr=lr), torch.Generator().manual_seed(seed)
    errors, hits = [], []
    for epoch in range(1, int(epochs[-1]) + 1):
        for chosen in torch.randperm(len(X), generator=generator).split(50):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(X[chosen] @ head, y[chosen]).backward()
            optimizer.step()
        if epoch in epochs:
            said = rows @ head.detach().numpy()
            errors.append(np.square(said - np.eye(10)[labels]).mean())
            hits.append((said.argmax(axis=1) == labels).mean())
    return errors, hits


def kernel():
    """Kernel ridge beside kernel descent that is stopped early, on the diabetes data."""
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X = (X / X.std(axis=0))[order]
    y = ((y - y.mean()) / y.std())[order]
    inside, outside, gamma = slice(0, 300), slice(300, None), 0.02
    problem = rs.LeastSquares.from_kernel("rbf", y[inside], X=X[inside], X_new=X[outside], gamma=gamma)
    run = rs.descend(problem, rs.SampleReshuffling(batch_size=30), step=1.0)
    epochs = np.unique(np.geomspace(1, 3000, 30).round())
    descent = np.square(run.predict(None, epochs) - y[outside]).mean(axis=1)
    predicted = run.leave_one_out(epochs).mean_square
    penalties = np.array([run.ridge_equivalent(epoch).penalty for epoch in epochs])
    ridge = []
    for penalty in penalties:
        fitted = KernelRidge(kernel="rbf", gamma=gamma, alpha=300 * penalty).fit(X[inside], y[inside])
        ridge.append(np.square(fitted.predict(X[outside]) - y[outside]).mean())
    best = run.best_epoch().epoch
    figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    ax.semilogx(epochs, descent, color=COMPUTED, label="descent in batches of 30, 142 held-out patients")
    ax.semilogx(
        epochs, predicted, "o", color=COMPUTED, markersize=3, label="predicted from the 300 of training"
    )
    ax.semilogx(epochs, ridge, "--", color=OTHER, label="kernel ridge, at the penalty that it equals")
    ax.axvline(best, color="0.6", linewidth=0.8)
    ax.text(best, ax.get_ylim()[0], f" stop here: {best:.0f}", va="bottom", fontsize=8, color="0.4")
    ax.set(xlabel="epochs", ylabel="squared error")
    ax.legend(frameon=False, fontsize=8)
    saved(figure, "kernel")
    at = int(np.abs(epochs - best).argmin())
    print(f"kernel: stop at {best:.0f}, held out {descent[at]:.4f} (predicted {predicted[at]:.4f})")
    print(
        f"        ridge there {ridge[at]:.4f}; best of all penalties {min(ridge):.4f}; at the end {descent[-1]:.4f}"
    )


def two_layers(width):
    """A network that has not been trained."""
    torch.manual_seed(1)
    layers = [torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 2)]
    return torch.nn.Sequential(*layers).double()


def lazy():
    """Networks of three widths beside their tangents, as they are trained."""
    images, labels = digits(200)
    numbers = np.column_stack([labels % 2, labels / 9])
    data = TensorDataset(torch.tensor(images), torch.tensor(numbers))
    loader = DataLoader(data, batch_size=20, shuffle=True)
    epochs = np.array([1, 2, 3, 5, 10, 20, 30, 50, 100])
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for width, colour in zip(WIDTHS, (REAL, OTHER, COMPUTED), strict=True):
        model = two_layers(width)
        # The tangent kernel grows with the width: so that all learn at the same speed, the step falls with it.
        optimizer = torch.optim.SGD(model.parameters(), lr=16 / width)
        found = rs.torch.compare(model, loader, optimizer, epochs, runs=3, rtol=0.05)
        left.loglog(epochs, 100 * found.distance, "o-", color=colour, markersize=3, label=f"width {width}")
        right.loglog(epochs, found.mean_loss, color=colour)
        right.loglog(epochs, found.network_loss.T, "x", color=colour, markersize=4)
        print(f"width {width}: apart {found.distance[[4, 8]].round(4)} after 10 and 100 epochs,", end=" ")
        print(
            f"weights moved {found.weights_moved[:, -1].mean():.3f}, loss {found.network_loss[:, -1].mean():.5f}"
        )
        print(f"           computed loss {found.mean_loss[-1]:.5f}, by {found.mean_error[-1]:.2g}")
    left.axhline(10, color="0.7", linewidth=0.8)
    left.set(xlabel="epochs", ylabel="network and tangent are apart, %\nof how far the network moved")
    right.set(xlabel="epochs", ylabel="training loss")
    right.plot([], [], color="0.3", label="computed, of the tangent")
    right.plot([], [], "x", color="0.3", label="networks, trained")
    for ax in (left, right):
        ax.legend(frameon=False, fontsize=8)
    saved(figure, "lazy")


def main():
    """Draw all of them."""
    probe()
    kernel()
    lazy()


if __name__ == "__main__":
    main()
