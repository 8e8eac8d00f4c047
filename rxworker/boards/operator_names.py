"""What the operators of a pipeline are called, and which one raised an error.

Ours carry their names, which the lift gives them. Those of reactivex are closures over their function and arguments.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import reactivex
from reactivex.internal import curry

import rxworker.operators

_OURS, _REACTIVEX = (str(Path(each.__file__ or "").parent) for each in (rxworker, reactivex))
_INSIDE = ("rxworker.operators", "reactivex")
"""The modules of the operators of libraries; their functions are not arguments that a user gives."""


def is_library(function: object) -> bool:
    """Whether a function is an operator of rxworker's or reactivex's."""
    return isinstance(function, FunctionType) and str(function.__module__).startswith(_INSIDE)


def name_of(function: object) -> str:
    """The name of an operator: of one of a library also the functions and the numbers that it was given."""
    if isinstance(function, partial):
        return name_of(function.func)
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    if not is_library(function):
        return name.replace("<locals>.", "")
    name = getattr(_curried(function).get("fun"), "__name__", name)
    name = name.partition(".<locals>")[0].removesuffix("(...)").removesuffix("()").rstrip("_")
    shown = [text for text in map(_argument, given_to(function)) if text]
    return f"{name}({', '.join(shown)})" if shown else name


def given_to(operator: object) -> Sequence[object]:
    """What an operator of a library was given; nothing if it is not known."""
    found = _curried(operator)
    return getattr(operator, "given", None) or (*found.get("args", ()), *found.get("kwargs", {}).values())


def _curried(operator: object) -> Mapping[str, Any]:
    """The variables of what reactivex's ``curry_flip`` makes, which nearly all its operators are; none of another."""
    if not isinstance(operator, FunctionType) or operator.__module__ != curry.__name__:
        return {}
    return inspect.getclosurevars(operator).nonlocals


def _argument(value: object) -> str:
    """A number or a function that an operator was given; empty for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g}"
    if isinstance(value, partial):
        return _argument(value.func)
    if not callable(value) or str(getattr(value, "__module__", "")).startswith(_INSIDE):
        return ""
    name: str = getattr(value, "__qualname__", "")
    return name.rpartition(".")[2] if isinstance(value, FunctionType) else name


def explained(error: Exception, group: str, operator: str = "") -> str:
    """An error as users see it.

    What it is, the function of the pipeline that raised it, and the operator that has called it.

    Args:
        error: The error.
        group: The group of the panel.
        operator: The operator; by default it is read from the traceback, as far as that shows it.
    """
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    place, called = "", ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if not code.co_filename.startswith((_OURS, _REACTIVEX)):
            place = f"in {code.co_name}, {Path(code.co_filename).name}:{line}"
        elif not place:
            called = _operator_of(frame.f_globals["__name__"], code.co_qualname) or called
    operator = operator or (place and called)
    places = [text for text in (place, operator and f"operator {operator}") if text]
    where = f" ({'; '.join(places)})" if places else ""
    return f"{group}: {text}{where}" if group else f"{text}{where}"


def _operator_of(module: str, function: str) -> str:
    """The operator that a function of a library belongs to; of a private one of ours, their module."""
    if not module.startswith(("reactivex.operators.", "rxworker.operators.")):
        return ""
    name = function.partition(".")[0]
    return (
        name.rstrip("_") if "reactivex" in module or name in rxworker.operators.__all__ else module.rpartition(".")[2]
    )
