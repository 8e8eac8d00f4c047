"""What the operators of a pipeline are called, and which one raised an error.

Ours carry their names, which the lift gives them. Those of reactivex are named as they are written in the program.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import traceback
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from types import FrameType, FunctionType
from typing import cast

import reactivex

import rxworker.operators

_OURS, _REACTIVEX = (str(Path(each.__file__ or "").parent) for each in (rxworker, reactivex))
_INSIDE = ("rxworker.operators", "reactivex")
"""The modules of the operators of libraries; their functions are not arguments that a user gives."""


def is_library(function: object) -> bool:
    """Whether a function is an operator of rxworker's or reactivex's."""
    return isinstance(function, FunctionType) and str(function.__module__).startswith(_INSIDE)


def name_of(function: object) -> str:
    """The name of an operator: of one of ours also the functions and the numbers that it was given."""
    if isinstance(function, partial):
        return name_of(function.func)
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    if not is_library(function):
        return name.replace("<locals>.", "")
    name = name.partition(".<locals>")[0].removesuffix("(...)").removesuffix("()")
    shown = [text for text in map(_argument, getattr(function, "given", ())) if text]
    return f"{name}({', '.join(shown)})" if shown else name


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


def written_at(frame: FrameType) -> Sequence[ast.expr]:
    """The operators of the call of ``pipe`` that a frame is in, as they are written.

    None where the program's text is not there, or does not show each of them.
    """
    info = inspect.getframeinfo(frame, context=0)
    return _arguments(info.filename, info.positions) if info.positions else ()


@lru_cache(maxsize=256)  # the pipelines of all groups are written in the same place
def _arguments(file: str, positions: object) -> Sequence[ast.expr]:
    text = "".join(linecache.getlines(file))
    try:
        # The positions of a call have the attributes of a node.
        call = ast.parse(f"({ast.get_source_segment(text, cast('ast.expr', positions))})", mode="eval").body
    except (SyntaxError, ValueError, IndexError):  # the text has changed
        return ()
    given = call.args if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "pipe" else ()
    return () if any(isinstance(each, ast.Starred) for each in given) else given


def written_name(operator: ast.expr) -> str:
    """The name of an operator as it is written, with the names and the numbers that it is given.

    Other text, which may be secret, is left out.
    """
    if not isinstance(operator, ast.Call):
        return ast.unparse(operator) if isinstance(operator, ast.Name | ast.Attribute) else "operator"
    shown = [
        "<lambda>" if isinstance(each, ast.Lambda) else ast.unparse(each)
        for each in (*operator.args, *(keyword.value for keyword in operator.keywords))
        if isinstance(each, ast.Name | ast.Attribute | ast.Lambda)
        or (isinstance(each, ast.Constant) and isinstance(each.value, int | float))
    ]
    name = ast.unparse(operator.func).rpartition(".")[2]
    return f"{name}({', '.join(shown)})" if shown else name


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
