"""Tests of the free-probability engine."""
