"""Public names that are imported when they are used first.

So a program that makes no HTTP request starts without aiohttp, which takes half the time of its imports.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def modules_of(names: Mapping[str, str]) -> dict[str, str]:
    """The module of each name, from the names of each module as a text."""
    return {name: module for module, some in names.items() for name in some.split()}


def getter(
    package: str, modules: Mapping[str, str], missing: Callable[[str], Exception] | None = None
) -> Callable[[str], object]:
    """The ``__getattr__`` of a package that imports its names when they are used.

    Args:
        package: The package.
        modules: The module of each name.
        missing: Makes the error for another name; by default the usual one.
    """

    def get(name: str) -> object:
        module = modules.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}") if missing is None else missing(name)
        value: object = getattr(importlib.import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
