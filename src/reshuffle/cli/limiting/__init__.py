"""`reshuffle limits`: the command, what it shows of the proportional limit, and of one pass."""
