"""Tests of reshuffle.free.measure."""
