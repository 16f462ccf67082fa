"""Expressions and laws from text, such as ``x + y - (x*y + y*x)/2`` and ``x=mp(0.5, 0.2)``.

Python's `ast` reads the text, and nothing of it is run: sums, products, quotients, whole powers, numbers, the
variables that are given, and the calls named here have a meaning; everything else is refused.
"""

import ast
import inspect
import itertools
import keyword
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reshuffle.free import laws
from reshuffle.free.expression import Expression, sqrt, variables
from reshuffle.free.laws import Law
from reshuffle.free.laws.elements import Element

LONGEST = 2000
"""Characters of a text."""
DEEPEST = 40
"""Nested brackets and signs."""
MOST_TERMS = 2000
"""Terms of a product once it is multiplied out."""
LARGEST_EXPONENT = 16
LARGEST = 1e150
"""Size of a number; its square is one too."""

_NAMES: dict[type[Law], str] = {
    laws.Affine: "affine",
    laws.Arcsine: "arcsine",
    laws.Bernoulli: "bernoulli",
    laws.Discrete: "discrete",
    laws.FreePoisson: "free_poisson freepoisson poisson",
    laws.KestenMcKay: "kesten kesten_mckay kestenmckay",
    laws.MarchenkoPastur: "marchenko_pastur marchenkopastur mp",
    laws.Projection: "projection",
    laws.Semicircle: "sc semicircle",
    laws.Uniform: "uniform",
    laws.Wachter: "wachter",
}
LAWS: dict[str, type[Law]] = {name: law for law, names in _NAMES.items() for name in names.split()}
"""Every law that numbers describe, by its names in lower case."""

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def parse(text: str, /, **laws: Law | Element) -> Expression:
    """Return the expression that a text describes, of free variables with the given laws.

    The text has ``+ - * /``, whole powers (``**`` or ``^``), brackets, numbers (imaginary ones end in j),
    variables, ``sqrt(x)`` of a positive variable and ``adjoint(p)``. Nothing of it is run as Python.

    Parameters
    ----------
    text : str
        At most 2000 characters.
    **laws : Law, Spectrum, Circular, HaarUnitary or RDiagonal
        The laws of the variables, by their names.

    Returns
    -------
    Expression
        An expression of variables that are free from each other.

    >>> from reshuffle import free
    >>> law = free.MarchenkoPastur(0.5, 0.2)
    >>> free.parse("x + y - (x*y + y*x)/2", x=law, y=law)
    x + y - 0.5 x y - 0.5 y x
    >>> free.parse("x.real", x=law)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: expression 'x.real': expected ... or one of the variables x, but there is "x.real".
    """
    if not laws:
        raise ValueError(
            f"expression {text!r} needs the law of every variable in it, but there is none; pass x=Semicircle()"
        )
    for name in laws:
        if not name.isidentifier():
            raise ValueError(f"a variable must have a name such as x or w_1, but one is {name!r}; rename it")
    family = dict(zip(laws, variables(*laws.values(), names=list(laws)), strict=True))
    allowed = (
        f"+ - * / **, brackets, numbers, sqrt(...), adjoint(...) or one of the variables {', '.join(laws)}"
    )
    adjoint = lambda x: x.adjoint() if isinstance(x, Expression) else x.conjugate()  # noqa: E731
    result = _Reader("expression", text, allowed, family, {"sqrt": _root, "adjoint": adjoint}).whole()
    if not isinstance(result, Expression):
        raise ValueError(f"expression {text!r} must have a variable in it, but it is the number {result}.")
    return result


def parse_law(text: str) -> Law:
    """Return the law that a text such as ``law(numbers)`` describes, or an affine image of it.

    >>> parse_law("discrete([0, 1], [0.25, 0.75])").atoms
    ((0.0, 0.25), (1.0, 0.75))
    >>> parse_law("2*projection(0.5) - 1").atoms
    ((-1.0, 0.5), (1.0, 0.5))
    """
    law = _Reader("law", text, f"a law ({', '.join(sorted(LAWS))}) of numbers", {}, LAWS).whole()
    if not isinstance(law, Law):
        raise ValueError(f"law {text!r}: expected a law ({', '.join(sorted(LAWS))}), but it is {law!r}.")
    return law


def parse_definitions(definitions: Sequence[str]) -> dict[str, Law]:
    """Return the laws of variables by name, from texts ``name=law(numbers)``.

    >>> parse_definitions(["x = MarchenkoPastur(ratio=0.5, variance=0.2)"])
    {'x': MarchenkoPastur(ratio=0.5, variance=0.2)}
    """
    found: dict[str, Law] = {}
    for text in definitions:
        name, sign, law = (part.strip() for part in text.partition("="))
        if not sign or not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
            raise ValueError(
                f"law {text!r}: expected the name of a variable, = and a law, such as x=mp(0.5, 0.2)."
            )
        if name in found:
            raise ValueError(
                f"every variable must have one law, but {list(definitions)} define {name} twice."
            )
        found[name] = parse_law(law)
    if not found:
        raise ValueError('an expression needs the law of every variable in it, such as "x=mp(0.5, 0.2)".')
    return found


def _root(x: Any) -> Any:
    if isinstance(x, Expression):
        return sqrt(x)
    if isinstance(x, complex) or x < 0:
        raise ValueError(f"sqrt needs a variable or a number >= 0, but it has {x}.")
    return math.sqrt(x)


