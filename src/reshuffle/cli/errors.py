"""Errors as one line on standard error and an exit code; never a traceback."""

import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

from reshuffle.errors import BudgetError

if TYPE_CHECKING:
    from cyclopts import App

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""


class InputError(ValueError):
    """What the user asked for cannot be: the message names the option, what is allowed, and what was given."""


def guarded(app: "App", arguments: list[str]) -> int:
    """Run the application and turn whatever it raises into a line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that cannot show a sign gets a question mark, not an exception.
            stream.reconfigure(errors="replace")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            app(arguments, exit_on_error=False, print_error=False, result_action="return_none")
            sys.stdout.flush()
        except KeyboardInterrupt as interruption:
            return _complain(" ".join(map(str, interruption.args)) or "interrupted.", INTERRUPTED)
        except BrokenPipeError:
            # The reader, such as `head`, has had enough. What is still buffered must not be flushed at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except Exception as error:
            return _complain(*explain(error))
    return 0


def explain(error: Exception) -> tuple[str, int]:
    """The message of an error and the exit code it stands for.

    >>> explain(ValueError("n must be a whole number of at least 1, but it is 0."))
    ('n must be a whole number of at least 1, but it is 0.', 2)
    >>> explain(OverflowError("too large"))
    ('too large', 1)
    """
    from cyclopts import CycloptsError

    if isinstance(error, CycloptsError):
        return f"{error} Try --help.", BAD_INPUT
    if isinstance(error, OSError):
        return f"{error.filename or 'file'}: {error.strerror or error}.", BAD_INPUT
    if isinstance(error, MemoryError):
        return f"not enough memory: {error or 'the problem is too large.'}", FAILED
    # numpy's and scipy's LinAlgError is a ValueError, but it is a computation that failed.
    computation = isinstance(error, ArithmeticError) or type(error).__name__ == "LinAlgError"
    if isinstance(error, ZeroDivisionError):
        # An expression that divides by what has no inverse.
        return str(error), BAD_INPUT
    if isinstance(error, (ValueError, TypeError, ModuleNotFoundError)) and not computation:
        return str(error), BAD_INPUT
    if computation or isinstance(error, BudgetError):
        return str(error), FAILED
    return f"unexpected {type(error).__name__}: {error}", FAILED


def _complain(message: str, code: int) -> int:
    print(f"reshuffle: {' '.join(message.split())}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"reshuffle: warning: {' '.join(str(message).split())}", file=sys.stderr)
