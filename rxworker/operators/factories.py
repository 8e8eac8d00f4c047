"""Functions that make operators, distinguished from operators, since their parentheses are easily forgotten."""

from __future__ import annotations

import inspect
import sys
from types import FunctionType

from rxworker.errors import ConfigurationError
from rxworker.messages.settings import is_coroutine_function


def expect_operator(operator: object) -> None:
    """Refuse what makes an operator, in place of the operator: the commonest mistake is to forget the parentheses.

    Raises:
        ConfigurationError: It cannot be called with an observable alone.

    >>> from reactivex import operators as ops
    >>> expect_operator(ops.map)
    Traceback (most recent call last):
    ...
    rxworker.errors.ConfigurationError: map makes an operator and is not one: write map(...), with parentheses
    More: rxworker docs reference/operators
    """
    if isinstance(operator, type):
        name = operator.__name__
        raise ConfigurationError(f"{name} is a class and not an operator: write {name}(...)")
    if not callable(operator):
        message = f"{operator!r:.80} is not an operator: give for example ops.filter(...)"
        raise ConfigurationError(message)
    if is_coroutine_function(operator):
        name = getattr(operator, "__name__", type(operator).__name__)
        message = (
            f"{name} is not an operator, which returns an observable at once, but a coroutine function: write def, "
            "without async"
        )
        raise ConfigurationError(message)
    if not isinstance(operator, FunctionType):
        return
    name = operator.__name__
    if _makes_one(operator) or not _takes_one(operator):
        message = f"{name} makes an operator and is not one: write {name}(...), with parentheses"
        raise ConfigurationError(message)


def _makes_one(function: FunctionType) -> bool:
    """Whether it is annotated as one, or public in rxworker's or reactivex's operators, all of which make one."""
    if str(function.__annotations__.get("return", "")).startswith("Operator["):
        return True
    for name in ("rxworker.operators", "reactivex.operators"):
        module = sys.modules.get(name)
        if module is not None and module.__dict__.get(function.__name__) is function:
            return True
    return False


def _takes_one(function: FunctionType) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # it has no signature
        return True
    return True
