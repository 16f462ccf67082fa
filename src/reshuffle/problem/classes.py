"""Classes as targets of least squares, and the way back: +-1 for two classes, one output each for more."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle._arrays import AnyArray, FloatArray, IntArray, flag
from reshuffle.errors import ArgumentError

_ROUNDING = 1e-9
"""Deviations of targets from two values, relative to the distance of these, that are rounding."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes of rows, learned by squared loss as numbers.

    >>> made = Classes.of(["cat", "dog", "cat"])
    >>> made.names.tolist(), made.targets.tolist(), made.decide(np.array([-0.2, 0.3])).tolist()
    (['cat', 'dog'], [-1.0, 1.0, -1.0], ['cat', 'dog'])
    >>> Classes.of([3, 5, 4]).targets.tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    """

    names: AnyArray  # (K,): the labels, sorted
    numbers: IntArray  # (n,): the place of the label of each row among them

    @classmethod
    def of(cls, labels: Any) -> "Classes":
        """Classes of labels (n,) of any kind that can be sorted; at least two of them differ."""
        given = np.asarray(labels)
        if given.ndim != 1:
            raise ArgumentError("y", "have shape (n,), one label per row", f"its shape is {given.shape}")
        missing = given != given
        if given.dtype == object:
            missing |= np.array([label is None for label in given], dtype=bool)
        if missing.any():
            where = int(np.argmax(missing))
            raise ArgumentError(
                "y", "have a label in every row", f"y[{where}] is {given.tolist()[where]}", "drop such rows"
            )
        try:
            names, numbers = np.unique(given, return_inverse=True)
        except TypeError:
            kinds = " and ".join(sorted({type(label).__name__ for label in given.tolist()}))
            raise ArgumentError("y", "have labels of one kind", f"they are {kinds}") from None
        if len(names) < 2:
            raise ArgumentError("y", "have at least two classes", f"all rows are {given[:1].tolist()}")
        return cls(names, numbers.ravel())

    @classmethod
    def known(cls, names: AnyArray, labels: Any) -> "Classes":
        """Classes of labels (n,) that all have one of these names."""
        given = np.asarray(labels)
        places = np.searchsorted(names, given).clip(max=len(names) - 1)
        unknown = given[names[places] != given]
        if len(unknown):
            raise ArgumentError("y", f"have labels among {names.tolist()}", f"one is {unknown.tolist()[0]!r}")
        return cls(names, places)

    @property
    def targets(self) -> FloatArray:
        """Responses: -1 and 1 (n,) for two classes, one-hot (n, K) for more."""
        if len(self.names) == 2:
            return np.asarray(2.0 * self.numbers - 1.0, dtype=np.float64)
        return np.asarray(np.eye(len(self.names))[self.numbers])

    def decide(self, scores: FloatArray) -> AnyArray:
        """Labels for scores (..., ) of two classes, or (..., K) of more: the sign, or the largest."""
        numbers = (scores > 0).astype(int) if len(self.names) == 2 else scores.argmax(axis=-1)
        return np.asarray(self.names[numbers])

    @property
    def balanced(self) -> FloatArray:
        """Weights of the rows (n,) under which all classes weigh the same, with a mean of one."""
        counts = np.bincount(self.numbers)
        return np.asarray(len(self.numbers) / len(counts) / counts[self.numbers])


def classes_of(y: Any, classes: bool | None) -> Classes | None:
    """The classes of y if `classes` says so or its labels are no numbers; None where y is to be predicted as it is.

    >>> classes_of([0.5, 1.0], None) is None, classes_of([True, False], None).names.tolist()
    (True, [False, True])
    """
    if classes is not None and not flag("classes", classes):
        return None
    given = np.asarray(y)
    is_text = given.dtype.kind in "US" or (
        given.dtype == object and any(isinstance(label, str) for label in given.ravel().tolist())
    )
    return Classes.of(given) if classes or is_text or given.dtype.kind == "b" else None


def one_hot(y: FloatArray) -> FloatArray:
    """Targets (n, K) of 0 and 1 that responses (n, t) stand for, whatever was subtracted from their columns.

    One column has two values, one per class; several have one row each whose entry is the larger one.

    >>> one_hot(np.array([[-1.0], [1.0]])).tolist(), one_hot(np.array([[0.4, 0.0], [-0.6, 1.0]])).tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
    """
    above = y - y.min(axis=0)
    gap = float(above.max(initial=0.0))
    found = above > gap / 2
    is_two_valued = gap > 0 and (np.abs(above - gap * found) <= _ROUNDING * gap).all()
    if y.shape[1] == 1:
        found = np.column_stack([~found, found])
    if not is_two_valued or (found.sum(axis=1) != 1).any():
        raise ArgumentError(
            "y",
            "have classes to ask for accuracy: two values, or one column of 0 and 1 for each class",
            f"it has {len(np.unique(y))} values",
            "plan(X, labels, classes=True) learns classes",
        )
    return np.asarray(found, dtype=np.float64)
