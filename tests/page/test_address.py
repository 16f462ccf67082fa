"""Every state of the page is an address, and every address a state."""

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reshuffle.cli.console import InputError
from reshuffle.page import address
from reshuffle.page.fields import Choice, Column, Columns, Slider, Switch, Text, Upload, Whole, read_all
from reshuffle.page.tabs import TABS

PRINTED = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=40)


def values_of(field):
    """Values that a visitor may bring about."""
    if isinstance(field, Slider):
        steps = round((field.high - field.low) / field.step)
        return st.integers(0, steps).map(lambda k: field.read(repr(field.low + k * field.step)))
    if isinstance(field, Whole):
        return st.integers(field.low, field.high)
    if isinstance(field, Choice):
        return st.sampled_from(list(field.options))
    if isinstance(field, Switch):
        return st.booleans()
    if isinstance(field, Text):
        return PRINTED
    if isinstance(field, Column):
        return st.text(max_size=40)
    if isinstance(field, Columns):
        names = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=9)
        return st.lists(names, max_size=4, unique=True).map(tuple)
    assert isinstance(field, Upload)
    return st.just("")


STATES = st.builds(
    address.State,
    st.sampled_from([tab.name for tab in TABS]),
    st.fixed_dictionaries(
        {tab.name: st.fixed_dictionaries({one.name: values_of(one) for one in tab.fields}) for tab in TABS}
    ),
)


@given(STATES)
def test_a_state_comes_back_from_its_address(state):
    try:
        text = address.query(TABS, state)
    except UnicodeEncodeError:
        return  # Half of a surrogate pair is no text, and comes from no keyboard.
    found, complaints = address.read(TABS, text)
    assert complaints == []
    assert found == state


def test_the_page_as_it_opens_has_the_shortest_address():
    assert address.query(TABS, address.initial(TABS)) == f"tab={TABS[0].name}"
    assert address.read(TABS, "") == (address.initial(TABS), [])


@given(st.text(max_size=200) | st.dictionaries(st.text(max_size=9), st.text(max_size=9)).map(
    lambda entries: urlencode(entries, errors="replace")))  # fmt: skip
def test_no_address_fails(text):
    state, complaints = address.read(TABS, text)
    assert set(state.values) == {tab.name for tab in TABS}
    assert all(complaint.endswith(".") for complaint in complaints)


def test_an_address_beyond_all_bounds_is_told_and_not_read():
    for text in ("tab=" + "x" * 40_000, "&".join(f"a{k}=1" for k in range(500))):
        state, complaints = address.read(TABS, text)
        assert state == address.initial(TABS)
        assert len(complaints) == 1


@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "0x1", "1_0", "", " ", "٣", "1;2", "-1", "5"])
def test_a_slider_takes_nothing_but_numbers_within_its_bounds(text):
    with pytest.raises(InputError, match=r"A must be a number between 0 and 4, but it is"):
        Slider("a", "A", 0.0, 4.0, 0.5, 1.0).read(text)


def test_a_slider_moves_to_the_nearest_step_and_never_beyond_its_end():
    slider = Slider("a", "A", 0.1, 1.0, 0.4, 0.1)
    assert [slider.read(text) for text in ("0.1", "0.31", "0.5", "0.95", "1.0")] == [0.1, 0.5, 0.5, 0.9, 0.9]


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (Whole("a", "A", 1, 8, 2), "2.0"),
        (Whole("a", "A", 1, 8, 2), "9"),
        (Whole("a", "A", 1, 8, 2), "1" * 30),
        (Choice("a", "A", {"b": "B"}, "b"), "c"),
        (Switch("a", "A", True), "true"),
        (Text("a", "A", "", 5), "123456"),
        (Text("a", "A", "", 5), "a\0b"),
        (Column("a", "A"), "x" * 1000),
        (Columns("a", "A"), "x" * 100_000),
    ],
)
def test_what_is_refused_is_told_by_its_label_and_the_default_is_taken(field, text):
    values, (complaint,) = read_all([field], {"a": text})
    assert values == {"a": field.default}
    assert complaint.startswith("A must ")
    assert len(complaint) < 200
