"""Shuffled samples through the cavity equation: what a sample meets on its turn is the work of all others."""
