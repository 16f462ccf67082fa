"""The package can be imported."""

import reshuffle


def test_package_has_a_docstring():
    assert reshuffle.__doc__
