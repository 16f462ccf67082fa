"""Errors as sentences for the page: no tracebacks, and no options of the command line."""

import re
from typing import Any

from reshuffle.cli.complaints import explain

TOO_LONG = "This took longer than {seconds:g} seconds and was stopped; {advice}."
_OPTIONS = {"target": "the target", "drop": "Leave out", "one-hot": "Columns of categories"}
_ADVICE: tuple[tuple[str, Any], ...] = (
    (r"encode categories with --one-hot .+, or leave the column out with --drop .+\.$",
     "tick it under Columns of categories, or under Leave out."),
    (r"leave (it|the column) out with --drop .+\.$", "tick it under Leave out."),
    (r"^--one-hot (.+) must be a column of categories", r"\1 must be a column of categories"),
    (r"^--(target|drop|one-hot) ", lambda found: f"{_OPTIONS[found[1]]} "),
    (r"beside --target", "beside the target"),
    (r"a copy of --target", "a copy of the target"),
)  # fmt: skip
"""What the command line advises, in the words of the page; names of columns stay as they are."""


def complaint(error: Exception) -> str:
    """What went wrong, as a sentence.

    >>> complaint(ValueError("--target must be a column of a.csv, but it is 'x'."))
    "The target must be a column of a.csv, but it is 'x'."
    >>> complaint(ValueError("column 'a b' is constant; leave it out with --drop 'a b'."))
    "Column 'a b' is constant; tick it under Leave out."
    """
    message = " ".join(explain(error)[0].split()) or f"unexpected {type(error).__name__}"
    for pattern, words in _ADVICE:
        message = re.sub(pattern, words, message)
    return sentence(message)


def sentence(text: str) -> str:
    """With a capital at its beginning, if that is a word, and a full stop at its end."""
    text = text if text.endswith((".", "!", "?")) else f"{text}."
    first = text.partition(" ")[0]
    return text[0].upper() + text[1:] if first.isalpha() and len(first) > 1 else text
