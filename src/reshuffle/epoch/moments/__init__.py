"""Second moments of a run over its orders and its noise."""
