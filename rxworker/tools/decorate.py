"""`tool`: from a function to something the model may call."""

from __future__ import annotations

import inspect
import sys
import typing
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

import msgspec
from msgspec import Struct
from reactivex import Observable

from rxworker.errors import ConfigurationError, InvalidArgumentError
from rxworker.messages import CachePoint, ToolMeta
from rxworker.messages.content import TextFormat
from rxworker.messages.settings import check_names
from rxworker.tools.base import Effect, Reconcile, ToolPolicy, check_meta, check_name, check_policy
from rxworker.tools.context import ToolContext
from rxworker.tools.function import ArgumentDecoder, FunctionTool
from rxworker.tools.schema import input_schema
from rxworker.tools.signature import parse_docstring, read_parameters, resolve

P = ParamSpec("P")
B = TypeVar("B")


class ToolSettings(TypedDict, total=False):
    """The settings of a tool.

    Those from ``strict`` to ``native`` are those of `ToolMeta`; docs/how-to/tools.md lists which provider supports
    which.

    Attributes:
        name: The name for the model; by default the function's name.
        description: When and how to use it; the docstring's unless it is given.
        timeout: Seconds until a call is given up; by default never.
        effect: ``write`` changes something, ``idempotent`` may be repeated, ``pure`` only looks and may start early.
            ``write`` by default.
        retries: How many more times a failed call is made; not for ``write``, which may have been half done.
        barrier: Whether a call runs alone: those before it end first, those after it wait.
        requires_approval: Whether a person must approve each call; the run pauses before it.
        max_output: Characters of a result that are sent to the model; ``None`` sends everything. See `ToolPolicy`.
        strict: Whether the provider holds the model to the schema.
        cache_control: A mark: the provider may cache everything up to this tool.
        defer_loading: Whether the model sees the tool only after a tool search has found it.
        allowed_callers: The callers that may call it: ``direct``, the model itself; ``programmatic``, code that the
            model writes and the provider runs.
        input_examples: Arguments of calls, to show to the model.
        format: The model writes a text instead of a JSON object: ``"text"``, or a `Grammar`. The function then has one
            parameter, a ``str``.
        native: The type and the settings of a tool that a provider defines itself, such as ``{"type":
            "bash_20250124"}`` of Anthropic; they are sent in place of the description and the schema. Other providers
            refuse it.
        reconcile: A function, plain or coroutine, that finds out whether a call had its effect, from its idempotency
            key and its arguments. A recovered run calls it for a call with ``effect="write"`` whose end was not stored;
            it returns `Done`, `NotDone` or `Unknown`.
    """

    name: str | None
    description: str | None
    timeout: float | None
    effect: Effect
    retries: int
    barrier: bool
    requires_approval: bool
    max_output: int | None
    strict: bool
    cache_control: CachePoint | None
    defer_loading: bool
    allowed_callers: Iterable[str]
    input_examples: Iterable[Mapping[str, Any]]
    format: TextFormat | None
    native: Mapping[str, Any] | None
    reconcile: Reconcile | None


@overload
def tool(function: Callable[P, B], /) -> FunctionTool[P, B]: ...
@overload
def tool(**settings: Unpack[ToolSettings]) -> Callable[[Callable[P, B]], FunctionTool[P, B]]: ...
def tool(function: Callable[..., Any] | None = None, /, **settings: Unpack[ToolSettings]) -> Any:
    """Make a tool of a function or a method. It can still be called as before.

    The description for the model is made of the signature and the docstring: parameters with their types, defaults and
    meanings. The function may be a plain one, which runs in a thread; a coroutine function; a generator of either sort,
    whose last value is the result and those before it progress; or one that returns an observable, likewise. A
    parameter of type `ToolContext` is not the model's: it receives the call.

    Args:
        function: The function, where the decorator stands without parentheses.
        settings: Its name, time-out and so on; see `ToolSettings`.

    Raises:
        ConfigurationError: No tool can be made of it; the error names the parameter and the remedy.

    >>> @tool
    ... def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> add.meta.name, add.meta.description, add(2, 3)
    ('add', 'Add two numbers.', 5)
    """
    check_names("a tool", settings, ToolSettings.__annotations__)
    policy = check_policy(ToolPolicy(**_those_of(ToolPolicy, settings)))
    settings["allowed_callers"] = _words(settings.get("allowed_callers", ()))
    settings["input_examples"] = tuple(map(dict, settings.get("input_examples", ())))

    def decorate_below(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        return _make(function, settings, policy, _names_around())

    return decorate_below if function is None else _make(function, settings, policy, _names_around())


def _those_of(kind: type[Struct], settings: ToolSettings) -> dict[str, Any]:
    """The settings that are fields of a Struct."""
    return {name: value for name, value in settings.items() if name in kind.__struct_fields__}


def _make(
    function: Callable[..., Any], settings: ToolSettings, policy: ToolPolicy, names: Mapping[str, Any]
) -> FunctionTool[..., Any]:
    function, method = _function(function)
    name, description = settings.get("name"), settings.get("description")
    name = check_name(function.__name__ if name is None else name)
    parameters = read_parameters(function, name, method=method, names=names)
    docstring = parse_docstring(function.__doc__)
    given = _those_of(ToolMeta, settings)
    given["name"] = name
    given["description"] = docstring.description if description is None else description
    meta = check_meta(ToolMeta(**given, input_schema=input_schema(parameters, docstring.parameters, name)))
    arguments = ArgumentDecoder(parameters, name)
    _check_examples(meta, arguments)
    return FunctionTool(
        function,
        meta,
        arguments,
        policy,
        on_loop=_belongs_on_loop(function, names),
        unbound=method,
        reconcile=settings.get("reconcile"),
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
        raise ConfigurationError(f"{function!r} is not a function: put @tool on a function or a method that calls it")
    if function.__name__ == "<lambda>":
        raise ConfigurationError("a lambda cannot be a tool, since it has no types: write it as a function with def")
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
