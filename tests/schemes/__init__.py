"""Tests of the schemes."""
