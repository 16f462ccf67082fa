"""Numbers as text, read back: every number within half of its last digit, and no exponent without need."""

import math
import re

from hypothesis import example, given
from hypothesis import strategies as st

from reshuffle._uncertainty import factor, plus_minus, significant
from tests.looped import for_all

FINITE = st.floats(-1e300, 1e300)
PLAIN = st.floats(1e-4, 900_000.0) | st.floats(-900_000.0, -1e-4)
POSITIVE = st.floats(1e-300, 1e300)


def last_digit(text):
    """The size of the last digit of a number as it is written."""
    mantissa, _, exponent = text.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(f"1e{int(exponent or 0) - decimals}")


def read(text):
    """The value and the error in a text, and the size of the last digit of both."""
    together = re.fullmatch(r"\((\S+) ± (\S+)\)(e\S+)", text)
    value, error = (
        [one + together[3] for one in together.groups()[:2]] if together else text.split(" ± ", maxsplit=1)
    )
    return value, error


@given(value=FINITE, digits=st.integers(1, 6))
@example(value=999_999.7, digits=6)
@example(value=-0.0, digits=6)
@example(value=9.9999999e-5, digits=3)
def test_a_number_is_read_back(value, digits):
    text = significant(value, digits)
    # Zeros before the point stand for digits that are not known.
    size = 10.0 ** (math.floor(math.log10(abs(value))) + 1 - digits) if value else 1.0
    assert abs(float(text) - value) <= 0.5000001 * max(last_digit(text), size)
    assert len(re.sub(r"e.*|[-.]", "", text).strip("0")) <= digits
    assert text != "-0"


@given(value=PLAIN, error=POSITIVE, digits=st.integers(1, 6))
def test_no_exponent_between_a_ten_thousandth_and_a_million(value, error, digits):
    assert "e" not in significant(value, digits)
    assert "e" not in factor(abs(value))
    if 1e-4 <= error < 900_000:
        assert "e" not in plus_minus(value, error)


@given(value=FINITE, error=POSITIVE)
@example(value=3001.2, error=178.2)
@example(value=0.0, error=0.00996)
@example(value=-2.5, error=30.0)
@example(value=1e300, error=1e-300)
@example(value=1e-300, error=1e300)
@example(value=999_999.6, error=99.7)
def test_a_value_and_its_error_are_read_back(value, error):
    text = plus_minus(value, error)
    value_text, error_text = read(text)
    # The error has two digits, and the value ends where it does, or after its own sixth digit.
    unit = 10.0 ** (math.floor(math.log10(error)) - 1)
    assert abs(float(error_text) - error) <= 0.5000001 * max(unit, last_digit(error_text))
    own = 10.0 ** (math.floor(math.log10(abs(value))) - 5) if value else 0.0
    assert abs(float(value_text) - value) <= 0.5000001 * max(
        10 * unit if error_text.startswith("1") else unit, own
    )
    assert not value_text.startswith("-0 ")


@given(value=FINITE, error=st.sampled_from([0.0, math.inf]))
def test_what_has_no_digits_of_an_error(value, error):
    assert plus_minus(value, error) == significant(value) + (" ± inf" if error else "")


def test_what_is_no_number():
    assert [significant(one) for one in (math.inf, -math.inf, math.nan, 0.0, -0.0)] == [
        "inf",
        "-inf",
        "nan",
        "0",
        "0",
    ]
    assert plus_minus(math.inf, 3.0) == "inf ± 3"
    assert plus_minus(math.inf, math.inf) == "inf ± inf"
    assert plus_minus(math.nan, 0.0) == "nan"


@for_all(
    "value, error, text",
    [
        (3001.2, 178.2, "3000 ± 180"),
        (0.03328, 0.00056, "0.03328 ± 0.00056"),
        (0.9996, 0.0099, "0.9996 ± 0.0099"),
        (1.0, 0.0996, "1.00 ± 0.10"),
        (123456.7, 30.0, "123457 ± 30"),
        (3e7, 1.8e6, "(3.00 ± 0.18)e+07"),
        (1e-9, 2e-11, "(1.000 ± 0.020)e-09"),
        (0.00002, 0.3, "0.00 ± 0.30"),
        (-12.34, 5.6, "-12.3 ± 5.6"),
        (12.0, 3.4e8, "(0.0 ± 3.4)e+08"),
        (999_999.6, 42.0, "(1.000000 ± 0.000042)e+06"),
    ],
)
def test_examples(value, error, text):
    assert plus_minus(value, error) == text


def test_factors():
    assert [factor(one) for one in (1.04, 6.731, 67.3, 6731.0, 6.7e7)] == [
        "x1",
        "x6.7",
        "x67",
        "x6700",
        "x6.7e+07",
    ]
