"""The page as an application of Shiny: its document, and a session from its first question to its end."""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from htmltools import HTML, HTMLDependency, Tag, TagList, head_content, tags
from shiny import App, Inputs, Outputs, Session, reactive
from starlette.requests import Request

from reshuffle import __version__
from reshuffle.page.answers import TabAnswer, message, program_key, refusal
from reshuffle.page.inputs import LARGEST_FILE, read
from reshuffle.page.tabs import LIMIT, OWN_DATA, TABS, Tab
from reshuffle.page.workers import Pool

SETTLED = 0.35
"""Seconds without a new question after which a thorough answer is begun."""
_LONGEST_NAME = 60
_FILES = HTMLDependency(
    "reshuffle-page",
    __version__,
    source={"package": "reshuffle.page", "subdir": "www"},
    stylesheet={"href": "page.css"},
    script=[{"src": "chart.js"}, {"src": "page.js"}],
)


def application(quick: Pool, thorough: Pool) -> App:
    """Return the page; first stages are computed by one pool, all others by another."""

    def server(inputs: Inputs, _: Outputs, session: Session) -> None:
        serve_session(inputs, session, quick, thorough)

    return App(page, server, bookmark_store="url")


@dataclass(frozen=True)
class Question:
    """The values of a tab's inputs, what is wrong with them, and the path of a file."""

    tab: Tab
    values: dict[str, Any]
    errors: list[str]
    upload: str | None


def serve_session(inputs: Inputs, session: Session, quick: Pool, thorough: Pool) -> None:
    """Answer the questions of one session.

    The first stage is not interrupted: meanwhile the newest question waits, so that charts follow a slider.
    Later stages end with the next question.
    """
    newest: Question | None = None
    begun: Question | None = None
    has_charts, last_tab = False, ""

    async def send(tab: Tab, **parts: Any) -> None:
        await session.send_custom_message("answer", {"tab": tab.name, **parts})

    async def show(question: Question, answer: TabAnswer, *, is_late: bool = False) -> None:
        nonlocal has_charts
        if is_late and answer.is_refusal and has_charts:
            await send(question.tab, note=f"What you see is a first answer. {answer.sentence}", final=True)
            return
        has_charts = bool(answer.charts)
        # Names of columns come with the answer: sent after it, they would undo what is chosen in between.
        offers = {
            key: one.update(
                key, question.values[one.name], answer.offers[one.name], answer.chosen.get(one.name, "")
            )
            for key, one in question.tab.keys.items()
            if one.name in answer.offers and question is newest
        }
        await send(question.tab, **message(answer, question.tab), offers=offers)

    def current(tab: Tab) -> tuple[dict[str, Any], list[str]]:
        return read(tab.inputs, {one.name: inputs[key]() for key, one in tab.keys.items()})

    @reactive.calc
    def upload() -> str | None:
        sent = inputs.data_file()
        return _only(Path(sent[-1]["datapath"]), sent[-1]["name"]) if sent else None

    @reactive.calc
    def question() -> Question:
        tab = TABS.get(inputs.tab(), LIMIT)
        return Question(tab, *current(tab), upload() if tab is OWN_DATA else None)

    @reactive.extended_task
    async def first(question: Question) -> tuple[Question, TabAnswer]:
        return question, await quick.ask(question.tab, 0, question.values, question.upload)

    @reactive.extended_task
    async def later(question: Question, stage: int) -> tuple[Question, int, TabAnswer]:
        if stage == 1:
            await asyncio.sleep(SETTLED)
        return question, stage, await thorough.ask(question.tab, stage, question.values, question.upload)

    @reactive.effect
    async def _() -> None:
        nonlocal newest, begun
        found = question()
        if found is not newest:
            newest = found
            later.cancel()
            await send(found.tab, final=False)
        if first.status() != "running" and begun is not found:
            begun = found
            if found.errors:
                await show(found, refusal(" ".join(found.errors)))
            else:
                first.invoke(found)

    @reactive.effect
    async def _() -> None:
        if first.status() == "success":
            found, answer = first.result()
            await show(found, answer if found is newest else replace(answer, is_final=False))
            if found is newest and not answer.is_final:
                later.invoke(found, 1)

    @reactive.effect
    async def _() -> None:
        if later.status() == "success":
            found, stage, answer = later.result()
            if found is newest:
                await show(found, answer, is_late=True)
                if not answer.is_final:
                    later.invoke(found, stage + 1)

    @reactive.effect
    @reactive.event(inputs.example)
    def _() -> None:
        # The link that resets all inputs is an example without a name.
        tab = TABS.get(inputs.tab(), LIMIT)
        values = tab.defaults | dict(tab.examples.get(str(inputs.example()), {}))
        for key, one in tab.keys.items():
            session.send_input_message(key, one.update(key, values[one.name]))

    @reactive.effect
    @reactive.event(inputs.stop)
    async def _() -> None:
        first.cancel()
        later.cancel()
        if newest is not None:
            await send(newest.tab, note="Stopped. Change an input to ask again.", final=True)

    # After the question has been taken up, which the browser may rely on.
    @reactive.effect(priority=-1)
    @reactive.event(inputs.settled)
    async def _() -> None:
        # The address has what differs from the defaults; from another tab one can go back.
        nonlocal last_tab
        shown = {"tab"}
        for tab in TABS.values():
            values, _ = current(tab)
            shown |= {key for key, one in tab.keys.items() if values[one.name] != one.default}
        session.bookmark.exclude = [str(name) for name in dir(inputs) if name not in shown]
        is_new = last_tab not in ("", inputs.tab()) and not inputs.settled()["back"]
        last_tab = inputs.tab()
        url = await session.bookmark.get_bookmark_url() or "?"
        await session.bookmark.update_query_string(url[url.index("?") :], "push" if is_new else "replace")
        await session.send_custom_message("settled", inputs.settled()["count"])

    @session.on_ended
    def _() -> None:
        first.cancel()
        later.cancel()


