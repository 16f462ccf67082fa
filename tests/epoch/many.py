"""What the tests of many batches share."""

import numpy as np

import reshuffle as rs
from reshuffle.epoch.averaging.low_degrees import Whitened


def whitened(problem, partition, step):
    """The coordinates of batches, at a step in the units of the problem."""
    blocks = problem.blocks([np.asarray(rows) for rows in partition])
    weights = np.repeat(1 / (blocks.batches * blocks.divisors), blocks.sizes)
    unit = blocks.batches * step * problem.row_space.scale**2
    return Whitened.of(blocks.rows, weights, unit, blocks.offsets)


def share_of_error(run, exact):
    """The smallest e with |v'(Z - true Z) v| <= e v'Z v, on the row space."""
    space = run.problem.row_space
    Z, true_Z = (space.coordinates(space.coordinates(epoch.Z).T) for epoch in (run.epoch, exact.epoch))
    root = np.linalg.inv(np.linalg.cholesky(Z))
    return np.linalg.norm(root @ (true_Z - Z) @ root.T, 2)


def pull_of(run):
    """The matrix through which the responses of the blocks' rows enter in an epoch, on the row space."""
    mean = run.epoch.mean
    return mean.stride / run.problem.row_space.scale * mean.pulled(mean.factor)


def descents(problem, scheme, step, method, **arguments):
    """The same run by a method and exactly."""
    return (
        rs.descend(problem, scheme, step, method=method, **arguments),
        rs.descend(problem, scheme, step, method="exact"),
    )
