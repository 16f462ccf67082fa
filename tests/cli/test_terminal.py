"""Sketches in the terminal."""

import numpy as np

from reshuffle.cli.terminal import Series, sketch


def dots(text):
    """The cells of a sketch, without ticks and axes."""
    return [line.partition("│")[2] for line in str(text).splitlines() if "│" in line]


def test_a_falling_line_goes_from_the_upper_left_to_the_lower_right():
    drawing = dots(sketch([Series("line", "#ff0000", np.arange(5.0), -np.arange(5.0))], "x", "y", 60))
    assert drawing[0].strip(" ")
    assert drawing[0].startswith(drawing[0].strip(" ")[0])
    assert drawing[-1].rstrip(" ") == drawing[-1]
    ends = [len(line.rstrip(" ")) for line in drawing]
    assert ends == sorted(ends)


def test_what_spans_many_orders_is_logarithmic_and_zero_can_be_asked_for():
    series = [Series("growth", "#ff0000", np.arange(5.0), 10.0 ** np.arange(5))]
    assert "(logarithmic)" in str(sketch(series, "x", "y", 60))
    text = str(sketch(series, "x", "y", 60, from_zero=True))
    assert "(logarithmic)" not in text
    assert "\n        0 │" in text


def test_gaps_infinities_and_constants_are_drawn_as_they_are():
    gap = np.array([1.0, 2.0, np.nan, np.inf, 1.0])
    assert any(
        line.strip() for line in dots(sketch([Series("gap", "#ff0000", np.arange(5.0), gap)], "x", "y", 60))
    )
    flat = dots(sketch([Series("flat", "#ff0000", np.arange(3.0), np.zeros(3))], "x", "y", 60))
    assert sum(bool(line.strip()) for line in flat) == 1
    nothing = sketch([Series("none", "#ff0000", np.arange(2.0), np.full(2, np.inf))], "x", "y", 60)
    assert "nothing finite" in str(nothing)
    one = sketch([Series("point", "#ff0000", np.zeros(1), np.ones(1))], "x", "y", 60)
    assert sum(bool(line.strip()) for line in dots(one)) == 1
