"""Tests of moments."""
