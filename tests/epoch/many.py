"""What the tests of many batches share."""

import reshuffle as rs


def pull_of(run):
    """The matrix through which the responses of the blocks' rows enter in an epoch, on the row space."""
    mean = run.epoch.mean
    return mean.stride / run.problem.row_space.scale * mean.mapped_inputs(mean.factor)


def descents(problem, scheme, step, method, **arguments):
    """The same run by a method and exactly."""
    return (
        rs.descend(problem, scheme, step, method=method, **arguments),
        rs.descend(problem, scheme, step, method="exact"),
    )
