"""Tests of reshuffle.asymptotics.curves."""
