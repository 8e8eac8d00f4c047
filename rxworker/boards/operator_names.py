"""What the operators of a pipeline are called, and which one raised an error.

Read from functions and tracebacks, so that operators need not carry names.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import reactivex

import rxworker.operators
from rxworker.operators.decode import decode
from rxworker.operators.expect import operator


def code_of(function: object) -> CodeType | None:
    """The code of a function; ``None`` of any other callable."""
    return getattr(function, "__code__", None)


_OURS, _REACTIVEX = (str(Path(each.__file__ or "").parent) for each in (rxworker, reactivex))
_LIBRARIES = (str(Path(_OURS, "operators")), _REACTIVEX)
COMPOSED = code_of(reactivex.compose(abs))
"""The code of what ``reactivex.compose(...)`` makes."""
_INSIDE = ("rxworker.operators", "reactivex")
"""The modules whose functions are not arguments that a user gives."""
_LIFTS = (operator.__module__, decode.__module__)


def captured_by(function: object) -> dict[str, Any]:
    """The variables that a function has from the one that made it."""
    code, cells = code_of(function), getattr(function, "__closure__", None)
    if code is None or cells is None:
        return {}
    return dict(zip(code.co_freevars, (each.cell_contents for each in cells), strict=True))


def is_library(function: object) -> bool:
    """Whether a function is an operator of rxworker's or reactivex's."""
    function = captured_by(function).get("fun", function)  # curried
    code = code_of(function)
    return code is not None and code.co_filename.startswith(_LIBRARIES)


def name_of(function: object) -> str:
    """The name of an operator: of one of a library also the functions and the numbers that it was given."""
    if isinstance(function, partial):
        return name_of(function.func)
    if not isinstance(function, FunctionType) or not is_library(function):
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return name.replace("<locals>.", "")
    captured = captured_by(function)
    if "fun" in captured:
        name = captured["fun"].__name__
        given = [*captured["args"], *captured["kwargs"].values()]
    else:
        name, given = _made_name(function)
    shown = [text for text in map(_argument, given) if text]
    return f"{name.rstrip('_')}({', '.join(shown)})" if shown else name.rstrip("_")


def _made_name(function: FunctionType) -> tuple[str, Iterable[object]]:
    """The name of an operator that is not curried, and the functions and the seconds that it was given."""
    made: list[Any] = [function]
    verb = ""
    while getattr(made[-1], "__module__", "") in _LIFTS:
        captured = captured_by(made[-1])
        verb = verb or captured.get("events", "")
        following = captured.get("subscribe", captured.get("make"))
        if following is None:
            break
        made.append(following)
    captured = captured_by(made[-1])
    given = [v for key, v in captured.items() if key == "seconds" or (callable(v) and not isinstance(v, type))]
    if verb := verb or str(captured.get("verb", "")):
        whole = verb.removesuffix("(...)").removesuffix("()")
        return whole, () if "(" in whole else given
    for each in reversed(made):
        name = getattr(each, "__qualname__", "").split(".")[0]
        if public := _public_name(name, getattr(each, "__module__", "")):
            return public, given
    return made[0].__qualname__.split(".")[0], given


@cache
def _public_name(name: str, module: str) -> str:
    """The operator of this name, or the one of the module that uses this name."""
    for each in rxworker.operators.__all__:
        made: Any = getattr(rxworker.operators, each)
        is_there = isinstance(made, FunctionType) and made.__module__ == module
        if is_there and (each == name or name in made.__code__.co_names):
            return each
    return ""


def _argument(value: object) -> str:
    """A number or a function that an operator was given; empty for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g}"
    if isinstance(value, partial):
        return _argument(value.func)
    if not callable(value) or getattr(value, "__module__", "").startswith(_INSIDE):
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
    """The operator that a function of a library belongs to."""
    name = function.split(".")[0]
    if module.startswith("reactivex.operators."):
        return name.rstrip("_")
    return _public_name(name, module) if module.startswith("rxworker.operators.") else ""
