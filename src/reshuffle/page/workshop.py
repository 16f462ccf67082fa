"""The processes that compute: a lane for what is quick, one for what is not, an end to what takes too long."""

import asyncio
import contextlib
import os
import pickle
import struct
import sys
from collections.abc import Sequence
from typing import Any

from reshuffle.page.tab import TOO_LONG, Refused, Stage, Tab
from reshuffle.page.worker import pack

QUICK, THOROUGH = 20.0, 60.0
"""Seconds that an answer may take; what is quick takes a fraction of one, but machines are busy at times."""
PATIENCE = 1.0
"""Seconds that an answer nobody waits for any more may still take before its process is ended."""
_LENGTH = struct.Struct(">Q")
_LARGEST_ANSWER = 1 << 30


class Worker:
    """One process, started anew after it was ended."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> asyncio.subprocess.Process:
        """The process, which begins to import what it needs at once."""
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "reshuffle.page.worker",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "svg"},
                start_new_session=True,
            )  # fmt: skip
        return self._process

    async def ask(self, question: Sequence[Any]) -> Any:
        """The answer to one question; None if the process died of it."""
        process = await self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(pack(tuple(question)))
            await process.stdin.drain()
            length = _LENGTH.unpack(await process.stdout.readexactly(_LENGTH.size))[0]
            return pickle.loads(await process.stdout.readexactly(min(length, _LARGEST_ANSWER)))
        except (OSError, asyncio.IncompleteReadError):
            await self.stop()
            return Refused("This took more memory than there is; try smaller numbers.")

    async def stop(self) -> None:
        """End the process, whatever it is doing."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.stdin.close()
        await process.wait()


class Lane:
    """A worker and those who wait for it, in the order they came."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._worker = Worker()
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Let the worker prepare itself."""
        await self._worker.start()

    async def ask(self, question: Sequence[Any], advice: str) -> Any:
        """The answer to one question, or a `Refused`. Cancelled, it leaves the worker fit for the next one."""
        await self._turn.acquire()
        work = asyncio.create_task(self._worker.ask(question))
        try:
            return await asyncio.wait_for(asyncio.shield(work), self.seconds)
        except TimeoutError:
            return Refused(TOO_LONG.format(seconds=self.seconds, advice=advice))
        finally:
            if work.done():
                self._turn.release()
            else:
                # Nobody waits for it any more: the next in turn waits a little, or the process is ended.
                self._leaving = asyncio.create_task(self._leave(work, PATIENCE))

    async def _leave(self, work: "asyncio.Task[Any]", patience: float) -> None:
        done, _ = await asyncio.wait({work}, timeout=patience)
        if not done:
            # Its answer ends with the process.
            await self._worker.stop()
            await asyncio.wait({work})
            await self._worker.start()
        self._turn.release()

    async def stop(self) -> None:
        """End the worker."""
        await self._worker.stop()


class Workshop:
    """All lanes."""

    def __init__(self) -> None:
        self._quick, self._thorough = Lane(QUICK), Lane(THOROUGH)

    async def start(self) -> None:
        """Let all workers prepare themselves."""
        for lane in (self._quick, self._thorough):
            await lane.start()

    async def ask(self, tab: Tab, stage: Stage, values: dict[str, Any], upload: str | None) -> Any:
        """What a stage of a tab answers: a `Shown`, a `Refused`, or None for nothing to add."""
        return await self.lane(stage).ask((tab.module, stage.function, values, upload), tab.advice)

    def lane(self, stage: Stage) -> Lane:
        """Where a stage is computed."""
        return self._quick if stage.is_quick else self._thorough

    async def stop(self) -> None:
        """End all workers."""
        for lane in (self._quick, self._thorough):
            await lane.stop()
