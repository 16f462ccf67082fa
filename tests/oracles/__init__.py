"""Slow, obviously right versions of what the package computes."""
