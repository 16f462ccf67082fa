"""Tests of reshuffle.asymptotics.laws."""
