"""Processes that compute: answers in turn, an end to what takes too long, and questions that nobody waits for."""

import asyncio
import os
import subprocess
import sys

import pytest

from reshuffle.page import workshop
from reshuffle.page.conversation import Conversation
from reshuffle.page.tab import Refused, Shown, Stage, Tab
from reshuffle.page.tabs import without_data
from reshuffle.page.workshop import Lane

VALUES = {field.name: field.default for field in without_data.TAB.fields}
QUESTION = ("without_data", "quick", VALUES, None)
SOURCES = os.pathsep.join(path for path in sys.path if path)


@pytest.fixture(autouse=True)
def sources(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", SOURCES)


@pytest.mark.slow
def test_a_lane_answers_ends_what_takes_too_long_and_goes_on():
    async def story():
        lane = Lane(60.0)
        first = await lane.ask(QUESTION, "")
        lane.seconds = 0.0
        late = await lane.ask(QUESTION, "wait less")
        lane.seconds = 60.0
        abandoned = asyncio.create_task(lane.ask(QUESTION, ""))
        await asyncio.sleep(0)
        abandoned.cancel()
        again = await lane.ask(QUESTION, "")
        await lane.stop()
        return first, late, again

    first, late, again = asyncio.run(story())
    assert isinstance(first, Shown)
    assert isinstance(late, Refused)
    assert late.sentence == "This took longer than 0 seconds and was stopped; wait less."
    assert again == first


@pytest.mark.slow
def test_a_process_that_dies_is_told_and_replaced():
    async def story():
        lane = Lane(60.0)
        process = await lane._worker.start()
        process.kill()
        await process.wait()
        lane._worker._process = process
        found = [await lane.ask(QUESTION, "")]
        dying = await lane._worker.start()
        asking = asyncio.create_task(lane.ask(QUESTION, ""))
        await asyncio.sleep(0)
        dying.kill()
        found.append(await asking)
        await lane.stop()
        return found

    first, second = asyncio.run(story())
    assert isinstance(first, Shown)
    assert isinstance(second, Shown | Refused)


def test_a_worker_ends_with_whoever_asked_it():
    process = subprocess.Popen(
        [sys.executable, "-m", "reshuffle.page.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


class Slow:
    """A workshop that answers when it is told to."""

    def __init__(self):
        self.asked, self.ended = [], 0

    async def ask(self, tab, stage, values, upload):
        gate = asyncio.get_running_loop().create_future()
        self.asked.append((stage.function, values["batches"], gate))
        try:
            return await gate
        except asyncio.CancelledError:
            self.ended += 1
            raise


def question(serial, batches):
    return {"serial": serial, "tab": "limit", "texts": {"limit.batches": str(batches)}}


def told(action, monkeypatch, tabs=(without_data.TAB,)):
    """What a browser is sent in the course of a story."""
    monkeypatch.setattr("reshuffle.page.conversation.SETTLED", 0.0)
    sent = []

    async def send(kind, message):
        sent.append((kind, message))

    async def story():
        slow = Slow()
        conversation = Conversation(tabs, slow, send)
        await action(conversation, slow)
        conversation.stop()
        await asyncio.sleep(0)

    asyncio.run(story())
    return sent


async def until(condition):
    while not condition():
        await asyncio.sleep(0)


def test_a_new_question_ends_the_work_on_the_one_before(monkeypatch):
    async def action(conversation, slow):
        for serial in range(1, 51):
            conversation.ask(question(serial, 1 + serial % 8))
            await until(lambda count=serial: len(slow.asked) == count)
        assert slow.ended == 49
        slow.asked[-1][2].set_result(Shown("fifty"))
        await until(lambda: len(slow.asked) == 51)
        slow.asked[-1][2].set_result(None)
        await until(lambda: conversation._work.done())

    sent = told(action, monkeypatch)
    answers = [message for kind, message in sent if kind == "answer"]
    assert [message["serial"] for message in answers] == [50]
    assert answers[0]["sentence"] == "fifty"
    assert not answers[0]["final"]
    assert sent[-1] == ("done", {"serial": 50, "tab": "limit"})


def test_a_thorough_answer_takes_the_place_of_the_quick_one(monkeypatch):
    async def action(conversation, slow):
        conversation.ask(question(7, 3))
        for words in ("about", "exactly"):
            await until(lambda: any(not gate.done() for *_, gate in slow.asked))
            slow.asked[-1][2].set_result(Shown(words))
            await asyncio.sleep(0.01)

    answers = [message for kind, message in told(action, monkeypatch) if kind == "answer"]
    assert [(one["serial"], one["sentence"], one["final"]) for one in answers] == [
        (7, "about", False),
        (7, "exactly", True),
    ]


def test_bad_values_are_answered_without_any_work(monkeypatch):
    async def action(conversation, slow):
        conversation.ask(question(1, 99))
        await until(lambda: conversation._work.done())
        assert slow.asked == []

    (_, first), (_, second) = told(action, monkeypatch)
    assert first["query"] == "tab=limit"
    assert second["refused"]
    assert "between 1 and 8, but it is 99" in second["sentence"]


@pytest.mark.parametrize(
    "nonsense",
    [
        None, "x", 7, [], {}, {"serial": 1}, {"serial": "1", "tab": "limit", "texts": {}},
        {"serial": 1, "tab": "limit", "texts": {"limit.batches": 2}},
        {"serial": 1, "tab": "limit", "texts": {f"a{k}": "" for k in range(1000)}},
    ],
)  # fmt: skip
def test_what_is_no_question_is_ignored(nonsense, monkeypatch):
    async def action(conversation, slow):
        conversation.ask(nonsense)
        await asyncio.sleep(0)

    assert told(action, monkeypatch) == []


def test_stages_have_the_lane_that_suits_them():
    made = workshop.Workshop()
    tab = Tab("a", "A", "?", "", "without_data", (), (Stage("quick", True), Stage("thorough", False)))
    assert made.lane(tab.stages[0]) is not made.lane(tab.stages[1])
    assert made.lane(tab.stages[0]).seconds < made.lane(tab.stages[1]).seconds
