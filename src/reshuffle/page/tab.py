"""What a tab is: a question, its inputs, and the functions that answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reshuffle.page.fields import Field


@dataclass(frozen=True)
class Stage:
    """One way to answer, quick or thorough.

    Attributes
    ----------
    function : str
        The name of a function in the module of the tab, `function(values, upload) -> Shown`. It is called in
        another process, by name.
    is_quick : bool
        Whether it is done in a blink, and may go before those that take long.
    """

    function: str
    is_quick: bool


@dataclass(frozen=True)
class Tab:
    """A tab of the page.

    Attributes
    ----------
    name : str
        In addresses.
    title : str
        On the tab.
    question : str
        The heading.
    lead : str
        Two sentences on what one sees.
    module : str
        Where the functions of its stages are.
    fields : list of Field
    stages : list of Stage
        Asked one after the other; each answer takes the place of the one before it, and None leaves that.
    examples : dict
        Values of fields that are worth a look, by name; of the others the defaults.
    advice : str
        What to try where it takes too long.
    """

    name: str
    title: str
    question: str
    lead: str
    module: str
    fields: Sequence[Field]
    stages: Sequence[Stage]
    advice: str = "try smaller numbers"
    examples: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def texts(self, values: Mapping[str, Any]) -> dict[str, str]:
        """The values of its fields as text."""
        return {one.name: one.write(values[one.name]) for one in self.fields}
