"""Tests of limiting spectra."""
