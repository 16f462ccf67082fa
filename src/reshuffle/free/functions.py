"""Functions of a variable: letters of their own, and expressions in which each is a variable with its own law."""

from collections.abc import Callable, Iterator
from typing import Any, overload

import numpy as np

from reshuffle.free.checks import Real
from reshuffle.free.expression import (
    Expression,
    Family,
    Image,
    Inverse,
    Letter,
    Variable,
    Word,
)
from reshuffle.free.laws import Law, Pushforward


@overload
def sqrt(x: Law) -> Law: ...
@overload
def sqrt(x: Expression) -> Expression: ...
def sqrt(x: Law | Expression) -> Law | Expression:
    """Return the square root s of a positive variable, ``s * s = x``, or the law of the root from that of x.

    A variable and its root may meet in one expression: it is then one in the root alone.

    Parameters
    ----------
    x : Expression or Law
        A variable of a law on x >= 0, or such a law.

    Returns
    -------
    Expression or Law
        As x is one.

    >>> from reshuffle import free
    >>> law = free.MarchenkoPastur(1.0)
    >>> w1, w2 = free.variables(law, law)
    >>> free.spectrum(free.sqrt(w1) * w2 * free.sqrt(w1)).moments(3).round(9)
    array([ 1.,  3., 12.])
    """
    law = x if isinstance(x, Law) else _single(x, "sqrt")[1]
    low = min([a for a, _ in law.support] + [place for place, _ in law.atoms])
    if low < 0:
        raise ValueError(
            f"sqrt needs a law on x >= 0, but it is given {law!r}, which reaches down to {low:g}; take sqrt of its"
            f" square, or apply(f, x)"
        )
    return _root(law) if isinstance(x, Law) else _image(x, np.sqrt, "sqrt")


@overload
def apply(
    function: Callable[[Real], Any], x: Law, *, derivative: Callable[[Real], Any] | None = None
) -> Law: ...
@overload
def apply(
    function: Callable[[Real], Any], x: Expression, *, derivative: Callable[[Real], Any] | None = None
) -> Expression: ...
def apply(
    function: Callable[[Real], Any],
    x: Law | Expression,
    *,
    derivative: Callable[[Real], Any] | None = None,
) -> Law | Expression:
    """Return f(x) for a real function f of one variable, or the law of f(x) from that of x.

    f is cut into pieces on which it rises, falls or stands still; where it stands still the law has an atom.

    Parameters
    ----------
    function : callable
        f, vectorised, and continuous on the spectrum.
    x : Expression or Law
        A variable, or a law: that of an expression too, with ``spectrum(p)``.
    derivative : callable, optional
        f', for laws; by a complex step or by differences unless given.

    Returns
    -------
    Expression or Law
        As x is one. In an expression f(x) may not meet x itself, nor another function of it.

    >>> from reshuffle import free
    >>> rectified = free.apply(lambda t: np.maximum(t, 0.0), free.Semicircle())
    >>> [(place, round(mass, 12)) for place, mass in rectified.atoms], rectified.support
    ([(0.0, 0.5)], ((0.0, 2.0),))
    """
    if isinstance(x, Law):
        return Pushforward(x, function, derivative=derivative)
    return _image(x, function, getattr(function, "__name__", "f").strip("<>"))


def _root(law: Law) -> Law:
    return Pushforward(law, np.sqrt, inverse=np.square, derivative=lambda x: 0.5 / np.sqrt(x), name="sqrt")


def _single(x: Any, name: str) -> tuple[Variable, Law]:
    """Return the one variable that x is, and its law."""
    if isinstance(x, Expression) and len(x.terms) == 1:
        ((word, value),) = x.terms.items()
        if len(word) == 1 and isinstance(word[0], Variable) and not np.ndim(value) and value == 1:
            return word[0], word[0].family.laws[word[0].index]
    raise ValueError(
        f"{name} needs one variable or a law, but it is given {x!r}; of an expression p there is the law"
        f" {name}(spectrum(p)), of a variable"
        " that is free from all others"
    )


def _image(x: Expression, function: Callable[[Any], Any], label: str) -> Expression:
    return Expression({(Image(_single(x, label)[0], function, label),): 1}, x.family)


def generated(expression: Expression) -> Expression:
    """Return the same operator without functions: each variable replaced by the function of it that occurs.

    A variable that meets its square root becomes the square of it. The law of the new variable is a pushforward.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.MarchenkoPastur(1.0), free.Semicircle())
    >>> generated(free.sqrt(x) * y * free.sqrt(x) + x)
    sqrt(x1)^2 + sqrt(x1) x2 sqrt(x1)
    """
    letters = set(_letters(expression))
    images = {letter.variable.index: letter for letter in letters if isinstance(letter, Image)}
    if not images:
        return expression
    for letter in letters:
        other = images.get(letter.index if isinstance(letter, Variable) else letter.variable.index)
        if (
            other is not None
            and letter != other
            and not (isinstance(letter, Variable) and other.function is np.sqrt)
        ):
            raise ValueError(
                f"{other.name} may not meet {letter.name} in one expression, but it does in {expression!r}; only a"
                f" square root and its variable"
                " may: write both as polynomials of one function of the variable"
            )
    assert expression.family is not None
    return _rewritten(expression, images, _family(expression.family, images))


def _letters(expression: Expression) -> Iterator[Variable | Image]:
    for word in expression.terms:
        for letter in word:
            if isinstance(letter, Inverse):
                yield from _letters(letter.of)
            else:
                yield letter


def _family(family: Family, images: dict[int, Image]) -> Family:
    """Return the family in which these variables are replaced by their functions, the same one each time."""
    key = frozenset(images.values())
    if key not in family.derived:
        laws, names = list(family.laws), list(family.names)
        for index, image in images.items():
            law = family.laws[index]
            laws[index] = (
                _root(law)
                if image.function is np.sqrt
                else Pushforward(law, image.function, name=image.label)
            )
            names[index] = image.name
        family.derived[key] = Family(tuple(laws), tuple(names))
    return family.derived[key]


def _rewritten(expression: Expression, images: dict[int, Image], family: Family) -> Expression:
    total = Expression({}, family)
    for word, value in expression.terms.items():
        new: Word = ()
        for letter in word:
            new = (*new, *_replaced(letter, images, family))
        total = total + Expression({new: value}, family)
    return total


def _replaced(letter: Letter, images: dict[int, Image], family: Family) -> Word:
    if isinstance(letter, Inverse):
        return (Inverse(_rewritten(letter.of, images, family)),)
    index = letter.variable.index if isinstance(letter, Image) else letter.index
    whole = isinstance(letter, Variable) and index in images
    return (Variable(family, index),) * (2 if whole else 1)
