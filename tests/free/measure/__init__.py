"""Tests of measures on the line."""
