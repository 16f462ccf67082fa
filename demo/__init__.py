"""A few seconds in a terminal: a plan without training, real training beside it, and a promise put to the test."""
