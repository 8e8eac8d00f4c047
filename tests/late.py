"""A large package that only the process which runs its tests imports: others collect them."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


class Late:
    """The functions and classes of a package, which is imported when one of them is called.

    The tests of a module that uses one are skipped if it is not installed.

    >>> Late("json").dumps([1])
    '[1]'
    """

    def __init__(self, package: str) -> None:
        try:
            found = find_spec(package)
        except ModuleNotFoundError:  # nor is the package that it would be in
            found = None
        if found is None:
            pytest.skip(f"could not find {package!r}", allow_module_level=True)
        self._package = package

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, name)

    def _call(self, name: str, *given: Any, **named: Any) -> Any:
        return getattr(import_module(self._package), name)(*given, **named)
