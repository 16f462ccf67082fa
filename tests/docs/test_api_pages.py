"""The API reference has every public name, once, and docstrings name the parameters that there are."""

import enum
import inspect
import re
from pathlib import Path

import reshuffle
from tests.looped import for_all

PACKAGES = {"reshuffle": reshuffle} | {
    f"reshuffle.{name}": getattr(reshuffle, name)
    for name in reshuffle.__all__
    if inspect.ismodule(getattr(reshuffle, name))
}


def names(module):
    """The names that a package exports: its `__all__`, or its functions."""
    said = getattr(module, "__all__", None)
    if said is not None:
        return [name for name in said if not inspect.ismodule(getattr(module, name))]
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == module.__name__
    ]


def public():
    """Every public name with its object."""
    return {
        f"{package}.{name}": getattr(module, name)
        for package, module in PACKAGES.items()
        for name in names(module)
    }


def methods(value):
    """The public methods that a class of ours, or a base class of ours, defines."""
    if not inspect.isclass(value):
        return {}
    found = {name: inspect.getattr_static(value, name) for name in dir(value) if not name.startswith("_")}
    plain = {name: getattr(method, "__func__", method) for name, method in found.items()}
    return {
        name: method
        for name, method in plain.items()
        if inspect.isfunction(method) and method.__module__.startswith("reshuffle")
    }


PAGES = Path(__file__).parents[2] / "docs/api"
LISTED = [
    name
    for page in sorted(PAGES.glob("*.md"))
    for block in re.findall(r"\.\. autosummary::\n(.*?)```", page.read_text(), re.DOTALL)
    for name in re.findall(r"^   ~(reshuffle[\w.]+)$", block, re.MULTILINE)
]
PUBLIC = public()


def test_there_are_packages():
    assert {"reshuffle", "reshuffle.free", "reshuffle.schedules", "reshuffle.plotting"} <= set(PACKAGES)


def test_no_name_is_listed_twice():
    assert sorted(set(LISTED)) == sorted(LISTED)


@for_all("name", PUBLIC)
def test_a_public_name_has_a_page(name):
    # A name that two packages share, such as ConvergenceError, has one page, to which the other package links.
    shared = [other for other, value in PUBLIC.items() if value is PUBLIC[name]]
    assert sum(other in LISTED for other in shared) == 1, f"{name} belongs on a page of docs/api, once"


@for_all("name", LISTED)
def test_what_has_a_page_is_public(name):
    assert name in PUBLIC


@for_all("package", PACKAGES)
def test_every_package_is_on_the_first_page(package):
    assert f"[`{package}`]" in (PAGES / "index.md").read_text()


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
