"""Tests of reshuffle.free.algebra."""
