"""The page in a browser: sliders, addresses, sessions, uploads, keyboard, downloads, narrow and dark."""

import asyncio
import csv
import io
import re
import socket
import threading
import xml.etree.ElementTree as ElementTree
from contextlib import contextmanager

import pytest
import uvicorn

from reshuffle import asymptotics, free
from reshuffle.page.answers import Axis, Chart, ChartSeries, TabAnswer, refusal
from reshuffle.page.app import application
from tests.page import chromium

pytestmark = pytest.mark.slow


def numbers(text):
    return [float(found) for found in re.findall(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", text)]


def expected(aspect, alpha, batches, noise):
    """What the first tab has to say, from the library."""
    curve = asymptotics.learning_curve(aspect, alpha, batches, noise=noise)
    best = curve.best_epoch()
    return [best.epoch, float(f"{best.risk:.4g}"), float(f"{curve.limit().total:.4g}")]


LINES = '[...panel.querySelectorAll("#limit-risk path")].map(one => one.getAttribute("d")).join()'


def observed(page, tab, name, value):
    """Write down `value` (JavaScript of the panel) at every change of the panel, into window[name]."""
    page.evaluate(
        f"""() => {{
            window.{name} = [];
            const panel = document.getElementById("panel-{tab}");
            new MutationObserver(() => {{
                const value = {value};
                if (window.{name}.at(-1) !== value) window.{name}.push(value);
            }}).observe(panel, {{ childList: true, characterData: true, subtree: true }});
        }}"""
    )


def test_charts_follow_a_slider_and_end_where_it_ends(visit):
    visitor = visit()
    assert numbers(visitor.open()) == expected(1.5, 0.2, 2, 0.5)
    assert visitor.setting() == "p / n = 1.5, noise 0.5, alpha = 0.2, 2 batches"
    observed(visitor.page, "limit", "seen", 'panel.querySelector(".setting").textContent')
    observed(visitor.page, "limit", "drawn", LINES)
    # Pictures move while the slider is on its way, which is long enough for a machine that does much else.
    during = visitor.input("limit_noise").evaluate(
        """async slider => {
            slider.step = 0.002;
            for (let noise = 0.502; noise < 2 && window.drawn.length < 2; noise += 0.002) {
                slider.value = noise;
                slider.dispatchEvent(new Event("input", { bubbles: true }));
                await new Promise(resolve => setTimeout(resolve, 30));
            }
            return window.drawn.length;
        }"""
    )
    assert during >= 2
    visitor.drag("limit_noise", 0.7)
    # The last one belongs to its last position.
    assert numbers(visitor.settled()) == expected(1.5, 0.2, 2, 0.7)
    seen = visitor.page.evaluate("window.seen")
    assert seen[-1] == "p / n = 1.5, noise 0.7, alpha = 0.2, 2 batches"
    noises = [numbers(setting)[1] for setting in seen[:-1]]
    assert noises == sorted(noises)
    # A curve of the inputs before is left as a ghost.
    assert visitor.page.locator("#limit-risk .legend .ghost").count() == 1
    visitor.page.wait_for_url("**limit_noise=0.7**")


def test_the_step_is_dragged_on_the_chart_and_curves_are_there_at_once(visit):
    visitor = visit(viewport={"width": 1440, "height": 900})
    visitor.open()
    page, handle = visitor.page, visitor.page.locator("#limit-steps .handle")
    # One screen: both charts are above the fold.
    for chart in ("risk", "steps"):
        box = page.locator(f"#limit-{chart} svg").bounding_box()
        assert box["y"] + box["height"] < 900
    observed(page, "limit", "drawn", LINES)
    handle.focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    assert visitor.input("limit_alpha").input_value() == handle.input_value() == "0.4"
    assert numbers(visitor.settled()) == expected(1.5, 0.4, 2, 0.5)
    # Answers leave the focus where it is: the next key moves the handle further.
    assert page.evaluate("document.activeElement.className") == "handle"
    # Twice at least: by interpolation in the browser, and with the answers of the server.
    assert len(page.evaluate("window.drawn")) >= 2
    # The thumb is 28 pixels wide, and at 0.4 of what the axis reaches to; it goes to the end.
    box, last = handle.bounding_box(), float(handle.get_attribute("max"))
    at = box["x"] + 14 + 0.4 / last * (box["width"] - 28), box["y"] + 0.3 * box["height"]
    page.mouse.move(*at)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"], at[1], steps=4)
    page.mouse.up()
    assert visitor.settled() == "This step diverges; stay below 0.6124."
    assert "1000" in page.text_content("#limit-risk svg")
    page.hover("#limit-steps svg", position={"x": 150, "y": 100})
    assert "stopped in time 0." in page.inner_text("#limit-steps .readout")


def test_many_batches_are_answered_at_once_and_then_with_more_digits(visit):
    visitor = visit()
    visitor.open()
    observed(visitor.page, "limit", "notes", 'panel.querySelector(".note").textContent')
    visitor.drag("limit_batches", 3)
    assert numbers(visitor.settled()) == expected(1.5, 0.2, 3, 0.5)
    notes = visitor.page.evaluate("window.notes")
    assert any("first look" in note for note in notes)
    assert notes[-1] == ""


def test_an_address_brings_the_state_back_and_back_goes_back(visit):
    first = visit(permissions=["clipboard-read", "clipboard-write"])
    first.open("?_inputs_&tab=%22limit%22&data_source=%22drawn%22")
    observed(first.page, "limit", "words", 'panel.querySelector(".copy-link").textContent')
    first.drag("limit_aspect", 0.5)
    first.drag("limit_noise", 1.25)
    # The link is that of the inputs as they are, although the address follows them a little later.
    first.page.click("#panel-limit .copy-link")
    first.page.wait_for_function('() => window.words.includes("Copied")')
    link = first.page.evaluate("navigator.clipboard.readText()")
    assert link == first.page.url
    assert "limit_noise=1.25" in link
    first.settled()
    first.page.click("#tab-data")
    first.settled("data")
    first.page.wait_for_url("**tab=%22data%22**")
    first.input("data_standardize").uncheck()
    sentence = first.settled("data")
    first.page.wait_for_url("**data_standardize=false**")
    query = first.page.url.removeprefix(first.address)
    first.page.go_back()
    assert numbers(first.settled("limit")) == expected(0.5, 0.2, 2, 1.25)
    assert first.tab == "limit"
    first.page.go_forward()
    first.page.wait_for_selector("#panel-data:not([hidden])")
    second = visit()
    assert second.open(query) == sentence
    assert not second.input("data_standardize").is_checked()
    second.page.reload()
    assert second.settled("data") == sentence
    second.page.click("#tab-limit")
    assert numbers(second.settled("limit")) == expected(0.5, 0.2, 2, 1.25)
    second.page.click("#panel-limit >> text=Reset")
    second.page.wait_for_function('() => document.getElementById("limit_noise").value === "0.5"')
    assert numbers(second.settled("limit")) == expected(1.5, 0.2, 2, 0.5)


def test_what_an_address_may_not_be_is_told_in_a_sentence_and_other_tabs_work(visit):
    visitor = visit()
    visitor.open("?_inputs_&tab=%22limit%22&limit_aspect=%22%3Cb%3E7%3C/b%3E%22&limit_noise=1&free_seed=-1")
    told = visitor.page.inner_text("#alert")
    assert "Shape, p / n must be a number between 0.1 and 4, but it is '<b>7</b>'." in told
    assert visitor.page.locator("#alert b").count() == 0
    assert numbers(visitor.sentence()) == expected(1.5, 0.2, 2, 1.0)
    # A bad input on one tab is the matter of that tab.
    visitor.page.click("#tab-shuffle")
    visitor.input("shuffle_seed").fill("-7")
    visitor.page.wait_for_selector("#panel-shuffle.refused")
    assert "Seed of the problem must be a whole number between 0 and 9999" in visitor.settled("shuffle")
    visitor.page.click("#tab-limit")
    assert numbers(visitor.settled("limit")) == expected(1.5, 0.2, 2, 1.0)


def test_a_long_answer_is_stopped_and_does_not_hold_up_others(visit):
    one, other = visit(), visit()
    one.page.goto(one.address + "?_inputs_&tab=%22limit%22&limit_momentum=0.9&limit_batches=4")
    one.page.wait_for_selector("#limit-risk svg path")
    # Another visitor is answered for good meanwhile.
    assert numbers(other.open()) == expected(1.5, 0.2, 2, 0.5)
    if one.page.get_attribute("#panel-limit", "aria-busy") == "true":
        one.page.click("#panel-limit .stop")
        one.settled()
    assert one.page.locator("#limit-risk svg path").count() > 0
    one.drag("limit_momentum", 0)
    one.drag("limit_batches", 1)
    assert numbers(one.settled()) == expected(1.5, 0.2, 1, 0.5)


class Scripted:
    """Pools without processes: the first stage answers, a later one fails or never ends."""

    def __init__(self, late):
        self.late, self.begun, self.cancelled = late, threading.Event(), threading.Event()

    async def ask(self, tab, stage, values, upload):
        if stage == 0:
            x, y = Axis("epochs", "epoch"), Axis("risk", "risk")
            chart = Chart("risk", "Risk", "1 to 2", x, y, [ChartSeries("total", "total", [1, 2], [1, 2])])
            return TabAnswer("The first answer.", "first", charts=[chart], is_final=False)
        if self.late is not None:
            return self.late
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


@contextmanager
def scripted(pool):
    """Serve the page from a thread, with answers that are not computed; yields its address."""
    config = uvicorn.Config(application(pool, pool), log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


# One test: the lock of Shiny belongs to the first event loop of a process.
def test_a_late_failure_keeps_the_first_picture_and_stop_cancels_a_long_answer(browser):
    pool = Scripted(refusal("This took too long"))
    with scripted(pool) as address:
        visitor = chromium.Visitor(browser, address)
        assert visitor.open() == "The first answer."
        note, lines = visitor.page.locator("#panel-limit .note"), visitor.page.locator("#limit-risk svg path")
        assert note.inner_text() == "What you see is a first answer. This took too long."
        assert lines.count() == 1
        assert visitor.page.locator(".refused, .stale").count() == 0
        pool.late = None
        visitor.drag("limit_noise", 1)
        assert pool.begun.wait(60)
        assert visitor.page.get_attribute("#panel-limit", "aria-busy") == "true"
        visitor.page.click("#panel-limit .stop")
        assert pool.cancelled.wait(60)
        assert visitor.settled() == "The first answer."
        assert note.inner_text() == "Stopped. Change an input to ask again."
        assert lines.count() >= 1
        visitor.close()


def test_twenty_sessions_at_once(browser, address):
    visitors = [chromium.Visitor(browser, address) for _ in range(20)]
    for visitor in visitors:
        visitor.page.goto(address + "?_inputs_&tab=%22limit%22&limit_batches=1", wait_until="commit")
    for place, visitor in enumerate(visitors):
        visitor.page.wait_for_selector("html[data-ready=yes]")
        visitor.drag("limit_noise", round(0.1 * place, 1))
    for place, visitor in enumerate(visitors):
        visitor.settled("limit")
        assert f"noise {0.1 * place:g}," in visitor.setting("limit")
        visitor.close()


def test_the_page_comes_back_after_a_restart(browser):
    with chromium.serving() as (process, address):
        visitor = chromium.Visitor(browser, address)
        visitor.open("?_inputs_&tab=%22limit%22&limit_batches=1&limit_noise=1")
        process.terminate()
        visitor.page.wait_for_selector("#alert:not(:empty)")
        assert "reshuffle explore --port" in visitor.page.inner_text("#alert")
        process.wait(60)
    visitor.page.evaluate('document.documentElement.dataset.ready = "no"')
    with chromium.serving("--port", address.rpartition(":")[2].strip("/")):
        visitor.page.wait_for_selector("html[data-ready=yes]")
        assert numbers(visitor.settled()) == expected(1.5, 0.2, 1, 1.0)
        visitor.close()


def test_everything_can_be_reached_with_the_keyboard(visit):
    visitor = visit()
    visitor.open("?_inputs_&tab=%22limit%22&data_source=%22drawn%22")
    page = visitor.page
    page.focus("#tab-limit")
    page.keyboard.press("ArrowRight")
    assert visitor.tab == "data"
    assert page.evaluate("document.activeElement.id") == "tab-data"
    page.keyboard.press("Home")
    assert visitor.tab == "limit"
    page.focus("#limit_aspect")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert numbers(visitor.settled()) == expected(1.55, 0.2, 2, 0.5)
    # An open program stays open when the next answer comes.
    page.focus("#panel-limit summary")
    page.keyboard.press("Enter")
    visitor.drag("limit_aspect", 1.2)
    visitor.settled()
    assert "aspect=1.2" in page.inner_text("#panel-limit details[open] code")


def test_charts_are_saved_as_svg_and_as_numbers(visit):
    visitor = visit()
    visitor.open()
    saved = {}
    for kind in ("svg", "csv"):
        with visitor.page.expect_download() as download:
            visitor.page.click(f"#limit-risk-{kind}")
        assert download.value.suggested_filename == f"reshuffle-limit-risk.{kind}"
        saved[kind] = download.value.path().read_text(encoding="utf-8")
    assert ElementTree.fromstring(saved["svg"]).tag.endswith("svg")
    assert "var(" not in saved["svg"]
    rows = list(csv.DictReader(io.StringIO(saved["csv"])))
    curve = asymptotics.learning_curve(1.5, 0.2, 2, noise=0.5)
    epochs = [float(row["epoch"]) for row in rows]
    assert [float(row["total"]) for row in rows] == pytest.approx(curve.risk(epochs).total)


def nameless(page):
    """What a screen reader would have no word for."""
    return page.evaluate(
        """() => Array.from(document.querySelectorAll("input, select, textarea, button, a, svg, [role=slider]"))
            .filter(one => !(one.labels && one.labels.length))
            .filter(one => !one.getAttribute("aria-label") && !one.textContent.trim())
            .map(one => one.outerHTML.slice(0, 80))"""
    )


def contrast(page, selector, colour=""):
    """Of a text, or a colour of the palette, and what is behind it, as WCAG has it."""
    return page.eval_on_selector(
        selector,
        """(element, name) => {
            const light = colour => {
                const parts = colour.match(/[0-9.]+/g).slice(0, 3).map(part => part / 255)
                    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
            };
            let behind = element;
            while (/rgba\\(0, 0, 0, 0\\)|transparent/.test(getComputedStyle(behind).backgroundColor)
                && behind.parentElement) behind = behind.parentElement;
            const style = getComputedStyle(element);
            const hex = style.getPropertyValue("--" + name).match(/[0-9a-f]{2}/g);
            const own = element.namespaceURI.endsWith("svg") ? style.fill : style.color;
            const front = hex ? hex.map(part => parseInt(part, 16)).join(" ") : own;
            const pair = [light(front), light(getComputedStyle(behind).backgroundColor)].sort((a, b) => b - a);
            return (pair[0] + 0.05) / (pair[1] + 0.05);
        }""",
        colour,
    )


def test_it_can_be_read_by_all_on_a_phone_in_light_and_dark(visit):
    visitor = visit(color_scheme="dark", viewport={"width": 390, "height": 844})
    page = visitor.page
    visitor.open("?_inputs_&tab=%22limit%22&data_source=%22drawn%22")
    assert page.get_attribute("html", "lang") == "en"
    assert page.locator("h1").count() == 1
    # The first chart is on the first screen, and stays above the sliders.
    box = page.locator("#limit-risk svg").bounding_box()
    assert box["y"] + box["height"] < 844
    page.locator("#limit_momentum").scroll_into_view_if_needed()
    assert page.locator("#limit-risk svg").bounding_box()["y"] >= 0
    for tab in ("limit", "data", "free"):
        page.click(f"#tab-{tab}")
        visitor.settled(tab)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        if tab == "data":
            # A table that is wider than the screen scrolls, with the keyboard too; its title stays in sight.
            table = page.locator("#panel-data .scroll")
            assert table.evaluate("one => one.scrollWidth > one.clientWidth + 50")
            table.focus()
            page.keyboard.press("ArrowRight")
            page.wait_for_function('() => document.querySelector("#panel-data .scroll").scrollLeft > 0')
            title = table.locator("caption span").bounding_box()
            assert title["x"] >= 0
            assert title["x"] + title["width"] <= 390
        assert nameless(page) == []
        assert numbers(page.get_attribute(f"#panel-{tab} svg[role=img] >> nth=0", "aria-label"))
        # Text of charts is as large as it says, whatever the width.
        size = page.eval_on_selector(
            f"#panel-{tab} svg text", "one => 12 * one.ownerSVGElement.getBoundingClientRect().width"
            " / one.ownerSVGElement.viewBox.baseVal.width",
        )  # fmt: skip
        assert size > 11.5
        fills = []
        for _ in ("dark", "light"):
            for selector in (
                ".sentence",
                ".setting",
                ".fact dt",
                "a",
                "summary",
                "svg text",
                ".lead",
                "label",
            ):
                assert contrast(page, f"#panel-{tab} {selector}") >= 4.5, selector
            assert contrast(page, '[role="tab"][aria-selected="false"]') >= 4.5
            for name in ("first", "second", "third", "fourth", "fifth", "grey"):
                assert contrast(page, f"#panel-{tab} svg text", name) >= 3, name
            fills.append(page.eval_on_selector(f"#panel-{tab} svg text", "one => getComputedStyle(one).fill"))
            page.click("#theme")
        assert fills[0] != fills[1]


def test_forced_colours_tell_which_tab_is_open(visit):
    visitor = visit(forced_colors="active")
    visitor.open("?_inputs_&tab=%22limit%22&limit_batches=1")
    # Colours are the system's, and say nothing: one tab has an edge.
    edges = visitor.page.eval_on_selector_all(
        '[role="tab"]', "tabs => tabs.map(tab => getComputedStyle(tab).borderBottomStyle)"
    )
    assert edges == ["solid", "none", "none", "none"]
    # The handle on the chart is drawn in its own colours: the system's would hide it.
    handle = visitor.page.locator("#limit-steps .handle")
    assert handle.evaluate("one => getComputedStyle(one).forcedColorAdjust") == "none"


HOSTILE = {
    "binary.csv": (bytes(range(256)) * 10, "no text"),
    "formula.csv": (b"a,y\n=cmd|'/c calc'!A0,1\n2,2\n3,5\n", "must be a number"),
    "ragged.csv": (b"a,y\n1,2\n3\n", "line 3 has 1 cells"),
}


def test_files_are_planned_for_or_refused_in_a_sentence(visit, tmp_path):
    visitor = visit()
    posts = []
    visitor.page.on(
        "request", lambda request: posts.append(request.url) if request.method == "POST" else None
    )

    def sent(name, content):
        (tmp_path / name).write_bytes(content)
        return visitor.send(tmp_path / name)

    visitor.open("?_inputs_&tab=%22data%22&data_source=%22upload%22&data_epochs=50")
    assert "Send a CSV file first" in visitor.sentence()
    for name, (content, reason) in HOSTILE.items():
        assert reason in sent(name, content)
        assert visitor.page.locator("#panel-data.refused").count() == 1
    # What is too large is not sent at all, and every other file once.
    (tmp_path / "huge.csv").write_bytes(b"a,y\n" + b"1,2\n" * 6_000_000)
    visitor.input("data_file").set_input_files(tmp_path / "huge.csv")
    visitor.page.wait_for_selector("#alert:not(:empty)")
    assert "at most 20 MB, but huge.csv has 22.9 MB" in visitor.page.inner_text("#alert")
    assert len(posts) == len(HOSTILE)
    # A name that is markup is text, in the list of columns as in the answer.
    evil = "<img src=x onerror=document.title='hurt'>"
    rows = "".join(f"{k % 7},{k * k % 11},{3 * (k % 7) - k % 5}\n" for k in range(30))
    assert sent("mine.csv", f"{evil},b,<b>y</b>\n{rows}".encode()).startswith("Train with ")
    assert visitor.page.locator("#panel-data img, #panel-data b").count() == 0
    assert visitor.page.title() == "reshuffle: explore"
    assert visitor.input("data_target").locator("option").all_inner_texts() == [evil, "b", "<b>y</b>"]
    assert 'pd.read_csv("mine.csv")' in visitor.page.text_content("#panel-data details code >> nth=0")
    # Another target, chosen at the very moment of an answer, and a column left out: the answer says so.
    visitor.page.evaluate(
        """() => new MutationObserver((changes, observer) => {
            if (document.getElementById("panel-data").getAttribute("aria-busy") !== "false") return;
            observer.disconnect();
            $("#data_target").val("b").trigger("change");
        }).observe(document.getElementById("panel-data"), { attributeFilter: ["aria-busy"] })"""
    )
    visitor.drag("data_epochs", 60)
    visitor.page.wait_for_function('() => document.getElementById("data_target").value === "b"')
    visitor.settled("data")
    visitor.page.click('#panel-data summary:has-text("Leave out")')
    visitor.page.click("#data_leave_out input >> nth=0")
    visitor.settled("data")
    assert "target b; left out <img" in visitor.setting()
    # Another session knows nothing of it.
    assert "Send a CSV file first" in visit().open("?_inputs_&tab=%22data%22&data_source=%22upload%22")


def test_ways_to_shuffle_and_free_laws_answer_and_complain_in_sentences(visit):
    visitor = visit()
    small = "?_inputs_&tab=%22shuffle%22&shuffle_rows=16&shuffle_columns=3&shuffle_batches=2&shuffle_epochs=5"
    assert visitor.open(small).startswith("Among mini-batches, one run has the least test error with ")
    page = visitor.page
    assert page.locator("#panel-shuffle tbody tr").count() == 8
    # Single runs move with the epochs.
    place = "one => one.querySelectorAll('circle')[40].getAttribute('cx')"
    last = page.eval_on_selector("#shuffle-runs svg", place)
    page.click("#shuffle-runs >> text=Play")
    page.wait_for_function('() => document.querySelector("#shuffle-runs .moment").textContent === "epoch 2"')
    page.click("#shuffle-runs >> text=Pause")
    assert page.eval_on_selector("#shuffle-runs svg", place) != last
    page.click("#tab-free")
    told = visitor.settled("free")
    law = free.spectrum(
        "x + y - (x*y + y*x)/2", x=free.MarchenkoPastur(3, 0.1), y=free.MarchenkoPastur(3, 0.1)
    )
    ((low, high),), ((place, mass),) = law.support, law.atoms
    assert numbers(told) == pytest.approx([low, high, mass, place], rel=1e-3)
    visitor.input("free_expression").fill("x*y + __import__('os')")
    page.wait_for_selector("#panel-free.refused")
    assert "expected" in visitor.settled("free")
    page.click("text=anticommutator")
    page.wait_for_function('() => document.getElementById("free_laws").value === "x = sc(1)\\ny = sc(1)"')
    assert visitor.settled("free").startswith("The law has a density on [-")
