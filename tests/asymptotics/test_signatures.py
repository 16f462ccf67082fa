"""One vocabulary: the same arguments in the same order, typed, and answers that say what their error means."""

import dataclasses
import inspect

from reshuffle import asymptotics, free
from tests.looped import for_all

PUBLIC = [getattr(module, name) for module in (asymptotics, free) for name in module.__all__]
CLASSES = [value for value in PUBLIC if inspect.isclass(value)]


def methods(kind):
    own = [value for name, value in vars(kind).items() if not name.startswith("_") or name == "__init__"]
    return [value for value in own if inspect.isfunction(value)]


QUESTIONS = {
    f"{value.__module__}.{value.__qualname__}": value
    for value in [
        *filter(inspect.isfunction, PUBLIC),
        *(method for kind in CLASSES for method in methods(kind)),
    ]
}


@for_all("name", QUESTIONS)
def test_arguments_come_in_one_order(name):
    names = list(inspect.signature(QUESTIONS[name]).parameters)
    order = ["aspect", "alpha", "batches"] if "aspect" in names else ["batches", "alpha"]
    assert [name for name in names if name in order] == [name for name in order if name in names]


@for_all("kind", [*filter(dataclasses.is_dataclass, CLASSES)])
def test_an_answer_with_an_error_says_its_kind(kind):
    names = {field.name for field in dataclasses.fields(kind)}
    assert "error" not in names or "error_kind" in names
