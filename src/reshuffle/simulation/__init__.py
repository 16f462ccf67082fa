"""Real mini-batch gradient descent, many runs at once: what the exact answers are checked against."""

from reshuffle.simulation.estimates import Estimate, Simulation
from reshuffle.simulation.simulated import simulate
from reshuffle.simulation.single_runs import simulated_states, single_run_risks

__all__ = ["Estimate", "Simulation", "simulate", "simulated_states", "single_run_risks"]
