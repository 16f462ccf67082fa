"""Tests of reshuffle.asymptotics."""
