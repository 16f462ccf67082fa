"""The page in a browser: sliders, addresses, sessions, keyboard, downloads, narrow and dark."""

import csv
import io
import re
import xml.etree.ElementTree as ElementTree

import pytest

from reshuffle import asymptotics


def numbers(text):
    return [float(found) for found in re.findall(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", text)]


def expected(aspect, alpha, batches, noise):
    """What the first tab has to say, from the library."""
    curve = asymptotics.learning_curve(aspect, alpha, batches, noise=noise)
    best = curve.best_epoch()
    return [best.epoch, float(f"{best.risk:.4g}"), float(f"{curve.limit().total:.4g}")]


def test_the_first_answer_is_the_library_s(visit):
    visitor = visit()
    assert numbers(visitor.open()) == expected(1.5, 0.2, 2, 0.5)
    assert visitor.setting() == "p / n = 1.5, noise 0.5, alpha = 0.2, 2 batches"
    facts = dict(
        zip(
            visitor.page.locator("#answer-limit dt").all_inner_texts(),
            visitor.page.locator("#answer-limit dd").all_inner_texts(),
            strict=True,
        )
    )
    assert float(facts["Largest step, alpha"]) == pytest.approx(asymptotics.critical_alpha(1.5, 2), rel=1e-3)


def test_after_fifty_quick_drags_the_answer_is_that_of_the_last_position(visit):
    visitor = visit()
    visitor.open()
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
    shown = visitor.page.evaluate("window.seen")
    assert shown
    assert shown[-1] == ["p / n = 1.5, noise 0.5, alpha = 0.3, 2 batches", "0.3"]
    for setting, position in shown:
        assert f"alpha = {float(position):g}," in setting
    assert visitor.page.url.endswith("?tab=limit&limit.alpha=0.3")


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


def test_an_address_brings_the_state_back(visit):
    first = visit()
    first.open()
    first.drag("limit.aspect", 0.5)
    first.drag("limit.noise", 1.25)
    first.settled()
    first.page.click("#tab-data")
    first.settled("data")
    first.input("data.source").select_option("wine")
    first.input("data.standardize").uncheck()
    told, query = first.settled("data"), first.page.url.removeprefix(first.address)
    assert (
        query
        == "?tab=data&limit.aspect=0.5&limit.noise=1.25&data.source=wine&data.target=target&data.standardize=no"
    )
    second = visit()
    assert second.open(query) == told
    assert not second.input("data.standardize").is_checked()
    second.page.click("#tab-limit")
    assert numbers(second.settled("limit")) == expected(0.5, 0.2, 2, 1.25)


def test_what_an_address_may_not_be_is_told_in_a_sentence(visit):
    visitor = visit()
    visitor.open("?tab=limit&limit.aspect=<b>7</b>&limit.batches=2.5&limit.noise=1")
    told = visitor.page.inner_text("#complaints")
    assert "Shape, p / n must be a number between 0.1 and 4, but it is '<b>7</b>'." in told
    assert "Batches, B must be a whole number between 1 and 8, but it is 2.5." in told
    assert visitor.page.locator("#complaints b").count() == 0
    assert numbers(visitor.sentence()) == expected(1.5, 0.2, 2, 1.0)


def test_two_sessions_do_not_meet(visit):
    one, other = visit(), visit()
    one.open(), other.open("?tab=limit&limit.batches=1")
    one.drag("limit.noise", 0.1)
    other.drag("limit.noise", 2)
    one.drag("limit.noise", 0.7)
    assert numbers(other.settled()) == expected(1.5, 0.2, 1, 2.0)
    assert numbers(one.settled()) == expected(1.5, 0.2, 2, 0.7)


def test_everything_can_be_reached_with_the_keyboard(visit):
    visitor = visit()
    visitor.open()
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


def test_everything_has_a_name_for_those_who_do_not_see_it(visit):
    visitor = visit()
    for tab in ("limit", "data"):
        visitor.open(f"?tab={tab}")
        nameless = visitor.page.evaluate(
            """() => Array.from(document.querySelectorAll("input, select, textarea, button, a, svg[role=img]"))
                .filter(one => one.type !== "hidden" && !(one.labels && one.labels.length)
                    && !one.getAttribute("aria-label") && !one.textContent.trim())
                .map(one => one.outerHTML.slice(0, 80))"""
        )
        assert nameless == []
        assert visitor.page.locator(f"#panel-{tab} svg[role=img]").count() >= 2
        assert numbers(visitor.page.get_attribute(f"#panel-{tab} svg[role=img] >> nth=0", "aria-label"))
    assert visitor.page.get_attribute("html", "lang") == "en"
    assert visitor.page.locator("h1").count() == 1


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_in_light_and_dark_and_on_a_narrow_screen(visit, scheme):
    visitor = visit(color_scheme=scheme, viewport={"width": 400, "height": 800})
    for tab in ("limit", "data"):
        visitor.open(f"?tab={tab}")
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 400
        for selector in (".told", ".setting", ".fact dt", ".remark", "a", "summary", "svg text"):
            assert contrast(visitor.page, f"#answer-{tab} {selector}") >= 4.5, selector
        for selector in (".lead", ".help", "label", '[role="tab"][aria-selected="false"]'):
            where = selector if selector.startswith("[") else f"#panel-{tab} {selector}"
            assert contrast(visitor.page, where) >= 4.5, selector
    before = visitor.page.evaluate("getComputedStyle(document.querySelector('#panel-data svg text')).fill")
    visitor.page.click("#theme")
    after = visitor.page.evaluate("getComputedStyle(document.querySelector('#panel-data svg text')).fill")
    assert before != after
