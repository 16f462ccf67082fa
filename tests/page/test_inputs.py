"""Inputs: whatever arrives from an address or a socket is checked, and no address fails."""

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reshuffle.errors import ArgumentError
from reshuffle.page import app
from reshuffle.page.inputs import Input, read
from tests.looped import for_all

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
KEYS = [f"{tab.name}_{one.name}" for tab in app.TABS.values() for one in tab.inputs]


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), JSON | st.just(object()), max_size=4))
def test_no_address_fails(entries):
    import json

    texts = {key: "{" if type(value) is object else json.dumps(value) for key, value in entries.items()}
    tab, values, errors = app.restored("_inputs_&" + urlencode(texts, errors="replace"))
    assert tab in app.TABS
    for name, found in values.items():
        again, wrong = read(app.TABS[name].inputs, found)
        assert (again, wrong) == (found, [])
    assert all(error.endswith(".") for error in errors)


def test_an_address_has_the_values_it_says_and_complains_about_the_others():
    tab, values, errors = app.restored(
        "_inputs_&tab=%22free%22&limit_alpha=0.3&limit_batches=2.5&limit_noise=%5B1"
    )
    assert tab == "free"
    assert values["limit"]["alpha"] == 0.3
    assert values["limit"]["batches"] == 2
    assert errors == [
        "Noise could not be read from the address.",
        "Batches, B must be a whole number between 1 and 8, but it is 2.5.",
    ]
    # An address of other inputs than ours is not read.
    assert app.restored("tab=%22free%22&limit_alpha=0.3") == app.restored("")


@for_all("value", [float("nan"), float("inf"), 5, -1, "1", None, True, [1], 10**400])
def test_a_slider_takes_nothing_but_numbers_within_its_bounds(value):
    with pytest.raises(ArgumentError, match=r"A must be a number between 0 and 4, but it is"):
        Input("a", "A", 1.0, "range", 0.0, 4.0, 0.5).check(value)


def test_a_slider_moves_to_the_nearest_step_and_never_beyond_its_end():
    slider = Input("a", "A", 0.1, "range", 0.1, 1.0, 0.4)
    assert [slider.check(value) for value in (0.1, 0.31, 0.5, 0.95, 1.0)] == [0.1, 0.5, 0.5, 0.9, 0.9]


@for_all(
    "one, value",
    [
        (Input("a", "A", 2, "number", 1, 8), 2.5),
        (Input("a", "A", 2, "number", 1, 8), 9),
        (Input("a", "A", "b", "select", options={"b": "B"}), "c"),
        (Input("a", "A", "b", "select", options={"b": "B"}), ["b"]),
        (Input("a", "A", True, "checkbox"), "true"),
        (Input("a", "A", "", "text", longest=5), "123456"),
        (Input("a", "A", "", "text", longest=5), "a\0b"),
        (Input("a", "A", "", "column"), "x" * 1000),
        (Input("a", "A", (), "columns"), ["x" * 1000]),
        (Input("a", "A", (), "columns"), ["x"] * 2000),
    ],
)
def test_what_is_refused_is_named_by_its_label_and_the_default_is_taken(one, value):
    values, (error,) = read([one], {"a": value})
    assert values == {"a": one.default}
    assert error.startswith("A must ")
    assert len(error) < 200
