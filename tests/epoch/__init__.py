"""Tests of epoch."""