class _Reader:
    """Values of syntax trees, in which few kinds of nodes, the ``names`` and the ``calls`` have a meaning."""

    def __init__(
        self,
        what: str,
        text: str,
        allowed: str,
        names: Mapping[str, Any],
        calls: Mapping[str, Callable[..., Any]],
    ):
        if len(text) > LONGEST:
            raise ValueError(f"{what} must have at most {LONGEST} characters, but it has {len(text)}.")
        self.what, self.text, self.allowed, self.calls = what, text, allowed, calls
        self.names = dict(names)
        self.source = " ".join(text.split()).replace("^", "**")
        # A variable may be called lambda, which Python keeps for itself.
        for name in filter(keyword.iskeyword, names):
            self.names[f"{name}_"] = self.names.pop(name)
            self.source = re.sub(rf"\b{name}\b", f"{name}_", self.source)

    def whole(self) -> Any:
        """Return the value of the whole text."""
        # Strings would bring warnings of the tokenizer, and other alphabets names that are easily confused.
        strange = re.search(r"[^\w\s.+\-*/^()\[\],=]", self.text, re.ASCII)
        if strange:
            raise self._refused(f'"{strange[0]}"')
        depths = itertools.accumulate(("([".find(c) >= 0) - (")]".find(c) >= 0) for c in self.text)
        if max(depths, default=0) > DEEPEST:
            raise self._too_deep()
        try:
            return self._value(ast.parse(self.source, mode="eval").body, 0)
        except SyntaxError as error:
            raise self._refused(f"{error.msg}, near position {error.offset}") from None
        except (RecursionError, MemoryError):
            raise self._too_deep() from None
        except ZeroDivisionError:
            raise ValueError(f"{self.what} {self.text!r} divides by 0.") from None
        except OverflowError:
            raise ValueError(f"{self.what} {self.text!r} has a number beyond the range of numbers.") from None

    def _value(self, node: ast.expr, depth: int) -> Any:
        if depth > DEEPEST:
            raise self._too_deep()
        match node:
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int(number)):
                return number if abs(number) < 1e15 else self._bounded(float(number))
            case ast.Constant(value=float() | complex() as number):
                return self._bounded(number)
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=inner):
                value = self._value(inner, depth + 1)
                return -value if isinstance(sign, ast.USub) else value
            case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
                return self._power(self._value(base, depth + 1), exponent)
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
                # A sum or product of many terms is a tree as deep as it is long.
                later = []
                while isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
                    later.append((type(node.op), node.right))
                    node = node.left
                total = self._value(node, depth + 1)
                for operation, right in reversed(later):
                    total = self._applied(operation, total, self._value(right, depth + 1))
                return total
            case ast.List(elts=entries) if self.what == "law" and not any(
                isinstance(e, ast.List) for e in entries
            ):
                return [self._value(entry, depth + 1) for entry in entries]
            case ast.Call(func=ast.Name(id=name)) if name.lower() in self.calls:
                return self._call(name, node, depth)
        raise self._refused(f'"{ast.get_source_segment(self.source, node)}"')

    def _applied(self, sign: type[ast.operator], left: Any, right: Any) -> Any:
        if sign is ast.Mult and isinstance(left, Expression) and isinstance(right, Expression):
            count = len(left.terms) * len(right.terms)
            if count > MOST_TERMS:
                raise ValueError(
                    f"{self.what} {self.text!r} must multiply out to at most {MOST_TERMS} terms, "
                    f"but a product in it has {count}."
                )
        return self._bounded(_ARITHMETIC[sign](left, right))

    def _power(self, base: Any, exponent: ast.expr) -> Any:
        sign = 1
        if isinstance(exponent, ast.UnaryOp) and isinstance(exponent.op, ast.USub):
            sign, exponent = -1, exponent.operand
        power = exponent.value if isinstance(exponent, ast.Constant) else None
        if type(power) is not int or power > LARGEST_EXPONENT:
            raise ValueError(
                f"{self.what} {self.text!r}: exponents must be whole numbers between -{LARGEST_EXPONENT} and "
                f"{LARGEST_EXPONENT}, but one is {ast.unparse(exponent)!r}."
            )
        value: Any = 1
        for _ in range(power):
            value = self._applied(ast.Mult, value, base)
        return value if sign > 0 else self._applied(ast.Div, 1, value)

    def _call(self, name: str, node: ast.Call, depth: int) -> Any:
        function = self.calls[name.lower()]
        positional = [self._value(argument, depth + 1) for argument in node.args]
        named: dict[str, Any] = {}
        for argument in node.keywords:
            if argument.arg in named:
                raise self._refused(f"{argument.arg} twice: expected an argument that is not given yet")
            named[str(argument.arg)] = self._value(argument.value, depth + 1)
        try:
            inspect.signature(function).bind(*positional, **named)
        except TypeError as error:
            signature = str(inspect.signature(function)) if self.what == "law" else "(...)"
            raise ValueError(f"{self.what} {self.text!r}: {name}{signature}: {error}.") from None
        return function(*positional, **named)

    def _bounded(self, value: Any) -> Any:
        if isinstance(value, int | float | complex) and not abs(value) <= LARGEST:
            size = "the range of numbers" if math.isinf(abs(value)) else f"{LARGEST:g}"
            raise ValueError(f"{self.what} {self.text!r} has a number beyond {size}.")
        return value

    def _too_deep(self) -> ValueError:
        return ValueError(f"{self.what} must not nest deeper than {DEEPEST} brackets and signs.")

    def _refused(self, found: str) -> ValueError:
        return ValueError(f"{self.what} {self.text!r}: expected {self.allowed}, but there is {found}.")
