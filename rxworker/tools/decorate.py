"""`tool`: from a function to something the model may call."""

from __future__ import annotations

import inspect
import sys
import typing
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar, cast, overload

import msgspec
from msgspec.structs import replace
from reactivex import Observable

from rxworker.errors import ConfigurationError, InvalidArgumentError
from rxworker.messages import CachePoint, ToolMeta
from rxworker.messages.content import TextFormat
from rxworker.tools.base import (
    MAX_OUTPUT,
    Effect,
    Reconcile,
    ToolPolicy,
    check_meta,
    check_name,
    check_policy,
)
from rxworker.tools.context import ToolContext
from rxworker.tools.function import ArgumentDecoder, FunctionTool
from rxworker.tools.schema import input_schema
from rxworker.tools.signature import parse_docstring, read_parameters, resolve

P = ParamSpec("P")
B = TypeVar("B")


@overload
def tool(function: Callable[P, B], /) -> FunctionTool[P, B]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    effect: Effect = "write",
    retries: int = 0,
    barrier: bool = False,
    requires_approval: bool = False,
    max_output: int | None = MAX_OUTPUT,
    strict: bool = False,
    cache_control: CachePoint | None = None,
    defer_loading: bool = False,
    allowed_callers: Iterable[str] = (),
    input_examples: Iterable[Mapping[str, Any]] = (),
    format: TextFormat | None = None,
    reconcile: Reconcile | None = None,
) -> Callable[[Callable[P, B]], FunctionTool[P, B]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    effect: Effect = "write",
    retries: int = 0,
    barrier: bool = False,
    requires_approval: bool = False,
    max_output: int | None = MAX_OUTPUT,
    strict: bool = False,
    cache_control: CachePoint | None = None,
    defer_loading: bool = False,
    allowed_callers: Iterable[str] = (),
    input_examples: Iterable[Mapping[str, Any]] = (),
    format: TextFormat | None = None,  # noqa: A002 - the providers' word for it
    reconcile: Reconcile | None = None,
) -> Any:
    """Make a tool of a function or a method. It can still be called as before.

    The description for the model is made of the signature and the docstring: parameters with their types, defaults and meanings.
    The function may be a plain one, which runs in a thread; a coroutine function; a generator of either sort, whose
    last value is the result and those before it progress; or one that returns an observable, likewise. A parameter
    of type `ToolContext` is not the model's: it receives the call.

    The settings from ``strict`` to ``format`` are those of `ToolMeta`; docs/how-to/tools.md lists which provider supports which.

    Args:
        function: The function, where the decorator stands without parentheses.
        name: The name for the model; by default the function's name.
        description: When and how to use it; the docstring's unless it is given.
        timeout: Seconds until a call is given up.
        effect: ``write`` changes something, ``idempotent`` may be repeated, ``pure`` only looks and may start early.
        retries: How many more times a failed call is made; not for ``write``, which may have been half done.
        barrier: Whether a call runs alone: those before it end first, those after it wait.
        requires_approval: Whether a person must approve each call; the run pauses before it.
        max_output: Characters of a result that are sent to the model; ``None`` sends everything. See `ToolPolicy`.
        strict: Whether the provider holds the model to the schema.
        cache_control: A mark: the provider may cache everything up to this tool.
        defer_loading: Whether the model sees the tool only after a tool search has found it.
        allowed_callers: The callers that may call it: ``direct``, the model itself; ``programmatic``, code that the model writes and
            the provider runs.
        input_examples: Arguments of calls, to show to the model.
        format: The model writes a text instead of a JSON object: ``"text"``, or a `Grammar`. The function then has one
            parameter, a ``str``.
        reconcile: An async function that finds out whether a call had its effect, from its idempotency key and its arguments. A recovered run calls
            it for a call with ``effect="write"`` whose end was not stored; it returns `Done`, `NotDone` or `Unknown`.

    Raises:
        ConfigurationError: No tool can be made of it; the error names the parameter and the remedy.

    >>> @tool
    ... def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> add.meta.name, add.meta.description, add(2, 3)
    ('add', 'Add two numbers.', 5)
    """
    policy = check_policy(
        ToolPolicy(timeout, effect, retries, requires_approval, barrier, max_output)
    )
    hints = ToolMeta(
        name or "",
        description or "",
        {},
        strict,
        cache_control,
        defer_loading,
        _words(allowed_callers),
        tuple(dict(example) for example in input_examples),
        format,
    )

    def decorate(function: Callable[..., Any], names: Mapping[str, Any]) -> FunctionTool[..., Any]:
        return _make(function, name, description, policy, hints, names, reconcile)

    def decorate_below(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        return decorate(function, _names_around())

    return decorate_below if function is None else decorate(function, _names_around())


def _make(
    function: Callable[..., Any],
    name: str | None,
    description: str | None,
    policy: ToolPolicy,
    hints: ToolMeta,
    names: Mapping[str, Any],
    reconcile: Reconcile | None,
) -> FunctionTool[..., Any]:
    function, method = _function(function)
    name = check_name(function.__name__ if name is None else name)
    parameters = read_parameters(function, name, method=method, names=names)
    docstring = parse_docstring(function.__doc__)
    meta = replace(
        hints,
        name=name,
        description=docstring.description if description is None else description,
        input_schema=input_schema(parameters, docstring.parameters, name),
    )
    check_meta(meta)
    arguments = ArgumentDecoder(parameters, name)
    _check_examples(meta, arguments)
    return FunctionTool(
        function,
        meta,
        arguments,
        policy,
        on_loop=_belongs_on_loop(function, names),
        unbound=method,
        reconcile=reconcile,
    )


def _words(words: Iterable[str]) -> tuple[str, ...]:
    """Some words, also where one was given by itself."""
    return (words,) if isinstance(words, str) else tuple(words)


def _check_examples(meta: ToolMeta, arguments: ArgumentDecoder) -> None:
    """Raise for an example that the tool itself would refuse."""
    for example in meta.input_examples:
        try:
            arguments.decode(msgspec.json.encode(example), ToolContext(tool=meta.name))
        except (InvalidArgumentError, TypeError) as error:
            raise ConfigurationError(
                f"tool {meta.name!r}: {example!r} among its input_examples does not fit: {error}"
            ) from error


def _function(function: Any) -> tuple[Callable[..., Any], bool]:
    """The function itself, and whether it is a method that will be given its object."""
    if isinstance(function, FunctionTool):
        raise ConfigurationError(f"{function!r} is a tool already: use @tool once")
    if isinstance(function, staticmethod):
        return cast("Callable[..., Any]", function.__func__), False
    if isinstance(function, classmethod):
        raise ConfigurationError(
            f"{cast('Any', function).__qualname__}: a class method cannot be a tool; make it a method or a function"
        )
    if not inspect.isroutine(function):
        raise ConfigurationError(
            f"{function!r} is not a function: put @tool on a function or a method that calls it"
        )
    if function.__name__ == "<lambda>":
        raise ConfigurationError(
            "a lambda cannot be a tool, since it has no types: write it as a function with def"
        )
    if inspect.ismethod(function):
        return function, False
    # ``App.get_user`` was written in a class; ``f.<locals>.get_user`` in a function.
    scope = function.__qualname__.rpartition(".")[0]
    return function, bool(scope) and not scope.endswith("<locals>")


def _belongs_on_loop(function: Callable[..., Any], names: Mapping[str, Any]) -> bool:
    """Whether calling it does not hold the loop, since it only makes something that works later."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return True
    annotation = getattr(inspect.unwrap(function), "__annotations__", {}).get("return")
    try:
        returned = resolve(annotation, function, names)
    except Exception:
        return False  # it names what is not there yet, such as its own class: an ordinary value
    returned = typing.get_origin(returned) or returned
    return isinstance(returned, type) and issubclass(returned, Observable)


def _names_around() -> Mapping[str, Any]:
    """The local names where the decorator stands, for annotations that are written as text.

    Inside a class these are the names of its body and those of the function around it.
    """
    frame = sys._getframe(2)
    scopes: list[dict[str, Any]] = []
    while frame is not None and frame.f_locals is not frame.f_globals:
        scopes.append(dict(frame.f_locals))
        # Only a class body sees through to what is around it without a closure.
        frame = frame.f_back if "__qualname__" in frame.f_locals else None
    return ChainMap(*scopes)
