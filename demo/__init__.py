"""A few seconds in a terminal: a plan without training, real training, and a check on held-out rows."""
