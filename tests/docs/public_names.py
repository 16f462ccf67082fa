"""The public names of the package, as its users see them."""

import inspect

import reshuffle

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
