"""The tabs of the page, in their order. A new one is a module with a `TAB`, and a line here."""

from reshuffle.page.tab import Tab
from reshuffle.page.tabs import free_laws, own_data, ways_to_shuffle, without_data

TABS: tuple[Tab, ...] = (without_data.TAB, own_data.TAB, ways_to_shuffle.TAB, free_laws.TAB)
