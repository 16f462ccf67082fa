"""Real mini-batch gradient descent, many runs at once: what the exact answers are checked against."""

from reshuffle.simulation.results import Estimate, Simulation
from reshuffle.simulation.simulate import simulate, simulated_states, single_run_risks

__all__ = ["Estimate", "Simulation", "simulate", "simulated_states", "single_run_risks"]