def _only(path: Path, name: str) -> str:
    """Return the path of a file under the name it was sent with, the only file of its session."""
    for other in path.parent.parent.glob("*/*"):
        if other != path:
            other.unlink()
    return str(path.rename(path.with_name(safe_name(name))))


def safe_name(given: str) -> str:
    """Return the name of a file as it is stored and shown: no folders, no special signs, .csv at its end.

    >>> safe_name("../../etc/my prices.CSV"), safe_name(""), safe_name("<b>.csv")
    ('my prices.csv', 'table.csv', 'b.csv')
    """
    name = re.sub(r"[^\w .-]", "", re.split(r"[/\\]", given)[-1]).strip(" .")
    stem = re.sub(r"\.(csv|tsv|txt)$", "", name, flags=re.IGNORECASE).strip(" .-")
    return f"{stem[:_LONGEST_NAME] or 'table'}.csv"


def restored(query: str) -> tuple[str, dict[str, dict[str, Any]], list[str]]:
    """Return the tab and the values of all inputs in a bookmark, and what is wrong with those that are refused."""
    given: dict[str, Any] = {}
    values, errors = {}, []
    for key, text in parse_qsl(query) if "_inputs_" in query else ():
        try:
            given[key] = json.loads(text)
        except (ValueError, RecursionError):
            labels = [tab.keys[key].label for tab in TABS.values() if key in tab.keys]
            errors += [f"{label} could not be read from the address." for label in labels]
    for tab in TABS.values():
        found = {one.name: given[key] for key, one in tab.keys.items() if key in given}
        values[tab.name], wrong = read(tab.inputs, found)
        errors += wrong
    chosen = given.get("tab", LIMIT.name)
    if not isinstance(chosen, str) or chosen not in TABS:
        errors.append(f"The tab must be one of {', '.join(TABS)}.")
        chosen = LIMIT.name
    return chosen, values, errors


def page(request: Request) -> TagList:
    """Return the whole document, in the state of the address."""
    chosen, values, errors = restored(request.url.query)
    return TagList(
        # Not tags.html: some versions of Shiny would put that into another body.
        head_content(HTML(_HEAD)),
        _FILES,
        HTML(_HEADER),
        tags.main(
            tags.p(" ".join(errors), id="alert", role="alert"),
            tags.div(
                [
                    HTML(
                        _TAB.format(
                            tab=tab, is_chosen=str(tab.name == chosen).lower(), index=-(tab.name != chosen)
                        )
                    )
                    for tab in TABS.values()
                ],
                role="tablist",
                aria_label="Questions",
            ),
            [_panel(tab, values[tab.name], tab.name == chosen) for tab in TABS.values()],
            id="answers",
        ),
    )


