"""One browser and its questions: the newest counts, and every answer says which question it belongs to."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reshuffle.page import address, page_elements
from reshuffle.page.tab import Refused, Shown, Tab
from reshuffle.page.workshop import Workshop

SETTLED = 0.35
"""Seconds without a new question after which a thorough answer is begun."""
_MOST_TEXTS = 200

Send = Callable[[str, dict[str, object]], Awaitable[None]]


class Conversation:
    """What one session asks and is answered.

    Every question has a serial number, which its answers carry: the browser shows none but those to its newest
    question. A new question ends the work on the one before it.
    """

    def __init__(self, tabs: Sequence[Tab], workshop: Workshop, send: Send):
        self._tabs = {tab.name: tab for tab in tabs}
        self._workshop, self._send = workshop, send
        self._work: asyncio.Task[None] | None = None
        self.upload: Path | None = None

    def ask(self, question: Any) -> None:
        """Begin to answer `{"serial": int, "tab": str, "texts": {"tab.field": str}}`; anything else is ignored."""
        if _is_question(question):
            self.stop()
            self._work = asyncio.create_task(
                self._answer(question["serial"], question["tab"], question["texts"])
            )

    def stop(self) -> None:
        """End the work on the newest question."""
        if self._work is not None:
            self._work.cancel()

    async def _answer(self, serial: int, name: str, texts: Mapping[str, str]) -> None:
        tabs = list(self._tabs.values())
        state, complaints = address.of_texts(tabs, name, texts)
        tab = self._tabs[state.tab]
        await self._send("address", {"serial": serial, "query": address.query(tabs, state)})
        if complaints:
            await self._tell(serial, tab, Refused(" ".join(complaints)), is_final=True)
            return
        values = dict(state.values[tab.name])
        upload = None if self.upload is None else str(self.upload)
        for place, stage in enumerate(tab.stages):
            if not stage.is_quick and place:
                await asyncio.sleep(SETTLED)
            found = await self._workshop.ask(tab, stage, values, upload)
            is_final = place == len(tab.stages) - 1
            if found is not None:
                await self._tell(serial, tab, found, is_final=is_final)
            elif is_final:
                await self._send("done", {"serial": serial, "tab": tab.name})
            if isinstance(found, Refused):
                return

    async def _tell(self, serial: int, tab: Tab, found: Shown | Refused, *, is_final: bool) -> None:
        refused = isinstance(found, Refused)
        message: dict[str, object] = {
            "serial": serial,
            "tab": tab.name,
            "sentence": found.sentence,
            "refused": refused,
            "final": is_final or refused,
            "offers": {f"{tab.name}.{name}": list(options) for name, options in found.offers.items()},
            "chosen": {f"{tab.name}.{name}": choice for name, choice in found.chosen.items()},
        }
        if isinstance(found, Shown):
            message["setting"] = found.setting
            message["html"] = page_elements.body(found, tab.name)
        await self._send("answer", message)


def _is_question(question: Any) -> bool:
    """Whether this is what our own page sends."""
    if not isinstance(question, dict) or not isinstance(question.get("texts"), dict):
        return False
    texts = question["texts"]
    return (
        isinstance(question.get("serial"), int)
        and isinstance(question.get("tab"), str)
        and len(texts) <= _MOST_TEXTS
        and all(isinstance(text, str) for pair in texts.items() for text in pair)
    )
