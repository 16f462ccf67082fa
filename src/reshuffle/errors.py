"""Errors beyond a bad argument: each says what is missing and what to try."""


class MissingTruthError(ValueError):
    """A question about the test error of a problem whose truth is unknown."""


class UnsupportedError(TypeError):
    """A question to which a run has no answer, whatever the budget."""


class BudgetError(RuntimeError):
    """An answer would cost more time or memory than is allowed; the message says how much, and what costs less."""


class AccuracyWarning(UserWarning):
    """An answer is less accurate than requested; it carries its error."""
