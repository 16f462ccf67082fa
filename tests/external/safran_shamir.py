"""The losses that Safran and Shamir (2021) published, beside their exact law.

One sample is f_i(x) = x_1^2 / 2 + 100 x_2^2 -+ x_2 / 2, with as many of both signs. The first coordinate is the
same in all runs. In the second a visit is x -> a x +- s / 2 with a = 1 - 200 s, so that after k epochs its mean is
a^(n k) x_0 and its variance is a geometric sum: of independent signs, or of V, that of one epoch of all signs in a
random order. `python -m tests.external.safran_shamir` prints how far the published means are from it.
"""

from pathlib import Path

import numpy as np

import reshuffle as rs

N, CURVATURE = 500, 200.0
START = (-0.5, -1 / 400)
SCHEMES = {
    "with_replacement": rs.WithReplacement(batch_size=1),
    "shuffled_once": rs.ShuffleOnce(batch_size=1, draws=64),
    "reshuffled": rs.RandomReshuffling(batch_size=1),
}
RUNS = 100
"""Runs in each of the published means."""


def published():
    """Epochs (75,) and the mean losses of each scheme, (75,)."""
    path = Path(__file__).with_name("safran_shamir.csv")
    table = np.genfromtxt(path, delimiter=",", names=True, skip_header=2)
    return table["epochs"], {name: table[name] for name in SCHEMES}


def step(epochs):
    """Their step, log(n k) / (n k)."""
    return np.log(N * epochs) / (N * epochs)


def law(scheme, epochs):
    """Mean and standard deviation of the loss of a run; its second coordinate is a sum of very many small terms."""
    s = step(epochs)
    a, j = 1 - CURVATURE * s, np.arange(N)
    powers = a ** j[:, np.newaxis]
    variance = (s / 2) ** 2 * (N * np.square(powers).sum(0) - powers.sum(0) ** 2) / (N - 1)
    visits, first = N * epochs, START[0] * (1 - s) ** (N * epochs)
    second = {
        "with_replacement": (s / 2) ** 2 * (1 - a ** (2 * visits)) / (1 - a**2),
        "shuffled_once": variance * np.square((1 - a**visits) / (1 - a**N)),
        "reshuffled": variance * (1 - a ** (2 * visits)) / (1 - a ** (2 * N)),
    }[scheme]
    centre = np.square(START[1] * a**visits)
    mean = first**2 / 2 + CURVATURE / 2 * (centre + second)
    return mean, CURVATURE / 2 * np.sqrt(2 * second**2 + 4 * centre * second)


def loss(scheme, epochs):
    """The loss by the library, and its error: a problem of one column, with the published signs as responses."""
    responses = np.where(np.arange(N) % 2, 1.0, -1.0) / (2 * np.sqrt(CURVATURE))
    problem = rs.LeastSquares(np.full((N, 1), np.sqrt(CURVATURE)), responses, [0.0], covariance=CURVATURE)
    run = rs.descend(problem, SCHEMES[scheme], step=float(step(epochs)), start=START[1:])
    found = run.expected_risk(epochs, given_responses=True)
    return (START[0] * (1 - step(epochs)) ** (N * epochs)) ** 2 / 2 + found.total / 2, found.error / 2


def main():
    """Print the largest deviation of the published means, and their mean ratio to the law."""
    epochs, means = published()
    for name, found in means.items():
        mean, deviation = law(name, epochs)
        away = (found - mean) / (deviation / np.sqrt(RUNS))
        ratio, error = (found / mean).mean(), np.sqrt(np.square(deviation / mean).sum() / RUNS) / len(epochs)
        print(f"{name:16} {len(epochs)} means, at most {np.abs(away).max():.1f} standard errors away; "
              f"mean ratio {ratio:.3f} +- {error:.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
