"""Tests of learning curves in the limit."""
