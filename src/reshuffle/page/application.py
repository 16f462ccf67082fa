"""The page as an application of Shiny: its elements, and what happens in a session."""

import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from htmltools import HTMLDependency, Tag, TagList, head_content, tags
from shiny import App, Inputs, Outputs, Session, reactive
from starlette.requests import Request
from starlette.types import ASGIApp

from reshuffle import __version__
from reshuffle.page import address, uploads
from reshuffle.page.conversation import Conversation
from reshuffle.page.guard import Letterbox
from reshuffle.page.page_elements import entry
from reshuffle.page.tab import Tab
from reshuffle.page.tabs import TABS
from reshuffle.page.workshop import Workshop

_OURS = HTMLDependency(
    "reshuffle-page",
    __version__,
    source={"package": "reshuffle.page", "subdir": "www"},
    stylesheet={"href": "explore.css"},
    script={"src": "explore.js"},
)


def application(workshop: Workshop) -> ASGIApp:
    """The page; the workshop is that of all sessions."""
    letterbox = Letterbox()

    def server(inputs: Inputs, _outputs: Outputs, session: Session) -> None:
        converse(inputs, session, workshop, letterbox)

    return letterbox.before(App(page, server))


def converse(inputs: Inputs, session: Session, workshop: Workshop, letterbox: Letterbox) -> None:
    """What happens in one session, from its first question to its end."""
    folder = tempfile.TemporaryDirectory(prefix="reshuffle-page-")
    conversation = Conversation(TABS, workshop, session.send_custom_message)

    async def keep(request: Request) -> str:
        name = unquote(request.headers.get("x-file-name", ""))
        conversation.upload = await uploads.keep(request.stream(), Path(folder.name), name)
        return conversation.upload.name

    slot = letterbox.open(keep)

    @reactive.effect
    async def _() -> None:
        await session.send_custom_message("welcome", {"upload": slot, "largest": uploads.LARGEST})

    @reactive.effect
    @reactive.event(inputs.asked)
    def _() -> None:
        conversation.ask(inputs.asked())

    def end() -> None:
        letterbox.close(slot)
        conversation.stop()
        folder.cleanup()

    session.on_ended(end)


def page(request: Request) -> TagList:
    """The whole document, in the state that the address tells."""
    state, complaints = address.read(TABS, request.url.query)
    return TagList(
        # Not tags.html: some versions of Shiny would put that into a body of their own.
        head_content(
            tags.meta(name="viewport", content="width=device-width, initial-scale=1"),
            tags.meta(name="color-scheme", content="light dark"),
            tags.title("reshuffle: explore"),
            # Without an icon of its own, browsers ask for /favicon.ico.
            tags.link(rel="icon", href="data:,"),
        ),
        _OURS,
        tags.a("To the answer", href="#answers", class_="skip"),
        _header(),
        tags.p(" ".join(complaints), id="complaints", role="alert", hidden=None if complaints else ""),
        _tab_list(state),
        tags.main([_panel(tab, state) for tab in TABS], id="answers"),
        tags.noscript("This page needs JavaScript, all of which comes from your own machine."),
    )


def _header() -> Tag:
    switch = tags.button(
        "Dark", type="button", id="theme", aria_pressed="false", title="Dark or light colours"
    )
    return tags.header(
        tags.div(
            tags.h1("reshuffle"),
            tags.p("What mini-batch gradient descent does to least squares: exactly, without training."),
        ),
        switch,
    )


def _tab_list(state: address.State) -> Tag:
    buttons = [
        tags.button(
            tab.title,
            type="button",
            role="tab",
            id=f"tab-{tab.name}",
            data_tab=tab.name,
            aria_controls=f"panel-{tab.name}",
            aria_selected="true" if tab.name == state.tab else "false",
            tabindex="0" if tab.name == state.tab else "-1",
        )
        for tab in TABS
    ]
    return tags.div(buttons, role="tablist", aria_label="Questions")


def _panel(tab: Tab, state: address.State) -> Tag:
    values: Any = state.values[tab.name]
    inputs = [entry(tab.name, field, values[field.name]) for field in tab.fields]
    return tags.section(
        tags.h2(tab.question),
        tags.p(tab.lead, class_="lead"),
        tags.div(
            tags.form(
                inputs, _examples(tab), class_="inputs", aria_label=f"{tab.title}: inputs", autocomplete="off"
            ),
            _answer(tab),
            class_="columns-of-tab",
        ),
        id=f"panel-{tab.name}",
        role="tabpanel",
        aria_labelledby=f"tab-{tab.name}",
        hidden=None if tab.name == state.tab else "",
    )


def _examples(tab: Tab) -> Tag | None:
    """Links to states that are worth a look."""
    if not tab.examples:
        return None
    start = address.initial(TABS)
    links = []
    for name, changes in tab.examples.items():
        values = {**start.values, tab.name: {**start.values[tab.name], **changes}}
        links.append(tags.a(name, href="?" + address.query(TABS, address.State(tab.name, values))))
    return tags.nav(tags.span("Examples: "), links, class_="examples", aria_label="Examples")


def _answer(tab: Tab) -> Tag:
    return tags.div(
        tags.h3("The answer", class_="unseen"),
        tags.div(
            tags.p("Computing ...", class_="told"),
            tags.p(class_="setting"),
            class_="sentence",
            role="status",
            aria_live="polite",
            aria_atomic="true",
        ),
        tags.div(class_="rest"),
        tags.p(TagList(tags.span(class_="dot", aria_hidden="true"), " computing"), class_="working"),
        class_="answer busy",
        id=f"answer-{tab.name}",
        aria_busy="true",
    )
