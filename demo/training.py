"""Errors of a planned run on held-out rows: computed, and from real training."""

import numpy as np


def prepared(plan, held_out):
    """Return the held-out rows in the units of training: means and deviations are those of the training rows."""
    return plan.standardizer.rows(held_out.X), plan.standardizer.responses(held_out.y)


def computed(plan, held_out, epochs):
    """Return the mean square error on the held-out rows after these epochs, of the mean over all shuffles."""
    rows, responses = prepared(plan, held_out)
    return np.square(responses - plan.run.predict(rows, epochs)).mean(axis=1)


def trained(plan, held_out, epochs, runs, seed=0):
    """Train, and return the errors of every run on the held-out rows, (runs, epochs, rows).

    The usual loop: shuffle, cut into batches, step, and start again.
    """
    X, y, best = plan.run.problem.X, plan.run.problem.y, plan.best
    rows, responses = prepared(plan, held_out)
    cuts = range(best.batch_size, len(y), best.batch_size)
    rng, found = np.random.default_rng(seed), np.empty((runs, len(epochs), len(responses)))
    for run in range(runs):
        beta = np.zeros(X.shape[1])
        for epoch in range(1, int(max(epochs)) + 1):
            for batch in np.split(rng.permutation(len(y)), cuts):
                beta -= best.step * X[batch].T @ (X[batch] @ beta - y[batch]) / len(batch)
            found[run, epochs == epoch] = rows @ beta - responses
    return found
