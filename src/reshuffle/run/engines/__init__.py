"""Names of trajectories."""
