"""Every state of the page as the query of an address, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from reshuffle.page.fields import quoted, read_all
from reshuffle.page.tab import Tab

LONGEST = 30_000
"""Characters of a query; browsers and servers have bounds of about this size."""
_MOST_ENTRIES = 200


@dataclass(frozen=True)
class State:
    """Which tab is open, and the values of the inputs of all tabs by name of tab and field."""

    tab: str
    values: Mapping[str, Mapping[str, Any]]


def query(tabs: Sequence[Tab], state: State) -> str:
    """The query of a state: the tab, and what differs from its default.

    >>> from reshuffle.page.fields import Switch
    >>> tab = Tab("one", "One", "?", "", "", [Switch("sure", "Sure", False)], [])
    >>> query([tab], State("one", {"one": {"sure": True}}))
    'tab=one&one.sure=yes'
    """
    entries = [("tab", state.tab)]
    for tab in tabs:
        for field in tab.fields:
            value = state.values[tab.name][field.name]
            text = field.write(value)
            if text != field.write(field.default):
                entries.append((f"{tab.name}.{field.name}", text))
    return urlencode(entries)


def read(tabs: Sequence[Tab], text: str) -> tuple[State, list[str]]:
    """The state of a query, and complaints about what is not understood; for that, defaults are taken."""
    if len(text) > LONGEST:
        return initial(tabs), [f"The address is longer than {LONGEST} characters and was not read."]
    try:
        entries = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_ENTRIES))
    except ValueError:
        return initial(tabs), [f"The address has more than {_MOST_ENTRIES} entries and was not read."]
    return of_texts(tabs, entries.pop("tab", tabs[0].name), entries)


def of_texts(tabs: Sequence[Tab], tab: str, texts: Mapping[str, str]) -> tuple[State, list[str]]:
    """The state of texts by `tab.field`, and complaints."""
    complaints, rest = [], dict(texts)
    if tab not in {one.name for one in tabs}:
        names = ", ".join(one.name for one in tabs)
        complaints.append(f"The tab must be one of {names}, but it is {quoted(tab)}.")
        tab = tabs[0].name
    values = {}
    for one in tabs:
        given = {
            field.name: rest.pop(f"{one.name}.{field.name}")
            for field in one.fields
            if f"{one.name}.{field.name}" in rest
        }
        values[one.name], found = read_all(one.fields, given)
        complaints += found
    if rest:
        complaints.append(f"The address has an entry that nobody knows here: {quoted(min(rest))}.")
    return State(tab, values), complaints


def initial(tabs: Sequence[Tab]) -> State:
    """The page as it opens."""
    return State(
        tabs[0].name, {tab.name: {field.name: field.default for field in tab.fields} for tab in tabs}
    )
