"""Names of trajectories."""

from reshuffle.run.trajectory import ModesTrajectory as ModesEngine

__all__ = ["ModesEngine"]
