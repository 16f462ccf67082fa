"""Choosing before training."""
