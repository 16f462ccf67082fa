"""A pool of processes that compute answers, each of which can be killed.

The server writes a question to the standard input of a process and reads the answer from its standard output, both
as a length and a pickle. A process that takes too long, or whose question nobody waits for any more, is killed and
replaced.
"""

import asyncio
import contextlib
import io
import os
import pickle
import queue
import struct
import sys
import threading
import warnings
from dataclasses import replace
from importlib import import_module
from typing import Any

from reshuffle.page.answers import TabAnswer, refusal
from reshuffle.page.tabs import Tab

LONGEST, LONGEST_OF_MANY = 60.0, 15.0
"""Seconds that an answer may take, and may take while others wait for a process."""
PATIENCE = 1.0
"""Seconds that an answer nobody waits for may still take before its process is killed."""
LARGEST_MEMORY = 6 << 30
"""Bytes of addresses that a process may have, where the system can limit them."""
_LARGEST_ANSWER = 1 << 28
_LENGTH = struct.Struct(">Q")
_WARNING = "reshuffle: warning: "


class Worker:
    """One process, started again after it was killed."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> asyncio.subprocess.Process:
        """Return the process, which imports what it needs at once."""
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                # -P: a file in the current folder must not be taken for a module of the library.
                *(sys.executable, "-P", "-m", "reshuffle.page.workers"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        return self._process

    async def ask(self, question: tuple[Any, ...]) -> TabAnswer:
        """Return the answer to one question; a refusal if the process died of it."""
        process = await self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(_packed(question))
            await process.stdin.drain()
            (length,) = _LENGTH.unpack(await process.stdout.readexactly(_LENGTH.size))
            answer: TabAnswer = pickle.loads(await process.stdout.readexactly(min(length, _LARGEST_ANSWER)))
            return answer
        except (OSError, asyncio.IncompleteReadError):
            await self.kill()
            return refusal("This took more memory than there is; try smaller numbers.")

    async def kill(self) -> None:
        """End the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.stdin.close()
            await process.wait()


class Pool:
    """At most `size` workers, started when they are first needed; questions wait in the order they came.

    An answer may take `longest` seconds.
    """

    def __init__(self, size: int, longest: float = LONGEST):
        self.longest = longest
        self._idle = [Worker() for _ in range(size)]
        self._all = list(self._idle)
        self._free = asyncio.Semaphore(size)
        self._waiting = 0
        self._leaving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Let one worker prepare itself."""
        await self._idle[-1].start()

    async def ask(self, tab: Tab, stage: int, values: dict[str, Any], upload: str | None) -> TabAnswer:
        """Return the answer of a stage of a tab. Cancelled, it leaves the worker fit for the next question."""
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        # The worker that was used last is warm.
        worker = self._idle.pop()
        work = asyncio.create_task(worker.ask((tab.module, stage, values, upload)))
        clock, patience = asyncio.get_running_loop().time, PATIENCE
        begin = clock()
        try:
            while not work.done():
                longest = min(self.longest, LONGEST_OF_MANY) if self._waiting else self.longest
                left = begin + longest - clock()
                if left <= 0:
                    patience = 0.0
                    return refusal(
                        f"This took longer than {longest:g} seconds and was stopped; {tab.advice}."
                    )
                # Others may begin to wait meanwhile.
                await asyncio.wait({work}, timeout=min(0.5, left))
            return work.result()
        finally:
            leaving = asyncio.create_task(self._leave(worker, work, patience))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    async def _leave(self, worker: Worker, work: "asyncio.Task[TabAnswer]", patience: float) -> None:
        """Hand the worker to the next question: at once if it is done, else after some patience and its end."""
        done, _ = await asyncio.wait({work}, timeout=patience)
        if not done:
            await worker.kill()
            await asyncio.wait({work})
            await worker.start()
        self._idle.append(worker)
        self._free.release()

    async def stop(self) -> None:
        """End all workers."""
        for worker in self._all:
            await worker.kill()


def answer(module: str, stage: int, values: dict[str, Any], upload: str | None) -> TabAnswer:
    """Return the answer of a tab, or why there is none; warnings become remarks, errors refusals."""
    printed = io.StringIO()
    try:
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stderr(printed):
            warnings.simplefilter("always")
            found: TabAnswer = import_module(f"reshuffle.page.{module}").answer(values, stage, upload)
    except Exception as error:
        return refusal(error)
    remarks = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    lines = printed.getvalue().splitlines()
    remarks += [line.removeprefix(_WARNING) for line in lines if line.startswith(_WARNING)]
    return replace(found, remarks=[*found.remarks, *dict.fromkeys(remarks)])


def _packed(message: object) -> bytes:
    data = pickle.dumps(message)
    return _LENGTH.pack(len(data)) + data


def main() -> None:
    """Answer until standard input ends: then the server is gone, and so is whatever is being computed."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Nothing that prints may come between the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with contextlib.suppress(ModuleNotFoundError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = LARGEST_MEMORY if hard == resource.RLIM_INFINITY else min(LARGEST_MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    questions: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def listen() -> None:
        while head := sys.stdin.buffer.read(_LENGTH.size):
            questions.put(pickle.loads(sys.stdin.buffer.read(_LENGTH.unpack(head)[0])))
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    # What every answer needs is imported before the first question.
    for name in ("page.limit", "planning"):
        import_module(f"reshuffle.{name}")
    while True:
        answers.write(_packed(answer(*questions.get())))
        answers.flush()


if __name__ == "__main__":
    main()