def _panel(tab: Tab, values: Mapping[str, Any], is_chosen: bool) -> Tag:
    """Return the inputs of a tab and the places of its answer; the charts come first, prose last."""
    examples = [tags.a(name, href=_link(tab, changes)) for name, changes in tab.examples.items()]
    figures = [HTML(_FIGURE.format(key=f"{tab.name}-{name}")) for name in tab.charts]
    programs = [HTML(_PROGRAM.format(key=program_key(tab, title), title=title)) for title in tab.programs]
    return tags.section(
        HTML(_HEAD_OF_ANSWER.format(question=tab.question)),
        figures[:1],
        tags.form(
            [one.element(f"{tab.name}_{one.name}", values[one.name]) for one in tab.inputs],
            tags.div("Try: ", examples, class_="examples", role="group", aria_label="Examples"),
            tags.div(
                tags.a("Reset", href=_link(tab, {}), class_="button"),
                tags.button("Copy link", type="button", class_="copy-link"),
                class_="actions",
            ),
            class_="inputs",
            aria_label=f"{tab.title}: inputs",
            autocomplete="off",
            data_largest=str(LARGEST_FILE),
        ),
        figures[1:2],
        tags.div(
            tags.div(class_="rest"), programs, figures[2:], tags.p(tab.lead, class_="lead"), class_="below"
        ),
        id=f"panel-{tab.name}",
        class_="panel",
        role="tabpanel",
        aria_labelledby=f"tab-{tab.name}",
        aria_busy="true",
        hidden=None if is_chosen else "",
    )


def _link(tab: Tab, changes: Mapping[str, Any]) -> str:
    entries = {"tab": tab.name} | {f"{tab.name}_{name}": value for name, value in changes.items()}
    return "?_inputs_&" + urlencode({key: json.dumps(value) for key, value in entries.items()})


# Without an icon, browsers ask for /favicon.ico.
_HEAD = """\
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>reshuffle: explore</title>
<link rel="icon" href="data:,">
"""
_HEADER = """\
<a href="#answers" class="skip">To the answer</a>
<header>
  <h1>reshuffle</h1>
  <p>What mini-batch gradient descent does to least squares: exactly, without training.</p>
  <button type="button" id="theme">Light / dark</button>
</header>
<noscript>This page needs JavaScript, all of which comes from your own machine.</noscript>
"""
_TAB = """\
<button type="button" role="tab" id="tab-{tab.name}" data-tab="{tab.name}" aria-controls="panel-{tab.name}"
  aria-selected="{is_chosen}" tabindex="{index}">{tab.title}</button>
"""
_HEAD_OF_ANSWER = """\
<div class="head">
  <h2>{question}</h2>
  <p class="sentence" role="status" aria-live="polite" aria-atomic="true">Computing ...</p>
  <p class="setting"></p>
  <p class="note"></p>
  <p class="working">computing <button type="button" class="stop">Stop</button></p>
</div>
"""
_PROGRAM = """\
<details>
  <summary>{title}</summary>
  <button type="button" class="copy" aria-label="Copy: {title}">Copy</button>
  <pre tabindex="0" role="region" aria-label="{title}, program"><code id="{key}"></code></pre>
</details>
"""
_FIGURE = """\
<figure id="{key}" hidden>
  <figcaption></figcaption>
  <div class="plot"><svg role="img" aria-label="nothing yet"></svg><p class="readout" aria-hidden="true"></p></div>
  <p class="legend" aria-hidden="true"></p>
  <p class="tools">
    <span class="player" hidden>
      <button type="button">Play</button>
      <input type="range" min="0" aria-label="Epoch in the chart"><span class="moment"></span>
    </span>
    <button type="button" id="{key}-svg">Save SVG</button>
    <button type="button" id="{key}-csv">Save CSV</button>
  </p>
</figure>
"""
