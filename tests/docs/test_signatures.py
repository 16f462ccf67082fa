"""Docstrings name the parameters that there are, and say what comes back."""

import enum
import inspect
import re

import reshuffle
from tests.docs.public_names import methods, public
from tests.looped import for_all

PUBLIC = public()
FUNCTIONS = {name: value for name, value in PUBLIC.items() if inspect.isfunction(value)}
CLASSES = {name: value for name, value in PUBLIC.items() if inspect.isclass(value)}
METHODS = {
    f"{name}.{method}": (value, function)
    for name, value in CLASSES.items()
    # What schemes declare for those who compute is described where it is declared.
    if not issubclass(value, reshuffle.Scheme) or value is reshuffle.Scheme
    for method, function in methods(value).items()
}


def parameters(function):
    """Those that a caller names; what is only for the inside begins or ends with an underscore."""
    found = [name for name in inspect.signature(function).parameters if name not in {"self", "cls"}]
    return [name for name in found if not name.startswith("_") and not name.endswith("_")]


def section(text, title):
    r"""The names that a section of a docstring explains, or None without one.

    >>> section("One.\n\nParameters\n----------\na, b : int\n    Two.\n*c\n\n>>> 1", "Parameters")
    ['a', 'b', 'c']
    """
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n---|^>>>|\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        return None
    heads = [line for line in found[1].splitlines() if line and not line.startswith(" ")]
    return [name.strip().lstrip("*") for head in heads for name in head.split(" :")[0].split(",")]


def test_there_is_something_to_compare():
    assert len(FUNCTIONS) > 30
    assert len(CLASSES) > 70
    assert len(METHODS) > 150


@for_all("name", FUNCTIONS)
def test_a_function_explains_its_parameters_and_what_it_returns(name):
    text = inspect.getdoc(FUNCTIONS[name])
    assert sorted(section(text, "Parameters") or []) == sorted(parameters(FUNCTIONS[name]))
    assert section(text, "Returns")


@for_all("name", CLASSES)
def test_a_class_explains_what_it_is_made_of(name):
    made = CLASSES[name]
    # Nobody makes these: they are caught, derived from, or chosen from a list.
    if issubclass(made, Exception | Warning | enum.Enum) or inspect.isabstract(made):
        return
    text = inspect.getdoc(made)
    explained = section(text, "Parameters"), section(text, "Attributes")
    wanted = parameters(made)
    if explained[0] is not None:
        assert sorted(explained[0]) == sorted(wanted)
    elif explained[1] is not None:
        assert set(explained[1]) >= set(wanted)
    else:
        assert [name for name in wanted if not re.search(rf"\b{name}\b", text)] == []


@for_all("name", METHODS)
def test_a_method_names_its_parameters(name):
    made, function = METHODS[name]
    text = inspect.getdoc(function)
    # What the sentences above name with its shape need not be listed once more; but nothing that is not there.
    assert set(section(text, "Parameters") or []) <= set(parameters(function))
    said = text + (inspect.getdoc(made) or "")
    assert [name for name in parameters(function) if not re.search(rf"\b{name}\b", said)] == []
