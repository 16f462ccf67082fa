"""Processes that compute: several at once, an end to what takes too long, and questions that nobody waits for."""

import asyncio
import os
import subprocess
import sys

import pytest

from reshuffle.page import tabs, workers
from reshuffle.page.workers import Pool

QUESTION = (tabs.LIMIT, 0, tabs.LIMIT.defaults, None)


@pytest.fixture(autouse=True)
def sources(monkeypatch):
    # A worker must find the package from wherever it is started.
    paths = [os.path.abspath(path) for path in sys.path if path]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


def story(action, size=1, **settings):
    async def main():
        pool = Pool(size, **settings)
        try:
            return await action(pool)
        finally:
            await pool.stop()

    return asyncio.run(main())


@pytest.mark.slow
def test_a_pool_answers_ends_what_takes_too_long_and_goes_on(tmp_path, monkeypatch):
    # A file that bears the name of a module must not be taken for it.
    (tmp_path / "queue.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)

    async def action(pool):
        first = await pool.ask(*QUESTION)
        pool.longest = 0.0
        late = await pool.ask(*QUESTION)
        pool.longest = 60.0
        abandoned = asyncio.create_task(pool.ask(*QUESTION))
        await asyncio.sleep(0)
        abandoned.cancel()
        again = await pool.ask(*QUESTION)
        (await pool._all[0].start()).kill()
        died = await pool.ask(*QUESTION)
        return first, late, again, died, await pool.ask(*QUESTION)

    first, late, again, died, last = story(action)
    assert not first.is_refusal
    assert late.sentence == "This took longer than 0 seconds and was stopped; try smaller numbers."
    assert again == first == last
    assert died == first or "memory" in died.sentence


class Slow:
    """A worker that answers when it is let."""

    def __init__(self):
        self.gate, self.killed = None, 0

    async def start(self):
        pass

    async def ask(self, question):
        self.gate = asyncio.get_running_loop().create_future()
        return await self.gate

    async def kill(self):
        self.killed += 1
        if self.gate is not None and not self.gate.done():
            self.gate.set_result(None)


def test_a_slow_question_ends_early_where_others_wait(monkeypatch):
    monkeypatch.setattr(workers, "LONGEST_OF_MANY", 0.02)

    async def action(pool):
        pool._all = pool._idle = [Slow()]
        slow = asyncio.create_task(pool.ask(*QUESTION))
        await asyncio.sleep(0.05)
        assert not slow.done()
        waiting = asyncio.create_task(pool.ask(*QUESTION))
        assert "0.02 seconds" in (await slow).sentence
        while pool._all or pool._waiting:
            await asyncio.sleep(0)
        waiting.cancel()
        return True

    assert story(action)


def test_two_questions_are_answered_beside_each_other():
    async def action(pool):
        slow = [Slow(), Slow()]
        pool._idle = list(slow)
        tasks = [asyncio.create_task(pool.ask(*QUESTION)) for _ in slow]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        slow[0].gate.set_result("quick")
        assert await tasks[1] == "quick"
        assert not tasks[0].done()
        slow[1].gate.set_result("slow")
        return await tasks[0]

    assert story(action, size=2) == "slow"


def test_a_worker_ends_with_whoever_started_it():
    process = subprocess.Popen(
        [sys.executable, "-m", "reshuffle.page.workers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()
