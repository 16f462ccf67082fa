"""Files that are sent to the page: bounded in size, kept as text for as long as the session, and never executed."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

from reshuffle.cli.console import InputError

LARGEST = 20 << 20
"""Bytes of a file."""
MOST_CELLS = 1_000_000
MOST_COLUMNS = 1000
MOST_ROWS = 100_000
_LONGEST_NAME = 60


def safe_name(given: str) -> str:
    """The name of a file as it is kept and shown: no folders, no signs that mean anything, and .csv at its end.

    >>> safe_name("../../etc/my prices.CSV"), safe_name(""), safe_name("<b>.csv")
    ('my prices.csv', 'table.csv', 'b.csv')
    """
    name = re.sub(r"[^\w .-]", "", re.split(r"[/\\]", given)[-1]).strip(" .")
    stem = re.sub(r"\.(csv|tsv|txt)$", "", name, flags=re.IGNORECASE).strip(" .-")
    return f"{stem[:_LONGEST_NAME] or 'table'}.csv"


async def keep(stream: AsyncIterator[bytes], folder: Path, name: str) -> Path:
    """Write what is sent to a file in this folder; what is too large is refused before it is all here."""
    path = folder / safe_name(name)
    received = 0
    try:
        with path.open("wb") as file:
            async for part in stream:
                received += len(part)
                if received > LARGEST:
                    raise InputError(
                        f"A file must have at most {LARGEST >> 20} MB, but {path.name} has more; "
                        "send a part of its rows."
                    )
                file.write(part)
    except InputError:
        path.unlink(missing_ok=True)
        raise
    return path


def require_modest_text(path: Path) -> None:
    """Refuse what is no text, or has more cells than are learned from here, before it is taken apart."""
    data = path.read_bytes()
    if b"\0" in data:
        raise InputError(
            f"{path.name} must be a CSV file, which is text, but it holds bytes that are no text."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            f"{path.name} must be text in UTF-8, but it is in another encoding; save it again as CSV UTF-8."
        ) from None
    lines = text.count("\n") + 1
    first = text.partition("\n")[0]
    columns = 1 + max(first.count(sign) for sign in ",;\t")
    for what, count, most in (
        ("rows", lines - 1, MOST_ROWS),
        ("columns", columns, MOST_COLUMNS),
        ("cells", lines * columns, MOST_CELLS),
    ):
        if count > most:
            raise InputError(f"{path.name} must have at most {most:,} {what}, but it has about {count:,}.")
