"""reshuffle.torch against torch."""
