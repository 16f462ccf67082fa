"""Averages of iterates by enumeration: every sequence of orders, every iterate written down, then averaged."""

import numpy as np

import reshuffle as rs
from tests.oracles.every_order import advance, begin


def histories(training, epochs, fresh=True):
    """The iterates of every run after each visit: (runs, 1 + visits, p, 1 + n), all runs equally likely."""
    if not fresh:
        return np.concatenate([_onward(training, [[epoch]] * len(training.steps)) for epoch in epochs])
    return _onward(training, [epochs] * len(training.steps))


def _onward(training, epochs_of_choices):
    """All runs at once, since those with the same past share it; each epoch is one of several lists of visits."""
    beta, buffer = begin(training)
    found = beta[:, np.newaxis]
    for step, choices in zip(training.steps, epochs_of_choices, strict=True):
        followed = [_through_visits(training, step, visits, beta, buffer, found) for visits in choices]
        beta, buffer, found = (np.concatenate(part) for part in zip(*followed, strict=True))
    return found


def _through_visits(training, step, visits, beta, buffer, found):
    for visit in visits:
        beta, buffer = advance(training, step, [visit], beta, buffer)
        found = np.concatenate([found, beta[:, np.newaxis]], axis=1)
    return beta, buffer, found


def after_epochs(iterates, steps):
    """Of iterates after each visit (..., 1 + visits, p, 1 + n) those after each epoch."""
    return iterates[..., ::steps, :, :]


def tail(iterates, start):
    """The mean of all iterates after the first `start`, of (..., 1 + k, p, 1 + n)."""
    return iterates[..., 1 + start :, :, :].mean(axis=-3)


def moving(iterates, decay):
    """The exponential moving average, from the first iterate."""
    average = iterates[..., 0, :, :]
    for each in range(1, iterates.shape[-3]):
        average = decay * average + (1 - decay) * iterates[..., each, :, :]
    return average


def averaged(average, iterates, steps):
    """What an EMA or a TailAverage of the package should make of iterates after each visit."""
    per_visit = average.per == "visit"
    chosen = iterates if per_visit else after_epochs(iterates, steps)
    if isinstance(average, rs.EMA):
        return moving(chosen, average.decay)
    return tail(chosen, average.start * (steps if per_visit else 1))
