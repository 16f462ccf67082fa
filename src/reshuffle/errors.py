"""Errors beyond a bad argument: each says what is missing and what to try."""


class MissingTruthError(ValueError):
    """A question about the test error was asked of a problem that does not know the truth."""


class UnsupportedError(TypeError):
    """A question was asked of a run that has no answer to it, whatever the budget."""


class BudgetError(RuntimeError):
    """An answer would cost more time or memory than is allowed; the message says how much, and what costs less."""


class AccuracyWarning(UserWarning):
    """An answer is less accurate than was asked for; it carries its error."""
