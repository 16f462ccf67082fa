"""How a run is trained beside its scheme: steps and their schedule, momentum, penalty."""
