"""Runs, and what people ask of them."""
