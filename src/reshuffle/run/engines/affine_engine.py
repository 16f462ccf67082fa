"""Names of trajectories."""

from reshuffle.run.affine_trajectory import AffineTrajectory as AffineEngine

__all__ = ["AffineEngine"]
