"""Exceptions that say what is allowed, what was given and what to try.

Names of arguments stand in braces in their texts, as in "try a larger {budget}". `str(error)` writes them as in
Python; a front end calls `error.worded(words)` with its words, such as {"budget": "--budget"}.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Hint: TypeAlias = str | Sequence[str]
"""A sentence or clause that says what to try, or alternatives to be listed."""

_NAME = re.compile(r"\{(\w+)\}")
_IN_PYTHON = {"critical_step": "critical_step(problem, scheme)"}


class Worded(Exception):  # noqa: N818 - warnings derive from it, too
    """Mixin of exceptions and warnings: a message, and a hint that follows it.

    Attributes
    ----------
    message : str
        The text without the hint, names of arguments in braces.
    hint : str or sequence of str
        Suggestions: a sentence, a clause, or alternatives; front ends leave out those with names that they lack.
    """

    def __init__(self, message: str = "", *, hint: Hint = ""):
        super().__init__(message)
        self.message, self.hint = message, hint

    def worded(self, words: Mapping[str, str] | None = None, *, with_hint: bool = True) -> str:
        """Return message and hint with arguments named by `words`, or as in Python where it has no word.

        Without the hint if `with_hint` is false.

        >>> error = BudgetError("it takes 1e13 operations.", hint=("a larger {budget}", '{method}="auto"'))
        >>> print(error)
        it takes 1e13 operations; try a larger budget or method="auto".
        >>> error.worded({"budget": "--budget"})
        'it takes 1e13 operations; try a larger --budget.'
        """
        known = _IN_PYTHON | dict(words or {})
        hint = self.hint if with_hint else ""
        if not isinstance(hint, str):
            possible = [
                one for one in hint if words is None or all(name in words for name in _NAME.findall(one))
            ]
            *others, last = possible or [""]
            hint = last and "try " + (f"{', '.join(others)} or {last}" if others else last)
        text = self.message
        if hint:
            text = f"{text.rstrip('.')}{'. ' if hint[0].isupper() else '; '}{hint.rstrip('.')}."
        return _NAME.sub(lambda name: known.get(name[1], name[1]), text)

    def __str__(self) -> str:
        return self.worded()


class ArgumentError(Worded, ValueError):
    """An argument outside what is allowed; its message is "`argument` must `allowed`, but `given`; `hint`".

    Where nothing is allowed, as of a file that cannot be read, `allowed` is empty: "`argument` `given`; `hint`".

    Attributes
    ----------
    argument : str
        Its name.
    allowed : str
        The requirement, such as "be a whole number of at least 1".
    given : str
        The violation, such as "it is 0".
    hint : str or sequence of str
        Suggestions of what to try.

    Examples
    --------
    >>> import reshuffle as rs
    >>> try:
    ...     rs.RandomReshuffling(batches=0)
    ... except rs.ArgumentError as error:
    ...     print(error)
    ...     print(error.argument, error.allowed, error.given, sep="; ")
    batches must be a whole number of at least 1, but it is 0.
    batches; be a whole number of at least 1; it is 0
    """

    def __init__(self, argument: str, allowed: str, given: str, hint: Hint = ""):
        name = f"{{{argument}}}" if argument.isidentifier() else argument
        super().__init__(f"{name} must {allowed}, but {given}." if allowed else f"{name} {given}.", hint=hint)
        # What `pickle` calls the class with.
        self.args = argument, allowed, given
        self.argument, self.allowed, self.given = argument, allowed, given


class MissingTruthError(Worded, ValueError):
    """A question about the test error of a problem whose truth is unknown."""


class UnsupportedError(Worded, TypeError):
    """A question to which a run has no answer, whatever the budget."""


class BudgetError(Worded, RuntimeError):
    """An answer would cost more time or memory than is allowed; the message says how much, and what costs less."""


class RangeError(Worded, OverflowError):
    """An answer leaves the range of floating-point numbers."""


class AccuracyWarning(Worded, UserWarning):
    """An answer is less accurate than requested; it carries its error."""
