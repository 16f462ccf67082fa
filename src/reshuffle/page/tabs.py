"""The tabs of the page, in their order. A new one is a module with a `TAB`, and a line here."""

from reshuffle.page import own_data, without_data
from reshuffle.page.tab import Tab

TABS: tuple[Tab, ...] = (without_data.TAB, own_data.TAB)
