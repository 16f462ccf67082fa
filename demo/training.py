"""How a planned run does on rows that were locked away: computed, and then really trained."""

import numpy as np


def prepared(plan, locked):
    """Return the locked rows in the units in which the plan trains: means and deviations are those it has seen."""
    return (locked.X - plan.data.mean) / plan.data.scale, locked.y - plan.data.response_mean


def computed(plan, locked, epochs):
    """Return the mean square error on the locked rows after these epochs, of the mean over all shuffles."""
    rows, responses = prepared(plan, locked)
    return np.square(responses - plan.run.predict(rows, epochs)).mean(axis=1)


def trained(plan, locked, epochs, runs, seed=0):
    """Train really: return what every run says of the locked rows beyond their responses, (runs, epochs, rows).

    The loop that everybody writes: shuffle, cut into batches, step, and start again.
    """
    X, y, best = plan.run.problem.X, plan.run.problem.y, plan.best
    rows, responses = prepared(plan, locked)
    cuts = range(best.batch_size, len(y), best.batch_size)
    rng, found = np.random.default_rng(seed), np.empty((runs, len(epochs), len(responses)))
    for run in range(runs):
        beta = np.zeros(X.shape[1])
        for epoch in range(1, int(max(epochs)) + 1):
            for batch in np.split(rng.permutation(len(y)), cuts):
                beta -= best.step * X[batch].T @ (X[batch] @ beta - y[batch]) / len(batch)
            found[run, epochs == epoch] = rows @ beta - responses
    return found
