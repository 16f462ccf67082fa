"""Real descent on fresh Gaussian samples, many runs at once: an oracle that knows no recursion."""

import numpy as np


def risks(spectrum, source, batch_size, steps, runs, *, noise, momentum=0.0, seed=0):
    """The risk of every run after 0, 1, ... steps, (len(steps) + 1, runs), and of the mean over runs."""
    rng = np.random.default_rng(seed)
    error = np.tile(np.sqrt(source), (runs, 1))
    velocity = np.zeros_like(error)
    found, of_mean = [error**2 @ spectrum], [error.mean(axis=0) ** 2 @ spectrum]
    for step in steps:
        x = rng.standard_normal((runs, batch_size, len(spectrum))) * np.sqrt(spectrum)
        residual = np.einsum("rmj,rj->rm", x, error) + noise * rng.standard_normal((runs, batch_size))
        velocity = momentum * velocity + np.einsum("rmj,rm->rj", x, residual) / batch_size
        error = error - step * velocity
        found.append(error**2 @ spectrum)
        of_mean.append(error.mean(axis=0) ** 2 @ spectrum)
    return np.array(found), np.array(of_mean)


def recursion(spectrum, source, batch_size, step, steps, noise):
    """The recursion of the diagonal as it is printed, one eigenvalue at a time."""
    d = source.copy()
    path = [spectrum @ d]
    for _ in range(steps):
        decay = 1 - 2 * step * spectrum + step**2 * (1 + 1 / batch_size) * spectrum**2
        d = decay * d + step**2 / batch_size * spectrum * (path[-1] + noise**2)
        path.append(spectrum @ d)
    return np.array(path)
