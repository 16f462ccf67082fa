"""Baselines, each written from its published description and kept as plain as it is there."""
