"""The page in a browser: sliders, addresses, sessions, keyboard, downloads, narrow and dark."""

import csv
import io
import re
import xml.etree.ElementTree as ElementTree

import pytest

from reshuffle import asymptotics, free


def numbers(text):
    return [float(found) for found in re.findall(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", text)]


def expected(aspect, alpha, batches, noise):
    """What the first tab has to say, from the library."""
    curve = asymptotics.learning_curve(aspect, alpha, batches, noise=noise)
    best = curve.best_epoch()
    return [best.epoch, float(f"{best.risk:.4g}"), float(f"{curve.limit().total:.4g}")]


@pytest.mark.slow
def test_after_fifty_quick_drags_the_answer_is_that_of_the_last_position(visit):
    visitor = visit()
    answers, sockets = [], []

    def between(socket):
        """Keeps a copy of every answer, to be delivered once more when it is too late."""
        server = socket.connect_to_server()

        def forth(message):
            if '"answer"' in message:
                answers.append(message)
            socket.send(message)

        socket.on_message(server.send)
        server.on_message(forth)
        sockets.append(socket)

    visitor.page.route_web_socket("**/*", between)
    assert numbers(visitor.open()) == expected(1.5, 0.2, 2, 0.5)
    assert visitor.setting() == "p / n = 1.5, noise 0.5, alpha = 0.2, 2 batches"
    # Everything that is ever shown is written down, with the position of the slider at that moment.
    visitor.page.evaluate(
        """() => {
            window.seen = [];
            const answer = document.getElementById("answer-limit");
            new MutationObserver(() => window.seen.push([
                answer.querySelector(".setting").textContent, document.getElementById("limit.alpha").value,
            ])).observe(answer.querySelector(".setting"), { childList: true, characterData: true, subtree: true });
        }"""
    )
    positions = [round(0.02 + 0.02 * ((7 * k) % 50), 2) for k in range(49)] + [0.3]
    for start in range(0, 50, 5):
        visitor.drag("limit.alpha", *positions[start : start + 5])
    assert numbers(visitor.settled()) == expected(1.5, 0.3, 2, 0.5)
    # An answer that comes too late, and one more question, so that it has certainly arrived.
    sockets[0].send(answers[0])
    visitor.drag("limit.noise", 0.7)
    assert numbers(visitor.settled()) == expected(1.5, 0.3, 2, 0.7)
    shown = visitor.page.evaluate("window.seen")
    assert shown[-1] == ["p / n = 1.5, noise 0.7, alpha = 0.3, 2 batches", "0.3"]
    for setting, position in shown:
        assert f"alpha = {float(position):g}," in setting
    assert visitor.page.url.endswith("?tab=limit&limit.noise=0.7&limit.alpha=0.3")


@pytest.mark.slow
def test_many_batches_are_answered_at_once_and_then_with_more_digits(visit):
    visitor = visit()
    visitor.open()
    visitor.page.evaluate(
        """() => {
            window.notes = [];
            const rest = document.querySelector("#answer-limit .rest");
            new MutationObserver(() => {
                const note = rest.querySelector(".note");
                window.notes.push(note ? note.textContent : "");
            }).observe(rest, { childList: true });
        }"""
    )
    visitor.drag("limit.batches", 3)
    assert numbers(visitor.settled()) == expected(1.5, 0.2, 3, 0.5)
    first, last = visitor.page.evaluate("window.notes")
    assert "first look" in first
    assert last == ""


@pytest.mark.slow
def test_an_address_brings_the_state_back(visit):
    first = visit()
    first.open("?tab=limit&data.source=drawn")
    first.drag("limit.aspect", 0.5)
    first.drag("limit.noise", 1.25)
    first.settled()
    first.page.click("#tab-data")
    first.settled("data")
    first.input("data.standardize").uncheck()
    told, query = first.settled("data"), first.page.url.removeprefix(first.address)
    assert query == "?tab=data&limit.aspect=0.5&limit.noise=1.25&data.source=drawn&data.standardize=no"
    second = visit()
    assert second.open(query) == told
    assert not second.input("data.standardize").is_checked()
    second.page.click("#tab-limit")
    assert numbers(second.settled("limit")) == expected(0.5, 0.2, 2, 1.25)


@pytest.mark.slow
def test_what_an_address_may_not_be_is_told_in_a_sentence(visit):
    visitor = visit()
    visitor.open("?tab=limit&limit.aspect=<b>7</b>&limit.batches=2.5&limit.noise=1")
    told = visitor.page.inner_text("#complaints")
    assert "Shape, p / n must be a number between 0.1 and 4, but it is '<b>7</b>'." in told
    assert "Batches, B must be a whole number between 1 and 8, but it is 2.5." in told
    assert visitor.page.locator("#complaints b").count() == 0
    assert numbers(visitor.sentence()) == expected(1.5, 0.2, 2, 1.0)


@pytest.mark.slow
def test_two_sessions_do_not_meet(visit):
    one, other = visit(), visit()
    one.open()
    other.open("?tab=limit&limit.batches=1")
    one.drag("limit.noise", 0.1)
    other.drag("limit.noise", 2)
    one.drag("limit.noise", 0.7)
    assert numbers(other.settled()) == expected(1.5, 0.2, 1, 2.0)
    assert numbers(one.settled()) == expected(1.5, 0.2, 2, 0.7)


@pytest.mark.slow
def test_everything_can_be_reached_with_the_keyboard(visit):
    visitor = visit()
    visitor.open("?tab=limit&data.source=drawn")
    page = visitor.page
    page.focus("#tab-limit")
    page.keyboard.press("ArrowRight")
    assert visitor.tab == "data"
    assert page.evaluate("document.activeElement.id") == "tab-data"
    page.keyboard.press("Home")
    assert visitor.tab == "limit"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "limit.aspect"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("ArrowRight")
    assert numbers(visitor.settled()) == expected(1.55, 0.2, 2, 0.5)
    # An open program stays open when the next answer comes.
    page.focus("#answer-limit summary")
    page.keyboard.press("Enter")
    visitor.drag("limit.aspect", 1.2)
    visitor.settled()
    assert "aspect=1.2" in page.inner_text("#answer-limit details[open] code")


def nameless(page):
    """What a screen reader would have no word for."""
    return page.evaluate(
        """() => Array.from(document.querySelectorAll("input, select, textarea, button, a, svg[role=img]"))
            .filter(one => one.type !== "hidden" && !(one.labels && one.labels.length)
                && !one.getAttribute("aria-label") && !one.textContent.trim())
            .map(one => one.outerHTML.slice(0, 80))"""
    )


@pytest.mark.slow
def test_pictures_are_saved_as_svg_and_as_numbers(visit):
    visitor = visit()
    visitor.open()
    saved = {}
    for kind in ("svg", "csv"):
        with visitor.page.expect_download() as download:
            visitor.page.click(f"#limit-risk-{kind}")
        assert download.value.suggested_filename == f"reshuffle-limit-risk.{kind}"
        saved[kind] = download.value.path().read_text(encoding="utf-8")
    assert ElementTree.fromstring(saved["svg"]).tag.endswith("svg")
    rows = list(csv.DictReader(io.StringIO(saved["csv"])))
    curve = asymptotics.learning_curve(1.5, 0.2, 2, noise=0.5)
    epochs = [float(row["epoch"]) for row in rows]
    assert [float(row["total"]) for row in rows] == pytest.approx(curve.risk(epochs).total)


def contrast(page, selector):
    """Of a text and what is behind it, as WCAG has it."""
    return page.eval_on_selector(
        selector,
        """element => {
            const light = colour => {
                const parts = colour.match(/[0-9.]+/g).slice(0, 3).map(part => part / 255)
                    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
            };
            let behind = element;
            while (/rgba\\(0, 0, 0, 0\\)|transparent/.test(getComputedStyle(behind).backgroundColor)
                && behind.parentElement) behind = behind.parentElement;
            const style = getComputedStyle(element);
            const front = element.namespaceURI.endsWith("svg") ? style.fill : style.color;
            const pair = [light(front), light(getComputedStyle(behind).backgroundColor)].sort((a, b) => b - a);
            return (pair[0] + 0.05) / (pair[1] + 0.05);
        }""",
    )


@pytest.mark.slow
def test_it_can_be_read_by_all_on_a_narrow_screen_in_light_and_dark(visit):
    visitor = visit(color_scheme="dark", viewport={"width": 400, "height": 800})
    page = visitor.page
    visitor.open("?tab=limit&data.source=drawn")
    assert page.get_attribute("html", "lang") == "en"
    assert page.locator("h1").count() == 1
    for tab in ("limit", "data", "free"):
        page.click(f"#tab-{tab}")
        visitor.settled(tab)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert nameless(page) == []
        assert numbers(page.get_attribute(f"#panel-{tab} svg[role=img] >> nth=0", "aria-label"))
        fills = []
        for _ in ("dark", "light"):
            for selector in (".told", ".setting", ".fact dt", "a", "summary", "svg text"):
                assert contrast(page, f"#answer-{tab} {selector}") >= 4.5, selector
            for selector in (".lead", ".help", "label"):
                assert contrast(page, f"#panel-{tab} {selector}") >= 4.5, selector
            assert contrast(page, '[role="tab"][aria-selected="false"]') >= 4.5
            fills.append(page.eval_on_selector(f"#panel-{tab} svg text", "one => getComputedStyle(one).fill"))
            page.click("#theme")
        assert fills[0] != fills[1]


HOSTILE = {
    "binary.csv": (bytes(range(256)) * 10, "no text"),
    "formula.csv": (b"a,y\n=cmd|'/c calc'!A0,1\n2,2\n3,5\n", "must be a number"),
    "ragged.csv": (b"a,y\n1,2\n3\n", "line 3 has 1 cells"),
    "huge.csv": (b"a,y\n" + b"1,2\n" * 6_000_000, "at most 20 MB"),
}


@pytest.mark.slow
def test_files_are_planned_for_or_refused_in_a_sentence(visit, tmp_path):
    visitor = visit()

    def sent(name, content):
        (tmp_path / name).write_bytes(content)
        return visitor.send(tmp_path / name)

    visitor.open("?tab=data&data.source=upload&data.epochs=50")
    assert "Send a CSV file first" in visitor.sentence()
    for name, (content, reason) in HOSTILE.items():
        assert reason in sent(name, content)
        assert visitor.page.locator("#answer-data.refused").count() == 1
    # A name that is markup is text, in the list of columns as in the answer.
    evil = "<img src=x onerror=document.title='hurt'>"
    rows = "".join(f"{k % 7},{k * k % 11},{3 * (k % 7) - k % 5}\n" for k in range(30))
    assert sent("mine.csv", f"{evil},b,<b>y</b>\n{rows}".encode()).startswith("Train with ")
    assert visitor.page.locator("#panel-data img, #panel-data b").count() == 0
    assert visitor.page.title() == "reshuffle: explore"
    assert visitor.input("data.target").locator("option").all_inner_texts() == [evil, "b", "<b>y</b>"]
    assert 'pd.read_csv("mine.csv")' in visitor.page.text_content("#answer-data details code >> nth=0")
    # Another target, and a column left out: the answer says so.
    visitor.input("data.target").select_option("b")
    visitor.settled("data")
    visitor.page.click('#panel-data summary:has-text("Leave out")')
    visitor.page.click('[id="data.leave_out.0"]')
    visitor.settled("data")
    assert "target b; left out <img" in visitor.setting()
    # Another session knows nothing of it.
    assert "Send a CSV file first" in visit().open("?tab=data&data.source=upload")


@pytest.mark.slow
def test_ways_to_shuffle_and_free_laws_answer_and_complain_in_sentences(visit):
    visitor = visit()
    small = "?tab=shuffle&shuffle.rows=16&shuffle.columns=3&shuffle.batches=2&shuffle.epochs=5"
    assert visitor.open(small).startswith("One run has the least test error with ")
    assert visitor.page.locator("#panel-shuffle tbody tr").count() == 8
    visitor.page.click("#tab-free")
    told = visitor.settled("free")
    law = free.spectrum(
        "x + y - (x*y + y*x)/2", x=free.MarchenkoPastur(3, 0.1), y=free.MarchenkoPastur(3, 0.1)
    )
    ((low, high),), ((place, mass),) = law.support, law.atoms
    assert numbers(told) == pytest.approx([low, high, mass, place], rel=1e-3)
    visitor.input("free.expression").fill("x*y + __import__('os')")
    assert "expected" in visitor.settled("free")
    assert visitor.page.locator("#answer-free.refused").count() == 1
    visitor.page.click("text=anticommutator")
    visitor.page.wait_for_url("**expression=x%2Ay*")
    assert visitor.input("free.laws").input_value() == "x = sc(1)\ny = sc(1)"
