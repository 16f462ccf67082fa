"""A process that computes answers, one after the other: asked on standard input, answering on standard output.

It is its own process so that a question that takes too long can be ended, and the page goes on meanwhile.
"""

import io
import os
import pickle
import queue
import struct
import sys
import threading
import warnings
from contextlib import redirect_stderr
from dataclasses import replace
from importlib import import_module
from typing import IO, Any

LARGEST_MEMORY = 6 << 30
"""Bytes of addresses that a worker may have, where the system can tell it so."""
_LENGTH = struct.Struct(">Q")
_WARNING = "reshuffle: warning: "


def pack(message: object) -> bytes:
    """A message with its length before it."""
    data = pickle.dumps(message)
    return _LENGTH.pack(len(data)) + data


def answer(module: str, function: str, values: dict[str, Any], upload: str | None) -> Any:
    """What a stage of a tab answers, or why it does not: a `Shown`, a `Refused`, or None for nothing to add.

    What is told by warnings becomes remarks; no exception leaves this.
    """
    from reshuffle.page.tab import Refused, Shown, complaint

    told = io.StringIO()
    try:
        with warnings.catch_warnings(record=True) as said, redirect_stderr(told):
            warnings.simplefilter("always")
            found = getattr(import_module(f"reshuffle.page.tabs.{module}"), function)(values, upload)
    except Exception as error:
        return Refused(complaint(error))
    words = [str(warning.message) for warning in said if issubclass(warning.category, UserWarning)]
    words += [
        line.removeprefix(_WARNING) for line in told.getvalue().splitlines() if line.startswith(_WARNING)
    ]
    if words and isinstance(found, Shown):
        return replace(found, remarks=[*found.remarks, *dict.fromkeys(words)])
    return found


def main() -> None:
    """Answer until standard input ends; who asked is gone then, and so is whatever is being computed."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Nothing that prints may come between the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _bound_memory()
    questions: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, questions), daemon=True).start()
    _warm_up()
    while True:
        answers.write(pack(answer(*questions.get())))
        answers.flush()


def _listen(stream: IO[bytes], questions: "queue.SimpleQueue[Any]") -> None:
    while head := stream.read(_LENGTH.size):
        questions.put(pickle.loads(stream.read(_LENGTH.unpack(head)[0])))
    os._exit(0)


def _bound_memory() -> None:
    try:
        import resource
    except ModuleNotFoundError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = LARGEST_MEMORY if hard == resource.RLIM_INFINITY else min(LARGEST_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _warm_up() -> None:
    """Import what every answer needs, and draw once: the first picture takes longest."""
    from reshuffle.page import drawing

    for name in ("asymptotics", "planning", "plotting"):
        import_module(f"reshuffle.{name}")
    drawing.document(drawing.axes("", ""))


if __name__ == "__main__":
    main()
