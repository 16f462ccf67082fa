"""Public names and signatures are those of the list in the repository."""

import difflib

from tests import public_api


def test_names_and_signatures_are_those_of_the_list():
    listed, found = public_api.LIST.read_text().splitlines(), public_api.text().splitlines()
    changed = list(difflib.unified_diff(listed, found, "listed", "found", lineterm="", n=0))
    assert not changed, (
        "the public interface has changed. If that is meant, write the list with `python -m tests.public_api`, "
        "tell it in CHANGELOG.md, and keep the old name working with a DeprecationWarning:\n"
        + "\n".join(changed)
    )
