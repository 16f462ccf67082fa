"""Standard error: failures as one line with an exit code, in the options of the command, and lines of progress."""

import errno
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from reshuffle.errors import BudgetError, Worded

if TYPE_CHECKING:
    from cyclopts import App

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""

STANDARD_OUTPUT = "standard output"
_BAD_PATHS = {
    errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.EROFS,
    errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL,
}  # fmt: skip
"""Errors of the system on a path that was badly chosen; all others, such as a full disk, are failures."""

_MEANT = {
    "--lr": ("--step", "--alpha"),
    "--learning-rate": ("--step", "--alpha"),
    "--eta": ("--step", "--alpha"),
    "--lambda": ("--weight-decay",),
    "--ridge": ("--weight-decay",),
    "--runs": ("--simulate",),
    "--sigma": ("--noise",),
    "--label": ("--target",),
    "--shuffle": ("--scheme",),
    "--tolerance": ("--rtol",),
}
"""Names that other programs have for our options; those of a command are tried in turn."""

_commands: list[tuple["App", list[str]]] = []
"""The application and the arguments that are worked on."""
_FORMER = {"--penalty": "--weight-decay", "--ask": "--metrics", "--step-size": "--step"}
"""Former spellings of options, which are still accepted."""

_INTERVAL = 0.25
"""Seconds between two checks whether a line is due."""
_over = Event()
"""Set once the command needs no more lines of progress."""


def guarded(app: "App", arguments: list[str]) -> int:
    """Run the application and turn whatever it raises into a line and an exit code."""
    if sys.stderr is None:
        # `2>&-`: without this, print(file=None) would send messages to standard output.
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
    if sys.stdout is None:
        return _fail(f"{STANDARD_OUTPUT} is closed; send it to a file, or to {os.devnull}.", FAILED)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that cannot show a sign gets a question mark, not an exception.
            stream.reconfigure(errors="replace")
    _commands[:] = [(app, arguments)]
    with warnings.catch_warnings():
        warnings.showwarning = warn
        try:
            # Whatever is written to a file says so itself.
            with writing(STANDARD_OUTPUT), watched():
                split = (argument.partition("=") for argument in arguments)
                renamed = [_FORMER.get(option, option) + sign + value for option, sign, value in split]
                app(renamed, exit_on_error=False, print_error=False, result_action="return_none")
                sys.stdout.flush()
        except KeyboardInterrupt as interruption:
            return _fail(" ".join(map(str, interruption.args)) or "interrupted.", INTERRUPTED)
        except BrokenPipeError:
            # The reader, such as `head`, has had enough.
            _abandon_standard_output()
            return 0
        except Exception as error:
            if isinstance(error, OSError) and error.filename == STANDARD_OUTPUT:
                _abandon_standard_output()
            return _fail(*explain(error))
        finally:
            _commands.clear()
    return 0


def words() -> dict[str, str]:
    """Arguments of the library as options of the command that runs, as they were spelled."""

    def as_argument(option: str) -> str:
        return option.removeprefix("--").replace("-", "_")

    found = {"critical_step": "the critical one, which reshuffle stability prints"}
    for app, arguments in _commands:
        *_, command = app.parse_commands(arguments)[1]
        options = [] if command.default_command is None else command.assemble_argument_collection()
        names = [name for option in options for name in option.names if name.startswith("--")]
        found |= {as_argument(name): name for name in names}
        typed = {argument.partition("=")[0] for argument in arguments}
        found |= {as_argument(present): former for former, present in _FORMER.items() if former in typed}
    if "weight_decay" in found:
        found["penalty"] = found["weight_decay"]
    return found


@contextmanager
def watched() -> Iterator[None]:
    """Print a plain line of progress now and then, from a thread, for as long as this lasts and no bar is shown."""
    begin = time.monotonic()

    def lines() -> Any:
        # The lines know the open loops; help does without loading them.
        return getattr(sys.modules.get("reshuffle._progress"), "lines", None)

    def watch() -> None:
        while not _over.wait(_INTERVAL):
            if (known := lines()) is not None:
                known.command = begin
                known.of_command()

    _over.clear()
    thread = Thread(target=watch, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        hush()
        thread.join()
        if (known := lines()) is not None:
            known.command = None


def hush() -> None:
    """Print no more lines of progress: the command has answered, or waits for its user."""
    _over.set()


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Let errors of the system name what was written to: of a full disk they do not know it."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise


def _abandon_standard_output() -> None:
    """Let nothing that is still buffered be flushed at exit, where it would fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def explain(error: Exception) -> tuple[str, int]:
    """The message of an error, and its exit code.

    >>> explain(ValueError("n must be a whole number of at least 1, but it is 0."))
    ('n must be a whole number of at least 1, but it is 0.', 2)
    >>> explain(OverflowError("too large"))
    ('too large', 1)
    """
    from cyclopts import CycloptsError, MissingArgumentError, UnknownOptionError

    if isinstance(error, UnknownOptionError):
        given = (error.token.keyword or error.token.value).partition("=")[0]
        known = {name for argument in error.argument_collection for name in argument.names}
        # In limits, --step is that of another question.
        known -= {"--step"} if "--one-pass" in known else set()
        meant = next((name for name in _MEANT.get(given.lower(), ()) if name in known), None)
        said = str(error) if meant is None else f"Unknown option: {given}. Did you mean {meant}?"
        return f"{said} Try --help.", BAD_INPUT
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        option, unused = error.argument.name, error.unused_tokens or ["-"]
        if not unused[0].startswith("-"):
            return f"{option} is missing. Did you mean {option} {unused[0]}? Try --help.", BAD_INPUT
    if isinstance(error, CycloptsError):
        return f"{error} Try --help.", BAD_INPUT
    if isinstance(error, OSError):
        where = "" if error.filename is None else f"{error.filename}: "
        return f"{where}{error.strerror or error}.", BAD_INPUT if error.errno in _BAD_PATHS else FAILED
    if isinstance(error, MemoryError):
        return f"not enough memory: {error or 'the problem is too large.'}", FAILED
    message = error.worded(words()) if isinstance(error, Worded) else str(error)
    # numpy's and scipy's LinAlgError is a ValueError, but it is a computation that failed; an expression divides by
    # zero where something has no inverse.
    is_input = isinstance(error, (ValueError, TypeError, ModuleNotFoundError, ZeroDivisionError))
    if is_input and type(error).__name__ != "LinAlgError" and not isinstance(error, OverflowError):
        return message, BAD_INPUT
    if is_input or isinstance(error, (ArithmeticError, BudgetError)):
        return message, FAILED
    return f"unexpected {type(error).__name__}: {error}", FAILED


def reason_of(error: Exception) -> str:
    """Why a question has no answer: the message without its advice.

    >>> reason_of(BudgetError("batches is 8, but at most 4 are allowed.", hint=("fewer batches",)))
    'batches is 8, but at most 4 are allowed'
    """
    message = error.worded(words(), with_hint=False) if isinstance(error, Worded) else explain(error)[0]
    return message.partition("; try ")[0].rstrip(".")


def warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning on standard error, in one line."""
    text = message.worded(words()) if isinstance(message, Worded) else str(message)
    print(f"reshuffle: warning: {' '.join(text.split())}", file=sys.stderr)


def _fail(message: str, code: int) -> int:
    print(f"reshuffle: {' '.join(message.split())}", file=sys.stderr)
    return code
