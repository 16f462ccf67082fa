"""Tests of expressions: their algebra, text, moments and linearization."""
